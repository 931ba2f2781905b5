package webhooks

import (
	"context"
	"maps"
	"strings"
	"sync"
	"time"

	apivalidation "k8s.io/apimachinery/pkg/util/validation"

	"huolala.cn/app-operator/internal/guard"
)

// limits are the concurrency and the rates of the webhooks of one process. Each limit counts by namespace, so that the loop of one tenant
// takes nothing from another.
type limits struct {
	// plans limits plans of changes: two at once, one at once of a namespace, and five a second of a namespace. Only a request with proof has a
	// plan of a change.
	plans *paces
	// The embedded share is for addresses that have proved to send genuine reviews, and for all addresses until one of them has.
	share
	// strangers is the share of all other addresses together. A forged review can state any namespace, and takes nothing from a genuine one.
	strangers share
}

// share is what a group of addresses can take up.
type share struct {
	// reviews limits reviews at once to the number of processors, of strangers to half of it, at least two; half of them are of one namespace at most.
	reviews *paces
	// looks and asks limit the reads of requests without proof from the cache and from the API server for each namespace. allLooks and
	// allAsks limit the reads of all namespaces together, because the request itself states its namespace.
	looks, allLooks, asks, allAsks *paces
}

// rate allows burst at once, and one more after each interval. Without an interval it allows any number.
type rate struct {
	interval time.Duration
	burst    int
}

// The rates of reads for requests without proof. The creation of 50 resources at once, from one file, gets all of its warnings that come
// from the cache.
var (
	planRate    = rate{200 * time.Millisecond, 5}
	lookRate    = rate{100 * time.Millisecond, 50}
	allLookRate = rate{20 * time.Millisecond, 200}
	askRate     = rate{500 * time.Millisecond, 10}
	allAskRate  = rate{100 * time.Millisecond, 20}
)

// newLimits returns the limits of a process that has a number of processors.
func newLimits(processors int) *limits {
	processors = max(2, processors)
	return &limits{plans: newPaces(maxPlans, 1, planRate), share: newShare(processors), strangers: newShare(max(2, processors/2))}
}

// newShare returns a share with a number of reviews at once.
func newShare(reviews int) share {
	return share{
		reviews: newPaces(reviews, max(1, reviews/2), rate{}),
		looks:   newPaces(0, 0, lookRate), allLooks: newPaces(0, 0, allLookRate), asks: newPaces(0, 0, askRate), allAsks: newPaces(0, 0, allAskRate),
	}
}

// shareOf returns the share that the client of a request has a part in.
func (l *limits) shareOf(ctx context.Context) *share {
	if guard.IsOutranked(ctx) {
		return &l.strangers
	}
	return &l.share
}

// paces limits by namespace how much is done at once, and how often.
type paces struct {
	// slots has room for all that is done at once, each is how much of it is of one namespace.
	slots chan struct{}
	each  int
	rate  rate
	mu    sync.Mutex
	// namespaces has the namespaces that had a turn recently.
	namespaces map[string]*pace
}

// pace limits the turns of one namespace.
type pace struct {
	// turn has a slot for each concurrent turn of the namespace.
	turn chan struct{}
	// next is when the next one is due if they are evenly spread, and waiting how many have asked for a turn and not ended it.
	next    time.Time
	waiting int
}

// maxPaces is the number of remembered namespaces above which namespaces without a recent turn are forgotten.
const maxPaces = 1000

func newPaces(slots, each int, r rate) *paces {
	return &paces{slots: make(chan struct{}, slots), each: each, rate: r, namespaces: map[string]*pace{}}
}

// beginTurn waits for the turn of a namespace, not longer than patience, and reports whether it has come. done ends it, however often it is
// called.
func (p *paces) beginTurn(ctx context.Context, namespace string, patience time.Duration) (done func(), ok bool) {
	deadline := time.Now().Add(patience)
	ctx, cancel := context.WithDeadline(ctx, deadline)
	defer cancel()
	own := p.paceOf(namespace, 1)
	if !enterRoom(ctx, own.turn) {
		p.leaveQueue(own)
		return nil, false
	}
	wait, ok := p.reserveTurn(own, time.Now(), time.Until(deadline))
	if ok && wait > 0 {
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			ok = false
		}
	}
	if !ok || !enterRoom(ctx, p.slots) {
		<-own.turn
		p.leaveQueue(own)
		return nil, false
	}
	return sync.OnceFunc(func() { <-p.slots; <-own.turn; p.leaveQueue(own) }), true
}

// tryTurn reports whether the rate of a namespace allows one more now. It waits for nothing.
func (p *paces) tryTurn(namespace string) bool {
	_, ok := p.reserveTurn(p.paceOf(namespace, 0), time.Now(), 0)
	return ok
}

// enterRoom waits for room, and reports whether there was any.
func enterRoom(ctx context.Context, room chan struct{}) bool {
	if ctx.Err() != nil {
		return false
	}
	select {
	case room <- struct{}{}:
		return true
	case <-ctx.Done():
		return false
	}
}

// paceOf returns the pace of a namespace, for which so many more wait.
func (p *paces) paceOf(namespace string, more int) *pace {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.namespaces) > maxPaces {
		now := time.Now()
		maps.DeleteFunc(p.namespaces, func(_ string, old *pace) bool { return old.next.Before(now) && old.waiting == 0 })
	}
	key := paceKey(namespace)
	own := p.namespaces[key]
	if own == nil {
		own = &pace{turn: make(chan struct{}, p.each)}
		p.namespaces[key] = own
	}
	own.waiting += more
	return own
}

// paceKey returns the key of a namespace among the paces. The request states the namespace, and a key outlives the request: a namespace that is
// longer than a name can be shares the key of all such namespaces.
func paceKey(namespace string) string {
	if len(namespace) > apivalidation.DNS1123LabelMaxLength {
		return ""
	}
	return strings.Clone(namespace)
}

// leaveQueue counts a caller off the waiting ones of a namespace.
func (p *paces) leaveQueue(own *pace) {
	p.mu.Lock()
	defer p.mu.Unlock()
	own.waiting--
}

// reserveTurn returns how long to wait for the next turn of a namespace, and reports false if that is longer than patience.
func (p *paces) reserveTurn(own *pace, now time.Time, patience time.Duration) (time.Duration, bool) {
	if p.rate.interval == 0 {
		return 0, true
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	due := own.next
	if due.Before(now) {
		due = now
	}
	wait := max(due.Sub(now)-time.Duration(p.rate.burst-1)*p.rate.interval, 0)
	if wait > patience {
		return 0, false
	}
	own.next = due.Add(p.rate.interval)
	return wait, true
}
