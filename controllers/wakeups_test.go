package controllers

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/controller/priorityqueue"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"

	"huolala.cn/app-operator/internal/children"
	"huolala.cn/app-operator/internal/workload"
)

// wokenKind is a kind with so many resources in each group, and a queue that notes which of them are put into it.
type wokenKind struct {
	// PriorityQueue is nil: the other functions are not called.
	priorityqueue.PriorityQueue[ctrl.Request]
	deps *Deps
	// mu is held by the writers of the numbers below: two groups are listed at once.
	mu sync.Mutex
	// events is the number of events so far, and seen their number at the latest list.
	events, lists, seen int
	added               []ctrl.Request
	priorities          []int
	ends                atomic.Bool
}

// newWokenKind returns a kind with groups of a size, and its resources.
func newWokenKind(t *testing.T, k *kind, size int) *wokenKind {
	t.Helper()
	made := &wokenKind{}
	var items []runtime.Object
	for i := range size {
		obj := k.empty()
		obj.SetNamespace(namespace)
		obj.SetName(fmt.Sprintf("web-%d", i))
		items = append(items, obj)
	}
	made.deps = &Deps{defaults: &Defaults{own: "platform"}, Reconciler: workload.Reconciler{Client: interceptor.NewClient(nil, interceptor.Funcs{
		Get: func(context.Context, client.WithWatch, client.ObjectKey, client.Object, ...client.GetOption) error {
			return nil
		},
		List: func(_ context.Context, _ client.WithWatch, list client.ObjectList, _ ...client.ListOption) error {
			made.mu.Lock()
			defer made.mu.Unlock()
			made.lists++
			made.seen = made.events
			return meta.SetList(list, items)
		},
	})}}
	return made
}

// AddWithOpts implements priorityqueue.PriorityQueue.
func (w *wokenKind) AddWithOpts(o priorityqueue.AddOpts, requests ...ctrl.Request) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.added = append(w.added, requests...)
	if o.Priority != nil && len(requests) > 0 {
		w.priorities = append(w.priorities, *o.Priority)
	}
}

// ShuttingDown implements workqueue.TypedInterface.
func (w *wokenKind) ShuttingDown() bool { return w.ends.Load() }

// update sends an event of an object that has changed.
func (w *wokenKind) update(t *testing.T, events handler.EventHandler, obj client.Object) {
	t.Helper()
	w.mu.Lock()
	w.events++
	w.mu.Unlock()
	was, ok := obj.DeepCopyObject().(client.Object)
	if !ok {
		t.Fatalf("%T", obj)
	}
	obj.SetResourceVersion(fmt.Sprint(w.events))
	events.Update(t.Context(), event.UpdateEvent{ObjectOld: was, ObjectNew: obj}, w)
}

// pass has a time pass in a bubble, and all end that is due by then.
func pass(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}

// wakeWay is an object that concerns groups of resources of a kind.
type wakeWay struct {
	concerned wakeFunc
	obj       client.Object
}

// wakeWays returns all objects that concern groups of resources of a kind, by what they are.
func wakeWays(t *testing.T, k *kind, s *Deps) map[string]wakeWay {
	t.Helper()
	ways := map[string]wakeWay{"AppDefaults": {s.mapDefaults, newAppDefaults(t, namespace, "{}")}}
	for i := range children.Types {
		if row := &children.Types[i]; k.watchesType(row) {
			ways[fmt.Sprintf("%T", row.Object)] = wakeWay{k.wakeFunc(s, row.Role), newChild(t, row, "held", "", "")}
		}
	}
	switch k.Name {
	case "UnitedDeployment":
		ways["a competing one"] = wakeWay{k.mapCompeting, storedHolder(t, "changed", time.Unix(1000, 0), `{"deploymentName":"held","replicas":1}`)}
	case "Task":
		ways["an App"] = wakeWay{k.mapApp, newPlainDeployment("held", 1)}
	}
	for name, way := range ways {
		if len(way.concerned(t.Context(), way.obj).groups) == 0 {
			delete(ways, name)
		}
	}
	return ways
}

// forEachWay runs a function for each kind and each object that concerns groups of its resources, in a bubble.
func forEachWay(t *testing.T, size int, run func(*testing.T, *wokenKind, *waker, wakeWay)) {
	t.Helper()
	for _, k := range allKinds() {
		names := wakeWays(t, &k, newWokenKind(t, &k, size).deps)
		if len(names) < 2 && (k.index != "" || k.namesService()) {
			t.Errorf("%s: only %d objects concern groups", k.Name, len(names))
		}
		for name := range names {
			t.Run(k.Name+"/"+name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					woken := newWokenKind(t, &k, size)
					run(t, woken, newWaker(&k, woken.deps), wakeWays(t, &k, woken.deps)[name])
				})
			})
		}
	}
}

// TestLargeGroupsAreListedOnceASecond has an object change a thousand times at once, and then for ten seconds: the groups of 5,000 resources that it concerns are listed
// once a second, also after the last event, and then nothing is left.
func TestLargeGroupsAreListedOnceASecond(t *testing.T) {
	const size, events, seconds = 5000, 1000, 10
	forEachWay(t, size, func(t *testing.T, woken *wokenKind, w *waker, way wakeWay) {
		groups, events := len(way.concerned(t.Context(), way.obj).groups), events
		by := w.handler(way.concerned)
		for range events {
			woken.update(t, by, way.obj)
		}
		if woken.lists != groups || len(woken.added) < size {
			t.Errorf("%d events have %d groups listed %d times, and wake %d resources", events, groups, woken.lists, len(woken.added))
		}
		for range events {
			pass(seconds * time.Second / time.Duration(events))
			woken.update(t, by, way.obj)
		}
		pass(3 * wakePause)
		if woken.lists > groups*(seconds+2) || woken.seen != woken.events {
			t.Errorf("%d groups are listed %d times in %d s, the last time after event %d of %d", groups, woken.lists, seconds, woken.seen, woken.events)
		}
		if len(w.recent) > 0 {
			t.Errorf("%d groups are remembered", len(w.recent))
		}
		before := woken.lists
		pass(time.Minute)
		if woken.lists != before {
			t.Errorf("without events, groups are listed %d times", woken.lists-before)
		}
		if woken.update(t, by, way.obj); woken.lists != before+groups {
			t.Error("the first event after a while waits")
		}
		pass(3 * wakePause)
	})
}

// TestSmallGroupsAreWokenAtOnce has groups of up to largeGroup resources be woken at each event.
func TestSmallGroupsAreWokenAtOnce(t *testing.T) {
	forEachWay(t, largeGroup, func(t *testing.T, woken *wokenKind, w *waker, way wakeWay) {
		groups := len(way.concerned(t.Context(), way.obj).groups)
		by := w.handler(way.concerned)
		for i := range 5 {
			woken.update(t, by, way.obj)
			if woken.lists != (i+1)*groups || len(woken.added) < woken.lists*largeGroup || len(w.recent) > 0 {
				t.Errorf("after event %d: %d lists, %d woken, %d remembered", i, woken.lists, len(woken.added), len(w.recent))
			}
		}
	})
}

// TestPrioritiesOfWakeUps has the initial list and resyncs wake with a low priority, and a change with the ordinary one, also where it comes between them.
func TestPrioritiesOfWakeUps(t *testing.T) {
	const low, ordinary = handler.LowPriority, 0
	for name, c := range map[string]struct {
		resync, change bool
		want           []int
	}{
		"the initial list":                     {false, false, []int{low}},
		"the initial list and a resync":        {true, false, []int{low, low}},
		"the initial list and a change":        {false, true, []int{low, ordinary}},
		"the initial list, a resync, a change": {true, true, []int{low, ordinary}},
	} {
		synctest.Test(t, func(t *testing.T) {
			k := kindNamed(t, "UnitedDeployment")
			woken, obj := newWokenKind(t, k, largeGroup+1), newPlainDeployment("held", 1)
			w := newWaker(k, woken.deps)
			by := w.handler(k.wakeFunc(woken.deps, children.RoleChild))
			by.Create(t.Context(), event.CreateEvent{Object: obj, IsInInitialList: true}, woken)
			if c.change {
				woken.update(t, by, obj)
			}
			if c.resync {
				by.Update(t.Context(), event.UpdateEvent{ObjectOld: obj, ObjectNew: obj}, woken)
			}
			pass(3 * wakePause)
			if !slices.Equal(woken.priorities, c.want) {
				t.Errorf("%s: the priorities are %v, want %v", name, woken.priorities, c.want)
			}
		})
	}
}

// TestWakeUpsEndWithTheQueue lists nothing after the end of the manager.
func TestWakeUpsEndWithTheQueue(t *testing.T) {
	forEachWay(t, largeGroup+1, func(t *testing.T, woken *wokenKind, w *waker, way wakeWay) {
		by := w.handler(way.concerned)
		woken.update(t, by, way.obj)
		woken.update(t, by, way.obj)
		before := woken.lists
		woken.ends.Store(true)
		pass(3 * wakePause)
		if woken.lists != before || len(w.recent) > 0 {
			t.Errorf("%d lists after the end, %d groups are remembered", woken.lists-before, len(w.recent))
		}
	})
}

// TestOwnedObjectsWakeTheirOwnerAlone has events of the Deployment of an App wake the App once each, without a list.
func TestOwnedObjectsWakeTheirOwnerAlone(t *testing.T) {
	k := kindNamed(t, "App")
	woken := newWokenKind(t, k, largeGroup+1)
	obj := newPlainDeployment("web", 1)
	obj.OwnerReferences = controlledBy("web", "App", "web", "1").OwnerReferences
	by := newWaker(k, woken.deps).handler(k.wakeFunc(woken.deps, children.RoleChild))
	for range 3 {
		woken.update(t, by, obj)
	}
	if woken.lists > 0 || len(woken.added) != 3 || woken.added[0].Name != "web" {
		t.Errorf("%d lists, %v", woken.lists, woken.added)
	}
}
