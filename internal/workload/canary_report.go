package workload

import (
	"fmt"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	appv1 "huolala.cn/app-operator/api/v1"
	"huolala.cn/app-operator/api/v1/validation"
	"huolala.cn/app-operator/internal/health"
	"huolala.cn/app-operator/internal/reconciler"
	"huolala.cn/app-operator/resource"
)

// canaryReport has the part of a result about the canary of a workload.
type canaryReport struct {
	// status is the status of the canary, nil if there is none.
	status *appv1.CanaryStatus
	// conditions has the condition CanaryReady.
	conditions []metav1.Condition
	// why is the reason and the message of a spec that waits for the promotion of the canary, empty if the spec does not wait.
	why reconciler.ReasonAndMessage
	// stalled is the health of the pods of a canary that waits and has missed its deadline, nil for another canary.
	stalled *health.Verdict
	// event, if it has a reason, is in place of the reason and the note of the event.
	event reconciler.ReasonAndMessage
}

// aboutCanary returns the part of a result about the canary.
func aboutCanary(in *Input, want *decision, done *ApplyResult) canaryReport {
	var made canaryReport
	if !in.Kind.Serves {
		return made
	}
	seen := done.Seen
	condition := metav1.Condition{Type: appv1.ConditionCanaryReady}
	promoted := want.source == sourcePresent && !in.Paused
	if seen.canary.isOwned(in.Owner) && !promoted && want.how.canary.fate != canaryDropped {
		made.status = canaryStatus(in, want, seen)
		condition = canaryCondition(seen.canary.object, &seen.canary.verdict, in.Owner.GetGeneration())
	}
	made.conditions = []metav1.Condition{condition}
	if want.canary.waits && want.workload != nil {
		made.why = canaryInForce(in, want, seen, made.status)
		if want.canary.stalled {
			made.stalled = &seen.canary.verdict
		}
	}
	if done.Err == nil && !in.Paused {
		made.event = canaryEvent(want, seen)
	}
	return made
}

// canaryInForce returns the reason and the message of a canary that waits. seen is the observation after the apply, and status the status
// of the canary.
func canaryInForce(in *Input, want *decision, seen *Observed, status *appv1.CanaryStatus) reconciler.ReasonAndMessage {
	canary, spec := want.workload.Canary, in.canarySpec()
	if canary == nil || spec == nil {
		return reconciler.ReasonAndMessage{Reason: appv1.ReasonCanary, Message: fmt.Sprintf(messageCanaryWaits, seen.canary.name)}
	}
	earlier := int32(0)
	if live := seen.Deployment(); live != nil {
		earlier = ptr.Deref(live.Spec.Replicas, 1)
	}
	pods := "1 pod runs"
	if canary.Pods != 1 {
		pods = fmt.Sprintf("%d pods run", canary.Pods)
	}
	message := fmt.Sprintf(messageCanaryRuns, pods, mainImage(canary.Workload), earlier)
	switch {
	case spec.Promote != appv1.PromoteAuto:
		name := in.Name // As the plug-in has it, where the kind App is left out.
		if in.Kind.Name != resource.KindApp.Name {
			name = strings.ToLower(in.Kind.Name) + "/" + name
		}
		message += fmt.Sprintf(messageCanaryManual, name, in.Owner.GetNamespace())
	case status != nil && status.PromoteAt != nil:
		message += fmt.Sprintf(messageCanaryPromotedAt, status.PromoteAt.UTC().Format("2006-01-02 15:04:05"))
	default:
		message += fmt.Sprintf(messageCanaryAuto, spec.After)
	}
	return reconciler.ReasonAndMessage{Reason: appv1.ReasonCanary, Message: message}
}

// canaryEvent returns the reason and the note of the event about a step of a canary, empty if the decision has none.
func canaryEvent(want *decision, seen *Observed) reconciler.ReasonAndMessage {
	made := reconciler.ReasonAndMessage{Reason: want.canary.event}
	if made.Reason == "" {
		return made
	}
	image := mainImage(want.workload)
	if want.workload.Canary != nil {
		image = mainImage(want.workload.Canary.Workload)
	}
	switch made.Reason {
	case appv1.ReasonCanaryStarted:
		made.Message = fmt.Sprintf(messageCanaryStarted, seen.canary.name, image)
	case appv1.ReasonCanaryPromoted:
		made.Message = fmt.Sprintf(messageCanaryPromoted, seen.canary.name, image)
	default:
		made.Message = fmt.Sprintf(messageCanaryAborted, seen.canary.name)
	}
	return made
}

// canaryStatus returns the status of the canary.
func canaryStatus(in *Input, want *decision, seen *Observed) *appv1.CanaryStatus {
	live, before := seen.canary.object, in.Before.Release.Canary
	is := &appv1.CanaryStatus{
		Name: live.Name, UID: live.UID, Image: liveImage(live, want.canaryContainer(in)),
		Pods: ptr.Deref(live.Spec.Replicas, 1), Ready: live.Status.ReadyReplicas,
	}
	if !live.CreationTimestamp.IsZero() {
		is.Since = ptr.To(live.CreationTimestamp)
	}
	spec := in.canarySpec()
	if spec == nil || validation.CanaryAfter(spec) == 0 || want.how.canary.fate != canaryApplied || !isCanaryReady(live) {
		return is
	}
	if before != nil && before.UID == is.UID && before.PromoteAt != nil {
		is.PromoteAt = before.PromoteAt
		return is
	}
	is.PromoteAt = ptr.To(metav1.NewTime(seen.At.Add(validation.CanaryAfter(spec))).Rfc3339Copy())
	return is
}

// canaryContainer returns the name of the main container of a canary: as the workload has it, or else the name without a statement in the spec.
func (want *decision) canaryContainer(in *Input) string {
	w := want.workload
	switch {
	case w == nil:
		return in.Name
	case w.Canary != nil:
		w = w.Canary.Workload
	}
	return w.Template.Spec.Containers[0].Name
}

// isCanaryReady reports whether every pod of a canary is ready.
func isCanaryReady(live *appsv1.Deployment) bool {
	pods, is := ptr.Deref(live.Spec.Replicas, 1), &live.Status
	return pods > 0 && is.ObservedGeneration >= live.Generation && is.UpdatedReplicas == pods && is.ReadyReplicas == pods
}

// canaryCondition returns the condition CanaryReady.
func canaryCondition(live *appsv1.Deployment, verdict *health.Verdict, generation int64) metav1.Condition {
	made := metav1.Condition{
		Type: appv1.ConditionCanaryReady, Status: metav1.ConditionFalse, Reason: verdict.Reason, Message: verdict.Message,
		ObservedGeneration: generation,
	}
	if isCanaryReady(live) {
		made.Status, made.Reason, made.Message = metav1.ConditionTrue, appv1.ReasonReady, ""
	}
	return made
}
