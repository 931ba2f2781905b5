// Package budget limits how much of each object the manager's cache keeps, so that nobody in the cluster can fill the manager's memory.
//
// The cache keeps an object whole if it is a custom resource of ours, or if its controller is a custom resource in the cache, by UID, kind,
// name and namespace. Of every other object the cache keeps the identity, see children.Type.Keep. A custom resource with its children may use
// Owner bytes, more than an ordinary resource needs; the excess counts against the limits of its namespace and of all namespaces together.
// An object beyond a limit is kept in part, and Client reads it from the API server where all of it is needed. The next event of the object
// after space is free makes it whole again.
package budget

import (
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"huolala.cn/app-operator/internal/children"
	"huolala.cn/app-operator/internal/heap"
)

// Limits are how many bytes objects may take that are kept whole.
type Limits struct {
	// Owner is the allowance of a custom resource and its children together; only the bytes above it count.
	Owner int
	// Namespace is the limit of the counted bytes of one namespace, Total the limit for all namespaces.
	Namespace, Total int
}

// ownerBytes is room for a plain App with a Deployment, a Service, an autoscaler and an Ingress two times. TestPlainAppNeedsNoBudget of
// test/integration measures a plain App.
const ownerBytes = 48 << 10

// namespacesAtLimit is how many namespaces can be at their limit at once.
const namespacesAtLimit = 4

// NewLimits returns the limits with a number of bytes for each namespace.
func NewLimits(namespace int) Limits {
	return Limits{Owner: ownerBytes, Namespace: namespace, Total: namespacesAtLimit * namespace}
}

// Resource is a custom resource as the cache has it.
type Resource interface {
	client.Object
	// Reduce drops the spec and other long parts, except the parts for metrics, and names, by which an index finds the resource.
	Reduce(names []string)
	// Reduced reports whether it was called.
	Reduced() bool
}

// Budget records the custom resources of the cache and the sizes of the whole objects. New makes a Budget.
type Budget struct {
	limits  Limits
	started *gate

	mu         sync.Mutex
	informers  []toolscache.SharedIndexInformer
	swept      time.Time
	owners     map[types.UID]*owner
	entries    map[types.UID]entry
	namespaces map[string]int
	total      int
}

// owner is a custom resource that the cache has, or has had while objects are kept whole for it.
type owner struct {
	kind, namespace, name string
	// known is true while the cache has the resource.
	known bool
	// used is how many bytes are kept whole for it, entries in how many objects.
	used, entries int
	// seen is when the resource was last transformed.
	seen time.Time
}

// entry is an object that is kept whole.
type entry struct {
	owner *owner
	uid   types.UID
	size  int
	// seen is when the object was last transformed.
	seen time.Time
}

// New returns a budget with limits.
func New(limits Limits) *Budget {
	return &Budget{
		limits: limits, started: &gate{}, swept: time.Now(),
		owners: map[types.UID]*owner{}, entries: map[types.UID]entry{}, namespaces: map[string]int{},
	}
}

// KeepResource reduces a custom resource, already without the fields that are never kept, to the part that the cache keeps. names returns
// the keys under which an index finds it.
func (b *Budget) KeepResource(kind string, obj Resource, names func() []string) {
	uid, size := obj.GetUID(), heap.Size(obj)
	b.mu.Lock()
	o := b.owners[uid]
	if o == nil {
		o = &owner{kind: kind, namespace: obj.GetNamespace(), name: obj.GetName()}
		b.owners[uid] = o
	}
	o.seen = time.Now()
	b.changeOwner(o, func() { o.known = true })
	whole := obj.Reduced() || b.admitObject(uid, uid, o, size)
	b.mu.Unlock()
	if !whole {
		obj.Reduce(names())
	}
}

// KeepChild reduces a child object to the part that the cache keeps.
func (b *Budget) KeepChild(row *children.Type, obj client.Object) {
	if row.Whole() && !children.IsPartial(obj) && b.Owns(obj) {
		row.Keep(obj, true)
		if b.admitChild(obj, heap.Size(obj)) {
			return
		}
	} else if row.Whole() {
		b.Forget(obj)
	}
	row.Keep(obj, false)
}

// admitChild reports whether an object can be kept whole, and counts it if it can.
func (b *Budget) admitChild(obj client.Object, size int) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	uid, o := b.ownerOf(obj)
	return o != nil && b.admitObject(obj.GetUID(), uid, o, size)
}

// Owns reports whether the controller of an object is a custom resource that the cache has.
func (b *Budget) Owns(obj client.Object) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	_, o := b.ownerOf(obj)
	return o != nil
}

// ownerOf returns the custom resource in the cache that is the controller of an object, nil if none is. b.mu is held.
func (b *Budget) ownerOf(obj client.Object) (types.UID, *owner) {
	c := metav1.GetControllerOfNoCopy(obj)
	if c == nil || !children.IsOfOurGroup(c) {
		return "", nil
	}
	o := b.owners[c.UID]
	if o == nil || !o.known || o.kind != c.Kind || o.name != c.Name || o.namespace != obj.GetNamespace() {
		return "", nil
	}
	return c.UID, o
}

// admitObject replaces the object's previous size in the count of its owner, and returns false if a limit forbids the new size. b.mu is
// held.
func (b *Budget) admitObject(uid, of types.UID, o *owner, size int) bool {
	b.sweepUnstored()
	b.uncountObject(uid)
	more := b.excessBytes(o.used+size, o.known) - b.excessBytes(o.used, o.known)
	if more > 0 && (b.namespaces[o.namespace]+more > b.limits.Namespace || b.total+more > b.limits.Total) {
		return false
	}
	b.owners[of] = o
	b.changeOwner(o, func() { o.used, o.entries = o.used+size, o.entries+1 })
	b.entries[uid] = entry{owner: o, uid: of, size: size, seen: time.Now()}
	return true
}

// uncountObject uncounts an object. b.mu is held.
func (b *Budget) uncountObject(uid types.UID) {
	e, counted := b.entries[uid]
	if !counted {
		return
	}
	delete(b.entries, uid)
	b.changeOwner(e.owner, func() { e.owner.used, e.owner.entries = e.owner.used-e.size, e.owner.entries-1 })
	b.dropGoneOwner(e.uid, e.owner)
}

// dropGoneOwner forgets an owner that is gone together with all that was kept for it. b.mu is held.
func (b *Budget) dropGoneOwner(uid types.UID, o *owner) {
	if !o.known && o.entries == 0 && b.owners[uid] == o {
		delete(b.owners, uid)
	}
}

// changeOwner changes an owner by a function, and updates the counts. b.mu is held.
func (b *Budget) changeOwner(o *owner, by func()) {
	before := b.excessBytes(o.used, o.known)
	by()
	more := b.excessBytes(o.used, o.known) - before
	b.total += more
	if b.namespaces[o.namespace] += more; b.namespaces[o.namespace] == 0 {
		delete(b.namespaces, o.namespace)
	}
}

// excessBytes returns the bytes above an owner's allowance, all bytes if the owner is gone.
func (b *Budget) excessBytes(used int, known bool) int {
	if !known {
		return used
	}
	return max(0, used-b.limits.Owner)
}

// Forget uncounts an object that the cache no longer has.
func (b *Budget) Forget(obj client.Object) {
	uid := obj.GetUID()
	b.mu.Lock()
	defer b.mu.Unlock()
	b.uncountObject(uid)
	if _, ours := obj.(Resource); ours {
		b.noteLost(uid)
	}
}

// noteLost notes that the cache no longer has a custom resource. b.mu is held.
func (b *Budget) noteLost(uid types.UID) {
	if o := b.owners[uid]; o != nil {
		b.changeOwner(o, func() { o.known = false })
		b.dropGoneOwner(uid, o)
	}
}

// Used returns how many bytes count of a namespace now.
func (b *Budget) Used(namespace string) int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.namespaces[namespace]
}
