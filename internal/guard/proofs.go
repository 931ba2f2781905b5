package guard

import (
	"context"
	"net/netip"
	"sync"
	"time"
)

const (
	// proofLasts is how long an address counts as proven after its last proof.
	proofLasts = 24 * time.Hour
	// proofRest is how long no proof is looked for after one.
	proofRest = time.Minute
	// maxProven is how many addresses count as proven. A cluster has few API servers and scrapers.
	maxProven = 64
)

// Prove notes that the request of a context is genuine, if proof returns true. Its address then shares the reserve for proven addresses for
// a day. Prove does not call proof for an address that has proved itself a moment ago.
func Prove(ctx context.Context, proof func() bool) {
	c, ok := ctx.Value(connKey{}).(*conn)
	if ok && !c.guard.proofs.provenSince(c.from, proofRest) && proof() {
		c.guard.proofs.addProof(c.from)
	}
}

// IsOutranked reports whether the address of a context has proved nothing while another address has. A server that shares out more than connections
// and bytes keeps the share of proven addresses free of such clients. Without any proof no client is outranked: one of them is the genuine one.
func IsOutranked(ctx context.Context) bool {
	c, ok := ctx.Value(connKey{}).(*conn)
	return ok && c.guard.proofs.outranks(c.from)
}

// proofs are the addresses that have proved to send genuine requests.
type proofs struct {
	mu   sync.Mutex
	last map[netip.Addr]time.Time
}

// isProven reports whether an address counts as proven.
func (p *proofs) isProven(from netip.Addr) bool { return p.provenSince(from, proofLasts) }

func (p *proofs) provenSince(from netip.Addr, age time.Duration) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	last, ok := p.last[from]
	return ok && time.Since(last) < age
}

// outranks reports whether other addresses count as proven, and an address does not.
func (p *proofs) outranks(from netip.Addr) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	others := false
	for known, at := range p.last {
		if time.Since(at) < proofLasts {
			if known == from {
				return false
			}
			others = true
		}
	}
	return others
}

// addProof notes a proof. If there are too many proven addresses, the oldest proof is dropped.
func (p *proofs) addProof(from netip.Addr) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.last[from] = time.Now()
	if len(p.last) <= maxProven {
		return
	}
	oldest := from
	for other, at := range p.last {
		if at.Before(p.last[oldest]) {
			oldest = other
		}
	}
	delete(p.last, oldest)
}
