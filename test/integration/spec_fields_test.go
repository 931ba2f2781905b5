package integration

import (
	"errors"
	"fmt"
	"maps"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appv1 "huolala.cn/app-operator/api/v1"
	"huolala.cn/app-operator/test/harness"
)

// setNamedFields sets the fields by which an App says how others know its pods, and what else they offer.
func setNamedFields(spec *appv1.AppSpec) {
	spec.ContainerName = "server"
	spec.ContainerPorts = []appv1.ContainerPort{{Name: "http", ContainerPort: 80}, {Name: "metrics", ContainerPort: 9797}, {ContainerPort: 53, Protocol: corev1.ProtocolUDP}}
	spec.MaxSurge, spec.MaxUnavailable = ptr.To(intstr.FromInt32(1)), ptr.To(intstr.FromString("0%"))
	labels := map[string]string{
		appv1.LabelName: "shop", appv1.LabelComponent: "api", "app.kubernetes.io/version": "1.2", "app.kubernetes.io/part-of": "mall",
	}
	spec.Labels, spec.PodLabels = labels, maps.Clone(labels)
	spec.SecurityProfile = appv1.SecurityProfileRestricted
	spec.Service = appv1.ServiceSpec{
		Name: "cart", Type: corev1.ServiceTypeLoadBalancer, LoadBalancerSourceRanges: []string{"192.0.2.0/24"},
		PublishNotReadyAddresses: true, TrafficDistribution: ptr.To(corev1.ServiceTrafficDistributionPreferSameZone),
		InternalTrafficPolicy: ptr.To(corev1.ServiceInternalTrafficPolicyLocal),
		IPFamilies:            []corev1.IPFamily{corev1.IPv4Protocol}, IPFamilyPolicy: ptr.To(corev1.IPFamilyPolicyPreferDualStack),
		SessionAffinity:       corev1.ServiceAffinityClientIP,
		SessionAffinityConfig: &corev1.SessionAffinityConfig{ClientIP: &corev1.ClientIPConfig{TimeoutSeconds: ptr.To[int32](60)}},
	}
}

// TestNamedFields creates an App with all of these fields, and takes them away again: with them it costs no more requests than
// without, nothing is written twice, and without them everything is as in an App that never had them.
func TestNamedFields(t *testing.T) {
	t.Parallel()
	ns, m := plane.Shared(t)
	m.Idle(t)
	app, plain := newApp(ns, "web"), newApp(ns, "plain")
	setNamedFields(&app.Spec)
	minor := plane.Minor(t)
	if minor < 34 {
		app.Spec.Service.TrafficDistribution = ptr.To(corev1.ServiceTrafficDistributionPreferClose) // The only value.
	}
	d, s := deployment(app), namedService(ns, "cart")
	plane.Create(t, app)
	services := 1
	if minor < 31 {
		services++ // The API server drops trafficDistribution, and the operator applies it once more before it says so.
	}
	checkRequests(t, m, "create", map[string]int{"patch deployments": 1, "patch services": services, "patch apps/status": 1, "create events": 1})
	plane.Read(t, d)
	plane.Read(t, s)
	for _, diff := range []string{
		cmp.Diff("server", containerOf(d).Name),
		cmp.Diff([]corev1.ContainerPort{
			{Name: "http", ContainerPort: 80, Protocol: "TCP"}, {Name: "metrics", ContainerPort: 9797, Protocol: "TCP"}, {ContainerPort: 53, Protocol: "UDP"},
		}, containerOf(d).Ports),
		cmp.Diff("1 0%", d.Spec.Strategy.RollingUpdate.MaxSurge.String()+" "+d.Spec.Strategy.RollingUpdate.MaxUnavailable.String()),
		cmp.Diff(map[string]string{appv1.LabelApp: "web"}, d.Spec.Selector.MatchLabels),
		cmp.Diff([]string{"192.0.2.0/24"}, s.Spec.LoadBalancerSourceRanges),
		cmp.Diff(int32(60), *s.Spec.SessionAffinityConfig.ClientIP.TimeoutSeconds),
	} {
		if diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	}
	for _, obj := range []client.Object{d, s, &corev1.Pod{ObjectMeta: d.Spec.Template.ObjectMeta}} {
		want := map[string]string{
			appv1.LabelName: "shop", appv1.LabelComponent: "api", "app.kubernetes.io/version": "1.2", "app.kubernetes.io/part-of": "mall",
			appv1.LabelInstance: "web", appv1.LabelManagedBy: appv1.ManagedBy,
		}
		got := maps.Clone(obj.GetLabels())
		delete(got, appv1.LabelApp)
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("labels of %T (-want +got):\n%s", obj, diff)
		}
	}
	plane.Stands(t, app, progressing...)
	if app.Status.Endpoint != "cart."+ns+".svc:8080" {
		t.Errorf("the endpoint is %s", app.Status.Endpoint)
	}

	createInPlace(t, plain)
	plane.Change(t, app, func() { app.Spec = *plain.Spec.DeepCopy() })
	plane.Stands(t, app, progressing...)
	m.Idle(t)
	completeRollout(t, d)
	m.Idle(t)
	compareFresh(t, app)
	plane.Absent(t, s)
}

// TestServiceRename gives the Service of an App that serves another name, and then another. The former Service stays until the
// pods are ready, and is deleted once they are; the Deployment is not written for any of it but for its record.
func TestServiceRename(t *testing.T) {
	t.Parallel()
	ns, m := plane.Shared(t)
	app := newApp(ns, "web")
	d, s := createInPlace(t, app)
	template := d.Spec.Template

	rename := func(name string) {
		t.Helper()
		plane.Read(t, app)
		plane.Change(t, app, func() { app.Spec.Service.Name = name })
	}
	// No pod is ready: both are there.
	rename("cart")
	cart := namedService(ns, "cart")
	plane.Until(t, app, func() error { return diffOf("cart."+ns+".svc:8080", app.Status.Endpoint) })
	m.Idle(t)
	plane.Read(t, cart)
	plane.Read(t, s)
	if diff := cmp.Diff(s.Spec.Selector, cart.Spec.Selector); diff != "" {
		t.Errorf("the two lead to other pods:\n%s", diff)
	}
	completeRollout(t, d)
	plane.Stands(t, app, "Ready=True")
	m.Idle(t)
	plane.Absent(t, s)
	plane.Read(t, cart)

	m.Requests.Reset()
	rename("basket")
	checkRequests(t, m, "rename", map[string]int{
		// One of a Deployment's is a dry run. The App is read as it had a Service, which is missing under the new name.
		"patch deployments": 2, "get apps": 1, "patch services": 1, "patch apps/status": 1, "create events": 1,
	})
	m.Requests.Reset()
	completeRollout(t, d) // Its record is new.
	checkRequests(t, m, "pods are ready", map[string]int{"delete services": 1, "patch apps/status": 1, "create events": 1})
	plane.Absent(t, cart)
	rename("")
	m.Idle(t)
	plane.Read(t, namedService(ns, "web"))
	completeRollout(t, d)
	m.Idle(t)
	plane.Absent(t, namedService(ns, "basket"))
	plane.Read(t, d)
	sameTemplate(t, d, template)
	plane.Delete(t, namedService(ns, "web"))
	plane.Until(t, namedService(ns, "web"), func() error { return nil })

	// Without ports there is none, by either name, whatever the pods do.
	rename("cart")
	m.Idle(t)
	plane.Read(t, app)
	plane.Change(t, app, func() { app.Spec.Ports = nil })
	m.Idle(t)
	plane.Absent(t, namedService(ns, "cart"))
	plane.Absent(t, namedService(ns, "web"))
}

// TestServiceRenameWithNodePort renames a Service that has a stated port of the nodes, which the cluster has once.
func TestServiceRenameWithNodePort(t *testing.T) {
	t.Parallel()
	ns, m := plane.Shared(t)
	app := newApp(ns, "web")
	app.Spec.Service.Type, app.Spec.Ports[0].NodePort = corev1.ServiceTypeNodePort, 30077
	_, s := createInPlace(t, app)
	plane.Change(t, app, func() { app.Spec.Service.Name = "cart" })
	cart := namedService(ns, "cart")
	plane.Until(t, cart, func() error { return diffOf(int32(30077), cart.Spec.Ports[0].NodePort) })
	m.Idle(t)
	plane.Absent(t, s)
	plane.Stands(t, app, progressing...)
}

// TestServiceNameTaken gives a Service the name of a foreign one: nothing happens to either, the former Service stays, and the
// App goes on once the foreign one is gone. The same for each kind whose resources name their Service.
func TestServiceNameTaken(t *testing.T) {
	t.Parallel()
	for kind, make := range map[string]func(ns string) (obj harness.Resource, rename func(string), own string){
		"App": func(ns string) (harness.Resource, func(string), string) {
			app := newApp(ns, "web")
			return app, func(name string) { app.Spec.Service.Name = name }, "web"
		},
		"ModelBox": func(ns string) (harness.Resource, func(string), string) {
			box := &appv1.ModelBox{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "box"}}
			box.Spec.Image, box.Spec.Ports = "nginx:1.16.1", []appv1.Port{{Port: 80}}
			return box, func(name string) { box.Spec.Service.Name = name }, "box"
		},
		"UnitedDeployment": func(ns string) (harness.Resource, func(string), string) {
			ud := newTemplate(ns, "holder", "site")
			return ud, func(name string) { ud.Spec.Template.Service.Name = name }, "site"
		},
		"CloudManager": func(ns string) (harness.Resource, func(string), string) {
			cm := newCloudManager(ns)
			return cm, func(name string) { cm.Spec.DB.StatefulSet.Service.Name = name }, "db"
		},
	} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			ns, m := plane.Shared(t)
			foreign := newHandMadeService(ns, "cart")
			plane.Create(t, foreign)
			was := readWhole(t, foreign)
			obj, rename, own := make(ns)
			plane.Create(t, obj)
			m.Idle(t)
			former := namedService(ns, own)
			plane.Read(t, former)
			plane.Read(t, obj)
			plane.Change(t, obj, func() { rename("cart") })
			plane.Stands(t, obj, "Stalled=True/ResourceExists")
			harness.Says(t, obj, "Stalled", "Service cart")
			m.Idle(t)
			checkUntouched(t, foreign, was)
			plane.Read(t, former)
			plane.Delete(t, foreign)
			plane.Until(t, foreign, func() error {
				if !metav1.IsControlledBy(foreign, obj) {
					return errors.New("not the resource's yet")
				}
				return nil
			})
		})
	}
}

// TestCloudManagerServiceNames names the Services of two tiers: the later tiers are led to them, and the former ones go.
func TestCloudManagerServiceNames(t *testing.T) {
	t.Parallel()
	ns, m := plane.Shared(t)
	cm := newCloudManager(ns)
	cm.Spec.Identity.Deployment.Ports = []appv1.Port{{Port: 8080}}
	bringUpTiers(t, cm)
	plane.Read(t, cm)
	plane.Change(t, cm, func() {
		cm.Spec.DB.StatefulSet.Service.Name = "mysql"
		cm.Spec.Identity.Deployment.Service.Name = "accounts"
	})
	plane.Until(t, namedDeployment(ns, "identity"), func() error { return nil })
	for _, d := range []string{"identity", "front"} {
		obj := namedDeployment(ns, d)
		plane.Until(t, obj, func() error { return diffOf("mysql."+ns+".svc", hostOf(obj)) })
		completeRollout(t, obj)
	}
	awaitPhase(t, cm, appv1.PhaseReady, "Ready=True/Ready", "Stalled=False")
	m.Idle(t)
	for name, there := range map[string]bool{"mysql": true, "accounts": true, "db-headless": true, "front": true, "db": false, "identity": false} {
		if s := namedService(ns, name); there {
			plane.Read(t, s)
		} else {
			plane.Absent(t, s)
		}
	}
	for _, endpoint := range []string{cm.Status.DB.Endpoint, cm.Status.Identity.Endpoint} {
		if !strings.HasPrefix(endpoint, "mysql.") && !strings.HasPrefix(endpoint, "accounts.") {
			t.Errorf("the status has the endpoint %s", endpoint)
		}
	}
}

// TestSelectorByAStatedLabel has a UnitedDeployment that adopts a Deployment whose selector has a label that a spec can state. The label
// is refused as long as the selector needs another value.
func TestSelectorByAStatedLabel(t *testing.T) {
	t.Parallel()
	ns, m := plane.Shared(t)
	ud := newTemplate(ns, "holder", "site")
	made := newHandMade(ns, "site")
	made.Spec.Selector.MatchLabels = map[string]string{appv1.LabelUnitedDeployment: "holder", appv1.LabelName: "site"}
	made.Spec.Template.Labels = maps.Clone(made.Spec.Selector.MatchLabels)
	plane.Create(t, made)
	ud.Annotations = map[string]string{appv1.AnnotationAdopt: "true"}
	plane.Create(t, ud)
	m.Idle(t)
	d := namedDeployment(ns, "site")
	plane.Read(t, d)
	if !metav1.IsControlledBy(d, ud) {
		t.Fatalf("the Deployment was not taken over: %+v", d)
	}
	template := d.Spec.Template
	plane.Read(t, ud)
	plane.Change(t, ud, func() { ud.Spec.Template.PodLabels = map[string]string{appv1.LabelName: "shop"} })
	plane.Stands(t, ud, "Stalled=True/Invalid")
	harness.Says(t, ud, "Stalled", "spec.template.podLabels[app.kubernetes.io/name]", `requires "site" and cannot be changed`)
	plane.Read(t, d)
	sameTemplate(t, d, template)
	plane.Change(t, ud, func() {
		ud.Spec.Template.PodLabels = map[string]string{appv1.LabelName: "site", appv1.LabelComponent: "api"}
	})
	plane.Until(t, d, func() error { return diffOf("api", d.Spec.Template.Labels[appv1.LabelComponent]) })
}

// TestRestrictedPods creates pods from the templates of Apps in a namespace that enforces the level restricted: with the profile
// each kind of container is admitted, and without it none.
func TestRestrictedPods(t *testing.T) {
	t.Parallel()
	ns := plane.Namespace(t)
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: ns}}
	plane.Read(t, namespace)
	plane.Change(t, namespace, func() { namespace.Labels["pod-security.kubernetes.io/enforce"] = "restricted" })
	m := plane.Start(t, ns)
	always := corev1.ContainerRestartPolicyAlways
	for name, add := range map[string]func(*appv1.AppSpec){
		"main": func(*appv1.AppSpec) {},
		"side": func(s *appv1.AppSpec) { s.Containers = []corev1.Container{{Name: "other", Image: "a:1"}} },
		"init": func(s *appv1.AppSpec) { s.InitContainers = []corev1.Container{{Name: "other", Image: "a:1"}} },
		"sidecar": func(s *appv1.AppSpec) {
			s.InitContainers = []corev1.Container{{Name: "other", Image: "a:1", RestartPolicy: &always}}
		},
		"patched": func(s *appv1.AppSpec) {
			s.PodTemplatePatch = &runtime.RawExtension{Raw: []byte(`{"spec":{"containers":[{"name":"other","image":"a:1"}]}}`)}
		},
		"patched-init": func(s *appv1.AppSpec) {
			s.PodTemplatePatch = &runtime.RawExtension{Raw: []byte(`{"spec":{"initContainers":[{"name":"other","image":"a:1"}]}}`)}
		},
		"patched-context": func(s *appv1.AppSpec) {
			s.PodTemplatePatch = &runtime.RawExtension{Raw: []byte(`{"spec":{"securityContext":null}}`)}
		},
		"own-capability": func(s *appv1.AppSpec) {
			s.SecurityContext = &corev1.SecurityContext{Capabilities: &corev1.Capabilities{Add: []corev1.Capability{"NET_BIND_SERVICE"}}}
		},
		"own-user": func(s *appv1.AppSpec) {
			s.PodSecurityContext = &corev1.PodSecurityContext{RunAsUser: ptr.To[int64](1000)}
		},
		"own-context": func(s *appv1.AppSpec) {
			s.Containers = []corev1.Container{{Name: "other", Image: "a:1", SecurityContext: &corev1.SecurityContext{ReadOnlyRootFilesystem: ptr.To(true)}}}
		},
	} {
		for _, profile := range []appv1.SecurityProfile{appv1.SecurityProfileRestricted, ""} {
			app := newApp(ns, strings.TrimSuffix(fmt.Sprintf("%s-%s", name, profile), "-"))
			add(&app.Spec)
			app.Spec.SecurityProfile = profile
			d, _ := createInPlace(t, app)
			pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: app.Name}, Spec: d.Spec.Template.Spec}
			err := plane.Client.Create(t.Context(), pod)
			if profile == "" && (!apierrors.IsForbidden(err) || !strings.Contains(err.Error(), "PodSecurity")) {
				t.Errorf("%s, without a profile: %v", name, err)
			}
			if profile != "" && err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
	}
	m.Idle(t)
}
