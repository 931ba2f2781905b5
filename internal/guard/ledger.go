package guard

import (
	"cmp"
	"context"
	"net/netip"
	"slices"
	"sync"
)

// The shares of a ledger's total: shareOfAddress divides it for the share of one address, shareOfUnproven for the share of all addresses
// that have proved nothing.
const (
	shareOfAddress  = 4
	shareOfUnproven = 2
)

// ledger shares an amount of connections or bytes among remote addresses.
//
// A claim that does not fit takes back unused claims of others: requests that have not arrived, and connections without a request. It takes
// from the address that holds most, and never from an address that holds less than its own. So a client loses its unfinished requests the
// sooner the more of them it has, and a small request is refused only if as many smaller ones came before it. A proven address never loses
// a claim to an unproven address.
type ledger struct {
	total  int64
	proven func(netip.Addr) bool

	mu      sync.Mutex
	claims  map[*claim]struct{}
	waiting []*waiter
	opened  uint64
}

// claim is the amount that one request or connection holds. The ledger's mutex protects it.
type claim struct {
	from   netip.Addr
	amount int64
	// order is higher for a later claim.
	order uint64
	// inUse is true for a claim that cannot be taken back.
	inUse bool
	// takenBack is closed once the claim is taken back; then onTakeBack is called.
	takenBack  chan struct{}
	onTakeBack func()
}

// waiter is a claim that waits for more.
type waiter struct {
	*claim
	more    int64
	granted chan struct{}
}

func newLedger(total int64, proven func(netip.Addr) bool) *ledger {
	return &ledger{total: total, proven: proven, claims: map[*claim]struct{}{}}
}

// openClaim returns a claim that holds nothing yet.
func (l *ledger) openClaim(from netip.Addr, onTakeBack func()) *claim {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.opened++
	c := &claim{from: from, order: l.opened, takenBack: make(chan struct{}), onTakeBack: onTakeBack}
	l.claims[c] = struct{}{}
	return c
}

// endClaim releases the amount of a claim. A second call has no effect.
func (l *ledger) endClaim(c *claim) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if _, open := l.claims[c]; open {
		delete(l.claims, c)
		l.grantWaiting()
	}
}

// growClaim adds to a claim, and reports whether it fits.
func (l *ledger) growClaim(c *claim, more int64) bool {
	l.mu.Lock()
	lost, fits := l.makeRoom(c, more)
	if fits {
		c.amount += more
	}
	l.mu.Unlock()
	callAll(lost)
	return fits
}

// useClaim adds to a claim and keeps it from being taken back. It waits until the claim fits, and reports false if it is taken back or the
// context ends before that.
func (l *ledger) useClaim(ctx context.Context, c *claim, more int64) bool {
	l.mu.Lock()
	lost, fits := l.makeRoom(c, more)
	w := &waiter{claim: c, more: more, granted: make(chan struct{})}
	if fits {
		l.grantWaiter(w)
	} else if _, open := l.claims[c]; open {
		l.waiting = append(l.waiting, w)
	}
	l.mu.Unlock()
	callAll(lost)
	select {
	case <-w.granted:
		return true
	case <-c.takenBack:
	case <-ctx.Done():
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.waiting = slices.DeleteFunc(l.waiting, func(other *waiter) bool { return other == w })
	select {
	case <-w.granted:
		return true
	default:
		return false
	}
}

// leaveClaim lets a claim be taken back again.
func (l *ledger) leaveClaim(c *claim) {
	l.mu.Lock()
	defer l.mu.Unlock()
	c.inUse = false
}

func (l *ledger) grantWaiter(w *waiter) {
	w.amount += w.more
	w.inUse = true
	close(w.granted)
}

// grantWaiting grants the waiting claims that fit now, first the claim of the address that holds least. The caller holds the mutex.
func (l *ledger) grantWaiting() {
	if len(l.waiting) == 0 {
		return
	}
	held := l.heldByAddress()
	slices.SortStableFunc(l.waiting, func(a, b *waiter) int {
		return cmp.Or(cmp.Compare(held[a.from], held[b.from]), cmp.Compare(a.more, b.more))
	})
	l.waiting = slices.DeleteFunc(l.waiting, func(w *waiter) bool {
		if _, open := l.claims[w.claim]; !open {
			return true
		}
		if l.growthObstacle(w.claim, w.more) != noObstacle {
			return false
		}
		l.grantWaiter(w)
		return true
	})
}

// makeRoom takes claims back until another one fits, and returns them, and whether it fits; if it does not, none is taken back. The
// caller holds the mutex.
func (l *ledger) makeRoom(c *claim, more int64) (lost []*claim, fits bool) {
	if _, open := l.claims[c]; !open {
		return nil, false
	}
	for more > 0 {
		bound := l.growthObstacle(c, more)
		if bound == noObstacle {
			break
		}
		victim := l.largestVictim(c, more, bound)
		if victim == nil {
			for _, spared := range lost {
				l.claims[spared] = struct{}{}
			}
			return nil, false
		}
		delete(l.claims, victim)
		lost = append(lost, victim)
	}
	for _, victim := range lost {
		close(victim.takenBack)
	}
	return lost, true
}

// obstacle is the bound that a claim does not fit in.
type obstacle int

const (
	noObstacle obstacle = iota
	addressShare
	classShare
)

// growthObstacle returns the bound that keeps a claim from growing.
func (l *ledger) growthObstacle(c *claim, more int64) obstacle {
	var ofAddress, ofUnproven, all int64
	for other := range l.claims {
		all += other.amount
		if other.from == c.from {
			ofAddress += other.amount
		}
		if !l.proven(other.from) {
			ofUnproven += other.amount
		}
	}
	switch {
	case ofAddress+more > l.total/shareOfAddress:
		return addressShare
	case all+more > l.total, !l.proven(c.from) && ofUnproven+more > l.total/shareOfUnproven:
		return classShare
	}
	return noObstacle
}

// largestVictim returns the claim to take back so that another one fits in a bound: of the address that holds most, the largest one, the
// oldest one among equals. It returns nil if all that could be taken back is smaller than the claim itself.
func (l *ledger) largestVictim(c *claim, more int64, bound obstacle) *claim {
	held := l.heldByAddress()
	own := held[c.from] + more
	var victim *claim
	for other := range l.claims {
		if other == c || other.inUse || other.amount == 0 || l.proven(other.from) != l.proven(c.from) {
			continue
		}
		if other.from == c.from && other.amount < c.amount+more {
			continue
		}
		if other.from != c.from && (bound == addressShare || held[other.from] < own) {
			continue
		}
		if victim == nil || cmp.Or(cmp.Compare(held[other.from], held[victim.from]), cmp.Compare(other.amount, victim.amount),
			cmp.Compare(victim.order, other.order)) > 0 {
			victim = other
		}
	}
	return victim
}

func (l *ledger) heldByAddress() map[netip.Addr]int64 {
	held := map[netip.Addr]int64{}
	for c := range l.claims {
		held[c.from] += c.amount
	}
	return held
}

// callAll calls the callbacks of claims that were taken back, without the mutex.
func callAll(lost []*claim) {
	for _, c := range lost {
		c.onTakeBack()
	}
}
