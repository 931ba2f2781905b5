package reconciler

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"regexp"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appv1 "huolala.cn/app-operator/api/v1"
)

// maxMessage is the length in bytes of a condition's message. The API refuses a status with one of over 32768 characters;
// nobody reads that far.
const maxMessage = 4096

// summarize sets the conditions by the report and the error of the steps.
func summarize(obj Resource, report *Report, err error) {
	applied := appliedCondition(report, err)
	ready := readyCondition(report, &applied, err)
	if applied.Status == metav1.ConditionTrue && report.Trouble.Reason != "" {
		applied.Status = metav1.ConditionFalse
		applied.Reason, applied.Message = report.Trouble.Reason, report.Trouble.Message
	}
	reconciling := metav1.Condition{
		Type: appv1.ConditionReconciling, Status: metav1.ConditionTrue, Reason: ready.Reason, Message: ready.Message,
	}
	stalled := metav1.Condition{Type: appv1.ConditionStalled, Status: metav1.ConditionFalse, Reason: appv1.ReasonNotStalled}
	var stalledErr *StalledError
	switch {
	case errors.As(err, &stalledErr), err == nil && report.Stalled && !report.Ready:
		stalled.Status, stalled.Reason, stalled.Message = metav1.ConditionTrue, report.Reason, report.Message
		if err != nil {
			stalled.Reason, stalled.Message = ReasonAndMessageOf(err)
		}
		reconciling.Status = metav1.ConditionFalse
	case ready.Status == metav1.ConditionTrue && report.Trouble.Reason == appv1.ReasonProgressing: // An object around the pods waits.
		reconciling.Reason, reconciling.Message = report.Trouble.Reason, report.Trouble.Message
	case ready.Status == metav1.ConditionTrue:
		reconciling.Status, reconciling.Reason, reconciling.Message = metav1.ConditionFalse, appv1.ReasonSettled, ""
	}
	if report.RolledBack && err == nil {
		stalled.Status, stalled.Reason, stalled.Message = metav1.ConditionTrue, report.NotApplied.Reason, report.NotApplied.Message
		reconciling.Status = metav1.ConditionFalse
	}
	if report.Held && report.Ready && err == nil {
		reconciling.Status, reconciling.Reason, reconciling.Message = metav1.ConditionFalse, appv1.ReasonHeld, report.NotApplied.Message
	}
	if report.Paused {
		reconciling.Status, reconciling.Reason, reconciling.Message = metav1.ConditionFalse, appv1.ReasonPaused, messagePaused
		if report.Waiting != "" {
			reconciling.Message = report.Waiting
		}
	}

	status := obj.CommonStatus()
	status.ObservedGeneration = obj.GetGeneration()
	conditions := []metav1.Condition{ready, applied, reconciling, stalled}
	for i := range conditions {
		conditions[i].ObservedGeneration = obj.GetGeneration()
		conditions[i].Message = cut(conditions[i].Message, maxMessage)
	}
	if stalled.Status == metav1.ConditionTrue {
		keepSteadyMessages(status.Conditions, conditions)
	}
	for _, c := range conditions {
		meta.SetStatusCondition(&status.Conditions, c)
	}
}

// appliedCondition says whether the current generation of the spec is in force, and if not, why.
func appliedCondition(report *Report, err error) metav1.Condition {
	applied := metav1.Condition{Type: appv1.ConditionApplied, Status: metav1.ConditionTrue, Reason: appv1.ReasonApplied}
	switch {
	case err != nil:
		applied.Status = metav1.ConditionFalse
		applied.Reason, applied.Message = ReasonAndMessageOf(err)
	case report.Paused && report.Pending:
		applied.Status, applied.Reason, applied.Message = metav1.ConditionFalse, appv1.ReasonPaused, messagePending
	case report.NotApplied.Reason != "":
		applied.Status = metav1.ConditionFalse
		applied.Reason, applied.Message = report.NotApplied.Reason, report.NotApplied.Message
	case report.AppliedNote.Reason != "":
		applied.Reason, applied.Message = report.AppliedNote.Reason, report.AppliedNote.Message
	}
	return applied
}

// readyCondition says whether the workload is ready: by its pods, and never True while the current generation of the spec
// is not in force.
func readyCondition(report *Report, applied *metav1.Condition, err error) metav1.Condition {
	ready := metav1.Condition{
		Type: appv1.ConditionReady, Status: metav1.ConditionFalse, Reason: report.Reason, Message: report.Message,
	}
	switch {
	case err != nil:
		// Whatever the pods of an earlier spec do.
		ready.Reason, ready.Message = ReasonAndMessageOf(err)
	case report.Paused && report.Pending:
		ready.Status, ready.Reason = metav1.ConditionUnknown, appv1.ReasonPaused
		ready.Message = joinSentences(messagePending, report.Message)
	case report.Ready && applied.Status != metav1.ConditionTrue:
		ready.Reason, ready.Message = applied.Reason, applied.Message
	case report.Paused && !report.Stalled:
		ready.Reason, ready.Message = appv1.ReasonPaused, joinSentences(messagePaused, report.Message)
	}
	if err == nil && report.Ready && applied.Status == metav1.ConditionTrue {
		ready.Status = metav1.ConditionTrue
	}
	return ready
}

// numbers are what differs between two messages about one and the same trouble: how many pods show it, how much of a quota
// is used.
var numbers = regexp.MustCompile(`[0-9]+`)

// keepSteadyMessages keeps the earlier message of each condition of a stalled resource where the new one differs from it in
// nothing but numbers: each crash of a pod would otherwise be a write of the status, and an event.
func keepSteadyMessages(before, after []metav1.Condition) {
	for i := range after {
		was, is := meta.FindStatusCondition(before, after[i].Type), &after[i]
		if was != nil && was.Status == is.Status && was.Reason == is.Reason && was.ObservedGeneration == is.ObservedGeneration &&
			numbers.ReplaceAllLiteralString(was.Message, "#") == numbers.ReplaceAllLiteralString(is.Message, "#") {
			is.Message = was.Message
		}
	}
}

// patchStatus writes the status if it differs from before. If it is not time for that, it returns how long to wait instead; not for a
// step that is told of, as it would be taken, and told of, once more. See paces.
func (r *Reconciler[T]) patchStatus(ctx context.Context, before, after T, step bool) (wait time.Duration, err error) {
	was, err := statusOf(before)
	if err != nil {
		return 0, err
	}
	is, err := statusOf(after)
	if err != nil || equality.Semantic.DeepEqual(was, is) {
		return 0, err
	}
	name := client.ObjectKeyFromObject(after)
	if !step {
		figures := equality.Semantic.DeepEqual(withoutFigures(before.CommonStatus()), withoutFigures(after.CommonStatus()))
		if wait := r.written.wait(name, figures, r.Clock.Now()); wait > 0 {
			return wait, nil
		}
	}
	// The test makes the API server refuse the patch for a later resource of the same name.
	data, err := json.Marshal([]map[string]any{
		{"op": "test", "path": "/metadata/uid", "value": after.GetUID()},
		{"op": "add", "path": "/status", "value": is},
	})
	if err != nil {
		return 0, fmt.Errorf("status: %w", err)
	}
	written := r.New()
	written.SetNamespace(name.Namespace)
	written.SetName(name.Name)
	if err := r.Client.Status().Patch(ctx, written, client.RawPatch(types.JSONPatchType, data)); err != nil {
		return 0, fmt.Errorf("write status: %w", err)
	}
	r.written.noteWrite(name, r.Clock.Now())
	return 0, nil
}

// statusOf returns a resource's status.
func statusOf(obj Resource) (any, error) {
	status := reflect.Indirect(reflect.ValueOf(obj)).FieldByName("Status")
	if !status.IsValid() {
		return nil, fmt.Errorf("%T has no status", obj)
	}
	return status.Interface(), nil
}

// withoutFigures returns a status without the messages that count pods: written at once, they would make a rollout cost
// two writes and more for each pod. That of Stalled stays, as it asks the user to act, and its event goes with the write.
func withoutFigures(status *appv1.CommonStatus) *appv1.CommonStatus {
	status = status.DeepCopy()
	for i := range status.Conditions {
		if status.Conditions[i].Type != appv1.ConditionStalled {
			status.Conditions[i].Message = ""
		}
	}
	return status
}

func condition(obj Resource, kind string) *metav1.Condition {
	return meta.FindStatusCondition(obj.CommonStatus().Conditions, kind)
}

func isTrue(c *metav1.Condition) bool { return c != nil && c.Status == metav1.ConditionTrue }
