package integration

import (
	"errors"
	"fmt"
	"maps"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	monitoringv1 "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apiresource "k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	appv1 "huolala.cn/app-operator/api/v1"
	"huolala.cn/app-operator/api/v1/validation"
	"huolala.cn/app-operator/test/fixture"
	"huolala.cn/app-operator/test/harness"
)

// block is a field of ServingSpec whose objects every cluster serves.
type block struct {
	// set states the field, change changes it, clear removes it.
	set, change, clear func(*appv1.ServingSpec)
	// object is an empty object of what it asks for.
	object client.Object
	// resource is what the API calls such objects.
	resource string
	// first is true for what must be there before the first pod.
	first bool
	// foreign makes an object that the API server takes. own makes it about the pods or the Service of App web, nil if it is about
	// neither.
	foreign, own func(client.Object)
}

// blocks are by the names of the fields.
var blocks = map[string]block{
	"serviceAccount": {
		set: func(s *appv1.ServingSpec) { s.ServiceAccount = &appv1.ServiceAccountSpec{} },
		change: func(s *appv1.ServingSpec) {
			s.ServiceAccount = &appv1.ServiceAccountSpec{Annotations: map[string]string{"role": "web"}}
		},
		clear:  func(s *appv1.ServingSpec) { s.ServiceAccount = nil },
		object: &corev1.ServiceAccount{}, resource: "serviceaccounts", first: true,
		foreign: func(client.Object) {},
	},
	"networkPolicy": {
		set: func(s *appv1.ServingSpec) {
			s.NetworkPolicy = &appv1.NetworkPolicySpec{Egress: []networkingv1.NetworkPolicyEgressRule{}}
		},
		change: func(s *appv1.ServingSpec) {
			s.NetworkPolicy = &appv1.NetworkPolicySpec{Ingress: []networkingv1.NetworkPolicyIngressRule{{
				From:  []networkingv1.NetworkPolicyPeer{{PodSelector: &metav1.LabelSelector{}}},
				Ports: []networkingv1.NetworkPolicyPort{{Port: ptr.To(intstr.FromInt32(80))}},
			}}}
		},
		clear:  func(s *appv1.ServingSpec) { s.NetworkPolicy = nil },
		object: &networkingv1.NetworkPolicy{}, resource: "networkpolicies.networking.k8s.io", first: true,
		foreign: func(client.Object) {},
		own:     func(obj client.Object) { obj.(*networkingv1.NetworkPolicy).Spec.PodSelector = *ownPods() },
	},
	"autoscaling": {
		set:    func(s *appv1.ServingSpec) { s.Autoscaling = &appv1.AutoscalingSpec{MaxReplicas: 10} },
		change: func(s *appv1.ServingSpec) { s.Autoscaling = &appv1.AutoscalingSpec{MaxReplicas: 12} },
		clear:  func(s *appv1.ServingSpec) { s.Autoscaling = nil },
		object: &autoscalingv2.HorizontalPodAutoscaler{}, resource: "horizontalpodautoscalers.autoscaling",
		foreign: func(obj client.Object) {
			scaler := obj.(*autoscalingv2.HorizontalPodAutoscaler)
			scaler.Spec.ScaleTargetRef = autoscalingv2.CrossVersionObjectReference{APIVersion: "apps/v1", Kind: "Deployment", Name: "other"}
			scaler.Spec.MaxReplicas = 3
		},
		own: func(obj client.Object) { obj.(*autoscalingv2.HorizontalPodAutoscaler).Spec.ScaleTargetRef.Name = "web" },
	},
	"disruptionBudget": {
		set: func(s *appv1.ServingSpec) { s.DisruptionBudget = &appv1.DisruptionBudgetSpec{} },
		change: func(s *appv1.ServingSpec) {
			s.DisruptionBudget = &appv1.DisruptionBudgetSpec{MinAvailable: ptr.To(intstr.FromString("50%"))}
		},
		clear:  func(s *appv1.ServingSpec) { s.DisruptionBudget = nil },
		object: &policyv1.PodDisruptionBudget{}, resource: "poddisruptionbudgets.policy",
		foreign: func(client.Object) {},
		own:     func(obj client.Object) { obj.(*policyv1.PodDisruptionBudget).Spec.Selector = ownPods() },
	},
	"ingress": {
		set: func(s *appv1.ServingSpec) {
			s.Ingress = &appv1.IngressSpec{Rules: []appv1.IngressRule{{Host: "shop.example.com"}}}
		},
		change: func(s *appv1.ServingSpec) {
			s.Ingress = &appv1.IngressSpec{
				ClassName: ptr.To("nginx"), Annotations: map[string]string{"a": "b"}, TLS: &appv1.IngressTLS{SecretName: "tls"},
				Rules: []appv1.IngressRule{{Host: "shop.example.com", Paths: []appv1.HTTPPath{"/", "/api"}}},
			}
		},
		clear:  func(s *appv1.ServingSpec) { s.Ingress = nil },
		object: &networkingv1.Ingress{}, resource: "ingresses.networking.k8s.io",
		foreign: func(obj client.Object) {
			obj.(*networkingv1.Ingress).Spec.DefaultBackend = &networkingv1.IngressBackend{Service: &networkingv1.IngressServiceBackend{
				Name: "other", Port: networkingv1.ServiceBackendPort{Number: 80},
			}}
		},
		own: func(obj client.Object) { obj.(*networkingv1.Ingress).Spec.DefaultBackend.Service.Name = "web" },
	},
}

// ownPods selects the pods of App web.
func ownPods() *metav1.LabelSelector {
	return &metav1.LabelSelector{MatchLabels: map[string]string{appv1.LabelApp: "web"}}
}

// blockNames are those of the blocks, in the order in which their objects are applied.
var blockNames = []string{"serviceAccount", "networkPolicy", "autoscaling", "disruptionBudget", "ingress"}

// named returns an empty object of the block's.
func (b block) named(namespace, name string) client.Object {
	obj := b.object.DeepCopyObject().(client.Object)
	obj.SetNamespace(namespace)
	obj.SetName(name)
	return obj
}

// short is the resource without its group, as requests are counted.
func (b block) short() string {
	name, _, _ := strings.Cut(b.resource, ".")
	return name
}

// newServed returns an App with a cpu request, and with blocks.
func newServed(namespace, name string, names ...string) *appv1.App {
	app := newApp(namespace, name)
	app.Spec.Resources.Requests = corev1.ResourceList{corev1.ResourceCPU: apiresource.MustParse("100m")}
	for _, name := range names {
		blocks[name].set(&app.Spec.ServingSpec)
	}
	return app
}

// optionalBlocks are the fields whose objects a cluster may not serve.
var optionalBlocks = map[string]block{
	"httpRoute": {
		set: func(s *appv1.ServingSpec) {
			s.HTTPRoute = &appv1.HTTPRouteSpec{ParentRefs: []appv1.ParentRef{{Name: "public"}}, Hostnames: []appv1.Hostname{"www.example.com"}}
		},
		change: func(s *appv1.ServingSpec) { s.HTTPRoute.Paths = []appv1.HTTPPath{"/api"} },
		clear:  func(s *appv1.ServingSpec) { s.HTTPRoute = nil },
		object: &gatewayv1.HTTPRoute{}, resource: "httproutes.gateway.networking.k8s.io",
	},
	"podMonitor": {
		set:    func(s *appv1.ServingSpec) { s.PodMonitor = &appv1.PodMonitorSpec{} },
		change: func(s *appv1.ServingSpec) { s.PodMonitor = &appv1.PodMonitorSpec{Interval: "30s"} },
		clear:  func(s *appv1.ServingSpec) { s.PodMonitor = nil },
		object: &monitoringv1.PodMonitor{}, resource: "podmonitors.monitoring.coreos.com",
	},
}

// budgetOf counts the requests of a step in the life of an App that has all that can stand around its pods.
type budgetOf struct {
	p      *harness.Plane
	m      *harness.Manager
	app    *appv1.App
	blocks map[string]block
	names  []string
}

func (b *budgetOf) step(t *testing.T, what string, do func(), want map[string]int) {
	t.Helper()
	b.m.Idle(t)
	b.m.Requests.Reset()
	do()
	checkRequests(t, b.m, what, want)
}

// change changes the spec.
func (b *budgetOf) change(t *testing.T, mutate func(*appv1.ServingSpec)) func() {
	return func() { b.p.Read(t, b.app); b.p.Change(t, b.app, func() { mutate(&b.app.Spec.ServingSpec) }) }
}

// TestServingBudgets counts the requests of an App with all that can stand around its pods.
func TestServingBudgets(t *testing.T) {
	t.Parallel()
	p := complete.start(t)
	ns := p.Namespace(t)
	m := p.Start(t, ns)
	// What watches the kinds that a cluster may lack starts with the first object of them.
	first := newOptionalApp(ns, "first")
	p.Create(t, first)
	p.Stands(t, first, "Applied=True")
	p.Delete(t, first)
	m.Idle(t)
	b := &budgetOf{p: p, m: m, app: newServed(ns, "web", blockNames...), blocks: maps.Clone(blocks), names: append(slices.Clone(blockNames), "httpRoute", "podMonitor")}
	maps.Copy(b.blocks, optionalBlocks)
	for _, block := range optionalBlocks {
		block.set(&b.app.Spec.ServingSpec)
	}
	b.app.Spec.ConfigRollout = appv1.ConfigRolloutOnChange
	b.app.Spec.EnvFrom = []corev1.EnvFromSource{{ConfigMapRef: &corev1.ConfigMapEnvSource{LocalObjectReference: corev1.LocalObjectReference{Name: "settings"}}}}
	create := map[string]int{"patch deployments": 1, "patch services": 1, "patch apps/status": 1, "get configmaps": 1, "create events": 1}
	for _, block := range b.blocks {
		create["patch "+block.short()] = 1
	}
	b.step(t, "create", func() { p.Create(t, newConfigMap(ns, "settings", map[string]string{"level": "1"}), b.app) }, create)
	b.step(t, "pods become available", func() { makeAvailable(t, p, b.app) }, map[string]int{"patch apps/status": 1})
	p.Stands(t, b.app, "Ready=True", "Applied=True/Applied", "Exposed=Unknown", "Autoscaled=Unknown/Progressing", "ConfigFollowed=True", "Stalled=False")
	if b.app.Status.Hosts != "shop.example.com,www.example.com" {
		t.Errorf("hosts are %q", b.app.Status.Hosts)
	}
	b.step(t, "nothing", func() {}, map[string]int{})
	b.changes(t)
	b.removals(t)
	b.step(t, "nothing", func() {}, map[string]int{})
}

// changes changes each block, and has others change its object. Nothing of it changes the pods.
func (b *budgetOf) changes(t *testing.T) {
	t.Helper()
	d, ns := deployment(b.app), b.app.Namespace
	b.p.Read(t, d)
	if *d.Spec.Replicas != 2 || d.Spec.Template.Spec.ServiceAccountName != "web" {
		t.Errorf("%d replicas, account %q", *d.Spec.Replicas, d.Spec.Template.Spec.ServiceAccountName)
	}
	generation := d.Generation
	for _, name := range b.names {
		block := b.blocks[name]
		want := map[string]int{"patch " + block.short(): 1, "patch apps/status": 1, "create events": 1}
		if name == "disruptionBudget" {
			want["get "+block.short()] = 1 // Another member of a one-of: it is looked up who owns the present one.
		}
		b.step(t, "change "+name, b.change(t, block.change), want)
		b.step(t, "drift of "+name, func() {
			obj := block.named(ns, "web")
			b.p.Read(t, obj)
			b.p.Change(t, obj, func() { obj.SetLabels(map[string]string{appv1.LabelManagedBy: appv1.ManagedBy}) })
		}, map[string]int{"patch " + block.short(): 1, "create events": 1})
	}
	b.step(t, "the Ingress gets an address", func() {
		ingress := &networkingv1.Ingress{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "web"}}
		b.p.Read(t, ingress)
		b.p.ChangeStatus(t, ingress, func() {
			ingress.Status.LoadBalancer.Ingress = []networkingv1.IngressLoadBalancerIngress{{IP: "203.0.113.7"}}
		})
	}, map[string]int{"patch apps/status": 1}) // What is missing is a controller of the HTTPRoute now.
	b.step(t, "the Gateway accepts the HTTPRoute", func() { optionalPlane{b.p}.judge(t, routeOf(b.app), metav1.ConditionTrue, "Accepted") },
		map[string]int{"patch apps/status": 1})
	b.p.Stands(t, b.app, "Exposed=True/Accepted")
	b.step(t, "rollback", b.change(t, func(s *appv1.ServingSpec) { s.Rollback = appv1.RollbackOnStall }), map[string]int{"patch apps/status": 1})
	if b.p.Read(t, d); d.Generation != generation {
		t.Errorf("changes around the pods made generation %d of %d", d.Generation, generation)
	}
}

// removals removes each block.
func (b *budgetOf) removals(t *testing.T) {
	t.Helper()
	ns := b.app.Namespace
	for _, name := range b.names[1:] {
		block := b.blocks[name]
		b.step(t, "remove "+name, b.change(t, block.clear), map[string]int{"delete " + block.short(): 1, "patch apps/status": 1, "create events": 1})
	}
	b.step(t, "remove the account", b.change(t, func(s *appv1.ServingSpec) { s.ServiceAccount = nil }),
		map[string]int{"patch deployments": 1, "patch apps/status": 1, "create events": 1})
	b.p.Read(t, blocks["serviceAccount"].named(ns, "web")) // Pods run as it yet.
	b.step(t, "pods become available without it", func() { makeAvailable(t, b.p, b.app) },
		map[string]int{"delete serviceaccounts": 1, "patch apps/status": 1, "create events": 1})
	for _, name := range b.names {
		b.p.Absent(t, b.blocks[name].named(ns, "web"))
	}
}

// TestServingLeavesPods states each field around the pods while a newer rendering waits. It must go on waiting, and the
// Deployment must stay as it is; but for the account, which the pods name.
func TestServingLeavesPods(t *testing.T) {
	t.Parallel()
	ns := plane.Namespace(t)
	m := plane.Start(t, ns, older)
	fields := reflect.TypeFor[appv1.ServingSpec]()
	var apps []*appv1.App
	for i := range fields.NumField() {
		app := newServed(ns, fmt.Sprintf("app-%d", i))
		createInPlace(t, app)
		apps = append(apps, app)
	}
	m.Idle(t)
	m.Stop(t)
	m = plane.Start(t, ns)
	m.Idle(t)
	for i, app := range apps {
		name, _, _ := strings.Cut(fields.Field(i).Tag.Get("json"), ",")
		d, _ := readChildren(t, app)
		generation := d.Generation
		plane.Read(t, app)
		plane.Change(t, app, func() {
			switch b, ok := blocks[name]; {
			case ok:
				b.set(&app.Spec.ServingSpec)
			case name == "httpRoute":
				app.Spec.HTTPRoute = &appv1.HTTPRouteSpec{ParentRefs: []appv1.ParentRef{{Name: "public"}}}
			case name == "podMonitor":
				app.Spec.PodMonitor = &appv1.PodMonitorSpec{}
			case name == "configRollout":
				app.Spec.ConfigRollout = appv1.ConfigRolloutOnChange
			case name == "rollback":
				app.Spec.Rollback = appv1.RollbackOnStall
			default:
				t.Fatalf("the test does not know %s", name)
			}
		})
		plane.Until(t, app, func() error {
			if app.Status.ObservedGeneration != app.Generation {
				return errors.New("not looked at yet")
			}
			return nil
		})
		m.Idle(t)
		plane.Read(t, app)
		plane.Read(t, d)
		waits := app.Status.Rendering == 0 && app.Status.LatestRendering == 2
		if shapes := name == "serviceAccount"; shapes == waits || shapes == (d.Generation == generation) {
			t.Errorf("%s: rendering %d, latest %d, generation %d after %d", name, app.Status.Rendering, app.Status.LatestRendering, d.Generation, generation)
		}
	}
}

// troubles are what can be in the way of one object around the pods, and the reason that is reported.
var troubles = map[string]struct {
	reason string
	answer func(b block) error
}{
	"foreign": {reason: appv1.ReasonResourceExists},
	"forbidden": {reason: appv1.ReasonForbidden, answer: func(b block) error {
		return apierrors.NewForbidden(schema.ParseGroupResource(b.resource), "web", errors.New("no right"))
	}},
	"refused": {reason: appv1.ReasonInvalid, answer: func(b block) error {
		return apierrors.NewInvalid(schema.GroupKind{Kind: b.resource}, "web", nil)
	}},
}

// TestServingTrouble has each object around the pods in trouble, in the short form in one of each. It holds up no other object, but for the first pod of an App
// that asks for an account or a policy; and no change of an App whose pods are there.
func TestServingTrouble(t *testing.T) {
	t.Parallel()
	turns := fixture.Turns(t, slices.Sorted(maps.Keys(troubles))...)
	for name, b := range blocks {
		for _, kind := range turns() {
			trouble := troubles[kind]
			t.Run(name+"-"+kind, func(t *testing.T) {
				t.Parallel()
				ns := plane.Namespace(t)
				in := &switchable{on: trouble.answer != nil}
				fault := harness.WithFault(func(q harness.Request, send func() (*http.Response, error)) (*http.Response, error) {
					if q.Write() && q.Resource == b.short() && in.is() {
						var status apierrors.APIStatus
						errors.As(trouble.answer(b), &status)
						return harness.Answer(status), nil
					}
					return send()
				})
				foreign := b.named(ns, "web")
				if trouble.answer == nil {
					b.foreign(foreign)
					plane.Create(t, foreign)
				}
				m := plane.Start(t, ns, fault, harness.WithForbidden())
				app := newServed(ns, "web", blockNames...)
				plane.Create(t, app)
				plane.Stands(t, app, "Applied=False/"+trouble.reason)
				if !b.first {
					plane.Stands(t, app, "Stalled=False")
				}
				for _, other := range blockNames {
					if other != name {
						plane.Read(t, blocks[other].named(ns, "web"))
					}
				}
				d := deployment(app)
				if b.first {
					plane.Absent(t, d)
					// Nothing but what is in the way of the object tells why no pod is there.
					plane.Stands(t, app, "Ready=False/"+trouble.reason)
					in.set(false)
					if trouble.answer == nil {
						plane.Delete(t, foreign)
					}
					setAnnotation(t, app, "kick", "1")
					plane.Stands(t, app, "Applied=True")
					return
				}
				completeRollout(t, d)
				plane.Stands(t, app, "Ready=True", "Applied=False/"+trouble.reason, "Stalled=False")
				setImage(t, app, "nginx:1.17")
				awaitImage(t, d, "nginx:1.17")
				in.set(false)
				if trouble.answer == nil {
					plane.Delete(t, foreign)
				}
				setAnnotation(t, app, "kick", "1")
				plane.Stands(t, app, "Applied=True")
				plane.Read(t, b.named(ns, "web"))
				m.Idle(t)
			})
		}
	}
}

// TestServingAdopts takes over objects around the pods that nothing controls, and restores one whose label others remove, which
// the cache then no longer shows.
func TestServingAdopts(t *testing.T) {
	t.Parallel()
	ns := plane.Namespace(t)
	for _, b := range blocks {
		foreign := b.named(ns, "web")
		b.foreign(foreign)
		if b.own != nil {
			b.own(foreign)
		}
		plane.Create(t, foreign)
	}
	m := plane.Start(t, ns)
	app := newServed(ns, "web", blockNames...)
	app.Annotations = map[string]string{appv1.AnnotationAdopt: "true"}
	plane.Create(t, app)
	plane.Stands(t, app, "Applied=True/Applied")
	m.Idle(t)
	for name, b := range blocks {
		m.Requests.Reset()
		obj := b.named(ns, "web")
		plane.Read(t, obj)
		if !metav1.IsControlledBy(obj, app) {
			t.Errorf("%s: the object is not adopted", name)
		}
		plane.Change(t, obj, func() { obj.SetLabels(nil) }, intruder)
		plane.Until(t, obj, func() error {
			if obj.GetLabels()[appv1.LabelManagedBy] != appv1.ManagedBy {
				return errors.New("the label is missing")
			}
			return nil
		})
		m.Idle(t)
		if n := m.Requests.Counts()["patch "+b.short()]; n > 2 {
			t.Errorf("%s: %d patches", name, n)
		}
	}
}

// TestDisabledFeatures switches each feature off: its field is refused, nothing of it is watched, and what is there stays.
func TestDisabledFeatures(t *testing.T) {
	t.Parallel()
	ns := plane.Namespace(t)
	m := plane.Start(t, ns)
	app := newServed(ns, "web", blockNames...)
	app.Spec.ConfigRollout = appv1.ConfigRolloutOnChange
	app.Spec.EnvFrom = []corev1.EnvFromSource{{ConfigMapRef: &corev1.ConfigMapEnvSource{LocalObjectReference: corev1.LocalObjectReference{Name: "settings"}}}}
	config := newConfigMap(ns, "settings", map[string]string{"level": "1"})
	plane.Create(t, config)
	createInPlace(t, app)
	plane.Stands(t, app, "ConfigFollowed=True")
	m.Stop(t)
	m = plane.Start(t, ns, harness.WithDisabled(validation.Features()...))
	plane.Read(t, app)
	plane.Change(t, app, func() { app.Spec.Image = "nginx:1.17" })
	plane.Stands(t, app, "Applied=False/Invalid", "Stalled=True/Invalid")
	for _, field := range blockNames {
		harness.Says(t, app, "Applied", "spec."+field+": ", "switched off on this cluster")
	}
	setData(t, config, "level", "2")
	m.Idle(t)
	if i := slices.IndexFunc(m.Requests.All(), func(q harness.Request) bool { return q.Resource == "configmaps" }); i >= 0 {
		t.Errorf("configRollout is switched off, and the manager sent %s", m.Requests.All()[i])
	}
	for name, b := range blocks {
		plane.Read(t, b.named(ns, "web"))
		if name == "autoscaling" {
			continue // Those of others are watched.
		}
		if i := slices.IndexFunc(m.Requests.All(), func(q harness.Request) bool { return q.Resource == b.short() }); i >= 0 {
			t.Errorf("%s is switched off, and the manager sent %s", name, m.Requests.All()[i])
		}
	}
	plane.Read(t, app)
	plane.Change(t, app, func() {
		for _, b := range blocks {
			b.clear(&app.Spec.ServingSpec)
		}
	})
	plane.Until(t, app, func() error {
		if message := harness.Message(app, "Applied"); !holdsAll(message, "spec.configRollout: ", "switched off on this cluster") || strings.Contains(message, "spec.ingress") {
			return fmt.Errorf("Applied says %q", message)
		}
		return nil
	})
}

// TestAutoscaling takes on an autoscaler, stops and starts the application, and gives the autoscaler up. The number of pods never
// falls on the way.
func TestAutoscaling(t *testing.T) {
	t.Parallel()
	ns, m := plane.Shared(t)
	app := newServed(ns, "web")
	d, _ := createInPlace(t, app)
	wants := func(n int32) {
		t.Helper()
		plane.Until(t, d, func() error {
			if *d.Spec.Replicas != n {
				return fmt.Errorf("%d replicas, want %d", *d.Spec.Replicas, n)
			}
			return nil
		})
		m.Idle(t)
		if plane.Read(t, d); *d.Spec.Replicas != n {
			t.Fatalf("%d replicas, want %d", *d.Spec.Replicas, n)
		}
	}
	change := func(mutate func()) {
		t.Helper()
		plane.Read(t, app)
		plane.Change(t, app, mutate)
		plane.Until(t, app, func() error {
			if app.Status.ObservedGeneration != app.Generation {
				return errors.New("not looked at yet")
			}
			return nil
		})
	}
	change(func() { app.Spec.Autoscaling = &appv1.AutoscalingSpec{MinReplicas: ptr.To[int32](3), MaxReplicas: 10} })
	wants(2) // The autoscaler raises it.
	scaleTo(t, d, 8)
	change(func() { app.Spec.Image = "nginx:1.17" })
	awaitImage(t, d, "nginx:1.17")
	wants(8)
	change(func() { app.Spec.Replicas = ptr.To[int32](0) })
	wants(0)
	change(func() { app.Spec.Replicas = nil })
	wants(3)
	scaleTo(t, d, 7)
	change(func() { app.Spec.Autoscaling = nil })
	plane.Gone(t, blocks["autoscaling"].named(ns, "web"))
	wants(7)

	other := newAutoscaler(app, "apps/v1", "Deployment")
	other.Name = "old"
	plane.Create(t, other)
	change(func() { app.Spec.Autoscaling = &appv1.AutoscalingSpec{MaxReplicas: 10} })
	plane.Stands(t, app, "Autoscaled=False/AutoscalerExists", "Applied=False/AutoscalerExists", "Stalled=False")
	harness.Says(t, app, "Autoscaled", "HorizontalPodAutoscaler old scales Deployment web already")
	plane.Absent(t, blocks["autoscaling"].named(ns, "web"))
	wants(7)
	plane.Delete(t, other)
	plane.Stands(t, app, "Autoscaled=Unknown/Progressing", "Applied=True")
	wants(7)
}

// switchable is a fault that can be ended.
type switchable struct {
	mu sync.Mutex
	on bool
}

func (s *switchable) is() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.on
}

func (s *switchable) set(on bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.on = on
}

// TestServingInvalid makes an App with all that can stand around its pods invalid while the same change removes or changes a block.
// What is not valid leaves the objects that it is about as they are, what is valid by itself goes on, the field is named, and
// nothing is lost. Fixed, the App has what it asks for. What can be wrong with a disruptionBudget, the schema refuses.
func TestServingInvalid(t *testing.T) {
	t.Parallel()
	ns, m := plane.Shared(t)
	for name, c := range map[string]struct {
		mutate func(*appv1.AppSpec)
		// about is the block that is invalid, empty for the pods.
		about, says string
	}{
		"pods": {
			mutate: func(s *appv1.AppSpec) { s.EnvFrom = []corev1.EnvFromSource{{Prefix: "A"}} },
			says:   "spec.envFrom[0]",
		},
		"account": {
			mutate: func(s *appv1.AppSpec) { s.ServiceAccount.Annotations = map[string]string{"a b": "c"} },
			about:  "serviceAccount", says: "spec.serviceAccount.annotations",
		},
		"policy": {
			mutate: func(s *appv1.AppSpec) {
				s.NetworkPolicy.Ingress = []networkingv1.NetworkPolicyIngressRule{{From: []networkingv1.NetworkPolicyPeer{{}}}}
			},
			about: "networkPolicy", says: "spec.networkPolicy.ingress[0].from[0]",
		},
		"autoscaler": {
			mutate: func(s *appv1.AppSpec) { s.Resources.Requests = nil },
			about:  "autoscaling", says: "spec.autoscaling",
		},
		"ingress": {
			mutate: func(s *appv1.AppSpec) { s.Ingress.Port = ptr.To(intstr.FromString("absent")) },
			about:  "ingress", says: "spec.ingress.port",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			app := newServed(ns, name, blockNames...)
			d, _ := createInPlace(t, app)
			plane.Stands(t, app, "Applied=True", "Stalled=False")
			m.Idle(t)
			deploymentWas, was := readWhole(t, d), map[string]map[string]any{}
			for _, block := range blockNames {
				was[block] = readWhole(t, blocks[block].named(ns, name))
			}
			right := app.Spec.DeepCopy()
			other := "ingress"
			if c.about == other {
				other = "disruptionBudget"
			}

			plane.Read(t, app)
			plane.Change(t, app, func() {
				c.mutate(&app.Spec)
				blocks[other].change(&app.Spec.ServingSpec)
			})
			plane.Stands(t, app, "Stalled=True/Invalid")
			harness.Says(t, app, "Stalled", c.says)
			changed := blocks[other].named(ns, name)
			plane.Until(t, changed, func() error {
				if changed.GetGeneration() == 1 {
					return fmt.Errorf("%s is valid and was not changed", other)
				}
				return nil
			})
			m.Idle(t)
			checkUntouched(t, d, deploymentWas)
			for _, block := range blockNames {
				if block != other {
					checkUntouched(t, blocks[block].named(ns, name), was[block])
				}
			}

			plane.Read(t, app)
			plane.Change(t, app, func() { right.DeepCopyInto(&app.Spec) })
			plane.Stands(t, app, "Applied=True", "Stalled=False")
			for _, block := range blockNames {
				plane.Read(t, blocks[block].named(ns, name))
			}
		})
	}
}

// podsGoOn changes the pods of an App one of whose objects cannot be made, or checks that there are none, if that has to be there first.
func podsGoOn(t *testing.T, app *appv1.App, first bool) {
	t.Helper()
	d := deployment(app)
	if first {
		plane.Absent(t, d)
		return
	}
	plane.Read(t, d)
	completeRollout(t, d)
	plane.Stands(t, app, "Ready=True")
	setImage(t, app, "nginx:1.17")
	awaitImage(t, d, "nginx:1.17")
}

// allowLesser gives the manager that runs with the Role "lesser" a right.
func allowLesser(t *testing.T, namespace, resource string, verbs ...string) {
	t.Helper()
	group := schema.ParseGroupResource(resource)
	role := &rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "lesser"}}
	plane.Read(t, role)
	plane.Change(t, role, func() {
		role.Rules = append(role.Rules, rbacv1.PolicyRule{APIGroups: []string{group.Group}, Resources: []string{group.Resource}, Verbs: verbs})
	})
}

// TestServingWithoutRightToWrite runs a manager that may see the objects around the pods, and not write those of one type. All other
// objects are made, the condition names what is missing, and with the right the object is made.
func TestServingWithoutRightToWrite(t *testing.T) {
	t.Parallel()
	all, err := harness.Rights()
	if err != nil {
		t.Fatal(err)
	}
	for name, b := range blocks {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ns := plane.Namespace(t)
			fewer := slices.DeleteFunc(slices.Clone(all), func(r harness.Right) bool {
				return r.Resource == b.short() && !slices.Contains([]string{"get", "list", "watch"}, r.Verb)
			})
			if len(fewer) == len(all) {
				t.Fatalf("the manager has no right to %s to lose", b.short())
			}
			plane.Bind(t, ns, "lesser", fewer, ns)
			plane.Start(t, ns, harness.WithAccount(ns, "lesser"), harness.WithForbidden(), harness.WithLookAgain(time.Second))
			app := newServed(ns, "web", blockNames...)
			plane.Create(t, app)
			plane.Stands(t, app, "Applied=False/"+appv1.ReasonForbidden, "Stalled=False")
			harness.Says(t, app, "Applied", b.short())
			for _, other := range blockNames {
				if other != name {
					plane.Read(t, blocks[other].named(ns, "web"))
				}
			}
			podsGoOn(t, app, b.first)
			allowLesser(t, ns, b.resource, "get", "list", "watch", "create", "update", "patch", "delete")
			plane.Stands(t, app, "Applied=True")
			plane.Read(t, b.named(ns, "web"))
		})
	}
}

// TestServingWithoutRights runs a manager that has no right at all to one of the types of objects around the pods, from its start. All
// other objects are made and kept, the condition names what is missing, and with the right the object is made, and repaired. The
// next manager has the right from its start.
func TestServingWithoutRights(t *testing.T) {
	t.Parallel()
	all, err := harness.Rights()
	if err != nil {
		t.Fatal(err)
	}
	for name, b := range blocks {
		if name == "autoscaling" {
			continue // Autoscalers of others decide the number of pods: without them, the manager does not work.
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ns := plane.Namespace(t)
			group := schema.ParseGroupResource(b.resource)
			lost := func(r harness.Right) bool { return r.Group == group.Group && r.Resource == group.Resource }
			fewer := slices.DeleteFunc(slices.Clone(all), lost)
			if len(fewer) == len(all) {
				t.Fatalf("the manager has no right to %s to lose", b.resource)
			}
			plane.Bind(t, ns, "lesser", fewer, ns)
			options := []harness.Option{harness.WithAccount(ns, "lesser"), harness.WithForbidden(), harness.WithLookAgain(time.Second)}
			m := plane.Start(t, ns, options...)
			plain := newApp(ns, "plain")
			plane.Create(t, plain)
			plane.Stands(t, plain, progressing...)
			completeRollout(t, deployment(plain))
			plane.Stands(t, plain, "Applied=True", "Ready=True")
			app := newServed(ns, "web", blockNames...)
			plane.Create(t, app)
			plane.Stands(t, app, "Applied=False/"+appv1.ReasonForbidden)
			harness.Says(t, app, "Applied", group.Resource, "Grant this permission to the operator, or remove spec."+name)
			for _, other := range blockNames {
				if other != name && !b.first {
					plane.Read(t, blocks[other].named(ns, "web"))
				}
			}
			podsGoOn(t, app, b.first)
			allowLesser(t, ns, b.resource, "get", "list", "watch", "create", "patch", "delete")
			plane.Stands(t, app, "Applied=True")
			obj := b.named(ns, "web")
			plane.Read(t, obj)
			uid := obj.GetUID()
			plane.Delete(t, obj)
			plane.Until(t, obj, func() error {
				if obj.GetUID() == uid {
					return errors.New("it is not made again")
				}
				return nil
			})
			plane.Stands(t, app, "Applied=True")
			m.Idle(t)
			m.Stop(t)
			m = plane.Start(t, ns, options...)
			checkRequests(t, m, "restart", map[string]int{})
			plane.Read(t, app)
			plane.Change(t, app, func() { b.clear(&app.Spec.ServingSpec) })
			harness.Eventually(t, func() error {
				completeRollout(t, deployment(app)) // An account stays until no pod uses it.
				err := plane.Client.Get(t.Context(), client.ObjectKeyFromObject(obj), b.named(ns, "web"))
				if err == nil {
					return errors.New("it is still there")
				}
				return client.IgnoreNotFound(err)
			})
		})
	}
}
