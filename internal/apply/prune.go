package apply

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"

	appv1 "huolala.cn/app-operator/api/v1"
	"huolala.cn/app-operator/internal/children"
	"huolala.cn/app-operator/internal/reconciler"
)

// pruneObjects deletes unwanted objects that the owner controls. It never deletes a PersistentVolumeClaim, nor a retained object: with it goes
// the data, or the way to it.
func (r *run) pruneObjects(ctx context.Context) error {
	for _, obj := range r.req.Prune {
		if !isPrunable(r.req, obj) {
			continue
		}
		gvk, err := apiutil.GVKForObject(obj, r.client.Scheme())
		if err != nil {
			return fmt.Errorf("unwanted object: %w", err)
		}
		if r.mode == Write && r.isStillNamed(obj) {
			continue
		}
		p := newKnownPlan(&Object{Desired: obj, Live: obj}, gvk, Deleted)
		if err := r.pruneObject(ctx, p); err != nil {
			return err
		}
	}
	return nil
}

// pruneObject deletes one object.
func (r *run) pruneObject(ctx context.Context, p *objectPlan) error {
	obj := p.object.Desired
	deleted := Outcome{Change: Change{Action: Deleted, Kind: p.gvk.Kind, Name: obj.GetName()}, Object: *p.object, Before: obj}
	switch {
	case obj.GetDeletionTimestamp() != nil && r.mode == Write: // Its finalizers keep it.
		r.out.unpruned = append(r.out.unpruned, p.waitForDeletion(fmt.Sprintf(messageBeingRemoved, p.gvk.Kind, obj.GetName())))
		return nil
	case obj.GetDeletionTimestamp() != nil:
		return nil
	case r.mode == Write:
		switch err := r.removeObject(ctx, p, metav1.DeletePropagationBackground); {
		case apierrors.IsNotFound(err):
			return nil
		case err != nil && children.TypeOf(obj).Auxiliary && !errors.Is(err, reconciler.ErrStale):
			r.out.unpruned = append(r.out.unpruned, err)
			return nil
		case err != nil:
			return err
		}
		r.conflicts.forgetObject(ownerOf(r.req), objectOf(p))
	}
	r.out.Pruned = append(r.out.Pruned, deleted)
	return nil
}

// isStillNamed reports whether an object that leads to an object of this type could not be updated: it may lead to the
// unwanted one as yet.
func (r *run) isStillNamed(obj client.Object) bool {
	return slices.ContainsFunc(r.out.Objects, func(out Outcome) bool {
		return out.Object.LeadsTo != nil && reflect.TypeOf(out.Object.LeadsTo) == reflect.TypeOf(obj) && out.Err != nil &&
			out.Live != nil && metav1.IsControlledBy(out.Live, r.req.Owner)
	})
}

// removeObject deletes the live object that was looked at, and no other of its name.
func (e *Engine) removeObject(ctx context.Context, p *objectPlan, propagation metav1.DeletionPropagation) error {
	opts := []client.DeleteOption{
		client.Preconditions{UID: ptr.To(p.live.GetUID())}, client.PropagationPolicy(propagation),
	}
	if p.notCached() {
		opts = append(opts, client.DisableReadYourWritesConsistency)
	}
	err := e.client.Delete(ctx, p.live, opts...)
	if err != nil {
		return e.classifyError(p, err)
	}
	writes.WithLabelValues(p.gvk.Kind, string(p.action)).Inc()
	return nil
}

// isPrunable reports whether an unwanted object is the owner's to delete.
func isPrunable(req *Request, obj client.Object) bool {
	_, retained := obj.GetAnnotations()[appv1.AnnotationRetainedFor]
	return !volumeClaim(obj) && !retained && metav1.IsControlledBy(obj, req.Owner)
}
