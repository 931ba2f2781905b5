package fairqueue

import (
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	dto "github.com/prometheus/client_model/go"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/controller/priorityqueue"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// low is the priority of a request of the initial list.
var low = priorityqueue.AddOpts{Priority: ptr.To(handler.LowPriority)}

// of returns a request of a namespace.
func of(namespace string, n int) reconcile.Request {
	return reconcile.Request{NamespacedName: types.NamespacedName{Namespace: namespace, Name: fmt.Sprint(n)}}
}

// several returns so many requests of a namespace.
func several(namespace string, n int) []reconcile.Request {
	var requests []reconcile.Request
	for i := range n {
		requests = append(requests, of(namespace, i))
	}
	return requests
}

// newQueue returns a queue without metrics that workers have asked for requests, whose failed requests are tried again after 1, 2, 4 seconds and so on. It ends with the test.
func newQueue(t *testing.T, workers int) *Queue {
	t.Helper()
	q := newStandBy(t, "", workers, nil)
	q.get()
	return q
}

// get returns the request that a worker gets, as "namespace/name", "" if it has to wait.
func (q *Queue) get() string {
	q.mu.Lock()
	q.beginWork()
	waits := !q.shutDown && !q.turns.hasNext()
	q.mu.Unlock()
	if waits {
		return ""
	}
	request, shutdown := q.Get()
	if shutdown {
		return "shutdown"
	}
	return request.String()
}

// wantGets fails the test unless workers get these requests, in order, while none is done.
func (q *Queue) wantGets(t *testing.T, what string, want ...string) {
	t.Helper()
	var got []string
	for range want {
		got = append(got, q.get())
	}
	if !slices.Equal(got, want) {
		t.Errorf("%s: workers get %q, want %q", what, got, want)
	}
}

// wantEmpty fails the test if the queue keeps anything.
func (q *Queue) wantEmpty(t *testing.T) {
	t.Helper()
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.pending)+len(q.turns.tenants)+len(q.turns.places)+q.turns.waiting+q.turns.order[urgent].Len()+q.turns.order[background].Len() > 0 {
		t.Errorf("the queue keeps %d requests and %d namespaces: %+v", len(q.pending), len(q.turns.tenants), q.turns)
	}
}

// TestTurns has namespaces take turns, whatever the number of their requests.
func TestTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue(t, 100)
		q.AddWithOpts(priorityqueue.AddOpts{}, several("a", 5)...)
		q.wantGets(t, "alone", "a/0")
		q.AddWithOpts(priorityqueue.AddOpts{}, several("b", 2)...)
		q.Add(of("c", 0))
		q.wantGets(t, "three namespaces", "a/1", "b/0", "c/0", "a/2", "b/1", "a/3", "a/4", "")
		if q.Len() != 0 {
			t.Errorf("%d requests are left", q.Len())
		}
		for _, r := range slices.Concat(several("a", 5), several("b", 2), several("c", 1)) {
			q.Done(r)
		}
		q.wantEmpty(t)
	})
}

// TestWorkers has a namespace use all workers but the spare ones while it is alone, and half of them while another one waits.
func TestWorkers(t *testing.T) {
	for workers, want := range map[int]struct{ alone, half, all int }{
		-1: {1, 1, 2}, 1: {1, 1, 2}, 2: {2, 1, 3}, 3: {3, 1, 4}, 10: {10, 5, 12}, 24: {24, 12, 28},
	} {
		t.Run(fmt.Sprint(workers), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				options := Configure(controller.Options{}, workers, nil)
				q := options.NewQueue("", workqueue.DefaultTypedControllerRateLimiter[reconcile.Request]()).(*Queue)
				t.Cleanup(q.ShutDown)
				q.wantGets(t, "no request", "") // A worker has asked: the queue is not a stand-by's.
				if options.MaxConcurrentReconciles != want.all {
					t.Errorf("there are %d workers, want %d", options.MaxConcurrentReconciles, want.all)
				}
				q.AddWithOpts(priorityqueue.AddOpts{}, several("a", 100)...)
				alone := 0
				for q.get() != "" {
					alone++
				}
				if alone != want.alone {
					t.Errorf("a namespace alone has %d workers, want %d", alone, want.alone)
				}
				// The workers of a are busy, and b does not wait for them.
				q.AddWithOpts(priorityqueue.AddOpts{}, several("b", 100)...)
				q.wantGets(t, "another namespace", "b/0")
				for i := range alone {
					q.Done(of("a", i))
				}
				for q.get() != "" {
					continue
				}
				for _, n := range q.turns.tenants {
					if n.running != want.half {
						t.Errorf("namespace %s has %d workers next to another one, want %d", n.namespace, n.running, want.half)
					}
				}
			})
		})
	}
}

// TestWorkersWake has a waiting worker get a request as soon as its namespace may have another one.
func TestWorkersWake(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue(t, 1)
		q.AddWithOpts(priorityqueue.AddOpts{}, several("a", 2)...)
		q.wantGets(t, "the first", "a/0")
		var got []string
		go func() {
			for {
				request, shutdown := q.Get()
				if shutdown {
					got = append(got, "shutdown")
					return
				}
				got = append(got, request.String())
			}
		}()
		wait := func(what string, want ...string) {
			t.Helper()
			synctest.Wait()
			if !slices.Equal(got, want) {
				t.Errorf("%s: %q, want %q", what, got, want)
			}
		}
		wait("a has its worker")
		q.Add(of("b", 0))
		wait("b may have one", "b/0")
		q.Done(of("a", 0))
		wait("a may have one again", "b/0", "a/1")
		q.ShutDown()
		wait("the end", "b/0", "a/1", "shutdown")
	})
}

// TestPriority serves changes before the initial list, but for every fourth turn, and lets a change raise what waits.
func TestPriority(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue(t, 100)
		q.AddWithOpts(low, several("a", 3)...)
		q.AddWithOpts(low, several("b", 3)...)
		q.AddWithOpts(priorityqueue.AddOpts{}, several("c", 5)...)
		q.Add(of("a", 2))
		q.AddWithOpts(low, of("a", 2)) // Not lowered.
		q.wantGets(t, "both", "c/0", "a/2", "c/1", "a/0", "c/2", "c/3", "c/4", "b/0", "a/1", "b/1", "b/2", "")

		q.AddWithOpts(low, of("d", 0))
		q.Add(of("d", 1))
		for _, want := range []int{0, handler.LowPriority} {
			if request, priority, _ := q.GetWithPriority(); priority != want {
				t.Errorf("%s has priority %d, want %d", request, priority, want)
			}
		}
	})
}

// TestDelays has a request be ready at the earliest of the times that were asked for, and at none once it was ready.
func TestDelays(t *testing.T) {
	for name, c := range map[string]struct {
		add func(*Queue)
		// at are the seconds after which a worker gets the request, where each gets it at once and is done with it.
		at []int
	}{
		"one":                    {func(q *Queue) { q.AddAfter(of("a", 0), 5*time.Second) }, []int{5}},
		"none":                   {func(q *Queue) { q.AddAfter(of("a", 0), 0) }, []int{0}},
		"the earlier one counts": {func(q *Queue) { q.AddAfter(of("a", 0), 9*time.Second); q.AddAfter(of("a", 0), 5*time.Second) }, []int{5}},
		"not the later one":      {func(q *Queue) { q.AddAfter(of("a", 0), 5*time.Second); q.AddAfter(of("a", 0), 9*time.Second) }, []int{5}},
		"at once and later":      {func(q *Queue) { q.Add(of("a", 0)); q.AddAfter(of("a", 0), 5*time.Second) }, []int{0}},
		"later and at once":      {func(q *Queue) { q.AddAfter(of("a", 0), 5*time.Second); q.Add(of("a", 0)) }, []int{0}},
		"a later one afterwards": {func(q *Queue) {
			q.AddAfter(of("a", 0), 5*time.Second)
			q.Add(of("a", 0))
			_, _ = q.Get()
			q.AddAfter(of("a", 0), 9*time.Second)
			q.Done(of("a", 0))
		}, []int{9}},
		"back-off": {func(q *Queue) {
			q.AddRateLimited(of("a", 0)) // 1 s.
			q.AddRateLimited(of("a", 0)) // 2 s, which is later.
		}, []int{1}},
		"back-off grows": {func(q *Queue) {
			q.limiter.When(of("a", 0))
			q.limiter.When(of("a", 0))
			if n := q.NumRequeues(of("a", 0)); n != 2 {
				panic(n)
			}
			q.AddRateLimited(of("a", 0))
		}, []int{4}},
		"back-off ends": {func(q *Queue) {
			q.limiter.When(of("a", 0))
			q.Forget(of("a", 0))
			q.AddRateLimited(of("a", 0))
		}, []int{1}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				q, began := newQueue(t, 4), time.Now()
				c.add(q)
				var at []int
				for range 20 {
					synctest.Wait()
					for q.get() != "" {
						at = append(at, int(time.Since(began).Seconds()))
						q.Done(of("a", 0))
					}
					<-time.After(time.Second)
				}
				if !slices.Equal(at, c.at) {
					t.Errorf("ready after %v s, want %v", at, c.at)
				}
				q.wantEmpty(t)
			})
		})
	}
}

// TestDedupe has a request processed once however often it is added, and once more if it is added while a worker has it.
func TestDedupe(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue(t, 4)
		for range 3 {
			q.Add(of("a", 0))
		}
		q.wantGets(t, "added three times", "a/0", "")
		q.Add(of("a", 0))
		q.AddWithOpts(low, of("a", 0))
		q.wantGets(t, "a worker has it", "")
		q.Done(of("a", 0))
		q.wantGets(t, "the worker is done", "a/0", "")
		q.Done(of("a", 0))
		q.wantEmpty(t)
	})
}

// TestShutDown drops what waits, and takes nothing more.
func TestShutDown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue(t, 4)
		q.AddWithOpts(priorityqueue.AddOpts{}, several("a", 3)...)
		q.AddAfter(of("a", 9), time.Second)
		q.wantGets(t, "before", "a/0")
		q.Add(of("a", 0))
		q.ShutDown()
		q.ShutDownWithDrain()
		q.Add(of("b", 0))
		q.AddAfter(of("b", 0), time.Second)
		q.Done(of("a", 0))
		<-time.After(time.Minute)
		q.wantGets(t, "after", "shutdown", "shutdown")
		if !q.ShuttingDown() {
			t.Error("it does not say that it is shut down")
		}
	})
}

// TestMetrics has the queue counted as any workqueue is.
func TestMetrics(t *testing.T) {
	q := New("fair-test", workqueue.DefaultTypedControllerRateLimiter[reconcile.Request](), 4, nil)
	defer q.ShutDown()
	q.AddWithOpts(priorityqueue.AddOpts{}, several("a", 3)...)
	q.AddAfter(of("b", 0), time.Hour)
	_, _ = q.Get()
	q.Done(of("a", 0))
	families, err := metrics.Registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]float64{}
	for _, family := range families {
		for _, m := range family.GetMetric() {
			if slices.ContainsFunc(m.GetLabel(), func(l *dto.LabelPair) bool { return l.GetName() == "name" && l.GetValue() == "fair-test" }) {
				got[family.GetName()] = m.GetCounter().GetValue() + m.GetGauge().GetValue() + float64(m.GetHistogram().GetSampleCount())
			}
		}
	}
	for name, want := range map[string]float64{
		"workqueue_depth": 2, "workqueue_adds_total": 3, "workqueue_retries_total": 1, "workqueue_queue_duration_seconds": 1,
		"workqueue_work_duration_seconds": 1, "workqueue_unfinished_work_seconds": 0, "workqueue_longest_running_processor_seconds": 0,
	} {
		if is, ok := got[name]; !ok || is != want {
			t.Errorf("%s is %v, want %v", name, is, want)
		}
	}
}

// BenchmarkGet is what a worker pays for its next request, where so many namespaces wait.
func BenchmarkGet(b *testing.B) {
	for _, namespaces := range []int{1, 100, 10_000} {
		b.Run(fmt.Sprint(namespaces), func(b *testing.B) {
			q := New("", workqueue.DefaultTypedControllerRateLimiter[reconcile.Request](), 10, nil)
			defer q.ShutDown()
			for i := range namespaces {
				q.AddWithOpts(priorityqueue.AddOpts{}, several(fmt.Sprint("namespace-", i), 2)...)
			}
			b.ReportAllocs()
			for b.Loop() {
				request, _ := q.Get()
				q.Add(request)
				q.Done(request)
			}
		})
	}
}
