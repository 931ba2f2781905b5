package workload

import (
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appv1 "huolala.cn/app-operator/api/v1"
	"huolala.cn/app-operator/api/v1/validation"
	"huolala.cn/app-operator/internal/apply"
	"huolala.cn/app-operator/internal/children"
	"huolala.cn/app-operator/internal/health"
	"huolala.cn/app-operator/internal/reconciler"
	"huolala.cn/app-operator/resource"
)

// While spec.canary is set, a change of the pod template first runs in a second Deployment, and the Deployment of the workload is built
// from the record on it. The second Deployment is the state: nothing about a canary is recorded elsewhere, except for the mark of an
// aborted canary, which is the mark of a rollback. Another change makes another Deployment with another UID, so that a promotion, which
// names the UID, cannot promote anything else.

// observedCanary is the part of an observation about a canary.
type observedCanary struct {
	// name is the name of the Deployment, and object the live Deployment of that name, nil if there is none.
	name   string
	object *appsv1.Deployment
	// pods are the pods of the Deployment, and verdict is its health.
	pods    []corev1.Pod
	verdict health.Verdict
}

// isOwned reports whether the live Deployment is the canary of the owner.
func (o *observedCanary) isOwned(owner client.Object) bool {
	return o.object != nil && metav1.IsControlledBy(o.object, owner)
}

// canaryFate is what becomes of the Deployment of a canary.
type canaryFate int

const (
	// canaryKept leaves the Deployment as it is: an invalid spec, and a rollout after a promotion, change nothing of it.
	canaryKept canaryFate = iota
	// canaryApplied creates the Deployment, or repairs it.
	canaryApplied
	// canaryReplaced deletes the Deployment with its pods, because its pods run another change, and creates another one.
	canaryReplaced
	// canaryDropped deletes the Deployment with its pods.
	canaryDropped
)

// canaryChange is the part of an apply about a canary.
type canaryChange struct {
	fate canaryFate
	// alone is true where the Deployment of the workload cannot be built from its record, and stays as it is.
	alone bool
}

// canaryDecision is the part of a decision about a canary that a report needs.
type canaryDecision struct {
	// waits is true while a canary waits for its promotion.
	waits bool
	// event is the reason of the event once the decision is carried out, empty for none.
	event string
	// stalled is true if the canary has missed its deadline.
	stalled bool
}

// canarySpec returns the valid canary of the spec, nil for none.
func (in *Input) canarySpec() *appv1.CanarySpec {
	if !in.Kind.Serves || !in.isValid() {
		return nil
	}
	return in.Spec.Release().Canary
}

// hasCanary reports whether the canary of the owner exists.
func (c decider) hasCanary() bool { return c.seen.canary.isOwned(c.in.Owner) }

// decideCanary decides for a valid spec whether a change of the pods is rolled out or runs in a canary first. want is the decision to
// roll the change out, and present the workload of the present spec.
func (c decider) decideCanary(want *decision, present *builtSpec) (*decision, error) {
	spec := c.in.canarySpec()
	if spec == nil {
		return c.endCanary(want, appv1.ReasonCanaryAborted), nil
	}
	stable := c.stableWorkload()
	changes, err := c.changesTemplate(stable, present.workload)
	if err != nil {
		return nil, err
	}
	// The aborted content may not be read yet, or be away for a moment: then nothing seems to change.
	if mark := c.abortInForce(present); mark != nil && stable != nil && (changes || c.seen.Deployment() == nil || !present.content.hasAll(&mark.Failed.Content)) {
		return c.decideAborted(want, mark), nil
	}
	switch {
	case !changes && !c.runsInCanary(present):
		return c.endCanary(want, appv1.ReasonCanaryAborted), nil
	case !changes && c.seen.isReady(c.in.Owner): // The promoted change runs in all pods.
		return c.endCanary(want, ""), nil
	case !changes:
		return want, nil
	}
	switch {
	case !c.hasCanary() && !c.hasServingPods(stable):
		return want, nil
	case c.hasCanary() && c.isStopped() && !present.inCanary: // Another spec: no pod runs that it could replace.
		return c.endCanary(want, appv1.ReasonCanaryAborted), nil
	}
	if c.seen.canary.object != nil && !c.hasCanary() {
		return c.refuseCanary(want, stable, present, messageCanaryNameTaken), nil
	}
	if c.runsInCanary(present) {
		promoted, err := c.isPromoted(spec, present)
		switch cause := c.abortCause(); {
		case err != nil:
			return nil, err
		case cause != "" && stable == nil:
			return c.refuseCanary(want, stable, present, messageAbortNeedsRecord), nil
		case cause != "":
			aborted := c.decideAborted(want, c.newAbort(present, cause))
			aborted.canary.event = appv1.ReasonCanaryAborted
			return aborted, nil
		case promoted:
			rollout := *want
			rollout.canary.event = appv1.ReasonCanaryPromoted
			return &rollout, nil
		}
	}
	return c.runCanary(want, stable, present, spec), nil
}

// endCanary returns a decision that deletes the canary as well, if there is one.
func (c decider) endCanary(want *decision, event string) *decision {
	if !c.hasCanary() {
		return want
	}
	ended := *want
	if ended.how.canary.fate = canaryDropped; c.seen.canary.object.DeletionTimestamp == nil { // Else the event was sent at the deletion.
		ended.canary.event = event
	}
	return &ended
}

// runCanary decides that a change runs in the canary.
func (c decider) runCanary(want *decision, stable *resource.Workload, present *builtSpec, spec *appv1.CanarySpec) *decision {
	runs := c.newCanaryDecision(want, stable, present)
	runs.workload = withAccountOf(runs.workload, present.workload)
	runs.how.canary.fate = canaryApplied
	if c.hasCanary() && !c.runsInCanary(present) {
		runs.how.canary.fate = canaryReplaced
	}
	if !c.hasCanary() {
		runs.canary.event = appv1.ReasonCanaryStarted
	}
	runs.canary.stalled = c.runsInCanary(present) && c.seen.canary.verdict.Stalled
	runs.workload.Canary = &resource.Canary{
		Workload: present.workload, Pods: c.canaryPods(spec, present), MinReadySeconds: int32(validation.CanaryAfter(spec).Seconds()),
	}
	return runs
}

// withAccountOf returns a workload with the account that the pods of another workload need as well. Defaults that the first workload does without can have
// the account.
func withAccountOf(w, other *resource.Workload) *resource.Workload {
	if w.Serving == nil || other.Serving == nil || w.Serving.ServiceAccount != nil || other.Serving.ServiceAccount == nil {
		return w
	}
	made, serving := *w, *w.Serving
	serving.ServiceAccount = other.Serving.ServiceAccount
	made.Serving = &serving
	return &made
}

// refuseCanary decides that a change waits, for a reason that a user must remove. A canary that runs stays.
func (c decider) refuseCanary(want *decision, stable *resource.Workload, present *builtSpec, message string) *decision {
	refused := c.newCanaryDecision(want, stable, present)
	reason := appv1.ReasonResourceExists
	if message == messageAbortNeedsRecord {
		reason = appv1.ReasonInvalid
	}
	refused.refusal = reconciler.Stalled(reason, message, c.seen.canary.name, c.in.Name)
	refused.canary.waits = c.hasCanary()
	if stable == nil {
		refused.workload = nil
	}
	return refused
}

// newCanaryDecision returns a decision in which the Deployment of the workload stays as it was last applied.
func (c decider) newCanaryDecision(want *decision, stable *resource.Workload, present *builtSpec) *decision {
	made := *want
	made.useEarlier(sourceCanary)
	made.canary.waits, made.how.canary.alone = true, stable == nil
	made.remember.record = c.recordToRemember()
	if made.workload = stable; stable == nil {
		copied := *present.workload
		made.workload = &copied
	} else {
		made.how.Around = c.aroundNow()
	}
	return &made
}

// stableWorkload returns the workload that the Deployment was last applied for, with the present number of pods. It is nil if that is not
// known, as where the record is a hash.
func (c decider) stableWorkload() *resource.Workload {
	source := c.recordInForce()
	if source == nil {
		return nil
	}
	stable := *source
	switch failed := stable.mark.Failed; { // Of a hold that is over.
	case failed == nil:
		stable.mark = holdMark{}
	case failed.Canary:
		stable.mark = holdMark{By: byAbort, Failed: failed}
	}
	return c.buildHeld(&stable)
}

// changesTemplate reports whether the present spec changes the pod template of the live Deployment. stable is the workload that the
// Deployment was last applied for, nil if that is not known.
func (c decider) changesTemplate(stable, present *resource.Workload) (bool, error) {
	switch live := c.seen.Deployment(); {
	case live == nil && stable == nil:
		return false, nil // The first pods.
	case live == nil:
		return !equality.Semantic.DeepEqual(stable.Template, present.Template), nil
	case !c.seen.isOwned(c.in.Owner) || present.TemplateKept:
		return false, nil
	case stable == nil || stable.TemplateKept:
		if changed, err := c.in.Spec.Changed(recordOf(live), resource.ScopePods); err == nil && changed && c.in.OwnsRecord(live) {
			return true, nil // Also where another writer has put the change into the live template.
		}
		if stable != nil {
			return c.changesKept(present, live)
		}
		holds, err := c.compare.RecordHolds(c.in.fieldManager(), templateOnly(present.Template), templateOnly(live.Spec.Template), live)
		if err != nil || !holds || c.in.OwnsRecord(live) || c.wasInForce() {
			return !holds, err
		}
		matches, err := c.compare.Matches(templateOnly(present.Template), templateOnly(live.Spec.Template)) // Fields of other writers count, too.
		return !matches, err
	}
	return !equality.Semantic.DeepEqual(stable.Template, present.Template), nil
}

// changesKept reports whether the present spec changes a template that was kept at an adoption. The manager owns no field of such a template. The next
// apply removes the containers, the fields of the handover manager, and the fields that the operator applied for another kind (children.IsMark), unless the
// spec states them.
func (c decider) changesKept(present *resource.Workload, live *appsv1.Deployment) (bool, error) {
	wanted := templateOnly(present.Template)
	matches, err := c.compare.Matches(wanted, templateOnly(live.Spec.Template))
	if err != nil || !matches {
		return !matches, err
	}
	is, was := &present.Template.Spec, &live.Spec.Template.Spec
	if len(is.Containers) < len(was.Containers) || len(is.InitContainers) < len(was.InitContainers) {
		return true, nil
	}
	managers := []string{apply.HandoverManager}
	for _, mark := range children.Marks(live.GetManagedFields()) {
		managers = append(managers, mark.Manager)
	}
	for _, manager := range managers {
		if states, err := c.compare.StatesTemplate(manager, wanted, live); err != nil || !states {
			return !states, err
		}
	}
	return false, nil
}

// hasServingPods reports whether the Deployment has, or is to have, pods that a change must not touch at once: it is not stopped, and its
// pods have been ready. stable is the workload that a deleted Deployment is restored from, nil if that is not known.
func (c decider) hasServingPods(stable *resource.Workload) bool {
	live, wereReady := c.seen.Deployment(), c.in.Before.History.LastGood != nil
	switch {
	case c.isStopped():
		return false
	case live == nil:
		return stable != nil && wereReady
	}
	return ptr.Deref(live.Spec.Replicas, 1) > 0 && (wereReady || live.Status.AvailableReplicas > 0)
}

// isStopped reports whether spec.replicas is 0, and counts: where an autoscaler of others decides, it does not.
func (c decider) isStopped() bool {
	return ptr.Deref(c.in.Spec.Workload().Replicas, 1) == 0 && !c.seen.Scaled
}

// canaryPods returns the number of pods of the canary. A percentage counts when the canary of the change starts; the status has the number from then on, as others can
// scale the Deployment.
func (c decider) canaryPods(spec *appv1.CanarySpec, present *builtSpec) int32 {
	live := c.seen.canary.object
	if c.isStopped() {
		return 0
	}
	if spec.Pods != nil && strings.HasSuffix(spec.Pods.StrVal, "%") && c.runsInCanary(present) {
		if is := c.in.Before.Release.Canary; is != nil && is.UID == live.UID && is.Pods > 0 {
			return is.Pods
		}
		if pods := ptr.Deref(live.Spec.Replicas, 1); pods > 0 {
			return pods
		}
	}
	before := ptr.Deref(present.workload.Replicas, ptr.Deref(c.seen.liveReplicas(), 1)) // The workload states none where an autoscaler decides.
	return resource.CanaryPods(spec, before)
}

// canaryHistory returns the history of the canary if the present spec makes its pods. The change then has the inputs of the canary.
func (c decider) canaryHistory() (resource.Provenance, bool) {
	live := c.seen.canary.object
	if c.in.canarySpec() == nil || !c.hasCanary() || !c.in.OwnsRecord(live) {
		return resource.Provenance{}, false
	}
	h := resource.Provenance{Exists: true, Ours: true, Inputs: live.Annotations[appv1.AnnotationLastAppliedInputs]}
	in, err := resource.DecodeInputs(h.Inputs)
	if err != nil || c.in.reshapesPods(&in) {
		return resource.Provenance{}, false
	}
	changed, err := c.in.Spec.Changed(recordOf(live), resource.ScopePods)
	return h, err == nil && (!changed || c.makesSamePods(recordOf(live), in))
}

// makesSamePods reports whether the present spec makes the pod template that a record makes with the same inputs: a change that replaces no
// pod, such as a change of labels of the Deployment, leaves a canary as it is.
func (c decider) makesSamePods(record string, inputs resource.BuildInputs) bool {
	recorded, err := resource.BuildRecorded(c.in.Spec, record, c.optionsFor(inputs))
	if err != nil {
		return false // The record is a hash, or cannot be read.
	}
	present, errs := c.buildWorkload(inputs)
	return len(errs) == 0 && equality.Semantic.DeepEqual(recorded.Template, present.Template)
}

// runsInCanary reports whether the canary was made for the present spec with the chosen inputs.
func (c decider) runsInCanary(present *builtSpec) bool {
	history, ok := c.canaryHistory()
	if !ok {
		return false
	}
	is, err := resource.DecodeInputs(history.Inputs)
	return err == nil && is.SameTemplate(&present.inputs)
}

// isPromoted reports whether a canary of the present spec is to be rolled out: a user requests it, or all its pods have been available,
// and nobody has changed their template.
func (c decider) isPromoted(spec *appv1.CanarySpec, present *builtSpec) (bool, error) {
	live := c.seen.canary.object
	if uid := c.in.Owner.GetAnnotations()[appv1.AnnotationPromote]; uid != "" && uid == string(live.UID) {
		return true, nil
	}
	after := validation.CanaryAfter(spec)
	if after == 0 || live.Spec.Paused || live.Spec.MinReadySeconds < int32(after.Seconds()) {
		return false, nil
	}
	pods, is := c.canaryPods(spec, present), &live.Status
	if pods == 0 || ptr.Deref(live.Spec.Replicas, 1) != pods || is.ObservedGeneration < live.Generation ||
		is.Replicas != pods || is.UpdatedReplicas != pods || is.AvailableReplicas != pods {
		return false, nil
	}
	canary := resource.Canary{Workload: present.workload}
	return c.compare.RecordHolds(c.in.fieldManager(), templateOnly(canary.Template()), templateOnly(live.Spec.Template), live)
}

// splitPods returns the pods of a workload without the pods of its canary, and the pods of its canary.
func splitPods(pods []corev1.Pod, canary string) (stable, ofCanary []corev1.Pod) {
	for i := range pods {
		if ofDeployment(&pods[i], canary) {
			ofCanary = append(ofCanary, pods[i])
			continue
		}
		stable = append(stable, pods[i])
	}
	return stable, ofCanary
}
