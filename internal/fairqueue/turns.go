package fairqueue

import (
	"container/list"

	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// lane is one of the two classes of priority.
type lane int

const (
	// urgent is the lane of priority 0 and above: changes.
	urgent lane = iota
	// background is the lane of a priority below 0: the initial list and resyncs.
	background
	lanes
)

// urgentInARow is how many turns the urgent lane takes at most while the other one waits.
const urgentInARow = 3

// laneOf returns the lane of a priority.
func laneOf(priority int) lane {
	if priority < 0 {
		return background
	}
	return urgent
}

// turns has the requests that are ready, and the order in which workers get them. Each operation takes constant time, however many
// namespaces wait. It is not safe for concurrent use.
type turns struct {
	// half is how many workers a namespace has at most while others wait, most how many it has otherwise.
	half, most int
	tenants    map[string]*tenant
	// order has the tenants with requests of a lane, the next one first.
	order [lanes]*list.List
	// places has the element of each request in the list of its tenant and lane.
	places map[reconcile.Request]place
	// inARow is how many turns the urgent lane has taken since the other one took one or began to wait.
	inARow int
	// waiting is how many tenants have requests.
	waiting int
	// laneFor returns the lane of a request.
	laneFor func(reconcile.Request) lane
}

var _ workqueue.Queue[reconcile.Request] = (*turns)(nil)

// place is where a request waits.
type place struct {
	lane    lane
	element *list.Element
}

// tenant is a namespace with requests that are ready or that workers have.
type tenant struct {
	namespace string
	running   int
	// requests are the ready requests, oldest first.
	requests [lanes]*list.List
	// turn is the element of the tenant in the order of a lane, nil without requests there.
	turn [lanes]*list.Element
}

// newTurns returns an empty order. Half and most are limits of workers for a namespace, at least 1.
func newTurns(half, most int, laneFor func(reconcile.Request) lane) *turns {
	t := &turns{
		half: half, most: most, tenants: map[string]*tenant{}, places: map[reconcile.Request]place{}, laneFor: laneFor,
	}
	for l := range t.order {
		t.order[l] = list.New()
	}
	return t
}

// Len returns how many requests are ready.
func (t *turns) Len() int { return len(t.places) }

// Push implements workqueue.Queue.
func (t *turns) Push(request reconcile.Request) { t.insertRequest(request, t.laneFor(request)) }

// Touch implements workqueue.Queue. A request whose priority was raised moves to the end of the other lane.
func (t *turns) Touch(request reconcile.Request) {
	if to := t.laneFor(request); to < t.places[request].lane {
		t.removeRequest(request)
		t.insertRequest(request, to)
	}
}

// Pop implements workqueue.Queue: it returns the request whose turn it is, and counts it as running. The caller has found out by hasNext
// that there is one.
func (t *turns) Pop() reconcile.Request {
	l, tenant := t.nextTenant()
	if tenant == nil {
		return reconcile.Request{}
	}
	if l == urgent && t.order[background].Len() > 0 {
		t.inARow++
	} else {
		t.inARow = 0
	}
	request := tenant.requests[l].Front().Value.(reconcile.Request) //nolint:forcetypeassert // Nothing else is in the list.
	tenant.running++
	t.removeRequest(request)
	if tenant.turn[l] != nil {
		t.order[l].MoveToBack(tenant.turn[l])
	}
	return request
}

// hasNext reports whether a worker can have a request.
func (t *turns) hasNext() bool {
	_, tenant := t.nextTenant()
	return tenant != nil
}

// releaseWorker notes that a worker has finished with a request.
func (t *turns) releaseWorker(request reconcile.Request) {
	if tenant := t.tenants[request.Namespace]; tenant != nil {
		tenant.running--
		t.dropIdle(tenant)
	}
}

// nextTenant returns the tenant whose turn it is, and in which lane; nil if no worker can have a request.
func (t *turns) nextTenant() (lane, *tenant) {
	first, second := urgent, background
	if t.inARow >= urgentInARow {
		first, second = background, urgent
	}
	if found := t.nextOf(first); found != nil {
		return first, found
	}
	return second, t.nextOf(second)
}

// nextOf returns the next tenant of a lane that may have another worker. It skips tenants with all of their workers; there are at most the
// number of workers divided by half of these.
func (t *turns) nextOf(l lane) *tenant {
	for e := t.order[l].Front(); e != nil; e = e.Next() {
		found := e.Value.(*tenant) //nolint:forcetypeassert // Nothing else is in the list.
		limit := t.most
		if t.waiting > 1 {
			limit = t.half
		}
		if found.running < limit {
			return found
		}
	}
	return nil
}

// insertRequest adds a request at the end of a lane of its tenant, and the tenant at the end of the order unless it is there.
func (t *turns) insertRequest(request reconcile.Request, l lane) {
	of := t.tenants[request.Namespace]
	if of == nil {
		of = &tenant{namespace: request.Namespace}
		for i := range of.requests {
			of.requests[i] = list.New()
		}
		t.tenants[request.Namespace] = of
	}
	if !of.hasReady() {
		t.waiting++
	}
	t.places[request] = place{l, of.requests[l].PushBack(request)}
	if of.turn[l] == nil {
		of.turn[l] = t.order[l].PushBack(of)
	}
}

// removeRequest takes a request out of its lane, and its tenant out of the order if it was the last.
func (t *turns) removeRequest(request reconcile.Request) {
	at, of := t.places[request], t.tenants[request.Namespace]
	delete(t.places, request)
	of.requests[at.lane].Remove(at.element)
	if of.requests[at.lane].Len() == 0 {
		t.order[at.lane].Remove(of.turn[at.lane])
		of.turn[at.lane] = nil
	}
	if !of.hasReady() {
		t.waiting--
	}
	t.dropIdle(of)
}

// dropIdle forgets a tenant that has nothing.
func (t *turns) dropIdle(of *tenant) {
	if of.running == 0 && !of.hasReady() {
		delete(t.tenants, of.namespace)
	}
}

// hasReady reports whether the tenant has requests that are ready.
func (n *tenant) hasReady() bool { return n.turn[urgent] != nil || n.turn[background] != nil }
