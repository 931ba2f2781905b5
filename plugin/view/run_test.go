package view

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
)

// TestRunOf has the Job of a user's command in each state.
func TestRunOf(t *testing.T) {
	job := func(change func(*batchv1.Job)) *batchv1.Job {
		j := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web-run-x", UID: "job"}}
		j.Spec.Template.Spec.Containers = []corev1.Container{{Name: "web"}}
		change(j)
		return j
	}
	ended := func(kind batchv1.JobConditionType, reason string) *batchv1.Job {
		return job(func(j *batchv1.Job) {
			j.Spec.ActiveDeadlineSeconds = ptr.To[int64](60)
			j.Status.Conditions = []batchv1.JobCondition{{Type: kind, Status: corev1.ConditionTrue, Reason: reason}}
		})
	}
	pod := func(status corev1.PodStatus) *corev1.Pod {
		p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web-run-x-1", OwnerReferences: []metav1.OwnerReference{{UID: "job", Controller: ptr.To(true)}}}}
		p.Status = status
		return p
	}
	terminated := corev1.ContainerStatus{Name: "web", State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: 2}}}
	running := corev1.ContainerStatus{Name: "proxy", State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}}
	crashed := corev1.ContainerStatus{Name: "proxy", State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "CrashLoopBackOff"}}}
	plain := job(func(*batchv1.Job) {})
	with := func(statuses ...corev1.ContainerStatus) *corev1.Pod {
		return pod(corev1.PodStatus{ContainerStatuses: statuses})
	}
	for name, c := range map[string]struct {
		job  *batchv1.Job
		pod  *corev1.Pod
		want CommandRun
	}{
		"gone":             {nil, nil, CommandRun{Problem: runGone, Over: true}},
		"new":              {plain, nil, CommandRun{}},
		"suspended":        {job(func(j *batchv1.Job) { j.Spec.Suspend = ptr.To(true) }), nil, CommandRun{Problem: runSuspended, Patient: true}},
		"pod of others":    {job(func(j *batchv1.Job) { j.UID = "other" }), with(terminated), CommandRun{}},
		"complete, no pod": {ended(batchv1.JobComplete, ""), nil, CommandRun{ExitCode: ptr.To[int32](0)}},
		"failed, no pod":   {ended(batchv1.JobFailed, "BackoffLimitExceeded"), nil, CommandRun{Problem: "the Job has failed: " + runNoPod, Over: true}},
		"late, no pod": {ended(batchv1.JobFailed, batchv1.JobReasonDeadlineExceeded), nil,
			CommandRun{Problem: "the Job has not ended within its deadline of 60 s, and its pod was deleted", Over: true}},
		"late": {ended(batchv1.JobFailed, batchv1.JobReasonDeadlineExceeded), with(terminated),
			CommandRun{Pod: "web-run-x-1", ExitCode: ptr.To[int32](2), Note: "the Job has not ended within its deadline of 60 s, and its pod was deleted"}},
		"a proxy goes on": {plain, with(terminated, running), CommandRun{
			Pod: "web-run-x-1", ExitCode: ptr.To[int32](2),
			Note: `container "proxy" of its pod still runs, so the Job does not end; end it: kubectl delete job web-run-x -n shop`,
		}},
		"a sidecar fails": {plain, pod(corev1.PodStatus{InitContainerStatuses: []corev1.ContainerStatus{crashed}}), CommandRun{
			Pod: "web-run-x-1", Problem: `container "proxy": exits soon after each start; see its log`,
			Advice: "Read the log of the container: kubectl logs web-run-x-1 -c proxy --previous -n shop.",
		}},
		"succeeded": {plain, pod(corev1.PodStatus{Phase: corev1.PodSucceeded}), CommandRun{Pod: "web-run-x-1", ExitCode: ptr.To[int32](0)}},
		"lost":      {plain, pod(corev1.PodStatus{Phase: corev1.PodFailed, Reason: "NodeLost"}), CommandRun{Pod: "web-run-x-1", Problem: "its pod has ended before the command: NodeLost", Over: true}},
	} {
		var pods []corev1.Pod
		if c.pod != nil {
			pods = append(pods, *c.pod)
		}
		if diff := cmp.Diff(&c.want, RunOf(c.job, pods, nil)); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
	long := RunOf(plain, []corev1.Pod{*pod(corev1.PodStatus{Phase: corev1.PodFailed, Message: strings.Repeat("x\x1b", 1<<20)})}, nil)
	if len(long.Problem) > maxText || strings.Contains(long.Problem, "\x1b") {
		t.Errorf("a text of %d bytes", len(long.Problem))
	}
}
