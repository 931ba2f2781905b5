package content

import (
	"context"
	"errors"
	"sync"

	"sigs.k8s.io/controller-runtime/pkg/client"
)

// errNoKey is the error for digests of a Secret before the key exists.
var errNoKey = errors.New("there is no key of the sums of Secrets yet")

// foresight has the objects that the watch of a plan has read.
type foresight struct {
	// parent is the watch of the manager.
	parent *Watch
	mu     sync.Mutex
	read   contents
}

// Foresee returns a watch for a plan: it changes nothing in w, reads objects that w has not read, and creates nothing. New content does not
// wait to be quiet, because the plan includes the rollout that follows later. A nil watch returns nil.
func (w *Watch) Foresee() *Watch {
	if w == nil {
		return nil
	}
	opts := w.opts
	opts.Writer = nil
	return &Watch{opts: opts, foresight: &foresight{parent: w, read: newContents()}}
}

// foreseenVersion is Version of a watch that follows nothing.
func (f *foresight) foreseenVersion(ctx context.Context, w *Watch, name Object) (string, error) {
	f.parent.mu.Lock()
	m := f.parent.watched[f.parent.scopeOf(name)]
	synced := m != nil && m.synced() && m.trouble == nil
	f.parent.mu.Unlock()
	if synced {
		found := newMetadata(name.Kind)
		err := m.reader.Get(ctx, name.NamespacedName, found)
		return found.ResourceVersion, client.IgnoreNotFound(err)
	}
	content, err := f.contentOf(ctx, w, name)
	return content.Version, err
}

// contentOf is Read of a watch that follows nothing.
func (f *foresight) contentOf(ctx context.Context, w *Watch, name Object) (Content, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if known, ok := f.read.findContent(name, anyVersion); ok {
		return known, nil
	}
	content, err := w.readLive(ctx, name)
	if err == nil {
		f.read.keepContent(name, anyVersion, content)
	}
	return content, err
}

// knownContent returns the content of a version that the manager has read, and reports whether it has.
func (f *foresight) knownContent(name Object, version string) (Content, bool) {
	content, ok := f.parent.contents.findContent(name, version)
	return content, ok && version != "" && version == content.Version
}

// secretKey is SecretKey of a watch that follows nothing.
func (f *foresight) secretKey(ctx context.Context) (Key, error) {
	f.parent.key.mu.Lock()
	defer f.parent.key.mu.Unlock()
	if f.parent.key.key.bytes != nil {
		return f.parent.key.key, nil
	}
	raw, err := f.parent.readKey(ctx)
	if client.IgnoreNotFound(err) != nil {
		return Key{}, err
	}
	if err != nil {
		return Key{}, errNoKey
	}
	return newKey(raw), nil
}
