package controllers

import (
	"context"
	"slices"
	"sync"
	"time"

	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/priorityqueue"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
)

const (
	// largeGroup is the number of resources up to which a group is woken at each event.
	largeGroup = 16
	// wakePause is how long the next wake-up of a larger group waits. The events of a type come one after the other for all namespaces, before the queue in which namespaces
	// take turns: a user who has many resources in one group would delay the events of all others.
	wakePause = time.Second
)

// wakeUps are the resources that an object concerns: resources by their names, and groups of resources.
type wakeUps struct {
	requests []ctrl.Request
	groups   []wakeGroup
}

// wakeGroup selects resources of a kind: those that an index finds by a name in a namespace. Without an index it has all resources of the namespace, and without
// a namespace all resources.
type wakeGroup struct{ index, namespace, name string }

// with returns the resources of both, each once.
func (u wakeUps) with(more wakeUps) wakeUps {
	for _, request := range more.requests {
		if !slices.Contains(u.requests, request) {
			u.requests = append(u.requests, request)
		}
	}
	for _, group := range more.groups {
		if !slices.Contains(u.groups, group) {
			u.groups = append(u.groups, group)
		}
	}
	return u
}

// wakeFunc returns the resources that an object concerns.
type wakeFunc func(context.Context, client.Object) wakeUps

// wakeQueue is the queue of a controller.
type wakeQueue = workqueue.TypedRateLimitingInterface[ctrl.Request]

// waker puts the resources of a kind that events concern in the queue of its controller. The resources of a large group get into the queue at once, and again after
// wakePause if there were further events within it, until there are none: so the last event of a group is always followed by a list.
type waker struct {
	// list returns a request for each resource of a group.
	list func(context.Context, wakeGroup) []ctrl.Request

	mu sync.Mutex
	// recent has the large groups that were listed within wakePause. A group without further events is removed after it.
	recent map[wakeGroup]furtherEvents
}

// furtherEvents are the events of a group since its last list.
type furtherEvents struct {
	any bool
	// priority is the highest priority of the events.
	priority int
}

// newWaker returns the waker of a kind.
func newWaker(k *kind, s *Deps) *waker {
	return &waker{recent: map[wakeGroup]furtherEvents{}, list: func(ctx context.Context, g wakeGroup) []ctrl.Request { return k.listGroup(ctx, s, g) }}
}

// handler returns the handler of the events of objects that concern resources of the kind. As with controller-runtime's handlers, the initial list and resyncs have a low priority.
func (w *waker) handler(concerned wakeFunc) handler.EventHandler { return wakeHandler{w, concerned} }

// wakeHandler implements handler.EventHandler.
type wakeHandler struct {
	*waker
	concerned wakeFunc
}

// Create implements handler.EventHandler.
func (h wakeHandler) Create(ctx context.Context, e event.CreateEvent, queue wakeQueue) {
	h.wake(ctx, queue, priorityOf(e.IsInInitialList), h.concerned(ctx, e.Object))
}

// Update implements handler.EventHandler. The object as it was concerns resources, too.
func (h wakeHandler) Update(ctx context.Context, e event.UpdateEvent, queue wakeQueue) {
	found := h.concerned(ctx, e.ObjectOld).with(h.concerned(ctx, e.ObjectNew))
	h.wake(ctx, queue, priorityOf(e.ObjectOld.GetResourceVersion() == e.ObjectNew.GetResourceVersion()), found)
}

// Delete implements handler.EventHandler.
func (h wakeHandler) Delete(ctx context.Context, e event.DeleteEvent, queue wakeQueue) {
	h.wake(ctx, queue, priorityOf(false), h.concerned(ctx, e.Object))
}

// Generic implements handler.EventHandler.
func (h wakeHandler) Generic(ctx context.Context, e event.GenericEvent, queue wakeQueue) {
	h.wake(ctx, queue, priorityOf(false), h.concerned(ctx, e.Object))
}

// priorityOf returns the priority of the requests for an event. An event is of low priority if nothing has changed.
func priorityOf(unchanged bool) int {
	if unchanged {
		return handler.LowPriority
	}
	return 0
}

// wake puts resources in the queue. A large group waits if it was listed within wakePause.
func (w *waker) wake(ctx context.Context, queue wakeQueue, priority int, found wakeUps) {
	enqueue(queue, priority, found.requests)
	for _, g := range found.groups {
		if w.noteFurther(g, priority) {
			continue
		}
		requests := w.list(ctx, g)
		large := len(requests) > largeGroup
		enqueue(queue, priority, slices.DeleteFunc(requests, func(r ctrl.Request) bool { return slices.Contains(found.requests, r) }))
		if large && w.remember(g) {
			lasting := context.WithoutCancel(ctx) // The context of an event ends with its handler.
			time.AfterFunc(wakePause, func() { w.wakeAgain(lasting, queue, g) })
		}
	}
}

// wakeAgain puts a large group in the queue if there were events since its last list.
func (w *waker) wakeAgain(ctx context.Context, queue wakeQueue, g wakeGroup) {
	further := w.takeFurther(g, queue.ShuttingDown())
	if !further.any {
		return
	}
	enqueue(queue, further.priority, w.list(ctx, g)) // An event during the list leads to the next list.
	time.AfterFunc(wakePause, func() { w.wakeAgain(ctx, queue, g) })
}

// noteFurther notes an event of a group that was listed within wakePause, and reports whether it was.
func (w *waker) noteFurther(g wakeGroup, priority int) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	further, recent := w.recent[g]
	if !recent {
		return false
	}
	if further.any {
		priority = max(priority, further.priority)
	}
	w.recent[g] = furtherEvents{any: true, priority: priority}
	return true
}

// remember notes that a group was listed, and reports whether that was not known.
func (w *waker) remember(g wakeGroup) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if _, known := w.recent[g]; known { // The events of another type have the group listed, too.
		return false
	}
	w.recent[g] = furtherEvents{}
	return true
}

// takeFurther returns the events of a group since its last list. The group is removed if there are none, or at the end of the manager.
func (w *waker) takeFurther(g wakeGroup, ends bool) furtherEvents {
	w.mu.Lock()
	defer w.mu.Unlock()
	further := w.recent[g]
	if delete(w.recent, g); ends || !further.any {
		return furtherEvents{}
	}
	w.recent[g] = furtherEvents{}
	return further
}

// enqueue puts requests in a queue with a priority.
func enqueue(queue wakeQueue, priority int, requests []ctrl.Request) {
	if ordered, ok := queue.(priorityqueue.PriorityQueue[ctrl.Request]); ok {
		ordered.AddWithOpts(priorityqueue.AddOpts{Priority: &priority}, requests...)
		return
	}
	for _, request := range requests {
		queue.Add(request)
	}
}
