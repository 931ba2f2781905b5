package controllers

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appv1 "huolala.cn/app-operator/api/v1"
	"huolala.cn/app-operator/internal/apply"
	"huolala.cn/app-operator/internal/reconciler"
	"huolala.cn/app-operator/resource"
)

// While the annotation app.huolala.cn/hold names a ReplicaSet, or a spec is rolled back, Deployment and Service are built from the record on it, and the spec
// waits. The annotation is a level and no command: once it is removed, the spec counts again. Which ReplicaSet is held is on the
// Deployment, together with its record, so that a hold that is in force asks and writes nothing.

// +kubebuilder:rbac:groups=apps,resources=replicasets,verbs=get

// holdMark is what the Deployment says of the hold that it was built for.
type holdMark struct {
	// ReplicaSet is the one that is held, By the value of the annotation that asked for it, or byRollback.
	ReplicaSet string `json:"replicaSet"`
	By         string `json:"by"`
	// Failed is the spec that was rolled back, nil if none was.
	Failed *failedSpec `json:"failed,omitempty"`
}

// encode returns the mark as it is recorded.
func (h *holdMark) encode() string {
	// A struct of strings always has a JSON form.
	data, _ := json.Marshal(h)
	return string(data)
}

// rolledBack reports whether no annotation asks for the hold.
func (h *holdMark) rolledBack() bool { return h.By == byRollback && h.Failed != nil }

// holdSource is the record that a held workload is built from.
type holdSource struct {
	mark         holdMark
	spec, inputs string
}

// markOf returns the mark on a live Deployment, an empty one if there is none that can be believed.
func (d *target) markOf(live client.Object) holdMark {
	var mark holdMark
	if live == nil || live.GetAnnotations()[appv1.AnnotationHeld] == "" || !apply.OwnsAnnotation(live, d.manager, appv1.AnnotationHeld) ||
		json.Unmarshal([]byte(live.GetAnnotations()[appv1.AnnotationHeld]), &mark) != nil {
		return holdMark{}
	}
	return mark
}

// wishedHold returns what is to be held, with an empty name for the last good ReplicaSet; nil if the spec counts. begins is true for a
// rollback that is not in force yet.
func (s *Deps) wishedHold(d *target, m provenance) (wish *holdMark, begins bool) {
	mark := d.markOf(m.object)
	if m.object == nil {
		remembered, _ := s.Records.recordFor(d.recordKey())
		mark = remembered.mark
	}
	failed := d.stillFailed(mark.Failed)
	switch value := d.owner.GetAnnotations()[appv1.AnnotationHold]; {
	case value == appv1.HoldLastGood:
		return &holdMark{By: value, Failed: failed}, false
	case value != "":
		return &holdMark{ReplicaSet: value, By: value, Failed: failed}, false
	case failed != nil && mark.ReplicaSet != "":
		return &holdMark{ReplicaSet: mark.ReplicaSet, By: byRollback, Failed: failed}, false
	}
	wish = s.stalledRollout(d, m, mark)
	return wish, wish != nil
}

// reconcileHold applies what is held in the place of the spec, and reports whether anything is to be held.
func (s *Deps) reconcileHold(ctx context.Context, d *target, objects workloadObjects, report *reconciler.Report) (held bool, err error) {
	m := objects.provenance()
	if d.history == nil || m.object != nil && !metav1.IsControlledBy(m.object, d.owner) {
		return false, nil
	}
	wish, begins := s.wishedHold(d, m)
	if wish == nil {
		return false, nil
	}
	if d.today, err = s.currentInputs(ctx, d.spec.Workload()); err != nil {
		return true, err
	}
	source, refusal, err := s.findHeld(ctx, d, m, wish, begins)
	if err != nil {
		return true, err
	}
	if refusal != nil && begins {
		s.declineRollback(ctx, d, m, refusal, report)
		return false, nil
	}
	if refusal != nil { // What was in force before stays so.
		if source = d.recordInForce(s, m); source == nil {
			return true, refusal
		}
	}
	workload := s.buildHeld(d, m, source)
	if workload == nil {
		return true, refusal
	}
	err = objects.apply(ctx, workload, application{earlier: true}, report).err
	if refusal != nil {
		return true, withTrouble(refusal, err)
	}
	d.noteHeld(&source.mark, mainImage(workload), report)
	return true, err
}

// noteHeld says in the report what is held in the place of the spec.
func (d *target) noteHeld(mark *holdMark, image string, report *reconciler.Report) {
	reason := appv1.ReasonHeld
	d.heldMessage = fmt.Sprintf(messageHeld, mark.ReplicaSet, image)
	if mark.rolledBack() {
		reason = appv1.ReasonRolledBack
		d.heldMessage = fmt.Sprintf(messageRolledBack, mark.Failed.Image, mark.Failed.Cause, image, mark.ReplicaSet)
	}
	report.NotApplied = reconciler.ReasonAndMessage{Reason: reason, Message: d.heldMessage}
}

// mainImage is the image of the main container of a workload.
func mainImage(w *resource.Workload) string { return w.Template.Spec.Containers[0].Image }

// findHeld returns the record that a hold asks for. A hold that is in force is found on the Deployment, without a request. refusal
// says why there is none.
func (s *Deps) findHeld(ctx context.Context, d *target, m provenance, wish *holdMark, begins bool) (source *holdSource, refusal, err error) {
	mark := *wish
	source = d.recordInForce(s, m)
	if mark.ReplicaSet == "" {
		switch {
		case source != nil && source.mark.ReplicaSet != "" && (source.mark.By == mark.By || source.mark.rolledBack()):
			mark.ReplicaSet = source.mark.ReplicaSet
		case d.history.LastGood == nil:
			return nil, d.revisionNotFound(&mark, messageNothingGood), nil
		default:
			mark.ReplicaSet = d.history.LastGood.ReplicaSet
		}
	}
	if source != nil && source.mark.ReplicaSet == mark.ReplicaSet {
		source.mark = mark
		return source, nil, nil
	}
	if m.object == nil {
		return nil, d.revisionNotFound(&mark, fmt.Sprintf(messageNotRestored, "Deployment", d.name)), nil
	}
	var set appsv1.ReplicaSet
	name := mark.ReplicaSet
	if len(validation.IsDNS1123Subdomain(name)) > 0 { // Of a value that is longer than any name, only the hash is kept.
		return nil, d.revisionNotFound(&mark, messageNoNameOfReplicaSet), nil
	}
	switch err := s.Live.Get(ctx, client.ObjectKey{Namespace: d.owner.GetNamespace(), Name: name}, &set); {
	case apierrors.IsNotFound(err):
		return nil, d.revisionNotFound(&mark, fmt.Sprintf(messageNoReplicaSet, name)), nil
	case apierrors.IsForbidden(err):
		return nil, reconciler.Stalled(appv1.ReasonForbidden, messageReplicaSetForbidden, name), nil
	case err != nil:
		return nil, nil, fmt.Errorf("read ReplicaSet %s: %w", name, err)
	}
	source = &holdSource{
		mark:   mark,
		spec:   set.Annotations[appv1.AnnotationLastAppliedSpec],
		inputs: set.Annotations[appv1.AnnotationLastAppliedInputs],
	}
	if refusal, err = s.checkHeld(d, m, source, &set); refusal != nil || err != nil {
		return nil, refusal, err
	}
	if begins {
		if cause := d.unfitForRollback(m, source, &set); cause != "" {
			return nil, reconciler.Stalled(appv1.ReasonRevisionNotFound, "%s", cause), nil
		}
	}
	return source, nil, nil
}

// checkHeld says why the record on a ReplicaSet cannot be held, nil if it can.
func (s *Deps) checkHeld(d *target, m provenance, source *holdSource, set *appsv1.ReplicaSet) (refusal, err error) {
	name := set.Name
	if !metav1.IsControlledBy(set, m.object) {
		return d.revisionNotFound(&source.mark, fmt.Sprintf(messageForeignReplicaSet, name)), nil
	}
	built, believed := s.buildHeld(d, m, source), false
	if built != nil {
		if believed, err = s.Engine.Matches(templateOnly(built.Template), templateOnly(set.Spec.Template)); err != nil {
			return nil, err
		}
	}
	if hash := appsv1.DefaultDeploymentUniqueLabelKey; !believed || set.Labels[hash] != set.Spec.Template.Labels[hash] {
		return d.revisionNotFound(&source.mark, fmt.Sprintf(messageNoRecord, name)), nil
	}
	past, err := d.spec.Past(source.spec)
	if err != nil {
		return d.revisionNotFound(&source.mark, fmt.Sprintf(messageNoRecord, name)), nil //nolint:nilerr // It was built above.
	}
	if errs := past.Validate(); len(errs) > 0 {
		return reconciler.Stalled(appv1.ReasonInvalid, messageHeldInvalid, name, invalidSpec(errs)), nil
	}
	return nil, nil
}

// recordInForce returns the record of what is in force, with the mark of the hold if there is one; nil if it is not known.
func (d *target) recordInForce(s *Deps, m provenance) *holdSource {
	if m.object == nil {
		known, ok := s.Records.recordFor(d.recordKey())
		if !ok {
			return nil
		}
		return &holdSource{mark: known.mark, spec: known.spec, inputs: known.inputs}
	}
	if !d.ownsRecord(m.object) {
		return nil
	}
	annotations := m.object.GetAnnotations()
	source := &holdSource{
		mark: d.markOf(m.object), spec: annotations[appv1.AnnotationLastAppliedSpec], inputs: annotations[appv1.AnnotationLastAppliedInputs],
	}
	s.Records.rememberRecord(d.recordKey(), workloadRecord{
		selector: m.selector, spec: source.spec, inputs: source.inputs, autoscaled: m.autoscaled, mark: source.mark,
	})
	return source
}

// buildHeld builds the workload of a record. The number of pods and what stands around them are those of the present spec. It is nil
// for a record from which nothing can be built.
func (s *Deps) buildHeld(d *target, m provenance, source *holdSource) *resource.Workload {
	in, err := resource.DecodeInputs(source.inputs)
	if err != nil || source.spec == "" {
		return nil // What cannot be read cannot be believed.
	}
	in.Kept = in.Kept && source.mark.ReplicaSet == "" // A ReplicaSet is held by the template that its record makes.
	seen := resource.BuildOptions{
		Selector: m.selector, Inputs: in, Autoscaled: m.autoscaled && m.object != nil,
		OtherAutoscaler: m.otherAutoscaler, LiveReplicas: m.replicas, Serving: d.around,
	}
	w, err := resource.BuildRecorded(d.spec, source.spec, seen)
	if err != nil {
		return nil // As above.
	}
	if d.undecodable == nil && len(d.errs) == 0 {
		w.SetReplicas(d.spec.Workload().Replicas, seen)
	}
	if source.mark.ReplicaSet != "" {
		w.Record[appv1.AnnotationHeld] = source.mark.encode()
	}
	return w
}

// revisionNotFound is the error to report of a hold that cannot be. To who asked for one by the annotation, it names the ReplicaSets
// of the status.
func (d *target) revisionNotFound(mark *holdMark, cause string) error {
	if mark.By == byRollback {
		return reconciler.Stalled(appv1.ReasonRevisionNotFound, "%s", cause)
	}
	var known []string
	if name := d.history.ReplicaSet; name != "" {
		known = append(known, name)
	}
	if good := d.history.LastGood; good != nil && !slices.Contains(known, good.ReplicaSet) {
		known = append(known, good.ReplicaSet)
	}
	names := messageNoKnownReplicaSets
	if len(known) > 0 {
		names = strings.Join(known, " and ")
	}
	return reconciler.Stalled(appv1.ReasonRevisionNotFound, messageRevisionNotFound, cause, names, d.name, d.owner.GetNamespace())
}

// reportHistory states in the status which ReplicaSet runs, and which was the last good one: that of a spec that is in force.
func (d *target) reportHistory(s *Deps, report *reconciler.Report, live *appsv1.Deployment, pods []corev1.Pod) {
	if d.history == nil || live == nil || !metav1.IsControlledBy(live, d.owner) {
		return
	}
	name := runningReplicaSet(live, pods)
	if name == "" {
		return
	}
	d.history.ReplicaSet = name
	good := d.history.LastGood
	// While paused, the pods may be those of an edit by hand.
	if changed, err := d.spec.Changed(live.Annotations[appv1.AnnotationLastAppliedSpec], resource.ScopePods); err != nil || changed || d.heldMessage != "" || report.Paused {
		return
	}
	if report.Ready && (good == nil || good.ReplicaSet != name) {
		d.history.LastGood = &appv1.GoodRevision{
			ReplicaSet: name, Image: live.Spec.Template.Spec.Containers[0].Image, Since: ptr.To(metav1.NewTime(s.Clock.Now().Truncate(time.Second))),
		}
	}
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
		if pods[i].DeletionTimestamp != nil || owner == nil || owner.Kind != "ReplicaSet" {
			continue
		}
		if name != "" && name != owner.Name {
			return "" // An earlier view of the pods.
		}
		name = owner.Name
	}
	return name
}

// reportHeld has Ready tell that the spec waits, and how the pods are doing that are held.
func (d *target) reportHeld(report *reconciler.Report, err error) {
	if d.heldMessage == "" || err != nil {
		return
	}
	report.RolledBack = report.NotApplied.Reason == appv1.ReasonRolledBack
	report.Held = !report.RolledBack
	if !report.Ready {
		report.Message = d.heldMessage + ". " + report.Message
	}
	report.Reason = report.NotApplied.Reason
}
