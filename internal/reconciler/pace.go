package reconciler

import (
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

const (
	// figureInterval is the minimum interval between writes of a status if only figures, and messages with them, have changed.
	figureInterval = time.Second
	// figuresOfNamespace is the maximum number of such writes in a figureInterval for one kind and namespace. With more
	// resources, each waits longer, so that a change of one object that affects a thousand resources does not cause a thousand
	// writes a second.
	figuresOfNamespace = 20
	// hastyMost is the maximum number of writes of a status within a figureInterval of the previous write, for any change. A
	// rollout needs a handful. Beyond the limit, the writes wait as for figures, so that a flapping condition is written once a
	// second. Each figureInterval without a change allows one more.
	hastyMost = 50
)

// paces decides when the status of each resource is written. The zero value is ready for use.
type paces struct {
	mu         sync.Mutex
	resources  map[types.NamespacedName]*pace
	namespaces map[string]*namespacePace
}

// pace holds the times of one resource's status.
type pace struct {
	// last is the time of the last write, changed the time of the last change, slot the time of the next write; zero if unknown.
	last, changed, slot time.Time
	hasty               int
}

// namespacePace holds the times of one namespace.
type namespacePace struct {
	// next is the first free slot.
	next      time.Time
	resources int
}

// noteChange records a change of the status.
func (p *pace) noteChange(now time.Time) {
	// If the clock was set back, no time has passed.
	p.hasty = max(0, p.hasty-int(max(0, now.Sub(p.changed))/figureInterval))
	p.changed = now
}

// writeDelay returns the delay of a write of a resource's status, 0 for none. figures is true if only figures have changed.
func (p *paces) writeDelay(name types.NamespacedName, figures bool, now time.Time) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	r, namespace := p.ensurePace(name)
	r.noteChange(now)
	if !figures && r.hasty < hastyMost {
		return 0
	}
	// Each resource has at most one slot. A time beyond the latest possible slot is from before the clock was set back.
	horizon := now.Add(figureInterval * time.Duration(2+namespace.resources/figuresOfNamespace))
	if namespace.next.After(horizon) {
		namespace.next = now
	}
	if r.last.After(now) {
		r.last = now
	}
	if now.Sub(r.slot) > figureInterval || r.slot.After(horizon) { // There is no slot, or it has passed unused.
		r.slot = laterTime(r.last.Add(figureInterval), namespace.next)
		namespace.next = laterTime(namespace.next, now.Add(-figureInterval)).Add(figureInterval / figuresOfNamespace)
	}
	return max(0, r.slot.Sub(now))
}

// noteWrite records a write of a resource's status.
func (p *paces) noteWrite(name types.NamespacedName, now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	r, _ := p.ensurePace(name)
	r.noteChange(now)
	if now.Sub(r.last) < figureInterval {
		r.hasty++
	}
	r.last, r.slot = now, time.Time{}
}

// ensurePace returns the pace of a resource and its namespace, and creates them if needed.
func (p *paces) ensurePace(name types.NamespacedName) (*pace, *namespacePace) {
	if p.resources == nil {
		p.resources, p.namespaces = map[types.NamespacedName]*pace{}, map[string]*namespacePace{}
	}
	namespace := p.namespaces[name.Namespace]
	if namespace == nil {
		namespace = &namespacePace{}
		p.namespaces[name.Namespace] = namespace
	}
	r := p.resources[name]
	if r == nil {
		r = &pace{}
		p.resources[name] = r
		namespace.resources++
	}
	return r, namespace
}

// forgetResource deletes the state of a resource, and with the last resource the state of its namespace.
func (p *paces) forgetResource(name types.NamespacedName) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.resources[name] == nil {
		return
	}
	delete(p.resources, name)
	namespace := p.namespaces[name.Namespace]
	if namespace.resources--; namespace.resources == 0 {
		delete(p.namespaces, name.Namespace)
	}
}

// laterTime returns the later of two times.
func laterTime(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}
