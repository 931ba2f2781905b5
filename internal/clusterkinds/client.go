package clusterkinds

import (
	"context"
	"reflect"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// routedClient reads and writes the objects of the optional kinds by the cache that each has, and all others by another client.
type routedClient struct {
	client.Client
	kinds *Kinds
	lists map[reflect.Type]*kind
}

// Client returns a client that reads the objects of optional kinds from their own caches, and uses base for all other requests. For a kind
// that is not watched it returns no objects.
func (k *Kinds) Client(base client.Client) client.Client {
	c := &routedClient{base, k, map[reflect.Type]*kind{}}
	for _, s := range k.kinds {
		if list, err := s.newList(k.opts.Scheme); err == nil {
			c.lists[reflect.TypeOf(list)] = s
		}
	}
	return c
}

// clientOf returns the kind's client, nil if it is not watched, and whether the kind is optional at all.
func (c *routedClient) clientOf(s *kind) client.Client {
	c.kinds.mu.Lock()
	defer c.kinds.mu.Unlock()
	if s.phase != watched || s.objects == nil {
		return nil
	}
	return s.objects.client
}

// Get implements client.Client.
func (c *routedClient) Get(ctx context.Context, key client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
	s := c.kinds.byType[reflect.TypeOf(obj)]
	if s == nil {
		return c.Client.Get(ctx, key, obj, opts...)
	}
	if own := c.clientOf(s); own != nil {
		return own.Get(ctx, key, obj, opts...)
	}
	return apierrors.NewNotFound(schema.GroupResource{Group: s.gvk.Group, Resource: s.gvk.Kind}, key.Name)
}

// List implements client.Client. It lists the objects in the cache. Controller-runtime's client would wait for all writes of the type by
// this process, in every namespace: a tenant with constant writes would block every other tenant. A caller that must see its own writes
// reads the objects by name; see ADR 2.
func (c *routedClient) List(ctx context.Context, list client.ObjectList, opts ...client.ListOption) error {
	opts = append(slices.Clone(opts), client.DisableReadYourWritesConsistency)
	s := c.lists[reflect.TypeOf(list)]
	if s == nil {
		return c.Client.List(ctx, list, opts...)
	}
	if own := c.clientOf(s); own != nil {
		return own.List(ctx, list, opts...)
	}
	return nil
}

// Create implements client.Client.
func (c *routedClient) Create(ctx context.Context, obj client.Object, opts ...client.CreateOption) error {
	s := c.kinds.byType[reflect.TypeOf(obj)]
	if s == nil {
		return c.Client.Create(ctx, obj, opts...)
	}
	if own := c.clientOf(s); own != nil {
		return own.Create(ctx, obj, opts...)
	}
	// Without a watch there is nothing to wait for.
	return c.Client.Create(ctx, obj, append(opts, client.DisableReadYourWritesConsistency)...)
}

// Patch implements client.Client.
func (c *routedClient) Patch(ctx context.Context, obj client.Object, patch client.Patch, opts ...client.PatchOption) error {
	s := c.kinds.byType[reflect.TypeOf(obj)]
	if s == nil {
		return c.Client.Patch(ctx, obj, patch, opts...)
	}
	if own := c.clientOf(s); own != nil {
		return own.Patch(ctx, obj, patch, opts...)
	}
	return c.Client.Patch(ctx, obj, patch, append(opts, client.DisableReadYourWritesConsistency)...)
}

// Delete implements client.Client.
func (c *routedClient) Delete(ctx context.Context, obj client.Object, opts ...client.DeleteOption) error {
	s := c.kinds.byType[reflect.TypeOf(obj)]
	if s == nil {
		return c.Client.Delete(ctx, obj, opts...)
	}
	if own := c.clientOf(s); own != nil {
		return own.Delete(ctx, obj, opts...)
	}
	return c.Client.Delete(ctx, obj, append(opts, client.DisableReadYourWritesConsistency)...)
}
