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

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	toolscache "k8s.io/client-go/tools/cache"
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
	kinds   map[string]*metadata
	queues  map[string]Queue
	objects map[Object]*object
	owners  map[Owner]*owner

	// contents are those of followed objects.
	contents contents
}

// metadata is the watch of one kind of objects.
type metadata struct {
	reader cache.Cache
	synced func() bool
	// trouble is why the last list or watch failed, nil once anything was heard since.
	trouble error
	// waited is set where a resource went on without the first list.
	waited bool
}

// object is the state of a followed object.
type object struct {
	owners map[Owner]bool
	// version is the last observed version, empty for a missing object; changed is the time of its observation, before the time of the
	// previous version's observation.
	version         string
	changed, before time.Time
	// reading is held while the content is read.
	reading sync.Mutex
}

// owner is the state of a resource that follows content.
type owner struct {
	objects []Object
	// waiting is since when new content waits, specChanged since when a new spec does.
	waiting, specChanged time.Time
	// stuck is true where the pods are in trouble, so that new content is tried at once.
	stuck bool
}

// New returns a watch that runs in the manager. It sends no request before a resource follows something.
func New(mgr manager.Manager, opts Options) (*Watch, error) {
	w := &Watch{
		opts: opts, mgr: mgr, running: make(chan struct{}), kinds: map[string]*metadata{}, queues: map[string]Queue{},
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

// Follow requeues a resource when one of the objects changes; objects replaces the earlier list. The error is why an object cannot be
// watched.
func (w *Watch) Follow(ctx context.Context, name Owner, objects []Object) error {
	if w.foresight != nil {
		return nil
	}
	w.setObjects(name, objects)
	kinds := map[string]bool{}
	for _, o := range objects {
		kinds[o.Kind] = true
	}
	for _, kind := range slices.Sorted(maps.Keys(kinds)) {
		if err := w.ensureWatched(ctx, kind); err != nil {
			return err
		}
	}
	return nil
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
			w.contents.forget(o)
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

// ensureWatched begins the watch of a kind's metadata, and waits a moment for it.
func (w *Watch) ensureWatched(ctx context.Context, kind string) error {
	m, err := w.metadataOf(ctx, kind)
	if err != nil {
		return err
	}
	state := func() (synced bool, trouble error) {
		w.mu.Lock()
		defer w.mu.Unlock()
		return m.synced(), m.trouble
	}
	done := func(context.Context) (bool, error) {
		synced, trouble := state()
		return synced || trouble != nil, nil
	}
	if err := wait.PollUntilContextTimeout(ctx, 10*time.Millisecond, syncPatience, true, done); err != nil && ctx.Err() != nil {
		return err
	}
	synced, trouble := state()
	switch {
	case trouble != nil:
		return trouble
	case !synced:
		w.mu.Lock()
		defer w.mu.Unlock()
		m.waited = true
		return ErrNotSynced
	}
	return nil
}

// metadataOf returns the watch of a kind, which it starts if it is the first to ask for it.
func (w *Watch) metadataOf(ctx context.Context, kind string) (*metadata, error) {
	select {
	case <-w.running:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	w.opening.Lock()
	defer w.opening.Unlock()
	w.mu.Lock()
	known := w.kinds[kind]
	w.mu.Unlock()
	if known != nil || w.ctx.Err() != nil {
		return known, w.ctx.Err()
	}
	m := &metadata{}
	own, err := cache.New(w.mgr.GetConfig(), cache.Options{
		HTTPClient: w.mgr.GetHTTPClient(), Scheme: w.mgr.GetScheme(), Mapper: w.mgr.GetRESTMapper(),
		DefaultNamespaces: w.opts.Cache.DefaultNamespaces,
		DefaultTransform:  trimMetadata,
		DefaultWatchErrorHandler: func(ctx context.Context, r *toolscache.Reflector, err error) {
			w.noteTrouble(m, err)
			if w.opts.Cache.DefaultWatchErrorHandler != nil {
				w.opts.Cache.DefaultWatchErrorHandler(ctx, r, err)
			}
		},
	})
	if err != nil {
		return nil, fmt.Errorf("watch the metadata of %ss: %w", kind, err)
	}
	informer, err := own.GetInformer(w.ctx, newMetadata(kind), cache.BlockUntilSynced(false)) //nolint:contextcheck // It outlives the reconcile that is the first to ask.
	if err != nil {
		return nil, fmt.Errorf("watch the metadata of %ss: %w", kind, err)
	}
	registered, err := informer.AddEventHandler(toolscache.ResourceEventHandlerDetailedFuncs{
		AddFunc:    func(obj any, _ bool) { w.noteEvent(m, kind, obj, true) },
		UpdateFunc: func(_, obj any) { w.noteEvent(m, kind, obj, false) },
		DeleteFunc: func(obj any) { w.noteDeletion(m, kind, obj) },
	})
	if err != nil {
		return nil, fmt.Errorf("watch the metadata of %ss: %w", kind, err)
	}
	m.reader, m.synced = own, registered.HasSynced
	w.mu.Lock()
	w.kinds[kind] = m
	w.mu.Unlock()
	w.caches.Go(func() { _ = own.Start(w.ctx) }) // It ends without an error, with the manager.
	return m, nil
}

// newMetadata returns an empty object of a kind.
func newMetadata(kind string) *metav1.PartialObjectMetadata {
	obj := &metav1.PartialObjectMetadata{}
	obj.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind(kind))
	return obj
}

// trimMetadata reduces an object to the metadata that identifies a version of it.
func trimMetadata(in any) (any, error) {
	obj, ok := in.(*metav1.PartialObjectMetadata)
	if !ok {
		return in, nil
	}
	return &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{
		Namespace: obj.Namespace, Name: obj.Name, UID: obj.UID, ResourceVersion: obj.ResourceVersion,
	}}, nil
}

// noteTrouble records why a list or watch failed if a user must act; the resources that follow content then report it.
func (w *Watch) noteTrouble(m *metadata, err error) {
	if !apierrors.IsForbidden(err) && !meta.IsNoMatchError(err) {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if m.trouble == nil {
		m.trouble = err
		w.wakeAll()
	}
}

// heard notes that a watch works.
func (w *Watch) heard(m *metadata) {
	if m.trouble != nil || m.waited {
		m.trouble, m.waited = nil, false
		w.wakeAll()
	}
}

// wakeAll has all resources that follow content looked at.
func (w *Watch) wakeAll() {
	for name := range w.owners {
		w.wake(name, 0)
	}
}

// wake has a resource looked at.
func (w *Watch) wake(name Owner, after time.Duration) {
	if queue := w.queues[name.Kind]; queue != nil {
		queue.AddAfter(reconcile.Request{NamespacedName: name.NamespacedName}, after)
	}
}

// noteEvent records a version of an object. Pods may wait for an object that is new.
func (w *Watch) noteEvent(m *metadata, kind string, obj any, appeared bool) {
	o, ok := obj.(client.Object)
	if !ok {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.heard(m)
	followed := w.objects[Object{kind, client.ObjectKeyFromObject(o)}]
	if followed == nil || followed.version == o.GetResourceVersion() {
		return
	}
	followed.note(o.GetResourceVersion(), w.opts.Clock.Now())
	for name := range followed.owners {
		after := Quiet
		if appeared || w.owners[name].stuck && followed.sudden() {
			after = 0
		}
		w.wake(name, after)
	}
}

// noteDeletion notes that an object is gone, which is no reason to look at anything.
func (w *Watch) noteDeletion(m *metadata, kind string, obj any) {
	if unknown, ok := obj.(toolscache.DeletedFinalStateUnknown); ok {
		obj = unknown.Obj
	}
	o, ok := obj.(runtime.Object)
	if !ok {
		return
	}
	accessor, err := meta.Accessor(o)
	if err != nil {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.heard(m)
	key := types.NamespacedName{Namespace: accessor.GetNamespace(), Name: accessor.GetName()}
	if followed := w.objects[Object{kind, key}]; followed != nil {
		followed.version = ""
	}
}

// note notes a new version.
func (o *object) note(version string, now time.Time) {
	o.before, o.changed, o.version = o.changed, now, version
}

// sudden reports whether the last change came after a quiet time.
func (o *object) sudden() bool { return o.changed.Sub(o.before) >= Quiet }

// Version returns the version of a watched object, empty for a missing object. If an existing object has neither the last observed version
// nor known, the version that the pods use, Version records a change now.
func (w *Watch) Version(ctx context.Context, name Object, known string) (string, error) {
	if w.foresight != nil {
		return w.foresight.version(ctx, w, name)
	}
	w.mu.Lock()
	m, followed := w.kinds[name.Kind], w.objects[name]
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
		followed.note(version, w.opts.Clock.Now())
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
			sudden = sudden && followed.sudden()
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

// PauseSpec returns how long a new spec still has to wait, 0 if there is none.
func (w *Watch) PauseSpec(name Owner, changed bool) time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	known := w.owners[name]
	switch now := w.opts.Clock.Now(); {
	case known == nil:
		return 0
	case !changed:
		known.specChanged = time.Time{}
		return 0
	case known.specChanged.IsZero():
		known.specChanged = now
		return SpecPause
	default:
		return max(0, known.specChanged.Add(SpecPause).Sub(now))
	}
}

// String is the object in a message.
func (o Object) String() string { return strings.Join([]string{o.Kind, o.Name}, " ") }
