package reconciler

import (
	"context"
	"errors"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"
)

// catchUp is how long a read waits for the cache to show what was written before.
const catchUp = 5 * time.Second

// Get reads an object from the cache as it is after all that this process has written. Should the cache not catch up,
// for a write whose event was lost together with its object, it settles for what is there: applying is idempotent, so an
// outdated view costs a request and never a mistake.
func Get(ctx context.Context, c client.Client, key client.ObjectKey, obj client.Object) error {
	bounded, cancel := context.WithTimeout(ctx, catchUp)
	defer cancel()
	err := c.Get(bounded, key, obj)
	if errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil {
		return c.Get(ctx, key, obj, client.DisableReadYourWritesConsistency)
	}
	return err
}
