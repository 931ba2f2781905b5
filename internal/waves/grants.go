package waves

import (
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// Queue is the queue of a controller.
type Queue = workqueue.TypedRateLimitingInterface[reconcile.Request]

// Grants has the resources that may take the present defaults: from the decision until their records have them. It is lost with the process.
// The records that were written by then are part of the next decision, and a resource without a record has not taken anything.
//
// A grant ends by the reconcile of its resource alone, which either takes the defaults or declines before it writes. So a decision never counts on
// a resource that may write at the same time.
type Grants struct {
	mu       sync.Mutex
	granted  map[ID]*Grant
	declined map[ID]string
	queues   map[string]Queue
	leader   Queue
}

// Grant is the right of a resource to take the present defaults.
type Grant struct {
	// Of is the AppDefaults whose rollout it is, and Wave the number of the wave. Repairs is true for a resource that has stalled before.
	Of      types.NamespacedName
	Wave    int32
	Repairs bool
	// At is when it was given.
	At time.Time
	// Tried is true once a reconcile of the resource has begun to write, and Refused if the API server has refused the last write.
	Tried, Refused bool
}

// IsUsed reports whether a record belongs to the grant: a wave of a number, taken at a time, in seconds.
func (g *Grant) IsUsed(wave int32, at time.Time) bool {
	return g.Wave == wave && !at.Before(g.At.Truncate(time.Second))
}

// NewGrants returns an empty memory.
func NewGrants() *Grants {
	return &Grants{granted: map[ID]*Grant{}, declined: map[ID]string{}, queues: map[string]Queue{}}
}

// Register has the resources of a kind with a grant be reconciled.
func (g *Grants) Register(kind string, queue Queue) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.queues[kind] = queue
}

// RegisterLeader has AppDefaults be reconciled when a resource declines.
func (g *Grants) RegisterLeader(queue Queue) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.leader = queue
}

// Give gives resources a grant, and requeues the resources.
func (g *Grants) Give(grant Grant, ids []ID) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, id := range ids {
		own := grant
		g.granted[id] = &own
		if queue := g.queues[id.Kind]; queue != nil {
			queue.Add(reconcile.Request{NamespacedName: id.NamespacedName})
		}
	}
}

// Of returns the grant of a resource, and whether there is one.
func (g *Grants) Of(id ID) (Grant, bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	grant, ok := g.granted[id]
	if !ok {
		return Grant{}, false
	}
	return *grant, true
}

// All returns all grants.
func (g *Grants) All() map[ID]Grant {
	g.mu.Lock()
	defer g.mu.Unlock()
	all := make(map[ID]Grant, len(g.granted))
	for id, grant := range g.granted {
		all[id] = *grant
	}
	return all
}

// Try notes that the reconcile of a resource begins to write.
func (g *Grants) Try(id ID) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if grant := g.granted[id]; grant != nil {
		grant.Tried = true
	}
}

// Note notes whether the API server has refused what a resource with a grant has written.
func (g *Grants) Note(id ID, refused bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if grant := g.granted[id]; grant != nil {
		grant.Refused = refused
	}
}

// Decline ends the grant of a resource that does not take the defaults, and requeues the AppDefaults after a time. In this state, which is a text
// that changes with the resource and with the defaults, the resource is granted nothing again. The state is empty for a resource whose record has the
// defaults.
func (g *Grants) Decline(id ID, state string, after time.Duration) {
	g.mu.Lock()
	defer g.mu.Unlock()
	grant := g.granted[id]
	if grant == nil {
		return
	}
	delete(g.granted, id)
	g.declined[id] = state
	if g.leader != nil {
		g.leader.AddAfter(reconcile.Request{NamespacedName: grant.Of}, after)
		if id.Namespace != grant.Of.Namespace { // The AppDefaults of the namespace count the resource, too.
			g.leader.AddAfter(reconcile.Request{NamespacedName: types.NamespacedName{Namespace: id.Namespace, Name: grant.Of.Name}}, after)
		}
	}
}

// Declined returns the state in which a resource has declined, empty if it has not.
func (g *Grants) Declined(id ID) string {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.declined[id]
}

// Forget ends the grant of a resource whose record has the defaults, or that is gone.
func (g *Grants) Forget(id ID) {
	g.mu.Lock()
	defer g.mu.Unlock()
	delete(g.granted, id)
	delete(g.declined, id)
}
