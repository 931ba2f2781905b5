package workload

import (
	"context"
	"errors"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appv1 "huolala.cn/app-operator/api/v1"
	"huolala.cn/app-operator/internal/apply"
	"huolala.cn/app-operator/internal/children"
	"huolala.cn/app-operator/internal/claim"
	"huolala.cn/app-operator/internal/reconciler"
)

// A live workload object with the name of the owner's may belong to others. The owner's objects then keep off its pods: a Service selects the pods that the
// owner would have, or stays as it is, an object about pods is not written (apply.Object.AboutPodsOf), an autoscaler of before is deleted, and no command runs.

// WithOwnership returns the observation of a live workload object with what the object is to the owner.
func (o *Observed) WithOwnership(scheme *runtime.Scheme, in *Input, live client.Object) *Observed {
	after := *o
	after.serviceForeign = o.Service != nil && !metav1.IsControlledBy(o.Service, in.Owner)
	after.taken, after.foreign = nil, false
	deleted := live.GetDeletionTimestamp() != nil
	if metav1.IsControlledBy(live, in.Owner) && !deleted {
		return &after
	}
	after.taken = apply.Taken(scheme, in.Owner, live, live, in.adoptsObjects())
	obstacle := after.taken
	if deleted { // Its pods run on meanwhile.
		if stays, ok := live.DeepCopyObject().(client.Object); ok {
			stays.SetDeletionTimestamp(nil)
			obstacle = apply.Taken(scheme, in.Owner, stays, stays, in.adoptsObjects())
		}
	}
	var stalled *reconciler.StalledError // An object that a former self controls is waited for.
	after.foreign = errors.As(obstacle, &stalled) && !in.hasLost(live)
	return &after
}

// hasLost reports whether an object is one that the operator has applied for the kind, and that has lost its controller: by the managed fields, or, if these were
// cleared, as by a restore, by the hash.
func (in *Input) hasLost(live client.Object) bool {
	if metav1.GetControllerOf(live) != nil {
		return false
	}
	_, applied := live.GetAnnotations()[appv1.AnnotationLastAppliedHash]
	return claim.WasApplied(live, in.fieldManager()) || applied && len(children.Marks(live.GetManagedFields())) == 0
}

// selectorToBuild returns the selector that the workload is built with, nil for the selector of the kind: that of the live workload object, or of one that is
// gone. A Service that is created next to a foreign object has the selector of the kind; see resource.BuildOptions.Foreign. A foreign Service is not written, and
// is judged by the selector that an adoption of both would keep.
func (o *Observed) selectorToBuild() map[string]string {
	if o.Object == nil && o.Remembered.Known {
		return o.Remembered.record.selector
	}
	return o.Selector()
}

// LeavesService reports whether a wanted object is a Service that the owner controls, while the workload object belongs to others: the Service stays as it is,
// whatever it selects.
func (o *Observed) LeavesService(owner, wanted client.Object) bool {
	if _, service := wanted.(*corev1.Service); !service || !o.foreign {
		return false
	}
	live := o.LiveObject(wanted)
	return live != nil && metav1.IsControlledBy(live, owner)
}

// dropForeignScaler deletes the autoscaler of the owner's once the Deployment belongs to others: it would scale their pods. trouble is why it could not, err why the
// rest of the request cannot be carried out.
func (r *Reconciler) dropForeignScaler(ctx context.Context, in *Input, seen *Observed) (dropped apply.ChangeSet, trouble, err error) {
	if !seen.foreign {
		return nil, nil, nil
	}
	req := &apply.Request{Owner: in.Owner, Manager: in.fieldManager()}
	for _, obj := range seen.Owned {
		if scaler, ok := obj.(*autoscalingv2.HorizontalPodAutoscaler); ok {
			req.Prune = append(req.Prune, scaler)
		}
	}
	if len(req.Prune) == 0 {
		return nil, nil, nil
	}
	done, err := r.RunRequest(ctx, req, r.Mode)
	return done.Changes(), done.Trouble(), err
}

// tryAdoption returns why the adoption of a live Deployment would fail, by dry runs, nil for a Deployment of the owner's: the command before a rollout does not
// run for a Deployment that stays as it is.
func (r *Reconciler) tryAdoption(ctx context.Context, in *Input, seen *Observed, want *jobDecision) error {
	if seen.Deployment() == nil || seen.isOwned(in.Owner) {
		return nil
	}
	dry := *r
	dry.Mode, dry.Journal = apply.DryRun, &Journal{} // The journal has the Services that are deleted for their node ports.
	return dry.ApplyDeployment(ctx, in, seen, want.workload, How{}).Err
}
