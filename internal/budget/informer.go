package budget

import (
	"context"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/apimachinery/pkg/watch"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"huolala.cn/app-operator/internal/children"
)

// gate is open once all custom resources were listed. Children that are listed before their owners would be kept in part, and then be read
// one by one.
type gate struct {
	mu     sync.Mutex
	owners []toolscache.DoneChecker
}

func (g *gate) addInformer(informer toolscache.SharedIndexInformer) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.owners = append(g.owners, informer.HasSyncedChecker())
}

// awaitOpen returns once the gate is open, or the error of the context.
func (g *gate) awaitOpen(ctx context.Context) error {
	g.mu.Lock()
	owners := g.owners
	g.mu.Unlock()
	for _, owner := range owners {
		select {
		case <-owner.Done():
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

// NewInformer is for cache.Options: it makes the informers of a cache whose objects KeepResource and KeepChild transform. The informers of
// custom resources must be made before the cache starts. The informers of children list nothing before all custom resources are listed.
func (b *Budget) NewInformer(lw toolscache.ListerWatcher, example runtime.Object, resync time.Duration, indexers toolscache.Indexers) toolscache.SharedIndexInformer {
	_, ours := example.(Resource)
	obj, known := example.(client.Object)
	child := known && children.TypeOf(obj).Role != 0
	if child {
		lw = b.started.guardLister(lw)
	}
	informer := toolscache.NewSharedIndexInformer(lw, example, resync, indexers)
	if ours {
		b.started.addInformer(informer)
	}
	if ours || child {
		utilruntime.Must(b.followDeletions(informer)) // It fails for an informer that has stopped.
	}
	return informer
}

// guardLister returns a ListerWatcher that waits until the gate is open.
func (g *gate) guardLister(lw toolscache.ListerWatcher) toolscache.ListerWatcher {
	inner := toolscache.ToListerWatcherWithContext(lw)
	return &toolscache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, opts metav1.ListOptions) (runtime.Object, error) {
			if err := g.awaitOpen(ctx); err != nil {
				return nil, err
			}
			return inner.ListWithContext(ctx, opts)
		},
		WatchFuncWithContext: func(ctx context.Context, opts metav1.ListOptions) (watch.Interface, error) {
			if err := g.awaitOpen(ctx); err != nil {
				return nil, err
			}
			return inner.WatchWithContext(ctx, opts)
		},
	}
}

// Transform returns a function that reduces the children of a type to the part that the cache keeps.
func (b *Budget) Transform(row *children.Type) toolscache.TransformFunc {
	return func(in any) (any, error) {
		if obj, ok := in.(client.Object); ok {
			b.KeepChild(row, obj)
		}
		return in, nil
	}
}
