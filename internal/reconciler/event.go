package reconciler

import (
	"cmp"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	appv1 "huolala.cn/app-operator/api/v1"
	"huolala.cn/app-operator/internal/message"
)

// Event is the content of the one event of a reconcile, apart from the conditions.
type Event struct {
	// Action and Changes describe writes: the event's reason, and one line. See AddChanges.
	Action, Changes string
	// Reason and Note, if set, describe a step of the kind: the event's reason in place of Action, and a line before Changes. The
	// event is sent even without a write. IsWrite is true for a step that consists in the writes, so that no later reconcile has the step again.
	Reason, Note string
	IsWrite      bool
	// Warning, if set, is a further line, which makes the event a warning.
	Warning string
}

// AddChanges adds a description of writes, nothing if changes is empty. The first action is the event's reason.
func (e *Event) AddChanges(action, changes string) {
	if changes == "" {
		return
	}
	e.Action, e.Changes = cmp.Or(e.Action, action), joinLines(e.Changes, changes)
}

// AddStep adds a step that consists in the writes. The reason of the last step is the event's.
func (e *Event) AddStep(reason, note string) {
	e.Reason, e.Note, e.IsWrite = reason, joinLines(e.Note, note), true
}

// emitWrites sends the event of the writes of a reconcile whose status is not written. The next reconcile finds no difference of the children, and
// so has no event of them. Events about the conditions, and about steps of the status, follow with the write of the status.
func (r *Reconciler[T]) emitWrites(obj T, event *Event) {
	switch {
	case event.IsWrite:
		r.sendEvent(obj, corev1.EventTypeNormal, event.Reason, joinLines(event.Note, event.Changes))
	case event.Changes != "":
		r.sendEvent(obj, corev1.EventTypeNormal, event.Action, event.Changes)
	}
}

// emitEvent sends the event of a reconcile, if there were changes, or the resource has become stalled or newly rejected.
func (r *Reconciler[T]) emitEvent(before, after T, report *Report) {
	was, is := statusCondition(before, appv1.ConditionStalled), statusCondition(after, appv1.ConditionStalled)
	newlyStalled := isTrue(is) && (!isTrue(was) || was.Reason != is.Reason || was.Message != is.Message)
	event := &report.Event
	kind, reason, note := corev1.EventTypeNormal, cmp.Or(event.Reason, event.Action), joinLines(event.Note, event.Changes)
	switch {
	case newlyStalled:
		kind, reason = corev1.EventTypeWarning, "Err"+is.Reason
		if note != "" {
			note = " (" + note + ")"
		}
		note = is.Message + note
		if report.InForce == RolledBack && is.Reason == report.Why.Reason { // A rollback is not an error.
			reason = cmp.Or(event.Reason, is.Reason)
		}
	case newlyRefused(before, after, report.Auxiliary.Reason):
		c := statusCondition(after, appv1.ConditionApplied)
		if note != "" {
			note = " (" + note + ")"
		}
		kind, reason, note = corev1.EventTypeWarning, "Err"+c.Reason, c.Message+note
	case note == "":
		return
	case event.Warning != "":
		kind, note = corev1.EventTypeWarning, joinLines(note, event.Warning)
	}
	r.sendEvent(after, kind, reason, note)
}

// sendEvent sends an event about a resource.
func (r *Reconciler[T]) sendEvent(obj T, kind, reason, note string) {
	// Events of one action and reason become one series, which shows the note of the first alone.
	r.Recorder.Eventf(obj, nil, kind, reason, message.Truncate("Reconcile: "+note, maxAction), "%s", note)
}

// announcedReasons are the reasons of Applied that are retried rather than stalled, but need an event for the user.
var announcedReasons = []string{appv1.ReasonForbidden, appv1.ReasonSecretNotFound}

// newlyRefused reports whether an external cause newly prevents the spec from being applied. trouble is the reason of a problem of an object
// around the pods, empty for none.
func newlyRefused(before, after Resource, trouble string) bool {
	was, is := statusCondition(before, appv1.ConditionApplied), statusCondition(after, appv1.ConditionApplied)
	if is == nil || is.Status != metav1.ConditionFalse || is.Reason == appv1.ReasonProgressing ||
		is.Reason != trouble && !slices.Contains(announcedReasons, is.Reason) {
		return false
	}
	return was == nil || was.Status != metav1.ConditionFalse || was.Reason != is.Reason
}

// joinLines joins two parts of a note; either may be empty.
func joinLines(a, b string) string {
	if a == "" || b == "" {
		return a + b
	}
	return a + "; " + b
}
