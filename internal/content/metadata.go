package content

import (
	"context"
	"fmt"
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
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// scope has the kind and the namespace of the objects of one watch. An empty namespace has the objects of all namespaces. Where the manager watches some
// namespaces, each has watches of its own: a namespace without the right to watch the kind is no trouble for another one.
type scope struct{ kind, namespace string }

// scopeOf returns the scope of the watch that has an object.
func (w *Watch) scopeOf(o Object) scope {
	if len(w.opts.Cache.DefaultNamespaces) == 0 {
		return scope{kind: o.Kind}
	}
	return scope{kind: o.Kind, namespace: o.Namespace}
}

// metadata is one watch.
type metadata struct {
	// namespace is the namespace of the scope.
	namespace string
	reader    cache.Cache
	synced    func() bool
	// trouble is why a list or watch failed at the time failed, nil once the watch works again.
	trouble error
	failed  time.Time
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

// ensureWatched begins the watch of the metadata in a scope, and waits a moment for it.
func (w *Watch) ensureWatched(ctx context.Context, of scope) error {
	m, err := w.metadataOf(ctx, of)
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

// metadataOf returns the watch of a scope. The first call for a scope starts the watch.
func (w *Watch) metadataOf(ctx context.Context, of scope) (*metadata, error) {
	select {
	case <-w.running:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	w.opening.Lock()
	defer w.opening.Unlock()
	w.mu.Lock()
	known := w.watched[of]
	w.mu.Unlock()
	if known != nil || w.ctx.Err() != nil {
		return known, w.ctx.Err()
	}
	m, kind := &metadata{namespace: of.namespace}, of.kind
	namespaces := w.opts.Cache.DefaultNamespaces
	if of.namespace != "" {
		namespaces = map[string]cache.Config{of.namespace: namespaces[of.namespace]}
	}
	own, err := cache.New(w.mgr.GetConfig(), cache.Options{
		HTTPClient: w.mgr.GetHTTPClient(), Scheme: w.mgr.GetScheme(), Mapper: w.mgr.GetRESTMapper(),
		DefaultNamespaces: namespaces,
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
	w.watched[of] = m
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
	m.failed = w.opts.Clock.Now()
	if m.trouble == nil {
		m.trouble = err
		w.wakeAll(m.namespace)
		if w.ctx != nil {
			w.caches.Go(func() { w.awaitRecovery(m) })
		}
	}
}

// recovery is the time without a failure after which a watch in trouble works again: client-go tries a list again after a minute at most.
const recovery = 2 * time.Minute

// awaitRecovery waits until a watch is in trouble no longer, or the manager ends.
func (w *Watch) awaitRecovery(m *metadata) {
	_ = wait.PollUntilContextCancel(w.ctx, recovery/12, false, func(context.Context) (bool, error) { return w.endTrouble(m), nil })
}

// endTrouble ends the trouble of a watch that has not failed for a time, and reports whether the watch is in no trouble. An event ends the trouble
// at once; a namespace without objects of the kind has none.
func (w *Watch) endTrouble(m *metadata) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if m.trouble != nil && w.opts.Clock.Since(m.failed) >= recovery {
		w.noteWorking(m)
	}
	return m.trouble == nil
}

// noteWorking notes that a watch works.
func (w *Watch) noteWorking(m *metadata) {
	if m.trouble != nil || m.waited {
		m.trouble, m.waited = nil, false
		w.wakeAll(m.namespace)
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
	w.noteWorking(m)
	followed := w.objects[Object{kind, client.ObjectKeyFromObject(o)}]
	if followed == nil || followed.version == o.GetResourceVersion() {
		return
	}
	followed.noteVersion(o.GetResourceVersion(), w.opts.Clock.Now())
	for name := range followed.owners {
		after := Quiet
		if appeared || w.owners[name].stuck && followed.isSuddenChange() {
			after = 0
		}
		w.wakeOwner(name, after)
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
	w.noteWorking(m)
	key := types.NamespacedName{Namespace: accessor.GetNamespace(), Name: accessor.GetName()}
	if followed := w.objects[Object{kind, key}]; followed != nil {
		followed.version = ""
	}
}

// noteVersion notes a new version.
func (o *object) noteVersion(version string, now time.Time) {
	o.before, o.changed, o.version = o.changed, now, version
}

// isSuddenChange reports whether the last change came after a quiet time.
func (o *object) isSuddenChange() bool { return o.changed.Sub(o.before) >= Quiet }
