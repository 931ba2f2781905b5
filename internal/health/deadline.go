package health

import (
	"encoding/json"
	"math"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/utils/ptr"
)

// Reasons of the condition Progressing (k8s.io/kubernetes/pkg/controller/deployment/util).
const (
	reasonRolledOut = "NewReplicaSetAvailable"
	reasonTimedOut  = "ProgressDeadlineExceeded"
)

// maxSkew is by how much the clocks of the API server and of the Deployment's controller may differ. A rollout that times out within that time is stalled once
// its deadline is over by the time of its change, which is the same moment.
const maxSkew = 2 * time.Second

// LostPods reports whether the Deployment's controller has seen the latest change and its rollout has finished, although pods may have been
// lost since.
func LostPods(d *appsv1.Deployment) bool {
	return observedReason(d) == reasonRolledOut && d.Status.Replicas <= d.Status.UpdatedReplicas
}

// hasTimedOut reports whether the Deployment's controller has found that the present rollout makes no progress in time.
func hasTimedOut(d *appsv1.Deployment) bool {
	return observedReason(d) == reasonTimedOut && !isOutdated(d)
}

// timeLeft returns the time until the deadline of a rollout whose deadline the Deployment's controller does not measure. The time counts from the latest
// change of the template. A write of another field counts too if the manager of the template makes it, as a manager has one time for all of its fields.
func timeLeft(d *appsv1.Deployment, now time.Time) (left time.Duration, measured bool) {
	if !isOutdated(d) || d.Spec.Paused || progressDeadline(d) == math.MaxInt32 {
		return 0, false
	}
	changed := TemplateWritten(d)
	if changed.IsZero() {
		return 0, false
	}
	return max(0, changed.Add(time.Duration(progressDeadline(d))*time.Second).Sub(now)), true
}

// isOutdated reports whether the condition Progressing is about the previous rollout. The Deployment's controller does not measure a rollout to an existing
// ReplicaSet before its first progress: a condition of a finished rollout never times out (k8s.io/kubernetes/pkg/controller/deployment, DeploymentTimedOut),
// and the condition of a rollout that has timed out stays as it is. The controller also observes a change of the template together with the replicas before it makes
// the ReplicaSet. The condition stays for good if no pod can be created, or a write of the status fails.
func isOutdated(d *appsv1.Deployment) bool {
	switch observedReason(d) {
	case reasonRolledOut:
		return !LostPods(d)
	case reasonTimedOut:
		// The two times are of two clocks, and in whole seconds. Without managed fields the change is unknown.
		at, changed := deploymentCondition(d, appsv1.DeploymentProgressing).LastUpdateTime.Time, TemplateWritten(d)
		return !at.IsZero() && !changed.IsZero() && !at.After(changed.Add(min(maxSkew, time.Duration(progressDeadline(d))*time.Second)))
	}
	return false
}

// observedReason returns the reason of the condition Progressing, empty before the Deployment's controller has seen the latest change.
func observedReason(d *appsv1.Deployment) string {
	c := deploymentCondition(d, appsv1.DeploymentProgressing)
	if c == nil || d.Status.ObservedGeneration < d.Generation {
		return ""
	}
	return c.Reason
}

// TemplateWritten returns when a manager that has fields of the template last wrote the Deployment, the zero time if no manager of them has a time. The time
// of a manager of other fields alone is none of the rollout: the replicas of an autoscaler, or an annotation of another controller.
func TemplateWritten(d *appsv1.Deployment) (last time.Time) {
	for i := range d.ManagedFields {
		entry := &d.ManagedFields[i]
		if entry.Subresource != "" || entry.FieldsV1 == nil || entry.Time == nil || !entry.Time.After(last) {
			continue
		}
		var fields struct {
			Spec struct {
				Template json.RawMessage `json:"f:template"`
			} `json:"f:spec"`
		}
		if json.Unmarshal(entry.FieldsV1.GetRawBytes(), &fields) == nil && fields.Spec.Template != nil {
			last = entry.Time.Time
		}
	}
	return last
}

// progressDeadline is how many seconds a rollout may make no progress.
func progressDeadline(d *appsv1.Deployment) int32 {
	return ptr.Deref(d.Spec.ProgressDeadlineSeconds, 600) // The API server's default.
}
