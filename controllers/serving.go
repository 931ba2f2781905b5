package controllers

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appv1 "huolala.cn/app-operator/api/v1"
	"huolala.cn/app-operator/api/v1/validation"
	"huolala.cn/app-operator/internal/apply"
	"huolala.cn/app-operator/internal/health"
	"huolala.cn/app-operator/internal/reconciler"
	"huolala.cn/app-operator/resource"
)

// +kubebuilder:rbac:groups=apps,resources=daemonsets,verbs=list
// +kubebuilder:rbac:groups=batch,resources=cronjobs;jobs,verbs=list
// +kubebuilder:rbac:groups="",resources=serviceaccounts,verbs=get;list;watch;create;patch;delete
// +kubebuilder:rbac:groups=autoscaling,resources=horizontalpodautoscalers,verbs=get;list;watch;create;patch;delete
// +kubebuilder:rbac:groups=networking.k8s.io,resources=ingresses;networkpolicies,verbs=get;list;watch;create;patch;delete
// +kubebuilder:rbac:groups=policy,resources=poddisruptionbudgets,verbs=get;list;watch;create;patch;delete

// What stands around the pods is optional: trouble with it is reported, and neither the pods nor the other objects wait for it.
// An account and a policy are there before the first pod, though.

// newServedTarget returns the workload of a resource whose kind has auxiliary objects. Of these, blocks that are switched off are
// errors of the spec, and blocks that are valid by themselves are applied in spite of other errors.
func (s *Deps) newServedTarget(k resource.Kind, owner client.Object, spec resource.Spec, paused bool, undecodable error, serving *appv1.ServingStatus) *target {
	at := field.NewPath("spec")
	errs := append(spec.Validate(), validation.DisabledFeatures(spec.Serving(), s.Disabled, at)...)
	errs = append(errs, validation.DisabledReleases(spec.Release(), s.Disabled, at)...)
	around := validation.ValidServing(spec.Serving(), errs, at)
	return &target{
		owner: owner, manager: k.FieldManager(), name: owner.GetName(), scalable: k.Name, spec: spec, errs: errs, undecodable: undecodable,
		around: around, paused: paused, servingStatus: serving,
		config: newConfigTarget(k.Name, around.ConfigRollout == appv1.ConfigRolloutOnChange, serving),
	}
}

// wantsAutoscaler reports whether the spec asks for an autoscaler.
func (d *target) wantsAutoscaler() bool { return d.around != nil && d.around.Autoscaling != nil }

// mayOwn reports whether an object that has the name of one of the owner's may be the owner's, or become it: nothing controls it,
// and it is to be adopted or was applied by the operator and has lost its owner reference since. The engine decides.
func (d *target) mayOwn(obj client.Object) bool {
	_, applied := obj.GetAnnotations()[appv1.AnnotationLastAppliedHash]
	return metav1.GetControllerOf(obj) == nil && (applied || d.adopts())
}

// childOf returns a wanted object as a child of the engine's.
func (s *Deps) childOf(ctx context.Context, d *target, obj client.Object, seen *observed) (apply.Object, error) {
	_, deployment := obj.(*appsv1.Deployment)
	child := apply.Object{Desired: obj, Independent: !deployment}
	row := apply.TypeOf(obj)
	if !row.Auxiliary {
		child.Live = seen.liveObject(obj)
		return child, nil
	}
	child.Auxiliary, child.Prerequisite = true, row.Prerequisite
	if row.Routes {
		child.LeadsTo = &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: seen.serviceName}}
	}
	child.Unavailable = s.unavailable(ctx, d, obj)
	if child.Unavailable != nil {
		return child, nil //nolint:nilerr // It is the trouble of this child alone.
	}
	empty, ok := row.Object.DeepCopyObject().(client.Object)
	if !ok {
		return child, fmt.Errorf("%T is no API object", row.Object)
	}
	live, err := getOrNil(ctx, s.Client, client.ObjectKeyFromObject(obj), empty)
	if live == nil {
		return child, err
	}
	child.Live = live
	if child.LeadsTo != nil {
		child.Unavailable = s.awaitEndpoints(ctx, d, obj, live, seen)
	}
	return child, nil
}

// isNamed reports whether the live Deployment names a ServiceAccount, or its pods may do so yet.
func (o *observed) isNamed(account *corev1.ServiceAccount, owner client.Object) bool {
	return o.isOwned(owner) && (o.template().Spec.ServiceAccountName == account.Name || !o.isReady(owner))
}

// reportTrouble states in the report what is in the way of objects around the pods.
func reportTrouble(report *reconciler.Report, err error) {
	if err == nil {
		return
	}
	report.Auxiliary.Reason, report.Auxiliary.Message = reconciler.ReasonAndMessageOf(err)
	var stalled *reconciler.StalledError
	var waiting *reconciler.WaitingError
	switch {
	case errors.As(err, &stalled):
		report.RetryAfter = reconciler.MinRequeue(report.RetryAfter, stalled.RetryAfter)
	case errors.As(err, &waiting):
		report.RetryAfter = reconciler.MinRequeue(report.RetryAfter, waiting.RetryAfter)
	default:
		report.Auxiliary.Retry = err
	}
}

// reportPrerequisite states in the report of a workload without a Deployment what is in the way of an object that its first pod waits
// for.
func (a *applied) reportPrerequisite(report *reconciler.Report) {
	last := map[reflect.Type]bool{}
	for i := range slices.Backward(a.auxiliary) { // The last application counts.
		done := &a.auxiliary[i]
		of := reflect.TypeOf(done.Object.Desired)
		if !done.Object.Prerequisite || last[of] {
			continue
		}
		last[of] = true
		if done.Err != nil {
			report.Pods.Reason, report.Pods.Message = reconciler.ReasonAndMessageOf(done.Err)
			var stalled *reconciler.StalledError
			report.Pods.Stalled = errors.As(done.Err, &stalled)
		}
	}
}

// reportServing states in the status how the objects around the pods are doing.
func (d *target) reportServing(want *decision, done *applied, report *reconciler.Report) {
	if d.servingStatus == nil || d.undecodable != nil {
		return
	}
	seen := done.seen
	d.servingStatus.Hosts = resource.Hosts(d.around)
	if d.wantsAutoscaler() && seen.autoscaler != "" && report.Auxiliary.Reason == "" {
		report.Auxiliary.ReasonAndMessage = reconciler.ReasonAndMessage{
			Reason: appv1.ReasonAutoscalerExists, Message: fmt.Sprintf(messageAutoscalerExists, seen.autoscaler, d.name),
		}
	}
	d.setStanding(report, appv1.ConditionAutoscaled, d.autoscaling(done, want.invalid))
	d.setStanding(report, appv1.ConditionExposed, worstStanding(d.exposures(done, want.invalid, report.Why.Reason)))
}

// autoscaling returns how the autoscaler is doing, nil if the spec asks for none. invalid is why the spec is not applied.
func (d *target) autoscaling(done *applied, invalid error) *health.Standing {
	if d.spec.Serving().Autoscaling == nil {
		return nil
	}
	if other := done.seen.autoscaler; other != "" {
		return &health.Standing{
			Status: metav1.ConditionFalse, Reason: appv1.ReasonAutoscalerExists,
			Message: fmt.Sprintf(messageAutoscalerExists, other, d.name),
		}
	}
	return standingIn(d, done, invalid, "HorizontalPodAutoscaler", health.Autoscaler)
}

// exposures returns how the objects are doing that lead to the Service from outside, none if the spec asks for none. earlier is why an
// earlier spec is in force, empty if none is.
func (d *target) exposures(done *applied, invalid error, earlier string) []*health.Standing {
	var all []*health.Standing
	if d.spec.Serving().Ingress != nil {
		all = append(all, exposureIn(d, done, invalid, "Ingress", "ingress", earlier, health.Ingress))
	}
	if d.spec.Serving().HTTPRoute != nil {
		all = append(all, exposureIn(d, done, invalid, "HTTPRoute", "httpRoute", earlier, health.HTTPRoute))
	}
	return all
}

// exposureIn is standingIn for what leads to a port of the Service: while an earlier spec is in force, whose Service may lack the port.
// Then nothing is applied for the field, and what is there stays.
func exposureIn[T interface {
	comparable
	client.Object
}](d *target, done *applied, invalid error, kind, field, earlier string, judge func(T) health.Standing) *health.Standing {
	applied := slices.ContainsFunc(done.auxiliary, func(out apply.Outcome) bool {
		_, ok := out.Object.Desired.(T)
		return ok
	})
	if earlier == "" || d.paused || applied || !done.auxiliaryKnown {
		return standingIn(d, done, invalid, kind, judge)
	}
	return &health.Standing{
		Status: metav1.ConditionFalse, Reason: earlier, Message: fmt.Sprintf(messagePortMissing, kind, d.name, field),
	}
}

// standingIn returns how the object of a type is doing: what is in its way, that it is not there yet, or what judge says of it.
func standingIn[T interface {
	comparable
	client.Object
}](d *target, done *applied, invalid error, kind string, judge func(T) health.Standing) *health.Standing {
	var none T
	live, trouble := find[T](done)
	switch {
	case trouble != nil:
		return standingOf(trouble)
	case live == none && invalid != nil:
		return standingOf(invalid) // Nothing creates it before the spec is corrected.
	case live == none:
		return missing(kind, d.name)
	}
	standing := judge(live)
	return &standing
}

// find returns the live object of a type of the owner's, as it was applied or else as it was observed, and what is in its way.
func find[T client.Object](done *applied) (live T, trouble error) {
	for i := range slices.Backward(done.auxiliary) { // The last application counts.
		out := &done.auxiliary[i]
		if _, ok := out.Object.Desired.(T); ok {
			live, _ = out.Live.(T)
			return live, out.Err
		}
	}
	for _, obj := range done.seen.owned {
		if found, ok := obj.(T); ok {
			return found, nil
		}
	}
	return live, nil
}

// standingOf says what is in the way of an object.
func standingOf(trouble error) *health.Standing {
	reason, message := reconciler.ReasonAndMessageOf(trouble)
	return &health.Standing{Status: metav1.ConditionFalse, Reason: reason, Message: message}
}

// missing says that an object is not there yet.
func missing(kind, name string) *health.Standing {
	return &health.Standing{
		Status: metav1.ConditionUnknown, Reason: appv1.ReasonProgressing, Message: fmt.Sprintf(messageNotCreatedYet, kind, name),
	}
}

// worstStanding returns the one of several that matters most: what is wrong before what is not known, and that before all else.
func worstStanding(all []*health.Standing) *health.Standing {
	var worst *health.Standing
	for _, status := range []metav1.ConditionStatus{metav1.ConditionFalse, metav1.ConditionUnknown, metav1.ConditionTrue} {
		for _, standing := range all {
			if worst == nil && standing.Status == status {
				worst = standing
			}
		}
	}
	return worst
}

// setStanding states how an object is doing in a condition of its own, which is there only where the spec asks for the object.
func (d *target) setStanding(report *reconciler.Report, condition string, standing *health.Standing) {
	if standing == nil {
		report.RemoveCondition(condition)
		return
	}
	report.AddCondition(metav1.Condition{
		Type: condition, Status: standing.Status, Reason: standing.Reason, Message: standing.Message,
		ObservedGeneration: d.owner.GetGeneration(),
	})
}
