package apply

import (
	"context"
	"fmt"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"

	appv1 "huolala.cn/app-operator/api/v1"
)

// KeepVolumes changes a StatefulSet that is no longer wanted, and so is not applied: its deletion then leaves its claims. The StatefulSet
// controller has to observe the change before the deletion.
func (e *Engine) KeepVolumes(ctx context.Context, req Request, set *appsv1.StatefulSet, mode Mode) (Outcome, error) {
	return e.patchParts(ctx, &req, set, mode, operation{
		Op: "replace", Path: "/spec/persistentVolumeClaimRetentionPolicy/whenDeleted",
		Value: appsv1.RetainPersistentVolumeClaimRetentionPolicyType,
	})
}

// Retain lets an object that is not wanted any more, and so is not applied, outlive the owner, and marks it as kept for it.
func (e *Engine) Retain(ctx context.Context, req Request, obj client.Object, mode Mode) (Outcome, error) {
	gvk, err := ownerKind(req.Owner, e.client.Scheme())
	if err != nil {
		return Outcome{}, fmt.Errorf("owner: %w", err)
	}
	annotations := obj.GetAnnotations()
	if annotations == nil {
		annotations = map[string]string{}
	}
	annotations[appv1.AnnotationRetainedFor] = gvk.Kind + "." + req.Owner.GetName()
	kept := slices.DeleteFunc(slices.Clone(obj.GetOwnerReferences()), func(ref metav1.OwnerReference) bool { return ref.UID == req.Owner.GetUID() })
	return e.patchParts(ctx, &req, obj, mode,
		operation{Op: "add", Path: "/metadata/annotations", Value: annotations},
		operation{Op: "replace", Path: "/metadata/ownerReferences", Value: kept})
}

// patchParts changes parts of an object as it was last seen.
func (e *Engine) patchParts(ctx context.Context, req *Request, obj client.Object, mode Mode, parts ...operation) (Outcome, error) {
	gvk, err := apiutil.GVKForObject(obj, e.client.Scheme())
	if err != nil {
		return Outcome{}, fmt.Errorf("object to change: %w", err)
	}
	object := Object{Desired: obj, Live: obj}
	// The object stays, and only its deletion with the owner is prevented.
	out := Outcome{
		Change: Change{Action: Configured, Kind: gvk.Kind, Name: obj.GetName()}, Object: object, Live: obj, Before: obj, TakenOver: true,
	}
	if mode != Write {
		return out, nil
	}
	p := newKnownPlan(&object, gvk, Configured)
	test := operation{Op: "test", Path: "/metadata/resourceVersion", Value: obj.GetResourceVersion()}
	if err := e.sendPatch(ctx, req.Manager, p, obj, append(jsonPatch{test}, parts...)); err != nil {
		return Outcome{}, err
	}
	writes.WithLabelValues(gvk.Kind, string(Configured)).Inc()
	return out, nil
}
