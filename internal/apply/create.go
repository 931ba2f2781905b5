package apply

import (
	"context"
	"errors"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"

	"huolala.cn/app-operator/internal/reconciler"
)

// Create creates an object that is never applied, and reports whether the object is new. The error is for the status, as the error of an
// apply.
func (e *Engine) Create(ctx context.Context, manager string, obj client.Object) (created bool, err error) {
	gvk, err := apiutil.GVKForObject(obj, e.client.Scheme())
	if err != nil {
		return false, err
	}
	p := newKnownPlan(&Object{Desired: obj.DeepCopyObject().(client.Object)}, gvk, Created) //nolint:forcetypeassert // It is a copy.
	err = e.client.Create(ctx, obj, client.FieldOwner(manager))
	switch {
	case apierrors.IsAlreadyExists(err):
		return false, nil
	case err != nil:
		return false, e.classifyError(p, err)
	}
	writes.WithLabelValues(gvk.Kind, string(p.action)).Inc()
	return true, nil
}

// Discard deletes a live object that Create has created, and the objects that it controls. It is no error if the object no longer exists, or
// if its name belongs to another object.
func (e *Engine) Discard(ctx context.Context, live client.Object) error {
	gvk, err := apiutil.GVKForObject(live, e.client.Scheme())
	if err != nil {
		return err
	}
	p := newKnownPlan(&Object{Desired: live, Live: live}, gvk, Deleted)
	if err = e.removeObject(ctx, p, metav1.DeletePropagationBackground); errors.Is(err, reconciler.ErrStale) {
		return nil
	}
	return err
}
