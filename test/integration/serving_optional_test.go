package integration

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	monitoringv1 "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	appv1 "huolala.cn/app-operator/api/v1"
	"huolala.cn/app-operator/test/harness"
)

// optionalPlane is a control plane in which kinds come and go.
type optionalPlane struct{ *harness.Plane }

func startOptionalPlane(t *testing.T) optionalPlane {
	t.Helper()
	p, err := harness.StartAPIServer()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		plane.UsedToo(p)
		if err := p.Stop(); err != nil {
			t.Errorf("stop the control plane: %v", err)
		}
	})
	return optionalPlane{p}
}

// undefine deletes a definition and waits until it is gone.
func (p optionalPlane) undefine(t *testing.T, definition *apiextensionsv1.CustomResourceDefinition) {
	t.Helper()
	p.Delete(t, definition.DeepCopy())
	p.Gone(t, definition.DeepCopy())
}

// newOptionalApp returns an App that asks for both optional kinds.
func newOptionalApp(namespace, name string) *appv1.App {
	app := newApp(namespace, name)
	app.Spec.HTTPRoute = &appv1.HTTPRouteSpec{
		ParentRefs: []appv1.ParentRef{{Name: "public", Namespace: "gateways", SectionName: "https"}}, Hostnames: []appv1.Hostname{"shop.example.com"},
	}
	app.Spec.PodMonitor = &appv1.PodMonitorSpec{Interval: "30s", Labels: map[string]string{"release": "prometheus"}}
	return app
}

func routeOf(app client.Object) *gatewayv1.HTTPRoute {
	return &gatewayv1.HTTPRoute{ObjectMeta: metav1.ObjectMeta{Namespace: app.GetNamespace(), Name: app.GetName()}}
}

func monitorOf(app client.Object) *monitoringv1.PodMonitor {
	return &monitoringv1.PodMonitor{ObjectMeta: metav1.ObjectMeta{Namespace: app.GetNamespace(), Name: app.GetName()}}
}

// available has all pods of an App be available, which its optional kinds have no part in.
func (p optionalPlane) available(t *testing.T, app *appv1.App) {
	t.Helper()
	d := deployment(app)
	p.Until(t, d, func() error { return nil })
	p.ChangeStatus(t, d, func() {
		n := *d.Spec.Replicas
		d.Status.ObservedGeneration, d.Status.Replicas, d.Status.UpdatedReplicas = d.Generation, n, n
		d.Status.ReadyReplicas, d.Status.AvailableReplicas = n, n
	})
	p.Stands(t, app, "Ready=True", "Stalled=False/NotStalled")
}

// judge writes what the controller of a Gateway says of a route.
func (p optionalPlane) judge(t *testing.T, route *gatewayv1.HTTPRoute, accepted metav1.ConditionStatus, reason string) {
	t.Helper()
	p.Read(t, route)
	p.ChangeStatus(t, route, func() {
		status := gatewayv1.RouteParentStatus{ParentRef: route.Spec.ParentRefs[0], ControllerName: "example.com/gateway"}
		for kind, value := range map[string]metav1.ConditionStatus{"Accepted": accepted, "ResolvedRefs": metav1.ConditionTrue} {
			meta.SetStatusCondition(&status.Conditions, metav1.Condition{
				Type: kind, Status: value, Reason: reason, Message: "as the controller says", ObservedGeneration: route.Generation,
			})
		}
		slices.SortFunc(status.Conditions, func(a, b metav1.Condition) int { return strings.Compare(a.Type, b.Type) })
		route.Status.Parents = []gatewayv1.RouteParentStatus{status}
	})
}

// countDiscoveries returns how often a manager has asked what the API server serves.
func countDiscoveries(m *harness.Manager) (n int) {
	for _, q := range m.Requests.All() {
		if q.Path == "/apis" {
			n++
		}
	}
	return n
}

// TestOptionalKinds has HTTPRoutes and PodMonitors be absent, come, go and come back under one manager, which never restarts.
func TestOptionalKinds(t *testing.T) {
	t.Parallel()
	p := startOptionalPlane(t)
	ns, address := p.Namespace(t), harness.FreeAddress(t)
	m := p.Start(t, ns, harness.WithProbes(address))
	awaitProbe(t, address, "readyz", http.StatusOK)
	m.Idle(t)
	m.Requests.Reset()

	// A plain App costs what it always does, and the kinds are not looked for.
	plain := newApp(ns, "plain")
	p.Create(t, plain)
	create := map[string]int{"patch deployments": 1, "patch services": 1, "patch apps/status": 1, "create events": 1}
	checkRequests(t, m, "a plain App", create)
	m.Requests.Reset()
	app := newOptionalApp(ns, "web")
	p.Create(t, app)
	p.Stands(t, app, "Applied=False/KindMissing", "Exposed=False/KindMissing", "Stalled=False/NotStalled")
	harness.Says(t, app, "Exposed", "the cluster has no HTTPRoute (gateway.networking.k8s.io/v1)", "remove spec.httpRoute")
	p.available(t, app)
	checkRequests(t, m, "an App whose kinds are absent", map[string]int{
		"patch deployments": 1, "patch services": 1, "patch apps/status": 2, "create events": 1,
	})
	if n := countDiscoveries(m); n > 0 {
		t.Errorf("the API server was asked %d times what it serves, although the definitions are watched", n)
	}

	route, monitor := harness.HTTPRouteDefinition(t), harness.PodMonitorDefinition()
	for _, again := range []string{"comes", "comes back"} {
		m.Requests.Reset()
		p.Define(t, route)
		p.Define(t, monitor)
		p.Stands(t, app, "Applied=True", "Exposed=Unknown/NoController", "Ready=True")
		m.Idle(t)
		if got := m.Requests.Writes(); got["patch httproutes"] != 1 || got["patch podmonitors"] != 1 || got["patch deployments"]+got["patch services"] > 0 {
			t.Errorf("when the kinds %s, the manager writes %v", again, got)
		}
		m.Requests.Reset()
		checkRequests(t, m, "idle", map[string]int{})
		p.useOptionalKinds(t, m, app)

		p.undefine(t, route)
		p.undefine(t, monitor)
		p.Stands(t, app, "Applied=False/KindMissing", "Exposed=False/KindMissing", "Ready=True", "Stalled=False/NotStalled")
		m.Idle(t)
		m.Requests.Reset()
		p.Change(t, app, func() { app.Spec.Image += "0" })
		checkRequests(t, m, "another image without the kinds", map[string]int{"patch deployments": 1, "patch apps/status": 1, "create events": 1})
		p.available(t, app)
		awaitProbe(t, address, "readyz", http.StatusOK)
	}
	m.Requests.Reset()
	p.Read(t, plain)
	p.Change(t, plain, func() { plain.Spec.Image = "nginx:1.17" })
	checkRequests(t, m, "the plain App at the end", map[string]int{"patch deployments": 1, "patch apps/status": 1, "create events": 1})
}

// useOptionalKinds takes the objects of an App through their lives while both kinds are there.
func (p optionalPlane) useOptionalKinds(t *testing.T, m *harness.Manager, app *appv1.App) {
	t.Helper()
	route, monitor := routeOf(app), monitorOf(app)
	change := func(mutate func()) { p.Read(t, app); p.Change(t, app, mutate) }
	for _, step := range []struct {
		what string
		do   func()
		want map[string]int
	}{
		{"accepted", func() {
			p.judge(t, route, metav1.ConditionTrue, "Accepted")
			p.Stands(t, app, "Exposed=True/Accepted")
		}, map[string]int{"patch apps/status": 1}},
		{"more words of the controller", func() { p.judge(t, route, metav1.ConditionTrue, "AcceptedAgain") }, map[string]int{}},
		{"refused", func() {
			p.judge(t, route, metav1.ConditionFalse, "NotAllowedByListeners")
			p.Stands(t, app, "Exposed=False/NotAccepted", "Ready=True", "Stalled=False/NotStalled")
			harness.Says(t, app, "Exposed", "NotAllowedByListeners: as the controller says")
		}, map[string]int{"patch apps/status": 1}},
		{"accepted again", func() { p.judge(t, route, metav1.ConditionTrue, "Accepted") }, map[string]int{"patch apps/status": 1}},
		{"drift of the monitor", func() {
			p.Read(t, monitor)
			p.Change(t, monitor, func() { monitor.Spec.PodMetricsEndpoints[0].Path = "/theirs" })
		}, map[string]int{"patch podmonitors": 1, "create events": 1}},
		{"drift of the monitor's selector", func() {
			p.Read(t, monitor)
			p.Change(t, monitor, func() {
				monitor.Spec.Selector.MatchExpressions = []metav1.LabelSelectorRequirement{{Key: "theirs", Operator: metav1.LabelSelectorOpExists}}
			})
			p.Until(t, monitor, func() error {
				if len(monitor.Spec.Selector.MatchExpressions) > 0 {
					return errors.New("the selector is not restored")
				}
				return nil
			})
		}, map[string]int{"patch podmonitors": 1, "create events": 1}},
		{"labels of others", func() {
			p.Read(t, monitor)
			p.Change(t, monitor, func() { monitor.Labels["theirs"] = "1" })
		}, map[string]int{}},
		{"another interval", func() { change(func() { app.Spec.PodMonitor.Interval = "1m" }) },
			map[string]int{"patch podmonitors": 1, "patch apps/status": 1, "create events": 1}},
		{"no monitor", func() { change(func() { app.Spec.PodMonitor = nil }); p.Gone(t, monitor) },
			map[string]int{"delete podmonitors": 1, "patch apps/status": 1, "create events": 1}},
		{"a monitor again", func() { change(func() { app.Spec.PodMonitor = newOptionalApp("", "").Spec.PodMonitor }) },
			// A child of an App that was reconciled before is created only after the App was read from the API server.
			map[string]int{"get apps": 1, "patch podmonitors": 1, "patch apps/status": 1, "create events": 1}},
		{"idle", func() {}, map[string]int{}},
	} {
		m.Idle(t)
		m.Requests.Reset()
		step.do()
		checkRequests(t, m, step.what, step.want)
	}
	p.Read(t, route)
	p.Change(t, route, func() { route.Spec.Hostnames = []gatewayv1.Hostname{"theirs.example.com"} })
	p.Until(t, route, func() error {
		if diff := cmp.Diff([]gatewayv1.Hostname{"shop.example.com"}, route.Spec.Hostnames); diff != "" {
			return errors.New(diff)
		}
		return nil
	})
	m.Idle(t)
}

// TestOptionalKindsAfterAStop removes the fields while no manager runs. The next one deletes the objects, and one that starts with
// nothing to do writes nothing.
func TestOptionalKindsAfterAStop(t *testing.T) {
	t.Parallel()
	p := optionalPlane{complete.start(t)}
	ns := p.Namespace(t)
	m := p.Start(t, ns)
	app := newOptionalApp(ns, "web")
	p.Create(t, app)
	p.Stands(t, app, "Applied=True", "Exposed=Unknown/NoController")
	// What others have made is not touched, and holds nothing else up.
	taken := newOptionalApp(ns, "taken")
	p.Create(t, routeOf(taken), monitorOf(taken), taken)
	p.Stands(t, taken, "Applied=False/ResourceExists", "Exposed=False/ResourceExists", "Stalled=False/NotStalled")
	p.available(t, taken)
	p.Delete(t, taken)
	m.Idle(t)
	m.Stop(t)

	states := harness.Follow[*appv1.App](t, p.Plane, &appv1.AppList{}, ns)
	again := p.Start(t, ns)
	again.Idle(t)
	if got := again.Requests.Writes(); len(got) > 0 {
		t.Errorf("after a restart, the manager writes %v", got)
		for before, after := range states.Changes(t, app) {
			t.Logf("a state (-before +after):\n%s", cmp.Diff(before.Status, after.Status))
		}
	}
	again.Stop(t)
	p.Read(t, app)
	p.Change(t, app, func() { app.Spec.HTTPRoute, app.Spec.PodMonitor = nil, nil })
	last := p.Start(t, ns, harness.WithFault(withoutStreams))
	p.Gone(t, routeOf(app))
	p.Gone(t, monitorOf(app))
	p.Stands(t, app, "Applied=True")
	last.Idle(t)
	p.Absent(t, routeOf(app))
}

// TestOptionalKindsInPart has the definitions of other kinds of the group, and of another version of the kind.
func TestOptionalKindsInPart(t *testing.T) {
	t.Parallel()
	p := startOptionalPlane(t)
	other := harness.PodMonitorDefinition()
	other.Name = "podothers.monitoring.coreos.com"
	other.Spec.Names = apiextensionsv1.CustomResourceDefinitionNames{Plural: "podothers", Singular: "podother", Kind: "PodOther", ListKind: "PodOtherList"}
	p.Define(t, other)
	route := harness.HTTPRouteDefinition(t)
	for i := range route.Spec.Versions {
		route.Spec.Versions[i].Served = route.Spec.Versions[i].Name != "v1"
	}
	p.Define(t, route)
	ns := p.Namespace(t)
	m := p.Start(t, ns)
	app := newOptionalApp(ns, "web")
	p.Create(t, app)
	p.Stands(t, app, "Applied=False/KindMissing", "Exposed=False/KindMissing", "Stalled=False/NotStalled")
	p.available(t, app)
	for _, q := range m.Requests.All() {
		if q.Resource == "httproutes" || q.Resource == "podmonitors" {
			t.Errorf("a request for what is not served: %s", q)
		}
	}
	route = harness.HTTPRouteDefinition(t)
	p.Define(t, route)
	p.Stands(t, app, "Exposed=Unknown/NoController", "Applied=False/KindMissing")
}

// TestOptionalKindsWithoutRights runs a manager that may neither see the definitions nor list HTTPRoutes, gives it the right to
// the latter and takes it back.
func TestOptionalKindsWithoutRights(t *testing.T) {
	t.Parallel()
	p := startOptionalPlane(t)
	ns := p.Namespace(t)
	all, err := harness.Rights()
	if err != nil {
		t.Fatal(err)
	}
	fewer := slices.DeleteFunc(slices.Clone(all), func(r harness.Right) bool { return r.Resource == "httproutes" })
	p.Bind(t, ns, "lesser", fewer, ns)
	const pause = 5 * time.Second
	m := p.Start(t, ns, harness.WithAccount(ns, "lesser"), harness.WithForbidden(), harness.WithLookAgain(pause))
	m.Idle(t)
	m.Requests.Reset()
	began := time.Now()
	for i := range 20 {
		app := newOptionalApp(ns, fmt.Sprintf("web-%d", i))
		p.Create(t, app)
	}
	for i := range 20 {
		p.Stands(t, newOptionalApp(ns, fmt.Sprintf("web-%d", i)), "Exposed=False/KindMissing", "Stalled=False/NotStalled")
	}
	p.Define(t, harness.HTTPRouteDefinition(t))
	app := newOptionalApp(ns, "web-0")
	p.Stands(t, app, "Exposed=False/Forbidden", "Stalled=False/NotStalled")
	harness.Says(t, app, "Exposed", `cannot list resource "httproutes"`)
	p.available(t, app)
	if n, most := countDiscoveries(m), int(time.Since(began)/pause)+1; n > most {
		t.Errorf("for 20 Apps the API server was asked %d times what it serves, want at most %d", n, most)
	}

	role := &rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "lesser"}}
	p.Read(t, role)
	without := slices.Clone(role.Rules)
	p.Change(t, role, func() {
		role.Rules = append(role.Rules, rbacv1.PolicyRule{
			APIGroups: []string{"gateway.networking.k8s.io"}, Resources: []string{"httproutes"},
			Verbs: []string{"get", "list", "watch", "create", "patch", "delete"},
		})
	})
	p.Stands(t, app, "Exposed=Unknown/NoController")
	p.Change(t, role, func() { role.Rules = without })
	harness.Eventually(t, func() error { // The API server takes a moment to know it.
		p.Read(t, app)
		p.Change(t, app, func() { app.Spec.HTTPRoute.Hostnames[0] = "a" + app.Spec.HTTPRoute.Hostnames[0] })
		p.Until(t, app, func() error {
			if app.Status.ObservedGeneration != app.Generation {
				return errors.New("not seen yet")
			}
			return nil
		})
		if c := meta.FindStatusCondition(app.Status.Conditions, appv1.ConditionApplied); c == nil || c.Reason != appv1.ReasonForbidden {
			return fmt.Errorf("Applied is %v", c)
		}
		return nil
	})
	p.Stands(t, app, "Stalled=False/NotStalled", "Ready=True")
}
