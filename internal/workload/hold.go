package workload

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appv1 "huolala.cn/app-operator/api/v1"
	"huolala.cn/app-operator/internal/children"
	"huolala.cn/app-operator/internal/health"
	"huolala.cn/app-operator/internal/reconciler"
	"huolala.cn/app-operator/resource"
)

// While the annotation app.huolala.cn/hold names a ReplicaSet, or a spec is rolled back, Deployment and Service are built from the record on it, and the spec
// waits. The hold lasts as long as the annotation. The Deployment has the name and the record of the held ReplicaSet, so a hold in force
// sends no request.

// holdMark is the annotation of a Deployment that was built for a hold.
type holdMark struct {
	// ReplicaSet is the name of the held ReplicaSet, By the value of the annotation that requested the hold, or byRollback.
	ReplicaSet string `json:"replicaSet"`
	By         string `json:"by"`
	// Failed is the spec that was rolled back, nil if none was.
	Failed *failedSpec `json:"failed,omitempty"`
}

// encodeMark returns the mark as it is recorded.
func (h *holdMark) encodeMark() string {
	// A struct of strings always has a JSON form.
	data, _ := json.Marshal(h)
	return string(data)
}

// rolledBack reports whether the hold comes from a rollback and not from an annotation.
func (h *holdMark) rolledBack() bool { return h.By == byRollback && h.Failed != nil }

// wentBack reports whether the workload has gone back from a failed spec: by a rollback, or by the abort of a canary with the defaults of a wave, with which no pods
// have been ready.
func (h *holdMark) wentBack() bool {
	return h.rolledBack() || h.By == byAbort && h.Failed != nil && h.Failed.Taken != ""
}

// holdSource is the record that a held workload is built from.
type holdSource struct {
	mark         holdMark
	spec, inputs string
}

// markOf returns the mark on a live Deployment, an empty mark if the Deployment has none that the operator wrote.
func (in *Input) markOf(live client.Object) holdMark {
	var mark holdMark
	if live == nil || live.GetAnnotations()[appv1.AnnotationHeld] == "" || !children.OwnsAnnotation(live, in.fieldManager(), appv1.AnnotationHeld) ||
		json.Unmarshal([]byte(live.GetAnnotations()[appv1.AnnotationHeld]), &mark) != nil {
		return holdMark{}
	}
	return mark
}

// holdWish is the hold that is requested. It is empty if the spec is in force.
type holdWish struct {
	// mark is the hold, with an empty name for the last good ReplicaSet. begins is true for a rollback that is not in force yet.
	mark   *holdMark
	begins bool
	// declined is why a rollout that has stalled is not rolled back, as an earlier reconcile found out.
	declined string
}

// canHold reports whether the kind holds ReplicaSets, and no Deployment of others is in the way.
func (c decider) canHold() bool {
	return c.in.Kind.Holds && (c.seen.Object == nil || c.seen.isOwned(c.in.Owner))
}

// wishHold returns the hold that is requested by an annotation, a mark or a stalled rollout.
func (c decider) wishHold() holdWish {
	mark := c.markInForce()
	failed := c.stillFailed(mark.Failed)
	switch value := c.in.Owner.GetAnnotations()[appv1.AnnotationHold]; {
	case value == appv1.HoldLastGood:
		return holdWish{mark: &holdMark{By: value, Failed: failed}}
	case value != "":
		return holdWish{mark: &holdMark{ReplicaSet: value, By: value, Failed: failed}}
	case failed != nil && mark.ReplicaSet != "" && !c.endsInAbort(mark):
		name := mark.ReplicaSet
		if mark.By != byRollback && c.in.Before.History.LastGood != nil { // After a hold of any ReplicaSet, the rollback is in force again.
			name = ""
		}
		return holdWish{mark: &holdMark{ReplicaSet: name, By: byRollback, Failed: failed}}
	}
	return c.wishRollback(mark)
}

// endsInAbort reports whether a hold that is over was of a resource whose canary was aborted, and has left the pods of before that abort in force: the abort
// continues. After a hold of any other ReplicaSet, the workload returns to these pods first.
func (c decider) endsInAbort(mark holdMark) bool {
	good := c.in.Before.History.LastGood
	return mark.Failed.Canary && (good == nil || good.ReplicaSet == mark.ReplicaSet)
}

// decideHold decides for a workload where a hold or a rollback is wished. For a rollback that is declined, it returns a decision whose
// source is the present spec.
func (c decider) decideHold(wish holdWish) (*decision, *need) {
	want := &decision{source: sourceHeld, how: How{Earlier: true, Around: c.aroundNow()}, today: c.seen.today}
	want.remember.record = c.recordToRemember()
	found, err := c.findHeld(wish)
	source := found.source
	switch {
	case err != nil:
		want.refusal = err
		return want, nil
	case found.ask != nil:
		return nil, found.ask
	case found.refusal != nil && wish.begins:
		declined := c.declineRollback(found.refusal)
		declined.remember.record = want.remember.record
		return declined, nil
	case found.refusal != nil: // The spec that was in force stays in force.
		want.refusal = found.refusal
		if source = c.recordInForce(); source == nil {
			return want, nil
		}
	}
	if want.workload = c.buildHeld(source); want.workload != nil && found.refusal == nil {
		want.held = source
		if c.hasCanary() { // The spec of the canary waits, too.
			want.how.canary.fate, want.canary.event = canaryDropped, appv1.ReasonCanaryAborted
		}
	}
	return want, nil
}

// mainImage is the image of the main container of a workload.
func mainImage(w *resource.Workload) string { return w.Template.Spec.Containers[0].Image }

// replicaSetRead is the answer to a need of a ReplicaSet: the ReplicaSet, or why it could not be read.
type replicaSetRead struct {
	name string
	set  *appsv1.ReplicaSet
	err  error
}

// readReplicaSet reads a ReplicaSet from the API server.
func readReplicaSet(ctx context.Context, live client.Reader, namespace, name string) *replicaSetRead {
	set := &appsv1.ReplicaSet{}
	err := live.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, set)
	return &replicaSetRead{name: name, set: set, err: err}
}

// heldRecord is the result of a wish for a hold: one of its fields is set.
type heldRecord struct {
	source *holdSource
	// ask names the ReplicaSet that the decision needs and that has not been read.
	ask *need
	// refusal is the reason for a missing record.
	refusal error
}

// findHeld returns the record of the ReplicaSet in a wish. The Deployment has the record of a hold in force, so that a reconcile sends no request for it.
func (c decider) findHeld(wish holdWish) (heldRecord, error) {
	mark := *wish.mark
	source := c.recordInForce()
	if mark.ReplicaSet == "" {
		switch {
		case source != nil && source.mark.ReplicaSet != "" && (source.mark.By == mark.By || source.mark.rolledBack()):
			mark.ReplicaSet = source.mark.ReplicaSet
		case c.in.Before.History.LastGood == nil:
			return c.revisionNotFound(&mark, messageNothingGood), nil
		default:
			mark.ReplicaSet = c.in.Before.History.LastGood.ReplicaSet
		}
	}
	if source != nil && source.mark.ReplicaSet == mark.ReplicaSet {
		source.mark = mark
		return heldRecord{source: source}, nil
	}
	name := mark.ReplicaSet
	switch read := c.seen.replicaSet; {
	case c.seen.Object == nil:
		return c.revisionNotFound(&mark, fmt.Sprintf(messageNotRestored, "Deployment", c.in.Name)), nil
	case len(validation.IsDNS1123Subdomain(name)) > 0: // Of a value that is longer than any name, only the hash is kept.
		return c.revisionNotFound(&mark, messageNoNameOfReplicaSet), nil
	case read == nil || read.name != name:
		return heldRecord{ask: &need{replicaSet: name}}, nil
	case apierrors.IsNotFound(read.err):
		return c.revisionNotFound(&mark, fmt.Sprintf(messageNoReplicaSet, name)), nil
	case apierrors.IsForbidden(read.err):
		return heldRecord{refusal: &reconciler.StalledError{
			Reason: appv1.ReasonForbidden, Message: fmt.Sprintf(messageReplicaSetForbidden, name), RetryAfter: Unwatched, // ReplicaSets are not watched.
		}}, nil
	case read.err != nil:
		return heldRecord{}, fmt.Errorf("read ReplicaSet %s: %w", name, read.err)
	default:
		return c.checkHeld(wish, mark, read.set)
	}
}

// checkHeld returns the record on a ReplicaSet, or why it cannot be held.
func (c decider) checkHeld(wish holdWish, mark holdMark, set *appsv1.ReplicaSet) (heldRecord, error) {
	name := set.Name
	source := &holdSource{
		mark: mark, spec: set.Annotations[appv1.AnnotationLastAppliedSpec], inputs: set.Annotations[appv1.AnnotationLastAppliedInputs],
	}
	if !metav1.IsControlledBy(set, c.seen.Object) {
		return c.revisionNotFound(&mark, fmt.Sprintf(messageForeignReplicaSet, name)), nil
	}
	built, equal := c.buildHeld(source), false
	if built != nil {
		var err error
		if equal, err = c.compare.Matches(templateOnly(built.Template), templateOnly(set.Spec.Template)); err != nil {
			return heldRecord{}, err
		}
	}
	past, unreadable := c.in.Spec.Past(source.spec)
	if hash := appsv1.DefaultDeploymentUniqueLabelKey; !equal || unreadable != nil || set.Labels[hash] != set.Spec.Template.Labels[hash] {
		return c.revisionNotFound(&mark, fmt.Sprintf(messageNoRecord, name)), nil //nolint:nilerr // Such a record cannot be held, whatever the error.
	}
	if errs := past.Validate(); len(errs) > 0 {
		return heldRecord{refusal: reconciler.Stalled(appv1.ReasonInvalid, messageHeldInvalid, name, InvalidSpec(errs))}, nil
	}
	if wish.begins {
		if cause := c.unfitForRollback(source, set); cause != "" {
			return heldRecord{refusal: reconciler.Stalled(appv1.ReasonRevisionNotFound, "%s", cause)}, nil
		}
		failed := *mark.Failed
		failed.Defaults = c.failedDefaults(source)
		source.mark.Failed = &failed
	}
	return heldRecord{source: source}, nil
}

// recordInForce returns the record of the spec in force, with the mark of the hold if there is one; nil for an unknown record. Where another writer has changed the
// record on a Deployment that the operator has applied, as kubectl rollout undo does, the remembered record counts, which there is while an earlier spec is in force.
func (c decider) recordInForce() *holdSource {
	live, known := c.seen.Object, &c.seen.Remembered
	switch {
	case live != nil && c.in.OwnsRecord(live):
		return &holdSource{mark: c.in.markOf(live), spec: recordOf(live), inputs: live.GetAnnotations()[appv1.AnnotationLastAppliedInputs]}
	case known.Known && (live == nil || c.seen.isOwned(c.in.Owner) && children.Applies(live, c.in.fieldManager())):
		return &holdSource{mark: known.record.mark, spec: known.record.spec, inputs: known.record.inputs}
	}
	return nil
}

// markInForce returns the mark of the record in force, or the mark on the live Deployment if no record is known.
func (c decider) markInForce() holdMark {
	if !c.seen.Remembered.Known {
		return c.in.markOf(c.seen.Object)
	}
	if source := c.recordInForce(); source != nil {
		return source.mark
	}
	return c.in.markOf(c.seen.Object)
}

// inputsInForce returns the inputs of the record in force, or the inputs on the live Deployment if no record is known.
func (c decider) inputsInForce(live *appsv1.Deployment) (resource.BuildInputs, error) {
	if source := c.recordInForce(); source != nil {
		return resource.DecodeInputs(source.inputs)
	}
	return inputsOf(live)
}

// wasInForce reports whether the present spec was in force by the status, which only the operator writes. Applied is also false for the trouble of an object
// around the pods, and Ready is true only for pods of the present spec.
func (c decider) wasInForce() bool {
	conditions := c.in.Before.Workload.Conditions
	return !c.in.isNewSpec() && (meta.IsStatusConditionTrue(conditions, appv1.ConditionApplied) || meta.IsStatusConditionTrue(conditions, appv1.ConditionReady))
}

// recordToRemember returns the record on the live Deployment, from which it is recreated if it is deleted; nil if there is none.
func (c decider) recordToRemember() *workloadRecord {
	if c.seen.Object == nil {
		return nil
	}
	source := c.recordInForce()
	if source == nil {
		return nil
	}
	return &workloadRecord{
		selector: c.seen.Selector(), spec: source.spec, inputs: source.inputs, autoscaled: c.seen.Scaled, mark: source.mark,
	}
}

// buildHeld builds the workload of a record. The number of pods and the auxiliary objects come from the present spec. The workload is
// nil for a record from which no workload can be built.
func (c decider) buildHeld(source *holdSource) *resource.Workload {
	inputs, err := resource.DecodeInputs(source.inputs)
	if err != nil || source.spec == "" {
		return nil // An unreadable record is not used.
	}
	// A ReplicaSet is held by the template that its record makes, and a Deployment that is gone has no template to keep.
	inputs.Kept = inputs.Kept && source.mark.ReplicaSet == "" && c.seen.Object != nil
	if source.mark.rolledBack() && !source.mark.Failed.Canary { // The refresh has been acted on, and has failed. An abort is decided once more.
		inputs.Refresh = source.mark.Failed.Refresh
	}
	options := c.optionsFor(inputs)
	w, err := resource.BuildRecorded(c.in.Spec, source.spec, options)
	if err != nil {
		return nil // As above.
	}
	if now := c.inputNow(); now.isValid() {
		if _, exists := ownedOf[*autoscalingv2.HorizontalPodAutoscaler](c.seen); exists && now.wantsAutoscaler() { // The earlier spec may have none, and the autoscaler stays.
			options.Serving = now.Around
		}
		w.SetReplicas(now.Spec.Workload().Replicas, options)
	} else {
		c.keepReplicas(w)
	}
	if source.mark.ReplicaSet != "" || source.mark.Failed != nil {
		w.Record[appv1.AnnotationHeld] = source.mark.encodeMark()
	}
	return w
}

// revisionNotFound returns the refusal of an impossible hold. For a hold by annotation, the message names the ReplicaSets of the status.
func (c decider) revisionNotFound(mark *holdMark, cause string) heldRecord {
	if mark.By == byRollback {
		return heldRecord{refusal: reconciler.Stalled(appv1.ReasonRevisionNotFound, "%s", cause)}
	}
	var known []string
	if name := c.in.Before.History.ReplicaSet; name != "" {
		known = append(known, name)
	}
	if good := c.in.Before.History.LastGood; good != nil && !slices.Contains(known, good.ReplicaSet) {
		known = append(known, good.ReplicaSet)
	}
	if len(known) == 0 {
		return heldRecord{refusal: reconciler.Stalled(appv1.ReasonRevisionNotFound, messageNothingToHold, cause)}
	}
	refusal := reconciler.Stalled(
		appv1.ReasonRevisionNotFound, messageRevisionNotFound, cause, strings.Join(known, " and "), c.in.Name, c.in.Owner.GetNamespace(),
	)
	return heldRecord{refusal: refusal}
}

// runningReplicaSet returns the ReplicaSet that all pods of a Deployment belong to once they are all updated, empty if there is none.
func runningReplicaSet(live *appsv1.Deployment, pods []corev1.Pod) string {
	is := &live.Status
	if is.ObservedGeneration < live.Generation || is.UpdatedReplicas != is.Replicas || is.UpdatedReplicas < ptr.Deref(live.Spec.Replicas, 1) {
		return ""
	}
	name := ""
	for i := range pods {
		owner := metav1.GetControllerOfNoCopy(&pods[i])
		if pods[i].DeletionTimestamp != nil || health.PodEnded(&pods[i]) || owner == nil || owner.Kind != "ReplicaSet" {
			continue
		}
		if name != "" && name != owner.Name {
			return "" // An earlier view of the pods.
		}
		name = owner.Name
	}
	return name
}
