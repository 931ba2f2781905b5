package workload

import (
	"cmp"
	"errors"
	"fmt"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	appv1 "huolala.cn/app-operator/api/v1"
	"huolala.cn/app-operator/internal/apply"
	"huolala.cn/app-operator/internal/health"
	"huolala.cn/app-operator/internal/reconciler"
	"huolala.cn/app-operator/resource"
)

// This file makes the result of a reconcile from the input, the decision and the outcomes. Each function returns one part of the result,
// and newResult puts the parts together. The controllers add the lines that wait for the end of a pause.

// newResult returns the result of a reconcile, and its error.
func newResult(in *Input, want *decision, done *ApplyResult) (Result, error) {
	err := want.errorAfterApply(in, done)
	inForce, why := want.holdInForce(done.Seen.Deployment())
	said := summarizeChanges(done.Changes)
	auxiliary, retryAuxiliary := troubleOf(done.troubles)
	about := aboutDatabase
	if !in.isDatabase() {
		about = aboutDeployment
	}
	live := about(in, want, done, want.whyEarlier(why.Reason))
	pods, canary := live.pods, aboutCanary(in, want, done)
	live.conditions, live.status.Release.Canary = append(live.conditions, canary.conditions...), canary.status
	if canary.why.Reason != "" {
		inForce, why = reconciler.Canary, canary.why
	}
	if canary.stalled != nil && pods.Ready {
		pods = *canary.stalled
	}
	event := said.event
	if want.unrecorded {
		event.Warning = recordMessage(in)
	}
	switch {
	case canary.event.Reason != "":
		event.AddStep(canary.event.Reason, canary.event.Message)
	case live.event.Reason != "" && event.Action != "":
		event.AddStep(live.event.Reason, live.event.Note)
	}
	if done.startedJob != "" {
		event.AddStep(appv1.ReasonBeforeRolloutStarted, fmt.Sprintf(messageJobStarted, done.startedJob))
	}
	if auxiliary.Reason == "" {
		auxiliary.ReasonAndMessage = live.auxiliary
	}
	made := Result{
		Report: reconciler.Report{
			Pods: podsInForce(want, pods, why, err), InForce: inForce, Why: why, Pause: pauseOf(in, done), PendingKey: done.heldBack,
			Note: firstNote(said.note, ignoredReplicas(in, want, done.Seen.Autoscaler), live.note), Auxiliary: auxiliary,
			Conditions: live.conditions, Event: event,
		},
		Status: live.status, PodsReady: live.pods.Ready, Seen: done.Seen, SecretChecked: done.SecretChecked,
	}
	for _, after := range []time.Duration{want.retryAfter, said.retry, done.serviceGrace, retryAuxiliary, live.pods.Again, live.retry} {
		made.Report.RetryAfter = reconciler.MinRequeue(made.Report.RetryAfter, after)
	}
	if (want.source == sourceLastApplied || want.source == sourceWaiting) && want.workload != nil && !want.how.Alone {
		made.LastApplied = want.workload.Record[appv1.AnnotationLastAppliedSpec]
	}
	return made, err
}

// holdInForce returns which spec is in force by a hold or a rollback, with the reason and the message; Present without one. The error of the reconcile
// reports an earlier spec that is in force for want of a valid or a released one, and aboutCanary the spec next to a canary. live is the Deployment, whose
// pods may be those of a kept template.
func (want *decision) holdInForce(live *appsv1.Deployment) (reconciler.InForce, reconciler.ReasonAndMessage) {
	if want.held == nil {
		return reconciler.Present, reconciler.ReasonAndMessage{}
	}
	mark, image := &want.held.mark, imageInForce(want.workload, live)
	if mark.Failed != nil && mark.Failed.Canary && (mark.By == byAbort || mark.rolledBack()) {
		return reconciler.RolledBack, reconciler.ReasonAndMessage{
			Reason: appv1.ReasonRolledBack, Message: fmt.Sprintf(messageCanaryRolledBack, mark.Failed.Image, mark.Failed.Cause, image),
		}
	}
	if mark.rolledBack() && mark.Failed.Defaults != "" {
		return reconciler.RolledBack, reconciler.ReasonAndMessage{
			Reason: appv1.ReasonRolledBack, Message: fmt.Sprintf(messageDefaultsRolledBack, mark.Failed.Cause, mark.ReplicaSet),
		}
	}
	if mark.rolledBack() {
		return reconciler.RolledBack, reconciler.ReasonAndMessage{
			Reason:  appv1.ReasonRolledBack,
			Message: fmt.Sprintf(messageRolledBack, mark.Failed.Image, mark.Failed.Cause, image, mark.ReplicaSet),
		}
	}
	return reconciler.Held, reconciler.ReasonAndMessage{Reason: appv1.ReasonHeld, Message: fmt.Sprintf(messageHeld, mark.ReplicaSet, image)}
}

// imageInForce returns the image of the main container: of the live Deployment if that keeps its template, or else of the workload.
func imageInForce(w *resource.Workload, live *appsv1.Deployment) string {
	main := &w.Template.Spec.Containers[0]
	if live == nil || !w.TemplateKept {
		return main.Image
	}
	return cmp.Or(liveImage(live, main.Name), main.Image)
}

// liveImage returns the image of the main container of a live Deployment: of the container with a name, or else of the first one. The image is empty for a
// Deployment that the cache has in part, without containers.
func liveImage(live *appsv1.Deployment, main string) string {
	containers := live.Spec.Template.Spec.Containers
	if len(containers) == 0 {
		return ""
	}
	return resource.ContainerOf(containers, main).Image
}

// whyEarlier returns the reason why the objects are those of an earlier valid spec, empty if they are not. held is the reason of a hold.
func (want *decision) whyEarlier(held string) string {
	switch want.source {
	case sourceCanary:
		return appv1.ReasonCanary
	case sourceBeforeRollout:
		return appv1.ReasonBeforeRollout
	}
	return held
}

// pauseOf returns the effect of spec.paused.
func pauseOf(in *Input, done *ApplyResult) reconciler.Pause {
	switch {
	case done.pending:
		return reconciler.Pending
	case in.Paused:
		return reconciler.Paused
	}
	return reconciler.NotPaused
}

// podsInForce returns the health of the pods with the reason why an earlier spec is in force, and why a rollout is not rolled back.
func podsInForce(want *decision, pods health.Verdict, why reconciler.ReasonAndMessage, err error) health.Verdict {
	if want.held != nil && err == nil {
		if !pods.Ready {
			pods.Message = why.Message + ". " + pods.Message
		}
		pods.Reason = why.Reason
	}
	if want.notRolledBack != "" && pods.Stalled {
		pods.Message += ". " + messageNotRolledBack + want.notRolledBack
	}
	return pods
}

// firstNote returns the first of several notes that has a reason, an empty note if none has.
func firstNote(notes ...reconciler.ReasonAndMessage) reconciler.ReasonAndMessage {
	for _, note := range notes {
		if note.Reason != "" {
			return note
		}
	}
	return reconciler.ReasonAndMessage{}
}

// changeSummary has the changes of the applies of a reconcile in words.
type changeSummary struct {
	event reconciler.Event
	// note names the fields that the API server did not keep, and retry is when to apply them again.
	note  reconciler.ReasonAndMessage
	retry time.Duration
}

// summarizeChanges returns the changes of several applies in words.
func summarizeChanges(all []apply.ChangeSet) changeSummary {
	var made changeSummary
	for _, changes := range all {
		action, line := changes.Summary()
		made.event.AddChanges(string(action), line)
		if message, retry := changes.Overridden(); message != "" {
			made.note = reconciler.ReasonAndMessage{Reason: appv1.ReasonOverridden, Message: message}
			made.retry = reconciler.MinRequeue(made.retry, retry)
		}
	}
	return made
}

// EventOf returns the content of the event about the changes of an apply.
func (a *ApplyResult) EventOf() reconciler.Event { return summarizeChanges(a.Changes).event }

// recordMessage returns the warning that only a hash of the spec is recorded.
func recordMessage(in *Input) string {
	if in.isDatabase() {
		return messageDatabaseRecordTooLong
	}
	return messageRecordTooLong
}

// liveReport has the part of a result about the live objects of a workload.
type liveReport struct {
	status Status
	pods   health.Verdict
	// note describes a deviation from the spec in force, auxiliary a problem of an auxiliary object.
	note, auxiliary reconciler.ReasonAndMessage
	conditions      []metav1.Condition
	// event, if it has a reason, is in place of the reason of an event about changes. retry is when to look again.
	event reconciler.Event
	retry time.Duration
}

// aboutDeployment returns the part of a result about a Deployment, its Service and its auxiliary objects. earlier is the reason why an
// earlier spec is in force, empty if none is.
func aboutDeployment(in *Input, want *decision, done *ApplyResult, earlier string) liveReport {
	seen, deployment := done.Seen, done.Seen.Deployment()
	live := liveReport{status: in.Before}
	if deployment != nil && seen.isOwned(in.Owner) {
		live.status.Workload, live.pods = StatusOf(in, seen, want.today)
	} else {
		live.status.Workload, live.pods = MissingStatus(in, seen, want.lost)
		live.pods = withPrerequisite(live.pods, done.auxiliary)
	}
	var kept string
	live.note, kept = keptNote(in, deployment)
	live.pods.Message += kept
	live.addServing(in, want, done, earlier)
	live.addContent(in, &want.content, deployment)
	live.conditions = append(live.conditions, unstatedReplicas(in, seen))
	live.status.History, live.status.Defaults = historyOf(in, want, seen, live.pods.Ready), defaultsOf(in, want, seen)
	return live
}

// aboutDatabase returns the part of a result about a StatefulSet and its Service.
func aboutDatabase(in *Input, want *decision, done *ApplyResult, _ string) liveReport {
	seen, live := done.Seen, liveReport{status: in.Before}
	status := &live.status.Workload
	if service := seen.Service; service != nil && metav1.IsControlledBy(service, in.Owner) {
		status.Endpoint = resource.Endpoint(service)
	}
	set := seen.StatefulSet()
	if set == nil || !metav1.IsControlledBy(set, in.Owner) {
		status.Ready = fmt.Sprintf("0/%d", ptr.Deref(in.Spec.Workload().Replicas, 1))
		live.pods.Reason, live.pods.Message = appv1.ReasonProgressing, fmt.Sprintf(messageNotCreatedYet, "StatefulSet", in.Name)
		return live
	}
	status.Ready = fmt.Sprintf("%d/%d", set.Status.ReadyReplicas, ptr.Deref(set.Spec.Replicas, 1))
	*status = withInputs(*status, set, want.today)
	live.pods = podsOf(seen.Verdict, seen.Service)
	if seen.Data != nil {
		live.note = seen.Data.Note()
	}
	return live
}

// ignoredReplicas returns the note that an autoscaler sets the number of pods, and spec.replicas has no effect.
func ignoredReplicas(in *Input, want *decision, autoscaler string) reconciler.ReasonAndMessage {
	if want.source == sourceHeld || want.invalid != nil || autoscaler == "" || in.Spec.Workload().Replicas == nil {
		return reconciler.ReasonAndMessage{}
	}
	return reconciler.ReasonAndMessage{
		Reason:  appv1.ReasonReplicasIgnored,
		Message: fmt.Sprintf(messageReplicasIgnored, autoscaler, in.objectKind(), in.Name),
	}
}

// keptNote returns the note that the pod template is kept, and the words about its pods; both are empty if it is not.
func keptNote(in *Input, live *appsv1.Deployment) (note reconciler.ReasonAndMessage, pods string) {
	if !in.Kind.Holds || live == nil || !metav1.IsControlledBy(live, in.Owner) {
		return reconciler.ReasonAndMessage{}, ""
	}
	inputs, err := inputsOf(live)
	if err != nil || !inputs.Kept {
		return reconciler.ReasonAndMessage{}, ""
	}
	text, pods := messageTemplateKept, messagePodsKept
	if inputs.Defaults != "" {
		text, pods = messageTemplateKeptDefaults, messagePodsKeptDefaults
	}
	return reconciler.ReasonAndMessage{Reason: appv1.ReasonTemplateKept, Message: fmt.Sprintf(text, live.Name)}, pods
}

// troubleOf returns the problem of auxiliary objects, of several applies that of the last one, and when to look again.
func troubleOf(troubles []error) (reconciler.Trouble, time.Duration) {
	var made reconciler.Trouble
	var retry time.Duration
	for _, err := range troubles {
		made.Reason, made.Message = reconciler.ReasonAndMessageOf(err)
		var stalled *reconciler.StalledError
		var waiting *reconciler.WaitingError
		switch {
		case errors.As(err, &stalled):
			retry = reconciler.MinRequeue(retry, stalled.RetryAfter)
		case errors.As(err, &waiting):
			retry = reconciler.MinRequeue(retry, waiting.RetryAfter)
		default:
			made.Retry = err
		}
	}
	return made, retry
}

// withPrerequisite returns the health of the pods of a workload without a Deployment, with the obstacle to an object that its first pod
// waits for.
func withPrerequisite(pods health.Verdict, auxiliary []apply.Outcome) health.Verdict {
	missing := missingPrerequisite(auxiliary)
	if missing == nil {
		return pods
	}
	pods.Reason, pods.Message = reconciler.ReasonAndMessageOf(missing)
	var stalled *reconciler.StalledError
	pods.Stalled = errors.As(missing, &stalled)
	return pods
}
