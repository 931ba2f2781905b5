package workload

import (
	appv1 "huolala.cn/app-operator/api/v1"
	"huolala.cn/app-operator/resource"
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

// newAbort returns the mark of a canary that is aborted. The mark has the wave whose defaults the canary ran with, if no pods have been ready with these
// yet: the wave is still what stops a rollout.
func (c decider) newAbort(present *builtSpec, cause string) *holdMark {
	record := recordOf(c.seen.canary.object)
	if len(record) > maxFailedRecord {
		record = c.in.Spec.Identity()
	}
	failed := &failedSpec{
		Identity: record, Refresh: present.inputs.Refresh, Image: mainImage(present.workload), Cause: cause,
		Canary: true, Content: present.inputs.Config.Mark(),
	}
	if !present.inputs.Wave.IsZero() && !c.hasDefaultsInForce(&present.inputs) {
		failed.Wave, failed.Taken = present.inputs.Wave, present.inputs.DefaultsDigest()
	}
	return &holdMark{By: byAbort, Failed: failed}
}

// hasDefaultsInForce reports whether the record in force has the defaults of inputs: that record has their wave, and the status has the readiness of its pods.
func (c decider) hasDefaultsInForce(inputs *resource.BuildInputs) bool {
	source := c.recordInForce()
	if source == nil {
		return false
	}
	is, err := resource.DecodeInputs(source.inputs)
	return err == nil && is.HasPresentDefaults(c.in.Spec.WithDefaults(""), inputs)
}

// abortInForce returns the mark of an aborted canary of the present spec, nil if there is none. A hold that is over keeps the failed spec of the abort.
func (c decider) abortInForce(present *builtSpec) *holdMark {
	source := c.recordInForce()
	if source == nil || source.mark.Failed == nil || !source.mark.Failed.Canary {
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
