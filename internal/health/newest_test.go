package health

import (
	"fmt"
	"math"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	appv1 "huolala.cn/app-operator/api/v1"
)

// podOfSet returns a pod of a ReplicaSet.
func podOfSet(name, set string, created time.Time) corev1.Pod {
	return corev1.Pod{ObjectMeta: metav1.ObjectMeta{
		Name: name, CreationTimestamp: metav1.NewTime(created),
		OwnerReferences: []metav1.OwnerReference{{Kind: "ReplicaSet", Name: set, Controller: ptr.To(true)}},
	}}
}

// TestCauseOfNewestPods has rollouts with pods of several ReplicaSets: the reason is the newest ReplicaSet's.
func TestCauseOfNewestPods(t *testing.T) {
	begin := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	pods := 0
	pod := func(set string, second int, change func(*corev1.Pod)) corev1.Pod {
		pods++
		p := podOfSet(fmt.Sprintf("%s-%d", set, pods), set, begin.Add(time.Duration(second)*time.Second))
		change(&p)
		return p
	}
	status := func(s corev1.ContainerStatus) func(*corev1.Pod) {
		return func(p *corev1.Pod) {
			s.Name = "web"
			p.Status.ContainerStatuses = []corev1.ContainerStatus{s}
		}
	}
	killed := status(corev1.ContainerStatus{State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{Reason: "OOMKilled"}}})
	loops := status(corev1.ContainerStatus{State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "CrashLoopBackOff"}}})
	runs := func(*corev1.Pod) {}
	unscheduled := func(p *corev1.Pod) {
		p.Status.Conditions = []corev1.PodCondition{{
			Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: corev1.PodReasonUnschedulable, Message: "0/3 nodes are available",
		}}
	}
	ended := func(p *corev1.Pod) { p.Status.Phase = corev1.PodFailed }
	deleted := func(p *corev1.Pod) { p.DeletionTimestamp = ptr.To(metav1.NewTime(begin)) }

	for name, c := range map[string]struct {
		pods            []corev1.Pod
		during, stalled string
		named           string
	}{
		"the earlier pods are killed, a new one waits for a node": {
			[]corev1.Pod{pod("web-1", 0, killed), pod("web-1", 0, killed), pod("web-2", 60, unscheduled)}, appv1.ReasonUnschedulable, appv1.ReasonUnschedulable, "",
		},
		"the new pod starts": {
			[]corev1.Pod{pod("web-1", 0, killed), pod("web-2", 60, runs)}, appv1.ReasonProgressing, appv1.ReasonOOMKilled, "",
		},
		"an earlier pod was replaced during the rollout": {
			[]corev1.Pod{pod("web-1", 0, runs), pod("web-1", 90, killed), pod("web-2", 60, loops)}, appv1.ReasonCrashLoopBackOff, appv1.ReasonCrashLoopBackOff, "",
		},
		"an earlier pod was replaced, the new pod starts": {
			[]corev1.Pod{pod("web-1", 0, runs), pod("web-1", 90, killed), pod("web-2", 60, runs)}, appv1.ReasonProgressing, appv1.ReasonOOMKilled, "",
		},
		"the oldest earlier pod was evicted": {
			[]corev1.Pod{pod("web-1", 0, ended), pod("web-1", 30, killed), pod("web-2", 60, loops)}, appv1.ReasonCrashLoopBackOff, appv1.ReasonCrashLoopBackOff, "",
		},
		"the new pods are being deleted": {
			[]corev1.Pod{pod("web-1", 0, killed), pod("web-2", 60, deleted)}, appv1.ReasonOOMKilled, appv1.ReasonOOMKilled, "",
		},
		"three ReplicaSets": {
			[]corev1.Pod{pod("web-3", 90, loops), pod("web-1", 0, killed), pod("web-2", 60, unscheduled)}, appv1.ReasonCrashLoopBackOff, appv1.ReasonCrashLoopBackOff, "",
		},
		"two ReplicaSets of one second": {
			[]corev1.Pod{pod("web-1", 0, killed), pod("web-2", 0, unscheduled)}, appv1.ReasonOOMKilled, appv1.ReasonOOMKilled, "",
		},
		"rolled back to an earlier ReplicaSet, whose new pod fails": {
			[]corev1.Pod{pod("web-1", 0, runs), pod("web-1", 90, unscheduled), pod("web-2", 60, runs)}, appv1.ReasonUnschedulable, appv1.ReasonUnschedulable, "web-1",
		},
		"the same, and the pod to be removed crashes": {
			[]corev1.Pod{pod("web-1", 0, runs), pod("web-1", 90, unscheduled), pod("web-2", 60, loops)}, appv1.ReasonUnschedulable, appv1.ReasonUnschedulable, "web-1",
		},
		"all earlier pods were replaced": {
			[]corev1.Pod{pod("web-1", 90, runs), pod("web-2", 60, loops)}, appv1.ReasonCrashLoopBackOff, appv1.ReasonCrashLoopBackOff, "web-2",
		},
		"the new ReplicaSet has no pod": {
			[]corev1.Pod{pod("web-1", 0, loops)}, appv1.ReasonCrashLoopBackOff, appv1.ReasonCrashLoopBackOff, "web-2",
		},
		"the name is that of another Deployment": {
			[]corev1.Pod{pod("web-1", 0, killed), pod("web-2", 60, loops)}, appv1.ReasonCrashLoopBackOff, appv1.ReasonCrashLoopBackOff, "shop-1",
		},
		"one ReplicaSet": {
			[]corev1.Pod{pod("web-1", 0, runs), pod("web-1", 9, loops)}, appv1.ReasonCrashLoopBackOff, appv1.ReasonCrashLoopBackOff, "",
		},
	} {
		for _, reason := range []string{"ReplicaSetUpdated", "ProgressDeadlineExceeded"} {
			want := c.during
			if reason == "ProgressDeadlineExceeded" {
				want = c.stalled
			}
			d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: "web"}}
			d.Status.Conditions = []appsv1.DeploymentCondition{{Type: appsv1.DeploymentProgressing, Reason: reason, Message: fmt.Sprintf("ReplicaSet %q is progressing.", c.named)}}
			all := Deployment(d, c.pods, begin)
			if all.Reason != want {
				t.Errorf("%s, %s: %s, want %s", name, reason, all.Reason, want)
			}
			if got := Deployment(d, Gravest(d, c.pods), begin); got.Reason != want {
				t.Errorf("%s, %s: of the gravest pods %s, want %s", name, reason, got.Reason, want)
			}
		}
	}
}

// TestCauseOfEarlierPods has Deployments that no deadline ends the rollout of: the pods of before count, if they alone have a cause.
func TestCauseOfEarlierPods(t *testing.T) {
	at := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	pod := func(set string, second int) corev1.Pod {
		return podOfSet(set, set, at.Add(time.Duration(second)*time.Second))
	}
	crashes := pod("web-1", 0)
	crashes.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "web", State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "CrashLoopBackOff"}}}}
	for name, c := range map[string]struct {
		change func(*appsv1.DeploymentSpec)
		want   string
	}{
		"with a deadline":    {func(*appsv1.DeploymentSpec) {}, appv1.ReasonProgressing},
		"without a deadline": {func(s *appsv1.DeploymentSpec) { s.ProgressDeadlineSeconds = ptr.To[int32](math.MaxInt32) }, appv1.ReasonCrashLoopBackOff},
		"paused":             {func(s *appsv1.DeploymentSpec) { s.Paused = true }, appv1.ReasonCrashLoopBackOff},
	} {
		d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: "web"}}
		c.change(&d.Spec)
		if got := Deployment(d, []corev1.Pod{crashes, pod("web-2", 60)}, at); got.Reason != c.want {
			t.Errorf("%s: %s, want %s", name, got.Reason, c.want)
		}
	}
}
