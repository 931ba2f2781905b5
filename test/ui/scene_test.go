package ui

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	appv1 "huolala.cn/app-operator/api/v1"
	"huolala.cn/app-operator/test/fixture"
	"huolala.cn/app-operator/test/harness"
)

const (
	badImage = "imagepullbackoff.test/cart:2"
	// evil runs as a script wherever it gets into a page as markup.
	evil = `"><img src=x onerror=alert(1)><script>alert(2)</script><svg onload=alert(3)>`
)

// longName is as long as the name of an App can be.
var longName = strings.Repeat("n", 63)

// place is a page, with the status of its answer.
type place struct {
	name, address string
	status        int64
}

// scene is a namespace with resources in all states, and the application centre on it.
type scene struct {
	namespace string
	centre    *centre
	// first is a tab that is logged in.
	first *tab
	// places are all pages, and each of them in all its states.
	places []place
}

// standing returns an error unless the reason of Ready is this one, for the latest generation.
func standing(r harness.Resource, reason string) error {
	for _, c := range r.CommonStatus().Conditions {
		if c.Type == appv1.ConditionReady && c.Reason == reason && c.ObservedGeneration == r.GetGeneration() {
			return nil
		}
	}
	return fmt.Errorf("%s is not %s: %+v", r.GetName(), reason, r.CommonStatus().Conditions)
}

// settle creates resources and waits until the reason of Ready is this one.
func settle(t testing.TB, reason string, resources ...harness.Resource) {
	t.Helper()
	for _, r := range resources {
		plane.Create(t, r)
	}
	for _, r := range resources {
		plane.Until(t, r, func() error { return standing(r, reason) })
	}
}

// administrator returns the kubeconfig of an administrator, and a namespace in which a manager works.
func administrator(t testing.TB) (kubeconfig, namespace string) {
	t.Helper()
	need(t)
	namespace, _ = plane.Shared(t)
	return harness.WriteKubeconfig(t, plane.Config), namespace
}

// planner is administrator in a namespace whose manager answers plans.
func planner(t testing.TB) (kubeconfig, namespace string) {
	t.Helper()
	need(t)
	namespace = plane.Namespace(t)
	plane.Start(t, namespace, harness.WithWebhooks(plane.Webhooks(t, namespace)))
	return harness.WriteKubeconfig(t, plane.Config), namespace
}

// viewer returns the way to the API server of a user who can list Apps and nothing else.
func viewer(t testing.TB, namespace string) *rest.Config {
	t.Helper()
	plane.Bind(t, namespace, "viewer", []harness.Right{{Group: appv1.GroupVersion.Group, Resource: "apps", Verb: "list"},
		{Group: appv1.GroupVersion.Group, Resource: "apps", Verb: "get"}}, namespace)
	return plane.ProxyAs(t, types.NamespacedName{Namespace: namespace, Name: "viewer"}, nil).Config()
}

// newScene makes a scene, for as long as a test.
func newScene(t testing.TB) *scene {
	t.Helper()
	config, ns := planner(t)
	populate(t, ns)
	s := &scene{namespace: ns, centre: open(t, config, "-n", ns), first: newTab(t)}
	s.first.login(s.centre)
	at := func(name, path string, status int64) {
		s.places = append(s.places, place{name, s.centre.base + path, status})
	}
	at("list", "", http.StatusOK)
	at("filtered list", "?filter=imagepull", http.StatusOK)
	at("list of nothing", "?filter=nothing-like-it", http.StatusOK)
	at("list with a hostile filter", "?filter=%22%3E%3Cscript%3Ealert(4)%3C/script%3E", http.StatusOK)
	for _, name := range []string{
		"app/cart", "app/" + longName, "app/stalled", "app/paused", "app/hostile", "modelbox/search", "uniteddeployment/scaled", "cloudmanager/office",
	} {
		at(name, strings.Replace(name, "/", "/"+ns+"/", 1), http.StatusOK)
	}
	at("resource that does not exist", "app/"+ns+"/none", http.StatusNotFound)
	at("plan of more pods", "app/"+ns+"/cart/scale?value=3", http.StatusOK)
	at("plan of a way back", "app/"+ns+"/stalled/rollback?value=1", http.StatusOK)
	at("plan without a value", "app/"+ns+"/cart/scale?value=many", http.StatusBadRequest)
	at("plan for a revision that there is not", "app/"+ns+"/cart/rollback?value=99", http.StatusBadGateway)
	at("list of a kind", "?filter=kind:app", http.StatusOK)
	at("plan of YAML", "plan", http.StatusOK)
	at("plan of YAML, begun", "plan?of=app/"+ns+"/cart", http.StatusOK)
	at("plan of YAML that is hidden", "plan?of=app/"+ns+"/hostile", http.StatusOK)
	at("plan of YAML of nothing", "plan?of=app/"+ns, http.StatusBadRequest)
	limited := harness.WriteKubeconfig(t, viewer(t, ns))
	s.places = append(s.places, place{"login", open(t, limited, "-n", ns).base, http.StatusUnauthorized})
	blind := open(t, limited, "-n", ns)
	s.first.login(blind)
	s.places = append(s.places, place{"list without rights", blind.base, http.StatusOK},
		place{"resource without rights", blind.base + "app/" + ns + "/stalled", http.StatusOK})
	return s
}

// populate makes a resource in each state, one of each kind, and one whose texts are hostile.
func populate(t testing.TB, ns string) {
	t.Helper()
	stalled := fixture.NewApp(ns, "stalled")
	hostile := newHostile(ns)
	paused := fixture.NewApp(ns, "paused")
	settle(t, appv1.ReasonReady, fixture.NewApp(ns, "cart"), fixture.NewApp(ns, longName), stalled, hostile, paused, fixture.NewModelBox(ns, "search"),
		fixture.NewCloudManager(ns, "office"))
	plane.Change(t, paused, func() { paused.Spec.Paused = true })
	plane.Create(t, fixture.NewDeployment(ns, "scaled"))
	settle(t, appv1.ReasonReady, fixture.NewUnitedDeployment(ns, "scaled", "scaled"))
	plane.Change(t, stalled, func() { stalled.Spec.Image = badImage })
	plane.Until(t, stalled, func() error { return standing(stalled, "ImagePullBackOff") })
	plane.Create(t, hostileEvent(hostile))
}

// newHostile returns an App whose texts are hostile.
func newHostile(ns string) *appv1.App {
	app := fixture.NewApp(ns, "hostile")
	app.Spec.Args = []string{evil}
	app.Spec.Envs = []corev1.EnvVar{{Name: "GREETING", Value: evil}}
	app.Annotations = map[string]string{"example.com/note": evil}
	return app
}

// hostileEvent returns an event of an App.
func hostileEvent(app *appv1.App) *corev1.Event {
	return &corev1.Event{
		ObjectMeta: metav1.ObjectMeta{Namespace: app.Namespace, Name: app.Name}, Type: corev1.EventTypeWarning,
		Reason: evil, Message: evil, LastTimestamp: metav1.Now(), Count: 1,
		InvolvedObject: corev1.ObjectReference{
			APIVersion: appv1.GroupVersion.String(), Kind: "App", Namespace: app.Namespace, Name: app.Name, UID: app.UID,
		},
	}
}

// visit opens each place in a tab, and fails the test with what check finds wrong there.
func (s *scene) visit(t *testing.T, prepare func(*tab), check func(*tab) []string) {
	t.Helper()
	b := s.first.another(t)
	if prepare != nil {
		prepare(b)
	}
	for _, p := range s.places {
		t.Run(p.name, func(t *testing.T) {
			b.t = t
			b.visit(p.address, p.status)
			for _, wrong := range check(b) {
				t.Error(wrong)
			}
		})
	}
	b.t = t
}
