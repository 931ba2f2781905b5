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

	"huolala.cn/app-operator/internal/reconciler"
)

// pruneObjects deletes what the owner controls and no longer wants. It never deletes a claim, nor what is retained: with it goes
// the data, or the way to it.
func (e *Engine) pruneObjects(ctx context.Context, req *Request) (ChangeSet, error) {
	var changes ChangeSet
	for _, obj := range req.Unwanted {
		if !isPrunable(req, obj) {
			continue
		}
		gvk, err := apiutil.GVKForObject(obj, e.client.Scheme())
		if err != nil {
			return changes, fmt.Errorf("unwanted object: %w", err)
		}
		if req.isStillNamed(obj) {
			continue
		}
		p := &plan{child: &Child{Desired: obj, Live: obj}, gvk: gvk, action: Deleted}
		if obj.GetDeletionTimestamp() != nil { // Its finalizers keep it.
			req.unpruned = append(req.unpruned, p.waitForDeletion(fmt.Sprintf(messageBeingRemoved, gvk.Kind, obj.GetName())))
			continue
		}
		switch err := e.removeObject(ctx, p, metav1.DeletePropagationBackground); {
		case apierrors.IsNotFound(err):
		case err != nil && TypeOf(obj).Auxiliary && !errors.Is(err, reconciler.ErrStale):
			req.unpruned = append(req.unpruned, err)
		case err != nil:
			return changes, err
		default:
			changes = append(changes, Change{Action: Deleted, Kind: gvk.Kind, Name: obj.GetName()})
		}
	}
	return changes, nil
}

// isStillNamed reports whether an object that leads to one of this type could not be brought to what is wanted: it may lead to the
// unwanted one as yet.
func (r *Request) isStillNamed(obj client.Object) bool {
	return slices.ContainsFunc(r.Children, func(c Child) bool {
		return c.LeadsTo != nil && reflect.TypeOf(c.LeadsTo) == reflect.TypeOf(obj) && c.Trouble != nil &&
			c.Live != nil && metav1.IsControlledBy(c.Live, r.Owner)
	})
}

// removeObject deletes the live object that was looked at, and no other of its name.
func (e *Engine) removeObject(ctx context.Context, p *plan, propagation metav1.DeletionPropagation) error {
	opts := []client.DeleteOption{
		client.Preconditions{UID: ptr.To(p.child.Live.GetUID())}, client.PropagationPolicy(propagation),
	}
	if p.notCached() {
		opts = append(opts, client.DisableReadYourWritesConsistency)
	}
	err := e.client.Delete(ctx, p.child.Live, opts...)
	if err != nil {
		return e.classifyError(p, err)
	}
	writes.WithLabelValues(p.gvk.Kind, string(p.action)).Inc()
	return nil
}
