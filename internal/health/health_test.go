package health

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	appv1 "huolala.cn/app-operator/api/v1"
)

// deployment returns a Deployment in generation 2, which its controller has seen.
func deployment(wanted, replicas, updated, available int32, conditions ...appsv1.DeploymentCondition) *appsv1.Deployment {
	return &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: "web", Generation: 2},
		Spec:       appsv1.DeploymentSpec{Replicas: &wanted},
		Status: appsv1.DeploymentStatus{
			ObservedGeneration: 2, Replicas: replicas, UpdatedReplicas: updated, AvailableReplicas: available,
			Conditions: conditions,
		},
	}
}

func with(d *appsv1.Deployment, change func(*appsv1.Deployment)) *appsv1.Deployment {
	change(d)
	return d
}

var deadlineExceeded = appsv1.DeploymentCondition{
	Type: appsv1.DeploymentProgressing, Status: corev1.ConditionFalse, Reason: "ProgressDeadlineExceeded",
	Message: `ReplicaSet "web-7d5c" has timed out progressing.`,
}

func replicaFailure(message string) appsv1.DeploymentCondition {
	return appsv1.DeploymentCondition{Type: appsv1.DeploymentReplicaFailure, Status: corev1.ConditionTrue, Reason: "FailedCreate", Message: message}
}

const (
	quotaMessage = `pods "web-7d5c-x2x9k" is forbidden: exceeded quota: small, requested: pods=1, used: pods=2, limited: pods=2`
	policy       = `pods "web-7d5c-x2x9k" is forbidden: violates PodSecurity "restricted:latest": runAsNonRoot != true`
	stuck        = "; no progress for 600 s. Earlier pods, if any, keep running. Fix the cause, or change the spec to start the rollout again"
)

func TestDeployment(t *testing.T) {
	badImage := waiting("ErrImagePull", "not found")
	const badImageMessage = `Deployment web: container "main": image "registry/web:v2" cannot be pulled: not found`
	for name, c := range map[string]struct {
		deployment *appsv1.Deployment
		pods       []corev1.Pod
		want       Verdict
	}{
		"ready": {
			deployment(2, 2, 2, 2), nil,
			Verdict{Ready: true, Reason: appv1.ReasonReady, Message: "Deployment web: 2 pods available"},
		},
		"ready, replicas left to the default": {
			with(deployment(1, 1, 1, 1), func(d *appsv1.Deployment) { d.Spec.Replicas = nil }), nil,
			Verdict{Ready: true, Reason: appv1.ReasonReady, Message: "Deployment web: 1 pod available"},
		},
		"ready, whatever a pod that crashed once says": {
			deployment(2, 2, 2, 2), []corev1.Pod{badImage},
			Verdict{Ready: true, Reason: appv1.ReasonReady, Message: "Deployment web: 2 pods available"},
		},
		"ready after the deadline": {
			deployment(2, 2, 2, 2, deadlineExceeded), nil,
			Verdict{Ready: true, Reason: appv1.ReasonReady, Message: "Deployment web: 2 pods available"},
		},
		"scaled to zero": {
			deployment(0, 0, 0, 0), nil,
			Verdict{Ready: true, Reason: appv1.ReasonScaledToZero, Message: "Deployment web: scaled to 0 replicas, no pod is running"},
		},
		"scaled to zero, pods left": {
			deployment(0, 2, 2, 2), nil,
			Verdict{Reason: appv1.ReasonProgressing, Message: "Deployment web: 2 pods of 2 to be removed"},
		},
		"scaled down, pods left": {
			deployment(1, 2, 2, 2), nil,
			Verdict{Reason: appv1.ReasonProgressing, Message: "Deployment web: 1 pod of 2 to be removed"},
		},
		"new": {
			with(deployment(2, 0, 0, 0), func(d *appsv1.Deployment) { d.Status.ObservedGeneration = 0 }), nil,
			Verdict{Reason: appv1.ReasonProgressing, Message: "Deployment web: waiting for its controller to observe the latest change"},
		},
		"change not seen, all of the earlier ready": {
			with(deployment(2, 2, 2, 2), func(d *appsv1.Deployment) { d.Generation = 3 }), nil,
			Verdict{Reason: appv1.ReasonProgressing, Message: "Deployment web: waiting for its controller to observe the latest change"},
		},
		"change not seen, the earlier one stuck": {
			with(deployment(2, 2, 1, 1, deadlineExceeded), func(d *appsv1.Deployment) { d.Generation = 3 }), nil,
			Verdict{Reason: appv1.ReasonProgressing, Message: "Deployment web: waiting for its controller to observe the latest change"},
		},
		"on its way": {
			deployment(3, 3, 2, 2), nil,
			Verdict{Reason: appv1.ReasonProgressing, Message: "Deployment web: 2 of 3 pods updated, 2 available, 1 old to be removed"},
		},
		"paused": {
			with(deployment(3, 3, 2, 2), func(d *appsv1.Deployment) { d.Spec.Paused = true }), nil,
			Verdict{Reason: appv1.ReasonRolloutPaused, Message: "Deployment web: 2 of 3 pods updated, 2 available, 1 old to be removed; its rollouts are paused; " +
				`resume them with "kubectl rollout resume deployment/web -n "`},
		},
		"old pods left": {
			deployment(2, 3, 2, 2), nil,
			Verdict{Reason: appv1.ReasonProgressing, Message: "Deployment web: 2 of 2 pods updated, 2 available, 1 old to be removed"},
		},
		"updated, not available": {
			deployment(1, 1, 1, 0), nil,
			Verdict{Reason: appv1.ReasonProgressing, Message: "Deployment web: 1 of 1 pod updated, 0 available"},
		},
		"a pod says why": {
			deployment(2, 2, 2, 0), []corev1.Pod{badImage, badImage},
			Verdict{Reason: appv1.ReasonImagePullBackOff, Message: badImageMessage},
		},
		"a pod says why, for too long": {
			deployment(2, 2, 2, 0, deadlineExceeded), []corev1.Pod{badImage, badImage},
			Verdict{Stalled: true, Reason: appv1.ReasonImagePullBackOff, Message: badImageMessage + stuck},
		},
		"nobody says why, for too long": {
			deployment(2, 2, 1, 1, deadlineExceeded), nil,
			Verdict{
				Stalled: true, Reason: appv1.ReasonProgressDeadlineExceeded,
				Message: "Deployment web: the rollout has not finished" + stuck,
			},
		},
		"a deadline of its own": {
			with(deployment(1, 1, 1, 0, deadlineExceeded), func(d *appsv1.Deployment) { d.Spec.ProgressDeadlineSeconds = ptr.To[int32](30) }), nil,
			Verdict{
				Stalled: true, Reason: appv1.ReasonProgressDeadlineExceeded,
				Message: "Deployment web: the rollout has not finished" + strings.Replace(stuck, "600", "30", 1),
			},
		},
		"quota": {
			deployment(3, 2, 2, 2, replicaFailure(quotaMessage)), nil,
			Verdict{
				Reason:  appv1.ReasonQuotaExceeded,
				Message: "Deployment web: pods cannot be created: exceeded quota: small, requested: pods=1, used: pods=2, limited: pods=2",
			},
		},
		"quota that wants limits": {
			deployment(1, 0, 0, 0, replicaFailure(`pods "web-1" is forbidden: failed quota: small: must specify limits.cpu for: main`)), nil,
			Verdict{
				Reason:  appv1.ReasonQuotaExceeded,
				Message: "Deployment web: pods cannot be created: failed quota: small: must specify limits.cpu for: main",
			},
		},
		"quota, for too long, before what an old pod says": {
			deployment(2, 1, 1, 0, replicaFailure(quotaMessage), deadlineExceeded), []corev1.Pod{badImage},
			Verdict{
				Stalled: true, Reason: appv1.ReasonQuotaExceeded,
				Message: "Deployment web: pods cannot be created: exceeded quota: small, requested: pods=1, used: pods=2, limited: pods=2" + stuck,
			},
		},
		"rejected": {
			deployment(1, 0, 0, 0, replicaFailure(policy)), nil,
			Verdict{
				Reason:  appv1.ReasonPodsRejected,
				Message: `Deployment web: pods cannot be created: violates PodSecurity "restricted:latest": runAsNonRoot != true`,
			},
		},
		"invalid pods": {
			deployment(1, 0, 0, 0, replicaFailure(`Pod "web-1" is invalid: spec.containers[0].image: Required value`)), nil,
			Verdict{Reason: appv1.ReasonPodsRejected, Message: "Deployment web: pods cannot be created: spec.containers[0].image: Required value"},
		},
		"a failure that is over": {
			deployment(2, 2, 1, 1, appsv1.DeploymentCondition{Type: appsv1.DeploymentReplicaFailure, Status: corev1.ConditionFalse, Message: policy}), nil,
			Verdict{Reason: appv1.ReasonProgressing, Message: "Deployment web: 1 of 2 pods updated, 1 available, 1 old to be removed"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			got := Deployment(c.deployment, c.pods, time.Time{})
			checkDetail(t, got)
			got.Detail = ""
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("verdict (-want +got):\n%s", diff)
			}
		})
	}
}

// TestVerdictHasNoPrivateValues has a container runtime quote values of the pod template: no verdict has them.
func TestVerdictHasNoPrivateValues(t *testing.T) {
	d := deployment(2, 2, 1, 1)
	d.Spec.Template.Annotations = map[string]string{"shop.example/key": "V1annotation"}
	d.Spec.Template.Spec.Containers = []corev1.Container{{
		Name: "main", Env: []corev1.EnvVar{{Name: "A", Value: "V1variable"}}, Args: []string{"--key=V1argument"}, Command: []string{"V1command"},
	}}
	for _, reason := range []string{"CreateContainerError", "RunContainerError", "PostStartHookError"} {
		pod := waiting(reason, "cannot start V1command --key=V1argument with V1variable and V1annotation")
		if got := Deployment(d, []corev1.Pod{pod}, time.Time{}); strings.Contains(got.Message, "V1") || !strings.Contains(got.Message, "cannot start") {
			t.Errorf("%s: %+v", reason, got)
		}
	}
}

// TestVerdictKnowsNoOrder checks that neither the order of pods nor that of conditions changes a word: both come from
// lists that promise none, and each difference would be a write.
func TestVerdictKnowsNoOrder(t *testing.T) {
	src := rand.New(rand.NewPCG(1, 2))
	for round := range 50 {
		var pods []corev1.Pod
		for range 1 + src.IntN(12) {
			reasons := []string{"ErrImagePull", "ImagePullBackOff", "InvalidImageName", "CrashLoopBackOff", "CreateContainerConfigError", "RunContainerError", "ContainerCreating"}
			pod := waiting(reasons[src.IntN(len(reasons))], []string{"", "a", "b"}[src.IntN(3)])
			pod.Status.ContainerStatuses[0].Name = []string{"main", "sidecar"}[src.IntN(2)]
			pods = append(pods, pod)
		}
		conditions := []appsv1.DeploymentCondition{deadlineExceeded, {Type: appsv1.DeploymentAvailable, Status: corev1.ConditionFalse}}
		if round%2 == 0 {
			conditions = append(conditions, replicaFailure(quotaMessage))
		}
		d := deployment(5, 5, 5, 0, conditions...)
		first := Deployment(d, pods, time.Time{})
		for range 50 {
			src.Shuffle(len(pods), func(i, j int) { pods[i], pods[j] = pods[j], pods[i] })
			src.Shuffle(len(conditions), func(i, j int) { conditions[i], conditions[j] = conditions[j], conditions[i] })
			if diff := cmp.Diff(first, Deployment(d, pods, time.Time{})); diff != "" {
				t.Fatalf("another order (-first +again):\n%s", diff)
			}
		}
	}
}

// checkDetail checks that the detail of a verdict is its message without the name of the workload object and without advice.
func checkDetail(t *testing.T, v Verdict) {
	t.Helper()
	_, want, _ := strings.Cut(v.Message, ": ")
	if want = strings.TrimSuffix(want, AdviceStalled); v.Detail != want {
		t.Errorf("the detail is %q, want %q", v.Detail, want)
	}
}

// TestVerdictFitsACondition checks that whatever others say, the message is one line that a condition takes.
func TestVerdictFitsACondition(t *testing.T) {
	long := strings.Repeat("界 is\nlong\t", 100_000)
	for name, v := range map[string]Verdict{
		"pull":      Deployment(deployment(1, 1, 1, 0), []corev1.Pod{waiting("ErrImagePull", long)}, time.Time{}),
		"config":    Deployment(deployment(1, 1, 1, 0), []corev1.Pod{waiting("CreateContainerConfigError", long)}, time.Time{}),
		"scheduler": Deployment(deployment(1, 1, 1, 0), []corev1.Pod{unschedulable(long)}, time.Time{}),
		"rejected":  Deployment(deployment(1, 0, 0, 0, replicaFailure(long), deadlineExceeded), nil, time.Time{}),
		"quota":     Deployment(deployment(1, 0, 0, 0, replicaFailure(`pods "a" is forbidden: exceeded quota: `+long)), nil, time.Time{}),
	} {
		if len(v.Message) > 1000 || strings.ContainsAny(v.Message, "\n\t\uFFFD") {
			t.Errorf("%s: the message has %d bytes, or more than one line: %.1000q", name, len(v.Message), v.Message)
		}
	}
}

// BenchmarkDeployment is what judging costs with every pod in trouble, which is when it happens most.
func BenchmarkDeployment(b *testing.B) {
	pods := make([]corev1.Pod, 100)
	for i := range pods {
		pods[i] = waiting("ImagePullBackOff", fmt.Sprintf("Back-off pulling image \"a\": ErrImagePull: try %d", i%3))
	}
	d := deployment(100, 100, 100, 0)
	b.ReportAllocs()
	for b.Loop() {
		if Deployment(d, pods, time.Time{}).Ready {
			b.Fatal("ready")
		}
	}
}
