package budget

import (
	"context"
	"fmt"
	"reflect"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"huolala.cn/app-operator/internal/apply"
)

// wholeReader reads objects by another reader, and those that are kept there in part from the API server.
type wholeReader struct {
	client.Reader
	live   client.Reader
	budget *Budget
}

// Reader returns a reader that gets whole objects: from cache, or from live what the cache keeps in part although it may be ours. A list has
// the objects as the cache has them.
func (b *Budget) Reader(cache, live client.Reader) client.Reader { return &wholeReader{cache, live, b} }

// Get implements client.Reader.
func (r *wholeReader) Get(ctx context.Context, key client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
	if err := r.Reader.Get(ctx, key, obj, opts...); err != nil || !r.budget.lacks(obj) {
		return err
	}
	whole := reflect.New(reflect.TypeOf(obj).Elem())
	read, ok := whole.Interface().(client.Object)
	if !ok {
		return fmt.Errorf("%T is no object", obj)
	}
	if err := r.live.Get(ctx, key, read); err != nil {
		return err
	}
	if row := apply.TypeOf(read); row.Trim != nil {
		row.Trim(read)
	}
	reflect.ValueOf(obj).Elem().Set(whole.Elem())
	return nil
}

// lacks reports whether an object is kept in part, and may be ours or is to be taken back: its controller is a resource that the cache has,
// or it has none.
func (b *Budget) lacks(obj client.Object) bool {
	if resource, ok := obj.(Resource); ok {
		return resource.Reduced()
	}
	return apply.IsPartial(obj) && (metav1.GetControllerOfNoCopy(obj) == nil || b.Owns(obj))
}

// wholeClient is a client that gets whole objects.
type wholeClient struct {
	client.Client
	reader client.Reader
}

// Client returns a client that gets whole objects, see Reader, and does all else by another client.
func (b *Budget) Client(base client.Client, live client.Reader) client.Client {
	return &wholeClient{base, b.Reader(base, live)}
}

// Get implements client.Client.
func (c *wholeClient) Get(ctx context.Context, key client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
	return c.reader.Get(ctx, key, obj, opts...)
}
