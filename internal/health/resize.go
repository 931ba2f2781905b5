package health

import (
	"slices"

	corev1 "k8s.io/api/core/v1"

	"huolala.cn/app-operator/internal/message"
)

// resizeErrors are the conditions of a claim whose volume a driver cannot resize.
var resizeErrors = []corev1.PersistentVolumeClaimConditionType{
	corev1.PersistentVolumeClaimControllerResizeError, corev1.PersistentVolumeClaimNodeResizeError,
}

// infeasible are the states of a resize that the driver has given up.
var infeasible = []corev1.ClaimResourceStatus{corev1.PersistentVolumeClaimControllerResizeInfeasible, corev1.PersistentVolumeClaimNodeResizeInfeasible}

// ResizeFailure reports whether the volume of a claim cannot get the size in the spec of the claim, and returns the driver's words about it, which may be
// empty.
func ResizeFailure(status *corev1.PersistentVolumeClaimStatus) (words string, failed bool) {
	for _, kind := range resizeErrors {
		for i := range status.Conditions {
			if c := &status.Conditions[i]; c.Type == kind && c.Status == corev1.ConditionTrue {
				return message.Quote(c.Message), true
			}
		}
	}
	return "", slices.Contains(infeasible, status.AllocatedResourceStatuses[corev1.ResourceStorage])
}

// KeepResizeFailure returns of the status of a claim what ResizeFailure reads, with a message of at most a number of bytes.
func KeepResizeFailure(status *corev1.PersistentVolumeClaimStatus, most int) (kept corev1.PersistentVolumeClaimStatus) {
	for _, kind := range resizeErrors {
		i := slices.IndexFunc(status.Conditions, func(c corev1.PersistentVolumeClaimCondition) bool {
			return c.Type == kind && c.Status == corev1.ConditionTrue
		})
		if i >= 0 {
			kept.Conditions = append(kept.Conditions, corev1.PersistentVolumeClaimCondition{
				Type: kind, Status: corev1.ConditionTrue, Message: message.Truncate(status.Conditions[i].Message, most),
			})
		}
	}
	if i := slices.Index(infeasible, status.AllocatedResourceStatuses[corev1.ResourceStorage]); i >= 0 {
		kept.AllocatedResourceStatuses = map[corev1.ResourceName]corev1.ClaimResourceStatus{corev1.ResourceStorage: infeasible[i]}
	}
	return kept
}
