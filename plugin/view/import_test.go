package view

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	quantity "k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/yaml"

	appv1 "huolala.cn/app-operator/api/v1"
	"huolala.cn/app-operator/api/v1/validation"
	"huolala.cn/app-operator/resource"
)

// foreignDeployment is a Deployment as the API server keeps it.
func foreignDeployment(change func(*corev1.PodSpec)) *appsv1.Deployment {
	labels := map[string]string{"run": "web"}
	d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web"}}
	d.Spec = appsv1.DeploymentSpec{
		Replicas: ptr.To[int32](3), Selector: &metav1.LabelSelector{MatchLabels: labels},
		RevisionHistoryLimit: ptr.To[int32](10), ProgressDeadlineSeconds: ptr.To[int32](600),
		Strategy: appsv1.DeploymentStrategy{Type: appsv1.RollingUpdateDeploymentStrategyType, RollingUpdate: &appsv1.RollingUpdateDeployment{
			MaxSurge: ptr.To(intstr.FromString("25%")), MaxUnavailable: ptr.To(intstr.FromInt32(1)),
		}},
	}
	d.Spec.Template.Labels = map[string]string{"run": "web", "team": "a"}
	d.Spec.Template.Annotations = map[string]string{"note": "b"}
	d.Spec.Template.Spec = corev1.PodSpec{
		Containers: []corev1.Container{{
			Name: "main", Image: "httpd:2.4", ImagePullPolicy: corev1.PullAlways, Env: []corev1.EnvVar{{Name: "A", Value: "1"}},
			Ports:                  []corev1.ContainerPort{{Name: "http", ContainerPort: 80, Protocol: corev1.ProtocolTCP}},
			TerminationMessagePath: "/dev/termination-log", TerminationMessagePolicy: corev1.TerminationMessageReadFile,
			ReadinessProbe: &corev1.Probe{
				ProbeHandler:   corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{Path: "/", Port: intstr.FromString("http"), Scheme: "HTTP"}},
				TimeoutSeconds: 1, PeriodSeconds: 10, SuccessThreshold: 1, FailureThreshold: 3,
			},
		}},
		RestartPolicy: corev1.RestartPolicyAlways, DNSPolicy: corev1.DNSClusterFirst, SchedulerName: "default-scheduler",
		TerminationGracePeriodSeconds: ptr.To[int64](30), SecurityContext: &corev1.PodSecurityContext{},
		TopologySpreadConstraints: []corev1.TopologySpreadConstraint{{
			MaxSkew: 1, TopologyKey: corev1.LabelHostname, WhenUnsatisfiable: corev1.ScheduleAnyway, LabelSelector: &metav1.LabelSelector{MatchLabels: labels},
		}},
	}
	if change != nil {
		change(&d.Spec.Template.Spec)
	}
	return d
}

func foreignService(name string, selector map[string]string) corev1.Service {
	return corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name}, Spec: corev1.ServiceSpec{
		Type: corev1.ServiceTypeClusterIP, Selector: selector, SessionAffinity: corev1.ServiceAffinityNone,
		Ports: []corev1.ServicePort{{Name: "http", Port: 8080, Protocol: corev1.ProtocolTCP, TargetPort: intstr.FromString("http")}},
	}}
}

// rebuilt returns the workload that an imported App means for the Deployment that it takes over.
func rebuilt(t *testing.T, made *Import, d *appsv1.Deployment) *resource.Workload {
	t.Helper()
	if errs := validation.App(made.App); len(errs) > 0 {
		t.Errorf("the App is invalid: %v", errs)
	}
	w, errs := resource.App(made.App, resource.BuildOptions{
		Selector: d.Spec.Selector.MatchLabels, Inputs: resource.BuildInputs{Rendering: resource.RenderingLatest},
	})
	if len(errs) > 0 {
		t.Errorf("nothing can be built from the App: %v", errs)
	}
	return w
}

// plainTemplate returns a pod template as JSON without what an App adds to each: its labels, and defaults of the API server that are
// stated.
func plainTemplate(t *testing.T, template *corev1.PodTemplateSpec) map[string]any {
	t.Helper()
	template = template.DeepCopy()
	maps.DeleteFunc(template.Labels, func(key, _ string) bool {
		return validation.OperatorLabel(key) || key == appv1.LabelName || key == appv1.LabelInstance || key == appv1.LabelComponent
	})
	normalizePod(&template.Spec, nil, nil)
	data, err := json.Marshal(template)
	if err != nil {
		t.Fatal(err)
	}
	var tree map[string]any
	if err := json.Unmarshal(data, &tree); err != nil {
		t.Fatal(err)
	}
	return tree
}

// TestImport makes Apps of Deployments and builds them again: the pod template is the same but for what an App adds to each, and what
// is not the same is in a note.
func TestImport(t *testing.T) {
	own := map[string]string{"run": "web"}
	for name, c := range map[string]struct {
		change func(*corev1.PodSpec)
		source func(*Source)
		notes  []string
		// differs are the fields of live objects that the App does not have.
		differs []string
		holds   func(*appv1.AppSpec) bool
	}{
		"plain": {holds: func(s *appv1.AppSpec) bool {
			return s.ContainerName == "main" && *s.Replicas == 3 && s.MaxSurge == nil && s.MaxUnavailable.IntVal == 1 && s.PodTemplatePatch == nil &&
				s.PodLabels["team"] == "a" && s.PodLabels["run"] == "web" && len(s.PodLabels) == 2 && s.PodAnnotations["note"] == "b"
		}},
		"fields without a name of their own": {change: func(p *corev1.PodSpec) {
			p.HostNetwork, p.SchedulerName, p.EnableServiceLinks, p.ShareProcessNamespace = true, "mine", ptr.To(false), ptr.To(true)
			p.Containers[0].WorkingDir, p.Containers[0].TTY, p.Containers[0].Ports[0].HostPort = "/srv", true, 80
		}, holds: func(s *appv1.AppSpec) bool {
			return strings.Contains(string(s.PodTemplatePatch.Raw), `"workingDir":"/srv"`)
		}},
		"more containers": {change: func(p *corev1.PodSpec) {
			p.Containers = append(p.Containers, corev1.Container{Name: "sidecar", Image: "busybox:1", ImagePullPolicy: corev1.PullIfNotPresent, Args: []string{"-v"}})
			p.InitContainers = []corev1.Container{{Name: "init", Image: "busybox:1", ImagePullPolicy: corev1.PullAlways, RestartPolicy: ptr.To(corev1.ContainerRestartPolicyAlways)}}
			p.Volumes = []corev1.Volume{{Name: "v", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}}}
			p.ServiceAccountName, p.DeprecatedServiceAccount = "robot", "robot"
		}},
		"no probes": {change: func(p *corev1.PodSpec) { p.Containers[0].ReadinessProbe = nil }, source: func(s *Source) {
			s.Services = []corev1.Service{foreignService("web", own)}
		}, holds: func(s *appv1.AppSpec) bool { return s.Probes.Disabled }},
		"no spread": {change: func(p *corev1.PodSpec) { p.TopologySpreadConstraints = nil }, notes: []string{
			"Deployment spec.template.spec.topologySpreadConstraints",
		}},
		"labels of a chart": {source: func(s *Source) {
			labels := map[string]string{appv1.LabelName: "prometheus", appv1.LabelInstance: "main", appv1.LabelManagedBy: "Helm"}
			web := foreignService("web", own)
			web.Labels, s.Deployment.Labels = labels, labels
			s.Services = []corev1.Service{web}
		}, notes: []string{
			"Deployment metadata.labels[app.kubernetes.io/managed-by]", "Service web metadata.labels[app.kubernetes.io/managed-by]",
		}},
		"a Service": {source: func(s *Source) {
			other := foreignService("other", map[string]string{"run": "db"})
			wider := foreignService("wider", map[string]string{"team": "a"})
			second := foreignService("second", own)
			first := foreignService("web", own)
			first.Spec.Type, first.Spec.ExternalIPs = corev1.ServiceTypeNodePort, []string{"192.0.2.1"}
			first.Spec.ExternalTrafficPolicy = corev1.ServiceExternalTrafficPolicyCluster
			s.Services = []corev1.Service{other, wider, second, first}
		}, differs: []string{`Service web spec.externalIPs: ["192.0.2.1"] -> none`}, notes: []string{
			"Service second spec", "Service web spec.externalIPs", "Service wider spec.selector",
		}, holds: func(s *appv1.AppSpec) bool {
			return s.Service.Type == corev1.ServiceTypeNodePort && s.Service.Name == "" && s.Service.ExternalTrafficPolicy == "" &&
				len(s.Ports) == 1 && s.Ports[0].TargetPort.StrVal == "http"
		}},
		"ports without names": {change: func(p *corev1.PodSpec) {
			p.Containers[0].ReadinessProbe.HTTPGet.Port = intstr.FromInt32(80)
			p.Containers[0].Ports = []corev1.ContainerPort{{ContainerPort: 80, Protocol: corev1.ProtocolTCP}}
		}, source: func(s *Source) {
			service := foreignService("web", own)
			service.Spec.Ports = []corev1.ServicePort{
				{Name: "http", Port: 8080, Protocol: corev1.ProtocolTCP, TargetPort: intstr.FromInt32(80)},
				{Name: "admin", Port: 9000, Protocol: corev1.ProtocolTCP, TargetPort: intstr.FromInt32(9000)},
			}
			s.Services = []corev1.Service{service}
		}, notes: []string{"Deployment spec.template.spec.containers[main].ports[80]", "Deployment spec.template.spec.containers[main].ports[9000]"}},
		"a Service by another name": {source: func(s *Source) { s.Services = []corev1.Service{foreignService("front", own)} },
			holds: func(s *appv1.AppSpec) bool { return s.Service.Name == "front" }},
		"an autoscaler that an App refuses": {source: func(s *Source) {
			scaler := autoscalingv2.HorizontalPodAutoscaler{ObjectMeta: metav1.ObjectMeta{Name: "web"}}
			scaler.Spec = autoscalingv2.HorizontalPodAutoscalerSpec{
				ScaleTargetRef: autoscalingv2.CrossVersionObjectReference{Kind: "Deployment", Name: "web"}, MinReplicas: ptr.To[int32](9), MaxReplicas: 5,
			}
			s.Autoscalers = []autoscalingv2.HorizontalPodAutoscaler{scaler}
		}, notes: []string{"App spec.autoscaling.maxReplicas"}, holds: func(s *appv1.AppSpec) bool { return s.Autoscaling == nil && s.Replicas == nil }},
		"what stands around": {change: func(p *corev1.PodSpec) {
			p.Containers[0].Resources.Requests = corev1.ResourceList{corev1.ResourceCPU: quantity.MustParse("100m")}
		}, source: func(s *Source) {
			s.Services = []corev1.Service{foreignService("web", own)}
			scaler := autoscalingv2.HorizontalPodAutoscaler{ObjectMeta: metav1.ObjectMeta{Name: "web"}}
			scaler.Spec = autoscalingv2.HorizontalPodAutoscalerSpec{
				ScaleTargetRef: autoscalingv2.CrossVersionObjectReference{Kind: "Deployment", Name: "web"}, MinReplicas: ptr.To[int32](2), MaxReplicas: 5,
			}
			s.Autoscalers = []autoscalingv2.HorizontalPodAutoscaler{scaler}
			budget := policyv1.PodDisruptionBudget{ObjectMeta: metav1.ObjectMeta{Name: "web"}}
			budget.Spec.Selector, budget.Spec.MinAvailable = &metav1.LabelSelector{MatchLabels: own}, ptr.To(intstr.FromInt32(1))
			s.Budgets = []policyv1.PodDisruptionBudget{budget}
			s.Ingresses = []networkingv1.Ingress{foreignIngress("web", "shop.example.com"), foreignIngress("extra", "x.example.com")}
		}, notes: []string{"Ingress extra metadata.name"}, holds: func(s *appv1.AppSpec) bool {
			return s.Replicas == nil && s.Autoscaling.MaxReplicas == 5 && s.DisruptionBudget.MinAvailable.IntVal == 1 &&
				s.Ingress.Rules[0].Host == "shop.example.com" && s.Ingress.Port.StrVal == "http" && s.Ingress.TLS.SecretName == "cert"
		}},
		"an application that is stopped, with an autoscaler": {change: func(p *corev1.PodSpec) {
			p.Containers[0].Resources.Requests = corev1.ResourceList{corev1.ResourceCPU: quantity.MustParse("100m")}
		}, source: func(s *Source) {
			scaler := autoscalingv2.HorizontalPodAutoscaler{ObjectMeta: metav1.ObjectMeta{Name: "web"}}
			scaler.Spec = autoscalingv2.HorizontalPodAutoscalerSpec{
				ScaleTargetRef: autoscalingv2.CrossVersionObjectReference{Kind: "Deployment", Name: "web"}, MinReplicas: ptr.To[int32](2), MaxReplicas: 5,
			}
			s.Autoscalers, s.Deployment.Spec.Replicas = []autoscalingv2.HorizontalPodAutoscaler{scaler}, ptr.To[int32](0)
		}, notes: []string{"Deployment spec.replicas"}, holds: func(s *appv1.AppSpec) bool {
			return s.Autoscaling.MaxReplicas == 5 && s.Replicas != nil && *s.Replicas == 0
		}},
		"a variable twice": {change: func(p *corev1.PodSpec) {
			p.Containers[0].Env = []corev1.EnvVar{{Name: "TWICE", Value: "1"}, {Name: "ONCE", Value: "2"}, {Name: "TWICE", Value: "3"}}
		}, notes: []string{"Deployment spec.template.spec.containers[main].env"}, holds: func(s *appv1.AppSpec) bool {
			return len(s.Envs) == 2 && s.Envs[0].Name == "ONCE" && s.Envs[1].Value == "3"
		}, differs: []string{
			"Deployment web spec.template.spec.containers[main].env",
		}},
		"budgets that an App cannot have": {source: func(s *Source) {
			for n, change := range []func(*policyv1.PodDisruptionBudgetSpec){
				func(b *policyv1.PodDisruptionBudgetSpec) { b.MaxUnavailable = ptr.To(intstr.FromInt32(0)) },
				func(b *policyv1.PodDisruptionBudgetSpec) { b.MaxUnavailable = ptr.To(intstr.FromString("0%")) },
				func(b *policyv1.PodDisruptionBudgetSpec) { b.MinAvailable = ptr.To(intstr.FromString("100%")) },
				func(b *policyv1.PodDisruptionBudgetSpec) {
					b.Selector = &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "run", Operator: metav1.LabelSelectorOpExists}}}
				},
			} {
				budget := policyv1.PodDisruptionBudget{ObjectMeta: metav1.ObjectMeta{Name: "web", UID: types.UID(fmt.Sprint(n))}}
				budget.Spec.Selector = &metav1.LabelSelector{MatchLabels: own}
				change(&budget.Spec)
				s.Budgets = append(s.Budgets, budget)
			}
		}, notes: []string{
			"PodDisruptionBudget web spec.maxUnavailable", "PodDisruptionBudget web spec.maxUnavailable", "PodDisruptionBudget web spec.minAvailable",
			"PodDisruptionBudget web spec.selector",
		}, holds: func(s *appv1.AppSpec) bool { return s.DisruptionBudget == nil }},
		"a headless Service without ports": {source: func(s *Source) {
			service := foreignService("web", own)
			service.Spec.ClusterIP, service.Spec.Ports = corev1.ClusterIPNone, nil
			s.Services = []corev1.Service{service}
		}, notes: []string{"Service web spec.ports"}, holds: func(s *appv1.AppSpec) bool { return len(s.Ports) == 0 }},
		"an Ingress without a host": {source: func(s *Source) {
			s.Services = []corev1.Service{foreignService("web", own)}
			s.Ingresses = []networkingv1.Ingress{foreignIngress("web", "")}
		}, notes: []string{"Ingress web spec"}, holds: func(s *appv1.AppSpec) bool { return s.Ingress == nil }},
	} {
		t.Run(name, func(t *testing.T) {
			from := &Source{Deployment: foreignDeployment(c.change)}
			if c.source != nil {
				c.source(from)
			}
			was := from.Deployment.DeepCopy()
			made, err := ImportOf(from)
			if err != nil {
				t.Fatal(err)
			}
			var notes []string
			for _, n := range made.Notes {
				notes = append(notes, n.Object+" "+n.Field)
			}
			if slices.Sort(notes); !slices.Equal(notes, c.notes) {
				t.Errorf("notes are %q, want %q", notes, c.notes)
			}
			verified, err := VerifyImport(made, from)
			if err != nil {
				t.Fatal(err)
			}
			var differs []string
			for _, d := range verified.Differences {
				differs = append(differs, d.String())
			}
			if !slices.Equal(differs, c.differs) {
				t.Errorf("the App differs in %q, want %q", differs, c.differs)
			}
			if c.holds != nil && !c.holds(&made.App.Spec) {
				t.Errorf("the spec is %+v", made.App.Spec)
			}
			want, got := plainTemplate(t, &was.Spec.Template), plainTemplate(t, &rebuilt(t, made, was).Template)
			if diff := cmp.Diff(want, got); diff != "" && !slices.ContainsFunc(notes, func(n string) bool { return strings.HasPrefix(n, "Deployment spec.template") }) {
				t.Errorf("the pod template (-foreign +imported):\n%s", diff)
			}
			fields, err := made.Manifest()
			if err != nil {
				t.Fatal(err)
			}
			text, err := yaml.Marshal(fields)
			if err != nil {
				t.Fatal(err)
			}
			var read appv1.App
			if err := yaml.UnmarshalStrict(text, &read); err != nil || len(read.Annotations) > 0 {
				t.Errorf("%v in\n%s", err, text)
			}
			if strings.Contains(string(text), "null") || strings.Contains(string(text), "service: {}") || strings.Count(made.HeadComments(), "\n") != len(made.Notes)+1 {
				t.Errorf("the manifest is\n%s%s", made.HeadComments(), text)
			}
		})
	}
}

// TestImportNotesErrorsOfTheBuilder has a Service that leads to a port which no container declares: the App would be refused, and a comment says so.
func TestImportNotesErrorsOfTheBuilder(t *testing.T) {
	service := foreignService("web", map[string]string{"run": "web"})
	service.Spec.Ports[0].TargetPort = intstr.FromString("metrics")
	made, err := ImportOf(&Source{Deployment: foreignDeployment(nil), Services: []corev1.Service{service}})
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(made.HeadComments(), "# App: spec.ports[0].targetPort no container port") {
		t.Errorf("the comments are %s", made.HeadComments())
	}
}

// TestImportNotesHaveTexts has a port with two names, whose error has no detail.
func TestImportNotesHaveTexts(t *testing.T) {
	made, err := ImportOf(&Source{Deployment: foreignDeployment(func(p *corev1.PodSpec) {
		p.Containers[0].Ports = []corev1.ContainerPort{{Name: "a", ContainerPort: 80}, {Name: "b", ContainerPort: 80}}
	})})
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(made.HeadComments(), "# App: spec.containerPorts[1].containerPort Duplicate value: 80.") {
		t.Errorf("the comments are %s", made.HeadComments())
	}
}

func foreignIngress(name, host string) networkingv1.Ingress {
	i := networkingv1.Ingress{ObjectMeta: metav1.ObjectMeta{Name: name}}
	i.Spec.Rules = []networkingv1.IngressRule{{Host: host, IngressRuleValue: networkingv1.IngressRuleValue{HTTP: &networkingv1.HTTPIngressRuleValue{
		Paths: []networkingv1.HTTPIngressPath{{Path: "/", PathType: ptr.To(networkingv1.PathTypePrefix), Backend: networkingv1.IngressBackend{
			Service: &networkingv1.IngressServiceBackend{Name: "web", Port: networkingv1.ServiceBackendPort{Name: "http"}},
		}}},
	}}}}
	i.Spec.TLS = []networkingv1.IngressTLS{{Hosts: []string{host}, SecretName: "cert"}}
	return i
}

// TestImportRefuses has Deployments that no App can take over.
func TestImportRefuses(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*appsv1.Deployment)
		want   string
	}{
		"an owner": {func(d *appsv1.Deployment) {
			d.OwnerReferences = []metav1.OwnerReference{{APIVersion: "example.com/v1", Kind: "Site", Name: "shop", Controller: ptr.To(true)}}
		}, "Site shop controls Deployment web"},
		"no containers": {func(d *appsv1.Deployment) { d.Spec.Template.Spec.Containers = nil }, "has no containers"},
		"expressions": {func(d *appsv1.Deployment) {
			d.Spec.Selector.MatchExpressions = []metav1.LabelSelectorRequirement{{Key: "run", Operator: metav1.LabelSelectorOpExists}}
		}, "spec.selector.matchExpressions"},
		"dots":               {func(d *appsv1.Deployment) { d.Name = "three.dots.web" }, "metadata.name"},
		"a digit in front":   {func(d *appsv1.Deployment) { d.Name = "1web" }, "metadata.name"},
		"more than a label":  {func(d *appsv1.Deployment) { d.Name = strings.Repeat("a", 64) }, "metadata.name"},
		"as much as a label": {func(d *appsv1.Deployment) { d.Name = strings.Repeat("a", 63) }, ""},
	} {
		d := foreignDeployment(nil)
		c.change(d)
		_, err := ImportOf(&Source{Deployment: d})
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
}

// TestImportNamesTheField says of what is not taken over which field is in the way.
func TestImportNamesTheField(t *testing.T) {
	owner := []metav1.OwnerReference{{APIVersion: "example.com/v1", Kind: "Site", Name: "shop", Controller: ptr.To(true)}}
	target := autoscalingv2.CrossVersionObjectReference{Kind: "Deployment", Name: "web"}
	from := &Source{Deployment: foreignDeployment(nil), Services: []corev1.Service{foreignService("web", map[string]string{"run": "web"})}}
	for _, name := range []string{"other", "web"} {
		scaler := autoscalingv2.HorizontalPodAutoscaler{ObjectMeta: metav1.ObjectMeta{Name: name, OwnerReferences: owner}}
		scaler.Spec.ScaleTargetRef = target
		ingress := foreignIngress(name, "shop.example.com")
		ingress.OwnerReferences = owner
		budget := policyv1.PodDisruptionBudget{ObjectMeta: metav1.ObjectMeta{Name: name, OwnerReferences: owner}}
		budget.Spec.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"run": "web"}}
		from.Autoscalers, from.Ingresses, from.Budgets = append(from.Autoscalers, scaler), append(from.Ingresses, ingress), append(from.Budgets, budget)
	}
	wider := policyv1.PodDisruptionBudget{ObjectMeta: metav1.ObjectMeta{Name: "web"}}
	wider.Spec.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"team": "a"}}
	from.Budgets = append(from.Budgets, wider)
	made, err := ImportOf(from)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"HorizontalPodAutoscaler other: metadata.name is not web,", "HorizontalPodAutoscaler web: metadata.ownerReferences name another owner,",
		"Ingress other: metadata.name is not web,", "Ingress web: metadata.ownerReferences name another owner,",
		"PodDisruptionBudget other: metadata.name is not web,", "PodDisruptionBudget web: metadata.ownerReferences name another owner,",
		"PodDisruptionBudget web: spec.selector is not that of the Deployment,",
	} {
		if !strings.Contains(made.HeadComments(), "# "+want+" so it is not taken over") {
			t.Errorf("want %q in\n%s", want, made.HeadComments())
		}
	}
}
