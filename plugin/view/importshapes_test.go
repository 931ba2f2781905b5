package view

import (
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	appv1 "huolala.cn/app-operator/api/v1"
	"huolala.cn/app-operator/internal/fields/fieldtest"
	"huolala.cn/app-operator/resource"
)

// shape are the facts of a workload that others run.
type shape struct {
	selector, podLabels, labels, annotations map[string]string
	services                                 []corev1.Service
	others                                   []PodsOf
	pod                                      func(*corev1.PodSpec)
	// notes are in the comments. differs are what the App cannot have.
	notes, differs []string
	holds          func(*appv1.AppSpec) bool
}

func (s *shape) source() *Source {
	d := foreignDeployment(func(p *corev1.PodSpec) {
		p.TopologySpreadConstraints = nil
		if s.pod != nil {
			s.pod(p)
		}
	})
	d.UID = "d"
	d.Labels, d.Annotations = s.labels, s.annotations
	d.Spec.Selector.MatchLabels, d.Spec.Template.Labels, d.Spec.Template.Annotations = s.selector, s.podLabels, nil
	return &Source{Deployment: d, Services: s.services, Others: s.others}
}

// live returns a Service as the API server keeps it, with the addresses and node ports that it has chosen.
func live(name string, selector, labels map[string]string, change func(*corev1.Service)) corev1.Service {
	s := foreignService(name, selector)
	s.UID, s.Labels = "s", labels
	s.Spec.ClusterIP, s.Spec.ClusterIPs = "10.0.0.7", []string{"10.0.0.7"}
	s.Spec.IPFamilies, s.Spec.IPFamilyPolicy = []corev1.IPFamily{corev1.IPv4Protocol}, ptr.To(corev1.IPFamilyPolicySingleStack)
	s.Spec.InternalTrafficPolicy = ptr.To(corev1.ServiceInternalTrafficPolicyCluster)
	s.ManagedFields = []metav1.ManagedFieldsEntry{fieldtest.Entry("kubectl", metav1.ManagedFieldsOperationUpdate, "", `{"f:spec":{"f:selector":{},"f:type":{}}}`)}
	if change != nil {
		change(&s)
	}
	return s
}

// exposed gives a Service a type with a node port, which a manager has set or not.
func exposed(kind corev1.ServiceType, stated bool) func(*corev1.Service) {
	return func(s *corev1.Service) {
		s.Spec.Type, s.Spec.Ports[0].NodePort = kind, 30080
		s.Spec.ExternalTrafficPolicy = corev1.ServiceExternalTrafficPolicyCluster
		if kind == corev1.ServiceTypeLoadBalancer {
			s.Spec.AllocateLoadBalancerNodePorts = ptr.To(true)
		}
		if stated {
			s.ManagedFields = append(s.ManagedFields, fieldtest.Entry("helm", metav1.ManagedFieldsOperationUpdate, "",
				`{"f:spec":{"f:ports":{"k:{\"port\":8080,\"protocol\":\"TCP\"}":{"f:nodePort":{},"f:port":{}}}}}`))
		}
	}
}

// exported gives a Service a type with a node port, and no managed fields.
func exported(kind corev1.ServiceType) func(*corev1.Service) {
	return func(s *corev1.Service) {
		exposed(kind, false)(s)
		s.ManagedFields = nil
	}
}

func kubernetesLabels(name, instance, component, version string) map[string]string {
	return map[string]string{
		appv1.LabelName: name, appv1.LabelInstance: instance, appv1.LabelComponent: component, "app.kubernetes.io/version": version,
		"app.kubernetes.io/part-of": "kube-prometheus",
	}
}

func with(labels map[string]string, key, value string) map[string]string {
	all := maps.Clone(labels)
	all[key] = value
	return all
}

var (
	stack        = kubernetesLabels("prometheus", "k8s", "prometheus", "2.53.0")
	selectsStack = map[string]string{appv1.LabelName: "prometheus", appv1.LabelInstance: "k8s", appv1.LabelComponent: "prometheus"}
	run          = map[string]string{"app": "web"}
)

// shapes are what applications of others have: kube-prometheus, charts of Helm, kustomize, Bookinfo, train-ticket and others.
var shapes = map[string]shape{
	"a selector with three labels, and a ServiceMonitor that goes by labels of the Service": {
		selector: selectsStack, podLabels: stack, labels: stack, services: []corev1.Service{live("web", selectsStack, stack, nil)},
		holds: func(s *appv1.AppSpec) bool {
			return maps.Equal(s.Labels, stack) && maps.Equal(s.PodLabels, stack) && len(s.WorkloadLabels)+len(s.Service.Labels) == 0
		},
	},
	"labels of a chart": {
		selector:  map[string]string{appv1.LabelName: "web", appv1.LabelInstance: "main"},
		podLabels: map[string]string{appv1.LabelName: "web", appv1.LabelInstance: "main"},
		labels: map[string]string{
			appv1.LabelName: "web", appv1.LabelInstance: "main", appv1.LabelManagedBy: "Helm", "helm.sh/chart": "web-1.2.3",
		},
		annotations: map[string]string{"meta.helm.sh/release-name": "main", "meta.helm.sh/release-namespace": "shop", "helm.sh/resource-policy": "keep", "deployment.kubernetes.io/revision": "3"},
		services: []corev1.Service{live("web", map[string]string{appv1.LabelName: "web", appv1.LabelInstance: "main"}, map[string]string{
			appv1.LabelName: "web", appv1.LabelInstance: "main", appv1.LabelManagedBy: "Helm", "helm.sh/chart": "web-1.2.3",
		}, nil)},
		notes: []string{
			"Deployment: metadata.annotations[meta.helm.sh/release-name] is for Helm", "metadata.annotations[helm.sh/resource-policy] is for Helm", "metadata.labels[app.kubernetes.io/managed-by] becomes app-operator",
		},
		holds: func(s *appv1.AppSpec) bool {
			return maps.Equal(s.Labels, map[string]string{appv1.LabelInstance: "main", "helm.sh/chart": "web-1.2.3"}) &&
				maps.Equal(s.PodLabels, map[string]string{appv1.LabelInstance: "main"}) && len(s.WorkloadAnnotations) == 0
		},
	},
	"labels of kustomize, and one of the Service alone": {
		selector: run, podLabels: with(run, "env", "prod"), labels: with(run, "env", "prod"),
		annotations: map[string]string{"reloader.stakater.com/auto": "true"},
		services: []corev1.Service{live("web", run, map[string]string{"env": "prod", "release": "prometheus"}, func(s *corev1.Service) {
			s.Annotations = map[string]string{"prometheus.io/scrape": "true"}
		})},
		holds: func(s *appv1.AppSpec) bool {
			return maps.Equal(s.Labels, map[string]string{"env": "prod"}) && maps.Equal(s.WorkloadLabels, run) && len(s.Annotations) == 0 &&
				maps.Equal(s.Service.Labels, map[string]string{"release": "prometheus"}) && s.Service.Annotations["prometheus.io/scrape"] == "true" &&
				s.WorkloadAnnotations["reloader.stakater.com/auto"] == "true"
		},
	},
	"a Service over versions": {
		selector: map[string]string{"app": "reviews", "version": "v1"}, podLabels: map[string]string{"app": "reviews", "version": "v1"},
		services: []corev1.Service{live("web", map[string]string{"app": "reviews"}, nil, nil)},
		notes:    []string{"Service web: spec.selector selects the pods by other labels than the Deployment"},
		holds: func(s *appv1.AppSpec) bool {
			return len(s.Ports) == 0 && maps.Equal(s.PodLabels, map[string]string{"app": "reviews", "version": "v1"})
		},
	},
	"a canary behind the Service of the Deployment": {
		selector: run, podLabels: run, services: []corev1.Service{live("web", run, nil, nil)},
		others: []PodsOf{{Kind: "Deployment", Name: "web-canary", Labels: with(run, "track", "canary")}, {Kind: "Deployment", Name: "db", Labels: map[string]string{"app": "db"}}},
		notes:  []string{"Service web: spec.selector also selects the pods of Deployment web-canary; the Service stays as it is"},
		holds:  func(s *appv1.AppSpec) bool { return len(s.Ports) == 0 && s.PodLabels["app"] == "web" },
	},
	"a LoadBalancer whose node port the cluster has chosen": {
		selector: run, podLabels: run, services: []corev1.Service{live("web", run, nil, exposed(corev1.ServiceTypeLoadBalancer, false))},
		holds: func(s *appv1.AppSpec) bool {
			return s.Service.Type == corev1.ServiceTypeLoadBalancer && s.Ports[0].NodePort == 0
		},
	},
	"a node port that the cluster has chosen": {
		selector: run, podLabels: run, services: []corev1.Service{live("web", run, nil, exposed(corev1.ServiceTypeNodePort, false))},
		holds: func(s *appv1.AppSpec) bool {
			return s.Service.Type == corev1.ServiceTypeNodePort && s.Ports[0].NodePort == 0
		},
	},
	"a node port that a chart has chosen": {
		selector: run, podLabels: run, services: []corev1.Service{live("web", run, nil, exposed(corev1.ServiceTypeNodePort, true))},
		holds: func(s *appv1.AppSpec) bool { return s.Ports[0].NodePort == 30080 },
	},
	"a node port in an export of kubectl, which leaves the managed fields out": {
		selector: run, podLabels: run, services: []corev1.Service{live("web", run, nil, exported(corev1.ServiceTypeNodePort))},
		notes: []string{"Service web: spec.ports[8080/TCP].nodePort is in the App; the cluster may have chosen it"},
		holds: func(s *appv1.AppSpec) bool {
			return s.Ports[0].NodePort == 30080 && s.Service.IPFamilies == nil && s.Service.ClusterIP == ""
		},
	},
	"a Service in an export of kubectl": {
		selector: run, podLabels: run, services: []corev1.Service{live("web", run, nil, func(s *corev1.Service) { s.ManagedFields = nil })},
		holds: func(s *appv1.AppSpec) bool { return reflect.DeepEqual(s.Service, appv1.ServiceSpec{}) },
	},
	"a port for health checks in an export of kubectl, which the cluster has chosen": {
		selector: run, podLabels: run, services: []corev1.Service{live("web", run, nil, func(s *corev1.Service) {
			exported(corev1.ServiceTypeLoadBalancer)(s)
			s.Spec.ExternalTrafficPolicy, s.Spec.HealthCheckNodePort = corev1.ServiceExternalTrafficPolicyLocal, 31080
		})},
		holds: func(s *appv1.AppSpec) bool { return s.Ports[0].NodePort == 30080 },
	},
	"a spread without a selector, which counts no pods": {
		selector: run, podLabels: run, pod: func(p *corev1.PodSpec) {
			p.TopologySpreadConstraints = []corev1.TopologySpreadConstraint{
				{MaxSkew: 1, TopologyKey: corev1.LabelTopologyZone, WhenUnsatisfiable: corev1.DoNotSchedule},
				{MaxSkew: 1, TopologyKey: corev1.LabelHostname, WhenUnsatisfiable: corev1.ScheduleAnyway, LabelSelector: &metav1.LabelSelector{MatchLabels: run}},
			}
		},
		notes:   []string{"Deployment: spec.template.spec.topologySpreadConstraints[topology.kubernetes.io/zone].labelSelector is not there"},
		differs: []string{`Deployment web spec.template.spec.topologySpreadConstraints[topology.kubernetes.io/zone].labelSelector: none -> {"matchLabels":{"app.huolala.cn/app":"web"}}`},
		holds:   func(s *appv1.AppSpec) bool { return len(s.TopologySpreadConstraints) == 2 },
	},
	"a spread without a selector, as the operator states by default": {
		selector: run, podLabels: run, pod: func(p *corev1.PodSpec) {
			for _, key := range []string{corev1.LabelHostname, corev1.LabelTopologyZone} {
				p.TopologySpreadConstraints = append(p.TopologySpreadConstraints, corev1.TopologySpreadConstraint{MaxSkew: 1, TopologyKey: key, WhenUnsatisfiable: corev1.ScheduleAnyway})
			}
		},
		notes: []string{"[kubernetes.io/hostname].labelSelector is not there", "[topology.kubernetes.io/zone].labelSelector is not there"},
		differs: []string{
			`Deployment web spec.template.spec.topologySpreadConstraints[kubernetes.io/hostname].labelSelector: none -> {"matchLabels":{"app.huolala.cn/app":"web"}}`,
			`Deployment web spec.template.spec.topologySpreadConstraints[topology.kubernetes.io/zone].labelSelector: none -> {"matchLabels":{"app.huolala.cn/app":"web"}}`,
		},
	},
	"an address of the user's": {
		selector: run, podLabels: run, services: []corev1.Service{live("web", run, nil, func(s *corev1.Service) {
			s.ManagedFields = append(s.ManagedFields, fieldtest.Entry("kubectl-create", metav1.ManagedFieldsOperationUpdate, "", `{"f:spec":{"f:clusterIP":{}}}`))
		})},
		notes: []string{"Service web: spec.clusterIP stays as it is"}, differs: []string{"Service web spec.clusterIP: 10.0.0.7 -> none"},
	},
	"a headless Service": {
		selector: run, podLabels: run, services: []corev1.Service{live("web", run, nil, func(s *corev1.Service) {
			s.Spec.ClusterIP, s.Spec.ClusterIPs = corev1.ClusterIPNone, []string{corev1.ClusterIPNone}
		})},
		holds: func(s *appv1.AppSpec) bool { return s.Service.ClusterIP == corev1.ClusterIPNone },
	},
	"liveness without readiness": {
		selector: run, podLabels: run, services: []corev1.Service{live("web", run, nil, nil)}, pod: func(p *corev1.PodSpec) {
			p.Containers[0].LivenessProbe, p.Containers[0].ReadinessProbe = p.Containers[0].ReadinessProbe, nil
		},
		holds: func(s *appv1.AppSpec) bool {
			return s.Probes.Disabled && s.Probes.Liveness != nil && s.Probes.Readiness == nil
		},
	},
	"a worker without ports and probes": {
		selector: run, podLabels: run, pod: func(p *corev1.PodSpec) { p.Containers[0].ReadinessProbe, p.Containers[0].Ports = nil, nil },
		holds: func(s *appv1.AppSpec) bool { return s.Probes == appv1.Probes{} },
	},
	"a label that is the operator's in the selector": {
		selector: with(run, appv1.LabelManagedBy, "Helm"), podLabels: with(run, appv1.LabelManagedBy, "Helm"),
		notes: []string{"Deployment: spec.template.metadata.labels[app.kubernetes.io/managed-by] stays while the Deployment exists"},
	},
	"what an App has left behind": {
		selector: map[string]string{appv1.LabelApp: "web"}, podLabels: map[string]string{
			appv1.LabelApp: "web", appv1.LabelName: "web", appv1.LabelInstance: "web", appv1.LabelComponent: "app", appv1.LabelManagedBy: appv1.ManagedBy,
		},
		labels:   map[string]string{appv1.LabelName: "web", appv1.LabelInstance: "web", appv1.LabelComponent: "app"},
		services: []corev1.Service{live("web", map[string]string{appv1.LabelApp: "web"}, nil, func(s *corev1.Service) { s.Spec.Ports[0].TargetPort = intstr.FromInt32(80) })},
		notes:    []string{"labels[app.kubernetes.io/managed-by] is the operator's to set"},
		pod: func(p *corev1.PodSpec) {
			p.Containers[0].ReadinessProbe = &corev1.Probe{
				ProbeHandler:  corev1.ProbeHandler{TCPSocket: &corev1.TCPSocketAction{Port: intstr.FromInt32(80)}},
				PeriodSeconds: 5, FailureThreshold: 3, TimeoutSeconds: 5, SuccessThreshold: 1,
			}
			for _, key := range []string{corev1.LabelHostname, corev1.LabelTopologyZone} {
				p.TopologySpreadConstraints = append(p.TopologySpreadConstraints, corev1.TopologySpreadConstraint{
					MaxSkew: 1, TopologyKey: key, WhenUnsatisfiable: corev1.ScheduleAnyway,
					LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{appv1.LabelApp: "web"}},
				})
			}
		},
		holds: func(s *appv1.AppSpec) bool {
			return len(s.PodLabels)+len(s.Labels)+len(s.ContainerPorts)+len(s.TopologySpreadConstraints) == 0 && s.Probes == appv1.Probes{}
		},
	},
}

// TestImportShapes imports workloads that others run, and builds each App as in an empty namespace: it means the same, but for what a comment
// names.
func TestImportShapes(t *testing.T) {
	for name, s := range shapes {
		t.Run(name, func(t *testing.T) {
			from := s.source()
			made, err := ImportOf(from)
			if err != nil {
				t.Fatal(err)
			}
			for _, want := range s.notes {
				if !strings.Contains(made.HeadComments(), want) {
					t.Errorf("want %q in\n%s", want, made.HeadComments())
				}
			}
			if s.holds != nil && !s.holds(&made.App.Spec) {
				t.Errorf("the spec is %+v", made.App.Spec)
			}
			verified, err := VerifyImport(made, from)
			if err != nil {
				t.Fatal(err)
			}
			var differs []string
			for _, d := range verified.Differences {
				differs = append(differs, d.String())
			}
			if !slices.Equal(differs, s.differs) {
				t.Errorf("the App differs in %q, want %q", differs, s.differs)
			}
			w, errs := resource.App(made.App, resource.BuildOptions{Inputs: resource.BuildInputs{Rendering: resource.RenderingLatest}})
			if len(errs) > 0 {
				t.Fatal(errs)
			}
			for key, value := range s.podLabels {
				if key != appv1.LabelManagedBy && w.Template.Labels[key] != value {
					t.Errorf("a new pod has %s=%q, want %q", key, w.Template.Labels[key], value)
				}
			}
		})
	}
}

// TestVerifyFindsDifferences changes each part of an imported App: the comparison names the field.
func TestVerifyFindsDifferences(t *testing.T) {
	for want, change := range map[string]func(*appv1.AppSpec){
		"Deployment web metadata.labels[app.kubernetes.io/part-of]":             func(s *appv1.AppSpec) { delete(s.Labels, "app.kubernetes.io/part-of") },
		"Deployment web spec.template.metadata.labels[app.kubernetes.io/name]":  func(s *appv1.AppSpec) { s.PodLabels = with(s.PodLabels, appv1.LabelName, "x") },
		"Deployment web spec.template.spec.containers[main].image":              func(s *appv1.AppSpec) { s.Image = "httpd:2.5" },
		"Deployment web spec.template.spec.containers[main].env[A].value":       func(s *appv1.AppSpec) { s.Envs = []corev1.EnvVar{{Name: "A", Value: "2"}} },
		"Deployment web spec.template.spec.containers[main].readinessProbe":     func(s *appv1.AppSpec) { s.Probes = appv1.Probes{Disabled: true} },
		"Deployment web spec.replicas: 3 -> 4":                                  func(s *appv1.AppSpec) { s.Replicas = ptr.To[int32](4) },
		"Deployment web spec.strategy.rollingUpdate: {":                         func(s *appv1.AppSpec) { s.MaxUnavailable = nil },
		"Service web spec.ports[8080].targetPort":                               func(s *appv1.AppSpec) { s.Ports[0].TargetPort = nil },
		"Service web metadata.labels[app.kubernetes.io/instance]: k8s -> other": func(s *appv1.AppSpec) { s.Service.Labels = map[string]string{appv1.LabelInstance: "other"} },
		"Service web spec.type: none -> NodePort":                               func(s *appv1.AppSpec) { s.Service.Type = corev1.ServiceTypeNodePort },
		"Service shared spec.selector":                                          func(s *appv1.AppSpec) { s.PodLabels = with(s.PodLabels, "app.kubernetes.io/version", "3") },
	} {
		s := shapes["a selector with three labels, and a ServiceMonitor that goes by labels of the Service"]
		s.services = append(slices.Clone(s.services), live("shared", map[string]string{"app.kubernetes.io/version": "2.53.0"}, nil, nil))
		from := s.source()
		made, err := ImportOf(from)
		if err != nil {
			t.Fatal(err)
		}
		was := made.App.DeepCopy()
		change(&made.App.Spec)
		verified, err := VerifyImport(made, from)
		if err != nil {
			t.Fatalf("%s: %v (-was +is)\n%s", want, err, cmp.Diff(was, made.App))
		}
		if !slices.ContainsFunc(verified.Differences, func(d Difference) bool { return strings.HasPrefix(d.String(), want) }) ||
			strings.Contains(verified.Text(), "App shop/web: the same") {
			t.Errorf("want %q in\n%s", want, verified.Text())
		}
	}
}
