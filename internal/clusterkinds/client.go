package clusterkinds

import (
	"context"
	"fmt"
	"reflect"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"huolala.cn/app-operator/internal/children"
)

// routedClient reads and writes the objects of the optional kinds by the cache that each has in a namespace, and all others by another client.
type routedClient struct {
	client.Client
	kinds *Kinds
	// optional and lists have the optional kinds by the Go types of their objects, and of lists of these.
	optional map[reflect.Type]schema.GroupVersionKind
	lists    map[reflect.Type]*children.Type
}

// Client returns a client that reads the objects of optional kinds from their own caches, and uses base for all other requests. For a kind
// that is not watched in a namespace it returns no objects. A list of an optional kind needs a namespace, unless the manager watches all.
func (k *Kinds) Client(base client.Client) client.Client {
	c := &routedClient{base, k, map[reflect.Type]schema.GroupVersionKind{}, map[reflect.Type]*children.Type{}}
	for _, s := range k.kinds {
		c.optional[reflect.TypeOf(s.row.Object)] = s.gvk
		if list, err := s.newList(k.opts.Scheme); err == nil {
			c.lists[reflect.TypeOf(list)] = s.row
		}
	}
	return c
}

// isOptional reports whether the kind of an object is optional.
func (c *routedClient) isOptional(obj client.Object) bool {
	_, ok := c.optional[reflect.TypeOf(obj)]
	return ok
}

// clientOf returns the client of an optional kind in a namespace, nil if the kind is not watched there.
func (c *routedClient) clientOf(obj client.Object, namespace string) client.Client {
	c.kinds.mu.Lock()
	defer c.kinds.mu.Unlock()
	s := c.kinds.kindOf(obj, namespace)
	if s == nil || s.phase != watched || s.objects == nil {
		return nil
	}
	return s.objects.client
}

// Get implements client.Client.
func (c *routedClient) Get(ctx context.Context, key client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
	if !c.isOptional(obj) {
		return c.Client.Get(ctx, key, obj, opts...)
	}
	if own := c.clientOf(obj, key.Namespace); own != nil {
		return own.Get(ctx, key, obj, opts...)
	}
	gvk := c.optional[reflect.TypeOf(obj)]
	return apierrors.NewNotFound(schema.GroupResource{Group: gvk.Group, Resource: gvk.Kind}, key.Name)
}

// List implements client.Client. It lists the objects in the cache. Controller-runtime's client would wait for all writes of the type by
// this process, in every namespace: a tenant with constant writes would block every other tenant. A caller that must see its own writes
// reads the objects by name; see ADR 2.
func (c *routedClient) List(ctx context.Context, list client.ObjectList, opts ...client.ListOption) error {
	opts = append(slices.Clone(opts), client.DisableReadYourWritesConsistency)
	row := c.lists[reflect.TypeOf(list)]
	if row == nil {
		return c.Client.List(ctx, list, opts...)
	}
	namespace := metav1.NamespaceAll
	if len(c.kinds.opts.Namespaces) > 0 {
		if namespace = (&client.ListOptions{}).ApplyOptions(opts).Namespace; namespace == "" {
			return fmt.Errorf("list %T: no namespace", list)
		}
	}
	if own := c.clientOf(row.Object, namespace); own != nil {
		return own.List(ctx, list, opts...)
	}
	return nil
}

// Create implements client.Client.
func (c *routedClient) Create(ctx context.Context, obj client.Object, opts ...client.CreateOption) error {
	if !c.isOptional(obj) {
		return c.Client.Create(ctx, obj, opts...)
	}
	if own := c.clientOf(obj, obj.GetNamespace()); own != nil {
		return own.Create(ctx, obj, opts...)
	}
	// Without a watch there is nothing to wait for.
	return c.Client.Create(ctx, obj, append(opts, client.DisableReadYourWritesConsistency)...)
}

// Patch implements client.Client.
func (c *routedClient) Patch(ctx context.Context, obj client.Object, patch client.Patch, opts ...client.PatchOption) error {
	if !c.isOptional(obj) {
		return c.Client.Patch(ctx, obj, patch, opts...)
	}
	if own := c.clientOf(obj, obj.GetNamespace()); own != nil {
		return own.Patch(ctx, obj, patch, opts...)
	}
	return c.Client.Patch(ctx, obj, patch, append(opts, client.DisableReadYourWritesConsistency)...)
}

// Delete implements client.Client.
func (c *routedClient) Delete(ctx context.Context, obj client.Object, opts ...client.DeleteOption) error {
	if !c.isOptional(obj) {
		return c.Client.Delete(ctx, obj, opts...)
	}
	if own := c.clientOf(obj, obj.GetNamespace()); own != nil {
		return own.Delete(ctx, obj, opts...)
	}
	return c.Client.Delete(ctx, obj, append(opts, client.DisableReadYourWritesConsistency)...)
}
