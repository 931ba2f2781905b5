package budget

import (
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

const (
	// sweepInterval is the least time between two sweeps.
	sweepInterval = 15 * time.Minute
	// inFlight is how long a transformed object may take to reach the store of its informer: a streamed list ends after at most 10 minutes
	// (reflector.go in client-go), and the queue behind it is emptied at once.
	inFlight = 30 * time.Minute
)

// followDeletions uncounts the objects that an informer drops.
func (b *Budget) followDeletions(informer toolscache.SharedIndexInformer) error {
	forget := func(obj any) {
		if gone, ok := obj.(toolscache.DeletedFinalStateUnknown); ok {
			obj = gone.Obj
		}
		if known, ok := obj.(client.Object); ok {
			b.Forget(known)
		}
	}
	_, err := informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
		DeleteFunc: forget,
		UpdateFunc: func(was, is any) {
			before, ok := was.(client.Object)
			after, isObject := is.(client.Object)
			if ok && isObject && before.GetUID() != after.GetUID() {
				b.Forget(before)
			}
		},
	})
	b.mu.Lock()
	defer b.mu.Unlock()
	b.informers = append(b.informers, informer)
	return err
}

// sweepUnstored uncounts the objects that no informer has. An informer transforms each object of a list, and sends no event for an object
// that is deleted before the list ends, or whose list failed; an informer that stops sends no events either. b.mu is held.
func (b *Budget) sweepUnstored() {
	now := time.Now()
	if now.Sub(b.swept) < sweepInterval {
		return
	}
	b.swept = now
	stored := b.storedUIDs()
	for uid, e := range b.entries {
		if now.Sub(e.seen) > inFlight && !stored.Has(uid) {
			b.uncountObject(uid)
		}
	}
	for uid, o := range b.owners {
		if o.known && now.Sub(o.seen) > inFlight && !stored.Has(uid) {
			b.noteLost(uid)
		}
	}
}

// storedUIDs returns the UID of each object that a running informer has, and drops the informers that have stopped. b.mu is held.
func (b *Budget) storedUIDs() sets.Set[types.UID] {
	stored := sets.Set[types.UID]{}
	var running []toolscache.SharedIndexInformer
	for _, informer := range b.informers {
		if informer.IsStopped() {
			continue
		}
		running = append(running, informer)
		for _, known := range informer.GetStore().List() {
			if obj, ok := known.(client.Object); ok {
				stored.Insert(obj.GetUID())
			}
		}
	}
	b.informers = running
	return stored
}
