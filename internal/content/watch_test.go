package content

import (
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

var (
	settings = Object{"ConfigMap", types.NamespacedName{Namespace: "ns", Name: "settings"}}
	web      = Owner{"App", types.NamespacedName{Namespace: "ns", Name: "web"}}
)

// queue notes what is woken, and after which time.
type queue struct {
	workqueue.TypedRateLimitingInterface[reconcile.Request]
	woken []string
}

func (q *queue) AddAfter(r reconcile.Request, after time.Duration) {
	q.woken = append(q.woken, fmt.Sprintf("%s %s", r.Name, after))
}

// newWatch returns a watch of nothing, its clock, its only kind of objects and the queue of Apps.
func newWatch() (*Watch, *clocktesting.FakePassiveClock, *metadata, *queue) {
	clk := clocktesting.NewFakePassiveClock(time.Unix(1e9, 0))
	w := &Watch{
		opts: Options{Clock: clk}, watched: map[scope]*metadata{}, queues: map[string]Queue{},
		objects: map[Object]*object{}, owners: map[Owner]*owner{}, contents: newContents(),
	}
	q := &queue{}
	w.Register("App", q)
	return w, clk, &metadata{synced: func() bool { return true }}, q
}

// version is the metadata of a version of an object.
func version(o Object, v int) *metav1.PartialObjectMetadata {
	return &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Namespace: o.Namespace, Name: o.Name, ResourceVersion: fmt.Sprint(v)}}
}

// TestContentThatKeepsChanging changes content ten times a second for ten minutes, while each rollout takes twenty seconds: the pods
// are replaced about once a minute.
func TestContentThatKeepsChanging(t *testing.T) {
	const step, rollout, during = 100 * time.Millisecond, 20 * time.Second, 10 * time.Minute
	w, clk, m, _ := newWatch()
	w.setObjects(web, []Object{settings})
	var ready time.Time
	rollouts := 0
	for i := range int(during / step) {
		clk.SetTime(clk.Now().Add(step))
		w.noteEvent(m, settings.Kind, version(settings, i), false)
		if clk.Now().Before(ready) || w.Due(web, []Object{settings}, false) > 0 {
			continue
		}
		rollouts++
		ready = clk.Now().Add(rollout)
		w.Settle(web, false, false)
	}
	if most := int(during / Longest); rollouts > most || rollouts < most/2 {
		t.Errorf("%d rollouts in %s", rollouts, during)
	}
}

// TestDue is the table of when new content is due.
func TestDue(t *testing.T) {
	for name, test := range map[string]struct {
		// changes are when the content changes, in seconds; asked is when it is asked for.
		changes []float64
		asked   float64
		atOnce  bool
		want    time.Duration
	}{
		"just changed":                          {[]float64{10}, 10, false, Quiet},
		"a moment ago":                          {[]float64{10}, 13, false, 2 * time.Second},
		"quiet":                                 {[]float64{10}, 15, false, 0},
		"changed again":                         {[]float64{10, 14}, 15, false, 4 * time.Second},
		"in trouble":                            {[]float64{10}, 10, true, 0},
		"in trouble, and changed twice":         {[]float64{10, 11}, 11, true, Quiet},
		"in trouble, and changed after a pause": {[]float64{10, 16}, 16, true, 0},
	} {
		t.Run(name, func(t *testing.T) {
			w, clk, m, _ := newWatch()
			w.setObjects(web, []Object{settings})
			start := clk.Now()
			at := func(seconds float64) { clk.SetTime(start.Add(time.Duration(seconds * float64(time.Second)))) }
			for i, seconds := range test.changes {
				at(seconds)
				w.noteEvent(m, settings.Kind, version(settings, i), false)
			}
			at(test.asked)
			if got := w.Due(web, []Object{settings}, test.atOnce); got != test.want {
				t.Errorf("it waits for %s, want %s", got, test.want)
			}
		})
	}
}

// TestWake says which events have which resources looked at.
func TestWake(t *testing.T) {
	w, clk, m, q := newWatch()
	other := Object{"ConfigMap", types.NamespacedName{Namespace: "ns", Name: "other"}}
	w.setObjects(web, []Object{settings})
	for _, step := range []struct {
		what string
		do   func()
		want string
	}{
		{"an object that nobody follows", func() { w.noteEvent(m, "ConfigMap", version(other, 1), false) }, ""},
		{"a change", func() { w.noteEvent(m, "ConfigMap", version(settings, 1), false) }, "web 5s"},
		{"the same version", func() { w.noteEvent(m, "ConfigMap", version(settings, 1), false) }, ""},
		{"a Secret of the name", func() { w.noteEvent(m, "Secret", version(settings, 2), false) }, ""},
		{"a deletion", func() { w.noteDeletion(m, "ConfigMap", version(settings, 1)) }, ""},
		{"a deletion that was missed", func() {
			w.noteDeletion(m, "ConfigMap", toolscache.DeletedFinalStateUnknown{Obj: version(settings, 1)})
		}, ""},
		{"it appears", func() { w.noteEvent(m, "ConfigMap", version(settings, 3), true) }, "web 0s"},
		{"a change while pods are in trouble", func() {
			w.Settle(web, true, true)
			clk.SetTime(clk.Now().Add(time.Hour))
			w.noteEvent(m, "ConfigMap", version(settings, 4), false)
		}, "web 0s"},
		{"another one right after", func() { w.noteEvent(m, "ConfigMap", version(settings, 5), false) }, "web 5s"},
		{"the right is withdrawn", func() {
			w.noteTrouble(m, apierrors.NewForbidden(schema.GroupResource{Resource: "configmaps"}, "", errors.New("no")))
		}, "web 0s"},
		{"a failure that passes", func() { w.noteTrouble(m, errors.New("refused")) }, ""},
		{"the right is given", func() { w.noteEvent(m, "ConfigMap", version(other, 2), false) }, "web 0s"},
		{"the right is withdrawn again", func() {
			w.noteTrouble(m, apierrors.NewForbidden(schema.GroupResource{Resource: "configmaps"}, "", errors.New("no")))
		}, "web 0s"},
		{"it still fails", func() {
			clk.SetTime(clk.Now().Add(recovery - time.Second))
			w.noteTrouble(m, apierrors.NewForbidden(schema.GroupResource{Resource: "configmaps"}, "", errors.New("no")))
			clk.SetTime(clk.Now().Add(recovery - time.Second))
			if w.endTrouble(m) {
				t.Error("a watch that fails is in no trouble")
			}
		}, ""},
		{"the right is given, and there is no object", func() {
			clk.SetTime(clk.Now().Add(time.Second))
			if !w.endTrouble(m) {
				t.Error("a watch that has not failed for a time is in trouble")
			}
		}, "web 0s"},
		{"it is followed no more", func() { w.Forget(web); w.noteEvent(m, "ConfigMap", version(settings, 6), false) }, ""},
	} {
		q.woken = nil
		step.do()
		if got := strings.Join(q.woken, ","); got != step.want {
			t.Errorf("%s: woken %q, want %q", step.what, got, step.want)
		}
	}
	if len(w.objects)+len(w.owners) > 0 {
		t.Errorf("what nobody follows is remembered: %v, %v", w.objects, w.owners)
	}
}

// TestTroubleOfANamespace withdraws a right in one of two namespaces: each has watches of its own, and the resources of the other one are not woken.
func TestTroubleOfANamespace(t *testing.T) {
	w, _, all, q := newWatch()
	elsewhere := Owner{"App", types.NamespacedName{Namespace: "elsewhere", Name: "shop"}}
	w.setObjects(web, []Object{settings})
	w.setObjects(elsewhere, []Object{{"ConfigMap", types.NamespacedName{Namespace: "elsewhere", Name: "settings"}}})
	forbidden := apierrors.NewForbidden(schema.GroupResource{Resource: "configmaps"}, "", errors.New("no"))
	if w.noteTrouble(all, forbidden); len(q.woken) != 2 {
		t.Errorf("the right in all namespaces is withdrawn: %q are woken", q.woken)
	}
	q.woken = nil
	if w.noteTrouble(&metadata{namespace: "ns"}, forbidden); !slices.Equal(q.woken, []string{"web 0s"}) {
		t.Errorf("the right in one namespace is withdrawn: %q are woken", q.woken)
	}

	if got := w.scopeOf(settings); got != (scope{kind: "ConfigMap"}) {
		t.Errorf("with all namespaces watched, the scope is %+v", got)
	}
	w.opts.Cache.DefaultNamespaces = map[string]cache.Config{"ns": {}, "elsewhere": {}}
	if got := w.scopeOf(settings); got != (scope{kind: "ConfigMap", namespace: "ns"}) {
		t.Errorf("with two namespaces watched, the scope is %+v", got)
	}
}

// TestPauseSpec has each generation of a new spec wait once, also after one that was refused.
func TestPauseSpec(t *testing.T) {
	w, clk, _, _ := newWatch()
	w.setObjects(web, []Object{settings})
	for i, step := range []struct {
		after      time.Duration
		generation int64
		changed    bool
		want       time.Duration
	}{
		{0, 1, false, 0}, {0, 1, true, SpecPause}, {SpecPause / 2, 1, true, SpecPause / 2}, {SpecPause / 2, 1, true, 0}, {time.Hour, 1, true, 0},
		{10 * time.Minute, 2, true, SpecPause}, {SpecPause, 2, true, 0}, {0, 2, false, 0}, {0, 2, true, SpecPause},
	} {
		clk.SetTime(clk.Now().Add(step.after))
		if got := w.PauseSpec(web, step.generation, step.changed); got != step.want {
			t.Errorf("step %d: %s, want %s", i, got, step.want)
		}
	}
}

// TestMetadataIsSmall measures what the cache holds of 10,000 ConfigMaps, whatever they have in their metadata.
func TestMetadataIsSmall(t *testing.T) {
	const objects, most = 10_000, 1024
	store := toolscache.NewIndexer(toolscache.MetaNamespaceKeyFunc, toolscache.Indexers{toolscache.NamespaceIndex: toolscache.MetaNamespaceIndexFunc})
	heap := func() uint64 {
		runtime.GC()
		var stats runtime.MemStats
		runtime.ReadMemStats(&stats)
		return stats.HeapAlloc
	}
	before := heap()
	for i := range objects {
		full := version(settings, i)
		full.Name, full.UID = fmt.Sprintf("settings-of-application-%d", i), types.UID(fmt.Sprintf("01234567-89ab-cdef-0123-%012d", i))
		full.Annotations = map[string]string{"kubectl.kubernetes.io/last-applied-configuration": strings.Repeat("x", 4<<10)}
		full.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: "kubectl"}}
		kept, err := trimMetadata(full)
		if err != nil {
			t.Fatal(err)
		}
		if err := store.Add(kept); err != nil {
			t.Fatal(err)
		}
	}
	each := (heap() - before) / objects
	t.Logf("%d bytes for each of %d ConfigMaps", each, objects)
	if each > most || each == 0 {
		t.Errorf("%d bytes for each ConfigMap, want at most %d", each, most)
	}
	runtime.KeepAlive(store)
}
