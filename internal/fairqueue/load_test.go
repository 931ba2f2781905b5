package fairqueue

import (
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/controller/priorityqueue"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// load is a tenant that keeps the workers busy.
type load struct {
	// resources are how many the tenant has, cost is how long a reconcile of one takes.
	resources int
	cost      time.Duration
	// each is how long it is from one change to the next, of so many resources at once.
	each   time.Duration
	atOnce int
}

// loads have more work than ten workers can do.
var loads = map[string]load{
	"500 small Apps, 60 changes a second":                                        {500, 300 * time.Millisecond, time.Second / 60, 1},
	"60 Apps of 600 KB, 3 changes a second":                                      {60, 3500 * time.Millisecond, time.Second / 3, 1},
	"1,000 UnitedDeployments of one Deployment that is scaled 10 times a second": {1000, 80 * time.Millisecond, time.Second / 10, 1000},
}

// serve runs a controller over a queue with a load, and returns how long another tenant's requests wait until their reconcile begins, in
// order. The time is that of a bubble.
func (l load) serve(queue workqueue.TypedRateLimitingInterface[reconcile.Request], workers int) (waits []time.Duration) {
	const probes, every, warmth = 3, time.Second, 5 * time.Second
	began, ended := make(chan struct{}), make(chan struct{})
	var group sync.WaitGroup
	defer group.Wait() // The time of the bubble ends with its first function.
	for range workers {
		group.Go(func() {
			for {
				request, shutdown := queue.Get()
				if shutdown {
					return
				}
				if request.Namespace == "busy" {
					<-time.After(l.cost)
				} else {
					began <- struct{}{}
				}
				queue.Done(request)
			}
		})
	}
	for i := range l.resources { // All are changed once.
		queue.Add(of("busy", i))
	}
	group.Go(func() {
		for n := 0; ; n++ {
			select {
			case <-ended:
				return
			case <-time.After(l.each):
			}
			for i := range l.atOnce {
				queue.Add(of("busy", (n+i)%l.resources))
			}
		}
	})
	<-time.After(warmth)
	synctest.Wait() // For all workers to have requests.
	for i := range probes {
		added := time.Now()
		queue.Add(of("other", i))
		<-began
		waits = append(waits, time.Since(added))
		<-time.After(every)
	}
	close(ended)
	queue.ShutDown()
	slices.Sort(waits)
	return waits
}

// TestOtherTenantsDoNotWait has a tenant keep all of their workers busy: the requests of another one do not wait at all. In controller-runtime's
// queue, with as many workers, they wait for all that was there before.
func TestOtherTenantsDoNotWait(t *testing.T) {
	const workers = 10
	for name, l := range loads {
		t.Run(name, func(t *testing.T) {
			limiter := workqueue.DefaultTypedControllerRateLimiter[reconcile.Request]
			var fair, fifo []time.Duration
			synctest.Test(t, func(*testing.T) { fair = l.serve(New("", limiter(), workers, nil), workers+spareWorkers(workers)) })
			synctest.Test(t, func(*testing.T) {
				fifo = l.serve(priorityqueue.New("", func(o *priorityqueue.Opts[reconcile.Request]) { o.RateLimiter = limiter() }), workers)
			})
			last := len(fair) - 1
			t.Logf("median and longest wait: %s and %s; in order of arrival: %s and %s", fair[last/2], fair[last], fifo[last/2], fifo[last])
			if fair[last] > 0 {
				t.Errorf("a request waits for %s", fair[last])
			}
			if fifo[last/2] < l.cost {
				t.Errorf("the load is none: in order of arrival a request waits for %s", fifo[last/2])
			}
		})
	}
}
