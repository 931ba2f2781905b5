package controllers

import (
	"context"
	"errors"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appv1 "huolala.cn/app-operator/api/v1"
	"huolala.cn/app-operator/api/v1/validation"
	"huolala.cn/app-operator/internal/apply"
	"huolala.cn/app-operator/internal/children"
	"huolala.cn/app-operator/internal/reconciler"
	"huolala.cn/app-operator/internal/stored"
	"huolala.cn/app-operator/internal/workload"
	"huolala.cn/app-operator/resource"
)

// UnitedDeploymentReconciler holds the number of pods of the Deployment that a UnitedDeployment names, and makes it of the
// template if there is none.
type UnitedDeploymentReconciler struct {
	Deps
}

// unitedDeploymentKind is the kind UnitedDeployment.
func unitedDeploymentKind() kind {
	k := newKind(resource.KindUnitedDeployment, func() reconciler.Stored[*appv1.UnitedDeployment] { return &stored.UnitedDeployment{} },
		func() client.ObjectList { return &stored.UnitedDeploymentList{} },
		func(s *Deps) reconciler.Steps[*appv1.UnitedDeployment] {
			return (&UnitedDeploymentReconciler{Deps: *s}).reconcileSteps
		})
	k.index, k.childNames, k.watchMore = stored.IndexDeployment, unitedDeploymentChildNames, watchCompeting
	return k
}

// +kubebuilder:rbac:groups=app.huolala.cn,resources=uniteddeployments,verbs=get;list;watch
// +kubebuilder:rbac:groups=app.huolala.cn,resources=uniteddeployments/status,verbs=patch
// +kubebuilder:rbac:groups=app.huolala.cn,resources=uniteddeployments/finalizers,verbs=update
// +kubebuilder:rbac:groups=apps,resources=deployments/scale,verbs=patch

// reconcileSteps reconciles the UnitedDeployment, and reports the health of the Deployment's pods.
func (r *UnitedDeploymentReconciler) reconcileSteps(ctx context.Context, ud *appv1.UnitedDeployment, undecodable error) (reconciler.Report, error) {
	if undecodable != nil {
		return pausedReport(ud), workload.InvalidResource(undecodable)
	}
	in := newHolderInput(ud)
	r.ForgetRenamed(in.Kind, ud, in.Name)
	seen, err := r.Observe(ctx, in)
	if err != nil {
		return reconciler.Report{}, err
	}
	elder, err := r.oldestClaimant(ctx, ud)
	if err != nil {
		return reconciler.Report{}, err
	}
	var done workload.Result
	refusal := scaleConflict(ud, seen, elder)
	if refusal == nil && ownsTemplate(ud, seen.Deployment()) {
		done, err = r.ReconcileObserved(ctx, in, seen, r.ApplyDeployment)
		if live := done.Seen.Deployment(); live != nil && !metav1.IsControlledBy(live, ud) { // The Deployment is left of an earlier UnitedDeployment.
			done.Status.Workload, _ = workload.StatusOf(in, done.Seen, resource.BuildInputs{})
		}
	} else {
		done, err = r.scaleExisting(ctx, ud, in, seen, refusal)
	}
	report := done.Report
	ud.Status.WorkloadStatus = done.Status.Workload
	before := meta.IsStatusConditionTrue(ud.Status.Conditions, appv1.ConditionSynced)
	condition := syncedCondition(ud, done.Seen.Deployment(), err)
	report.AddCondition(condition)
	if condition.Status == metav1.ConditionTrue && !before {
		report.Event.Reason, report.Event.Note = appv1.ReasonSynced, condition.Message
	}
	return report, err
}

// newHolderInput returns the input of the workload of the template; without a template, of the Deployment that is reported on.
func newHolderInput(ud *appv1.UnitedDeployment) *workload.Input {
	return &workload.Input{
		Owner: ud, Kind: resource.KindUnitedDeployment, Name: ud.Spec.DeploymentName, Spec: resource.UnitedDeploymentSpec(ud),
		Errs: validation.UnitedDeployment(ud), Paused: ud.Spec.Paused, Before: workload.Status{Workload: ud.Status.WorkloadStatus},
		KeepsRendering: ud.Spec.Template != nil,
	}
}

// oldestClaimant returns the name of the oldest UnitedDeployment that names the same Deployment and is to stay, empty if that is
// this one.
func (r *UnitedDeploymentReconciler) oldestClaimant(ctx context.Context, ud *appv1.UnitedDeployment) (string, error) {
	var list stored.UnitedDeploymentList
	if err := r.Client.List(ctx, &list, client.InNamespace(ud.Namespace), client.UnsafeDisableDeepCopy,
		client.MatchingFields{stored.IndexDeployment: ud.Spec.DeploymentName}); err != nil {
		return "", fmt.Errorf("list UnitedDeployments: %w", err)
	}
	return validation.OldestClaimant(&ud.ObjectMeta, list.Metadata()), nil
}

// scaleConflict returns why the UnitedDeployment must keep off the Deployment that it names, nil if it need not.
func scaleConflict(ud *appv1.UnitedDeployment, seen *workload.Observed, elder string) error {
	controller := controllerOfOurs(seen.Deployment())
	if controller != nil && controller.Kind == resource.KindUnitedDeployment.Name && controller.Name == ud.Name &&
		controller.UID != ud.UID && ud.Spec.Template == nil {
		return reconciler.Waiting(appv1.ReasonProgressing,
			messageDeploymentOfEarlier, seen.Object.GetName(), controller.Kind)
	}
	held := validation.ScaleOwners{Controller: controller, OldestClaimant: elder, Missing: seen.Object == nil, Autoscaler: seen.Autoscaler}
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
	if c := metav1.GetControllerOf(d); c != nil && children.IsOfOurGroup(c) {
		return c
	}
	return nil
}

// ownsTemplate reports whether the template makes the Deployment, which is otherwise only scaled. Where a
// UnitedDeployment of this name made it before and nothing controls it any more, the engine knows whether that was this
// one.
func ownsTemplate(ud *appv1.UnitedDeployment, live *appsv1.Deployment) bool {
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

// scaleExisting keeps the number of pods of a Deployment that the template did not make, unless there is a reason to keep off it.
func (r *UnitedDeploymentReconciler) scaleExisting(ctx context.Context, ud *appv1.UnitedDeployment, in *workload.Input, seen *workload.Observed, refusal error) (workload.Result, error) {
	done := workload.Result{Seen: seen}
	if in.Paused {
		done.Report.Pause = reconciler.Paused
	}
	err := refusal
	switch live := seen.Deployment(); {
	case err != nil:
	case live == nil:
		err = reconciler.Waiting(appv1.ReasonDeploymentNotFound, messageDeploymentMissing, in.Name)
	case live.DeletionTimestamp != nil:
		err = reconciler.Waiting(appv1.ReasonDeploymentNotFound, messageDeploymentDeleted, in.Name)
	case in.Paused:
		if is := ptr.Deref(live.Spec.Replicas, 1); is != ptr.Deref(ud.Spec.Replicas, 1) {
			done.Report.Pause, done.Report.PendingKey = reconciler.Pending, fmt.Sprintf("from %d pods", is)
		}
	default:
		done.Seen, done.Report, err = r.scaleDeployment(ctx, ud, seen)
	}
	if done.Seen.Deployment() == nil {
		done.Status.Workload, done.Report.Pods = workload.MissingStatus(in, done.Seen, false)
	} else {
		done.Status.Workload, done.Report.Pods = workload.StatusOf(in, done.Seen, resource.BuildInputs{})
	}
	done.Report.RetryAfter = reconciler.MinRequeue(done.Report.RetryAfter, done.Report.Pods.Again)
	return done, err
}

// scaleDeployment makes the Deployment's number of pods true. It returns the observation afterwards, and a report with the event and with when to try
// again.
func (r *UnitedDeploymentReconciler) scaleDeployment(ctx context.Context, ud *appv1.UnitedDeployment, seen *workload.Observed) (*workload.Observed, reconciler.Report, error) {
	req := apply.ScaleRequest{
		Owner: ud, Manager: resource.KindUnitedDeployment.FieldManager(), Deployment: seen.Deployment(), Replicas: ptr.Deref(ud.Spec.Replicas, 1),
	}
	change, err := r.Engine.Scale(ctx, req, r.Mode)
	if err == nil {
		r.Journal.Note(&change)
	}
	after, report := seen.WithObject(change.Live), reconciler.Report{RetryAfter: change.RetryAfter}
	if err == nil && change.Action != apply.Unchanged {
		number := req.Replicas
		if change.RetryAfter > 0 { // The API server has set another number.
			number = ptr.Deref(after.Deployment().Spec.Replicas, 1)
		}
		report.Event.AddChanges(string(change.Action), fmt.Sprintf("%s %s %s from %d to %d", change.Action, change.Kind, change.Name,
			ptr.Deref(seen.Deployment().Spec.Replicas, 1), number))
	}
	if err == nil && change.RetryAfter > 0 {
		report.Note = overriddenNumber(ud, after.Deployment())
	}
	return after, report, err
}

// overriddenNumber describes a Deployment that has another number of pods than the wanted one.
func overriddenNumber(ud *appv1.UnitedDeployment, live *appsv1.Deployment) reconciler.ReasonAndMessage {
	return reconciler.ReasonAndMessage{
		Reason:  appv1.ReasonOverridden,
		Message: fmt.Sprintf(messageNumberOverridden, ud.Spec.DeploymentName, ptr.Deref(live.Spec.Replicas, 1), ptr.Deref(ud.Spec.Replicas, 1)),
	}
}

// syncedCondition is the condition for whether the number of pods of the Deployment is the number that it is to be held at.
func syncedCondition(ud *appv1.UnitedDeployment, live *appsv1.Deployment, err error) metav1.Condition {
	wanted := ptr.Deref(ud.Spec.Replicas, 1)
	c := metav1.Condition{Type: appv1.ConditionSynced, Status: metav1.ConditionFalse, ObservedGeneration: ud.Generation}
	differs := live == nil || ptr.Deref(live.Spec.Replicas, 1) != wanted
	var stalled *reconciler.StalledError
	conflict := errors.As(err, &stalled) && stalled.Reason == appv1.ReasonScaleConflict
	switch {
	case err != nil && (differs || conflict || !ownsTemplate(ud, live)): // Trouble with the other objects of a template is no trouble of the number.
		c.Reason, c.Message = reconciler.ReasonAndMessageOf(err)
	case ud.Spec.Paused && differs:
		c.Reason = appv1.ReasonPaused
		c.Message = fmt.Sprintf(messageNotScaled, ud.Spec.DeploymentName, wanted)
	case live != nil && differs:
		note := overriddenNumber(ud, live)
		c.Reason, c.Message = note.Reason, note.Message
	default:
		c.Status, c.Reason = metav1.ConditionTrue, appv1.ReasonSynced
		c.Message = fmt.Sprintf(messageScaled, ud.Spec.DeploymentName, wanted)
		if ud.Spec.Template != nil && !ownsTemplate(ud, live) {
			c.Message += messageOnlyScaled
		}
	}
	return c
}

// watchCompeting has all UnitedDeployments reconciled that name the Deployment of a changed one.
func watchCompeting(k *kind, _ *Deps, w *waker, b *builder.Builder) {
	b.Watches(k.empty(), w.handler(k.mapCompeting), builder.WithPredicates(userChanged()))
}

// mapCompeting maps a UnitedDeployment to all that name its Deployment.
func (k *kind) mapCompeting(_ context.Context, obj client.Object) wakeUps {
	var found wakeUps
	for _, name := range k.childNames(obj) {
		found.groups = append(found.groups, wakeGroup{k.index, obj.GetNamespace(), name})
	}
	return found
}

// unitedDeploymentChildNames returns the name of the Deployment that a stored UnitedDeployment names, none for one that cannot
// be decoded.
func unitedDeploymentChildNames(obj client.Object) []string {
	if ud, ok := obj.(*stored.UnitedDeployment); ok {
		if names, dropped := ud.IndexNames(); dropped {
			return names
		}
		if typed, err := ud.Decode(); err == nil {
			return []string{typed.Spec.DeploymentName}
		}
	}
	return nil
}
