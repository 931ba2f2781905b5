package controllers

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
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

// checkServing adds to the errors of the spec which blocks are switched off, and finds out which blocks are valid by themselves.
func (d *target) checkServing(disabled []string) {
	if d.spec.Serving() == nil {
		return
	}
	at := field.NewPath("spec")
	d.errs = append(d.errs, validation.DisabledFeatures(d.spec.Serving(), disabled, at)...)
	d.around = validation.ValidServing(d.spec.Serving(), d.errs, at)
	d.config.follow = d.around.ConfigRollout == appv1.ConfigRolloutOnChange
}

// wantsAutoscaler reports whether the spec asks for an autoscaler.
func (d *target) wantsAutoscaler() bool { return d.around != nil && d.around.Autoscaling != nil }

// observeAutoscalers finds the autoscaler of the owner's and that of another one that target the Deployment.
func (s *Deps) observeAutoscalers(ctx context.Context, d *target, key client.ObjectKey, seen *state) error {
	// The list does not wait for what this process has written, which is the autoscaler of the owner's name alone.
	own := client.ObjectKey{Namespace: d.owner.GetNamespace(), Name: d.name}
	if _, err := getOrNil(ctx, s.Client, own, &autoscalingv2.HorizontalPodAutoscaler{}); err != nil {
		return err
	}
	scalers, err := s.listAutoscalers(ctx, "Deployment", key)
	if err != nil {
		return err
	}
	for i := range scalers {
		scaler := &scalers[i]
		switch {
		case metav1.IsControlledBy(scaler, d.owner):
			seen.scaled = seen.scaled || !d.wantsAutoscaler()
		case d.wantsAutoscaler() && scaler.Name == d.name && d.mayOwn(scaler):
		case seen.autoscaler == "" || scaler.Name < seen.autoscaler:
			seen.autoscaler = scaler.Name
		}
	}
	seen.scaled = seen.scaled || seen.autoscaler != ""
	return nil
}

// mayOwn reports whether an object that has the name of one of the owner's may be the owner's, or become it: nothing controls it,
// and it is to be adopted or was applied by the operator and has lost its owner reference since. The engine decides.
func (d *target) mayOwn(obj client.Object) bool {
	_, applied := obj.GetAnnotations()[appv1.AnnotationLastAppliedHash]
	return metav1.GetControllerOf(obj) == nil && (applied || d.adopts())
}

// childOf returns a wanted object as a child of the engine's.
func (s *Deps) childOf(ctx context.Context, d *target, obj client.Object, seen *state) (apply.Child, error) {
	_, deployment := obj.(*appsv1.Deployment)
	child := apply.Child{Desired: obj, Independent: !deployment}
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
func (o *state) isNamed(account *corev1.ServiceAccount, owner client.Object) bool {
	return o.deployment != nil && metav1.IsControlledBy(o.deployment, owner) &&
		(o.deployment.Spec.Template.Spec.ServiceAccountName == account.Name || !o.isReady(owner))
}

// noteAround notes what became of the objects around the pods, and when to look at a former Service again.
func (o *state) noteAround(req *apply.Request, report *reconciler.Report) {
	o.aroundNoted = true
	for i := range req.Children {
		if req.Children[i].Auxiliary {
			o.around = append(o.around, req.Children[i])
		}
	}
	report.RetryAfter = reconciler.MinRequeue(report.RetryAfter, o.routeGrace)
	reportTrouble(report, req.Trouble())
}

// reportTrouble states in the report what is in the way of objects around the pods.
func reportTrouble(report *reconciler.Report, err error) {
	if err == nil {
		return
	}
	report.Trouble.Reason, report.Trouble.Message = reconciler.ReasonAndMessageOf(err)
	var stalled *reconciler.StalledError
	var waiting *reconciler.WaitingError
	switch {
	case errors.As(err, &stalled):
		report.RetryAfter = reconciler.MinRequeue(report.RetryAfter, stalled.RetryAfter)
	case errors.As(err, &waiting):
		report.RetryAfter = reconciler.MinRequeue(report.RetryAfter, waiting.RetryAfter)
	default:
		report.Retry = err
	}
}

// reportPrerequisite states in the report of a workload without a Deployment what is in the way of an object that its first pod waits
// for.
func (o *state) reportPrerequisite(report *reconciler.Report) {
	last := map[reflect.Type]bool{}
	for i := range slices.Backward(o.around) { // The last application counts.
		child := &o.around[i]
		of := reflect.TypeOf(child.Desired)
		if !child.Prerequisite || last[of] {
			continue
		}
		last[of] = true
		if child.Trouble != nil {
			report.Reason, report.Message = reconciler.ReasonAndMessageOf(child.Trouble)
			var stalled *reconciler.StalledError
			report.Stalled = errors.As(child.Trouble, &stalled)
		}
	}
}

// reportServing states in the status how the objects around the pods are doing.
func (d *target) reportServing(seen *state, report *reconciler.Report) {
	if d.spec.Serving() == nil || d.undecodable != nil {
		return
	}
	d.servingStatus.Hosts = resource.Hosts(d.around)
	if d.wantsAutoscaler() && seen.autoscaler != "" && report.Trouble.Reason == "" {
		report.Trouble = reconciler.ReasonAndMessage{
			Reason: appv1.ReasonAutoscalerExists, Message: fmt.Sprintf(messageAutoscalerExists, seen.autoscaler, d.name),
		}
	}
	d.setStanding(appv1.ConditionAutoscaled, d.autoscaling(seen))
	d.setStanding(appv1.ConditionExposed, worstStanding(d.exposures(seen, report.NotApplied.Reason)))
}

// autoscaling returns how the autoscaler is doing, nil if the spec asks for none.
func (d *target) autoscaling(seen *state) *health.Standing {
	if d.spec.Serving().Autoscaling == nil {
		return nil
	}
	if seen.autoscaler != "" {
		return &health.Standing{
			Status: metav1.ConditionFalse, Reason: appv1.ReasonAutoscalerExists,
			Message: fmt.Sprintf(messageAutoscalerExists, seen.autoscaler, d.name),
		}
	}
	return standingIn(d, seen, "HorizontalPodAutoscaler", health.Autoscaler)
}

// exposures returns how the objects are doing that lead to the Service from outside, none if the spec asks for none. earlier is why an
// earlier spec is in force, empty if none is.
func (d *target) exposures(seen *state, earlier string) []*health.Standing {
	var all []*health.Standing
	if d.spec.Serving().Ingress != nil {
		all = append(all, exposureIn(d, seen, "Ingress", "ingress", earlier, health.Ingress))
	}
	if d.spec.Serving().HTTPRoute != nil {
		all = append(all, exposureIn(d, seen, "HTTPRoute", "httpRoute", earlier, health.HTTPRoute))
	}
	return all
}

// exposureIn is standingIn for what leads to a port of the Service: while an earlier spec is in force, whose Service may lack the port.
// Then nothing is applied for the field, and what is there stays.
func exposureIn[T interface {
	comparable
	client.Object
}](d *target, seen *state, kind, field, earlier string, judge func(T) health.Standing) *health.Standing {
	applied := slices.ContainsFunc(seen.around, func(child apply.Child) bool {
		_, ok := child.Desired.(T)
		return ok
	})
	if earlier == "" || d.paused || applied || !seen.aroundNoted {
		return standingIn(d, seen, kind, judge)
	}
	return &health.Standing{
		Status: metav1.ConditionFalse, Reason: earlier, Message: fmt.Sprintf(messagePortMissing, kind, d.name, field),
	}
}

// standingIn returns how the object of a type is doing: what is in its way, that it is not there yet, or what judge says of it.
func standingIn[T interface {
	comparable
	client.Object
}](d *target, seen *state, kind string, judge func(T) health.Standing) *health.Standing {
	var none T
	live, trouble := find[T](seen)
	switch {
	case trouble != nil:
		return standingOf(trouble)
	case live == none && d.refusal != nil:
		return standingOf(d.refusal) // Nothing creates it before the spec is corrected.
	case live == none:
		return missing(kind, d.name)
	}
	standing := judge(live)
	return &standing
}

// find returns the live object of a type of the owner's, as it was applied or else as it was observed, and what is in its way.
func find[T client.Object](seen *state) (live T, trouble error) {
	for i := range slices.Backward(seen.around) { // The last application counts.
		child := &seen.around[i]
		if _, ok := child.Desired.(T); ok {
			live, _ = child.Live.(T)
			return live, child.Trouble
		}
	}
	for _, obj := range seen.owned {
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
func (d *target) setStanding(condition string, standing *health.Standing) {
	conditions := &d.status.Conditions
	if standing == nil {
		meta.RemoveStatusCondition(conditions, condition)
		return
	}
	meta.SetStatusCondition(conditions, metav1.Condition{
		Type: condition, Status: standing.Status, Reason: standing.Reason, Message: standing.Message,
		ObservedGeneration: d.owner.GetGeneration(),
	})
}
