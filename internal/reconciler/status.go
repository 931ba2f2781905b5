package reconciler

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"regexp"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appv1 "huolala.cn/app-operator/api/v1"
	"huolala.cn/app-operator/internal/health"
	"huolala.cn/app-operator/internal/message"
)

// maxMessage is the maximum length in bytes of a condition's message. The API server rejects messages of over 32768 characters.
const maxMessage = 4096

// setStatusConditions sets the conditions by the report and the error of the steps.
func setStatusConditions(obj Resource, report *Report, err error) {
	ofPods := podsAppliedCondition(report, err)
	applied := appliedCondition(report, ofPods)
	ready := readyCondition(report, &ofPods, err)
	stalled := stalledCondition(report, err)
	reconciling := reconcilingCondition(obj, report, &ready, &stalled, err)

	status := obj.CommonStatus()
	status.ObservedGeneration = obj.GetGeneration()
	conditions := []metav1.Condition{ready, applied, reconciling, stalled}
	for i := range conditions {
		conditions[i].ObservedGeneration = obj.GetGeneration()
		conditions[i].Message = message.Truncate(conditions[i].Message, maxMessage)
	}
	report.SetConditions(&status.Conditions)
	numbersChange := stalled.Status == metav1.ConditionTrue && !report.ExactNumbers
	for _, c := range conditions {
		c.Message = steadyMessage(status.Conditions, &c, numbersChange)
		meta.SetStatusCondition(&status.Conditions, c)
	}
}

// stampTransitions sets the time of the conditions whose status differs from before: meta.SetStatusCondition has the time of the machine.
func stampTransitions(conditions, before []metav1.Condition, now time.Time) {
	for i := range conditions {
		if was := meta.FindStatusCondition(before, conditions[i].Type); was == nil || was.Status != conditions[i].Status {
			conditions[i].LastTransitionTime = metav1.NewTime(now)
		}
	}
}

// appliedCondition returns the condition Applied: that of the pods, unless an auxiliary object has a problem.
func appliedCondition(report *Report, ofPods metav1.Condition) metav1.Condition {
	if ofPods.Status == metav1.ConditionTrue && report.Auxiliary.Reason != "" {
		ofPods.Status, ofPods.Reason, ofPods.Message = metav1.ConditionFalse, report.Auxiliary.Reason, report.Auxiliary.Message
	}
	return ofPods
}

// podsAppliedCondition returns the condition Applied by the pods alone: whether the current generation of the spec is in force, with the cause
// if not. Ready depends on it, and not on auxiliary objects.
func podsAppliedCondition(report *Report, err error) metav1.Condition {
	applied := metav1.Condition{Type: appv1.ConditionApplied, Status: metav1.ConditionTrue, Reason: appv1.ReasonApplied}
	switch {
	case err != nil:
		applied.Status = metav1.ConditionFalse
		applied.Reason, applied.Message = ReasonAndMessageOf(err)
	case report.Pause == Pending:
		applied.Status, applied.Reason, applied.Message = metav1.ConditionFalse, appv1.ReasonPaused, messagePending
	case report.InForce != Present:
		applied.Status = metav1.ConditionFalse
		applied.Reason, applied.Message = report.Why.Reason, report.Why.Message
	case report.Note.Reason != "":
		applied.Reason, applied.Message = report.Note.Reason, report.Note.Message
	}
	return applied
}

// readyCondition returns the condition Ready: by the health of the pods, and never True while the current generation of the spec
// is not in force.
func readyCondition(report *Report, applied *metav1.Condition, err error) metav1.Condition {
	ready := metav1.Condition{
		Type: appv1.ConditionReady, Status: metav1.ConditionFalse, Reason: report.Pods.Reason, Message: report.Pods.Message,
	}
	switch {
	case err != nil:
		// The error takes precedence over the pods of an earlier spec.
		ready.Reason, ready.Message = ReasonAndMessageOf(err)
	case report.Pause == Pending:
		ready.Status, ready.Reason = metav1.ConditionUnknown, appv1.ReasonPaused
		ready.Message = joinSentences(messagePending, report.Pods.Message)
	case report.Pods.Ready && report.InForce == Canary:
		ready.Status, ready.Reason, ready.Message = metav1.ConditionUnknown, report.Why.Reason, report.Why.Message
	case report.Pods.Ready && applied.Status != metav1.ConditionTrue:
		ready.Reason, ready.Message = applied.Reason, applied.Message
	case report.Pause == Paused && !report.Pods.Stalled:
		ready.Reason, ready.Message = appv1.ReasonPaused, joinSentences(messagePaused, report.Pods.Message)
	}
	if err == nil && report.Pods.Ready && applied.Status == metav1.ConditionTrue {
		ready.Status = metav1.ConditionTrue
	}
	return ready
}

// IsReady reports whether the condition Ready is True by the report and the error of the steps.
func IsReady(report *Report, err error) bool {
	applied := podsAppliedCondition(report, err)
	return readyCondition(report, &applied, err).Status == metav1.ConditionTrue
}

// stalledCondition returns the condition Stalled: whether the resource needs a user to act.
func stalledCondition(report *Report, err error) metav1.Condition {
	stalled := metav1.Condition{Type: appv1.ConditionStalled, Status: metav1.ConditionTrue}
	var stalledErr *StalledError
	switch {
	case errors.As(err, &stalledErr):
		stalled.Reason, stalled.Message = ReasonAndMessageOf(err)
	case err == nil && report.InForce == RolledBack:
		stalled.Reason, stalled.Message = report.Why.Reason, report.Why.Message
	case err == nil && report.Pods.Stalled && !report.Pods.Ready:
		stalled.Reason, stalled.Message = report.Pods.Reason, report.Pods.Message
	default:
		stalled.Status, stalled.Reason = metav1.ConditionFalse, appv1.ReasonNotStalled
	}
	return stalled
}

// reconcilingCondition returns the condition Reconciling: whether the operator has work left, or waits for a change without user
// action.
func reconcilingCondition(obj Resource, report *Report, ready, stalled *metav1.Condition, err error) metav1.Condition {
	c := metav1.Condition{Type: appv1.ConditionReconciling, Status: metav1.ConditionFalse, Reason: ready.Reason, Message: ready.Message}
	isReady := ready.Status == metav1.ConditionTrue
	switch {
	case report.Pause != NotPaused:
		c.Reason, c.Message = appv1.ReasonPaused, messagePaused
		if pending := obj.CommonStatus().Pending; len(pending) > 0 {
			c.Message = pending[0]
		}
	case err == nil && report.InForce == Held && report.Pods.Ready:
		c.Reason, c.Message = appv1.ReasonHeld, report.Why.Message
	case stalled.Status == metav1.ConditionTrue:
	case isReady && report.Auxiliary.Reason == appv1.ReasonProgressing: // An auxiliary object waits.
		c.Status, c.Reason, c.Message = metav1.ConditionTrue, report.Auxiliary.Reason, report.Auxiliary.Message
	case isReady:
		c.Reason, c.Message = appv1.ReasonSettled, ""
	default:
		c.Status = metav1.ConditionTrue
	}
	return c
}

// tokens matches the parts of a message that have a digit, from separator to separator, with quotation marks next to them.
var tokens = regexp.MustCompile(`["'` + "`" + `]?[A-Za-z0-9._/:@-]*[0-9][A-Za-z0-9._/:@-]*["'` + "`" + `]?`)

// digits matches the parts of a token that may change while the problem stays the same, such as a number of pods or the use of a quota.
var digits = regexp.MustCompile(`[0-9]+`)

// randomDigits matches the random number in a name that a container runtime makes for each attempt, such as the name of a temporary folder.
var randomDigits = regexp.MustCompile(`[0-9]{8,}`)

// withoutFigureDigits returns a message without the digits of its figures: counts, quantities, times, and addresses with their ports. A token that begins with a
// letter, or is all there is between two quotation marks, is a name, and keeps its digits but for random ones: web-2, /data1 and "4" are other objects than
// web-1, /data2 and "3".
func withoutFigureDigits(text string) string {
	return tokens.ReplaceAllStringFunc(text, func(token string) string {
		bare := strings.Trim(token, "\"'`")
		first := strings.TrimLeft(bare, "._/:@-")[0]
		if first < '0' || first > '9' || len(token) == len(bare)+2 {
			return randomDigits.ReplaceAllLiteralString(token, "#")
		}
		return digits.ReplaceAllLiteralString(token, "#")
	})
}

// steadyMessage returns the message of a condition, with the earlier error of an image pull that is no longer shown. With numbersChange it is the earlier
// message where the new one differs from it in nothing but figures: each crash of a pod would otherwise be a write of the status, and an event.
func steadyMessage(before []metav1.Condition, is *metav1.Condition, numbersChange bool) string {
	was := meta.FindStatusCondition(before, is.Type)
	if was == nil || was.Status != is.Status || was.Reason != is.Reason || was.ObservedGeneration != is.ObservedGeneration {
		return is.Message
	}
	kept := health.KeepPullError(was.Message, is.Message)
	if numbersChange && withoutFigureDigits(was.Message) == withoutFigureDigits(kept) {
		return was.Message
	}
	return kept
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
		if wait := r.written.writeDelay(name, figures, r.Clock.Now()); wait > 0 {
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

// withoutFigures returns a status without the messages that count pods: immediate writes of these messages would cost two writes
// or more for each pod of a rollout. The message of Stalled is kept, as it needs a user to act and triggers the event.
func withoutFigures(status *appv1.CommonStatus) *appv1.CommonStatus {
	status = status.DeepCopy()
	for i := range status.Conditions {
		if status.Conditions[i].Type != appv1.ConditionStalled {
			status.Conditions[i].Message = ""
		}
	}
	return status
}

func statusCondition(obj Resource, kind string) *metav1.Condition {
	return meta.FindStatusCondition(obj.CommonStatus().Conditions, kind)
}

func isTrue(c *metav1.Condition) bool { return c != nil && c.Status == metav1.ConditionTrue }

// MergeStatus writes the difference between two statuses of an object without a Reconciler of its own. An object that is gone is no error.
func MergeStatus(ctx context.Context, c client.Client, before, after client.Object) error {
	if err := client.IgnoreNotFound(c.Status().Patch(ctx, after, client.MergeFrom(before))); err != nil {
		return fmt.Errorf("write status: %w", err)
	}
	return nil
}
