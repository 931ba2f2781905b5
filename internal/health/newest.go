package health

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// RolloutPods returns the pods of a Deployment whose causes count for its rollout: the pods of the newest ReplicaSet, as pods of an earlier one fail for
// reasons that the rollout may cure. They are all pods if the rollout is stalled and no pod of the newest ReplicaSet has a cause.
func RolloutPods(pods []corev1.Pod, stalled bool) []corev1.Pod {
	newest := newestPods(pods)
	if stalled && Worst(newest, stalled) == (Cause{}) {
		return pods
	}
	return newest
}

// Gravest returns the pods of a Deployment, three at most, that its verdict needs: those whose causes it has during a rollout and once the rollout has
// stalled, and a pod of the newest ReplicaSet. Their times are those of the oldest pods of their ReplicaSets.
func Gravest(pods []corev1.Pod) []corev1.Pod {
	during, stalled := RolloutPods(pods, false), RolloutPods(pods, true)
	i, _ := worstPod(during, CauseOf)
	k, _ := worstPod(stalled, lastCauseOf)
	begun := replicaSetTimes(pods)
	var gravest []corev1.Pod
	add := func(pod corev1.Pod) {
		if !slices.ContainsFunc(gravest, func(other corev1.Pod) bool { return other.Name == pod.Name }) {
			set, _ := replicaSetOf(&pod)
			pod.CreationTimestamp = metav1.NewTime(begun[set])
			gravest = append(gravest, pod)
		}
	}
	if i >= 0 {
		add(during[i])
	}
	if k >= 0 {
		add(stalled[k])
		if i < 0 {
			add(during[0])
		}
	}
	return gravest
}

// newestPods returns the pods of the newest ReplicaSet. It is the one whose oldest pod is younger than the oldest pod of each other, as an evicted pod
// of an earlier ReplicaSet is replaced during a rollout, too. ReplicaSets of the same second are equally new, and so are all whose pods have no time.
func newestPods(pods []corev1.Pod) []corev1.Pod {
	begun := replicaSetTimes(pods)
	var last time.Time
	for _, first := range begun {
		if first.After(last) {
			last = first
		}
	}
	var newest []corev1.Pod
	for i := range pods {
		if set, counts := replicaSetOf(&pods[i]); counts && begun[set].Equal(last) {
			newest = append(newest, pods[i])
		}
	}
	return newest
}

// replicaSetTimes returns when the oldest pod of each ReplicaSet was created.
func replicaSetTimes(pods []corev1.Pod) map[string]time.Time {
	begun := map[string]time.Time{}
	for i := range pods {
		set, counts := replicaSetOf(&pods[i])
		if !counts {
			continue
		}
		created := pods[i].CreationTimestamp.Time
		if first, ok := begun[set]; !ok || created.Before(first) {
			begun[set] = created
		}
	}
	return begun
}

// replicaSetOf returns the name of the ReplicaSet of a pod, empty for a pod that has none, and whether the pod is part of a rollout: a pod that has ended
// or is being deleted is not.
func replicaSetOf(pod *corev1.Pod) (name string, counts bool) {
	if pod.DeletionTimestamp != nil || PodEnded(pod) {
		return "", false
	}
	if owner := metav1.GetControllerOfNoCopy(pod); owner != nil {
		name = owner.Name
	}
	return name, true
}
