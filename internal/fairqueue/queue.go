// Package fairqueue has the queue of a controller in which namespaces take turns.
//
// A namespace with many requests is served as often as a namespace with one request, and has at most half of the workers while others
// wait. A few workers are kept free for other namespaces, so that a new request does not wait for long reconciles of another namespace.
// Within a namespace, and among namespaces, requests of the initial list and resyncs come after changes, except in every fourth turn.
//
// Deduplication, metrics and delays are client-go's: its workqueue takes an implementation of the order. Of a request that is added
// again, the earliest time and the highest priority count, as in controller-runtime's priorityqueue.
//
// On a stand-by, the queue gathers requests until a worker asks for the first one. All of them are of the background, so that a change after the
// take-over precedes them. They count in the metrics from then on, but for a
// delay, which counts as a retry at once. The queue keeps none for a resource that is gone, or that never was.
package fairqueue

import (
	"cmp"
	"slices"
	"sync"
	"time"

	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/controller/priorityqueue"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// Configure returns controller options with a fair queue. A namespace has at most the given number of workers; a controller runs a few
// more, which are for other namespaces. See New for mayExist.
func Configure(options controller.Options, workers int, mayExist func(reconcile.Request) bool) controller.Options {
	workers = max(1, workers)
	options.MaxConcurrentReconciles = workers + spareWorkers(workers)
	options.NewQueue = func(name string, limiter workqueue.TypedRateLimiter[reconcile.Request]) workqueue.TypedRateLimitingInterface[reconcile.Request] {
		return New(name, limiter, workers, mayExist)
	}
	return options
}

// spareWorkers returns how many workers are kept free of a namespace that has the given number of them.
func spareWorkers(workers int) int { return max(1, workers/5) }

// lowPriority is the priority of the initial list (LowPriority of controller-runtime's package handler).
const lowPriority = -100

// Queue is the queue of a controller. Make it with New.
type Queue struct {
	limiter workqueue.TypedRateLimiter[reconcile.Request]
	// delays adds requests whose time has come by promoteDelayed.
	delays workqueue.TypedDelayingInterface[reconcile.Request]

	mu      sync.Mutex
	changed sync.Cond
	turns   *turns
	// ready deduplicates requests, keeps the requests that workers have, and counts for the metrics. Its order is turns. Its callers hold
	// the lock, and it never waits.
	ready *workqueue.Typed[reconcile.Request]
	// pending are the requests that no worker has got since they were added, and arrivals counts the requests that came into it.
	pending  map[reconcile.Request]*pending
	arrivals int
	// working is true once a worker has asked for a request. Before, no request is handed to ready.
	working  bool
	mayExist func(reconcile.Request) bool
	shutDown bool
}

var _ priorityqueue.PriorityQueue[reconcile.Request] = (*Queue)(nil)

// pending is a request that no worker has got since it was added.
type pending struct {
	priority, arrival int
	// due is when the request is ready, zero for a ready request.
	due time.Time
}

// New returns a queue in which a namespace has at most the given number of workers. The name is the name of the queue's metrics. On a stand-by,
// mayExist reports whether the resource of a request may exist; nil if each may. It is called with the lock of the queue: it must not wait, and it
// must know of a creation before the request for the created resource is added.
func New(name string, limiter workqueue.TypedRateLimiter[reconcile.Request], workers int, mayExist func(reconcile.Request) bool) *Queue {
	q := &Queue{limiter: limiter, pending: map[reconcile.Request]*pending{}, mayExist: mayExist}
	q.changed.L = &q.mu
	q.turns = newTurns(max(1, workers/2), workers, func(request reconcile.Request) lane { return laneOf(q.pending[request].priority) })
	q.ready = workqueue.NewTypedWithConfig(workqueue.TypedQueueConfig[reconcile.Request]{Name: name, Queue: q.turns})
	q.delays = workqueue.NewTypedDelayingQueueWithConfig(workqueue.TypedDelayingQueueConfig[reconcile.Request]{
		Name: name, Queue: promoter{q.ready, q.promoteDelayed},
	})
	return q
}

// promoter receives the requests of the delaying queue.
type promoter struct {
	*workqueue.Typed[reconcile.Request]
	promote func(reconcile.Request)
}

// Add implements workqueue.TypedInterface.
func (p promoter) Add(request reconcile.Request) { p.promote(request) }

// AddWithOpts implements priorityqueue.PriorityQueue. The highest priority and the earliest time count of a request that is added more
// than once before a worker gets it.
func (q *Queue) AddWithOpts(o priorityqueue.AddOpts, requests ...reconcile.Request) {
	for _, request := range requests {
		after := o.After
		if o.RateLimited {
			if pause := q.limiter.When(request); after == 0 || pause < after {
				after = pause
			}
		}
		if q.addRequest(request, ptr.Deref(o.Priority, 0), after) {
			q.delays.AddAfter(request, after) // Without the lock: it may wait for promote.
		}
	}
}

// addRequest adds a request, and reports whether it is to be added again once the delay is over.
func (q *Queue) addRequest(request reconcile.Request, priority int, after time.Duration) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.shutDown {
		return false
	}
	if !q.working {
		if q.mayExist != nil && !q.mayExist(request) {
			delete(q.pending, request)
			return false
		}
		priority = min(priority, lowPriority)
	}
	p, known := q.pending[request]
	if !known {
		q.arrivals++
		p = &pending{priority: priority, arrival: q.arrivals}
		q.pending[request] = p
	}
	p.priority = max(p.priority, priority)
	if after <= 0 || known && p.due.IsZero() {
		q.makeReady(request, p)
		return false
	}
	due := time.Now().Add(after)
	if known && !due.Before(p.due) {
		return false
	}
	p.due = due
	return true
}

// makeReady hands a request to the queue that is ready, which puts it in its turn unless a worker has it. On a stand-by, beginWork does.
func (q *Queue) makeReady(request reconcile.Request, p *pending) {
	p.due = time.Time{}
	if q.working {
		q.ready.Add(request)
		q.changed.Broadcast()
	}
}

// beginWork hands the requests that a stand-by has gathered to the queue that is ready, in the order of their arrival.
func (q *Queue) beginWork() {
	if q.working {
		return
	}
	q.working = true
	var gathered []reconcile.Request
	for request, p := range q.pending {
		if p.due.IsZero() {
			gathered = append(gathered, request)
		}
	}
	slices.SortFunc(gathered, func(a, b reconcile.Request) int { return cmp.Compare(q.pending[a].arrival, q.pending[b].arrival) })
	for _, request := range gathered {
		q.ready.Add(request)
	}
	q.changed.Broadcast()
}

// promoteDelayed makes a request ready whose delay is over. It ignores a request that is ready already, or was delayed again since.
func (q *Queue) promoteDelayed(request reconcile.Request) {
	q.mu.Lock()
	defer q.mu.Unlock()
	p := q.pending[request]
	if p == nil || p.due.IsZero() {
		return
	}
	if early := time.Until(p.due); early > 0 {
		go q.delays.AddAfter(request, early) // The caller is what takes it.
		return
	}
	q.makeReady(request, p)
}

// Add implements workqueue.TypedInterface.
func (q *Queue) Add(request reconcile.Request) { q.AddWithOpts(priorityqueue.AddOpts{}, request) }

// AddAfter implements workqueue.TypedDelayingInterface.
func (q *Queue) AddAfter(request reconcile.Request, after time.Duration) {
	q.AddWithOpts(priorityqueue.AddOpts{After: after}, request)
}

// AddRateLimited implements workqueue.TypedRateLimitingInterface.
func (q *Queue) AddRateLimited(request reconcile.Request) {
	q.AddWithOpts(priorityqueue.AddOpts{RateLimited: true}, request)
}

// Forget implements workqueue.TypedRateLimitingInterface.
func (q *Queue) Forget(request reconcile.Request) { q.limiter.Forget(request) }

// NumRequeues implements workqueue.TypedRateLimitingInterface.
func (q *Queue) NumRequeues(request reconcile.Request) int { return q.limiter.NumRequeues(request) }

// GetWithPriority implements priorityqueue.PriorityQueue. It waits until there is a request whose namespace may have another worker.
func (q *Queue) GetWithPriority() (request reconcile.Request, priority int, shutdown bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.beginWork()
	for !q.shutDown && !q.turns.hasNext() {
		q.changed.Wait()
	}
	if q.shutDown {
		return reconcile.Request{}, 0, true
	}
	request, _ = q.ready.Get()
	priority = q.pending[request].priority
	delete(q.pending, request)
	return request, priority, false
}

// Get implements workqueue.TypedInterface.
func (q *Queue) Get() (request reconcile.Request, shutdown bool) {
	request, _, shutdown = q.GetWithPriority()
	return request, shutdown
}

// Done implements workqueue.TypedInterface.
func (q *Queue) Done(request reconcile.Request) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.turns.releaseWorker(request)
	q.ready.Done(request)
	q.changed.Broadcast()
}

// Len returns how many requests workers could have, without requests that wait for a time or for the end of the same request, and without
// the requests of a stand-by.
func (q *Queue) Len() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.turns.Len()
}

// ShuttingDown implements workqueue.TypedInterface.
func (q *Queue) ShuttingDown() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.shutDown
}

// ShutDown ends all waiting. As with controller-runtime's queue, requests that no worker has got are dropped.
func (q *Queue) ShutDown() {
	q.mu.Lock()
	q.shutDown = true
	q.changed.Broadcast()
	q.mu.Unlock()
	q.delays.ShutDown()
}

// ShutDownWithDrain is ShutDown, as in controller-runtime's queue.
func (q *Queue) ShutDownWithDrain() { q.ShutDown() }
