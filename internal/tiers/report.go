package tiers

import (
	"cmp"
	"errors"
	"fmt"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	appv1 "huolala.cn/app-operator/api/v1"
	"huolala.cn/app-operator/internal/apply"
	"huolala.cn/app-operator/internal/health"
	"huolala.cn/app-operator/internal/reconciler"
)

// Report returns the status after the one before, and the report. removed are the objects of earlier names that were deleted.
func (p *Plan) Report(before *appv1.CloudManagerStatus, removed apply.ChangeSet) (appv1.CloudManagerStatus, reconciler.Report) {
	status := *before
	for i, of := range []*appv1.TierStatus{&status.DB, &status.Identity, &status.Front} {
		*of = p.Tiers[i].tierStatus()
	}
	status.Phase, status.Ready = p.nextPhase(before.Phase, before.Ready)

	report := p.summarizeTiers()
	for i := range p.Tiers {
		report.AddCondition(p.Tiers[i].readyCondition(p.CloudManager.Generation))
	}
	if status.Phase != before.Phase && (before.Phase != "" || status.Phase != appv1.PhasePending) {
		report.Event.Reason, report.Event.Note = "Updated", "phase "+string(status.Phase)
	}
	if action, line := removed.Summary(); line != "" {
		report.Event.Reason = string(action)
		report.Event.AddChanges(string(action), line)
	}
	return status, report
}

// tierStatus is what the status says of the tier.
func (t *State) tierStatus() appv1.TierStatus {
	return appv1.TierStatus{
		Name: t.Name, Ready: t.Status.Ready, Endpoint: t.Status.Endpoint,
		Rendering: t.Status.Rendering, LatestRendering: t.Status.LatestRendering,
		Size: t.Status.Size, LatestSize: t.Status.LatestSize,
	}
}

// readyCondition is the condition that reports the tier.
func (t *State) readyCondition(generation int64) metav1.Condition {
	c := metav1.Condition{
		Type: t.condition, Status: metav1.ConditionFalse, ObservedGeneration: generation,
		Reason: t.Report.Pods.Reason, Message: t.Report.Pods.Message,
	}
	switch err := t.trouble(); {
	case err != nil:
		c.Reason, c.Message = reconciler.ReasonAndMessageOf(err)
	case t.Action == Kept:
		c.Reason, c.Message = appv1.ReasonDependencyNotReady, t.waitMessage()
	case t.Report.Pods.Ready && t.Report.Pause == reconciler.Pending:
		c.Status, c.Reason, c.Message = metav1.ConditionUnknown, appv1.ReasonPaused, fmt.Sprintf(messageTierPaused, t.Name)
	case t.Report.Pods.Ready:
		c.Status = metav1.ConditionTrue
	}
	return c
}

// nextPhase says how far the CloudManager has come, and how many tiers are available. Until it is known how a tier takes a change, what
// was said before still holds.
func (p *Plan) nextPhase(before appv1.Phase, ready string) (appv1.Phase, string) {
	var next *State // The first that is not available, or has yet to replace one of an earlier name.
	available, renaming, down, unknown := 0, false, false, false
	for i := range p.Tiers {
		t := &p.Tiers[i]
		var waiting *reconciler.WaitingError
		switch {
		case t.Availability.available:
			available++
		case !t.Availability.observed, errors.As(t.Err, &waiting):
			unknown = true
		default:
			down = true
		}
		renaming = renaming || len(t.Previous) > 0
		if next == nil && (!t.Availability.available || len(t.Previous) > 0) {
			next = t
		}
	}
	figures := fmt.Sprintf("%d/%d", available, len(p.Tiers))
	wasReady := (before == appv1.PhaseReady || before == appv1.PhaseDegraded) && !renaming
	switch {
	case next == nil:
		return appv1.PhaseReady, figures
	case wasReady && unknown && !down:
		return before, ready
	case wasReady:
		return appv1.PhaseDegraded, figures
	case len(next.after) == 0 && !next.Availability.exists && len(next.Previous) == 0:
		return appv1.PhasePending, figures
	}
	return next.phase, figures
}

// summarizeTiers is the report on all tiers: that of the first that is not ready, and what was written for any.
func (p *Plan) summarizeTiers() reconciler.Report {
	report := reconciler.Report{Pods: health.Verdict{Ready: true, Reason: appv1.ReasonReady}}
	var messages []string
	for i := range p.Tiers {
		t := &p.Tiers[i]
		t.mergeInto(&report)
		messages = append(messages, t.Report.Pods.Message)
		if report.Pods.Ready && !t.Report.Pods.Ready {
			report.Pods.Ready, report.Pods.Stalled = false, t.Report.Pods.Stalled
			report.Pods.Reason, report.Pods.Message = t.Report.Pods.Reason, t.Report.Pods.Message
		}
	}
	for i := range p.Tiers {
		if t := &p.Tiers[i]; report.Pods.Ready && len(t.Previous) > 0 {
			report.Pods.Ready, report.Pods.Reason = false, appv1.ReasonProgressing
			report.Pods.Message = fmt.Sprintf(messageRemovingPrevious, t.Name, t.Previous[0].GetName())
			if t.lendsService() {
				report.Pods.Message = fmt.Sprintf(messageLendsService, t.Name, t.Previous[0].GetName())
			}
		}
	}
	if report.Pods.Ready {
		report.Pods.Message = strings.Join(messages, "; ")
	}
	return report
}

// mergeInto adds to a report of all tiers what the tier has to say next to how its pods are doing.
func (t *State) mergeInto(report *reconciler.Report) {
	report.Pause = max(report.Pause, t.Report.Pause)
	report.PendingKey += t.Report.PendingKey
	report.RetryAfter = reconciler.MinRequeue(report.RetryAfter, t.Report.RetryAfter)
	if t.lendsService() {
		report.RetryAfter = reconciler.MinRequeue(report.RetryAfter, t.Service.Grace)
	}
	if report.Auxiliary.Reason == "" {
		report.Auxiliary = t.Report.Auxiliary
	}
	report.Event.Warning = cmp.Or(report.Event.Warning, t.Report.Event.Warning)
	report.Note = mergeNotes(report.Note, t.Report.Note)
	if t.Action != Applied && report.InForce == reconciler.Present {
		report.InForce = reconciler.Earlier
		report.Why = reconciler.ReasonAndMessage{Reason: appv1.ReasonDependencyNotReady, Message: t.waitMessage()}
	}
	report.Event.AddChanges(t.Report.Event.Action, t.Report.Event.Changes)
}

// mergeNotes returns the note of a report of all tiers: the first one, with the messages of all notes of its reason. A note about overridden fields replaces
// any other one, as the next reconcile reads it from the status.
func mergeNotes(first, next reconciler.ReasonAndMessage) reconciler.ReasonAndMessage {
	switch {
	case first.Reason == "", next.Reason == appv1.ReasonOverridden && first.Reason != appv1.ReasonOverridden:
		return next
	case first.Reason == next.Reason:
		return reconciler.ReasonAndMessage{Reason: first.Reason, Message: first.Message + " " + next.Message}
	}
	return first
}
