package workload

import (
	"slices"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
)

// TestRunningReplicaSet has the states of a Deployment and its pods.
func TestRunningReplicaSet(t *testing.T) {
	pod := func(kindName, owner string) corev1.Pod {
		return corev1.Pod{ObjectMeta: metav1.ObjectMeta{OwnerReferences: []metav1.OwnerReference{{Kind: kindName, Name: owner, Controller: ptr.To(true)}}}}
	}
	deleted := pod("ReplicaSet", "web-1")
	deleted.DeletionTimestamp = ptr.To(metav1.Now())
	evicted := pod("ReplicaSet", "web-1")
	evicted.Status.Phase = corev1.PodFailed
	settled := appsv1.DeploymentStatus{ObservedGeneration: 2, Replicas: 2, UpdatedReplicas: 2}
	for name, c := range map[string]struct {
		status appsv1.DeploymentStatus
		pods   []corev1.Pod
		want   string
	}{
		"all are its":             {settled, []corev1.Pod{pod("ReplicaSet", "web-2"), pod("ReplicaSet", "web-2")}, "web-2"},
		"one is being deleted":    {settled, []corev1.Pod{deleted, pod("ReplicaSet", "web-2")}, "web-2"},
		"one was evicted":         {settled, []corev1.Pod{evicted, pod("ReplicaSet", "web-2")}, "web-2"},
		"one is of another":       {settled, []corev1.Pod{pod("ReplicaSet", "web-1"), pod("ReplicaSet", "web-2")}, ""},
		"one is of a Job":         {settled, []corev1.Pod{pod("Job", "web-1"), pod("ReplicaSet", "web-2")}, "web-2"},
		"none is seen":            {settled, nil, ""},
		"the status is old":       {appsv1.DeploymentStatus{ObservedGeneration: 1, Replicas: 2, UpdatedReplicas: 2}, []corev1.Pod{pod("ReplicaSet", "web-2")}, ""},
		"a rollout is under way":  {appsv1.DeploymentStatus{ObservedGeneration: 2, Replicas: 3, UpdatedReplicas: 2}, []corev1.Pod{pod("ReplicaSet", "web-2")}, ""},
		"pods are yet to be made": {appsv1.DeploymentStatus{ObservedGeneration: 2, Replicas: 1, UpdatedReplicas: 1}, []corev1.Pod{pod("ReplicaSet", "web-2")}, ""},
	} {
		d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Generation: 2}, Status: c.status}
		d.Spec.Replicas = ptr.To[int32](2)
		if got := runningReplicaSet(d, c.pods); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

// TestImageOfAFailedSpec has a rollout stall whose pods have a container of others before the main one: the mark has the image of the main container.
func TestImageOfAFailedSpec(t *testing.T) {
	s := newSituation(t)
	s.stall()
	pods := &s.main().Spec.Template.Spec
	pods.Containers = slices.Insert(pods.Containers, 0, corev1.Container{Name: "log", Image: "log:1"})
	in := newAppInput(s.app)
	if wish := (decider{compare: s.compare, in: in, seen: s.seen}).wishHold(); wish.mark == nil || wish.mark.Failed.Image != "nginx:1" {
		t.Errorf("the wish is %+v", wish)
	}
}
