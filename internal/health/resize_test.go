package health

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
)

// TestResizeFailure checks which states of a claim are a failed resize, that its message is bounded, and that what is kept of a status says the same.
func TestResizeFailure(t *testing.T) {
	condition := func(kind corev1.PersistentVolumeClaimConditionType, status corev1.ConditionStatus, message string) corev1.PersistentVolumeClaimStatus {
		return corev1.PersistentVolumeClaimStatus{Conditions: []corev1.PersistentVolumeClaimCondition{{Type: kind, Status: status, Message: message}}}
	}
	allocated := func(state corev1.ClaimResourceStatus) corev1.PersistentVolumeClaimStatus {
		return corev1.PersistentVolumeClaimStatus{AllocatedResourceStatuses: map[corev1.ResourceName]corev1.ClaimResourceStatus{corev1.ResourceStorage: state}}
	}
	long := strings.Repeat("é", 5000)
	for name, c := range map[string]struct {
		status corev1.PersistentVolumeClaimStatus
		failed bool
		words  string
	}{
		"nothing":                {},
		"it is resized":          {status: condition(corev1.PersistentVolumeClaimResizing, corev1.ConditionTrue, "resizing")},
		"it waits for the node":  {status: condition(corev1.PersistentVolumeClaimFileSystemResizePending, corev1.ConditionTrue, "waiting")},
		"the controller fails":   {condition(corev1.PersistentVolumeClaimControllerResizeError, corev1.ConditionTrue, "beyond\nthe quota"), true, "beyond the quota"},
		"the node fails":         {condition(corev1.PersistentVolumeClaimNodeResizeError, corev1.ConditionTrue, "no space"), true, "no space"},
		"the node has failed":    {status: condition(corev1.PersistentVolumeClaimNodeResizeError, corev1.ConditionFalse, "no space")},
		"a long message":         {condition(corev1.PersistentVolumeClaimNodeResizeError, corev1.ConditionTrue, long), true, "éé"},
		"the controller gave up": {allocated(corev1.PersistentVolumeClaimControllerResizeInfeasible), true, ""},
		"the node gave up":       {allocated(corev1.PersistentVolumeClaimNodeResizeInfeasible), true, ""},
		"in progress":            {status: allocated(corev1.PersistentVolumeClaimControllerResizeInProgress)},
	} {
		words, failed := ResizeFailure(&c.status)
		if failed != c.failed || !strings.HasPrefix(words, c.words) || len(words) > 260 || words != strings.ToValidUTF8(words, "") {
			t.Errorf("%s: %q, failed %t", name, words, failed)
		}
		kept := KeepResizeFailure(&c.status, 320)
		if again, still := ResizeFailure(&kept); again != words || still != failed || len(kept.Conditions) > 0 && len(kept.Conditions[0].Message) > 320 {
			t.Errorf("%s: what is kept says %q, failed %t", name, again, still)
		}
		if !failed && (len(kept.Conditions) > 0 || kept.AllocatedResourceStatuses != nil) {
			t.Errorf("%s: %+v is kept", name, kept)
		}
	}
}
