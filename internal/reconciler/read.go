package reconciler

import (
	"context"
	"errors"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"
)

// catchUp is the maximum time for the cache to have this process's earlier writes.
const catchUp = 5 * time.Second

// Get reads an object from the cache after all writes of this process. If the cache does not catch up, because the event of a
// write was lost with its object, Get returns the cached state: as an apply is idempotent, an outdated state costs a request and
// causes no error.
func Get(ctx context.Context, c client.Client, key client.ObjectKey, obj client.Object) error {
	bounded, cancel := context.WithTimeout(ctx, catchUp)
	defer cancel()
	err := c.Get(bounded, key, obj)
	if errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil {
		return c.Get(ctx, key, obj, client.DisableReadYourWritesConsistency)
	}
	return err
}
