package apply

import (
	"context"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
)

// Create creates an object that is never applied, and reports whether the object is new. The error is for the status, as the error of an
// apply.
func (e *Engine) Create(ctx context.Context, manager string, obj client.Object) (created bool, err error) {
	gvk, err := apiutil.GVKForObject(obj, e.client.Scheme())
	if err != nil {
		return false, err
	}
	p := &plan{object: &Object{Desired: obj.DeepCopyObject().(client.Object)}, gvk: gvk, action: Created} //nolint:forcetypeassert // It is a copy.
	err = e.client.Create(ctx, obj, client.FieldOwner(manager))
	if apierrors.IsAlreadyExists(err) {
		return false, nil
	}
	return err == nil, e.classifyError(p, err)
}

// Discard deletes an object that Create has made, and what it controls. An object that is gone, or another one, is no error.
func (e *Engine) Discard(ctx context.Context, obj client.Object) error {
	uid := obj.GetUID()
	err := e.client.Delete(ctx, obj, client.PropagationPolicy(metav1.DeletePropagationBackground), client.Preconditions{UID: &uid})
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
		return nil
	}
	return err
}
