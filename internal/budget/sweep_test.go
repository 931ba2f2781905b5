package budget

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	toolscache "k8s.io/client-go/tools/cache"

	"huolala.cn/app-operator/internal/children"
	"huolala.cn/app-operator/internal/stored"
)

// stream is a server whose streamed list sends events before its end.
func stream(events ...watch.Event) toolscache.ListerWatcher {
	return &toolscache.ListWatch{
		ListWithContextFunc: func(context.Context, metav1.ListOptions) (runtime.Object, error) { panic("a list is not streamed") },
		WatchFuncWithContext: func(_ context.Context, opts metav1.ListOptions) (watch.Interface, error) {
			w := watch.NewFakeWithChanSize(len(events)+1, false)
			if opts.SendInitialEvents == nil {
				return w, nil
			}
			for _, event := range events {
				w.Action(event.Type, event.Object)
			}
			w.Action(watch.Bookmark, &corev1.Service{ObjectMeta: metav1.ObjectMeta{
				ResourceVersion: "1", Annotations: map[string]string{metav1.InitialEventsAnnotationKey: "true"},
			}})
			return w, nil
		},
	}
}

// run runs an informer of Services, and returns what stops it.
func (b *Budget) run(t *testing.T, lw toolscache.ListerWatcher) func() {
	t.Helper()
	informer := b.NewInformer(lw, &corev1.Service{}, 0, nil)
	if err := informer.SetTransform(b.Transform(children.TypeOf(&corev1.Service{}))); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		informer.RunWithContext(ctx)
		close(ended)
	}()
	<-informer.HasSyncedChecker().Done()
	return func() {
		cancel()
		<-ended
	}
}

// TestSweep streams a list in which objects are added and deleted: what no informer has after a while counts for nothing, and what an informer
// has counts for as long as it does.
func TestSweep(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := New(limits)
		app := newApp(t, "shop", "web", 10)
		b.keepApp(app)
		stays, goes := newService("shop", "stays", app, 20<<10), newService("shop", "goes", app, 30<<10)
		defer b.run(t, stream(watch.Event{Type: watch.Added, Object: stays}, watch.Event{Type: watch.Added, Object: goes}, watch.Event{Type: watch.Deleted, Object: goes}))()
		if _, counted := b.entries[goes.UID]; !counted {
			t.Fatal("the informer sends an event of the object that went within the list: this test shows nothing")
		}
		before := b.Used("shop")

		<-time.After(inFlight)
		b.keepApp(newApp(t, "other", "trigger", 10))
		if used := b.Used("shop"); used != before {
			t.Errorf("%d bytes count after %s, want %d: an object may be on its way to its informer", used, inFlight, before)
		}
		b.keepApp(app)
		<-time.After(sweepInterval)
		b.keepApp(newApp(t, "other", "trigger", 10))
		_, went := b.entries[goes.UID]
		_, stayed := b.entries[stays.UID]
		if used := b.Used("shop"); went || !stayed || used >= before || used == 0 {
			t.Errorf("%d bytes count, and before the sweep %d; of what stays: %t, of what went: %t", used, before, stayed, went)
		}
	})
}

// TestSweepForgetsAll sweeps custom resources, whole and in part, and their children, which no informer has: nothing is left of any.
func TestSweepForgetsAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := New(limits)
		whole, reduced := newApp(t, "shop", "whole", 10), newApp(t, "shop", "reduced", 200<<10)
		if !b.keepApp(whole) || b.keepApp(reduced) {
			t.Fatal("want an App that is kept whole, and one that is not")
		}
		for _, owner := range []*stored.App{whole, reduced} {
			if !b.keep(newService("shop", owner.Name, owner, 100)) {
				t.Fatal("a small child is not kept whole")
			}
		}
		<-time.After(inFlight + sweepInterval)
		last := newApp(t, "other", "last", 10)
		b.keepApp(last)
		b.Forget(last)
		if len(b.owners)+len(b.entries)+len(b.namespaces)+b.total != 0 {
			t.Errorf("%d owners, %d objects, %d namespaces and %d bytes are left", len(b.owners), len(b.entries), len(b.namespaces), b.total)
		}
	})
}

// TestSweepOfStoppedInformer counts nothing of an informer that has stopped, as the informer of a type that the cluster no longer has.
func TestSweepOfStoppedInformer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := New(limits)
		app := newApp(t, "shop", "web", 10)
		b.keepApp(app)
		stop := b.run(t, stream(watch.Event{Type: watch.Added, Object: newService("shop", "web", app, 30<<10)}))
		stop()
		if b.Used("shop") == 0 {
			t.Fatal("nothing counts of the Service")
		}
		<-time.After(inFlight + sweepInterval)
		b.keepApp(newApp(t, "other", "trigger", 10))
		if used := b.Used("shop"); used != 0 {
			t.Errorf("%d bytes count of what no informer has", used)
		}
		if len(b.informers) != 0 {
			t.Errorf("%d informers are left", len(b.informers))
		}
	})
}
