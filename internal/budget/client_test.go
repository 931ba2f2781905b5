package budget

import (
	"context"
	"testing"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"huolala.cn/app-operator/internal/stored"
)

// oneApp is a reader that has one App.
type oneApp struct {
	client.Reader
	app  *stored.App
	gets int
}

// Get implements client.Reader.
func (r *oneApp) Get(_ context.Context, _ client.ObjectKey, into client.Object, _ ...client.GetOption) error {
	r.gets++
	if app, ok := into.(*stored.App); ok {
		*app = *r.app
	}
	return nil
}

// TestReadsOfPartialObjects reads a resource that the cache has in part: whole, and, for a caller that accepts a part, without a request.
func TestReadsOfPartialObjects(t *testing.T) {
	reduced := newApp(t, "shop", "web", 100)
	reduced.Reduce(nil)
	cache, live := &oneApp{app: reduced}, &oneApp{app: newApp(t, "shop", "web", 100)}
	for _, c := range []struct {
		opts  []client.GetOption
		reads int
	}{
		{nil, 1},
		{[]client.GetOption{client.DisableReadYourWritesConsistency}, 1},
		{[]client.GetOption{client.DisableReadYourWritesConsistency, AcceptPartial}, 0},
	} {
		live.gets = 0
		found := &stored.App{}
		if err := NewReader(cache, live).Get(t.Context(), client.ObjectKeyFromObject(reduced), found, c.opts...); err != nil {
			t.Fatal(err)
		}
		if live.gets != c.reads || found.Reduced() != (c.reads == 0) {
			t.Errorf("with %v: %d reads, reduced %t", c.opts, live.gets, found.Reduced())
		}
	}
}
