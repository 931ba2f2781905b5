// Package play has the parts of Kubernetes' controllers that tests play where those controllers do not run: what they write of
// Deployments, ReplicaSets, StatefulSets and pods.
package play

import (
	"maps"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
)

// reasonTimedOut is the reason of the condition Progressing of a Deployment whose rollout has made no progress in time.
const reasonTimedOut = "ProgressDeadlineExceeded"

// SetAvailable sets the status of a Deployment to that of a complete rollout: all of its pods are available.
func SetAvailable(d *appsv1.Deployment) {
	n := ptr.Deref(d.Spec.Replicas, 1)
	d.Status = appsv1.DeploymentStatus{
		ObservedGeneration: d.Generation, Replicas: n, UpdatedReplicas: n, ReadyReplicas: n, AvailableReplicas: n,
		Conditions: []appsv1.DeploymentCondition{
			{Type: appsv1.DeploymentAvailable, Status: corev1.ConditionTrue, Reason: "MinimumReplicasAvailable"},
			{Type: appsv1.DeploymentProgressing, Status: corev1.ConditionTrue, Reason: "NewReplicaSetAvailable"},
		},
	}
}

// SetRollingOut sets the status of a Deployment to that of a rollout that has begun: all earlier pods are available, and the first new pod
// is not. status and reason are those of the condition Progressing.
func SetRollingOut(d *appsv1.Deployment, status corev1.ConditionStatus, reason string) {
	n := ptr.Deref(d.Spec.Replicas, 1)
	d.Status = appsv1.DeploymentStatus{
		ObservedGeneration: d.Generation, Replicas: n + 1, UpdatedReplicas: 1, ReadyReplicas: n, AvailableReplicas: n,
		Conditions: []appsv1.DeploymentCondition{{Type: appsv1.DeploymentProgressing, Status: status, Reason: reason}},
	}
}

// SetTimedOut sets the status of a Deployment to that of a rollout that has made no progress in time.
func SetTimedOut(d *appsv1.Deployment) { SetRollingOut(d, corev1.ConditionFalse, reasonTimedOut) }

// SetReady sets the status of a StatefulSet to that of a complete rollout with so many available pods.
func SetReady(set *appsv1.StatefulSet, ready int32) {
	n := ptr.Deref(set.Spec.Replicas, 1)
	set.Status = appsv1.StatefulSetStatus{
		ObservedGeneration: set.Generation, Replicas: n, UpdatedReplicas: n, CurrentReplicas: n, ReadyReplicas: ready, AvailableReplicas: ready,
		CurrentRevision: "1", UpdateRevision: "1",
	}
}

// NewReplicaSet returns the ReplicaSet of the template of a Deployment, with the records of the Deployment. hash tells it apart from those
// of other templates.
func NewReplicaSet(d *appsv1.Deployment, hash string) *appsv1.ReplicaSet {
	set := &appsv1.ReplicaSet{ObjectMeta: metav1.ObjectMeta{
		Namespace: d.Namespace, Name: d.Name + "-" + hash, Annotations: maps.Clone(d.Annotations),
		OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(d, appsv1.SchemeGroupVersion.WithKind("Deployment"))},
	}}
	set.Spec.Template = *d.Spec.Template.DeepCopy()
	metav1.SetMetaDataLabel(&set.Spec.Template.ObjectMeta, appsv1.DefaultDeploymentUniqueLabelKey, hash)
	set.Labels = maps.Clone(set.Spec.Template.Labels)
	set.Spec.Selector = &metav1.LabelSelector{MatchLabels: maps.Clone(set.Labels)}
	return set
}

// NewPod returns a pod of a ReplicaSet.
func NewPod(set *appsv1.ReplicaSet) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: set.Namespace, GenerateName: set.Name + "-", Labels: maps.Clone(set.Spec.Template.Labels),
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(set, appsv1.SchemeGroupVersion.WithKind("ReplicaSet"))},
		},
		Spec: set.Spec.Template.Spec,
	}
}
