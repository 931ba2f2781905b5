package workload

import (
	"context"
	"fmt"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	appv1 "huolala.cn/app-operator/api/v1"
	"huolala.cn/app-operator/internal/apply"
	"huolala.cn/app-operator/internal/children"
	"huolala.cn/app-operator/internal/clusterkinds"
	"huolala.cn/app-operator/internal/health"
	"huolala.cn/app-operator/internal/reconciler"
	"huolala.cn/app-operator/resource"
)

// Each object around the pods is optional: trouble with it is reported, and neither the pods nor the other objects wait for it.
// An account and a policy are there before the first pod, though.

// childOf returns a wanted object as a child of the engine's. pods is the Deployment whose pods objects are about.
func (r *Reconciler) childOf(ctx context.Context, in *Input, obj client.Object, pods *appsv1.Deployment, seen *Observed) (apply.Object, error) {
	_, deployment := obj.(*appsv1.Deployment)
	child := apply.Object{Desired: obj, Independent: !deployment}
	row := children.TypeOf(obj)
	if _, service := obj.(*corev1.Service); service || row.AboutPods {
		child.AboutPodsOf = pods
	}
	if !row.Auxiliary {
		child.Live = seen.LiveObject(obj)
		return child, nil
	}
	child.Auxiliary, child.Prerequisite = true, row.Prerequisite
	if row.Routes {
		child.LeadsTo = &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: seen.ServiceName}}
	}
	child.Unavailable = r.Unavailable(ctx, in, obj)
	if child.Unavailable != nil {
		return child, nil //nolint:nilerr // It is the trouble of this child alone.
	}
	empty, ok := row.Object.DeepCopyObject().(client.Object)
	if !ok {
		return child, fmt.Errorf("%T is no API object", row.Object)
	}
	live, err := GetOrNil(ctx, r.Client, client.ObjectKeyFromObject(obj), empty)
	if live == nil {
		return child, err
	}
	child.Live = live
	if child.LeadsTo != nil && !r.IsPlan() {
		child.Unavailable = awaitEndpoints(ctx, r.Live, in, obj, live, seen)
	}
	return child, nil
}

// isNamed reports whether the live Deployment names a ServiceAccount, or its pods may do so yet.
func (o *Observed) isNamed(account *corev1.ServiceAccount, owner client.Object) bool {
	return o.isOwned(owner) && (o.podTemplate().Spec.ServiceAccountName == account.Name || !o.isReady(owner))
}

// addServing adds the hosts, and the conditions of the auxiliary objects. earlier is the reason why an earlier spec is in force, empty if
// none is.
func (l *liveReport) addServing(in *Input, want *decision, done *ApplyResult, earlier string) {
	if !in.Kind.Serves || in.Undecodable != nil {
		return
	}
	if want.invalid == nil || exposesAsAsked(in, done) {
		l.status.Serving.Hosts = resource.Hosts(in.Around)
	}
	if other := done.Seen.Autoscaler; in.wantsAutoscaler() && other != "" {
		l.auxiliary = reconciler.ReasonAndMessage{
			Reason: appv1.ReasonAutoscalerExists, Message: fmt.Sprintf(messageAutoscalerExists, other, in.Name),
		}
	}
	l.conditions = append(l.conditions,
		standingCondition(in, appv1.ConditionAutoscaled, autoscalingOf(in, done, want.invalid)),
		standingCondition(in, appv1.ConditionExposed, worstStanding(exposuresOf(in, done, want.invalid, earlier))))
}

// autoscalingOf returns how the autoscaler is doing, nil if the spec asks for none. invalid is why the spec is not applied.
func autoscalingOf(in *Input, done *ApplyResult, invalid error) *health.Standing {
	if in.Spec.Serving().Autoscaling == nil {
		return nil
	}
	if other := done.Seen.Autoscaler; other != "" {
		return &health.Standing{
			Status: metav1.ConditionFalse, Reason: appv1.ReasonAutoscalerExists,
			Message: fmt.Sprintf(messageAutoscalerExists, other, in.Name),
		}
	}
	return standingIn(in, done, invalid, "HorizontalPodAutoscaler", health.Autoscaler)
}

// exposuresOf returns how the objects are doing that lead to the Service from outside, none if the spec asks for none. earlier is why an
// earlier spec is in force, empty if none is.
func exposuresOf(in *Input, done *ApplyResult, invalid error, earlier string) []*health.Standing {
	var all []*health.Standing
	if in.Spec.Serving().Ingress != nil {
		all = append(all, exposureIn(in, done, invalid, "Ingress", "ingress", earlier, health.Ingress))
	}
	if in.Spec.Serving().HTTPRoute != nil {
		all = append(all, exposureIn(in, done, invalid, "HTTPRoute", "httpRoute", earlier, health.HTTPRoute))
	}
	return all
}

// exposesAsAsked reports whether the Ingress and the HTTPRoute were applied as far as the spec asks for them. Of an invalid spec they are, if their own
// fields are valid and there is a Service for them.
func exposesAsAsked(in *Input, done *ApplyResult) bool {
	spec := in.Spec.Serving()
	return isAsAsked[*networkingv1.Ingress](done, spec.Ingress != nil) && isAsAsked[*gatewayv1.HTTPRoute](done, spec.HTTPRoute != nil)
}

// isAsAsked reports whether an object of a type was applied, if the spec asks for it, or else that there is none.
func isAsAsked[T client.Object](done *ApplyResult, asked bool) bool {
	_, exists := ownedOf[T](done.Seen)
	return asked == wasApplied[T](done) && (asked || !exists)
}

// ownedOf returns the first object of a type that the owner has, and whether there is one.
func ownedOf[T client.Object](seen *Observed) (obj T, exists bool) {
	for _, owned := range seen.Owned {
		if found, ok := owned.(T); ok {
			return found, true
		}
	}
	return obj, false
}

// wasApplied reports whether an auxiliary object of a type was applied, or could not be.
func wasApplied[T client.Object](done *ApplyResult) bool {
	return slices.ContainsFunc(done.auxiliary, func(out apply.Outcome) bool {
		_, ok := out.Object.Desired.(T)
		return ok
	})
}

// exposureIn is standingIn for an Ingress or HTTPRoute. If the Service of an earlier spec may lack the port, the standing reports that
// nothing is applied.
func exposureIn[T interface {
	comparable
	client.Object
}](in *Input, done *ApplyResult, invalid error, kind, field, earlier string, judge func(T) health.Standing) *health.Standing {
	if earlier == "" || in.Paused || wasApplied[T](done) || !done.auxiliaryKnown {
		return standingIn(in, done, invalid, kind, judge)
	}
	message := messagePortMissing
	if earlier == appv1.ReasonCanary || earlier == appv1.ReasonBeforeRollout {
		message = messagePortWaits
	}
	return &health.Standing{Status: metav1.ConditionFalse, Reason: earlier, Message: fmt.Sprintf(message, kind, in.Name, field)}
}

// standingIn returns the obstacle to the owner's object of type T, or else its absence, or else the result of judge.
func standingIn[T interface {
	comparable
	client.Object
}](in *Input, done *ApplyResult, invalid error, kind string, judge func(T) health.Standing) *health.Standing {
	var none T
	live, trouble := liveAuxiliary[T](done)
	switch {
	case trouble != nil:
		return standingOf(trouble)
	case invalid != nil && (live == none || !in.Paused && !done.hasFailedEarly() && !wasApplied[T](done)):
		return standingOf(invalid) // Nothing creates or changes it before the spec is corrected.
	case live == none:
		return missingStanding(kind, in.Name)
	}
	standing := judge(live)
	return &standing
}

// liveAuxiliary returns the live object of a type of the owner's, as it was applied or else as it was observed, and what is in its way.
func liveAuxiliary[T client.Object](done *ApplyResult) (live T, trouble error) {
	for i := range slices.Backward(done.auxiliary) { // The last application counts.
		out := &done.auxiliary[i]
		if _, ok := out.Object.Desired.(T); ok {
			live, _ = out.Live.(T)
			return live, out.Err
		}
	}
	live, _ = ownedOf[T](done.Seen)
	return live, nil
}

// standingOf says what is in the way of an object.
func standingOf(trouble error) *health.Standing {
	reason, message := reconciler.ReasonAndMessageOf(trouble)
	return &health.Standing{Status: metav1.ConditionFalse, Reason: reason, Message: message}
}

// missingStanding says that an object is not there yet.
func missingStanding(kind, name string) *health.Standing {
	return &health.Standing{
		Status: metav1.ConditionUnknown, Reason: appv1.ReasonProgressing, Message: fmt.Sprintf(messageNotCreatedYet, kind, name),
	}
}

// worstStanding returns the first standing with status False, else Unknown, else True.
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

// standingCondition returns the condition about an auxiliary object, which is there only where the spec asks for the object.
func standingCondition(in *Input, condition string, standing *health.Standing) metav1.Condition {
	if standing == nil {
		return metav1.Condition{Type: condition}
	}
	return metav1.Condition{
		Type: condition, Status: standing.Status, Reason: standing.Reason, Message: standing.Message,
		ObservedGeneration: in.Owner.GetGeneration(),
	}
}

// Unavailable returns why an object of a kind that has a cache of its own can be neither read nor written, nil if it can.
func (r *Reconciler) Unavailable(ctx context.Context, in *Input, obj client.Object) error {
	switch {
	case r.ClusterKinds == nil:
		return nil
	case r.IsPlan():
		return r.ClusterKinds.Look(ctx, obj, in.Owner.GetNamespace())
	}
	return r.ClusterKinds.Check(ctx, obj, clusterkinds.Waiter{Manager: in.fieldManager(), NamespacedName: client.ObjectKeyFromObject(in.Owner)})
}
