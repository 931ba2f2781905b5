package health

import (
	"math"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// RolloutPods returns the pods of a Deployment whose causes count for its rollout: the pods of the newest ReplicaSet, as pods of an earlier one fail for
// reasons that the rollout may cure. They are all pods if no pod of the newest ReplicaSet has a cause, and the rollout is stalled or cannot become so.
func RolloutPods(d *appsv1.Deployment, pods []corev1.Pod, stalled bool) []corev1.Pod {
	newest := newestPods(d, pods)
	if (stalled || d.Spec.Paused || progressDeadline(d) == math.MaxInt32) && Worst(newest, stalled) == (Cause{}) {
		return pods
	}
	return newest
}

// Gravest returns the pods of a Deployment, three at most, that its verdict needs: those whose causes it has during a rollout and once the rollout has
// stalled, and a pod of the newest ReplicaSet. Each has the creation time of the oldest pod of its ReplicaSet.
func Gravest(d *appsv1.Deployment, pods []corev1.Pod) []corev1.Pod {
	during, stalled := RolloutPods(d, pods, false), RolloutPods(d, pods, true)
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
		if newest := newestPods(d, pods); i < 0 && len(newest) > 0 {
			add(newest[0])
		}
	}
	return gravest
}

// newestPods returns the pods of the newest ReplicaSet: the ReplicaSet that the Deployment's controller names, if that has a pod, or else the ReplicaSet
// whose oldest pod is the youngest. ReplicaSets of the same second are equally new, and so are ReplicaSets whose pods have no time.
func newestPods(d *appsv1.Deployment, pods []corev1.Pod) []corev1.Pod {
	begun := replicaSetTimes(pods)
	named := progressingReplicaSet(d)
	_, isThere := begun[named]
	var last time.Time
	for _, first := range begun {
		if first.After(last) {
			last = first
		}
	}
	var newest []corev1.Pod
	for i := range pods {
		set, counts := replicaSetOf(&pods[i])
		if counts && (isThere && set == named || !isThere && begun[set].Equal(last)) {
			newest = append(newest, pods[i])
		}
	}
	return newest
}

// progressingReplicaSet returns the name of the ReplicaSet of the present rollout that the condition Progressing has, empty if it has none. No field has
// the name: it is in quotes in the message (k8s.io/kubernetes/pkg/controller/deployment, progress.go and sync.go).
func progressingReplicaSet(d *appsv1.Deployment) string {
	c := deploymentCondition(d, appsv1.DeploymentProgressing)
	if c == nil || d.Status.ObservedGeneration < d.Generation || isOutdated(d) {
		return ""
	}
	_, rest, _ := strings.Cut(c.Message, `"`)
	name, _, found := strings.Cut(rest, `"`)
	if !found || !strings.HasPrefix(name, d.Name+"-") {
		return ""
	}
	return name
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
