package controllers

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/operator-framework/operator-lib/conditions"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/meta/testrestmapper"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	appv1 "huolala.cn/app-operator/api/v1"
	"huolala.cn/app-operator/internal/budget"
	"huolala.cn/app-operator/internal/children"
	"huolala.cn/app-operator/internal/stored"
	"huolala.cn/app-operator/internal/workload"
)

// TestParseNamespaces reads the namespaces to watch.
func TestParseNamespaces(t *testing.T) {
	for list, want := range map[string][]string{
		"": nil, " ": nil, ",": nil, "a": {"a"}, "a,b": {"a", "b"}, " a , ,b, ": {"a", "b"},
	} {
		if got := ParseNamespaces(list); !slices.Equal(got, want) {
			t.Errorf("%q: %q, want %q", list, got, want)
		}
	}
}

// TestCacheOptions has the cache hold what each row of the table says, in the namespaces that are asked for.
func TestCacheOptions(t *testing.T) {
	for _, namespaces := range [][]string{nil, {"a", "b"}} {
		opts := CacheOptions(namespaces, &watchSet{}, budget.New(budget.NewLimits(DefaultNamespaceCache)))
		if len(opts.DefaultNamespaces) != len(namespaces) {
			t.Errorf("%q: the namespaces are %v", namespaces, opts.DefaultNamespaces)
		}
		for _, ns := range namespaces {
			if _, ok := opts.DefaultNamespaces[ns]; !ok {
				t.Errorf("%q: %s is missing", namespaces, ns)
			}
		}
		if opts.DefaultTransform == nil || opts.DefaultWatchErrorHandler == nil {
			t.Errorf("%q: what is kept of our kinds, or the metric of failed watches, is missing", namespaces)
		}
		cached := 0
		for i := range children.Types {
			row := &children.Types[i]
			by, ok := opts.ByObject[row.Object]
			if ok != (&watchSet{}).isShared(row) {
				t.Errorf("%T: in the cache is %t", row.Object, ok)
			}
			if !ok {
				continue
			}
			cached++
			ours := by.Label != nil && by.Label.String() == appv1.LabelManagedBy+"="+appv1.ManagedBy
			if ours != (row.Scope == children.ScopeOurs) || by.Label != nil && !ours {
				t.Errorf("%T: the label selector is %v", row.Object, by.Label)
			}
		}
		if len(opts.ByObject) != cached {
			t.Errorf("%d types are in the cache, want %d", len(opts.ByObject), cached)
		}
	}
}

// TestCacheTrims runs the transform of each type on an object of no operator's: its identity is kept, and what is no object is left
// alone.
func TestCacheTrims(t *testing.T) {
	for i := range children.Types {
		row := &children.Types[i]
		by := cacheByObject(row, budget.New(budget.NewLimits(DefaultNamespaceCache)))
		if row.Scope == children.ScopeLive {
			continue
		}
		obj, ok := row.Object.DeepCopyObject().(client.Object)
		if !ok {
			t.Fatalf("%T", row.Object)
		}
		obj.SetManagedFields([]metav1.ManagedFieldsEntry{{Manager: "kubectl", FieldsV1: metav1.NewFieldsV1(`{"f:a":{}}`)}})
		want, ok := obj.DeepCopyObject().(client.Object)
		if !ok {
			t.Fatalf("%T", row.Object)
		}
		row.Keep(want, false)
		trimmed, err := by.Transform(obj)
		if err != nil || trimmed != any(obj) || !reflect.DeepEqual(obj, want) {
			t.Errorf("%T: %v, %v; want %v", row.Object, trimmed, err, want)
		}
		if other, err := by.Transform("tombstone"); other != any("tombstone") || err != nil {
			t.Errorf("%T: a tombstone became %v, %v", row.Object, other, err)
		}
	}
	if other := trimResource("tombstone"); other != any("tombstone") {
		t.Errorf("a tombstone became %v", other)
	}
}

// notedIndexes notes which indexes are added.
type notedIndexes struct {
	names []string
	fail  string
}

// IndexField implements client.FieldIndexer.
func (i *notedIndexes) IndexField(_ context.Context, obj client.Object, index string, of client.IndexerFunc) error {
	name := reflect.TypeOf(obj).String() + " " + index
	if name == i.fail {
		return errors.New("broken")
	}
	of(obj) // An empty object has no key, and does no harm.
	i.names = append(i.names, name)
	return nil
}

// TestAddIndexes adds an index for each type and kind that is looked up by it.
func TestAddIndexes(t *testing.T) {
	want := []string{
		"*stored.CloudManager wanted", "*stored.UnitedDeployment " + stored.IndexDeployment,
		"*v1.Deployment " + children.IndexOwner, "*v1.Pod instance", "*v1.Service " + children.IndexOwner, "*v1.StatefulSet " + children.IndexOwner,
		"*v2.HorizontalPodAutoscaler target",
	}
	all := &notedIndexes{}
	if err := AddIndexes(t.Context(), all, &watchSet{}); err != nil {
		t.Fatal(err)
	}
	for _, name := range want {
		if !slices.Contains(all.names, name) {
			t.Errorf("the index %s is missing", name)
		}
	}
	for _, name := range all.names {
		err := AddIndexes(t.Context(), &notedIndexes{fail: name}, &watchSet{})
		if kind, _, _ := strings.Cut(name, " "); err == nil || !strings.Contains(err.Error(), kind[strings.LastIndexByte(kind, '.')+1:]) {
			t.Errorf("%s fails: %v", name, err)
		}
	}
}

// TestControllerDefaults has a stand-by fill its caches, and a reconcile end.
func TestControllerDefaults(t *testing.T) {
	opts := Options{Workers: 7}
	opts.Controller.SkipNameValidation = ptr.To(true)
	got := controllerDefaults(&opts)
	if got.MaxConcurrentReconciles != 7 || got.ReconciliationTimeout != reconcileTimeout || got.CacheSyncTimeout != syncTimeout ||
		!ptr.Deref(got.EnableWarmup, false) || !ptr.Deref(got.SkipNameValidation, false) {
		t.Errorf("%+v", got)
	}
	limiter, req := retryOptions().RateLimiter, ctrl.Request{}
	first, last := limiter.When(req), time.Duration(0)
	for range 40 {
		last = limiter.When(req)
	}
	if first >= time.Second || last != retryMost {
		t.Errorf("a failed request is tried again after %s, and at last after %s", first, last)
	}
}

// TestNamespacesTakeTurns has the controllers of the kinds serve a namespace with one request before the second of another namespace, and keep
// a worker for it while the other namespace has all of its own.
func TestNamespacesTakeTurns(t *testing.T) {
	options := queueOptions(2, nil)
	if options.MaxConcurrentReconciles != 3 || options.RateLimiter == nil {
		t.Errorf("%d workers, rate limiter %v", options.MaxConcurrentReconciles, options.RateLimiter)
	}
	queue := options.NewQueue("", options.RateLimiter)
	defer queue.ShutDown()
	request := func(namespace, name string) ctrl.Request {
		return ctrl.Request{NamespacedName: types.NamespacedName{Namespace: namespace, Name: name}}
	}
	for i := range 100 {
		queue.Add(request("busy", fmt.Sprint(i)))
	}
	queue.Add(request("other", "web"))
	var got []string
	for range 2 {
		next, _ := queue.Get()
		got = append(got, next.String())
	}
	if want := []string{"busy/0", "other/web"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

// nowhere is an API server that nobody reaches. A manager asks it for nothing before it is started.
func nowhere() *rest.Config { return &rest.Config{Host: "http://127.0.0.1:1"} }

// TestNewManager makes managers of several options.
func TestNewManager(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*Options)
		wrong  string
	}{
		"plain":           {func(*Options) {}, ""},
		"some namespaces": {func(o *Options) { o.Namespaces = []string{"a", "b"} }, ""},
		"in a namespace":  {func(o *Options) { o.Namespaces, o.OwnNamespace = []string{"a"}, "system" }, ""},
		"with an OLM": {func(o *Options) {
			o.Upgradeable = func(*rest.Config) (conditions.Condition, error) { return &recordedCondition{}, nil }
		}, ""},
		"election by no lease": {func(o *Options) { o.LeaderElection = true }, "LeaderElectionID"},
		"election": {func(o *Options) {
			o.LeaderElection, o.LeaderElectionID, o.LeaderElectionNamespace = true, "lease", "system"
		}, ""},
	} {
		opts := Options{Workers: 1, Options: ctrl.Options{Logger: logr.Discard()}}
		opts.MapperProvider = func(*rest.Config, *http.Client) (meta.RESTMapper, error) {
			return testrestmapper.TestOnlyStaticRESTMapper(testScheme(t)), nil
		}
		opts.Metrics.BindAddress, opts.HealthProbeBindAddress = "0", "0"
		opts.Controller.SkipNameValidation = ptr.To(true)
		c.change(&opts)
		mgr, err := NewManager(nowhere(), opts)
		switch {
		case c.wrong != "" && (err == nil || !strings.Contains(err.Error(), c.wrong)):
			t.Errorf("%s: %v, want %q in it", name, err, c.wrong)
		case c.wrong == "" && err != nil:
			t.Errorf("%s: %v", name, err)
		case c.wrong == "" && !mgr.GetScheme().Recognizes(appv1.GroupVersion.WithKind("App")):
			t.Errorf("%s: the scheme lacks our kinds", name)
		}
	}
}

// notedCache notes which informers it is asked for.
type notedCache struct {
	cache.Cache
	types  []string
	synced bool
	fail   string
}

// GetInformer implements cache.Cache.
func (c *notedCache) GetInformer(_ context.Context, obj client.Object, _ ...cache.InformerGetOption) (cache.Informer, error) {
	name := reflect.TypeOf(obj).String()
	if name == c.fail {
		return nil, errors.New("broken")
	}
	c.types = append(c.types, name)
	return nil, nil
}

// WaitForCacheSync implements cache.Cache.
func (c *notedCache) WaitForCacheSync(context.Context) bool { return c.synced }

// TestSyncWatch has a manager ready once each kind and each type that is watched has synced, on a stand-by too.
func TestSyncWatch(t *testing.T) {
	want := []string{reflect.TypeFor[*stored.AppDefaults]().String()}
	for _, k := range allKinds() {
		want = append(want, reflect.TypeOf(k.empty()).String())
	}
	for i := range children.Types {
		if row := &children.Types[i]; (&watchSet{}).isShared(row) {
			want = append(want, reflect.TypeOf(row.Object).String())
		}
	}
	for _, synced := range []bool{false, true} {
		c := &notedCache{synced: synced}
		watch := &syncWatch{cache: c, watched: &watchSet{}, synced: &atomic.Bool{}}
		if err := watch.Start(t.Context()); err != nil || !slices.Equal(c.types, want) {
			t.Errorf("watched are %q, %v; want %q", c.types, err, want)
		}
		if watch.synced.Load() != synced || watch.NeedLeaderElection() {
			t.Errorf("the caches have synced: %t, want %t", watch.synced.Load(), synced)
		}
	}
	for _, name := range want {
		watch := &syncWatch{cache: &notedCache{synced: true, fail: name}, watched: &watchSet{}, synced: &atomic.Bool{}}
		if err := watch.Start(t.Context()); err == nil || !strings.Contains(err.Error(), name) || watch.synced.Load() {
			t.Errorf("%s cannot be watched: %v", name, err)
		}
	}
}

// TestCacheFails reconciles a resource of each kind with a cache that cannot be read: that is an error, and nothing is written.
func TestCacheFails(t *testing.T) {
	broken := errors.New("broken")
	forEach(t, flowSpecs, func(t *testing.T, name, _ string) {
		forNames(t, []string{"*v1.Deployment", "*v1.Service", "*v1.DeploymentList", "*v2.HorizontalPodAutoscalerList", "*v1.PodList"}, func(t *testing.T, failing string) {
			w := newWorld(t, newStored(t, kindNamed(t, name), flowSpec(name, "nginx:1", onePort)))
			w.settle(name)
			w.requests = nil
			inner, ok := w.Client.(client.WithWatch)
			if !ok {
				t.Fatal("the fake client has another type")
			}
			fails := func(obj any) error {
				if reflect.TypeOf(obj).String() == failing {
					return broken
				}
				return nil
			}
			w.Client = interceptor.NewClient(inner, interceptor.Funcs{
				Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
					return errors.Join(fails(obj), c.Get(ctx, key, obj, opts...))
				},
				List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
					return errors.Join(fails(list), c.List(ctx, list, opts...))
				},
			})
			w.restart()
			w.setSpec(name, flowSpec(name, "nginx:2", onePort))
			if _, err := w.reconcile(name); !errors.Is(err, broken) {
				t.Errorf("%s, %s: %v", name, failing, err)
			}
			if requests := withoutStatus(w.requests); len(requests) > 0 {
				t.Errorf("%s, %s: %q", name, failing, requests)
			}
		})
	})
}

// TestMappersOfABrokenCache reconcile too much rather than too little, or nothing where they cannot know.
func TestMappersOfABrokenCache(t *testing.T) {
	broken := errors.New("broken")
	s := &Deps{Reconciler: workload.Reconciler{Client: interceptor.NewClient(nil, interceptor.Funcs{
		Get: func(context.Context, client.WithWatch, client.ObjectKey, client.Object, ...client.GetOption) error {
			return broken
		},
		List: func(context.Context, client.WithWatch, client.ObjectList, ...client.ListOption) error { return broken },
	})}}
	for _, k := range allKinds() {
		ctx := logr.NewContext(t.Context(), logr.Discard())
		requests := requestsOf(ctx, &k, s, k.byChildName(ctx, s, types.NamespacedName{Namespace: namespace, Name: "web"}))
		if got := len(requests); (got == 1) != (k.index == "") {
			t.Errorf("%s: %v", k.Name, requests)
		}
	}
}

// TestShutdownEndsBeforeThePod checks that a manager which waits as long as it may for its reconciles still releases its lease before the
// kubelet kills its pod.
func TestShutdownEndsBeforeThePod(t *testing.T) {
	manifest, err := os.ReadFile("../config/manager/manager.yaml")
	if err != nil {
		t.Fatal(err)
	}
	stated := regexp.MustCompile(`(?m)^ *terminationGracePeriodSeconds: ([0-9]+)$`).FindSubmatch(manifest)
	if stated == nil {
		t.Fatal("the pod has no grace period")
	}
	grace, err := time.ParseDuration(string(stated[1]) + "s")
	if least := ShutdownTimeout + 5*time.Second; err != nil || grace < least {
		t.Errorf("the grace period is %s (%v), want %s at least", grace, err, least)
	}
}
