package integration

import (
	"fmt"
	"strings"
	"testing"

	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/yaml"

	appv1 "huolala.cn/app-operator/api/v1"
	"huolala.cn/app-operator/test/harness"
)

// setWhenStated sets the defaults of blocks by their YAML.
func setWhenStated(t *testing.T, defaults *appv1.AppDefaults, text string) {
	t.Helper()
	defaults.Spec.WhenStated = appv1.WhenStated{}
	if err := yaml.UnmarshalStrict([]byte(text), &defaults.Spec.WhenStated); err != nil {
		t.Fatal(err)
	}
}

// awaitBlocks waits until the objects of an App have the values of blocks: the Gateway, the class, and the label of the PodMonitor.
func (p optionalPlane) awaitBlocks(t *testing.T, app *appv1.App, gateway, class, release string) {
	t.Helper()
	route, monitor := routeOf(app), monitorOf(app)
	ingress := &networkingv1.Ingress{ObjectMeta: metav1.ObjectMeta{Namespace: app.Namespace, Name: app.Name}}
	p.Until(t, route, func() error {
		if refs := route.Spec.ParentRefs; len(refs) != 1 || string(refs[0].Name) != gateway {
			return fmt.Errorf("the HTTPRoute has %v, want %s", refs, gateway)
		}
		return nil
	})
	p.Until(t, ingress, func() error {
		if got := ptr.Deref(ingress.Spec.IngressClassName, ""); got != class {
			return fmt.Errorf("the Ingress has %s, want %s", got, class)
		}
		return nil
	})
	p.Until(t, monitor, func() error {
		if got := monitor.Labels["release"]; got != release {
			return fmt.Errorf("the PodMonitor has %s, want %s", got, release)
		}
		return nil
	})
}

// awaitCurrent waits until the status of an App says whether it has the present defaults.
func (p optionalPlane) awaitCurrent(t *testing.T, app *appv1.App, current bool) {
	t.Helper()
	p.Until(t, app, func() error {
		if used := app.Status.Defaults; used == nil || used.Current != current {
			return fmt.Errorf("the defaults are %+v", used)
		}
		return nil
	})
}

// TestWhenStatedDefaults fills the blocks that an App states. An edit of AppDefaults writes nothing; the next change of the App takes it, a block that it
// names in withoutDefaults stays as it is, and an App without blocks has none.
func TestWhenStatedDefaults(t *testing.T) {
	t.Parallel()
	p := startOptionalPlane(t)
	p.Define(t, harness.HTTPRouteDefinition(t))
	p.Define(t, harness.PodMonitorDefinition())
	ns := p.Namespace(t)
	defaults := &appv1.AppDefaults{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: appv1.AppDefaultsName}}
	const blocks = `{httpRoute: {parentRefs: [{name: %s, namespace: gateways}]}, ingress: {className: %[1]s, annotations: {issuer: a}}, podMonitor: {labels: {release: %[1]s}}}`
	setWhenStated(t, defaults, fmt.Sprintf(blocks, "a"))
	p.Create(t, defaults)
	m := p.Start(t, ns)
	plain, app := newApp(ns, "plain"), newApp(ns, "web")
	app.Spec.HTTPRoute, app.Spec.PodMonitor = &appv1.HTTPRouteSpec{}, &appv1.PodMonitorSpec{}
	app.Spec.Ingress = &appv1.IngressSpec{Rules: []appv1.IngressRule{{Host: "shop.example.com"}}}
	p.Create(t, plain)
	p.Create(t, app)
	p.awaitBlocks(t, app, "a", "a", "a")
	p.awaitCurrent(t, app, true)
	p.awaitCurrent(t, plain, true)
	p.Absent(t, routeOf(plain))
	m.Idle(t)

	m.Requests.Reset()
	p.Read(t, defaults)
	p.Change(t, defaults, func() { setWhenStated(t, defaults, fmt.Sprintf(blocks, "b")) })
	p.awaitCurrent(t, app, false)
	checkAppRequests(t, m, "edited AppDefaults", map[string]int{"patch apps/status": 1})
	p.awaitBlocks(t, app, "a", "a", "a")
	p.awaitCurrent(t, plain, true)
	m.Stop(t)
	m = p.Start(t, ns)
	checkAppRequests(t, m, "a restart", map[string]int{})

	p.Read(t, app)
	p.Change(t, app, func() { app.Spec.Image = "nginx:1.17" })
	p.awaitBlocks(t, app, "b", "b", "b")
	p.awaitCurrent(t, app, true)
	p.Change(t, app, func() {
		app.Spec.WithoutDefaults = []string{"ingress", "podMonitor"}
		app.Spec.HTTPRoute.ParentRefs = []appv1.ParentRef{{Name: "own"}}
	})
	p.awaitBlocks(t, app, "own", "b", "") // The Ingress keeps its class: without any, no controller would serve it.
	p.Change(t, app, func() { app.Spec.HTTPRoute.ParentRefs, app.Spec.WithoutDefaults = nil, []string{"httpRoute"} })
	p.Stands(t, app, "Ready=False/Invalid")
	if message := harness.Message(app, "Ready"); !strings.Contains(message, "spec.httpRoute.parentRefs") {
		t.Errorf("the message is %s", message)
	}
	m.Idle(t)
	p.awaitBlocks(t, app, "own", "b", "b") // The other blocks are valid, and no longer named.
}
