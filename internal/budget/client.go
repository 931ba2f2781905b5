package budget

import (
	"context"
	"fmt"
	"reflect"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"huolala.cn/app-operator/internal/children"
)

// wholeReader reads objects from another reader, and partial objects again from the API server.
type wholeReader struct {
	client.Reader
	live client.Reader
}

// NewReader returns a reader that gets whole objects: from cache, or from live if the cache has only a part of an object that may be ours.
// A list returns the objects of the cache.
func NewReader(cache, live client.Reader) client.Reader { return &wholeReader{cache, live} }

// AcceptPartial is an option of Get for a caller that only asks whether an object exists, or reads the parts alone that the cache keeps: the API
// server gets no request.
const AcceptPartial acceptPartial = true

type acceptPartial bool

// ApplyToGet implements client.GetOption.
func (acceptPartial) ApplyToGet(*client.GetOptions) {}

// acceptsPartial reports whether options have AcceptPartial.
func acceptsPartial(opts []client.GetOption) bool {
	return slices.ContainsFunc(opts, func(opt client.GetOption) bool {
		_, accepts := opt.(acceptPartial)
		return accepts
	})
}

// Get implements client.Reader.
func (r *wholeReader) Get(ctx context.Context, key client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
	if err := r.Reader.Get(ctx, key, obj, opts...); err != nil || acceptsPartial(opts) || !needsLiveRead(obj) {
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
	if row := children.TypeOf(read); row.Trim != nil {
		row.Trim(read)
	}
	reflect.ValueOf(obj).Elem().Set(whole.Elem())
	return nil
}

// needsLiveRead reports whether a partial object may be ours: its controller is a resource of ours, also a resource missing from the cache,
// as after a restore from a backup, or the object has no controller. A Deployment whose selector was cut is read with any controller: a UnitedDeployment
// that scales it reports the selector.
func needsLiveRead(obj client.Object) bool {
	if resource, ok := obj.(Resource); ok {
		return resource.Reduced()
	}
	if d, ok := obj.(*appsv1.Deployment); ok && children.IsPartial(d) && d.Spec.Selector == nil {
		return true
	}
	controller := metav1.GetControllerOfNoCopy(obj)
	return children.IsPartial(obj) && (controller == nil || children.IsOfOurGroup(controller))
}

// wholeClient is a client that gets whole objects.
type wholeClient struct {
	client.Client
	reader client.Reader
}

// NewClient returns a client that gets whole objects, see NewReader, and does all else by another client.
func NewClient(base client.Client, live client.Reader) client.Client {
	return &wholeClient{base, NewReader(base, live)}
}

// Get implements client.Client.
func (c *wholeClient) Get(ctx context.Context, key client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
	return c.reader.Get(ctx, key, obj, opts...)
}
