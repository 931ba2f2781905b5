package workload

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appv1 "huolala.cn/app-operator/api/v1"
	"huolala.cn/app-operator/internal/health"
	"huolala.cn/app-operator/resource"
)

// This file makes the status of a workload from its live Deployment and Service.

// StatusOf returns the status of the live Deployment of an observation and of the Service of the owner, and the health of the pods. The Deployment
// may have any controller. today are the inputs of a new workload, the zero value for a Deployment that others have built.
func StatusOf(in *Input, seen *Observed, today resource.BuildInputs) (appv1.WorkloadStatus, health.Verdict) {
	live := seen.Deployment()
	status := withoutFigures(in, seen)
	status.Ready = fmt.Sprintf("%d/%d", live.Status.ReadyReplicas, ptr.Deref(live.Spec.Replicas, 1))
	status.Replicas = live.Status.Replicas
	status.UpdatedReplicas = live.Status.UpdatedReplicas
	status.ReadyReplicas = live.Status.ReadyReplicas
	status.AvailableReplicas = live.Status.AvailableReplicas
	status.UnavailableReplicas = live.Status.UnavailableReplicas
	status.Selector = metav1.FormatLabelSelector(live.Spec.Selector)
	if seen.isOwned(in.Owner) { // The inputs of another resource are no record that this one had a workload object.
		status = withInputs(status, live, today)
	}
	return status, podsOf(seen.Verdict, seen.Service)
}

// MissingStatus returns the status of an owner without a Deployment, and the health of the pods. lost is true if there was a Deployment that cannot
// be rebuilt.
func MissingStatus(in *Input, seen *Observed, lost bool) (appv1.WorkloadStatus, health.Verdict) {
	status, before := withoutFigures(in, seen), &in.Before.Workload
	if lost || in.Tier != "" {
		// These fields record that the workload object existed.
		status.Selector, status.Rendering = before.Selector, before.Rendering
	}
	if in.KeepsRendering {
		status.Rendering = before.Rendering
	}
	status.Ready = fmt.Sprintf("0/%d", ptr.Deref(in.Spec.Workload().Replicas, 1))
	return status, health.Verdict{Reason: appv1.ReasonProgressing, Message: fmt.Sprintf(messageNotCreatedYet, "Deployment", in.Name)}
}

// withoutFigures returns the part of a status that does not depend on the Deployment.
func withoutFigures(in *Input, seen *Observed) appv1.WorkloadStatus {
	status := appv1.WorkloadStatus{CommonStatus: in.Before.Workload.CommonStatus}
	if seen.Service != nil && metav1.IsControlledBy(seen.Service, in.Owner) {
		status.Endpoint = resource.Endpoint(seen.Service)
	}
	return status
}

// podsOf returns the health of the pods, or why their Service is not ready for its clients.
func podsOf(verdict health.Verdict, service *corev1.Service) health.Verdict {
	if verdict.Ready && service != nil {
		if pending := health.Service(service); !pending.Ready {
			return pending
		}
	}
	return verdict
}

// withInputs returns the status with the inputs of a live workload object, and with newer ones if there are any. today are the inputs of a
// new workload.
func withInputs(status appv1.WorkloadStatus, live client.Object, today resource.BuildInputs) appv1.WorkloadStatus {
	used, err := inputsOf(live)
	if err != nil || used.Kept { // The inputs of a kept template shape nothing yet.
		return status
	}
	status.Rendering = used.Rendering
	if used.Rendering < today.Rendering {
		status.LatestRendering = today.Rendering
	}
	status.Size = used.Size.String()
	// With another name the spec has changed: that is not held back.
	if used.Size.Name == today.Size.Name && !used.Size.Equal(today.Size) {
		status.LatestSize = today.Size.String()
	}
	return status
}

// unstatedReplicas returns the condition ReplicasUnstated, which is there if an autoscaler cannot read the scale subresource of the custom
// resource: without spec.replicas, the API server returns an error.
func unstatedReplicas(in *Input, seen *Observed) metav1.Condition {
	c := metav1.Condition{Type: appv1.ConditionReplicasUnstated}
	if seen.ownerAutoscaler != "" && in.Spec.Workload().Replicas == nil {
		c.Status, c.Reason, c.ObservedGeneration = metav1.ConditionTrue, appv1.ConditionReplicasUnstated, in.Owner.GetGeneration()
		c.Message = fmt.Sprintf(messageReplicasUnstated, seen.ownerAutoscaler, in.Kind.Name)
	}
	return c
}

// historyOf returns the ReplicaSet that runs, and the last good ReplicaSet of a spec that was in force.
func historyOf(in *Input, want *decision, seen *Observed, ready bool) appv1.HistoryStatus {
	history, live := in.Before.History, seen.Deployment()
	if !in.Kind.Holds || live == nil || !metav1.IsControlledBy(live, in.Owner) {
		return history
	}
	name := runningReplicaSet(live, seen.Pods)
	if name == "" {
		return history
	}
	history.ReplicaSet = name
	good := history.LastGood
	// During a pause, the pods may come from an edit by hand.
	if changed, err := in.Spec.Changed(recordOf(live), resource.ScopePods); err != nil || changed || want.held != nil || in.Paused {
		return history
	}
	if ready && (good == nil || good.ReplicaSet != name) {
		history.LastGood = &appv1.GoodRevision{
			ReplicaSet: name, Image: resource.MainContainer(live).Image, Since: ptr.To(metav1.NewTime(seen.At.Truncate(time.Second))),
		}
	}
	return history
}
