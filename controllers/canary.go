package controllers

import (
	"fmt"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appv1 "huolala.cn/app-operator/api/v1"
	"huolala.cn/app-operator/internal/health"
	"huolala.cn/app-operator/internal/reconciler"
	"huolala.cn/app-operator/resource"
)

// While spec.canary is set, a change of the pod template first runs in a second Deployment, and the Deployment of the workload is built
// from the record on it. The second Deployment is the state: nothing about a canary is recorded elsewhere, except for the mark of an
// aborted canary, which is the mark of a rollback. Another change makes another Deployment with another UID, so that a promotion, which
// names the UID, cannot promote anything else.

// byAbort is the value of By in the mark of an aborted canary.
const byAbort = "abort"

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

// canaryDecision is the part of a decision about a canary.
type canaryDecision struct {
	fate canaryFate
	// waits is true while a canary waits for its promotion.
	waits bool
	// event is the reason of the event once the decision is carried out, empty for none.
	event string
	// alone is true where the Deployment of the workload cannot be built from its record, and stays as it is.
	alone bool
	// stalled is true if the canary has missed its deadline.
	stalled bool
}

// canarySpec returns the valid canary that the spec asks for, nil for none.
func (d *target) canarySpec() *appv1.CanarySpec {
	if d.release == nil || d.undecodable != nil || len(d.errs) > 0 {
		return nil
	}
	return d.spec.Release().Canary
}

// hasCanary reports whether the canary of the owner exists.
func (c decider) hasCanary() bool { return c.seen.canary.isOwned(c.d.owner) }

// decideCanary decides for a valid spec whether a change of the pods is rolled out or runs in a canary first. want is the decision to
// roll the change out, and present the workload of the present spec.
func (c decider) decideCanary(want *decision, present *chosenInputs) (*decision, error) {
	spec := c.d.canarySpec()
	if spec == nil {
		return c.endCanary(want, appv1.ReasonCanaryAborted), nil
	}
	stable := c.stableWorkload()
	changes, err := c.changesTemplate(stable, present.workload)
	switch {
	case err != nil:
		return nil, err
	case !changes && !c.runsInCanary(present):
		return c.endCanary(want, appv1.ReasonCanaryAborted), nil
	case !changes && c.seen.isReady(c.d.owner): // The promoted change runs in all pods.
		return c.endCanary(want, ""), nil
	case !changes:
		return want, nil
	}
	if mark := c.abortInForce(present); mark != nil && stable != nil {
		return c.decideAborted(want, mark), nil
	}
	if !c.hasCanary() && !c.serves() {
		return want, nil
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
			aborted.how.canary.event = appv1.ReasonCanaryAborted
			return aborted, nil
		case promoted:
			rollout := *want
			rollout.how.canary.event = appv1.ReasonCanaryPromoted
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
	ended.how.canary = canaryDecision{fate: canaryDropped, event: event}
	return &ended
}

// runCanary decides that a change runs in the canary.
func (c decider) runCanary(want *decision, stable *resource.Workload, present *chosenInputs, spec *appv1.CanarySpec) *decision {
	runs := c.newCanaryDecision(want, stable, present)
	runs.how.canary.fate = canaryApplied
	if c.hasCanary() && !c.runsInCanary(present) {
		runs.how.canary.fate = canaryReplaced
	}
	if !c.hasCanary() {
		runs.how.canary.event = appv1.ReasonCanaryStarted
	}
	runs.how.canary.stalled = c.runsInCanary(present) && c.seen.canary.verdict.Stalled
	runs.workload.Canary = &resource.Canary{
		Workload: present.workload, Pods: c.canaryPods(spec, present), After: resource.CanaryAfter(spec),
	}
	return runs
}

// refuseCanary decides that a change waits, for a reason that a user must remove. A canary that runs stays.
func (c decider) refuseCanary(want *decision, stable *resource.Workload, present *chosenInputs, message string) *decision {
	refused := c.newCanaryDecision(want, stable, present)
	reason := appv1.ReasonResourceExists
	if message == messageAbortNeedsRecord {
		reason = appv1.ReasonInvalid
	}
	refused.refusal = reconciler.Stalled(reason, message, c.seen.canary.name, c.d.name)
	refused.how.canary.waits = c.hasCanary()
	if stable == nil {
		refused.workload = nil
	}
	return refused
}

// newCanaryDecision returns a decision in which the Deployment of the workload stays as it was last applied.
func (c decider) newCanaryDecision(want *decision, stable *resource.Workload, present *chosenInputs) *decision {
	made := *want
	made.source, made.how = sourceCanary, application{earlier: true}
	made.remember.record = c.recordToRemember()
	made.how.canary = canaryDecision{waits: true, alone: stable == nil}
	if made.workload = stable; stable == nil {
		copied := *present.workload
		made.workload = &copied
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
	if stable.mark.Failed == nil { // A hold that is over.
		stable.mark = holdMark{}
	}
	return c.buildHeld(&stable)
}

// changesTemplate reports whether the present spec changes the pod template of the live Deployment. stable is the workload that the
// Deployment was last applied for, nil if that is not known.
func (c decider) changesTemplate(stable, present *resource.Workload) (bool, error) {
	switch live := c.seen.deployment(); {
	case live == nil && (stable == nil || !c.hasCanary()):
		return false, nil // The first pods.
	case live == nil:
		return !equality.Semantic.DeepEqual(stable.Template, present.Template), nil
	case !c.seen.isOwned(c.d.owner) || present.TemplateKept:
		return false, nil
	case stable == nil || stable.TemplateKept:
		holds, err := c.compare.RecordHolds(c.d.manager, templateOnly(present.Template), templateOnly(live.Spec.Template), live)
		return !holds, err
	}
	return !equality.Semantic.DeepEqual(stable.Template, present.Template), nil
}

// serves reports whether the Deployment has, or is to have, pods that a change must not touch at once: it is not stopped, and its pods
// have been ready.
func (c decider) serves() bool {
	live := c.seen.deployment()
	if live == nil || c.isStopped() || ptr.Deref(live.Spec.Replicas, 1) == 0 {
		return false
	}
	return c.d.history.LastGood != nil || live.Status.AvailableReplicas > 0
}

// isStopped reports whether the spec asks for no pods.
func (c decider) isStopped() bool { return ptr.Deref(c.d.spec.Workload().Replicas, 1) == 0 }

// canaryPods returns the number of pods of the canary. A percentage counts when the canary starts.
func (c decider) canaryPods(spec *appv1.CanarySpec, present *chosenInputs) int32 {
	live := c.seen.canary.object
	if c.isStopped() {
		return 0
	}
	if spec.Pods != nil && strings.HasSuffix(spec.Pods.StrVal, "%") && c.hasCanary() && ptr.Deref(live.Spec.Replicas, 1) > 0 {
		return *live.Spec.Replicas
	}
	before := ptr.Deref(present.workload.Replicas, ptr.Deref(c.seen.replicas(), 1)) // The workload states none where an autoscaler decides.
	return resource.CanaryPods(spec, before)
}

// canaryHistory returns the history of the canary, if it was made for the present spec: the inputs of the canary are those of the change.
func (c decider) canaryHistory() (resource.Provenance, bool) {
	live := c.seen.canary.object
	if c.d.canarySpec() == nil || !c.hasCanary() || !c.d.ownsRecord(live) {
		return resource.Provenance{}, false
	}
	if changed, err := c.d.spec.Changed(recordOf(live), resource.ScopePods); err != nil || changed {
		return resource.Provenance{}, false
	}
	h := resource.Provenance{Exists: true, Ours: true, Inputs: live.Annotations[appv1.AnnotationLastAppliedInputs]}
	in, err := resource.DecodeInputs(h.Inputs)
	return h, err == nil && in.ServiceAccount == resource.AccountName(c.d.around, c.d.name)
}

// runsInCanary reports whether the canary was made for the present spec with the chosen inputs.
func (c decider) runsInCanary(present *chosenInputs) bool {
	history, ok := c.canaryHistory()
	if !ok {
		return false
	}
	is, err := resource.DecodeInputs(history.Inputs)
	return err == nil && is.SameTemplate(&present.inputs)
}

// abortCause returns why a canary of the present spec is to be aborted, empty if it is not: a user asks for it, or the canary has missed
// its deadline and a rollout that stalls is to be rolled back.
func (c decider) abortCause() string {
	canary := &c.seen.canary
	if uid := c.d.owner.GetAnnotations()[appv1.AnnotationAbort]; uid != "" && uid == string(canary.object.UID) {
		return messageAbortedByUser
	}
	if canary.verdict.Stalled && c.d.mayRollBack() && !c.d.paused {
		return cutCause(&canary.verdict)
	}
	return ""
}

// isPromoted reports whether a canary of the present spec is to be rolled out: a user asks for it, or all its pods have been available,
// and nobody has changed their template.
func (c decider) isPromoted(spec *appv1.CanarySpec, present *chosenInputs) (bool, error) {
	live := c.seen.canary.object
	if uid := c.d.owner.GetAnnotations()[appv1.AnnotationPromote]; uid != "" && uid == string(live.UID) {
		return true, nil
	}
	after := resource.CanaryAfter(spec)
	if after == 0 || live.Spec.Paused || live.Spec.MinReadySeconds < int32(after.Seconds()) {
		return false, nil
	}
	pods, is := c.canaryPods(spec, present), &live.Status
	if pods == 0 || ptr.Deref(live.Spec.Replicas, 1) != pods || is.ObservedGeneration < live.Generation ||
		is.Replicas != pods || is.UpdatedReplicas != pods || is.AvailableReplicas != pods {
		return false, nil
	}
	canary := resource.Canary{Workload: present.workload}
	return c.compare.RecordHolds(c.d.manager, templateOnly(canary.Template()), templateOnly(live.Spec.Template), live)
}

// newAbort returns the mark of a canary that is aborted.
func (c decider) newAbort(present *chosenInputs, cause string) *holdMark {
	record := recordOf(c.seen.canary.object)
	if len(record) > maxFailedRecord {
		record = c.d.spec.Identity()
	}
	return &holdMark{By: byAbort, Failed: &failedSpec{
		Identity: record, Refresh: present.inputs.Refresh, Image: mainImage(present.workload), Cause: cause,
		Canary: true, Config: present.inputs.Config.Sum,
	}}
}

// abortInForce returns the mark of an aborted canary of the present spec, nil if there is none.
func (c decider) abortInForce(present *chosenInputs) *holdMark {
	source := c.recordInForce()
	if source == nil || source.mark.By != byAbort || source.mark.Failed == nil {
		return nil
	}
	failed := c.d.stillFailed(source.mark.Failed)
	if failed == nil || failed.Config != present.inputs.Config.Sum {
		return nil
	}
	return &holdMark{By: byAbort, Failed: failed}
}

// decideAborted decides that a change whose canary was aborted waits: the Deployment stays as it was last applied, and has the mark.
func (c decider) decideAborted(want *decision, mark *holdMark) *decision {
	aborted := *want
	source := *c.recordInForce()
	source.mark = *mark
	aborted.source, aborted.how = sourceHeld, application{earlier: true}
	aborted.remember.record = c.recordToRemember()
	aborted.workload, aborted.held = c.buildHeld(&source), &source
	aborted.how.canary = canaryDecision{}
	if c.hasCanary() {
		aborted.how.canary.fate = canaryDropped
	}
	return &aborted
}

// splitPods returns the pods of a workload without those of its canary, and those of its canary. A Deployment names its ReplicaSets by its
// own name and the hash of their template, which is a label of their pods.
func splitPods(pods []corev1.Pod, canary string) (stable, ofCanary []corev1.Pod) {
	for i := range pods {
		owner := metav1.GetControllerOfNoCopy(&pods[i])
		hash := pods[i].Labels[appsv1.DefaultDeploymentUniqueLabelKey]
		if owner != nil && owner.Kind == "ReplicaSet" && owner.Name == canary+"-"+hash {
			ofCanary = append(ofCanary, pods[i])
			continue
		}
		stable = append(stable, pods[i])
	}
	return stable, ofCanary
}

// canaryInForce returns the reason and the message of a canary that waits. seen is the observation after the apply.
func (d *target) canaryInForce(want *decision, seen *observed) reconciler.ReasonAndMessage {
	canary, spec := want.workload.Canary, d.canarySpec()
	if canary == nil || spec == nil {
		return reconciler.ReasonAndMessage{Reason: appv1.ReasonCanary, Message: fmt.Sprintf(messageCanaryWaits, seen.canary.name)}
	}
	earlier := int32(0)
	if live := seen.deployment(); live != nil {
		earlier = ptr.Deref(live.Spec.Replicas, 1)
	}
	pods := "1 pod runs"
	if canary.Pods != 1 {
		pods = fmt.Sprintf("%d pods run", canary.Pods)
	}
	message := fmt.Sprintf(messageCanaryRuns, pods, mainImage(canary.Workload), earlier)
	switch at := d.release.Canary; {
	case spec.Promote != appv1.PromoteAuto:
		name := d.name // As the plug-in has it, where the kind App is left out.
		if d.scalable != resource.KindApp.Name {
			name = strings.ToLower(d.scalable) + "/" + name
		}
		message += fmt.Sprintf(messageCanaryManual, name, d.owner.GetNamespace())
	case at != nil && at.PromoteAt != nil:
		message += fmt.Sprintf(messageCanaryPromotedAt, at.PromoteAt.UTC().Format("2006-01-02 15:04:05"))
	default:
		message += fmt.Sprintf(messageCanaryAuto, spec.After)
	}
	return reconciler.ReasonAndMessage{Reason: appv1.ReasonCanary, Message: message}
}

// reportCanary states in the status and in a condition how the canary of a workload is doing, and that the present spec waits for its
// promotion.
func (d *target) reportCanary(want *decision, done *applied, report *reconciler.Report, err error) {
	if d.release == nil {
		return
	}
	before, seen := d.release.Canary, done.seen
	d.release.Canary = nil
	live := seen.canary.object
	promoted := want.source == sourcePresent && !d.paused
	if !seen.canary.isOwned(d.owner) || promoted || want.how.canary.fate == canaryDropped {
		report.RemoveCondition(appv1.ConditionCanaryReady)
	} else {
		d.release.Canary = d.canaryStatus(want, seen, before)
		report.AddCondition(canaryCondition(live, &seen.canary.verdict, d.owner.GetGeneration()))
	}
	if want.how.canary.waits && want.workload != nil {
		report.InForce, report.Why = reconciler.Canary, d.canaryInForce(want, seen)
		if want.how.canary.stalled && report.Pods.Ready {
			report.Pods = seen.canary.verdict
		}
	}
	if err == nil && !d.paused && want.how.canary.event != "" {
		d.reportCanaryEvent(want, seen, report)
	}
}

// reportCanaryEvent notes a step of a canary for the event.
func (d *target) reportCanaryEvent(want *decision, seen *observed, report *reconciler.Report) {
	image := mainImage(want.workload)
	if want.workload.Canary != nil {
		image = mainImage(want.workload.Canary.Workload)
	}
	switch want.how.canary.event {
	case appv1.ReasonCanaryStarted:
		report.Event.Note = fmt.Sprintf(messageCanaryStarted, seen.canary.name, image)
	case appv1.ReasonCanaryPromoted:
		report.Event.Note = fmt.Sprintf(messageCanaryPromoted, seen.canary.name, image)
	default:
		report.Event.Note = fmt.Sprintf(messageCanaryAborted, seen.canary.name)
	}
	report.Event.Reason = want.how.canary.event
}

// canaryStatus returns the status of the canary. before is the earlier status, nil if there was none.
func (d *target) canaryStatus(want *decision, seen *observed, before *appv1.CanaryStatus) *appv1.CanaryStatus {
	live := seen.canary.object
	is := &appv1.CanaryStatus{
		Name: live.Name, UID: live.UID, Image: live.Spec.Template.Spec.Containers[0].Image,
		Pods: ptr.Deref(live.Spec.Replicas, 1), Ready: live.Status.ReadyReplicas,
	}
	if !live.CreationTimestamp.IsZero() {
		is.Since = ptr.To(live.CreationTimestamp)
	}
	spec := d.canarySpec()
	if spec == nil || resource.CanaryAfter(spec) == 0 || want.how.canary.fate != canaryApplied || !isCanaryReady(live) {
		return is
	}
	if before != nil && before.UID == is.UID && before.PromoteAt != nil {
		is.PromoteAt = before.PromoteAt
		return is
	}
	is.PromoteAt = ptr.To(metav1.NewTime(seen.at.Add(resource.CanaryAfter(spec))).Rfc3339Copy())
	return is
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
