package fairqueue

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	dto "github.com/prometheus/client_model/go"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/controller/priorityqueue"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// newStandBy returns a queue that no worker has asked for a request. The name is for its metrics, empty for none.
func newStandBy(t *testing.T, name string, workers int, mayExist func(reconcile.Request) bool) *Queue {
	t.Helper()
	q := New(name, workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](time.Second, time.Minute), workers, mayExist)
	t.Cleanup(q.ShutDown)
	return q
}

// TestChangesOfAStandBy has all that a stand-by gathers be background, in the order in which it came, so that a change after the take-over
// comes first.
func TestChangesOfAStandBy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newStandBy(t, "", 100, nil)
		q.AddWithOpts(low, several("a", 20)...)
		q.AddWithOpts(priorityqueue.AddOpts{}, several("a", 20)...) // Each has changed since.
		q.AddAfter(of("a", 20), time.Second)
		q.AddAfter(of("a", 21), time.Hour)
		q.Add(of("b", 0))
		<-time.After(time.Minute)
		synctest.Wait()
		if request, priority, _ := q.GetWithPriority(); request != of("a", 0) || priority != handler.LowPriority {
			t.Errorf("the first is %s with priority %d", request, priority)
		}
		q.Add(of("a", 30))
		q.Add(of("c", 0))
		q.Add(of("a", 19))
		q.wantGets(t, "after the take-over", "a/30", "c/0", "a/19", "b/0")
		var rest []string
		for next := q.get(); next != ""; next = q.get() {
			rest = append(rest, next)
		}
		if len(rest) != 19 || rest[0] != "a/1" || rest[18] != "a/20" {
			t.Errorf("the rest is %q", rest)
		}
		<-time.After(time.Hour)
		synctest.Wait()
		q.wantGets(t, "the delayed one", "a/21", "")
	})
}

// TestMetricsOfAStandBy has nothing wait in the queue of a stand-by.
func TestMetricsOfAStandBy(t *testing.T) {
	q := newStandBy(t, "stand-by-test", 100, nil)
	depth := func() (depth float64) {
		t.Helper()
		families, err := metrics.Registry.Gather()
		if err != nil {
			t.Fatal(err)
		}
		for _, family := range families {
			for _, m := range family.GetMetric() {
				if family.GetName() == "workqueue_depth" && slices.ContainsFunc(m.GetLabel(), func(l *dto.LabelPair) bool {
					return l.GetName() == "name" && l.GetValue() == "stand-by-test"
				}) {
					depth += m.GetGauge().GetValue()
				}
			}
		}
		return depth
	}
	q.AddWithOpts(priorityqueue.AddOpts{}, several("a", 3)...)
	if got := depth() + float64(q.Len()); got != 0 {
		t.Errorf("before the first worker: %v", got)
	}
	_, _ = q.Get()
	if got := depth(); got != 2 {
		t.Errorf("with a worker: %v", got)
	}
	for range 2 {
		_, _ = q.Get()
	}
}

// TestStandByKeepsWhatExists has a stand-by keep a request for each resource that exists, and nothing of a resource that is gone or of a name that
// was never a resource. A worker gets requests for all of them.
func TestStandByKeepsWhatExists(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		there := map[reconcile.Request]bool{}
		q := newStandBy(t, "", 100, func(request reconcile.Request) bool { return there[request] })
		wantPending := func(what string, want int) {
			t.Helper()
			if got := len(q.pending); got != want {
				t.Errorf("%s: the queue keeps %d requests, want %d", what, got, want)
			}
		}
		q.AddWithOpts(priorityqueue.AddOpts{}, several("invented", 9)...)
		q.AddWithOpts(priorityqueue.AddOpts{After: time.Second}, several("invented", 9)...)
		wantPending("invented", 0)
		for _, request := range several("a", 3) {
			there[request] = true
			q.Add(request)
		}
		q.AddAfter(of("a", 1), time.Second)
		there[of("a", 3)] = true
		q.AddAfter(of("a", 3), time.Second)
		wantPending("created", 4)
		for _, request := range []reconcile.Request{of("a", 1), of("a", 3)} {
			there[request] = false
			q.Add(request)
		}
		wantPending("deleted", 2)
		<-time.After(time.Minute)
		synctest.Wait()
		q.wantGets(t, "those that exist", "a/0", "a/2", "")
		q.Add(of("a", 1))
		q.wantGets(t, "deleted after the take-over", "a/1", "")
		for _, request := range several("a", 3) {
			q.Done(request)
		}
		q.wantEmpty(t)
	})
}
