package clusterkinds

import (
	"context"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime/schema"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
)

// definitionKind is the kind of definitions.
var definitionKind = schema.GroupVersionKind{Group: "apiextensions.k8s.io", Version: "v1", Kind: "CustomResourceDefinition"}

// definition is the CustomResourceDefinition of a kind. The state and the fields after it are guarded by Kinds.mu.
type definition struct {
	name string
	// custom is false for a kind of Kubernetes' own, which has no definition.
	custom bool

	state definitionState
	// refused is when the watch of the definition was last refused.
	refused time.Time
}

// definitionState is what the watch of a definition has shown.
type definitionState int

const (
	// undecided: the definition was not listed yet.
	undecided definitionState = iota
	// hidden: the manager may not list the definition.
	hidden
	// absent: there is no definition, or it is on its way out.
	absent
	// present: there is a definition.
	present
)

// hiddenLooks is after how many times Options.LookAgain since its refusal the watch of a hidden definition is tried again, with the next look for
// a kind. The looks find the kind anyway.
const hiddenLooks = 10

// followDefinition watches the metadata of a definition. Without the right to do so it stops at once: the kind is then looked for while a
// resource waits for it, and followHidden tries again. Kinds of Kubernetes' own have no definition.
func (k *Kinds) followDefinition(ctx context.Context, d *definition) error {
	if !d.custom {
		k.noteDefinition(d, hidden)
		return nil
	}
	ctx, stop := context.WithCancel(ctx)
	note := func(state definitionState) {
		k.mu.Lock()
		defer k.mu.Unlock()
		if ctx.Err() != nil { // An event from before the refusal.
			return
		}
		if state == hidden {
			stop()
		}
		k.setDefinition(d, state)
	}
	c, err := cache.New(k.opts.Config, cache.Options{
		HTTPClient: k.opts.HTTPClient, Scheme: k.opts.Scheme, Mapper: k.mapper,
		DefaultFieldSelector: fields.OneTermEqualSelector("metadata.name", d.name),
		DefaultTransform:     trimDefinition,
		DefaultWatchErrorHandler: func(ctx context.Context, r *toolscache.Reflector, err error) {
			if apierrors.IsForbidden(err) || apierrors.IsUnauthorized(err) {
				note(hidden)
				return
			}
			k.opts.WatchFailed(ctx, r, err)
		},
	})
	if err != nil {
		stop()
		return err
	}
	metadata := &metav1.PartialObjectMetadata{}
	metadata.SetGroupVersionKind(definitionKind)
	informer, err := c.GetInformer(ctx, metadata, cache.BlockUntilSynced(false))
	if err != nil {
		stop()
		return err
	}
	handled, err := informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
		AddFunc: func(obj any) { note(stateOf(obj)) }, UpdateFunc: func(_, obj any) { note(stateOf(obj)) }, DeleteFunc: func(any) { note(absent) },
	})
	if err != nil {
		stop()
		return err
	}
	go func() {
		if err := c.Start(ctx); err != nil {
			k.opts.Log.Error(err, "Cannot watch a definition", "name", d.name)
		}
	}()
	go func() {
		// The cache has synced before the handler has had the events of the list.
		if toolscache.WaitForCacheSync(ctx.Done(), handled.HasSynced) {
			k.noteListed(d)
		}
	}()
	return nil
}

// stateOf returns the state of a definition that was found.
func stateOf(obj any) definitionState {
	if found, ok := obj.(*metav1.PartialObjectMetadata); ok && found.DeletionTimestamp == nil {
		return present
	}
	return absent
}

// followHidden tries again to watch the hidden definitions of kinds that are looked for.
func (k *Kinds) followHidden(ctx context.Context, looked []*kind) {
	for _, d := range k.takeHidden(looked) {
		if err := k.follow(ctx, d); err != nil {
			k.opts.Log.Error(err, "Cannot watch a definition", "name", d.name)
			k.noteDefinition(d, hidden)
		}
	}
}

// takeHidden returns the hidden definitions whose watch is to be tried again. They are undecided then.
func (k *Kinds) takeHidden(looked []*kind) []*definition {
	k.mu.Lock()
	defer k.mu.Unlock()
	var taken []*definition
	for _, s := range looked {
		d := s.definition
		if d.custom && d.state == hidden && k.now().Sub(d.refused) >= hiddenLooks*k.opts.LookAgain {
			d.state = undecided
			taken = append(taken, d)
		}
	}
	return taken
}

// noteDefinition records the new state of a definition.
func (k *Kinds) noteDefinition(d *definition, state definitionState) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.setDefinition(d, state)
}

// noteListed records that a definition was listed; without an event it is absent.
func (k *Kinds) noteListed(d *definition) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if d.state == undecided {
		k.setDefinition(d, absent)
	}
}

// setDefinition sets the state of a definition. k.mu is held.
func (k *Kinds) setDefinition(d *definition, state definitionState) {
	d.state = state
	if state == hidden {
		d.refused = k.now()
	}
	for _, s := range k.kinds {
		switch {
		case s.definition != d:
		case state == absent:
			s.due = time.Time{}
			k.endWatch(s, missing)
		case state == hidden && s.phase != unknown: // This is no news of the kind.
		default:
			// Both definitions are listed at about the same time.
			s.due, s.pause = k.now().Add(gather), firstPause
		}
	}
	k.wakeLoop()
}

// trimDefinition reduces a definition to the metadata that identifies it, and its deletion time.
func trimDefinition(in any) (any, error) {
	if found, ok := in.(*metav1.PartialObjectMetadata); ok {
		found.ObjectMeta = metav1.ObjectMeta{
			Name: found.Name, UID: found.UID, ResourceVersion: found.ResourceVersion, DeletionTimestamp: found.DeletionTimestamp,
		}
	}
	return in, nil
}
