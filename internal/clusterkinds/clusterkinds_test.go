package clusterkinds

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"path"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	apidiscoveryv2 "k8s.io/api/apidiscovery/v2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllertest"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	appv1 "huolala.cn/app-operator/api/v1"
	"huolala.cn/app-operator/internal/budget"
	"huolala.cn/app-operator/internal/children"
	"huolala.cn/app-operator/internal/reconciler"
)

// world is a cluster as the optional kinds see it.
type world struct {
	*Kinds
	t      *testing.T
	time   time.Time
	serves map[string]bool
	fails  bool
	// asked is how often the API server was asked what it serves, watched which kinds were begun to be watched, followed which definitions
	// were tried to be watched again.
	asked    int
	watched  []string
	followed []string
	queue    workqueue.TypedRateLimitingInterface[ctrl.Request]
}

// newWorld returns a world in which the manager watches namespaces, none for all.
func newWorld(t *testing.T, namespaces ...string) *world {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := children.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	var rows []*children.Type
	for i := range children.Types {
		if children.Types[i].Custom {
			rows = append(rows, &children.Types[i])
		}
	}
	k, err := New(Options{
		Config: &rest.Config{}, HTTPClient: http.DefaultClient, Scheme: scheme, Namespaces: namespaces, Types: rows,
		Budget: budget.New(budget.NewLimits(1 << 20)), Log: logr.Discard(), WatchFailed: func(context.Context, *toolscache.Reflector, error) {},
	})
	if err != nil {
		t.Fatal(err)
	}
	w := &world{Kinds: k, t: t, time: time.Unix(1e9, 0), serves: map[string]bool{}}
	w.queue = workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[ctrl.Request]())
	k.subscribers = []*subscriber{{
		manager: "app", ctx: t.Context(), queue: w.queue,
		handle: func(*children.Type) handler.EventHandler { return &handler.EnqueueRequestForObject{} },
	}}
	k.now = func() time.Time { return w.time }
	k.first = w.time.Add(-settling) // No reconcile waits.
	k.ask = func(context.Context) (served, error) {
		if w.asked++; w.fails {
			return nil, errors.New("503")
		}
		return func(s *kind) bool { return w.serves[s.gvk.Kind] }, nil
	}
	k.watch = func(_ context.Context, s *kind) (*objects, error) {
		name := path.Join(s.namespace, s.gvk.Kind)
		w.watched = append(w.watched, name)
		return &objects{
			informer: &informer{FakeInformer: controllertest.NewFakeInformer(), of: s}, list: func() []client.Object { return nil },
			stop: func() { w.watched = append(w.watched, "-"+name) },
		}, nil
	}
	k.follow = func(_ context.Context, d *definition) error {
		w.followed = append(w.followed, d.name)
		return nil
	}
	return w
}

// informer notes in which phase its kind is when a controller is first told of its objects.
type informer struct {
	*controllertest.FakeInformer
	of     *kind
	phases []phase
}

// AddEventHandlerWithOptions implements cache.Informer.
func (i *informer) AddEventHandlerWithOptions(h toolscache.ResourceEventHandler, opts toolscache.HandlerOptions) (toolscache.ResourceEventHandlerRegistration, error) {
	i.phases = append(i.phases, i.of.phase)
	return i.FakeInformer.AddEventHandlerWithOptions(h, opts)
}

// route is the state of HTTPRoutes.
func (w *world) route() *kind { return w.kinds[0] }

// define notes what became of both definitions.
func (w *world) define(state definitionState) {
	for _, d := range w.definitions {
		w.noteDefinition(d, state)
	}
}

// pass lets time pass in steps as short as the loop would make them.
func (w *world) pass(d time.Duration) {
	end := w.time.Add(d)
	for {
		next := w.discoverDue(w.t.Context())
		if next == 0 || w.time.Add(next).After(end) {
			w.time = end
			return
		}
		w.time = w.time.Add(next)
	}
}

// check is what an App of a name is told of HTTPRoutes, as "reason", empty if nothing is in the way.
func (w *world) check(name string) string { return w.checkIn("", name) }

// checkIn is check in a namespace.
func (w *world) checkIn(namespace, name string) string {
	err := w.Check(w.t.Context(), &gatewayv1.HTTPRoute{}, Waiter{"app", types.NamespacedName{Namespace: namespace, Name: name}})
	if err == nil {
		return ""
	}
	reason, _ := reconciler.ReasonAndMessageOf(err)
	return reason
}

// woken returns the names of the resources that were to be reconciled.
func (w *world) woken() (names []string) {
	for w.queue.Len() > 0 {
		req, _ := w.queue.Get()
		w.queue.Done(req)
		names = append(names, req.Name)
	}
	slices.Sort(names)
	return names
}

func (w *world) expect(what string, asked int, reason string, woken ...string) {
	w.t.Helper()
	if w.asked != asked {
		w.t.Errorf("%s: the API server was asked %d times, want %d", what, w.asked, asked)
	}
	if got := w.woken(); !slices.Equal(got, woken) {
		w.t.Errorf("%s: %q were reconciled, want %q", what, got, woken)
	}
	if got := w.check("web"); got != reason {
		w.t.Errorf("%s: an App is told %q, want %q", what, got, reason)
	}
	w.asked = 0
}

// TestEventsAfterTheCache has a controller be told of objects once a client reads them, and not before: it would be reconciled for an
// object that it does not find.
func TestEventsAfterTheCache(t *testing.T) {
	w := newWorld(t)
	w.serves["HTTPRoute"] = true
	w.define(present)
	w.pass(time.Second)
	seen, ok := w.route().objects.informer.(*informer)
	if !ok {
		t.Fatalf("%T is not the informer of the test", w.route().objects.informer)
	}
	for _, listed := range []string{"before", "after"} {
		if listed == "after" {
			w.noteSynced(w.route(), w.route().objects)
		}
		if err := w.Source("late", w.subscribers[0].handle).Start(t.Context(), w.queue); err != nil {
			t.Fatal(err)
		}
	}
	// The two that were there when the objects had been listed, and the one that came later.
	if want := []phase{watched, watched, watched}; !slices.Equal(seen.phases, want) {
		t.Errorf("the controllers were told of objects while the kind was %v, want %v", seen.phases, want)
	}
}

// TestAbsentCostsNothing has the definitions be absent for an hour, with and without an App that waits: nothing is asked, as the
// definitions are watched.
func TestAbsentCostsNothing(t *testing.T) {
	w := newWorld(t)
	w.define(absent)
	w.pass(time.Hour)
	w.expect("no App", 0, appv1.ReasonKindMissing)
	w.pass(time.Hour)
	w.expect("one App", 0, appv1.ReasonKindMissing)
	if len(w.watched) > 0 {
		t.Errorf("watched: %q", w.watched)
	}
}

// TestComesGoesComesBack has a kind come after its definition, go and come back.
func TestComesGoesComesBack(t *testing.T) {
	w := newWorld(t)
	w.define(absent)
	w.expect("absent", 0, appv1.ReasonKindMissing)
	for range 2 {
		w.watched = nil
		w.noteDefinition(w.route().definition, present)
		w.pass(3 * time.Second)
		w.expect("defined, not served yet", 2, appv1.ReasonKindMissing)
		w.serves["HTTPRoute"] = true
		w.pass(4 * time.Second)
		w.expect("being listed", 1, appv1.ReasonProgressing)
		w.noteSynced(w.route(), w.route().objects)
		w.pass(time.Hour)
		w.expect("watched", 0, "", "web")

		w.serves["HTTPRoute"] = false
		if w.check("web") != "" {
			t.Error("what is watched is in the way")
		}
		w.noteDefinition(w.route().definition, absent)
		w.pass(time.Hour)
		w.expect("gone", 0, appv1.ReasonKindMissing)
		if want := []string{"HTTPRoute", "-HTTPRoute"}; !slices.Equal(w.watched, want) {
			t.Errorf("watched: %q, want %q", w.watched, want)
		}
	}
}

// TestWithoutRightToDefinitions has the manager not see the definitions: both kinds are looked for by one request, once a minute
// while an App waits, and not otherwise.
func TestWithoutRightToDefinitions(t *testing.T) {
	w := newWorld(t)
	w.define(hidden)
	w.pass(time.Hour)
	w.expect("at the start", 1, appv1.ReasonKindMissing)
	for range 10 { // 50 Apps ask again every minute, as they are told to.
		for n := range 50 {
			w.check(fmt.Sprintf("web-%d", n))
			if err := w.Check(t.Context(), w.kinds[1].row.Object, Waiter{"app", types.NamespacedName{Name: fmt.Sprint(n)}}); err == nil {
				t.Fatal("there are PodMonitors")
			}
		}
		w.pass(lookAgain)
	}
	if w.asked < 10 || w.asked > 11 { // The first and the last moment count both.
		t.Errorf("in ten minutes the API server was asked %d times", w.asked)
	}
	w.asked = 0
	w.pass(time.Hour)
	if w.asked > 4 {
		t.Errorf("when nobody waits any more, the API server was asked %d times", w.asked)
	}
}

// TestRightsOfAKind has the right to list be missing, be given, be withdrawn and be given back.
func TestRightsOfAKind(t *testing.T) {
	w := newWorld(t)
	w.serves["HTTPRoute"] = true
	w.define(present)
	w.pass(time.Minute)
	w.noteRefused(w.route(), w.route().objects, "403")
	begun := len(w.watched)
	w.pass(time.Hour)
	if len(w.watched) != begun {
		t.Errorf("without an App, the kind is listed again: %q", w.watched)
	}
	w.asked = 0
	w.expect("refused", 0, appv1.ReasonForbidden)
	w.pass(time.Second)
	if w.route().objects == nil {
		t.Fatal("the first App that asks does not have the kind be listed again")
	}
	w.expect("tried again", 0, appv1.ReasonForbidden)
	if next := w.discoverDue(t.Context()); next != 0 {
		t.Errorf("while the list is under way, the loop turns again after %s", next)
	}
	w.noteSynced(w.route(), w.route().objects)
	w.expect("given", 0, "", "web")
	w.noteRefused(w.route(), w.route().objects, "403")
	w.expect("withdrawn", 0, appv1.ReasonForbidden)
	begun = len(w.watched)
	w.pass(lookAgain / 2)
	if len(w.watched) != begun {
		t.Errorf("it is listed again within half a minute")
	}
	w.pass(lookAgain)
	w.noteSynced(w.route(), w.route().objects)
	w.expect("given back", 0, "", "web")
}

// TestUnknownResource has the API server say that it serves a kind and not know its resource, for ever. The kind is looked for less
// and less often.
func TestUnknownResource(t *testing.T) {
	w := newWorld(t)
	w.serves["HTTPRoute"] = true
	w.define(hidden)
	watch := w.watch
	w.watch = func(ctx context.Context, s *kind) (*objects, error) {
		o, err := watch(ctx, s)
		s.objects = o
		return o, err
	}
	for range 600 {
		w.pass(time.Second)
		if o := w.route().objects; o != nil {
			w.noteUnknown(w.route(), o)
		}
	}
	if w.asked > 20 {
		t.Errorf("within ten minutes, the API server was asked %d times", w.asked)
	}
	if got := w.check("web"); got != appv1.ReasonKindMissing {
		t.Errorf("an App is told %q", got)
	}
}

// TestDiscoveryFails has the API server not say what it serves, which says nothing of the kinds.
func TestDiscoveryFails(t *testing.T) {
	w := newWorld(t)
	w.fails = true
	w.define(present)
	w.pass(10 * time.Minute)
	if w.asked > 20 {
		t.Errorf("within ten minutes, the API server was asked %d times", w.asked)
	}
	w.asked = 0
	w.expect("unknown", 0, appv1.ReasonProgressing)
	w.fails, w.serves["HTTPRoute"] = false, true
	w.pass(2 * time.Minute)
	if w.route().objects == nil {
		t.Error("it is not watched once the API server answers")
	}
}

// TestCheckWaitsOnce has reconciles ask for a kind while nothing is known of it. All of them wait for no longer than settling. Time is
// that of synctest.
func TestCheckWaitsOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		defer w.queue.ShutDown()
		w.first = time.Time{}
		w.now = time.Now
		done := make(chan string, 1)
		go func() { done <- w.check("web") }()
		synctest.Wait()
		select {
		case got := <-done:
			t.Fatalf("it did not wait: %q", got)
		default:
		}
		w.noteDefinition(w.route().definition, absent)
		if got := <-done; got != appv1.ReasonKindMissing {
			t.Errorf("it was told %q", got)
		}
	})
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		defer w.queue.ShutDown()
		w.first = time.Time{}
		w.now = time.Now
		began := time.Now()
		for range 3 {
			if got := w.check("web"); got != appv1.ReasonProgressing {
				t.Errorf("while nothing is known, it was told %q", got)
			}
		}
		if took := time.Since(began); took != settling {
			t.Errorf("three reconciles have waited %s, want %s", took, settling)
		}
	})
}

// TestMessages checks that each optional kind has its words.
func TestMessages(t *testing.T) {
	w := newWorld(t)
	w.define(absent)
	for _, s := range w.kinds {
		if len(s.row.Features) == 0 || products[s.gvk.Kind] == "" {
			t.Errorf("%s has no words", s.gvk.Kind)
		}
		err := w.Check(t.Context(), s.row.Object, Waiter{})
		if _, message := reconciler.ReasonAndMessageOf(err); !strings.Contains(message, s.gvk.GroupVersion().String()) {
			t.Errorf("%s: %s", s.gvk.Kind, message)
		}
	}
	_, message := reconciler.ReasonAndMessageOf(w.Check(t.Context(), &gatewayv1.HTTPRoute{}, Waiter{}))
	const want = "the cluster has no HTTPRoute (gateway.networking.k8s.io/v1): install the Gateway API, or remove spec.httpRoute. The operator checks again every minute"
	if message != want {
		t.Errorf("it says %q, want %q", message, want)
	}
}

// TestMapper has the kinds and their lists be known without a request: a cache of several namespaces asks for both.
func TestMapper(t *testing.T) {
	w := newWorld(t)
	for _, s := range w.kinds {
		list, err := s.newList(w.opts.Scheme)
		if err != nil {
			t.Fatal(err)
		}
		for _, obj := range []runtime.Object{s.row.Object, list} {
			if namespaced, err := apiutil.IsObjectNamespaced(obj, w.opts.Scheme, w.mapper); err != nil || !namespaced {
				t.Errorf("%T: namespaced is %t: %v", obj, namespaced, err)
			}
		}
		mapping, err := w.mapper.RESTMapping(s.gvk.GroupKind(), s.gvk.Version)
		if err != nil || mapping.Resource.Resource+"."+mapping.Resource.Group != s.definition.name {
			t.Errorf("%s is mapped to %v: %v", s.gvk, mapping, err)
		}
	}
}

// TestServes finds a kind in what the API server says it serves, and neither its group nor another version of it.
func TestServes(t *testing.T) {
	groups := func(group, version, kind string) *apidiscoveryv2.APIGroupDiscoveryList {
		return &apidiscoveryv2.APIGroupDiscoveryList{Items: []apidiscoveryv2.APIGroupDiscovery{{
			ObjectMeta: metav1.ObjectMeta{Name: group},
			Versions: []apidiscoveryv2.APIVersionDiscovery{{Version: version, Resources: []apidiscoveryv2.APIResourceDiscovery{
				{ResponseKind: &metav1.GroupVersionKind{Kind: kind}}, {},
			}}},
		}}}
	}
	gvk := schema.GroupVersion(gatewayv1.GroupVersion).WithKind("HTTPRoute")
	for name, c := range map[string]struct {
		groups *apidiscoveryv2.APIGroupDiscoveryList
		want   bool
	}{
		"served":          {groups(gvk.Group, "v1", "HTTPRoute"), true},
		"another kind":    {groups(gvk.Group, "v1", "GatewayClass"), false},
		"another version": {groups(gvk.Group, "v1beta1", "HTTPRoute"), false},
		"another group":   {groups("example.com", "v1", "HTTPRoute"), false},
		"nothing":         {&apidiscoveryv2.APIGroupDiscoveryList{}, false},
	} {
		if got := servesKind(c.groups, gvk); got != c.want {
			t.Errorf("%s: %t, want %t", name, got, c.want)
		}
	}
}

// TestLateDiscovery starts next to an API server that announces a defined kind later than at the first question: the kind is not known yet,
// and never counts as missing. A kind that is still not announced after a time is missing.
func TestLateDiscovery(t *testing.T) {
	w := newWorld(t)
	w.define(present)
	w.pass(time.Second)
	if got := w.check("web"); got != appv1.ReasonProgressing {
		t.Errorf("the first answer makes the kind %q", got)
	}
	w.serves["HTTPRoute"] = true
	w.pass(3 * time.Second)
	if w.route().phase != syncing {
		t.Errorf("the kind is %s once it is announced", w.route().phase)
	}

	w = newWorld(t)
	w.define(present)
	w.pass(settling)
	if got := w.check("web"); got != appv1.ReasonKindMissing {
		t.Errorf("a kind that is never announced is %q", got)
	}
}
