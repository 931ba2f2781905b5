package reconciler

import (
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

const (
	// figureInterval is how often at most a status is written if only figures have changed, and the messages that
	// repeat them.
	figureInterval = time.Second
	// figuresOfNamespace is how many statuses of a kind are written in a figureInterval, if only figures have changed, in one
	// namespace. With more of them, each waits longer: what one object changes in a thousand resources is no thousand writes a second.
	figuresOfNamespace = 20
	// hastyMost is how many writes of a status come less than a figureInterval after the previous one, whatever has changed. A rollout
	// needs a handful. From then on they wait as figures do, so that conditions that change without end are written once a second.
	// Each figureInterval without a change allows for one more.
	hastyMost = 50
)

// paces decides when the status of each resource is written. The zero value is ready for use.
type paces struct {
	mu         sync.Mutex
	resources  map[types.NamespacedName]*pace
	namespaces map[string]*namespacePace
}

// pace is that of one resource.
type pace struct {
	// last is when the status was last written, changed when it last differed, slot when it is to be written next; zero if that is not
	// known.
	last, changed, slot time.Time
	hasty               int
}

// namespacePace is that of the resources of one namespace.
type namespacePace struct {
	// next is the first time that is not given to a resource yet.
	next      time.Time
	resources int
}

// noteChange notes that the status differs at a time.
func (p *pace) noteChange(now time.Time) {
	// A clock that was set back has no time passed.
	p.hasty = max(0, p.hasty-int(max(0, now.Sub(p.changed))/figureInterval))
	p.changed = now
}

// wait returns how long a write of a resource's status is to wait, 0 if it is time. Figures is true where only figures have changed.
func (p *paces) wait(name types.NamespacedName, figures bool, now time.Time) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	r, namespace := p.of(name)
	r.noteChange(now)
	if !figures && r.hasty < hastyMost {
		return 0
	}
	// Each resource has at most one slot. A time that is later than all slots can be is from before the clock was set back.
	horizon := now.Add(figureInterval * time.Duration(2+namespace.resources/figuresOfNamespace))
	if namespace.next.After(horizon) {
		namespace.next = now
	}
	if r.last.After(now) {
		r.last = now
	}
	if now.Sub(r.slot) > figureInterval || r.slot.After(horizon) { // There is none, or it was not used.
		r.slot = latest(r.last.Add(figureInterval), namespace.next)
		namespace.next = latest(namespace.next, now.Add(-figureInterval)).Add(figureInterval / figuresOfNamespace)
	}
	return max(0, r.slot.Sub(now))
}

// noteWrite notes that a resource's status was written.
func (p *paces) noteWrite(name types.NamespacedName, now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	r, _ := p.of(name)
	r.noteChange(now)
	if now.Sub(r.last) < figureInterval {
		r.hasty++
	}
	r.last, r.slot = now, time.Time{}
}

// of returns the pace of a resource, and of its namespace.
func (p *paces) of(name types.NamespacedName) (*pace, *namespacePace) {
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

// forget drops what is known of a resource, and of its namespace with the last one.
func (p *paces) forget(name types.NamespacedName) {
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

// latest returns the later of two times.
func latest(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}
