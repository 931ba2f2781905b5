// Package content watches the ConfigMaps and Secrets that the pods of resources use, and reads them after changes.
//
// The package watches metadata only, and only once a resource uses an object of the kind. An event decides nothing: it triggers a
// reconcile.
package content

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

const (
	// Quiet is how long content must stay unchanged before it counts, so that several changes in a row count once.
	Quiet = 5 * time.Second
	// Longest is how long content that keeps changing waits at most.
	Longest = time.Minute
	// syncPatience is how long a resource waits for the first list of metadata.
	syncPatience = 5 * time.Second
)

// ErrNotSynced is the error while the metadata of a kind is unknown.
var ErrNotSynced = errors.New("the first list of the metadata is not complete")

// Queue takes the requests of one kind of resources.
type Queue = workqueue.TypedRateLimitingInterface[reconcile.Request]

// Object names a ConfigMap or Secret.
type Object struct {
	Kind string
	types.NamespacedName
}

// Owner names a resource that follows content.
type Owner struct {
	Kind string
	types.NamespacedName
}

// Options configure a Watch.
type Options struct {
	// Cache has the options of the manager's cache: namespaces and the handler of watch errors.
	Cache cache.Options
	// Live reads from the API server, Writer creates the key.
	Live   client.Reader
	Writer client.Writer
	Clock  clock.PassiveClock
	// Secrets has Secrets followed. The key of their sums is in a Secret of OwnNamespace.
	Secrets      bool
	OwnNamespace string
}

// Watch watches the objects that resources follow. New makes a Watch.
type Watch struct {
	opts Options
	mgr  manager.Manager
	// running is closed once ctx is the manager's context.
	running chan struct{}
	ctx     context.Context // The caches that begin later end with the manager.
	caches  sync.WaitGroup
	key     secretKey

	// opening is held while a watch is started, which may take a request.
	opening sync.Mutex

	// foresight is set of a watch that follows nothing; see Foresee.
	foresight *foresight

	mu      sync.Mutex
	watched map[scope]*metadata
	queues  map[string]Queue
	objects map[Object]*object
	owners  map[Owner]*owner

	// contents are those of followed objects.
	contents contents
}

// owner is the state of a resource that follows content.
type owner struct {
	objects []Object
	// waiting is since when new content waits, specChanged since when the spec of a generation does.
	waiting, specChanged time.Time
	generation           int64
	// stuck is true where the pods are in trouble, so that new content is tried at once.
	stuck bool
}

// New returns a watch that runs in the manager. It sends no request before a resource follows something.
func New(mgr manager.Manager, opts Options) (*Watch, error) {
	w := &Watch{
		opts: opts, mgr: mgr, running: make(chan struct{}), watched: map[scope]*metadata{}, queues: map[string]Queue{},
		objects: map[Object]*object{}, owners: map[Owner]*owner{}, contents: newContents(),
	}
	return w, mgr.Add(w)
}

// Start implements manager.Runnable.
func (w *Watch) Start(ctx context.Context) error {
	w.ctx = ctx
	close(w.running)
	<-ctx.Done()
	w.opening.Lock() // None begins from here on.
	defer w.opening.Unlock()
	w.caches.Wait()
	return nil
}

// NeedLeaderElection implements manager.LeaderElectionRunnable: it has to run before the controllers do.
func (w *Watch) NeedLeaderElection() bool { return false }

// Secrets reports whether Secrets are followed.
func (w *Watch) Secrets() bool { return w.opts.Secrets }

// Register gives the queue to which requests for the resources of a kind go.
func (w *Watch) Register(kind string, queue Queue) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.queues[kind] = queue
}

// Follow requeues a resource when one of the objects changes; objects replaces the earlier list. It returns the errors of the kinds whose
// objects cannot be watched.
func (w *Watch) Follow(ctx context.Context, name Owner, objects []Object) map[string]error {
	if w.foresight != nil {
		return nil
	}
	w.setObjects(name, objects)
	scopes := map[string]scope{}
	for _, o := range objects {
		scopes[o.Kind] = w.scopeOf(o)
	}
	unwatched := map[string]error{}
	for _, kind := range slices.Sorted(maps.Keys(scopes)) {
		if err := w.ensureWatched(ctx, scopes[kind]); err != nil {
			unwatched[kind] = err
		}
	}
	return unwatched
}

// Forget ends the following of a resource. Nobody follows anything in a nil watch.
func (w *Watch) Forget(name Owner) {
	if w != nil && w.foresight == nil {
		w.setObjects(name, nil)
	}
}

func (w *Watch) setObjects(name Owner, objects []Object) {
	w.mu.Lock()
	defer w.mu.Unlock()
	known := w.owners[name]
	switch {
	case known == nil && len(objects) == 0:
		return
	case known == nil:
		known = &owner{}
		w.owners[name] = known
	case slices.Equal(known.objects, objects):
		return
	}
	for _, o := range known.objects {
		delete(w.objects[o].owners, name)
		if len(w.objects[o].owners) == 0 && !slices.Contains(objects, o) {
			delete(w.objects, o)
			w.contents.forgetContent(o)
		}
	}
	if known.objects = objects; len(objects) == 0 {
		delete(w.owners, name)
	}
	for _, o := range objects {
		if w.objects[o] == nil {
			w.objects[o] = &object{owners: map[Owner]bool{}}
		}
		w.objects[o].owners[name] = true
	}
}

// wakeAll has all resources in a namespace looked at that follow content; an empty namespace is all.
func (w *Watch) wakeAll(namespace string) {
	for name := range w.owners {
		if namespace == "" || namespace == name.Namespace {
			w.wakeOwner(name, 0)
		}
	}
}

// wakeOwner has a resource looked at.
func (w *Watch) wakeOwner(name Owner, after time.Duration) {
	if queue := w.queues[name.Kind]; queue != nil {
		queue.AddAfter(reconcile.Request{NamespacedName: name.NamespacedName}, after)
	}
}

// Version returns the version of a watched object, empty for a missing object. If an existing object has neither the last observed version
// nor known, the version that the pods use, Version records a change now.
func (w *Watch) Version(ctx context.Context, name Object, known string) (string, error) {
	if w.foresight != nil {
		return w.foresight.foreseenVersion(ctx, w, name)
	}
	w.mu.Lock()
	m, followed := w.watched[w.scopeOf(name)], w.objects[name]
	w.mu.Unlock()
	if m == nil || followed == nil {
		return "", ErrNotSynced
	}
	found := newMetadata(name.Kind)
	err := m.reader.Get(ctx, name.NamespacedName, found)
	if err != nil && !apierrors.IsNotFound(err) {
		return "", fmt.Errorf("read the metadata of %s %s: %w", name.Kind, name.NamespacedName, err)
	}
	version := found.ResourceVersion
	w.mu.Lock()
	defer w.mu.Unlock()
	switch version {
	case followed.version:
	case known, "":
		followed.version = version
	default:
		followed.noteVersion(version, w.opts.Clock.Now())
	}
	return version, nil
}

// Due returns how long the new content of some objects still has to wait for a resource: until it has been unchanged for Quiet, and at most
// Longest. With atOnce, for failing pods, a change after a quiet time is due now.
func (w *Watch) Due(name Owner, objects []Object, atOnce bool) time.Duration {
	if w.foresight != nil {
		return 0
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	known := w.owners[name]
	if known == nil {
		return Quiet
	}
	now := w.opts.Clock.Now()
	if known.waiting.IsZero() {
		known.waiting = now
	}
	sudden := true
	var last time.Time
	for _, o := range objects {
		if followed := w.objects[o]; followed != nil {
			sudden = sudden && followed.isSuddenChange()
			if followed.changed.After(last) {
				last = followed.changed
			}
		}
	}
	if atOnce && sudden {
		return 0
	}
	return max(0, min(last.Add(Quiet).Sub(now), known.waiting.Add(Longest).Sub(now)))
}

// Settle notes that a resource has no new content that waits, and whether its pods are in trouble.
func (w *Watch) Settle(name Owner, waits, stuck bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if known := w.owners[name]; known != nil {
		known.stuck = stuck
		if !waits {
			known.waiting = time.Time{}
		}
	}
}

// SpecPause is how long a new spec of a resource that follows content waits for ConfigMaps of the same apply.
const SpecPause = time.Second

// PauseSpec returns how long a new spec still has to wait, 0 if there is none. Each generation of a changed spec waits once.
func (w *Watch) PauseSpec(name Owner, generation int64, changed bool) time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	known := w.owners[name]
	switch now := w.opts.Clock.Now(); {
	case known == nil:
		return 0
	case !changed:
		known.specChanged = time.Time{}
		return 0
	case known.specChanged.IsZero(), known.generation != generation:
		known.specChanged, known.generation = now, generation
		return SpecPause
	default:
		return max(0, known.specChanged.Add(SpecPause).Sub(now))
	}
}

// String is the object in a message.
func (o Object) String() string { return strings.Join([]string{o.Kind, o.Name}, " ") }
