package workload

import (
	appv1 "huolala.cn/app-operator/api/v1"
)

// byAbort is the value of By in the mark of an aborted canary.
const byAbort = "abort"

// abortCause returns why a canary of the present spec is to be aborted, empty if it is not: a user requests it, or the canary has missed
// its deadline and a rollout that stalls is to be rolled back.
func (c decider) abortCause() string {
	canary := &c.seen.canary
	if uid := c.in.Owner.GetAnnotations()[appv1.AnnotationAbort]; uid != "" && uid == string(canary.object.UID) {
		return messageAbortedByUser
	}
	if canary.verdict.Stalled && c.mayRollBack() && !c.in.Paused {
		return cutCause(&canary.verdict)
	}
	return ""
}

// newAbort returns the mark of a canary that is aborted.
func (c decider) newAbort(present *builtSpec, cause string) *holdMark {
	record := recordOf(c.seen.canary.object)
	if len(record) > maxFailedRecord {
		record = c.in.Spec.Identity()
	}
	return &holdMark{By: byAbort, Failed: &failedSpec{
		Identity: record, Refresh: present.inputs.Refresh, Image: mainImage(present.workload), Cause: cause,
		Canary: true, Content: present.inputs.Config.Mark(),
	}}
}

// abortInForce returns the mark of an aborted canary of the present spec, nil if there is none.
func (c decider) abortInForce(present *builtSpec) *holdMark {
	source := c.recordInForce()
	if source == nil || source.mark.By != byAbort || source.mark.Failed == nil {
		return nil
	}
	failed := c.stillFailed(source.mark.Failed)
	if failed == nil || present.content.differsFrom(&failed.Content) {
		return nil
	}
	return &holdMark{By: byAbort, Failed: failed}
}

// decideAborted decides that a change whose canary was aborted waits: the Deployment stays as it was last applied, and has the mark.
func (c decider) decideAborted(want *decision, mark *holdMark) *decision {
	aborted := *want
	source := *c.recordInForce()
	source.mark = *mark
	aborted.useEarlier(sourceHeld)
	aborted.how.Around = c.aroundNow()
	if aborted.remember.record = c.recordToRemember(); aborted.remember.record != nil {
		aborted.remember.record.mark = *mark // Also if the Deployment is deleted before the next reconcile.
	}
	aborted.workload, aborted.held = c.buildHeld(&source), &source
	if c.hasCanary() {
		aborted.how.canary.fate = canaryDropped
	}
	return &aborted
}
