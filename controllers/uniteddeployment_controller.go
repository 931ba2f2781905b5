package controllers

import (
	"context"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"

	appv1 "huolala.cn/app-operator/api/v1"
	"huolala.cn/app-operator/api/v1/validation"
	"huolala.cn/app-operator/internal/apply"
	"huolala.cn/app-operator/internal/reconciler"
	"huolala.cn/app-operator/internal/stored"
	"huolala.cn/app-operator/resource"
)

// unitedDeploymentManager is the field owner of all that UnitedDeployments write.
const unitedDeploymentManager = "app-operator/uniteddeployment"

// UnitedDeploymentReconciler holds the number of pods of the Deployment that a UnitedDeployment names, and makes it of the
// template if there is none.
type UnitedDeploymentReconciler struct {
	Shared
}

// +kubebuilder:rbac:groups=app.huolala.cn,resources=uniteddeployments,verbs=get;list;watch
// +kubebuilder:rbac:groups=app.huolala.cn,resources=uniteddeployments/status,verbs=patch
// +kubebuilder:rbac:groups=app.huolala.cn,resources=uniteddeployments/finalizers,verbs=update
// +kubebuilder:rbac:groups=apps,resources=deployments/scale,verbs=patch

// steps makes true what the UnitedDeployment means, and says how the Deployment's pods are doing.
func (r *UnitedDeploymentReconciler) steps(ctx context.Context, ud *appv1.UnitedDeployment, undecodable error) (reconciler.Report, error) {
	if undecodable != nil {
		return reconciler.Report{}, refuse(undecodable)
	}
	d := r.deployed(ud)
	seen, err := r.observe(ctx, d)
	if err != nil {
		return reconciler.Report{}, err
	}
	elder, err := r.elder(ctx, ud)
	if err != nil {
		return reconciler.Report{}, err
	}
	var report reconciler.Report
	refusal := refused(ud, seen, elder)
	if refusal == nil && makes(ud, seen.deployment) {
		report, err = r.deploy(ctx, d)
	} else {
		report, err = r.hold(ctx, ud, d, seen, refusal)
	}
	before := meta.IsStatusConditionTrue(ud.Status.Conditions, appv1.ConditionSynced)
	condition := synced(ud, seen.deployment, err)
	meta.SetStatusCondition(&ud.Status.Conditions, condition)
	if condition.Status == metav1.ConditionTrue && !before {
		report.Event, report.Note = appv1.ReasonSynced, condition.Message
	}
	return report, err
}

// deployed is the workload that the template means; without one, no more than what there is to report on.
func (r *UnitedDeploymentReconciler) deployed(ud *appv1.UnitedDeployment) *deployed {
	d := &deployed{
		owner:   ud,
		manager: unitedDeploymentManager,
		name:    ud.Spec.DeploymentName,
		spec:    &appv1.WorkloadSpec{Replicas: ud.Spec.Replicas},
		errs:    validation.UnitedDeployment(ud),
		status:  &ud.Status.WorkloadStatus,
		paused:  ud.Spec.Paused,
		build: func(seen resource.Observed) (*resource.Workload, field.ErrorList) {
			return resource.UnitedDeployment(ud, seen)
		},
		fromRecord: func(record string, seen resource.Observed) (*resource.Workload, error) {
			return resource.UnitedDeploymentFromRecord(ud, record, seen)
		},
		changed: func(record string) (bool, error) { return resource.UnitedDeploymentSpecChanged(ud, record) },
	}
	if ud.Spec.Template != nil {
		d.spec = resource.UnitedDeploymentSpec(ud)
	}
	return d
}

// elder returns the name of the oldest UnitedDeployment that names the same Deployment and is to stay, empty if that is
// this one.
func (r *UnitedDeploymentReconciler) elder(ctx context.Context, ud *appv1.UnitedDeployment) (string, error) {
	var list stored.UnitedDeploymentList
	// What this process has written of them is their status, which does not count here.
	if err := r.Client.List(ctx, &list, client.InNamespace(ud.Namespace), client.DisableReadYourWritesConsistency,
		client.UnsafeDisableDeepCopy, client.MatchingFields{stored.IndexDeployment: ud.Spec.DeploymentName}); err != nil {
		return "", fmt.Errorf("list UnitedDeployments: %w", err)
	}
	return validation.Elder(ud, list.Naming(ud.Spec.DeploymentName)), nil
}

// refused returns why the UnitedDeployment must keep off the Deployment that it names, nil if it need not.
func refused(ud *appv1.UnitedDeployment, seen *observed, elder string) error {
	controller := controllerOfOurs(seen.deployment)
	if controller != nil && controller.Kind == resource.KindUnitedDeployment && controller.Name == ud.Name &&
		controller.UID != ud.UID && ud.Spec.Template == nil {
		return reconciler.Waiting(appv1.ReasonProgressing,
			"Deployment %s belongs to an earlier %s of this name, and the garbage collector is about to remove it", seen.deployment.Name, controller.Kind)
	}
	held := validation.Holders{Controller: controller, Elder: elder, Autoscaler: seen.autoscaler}
	if message := validation.ScaleConflict(ud, held); message != "" {
		return reconciler.Stalled(appv1.ReasonScaleConflict, "%s", message)
	}
	return nil
}

// controllerOfOurs returns the controller of a Deployment if that is of a kind of ours.
func controllerOfOurs(d *appsv1.Deployment) *metav1.OwnerReference {
	if d == nil {
		return nil
	}
	if c := metav1.GetControllerOf(d); c != nil && apply.IsOfOurGroup(c) {
		return c
	}
	return nil
}

// makes tells whether the Deployment is one that the template makes, rather than one that is only scaled. Where a
// UnitedDeployment of this name made it before and nothing controls it any more, the engine knows whether that was this
// one.
func makes(ud *appv1.UnitedDeployment, live *appsv1.Deployment) bool {
	switch {
	case ud.Spec.Template == nil:
		return false
	case live == nil || controllerOfOurs(live) != nil:
		return true
	case metav1.GetControllerOf(live) != nil:
		return false
	}
	return live.Spec.Selector.MatchLabels[appv1.LabelUnitedDeployment] == ud.Name || ud.Annotations[appv1.AnnotationAdopt] == "true"
}

// hold keeps the number of pods of a Deployment that the template did not make, unless there is a reason to keep off it.
func (r *UnitedDeploymentReconciler) hold(ctx context.Context, ud *appv1.UnitedDeployment, d *deployed, seen *observed, refusal error) (reconciler.Report, error) {
	var report reconciler.Report
	report.Paused = d.paused
	err := refusal
	switch live := seen.deployment; {
	case err != nil:
	case live == nil:
		err = reconciler.Waiting(appv1.ReasonDeploymentNotFound,
			"Deployment %s does not exist; it is scaled as soon as it does. To have it made, set spec.template", d.name)
	case live.DeletionTimestamp != nil:
		err = reconciler.Waiting(appv1.ReasonDeploymentNotFound, "Deployment %s is being deleted", d.name)
	case report.Paused:
		report.Pending = ptr.Deref(live.Spec.Replicas, 1) != ptr.Deref(ud.Spec.Replicas, 1)
	default:
		err = r.scale(ctx, ud, seen, &report)
	}
	d.foreign = true
	r.report(d, seen, &report)
	return report, err
}

// scale makes the Deployment's number of pods true. What it wrote replaces what was observed.
func (r *UnitedDeploymentReconciler) scale(ctx context.Context, ud *appv1.UnitedDeployment, seen *observed, report *reconciler.Report) error {
	req := apply.ScaleRequest{
		Owner: ud, Manager: unitedDeploymentManager, Deployment: seen.deployment, Replicas: ptr.Deref(ud.Spec.Replicas, 1),
	}
	change, err := r.Engine.Scale(ctx, &req)
	if err == nil && change.Action != apply.Unchanged {
		report.Changed = string(change.Action)
		report.Changes = fmt.Sprintf("%s %s %s from %d to %d", change.Action, change.Kind, change.Name,
			ptr.Deref(seen.deployment.Spec.Replicas, 1), req.Replicas)
	}
	seen.deployment = req.Deployment
	return err
}

// synced is the condition that says whether the Deployment wants the number of pods that it is to be held at.
func synced(ud *appv1.UnitedDeployment, live *appsv1.Deployment, err error) metav1.Condition {
	wanted := ptr.Deref(ud.Spec.Replicas, 1)
	c := metav1.Condition{Type: appv1.ConditionSynced, Status: metav1.ConditionFalse, ObservedGeneration: ud.Generation}
	switch {
	case err != nil:
		c.Reason, c.Message = reconciler.Words(err)
	case ud.Spec.Paused && (live == nil || ptr.Deref(live.Spec.Replicas, 1) != wanted):
		c.Reason = appv1.ReasonPaused
		c.Message = fmt.Sprintf("Deployment %s is not held at %d replicas while spec.paused is true", ud.Spec.DeploymentName, wanted)
	default:
		c.Status, c.Reason = metav1.ConditionTrue, appv1.ReasonSynced
		c.Message = fmt.Sprintf("Deployment %s is held at %d replicas", ud.Spec.DeploymentName, wanted)
		if ud.Spec.Template != nil && !makes(ud, live) {
			c.Message += "; it was there before, so it is only scaled, and spec.template is not used"
		}
	}
	return c
}

// watchCompeting has all UnitedDeployments reconciled that name the same Deployment as one that has changed.
func watchCompeting(k *kind, s *Shared, b *builder.Builder) {
	b.Watches(k.empty(), handler.EnqueueRequestsFromMapFunc(func(ctx context.Context, obj client.Object) []ctrl.Request {
		var requests []ctrl.Request
		for _, name := range k.childNames(obj) {
			requests = append(requests, k.byChildName(ctx, s, types.NamespacedName{Namespace: obj.GetNamespace(), Name: name})...)
		}
		return requests
	}), builder.WithPredicates(userChanged()))
}

// unitedDeploymentChildNames returns the name of the Deployment that a stored UnitedDeployment names, none for one that cannot
// be decoded.
func unitedDeploymentChildNames(obj client.Object) []string {
	if ud, ok := obj.(*stored.UnitedDeployment); ok {
		if typed, err := ud.Decode(); err == nil {
			return []string{typed.Spec.DeploymentName}
		}
	}
	return nil
}
