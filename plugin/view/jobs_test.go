package view

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	appv1 "huolala.cn/app-operator/api/v1"
)

// commanded returns the App cart, whose rollout waits for a command that is in a state.
func commanded(reason string, change func(*batchv1.Job, *corev1.Pod)) *Snapshot {
	s := cases()["before-rollout"]
	for i := range s.Resource.Status.Conditions {
		s.Resource.Status.Conditions[i].Reason = reason
	}
	job := &s.Jobs[1]
	job.Spec.BackoffLimit, job.Status.StartTime = ptr.To[int32](2), ptr.To(before(5*time.Minute))
	job.Status.Conditions[0].LastTransitionTime = before(4 * time.Minute)
	change(job, &s.Pods[len(s.Pods)-1])
	return s
}

// stopsInWords returns the stops of a way, a line each.
func stopsInWords(stops []Stop) []string {
	var words []string
	for _, stop := range stops {
		words = append(words, fmt.Sprintf("%s, %s %t: %s", stop.Title, stop.Mark, stop.Waits, strings.Join(stop.Notes, "; ")))
	}
	return words
}

// TestBefore draws the command before a rollout while the rollout waits for it, and once it has failed.
func TestBefore(t *testing.T) {
	failed := func(job *batchv1.Job, pod *corev1.Pod) {
		job.Status.Failed = 3
		pod.Status = corev1.PodStatus{
			Phase: corev1.PodFailed, ContainerStatuses: []corev1.ContainerStatus{{Name: "cart", State: corev1.ContainerState{Terminated: crashed}}},
		}
	}
	runs := func(job *batchv1.Job, _ *corev1.Pod) { job.Status.Conditions = nil }
	suspended := func(job *batchv1.Job, pod *corev1.Pod) {
		job.Status.Conditions, job.Spec.Suspend, pod.Status = nil, ptr.To(true), corev1.PodStatus{}
	}
	for name, c := range map[string]struct {
		s    *Snapshot
		want []string
	}{
		"failed": {commanded(appv1.ReasonBeforeRolloutFailed, failed), []string{
			"Job cart-0767bbb1ec, bad false: nginx:1.17.0; failed, BackoffLimitExceeded, 3 of 3 tries failed, exit code 2, after 60 s",
			"pods of 1.17.0,  true: do not start: the command has failed",
		}},
		"runs": {commanded(appv1.ReasonBeforeRollout, runs), []string{
			"Job cart-0767bbb1ec, busy false: nginx:1.17.0; running, for 5 min; ImagePullBackOff", "pods of 1.17.0,  true: wait for the command",
		}},
		"its Job is not there yet": {commanded(appv1.ReasonBeforeRollout, failed), []string{
			"Command before the rollout,  true: ", "pods of 1.17.0,  true: wait for the command",
		}},
		"suspended by a queue": {commanded(appv1.ReasonBeforeRollout, suspended), []string{
			"Job cart-0767bbb1ec, hold false: nginx:1.17.0; suspended, for 5 min", "pods of 1.17.0,  true: wait for the command",
		}},
		"no rollout waits": {commanded(appv1.ReasonProgressing, runs), nil},
	} {
		if diff := cmp.Diff(c.want, stopsInWords(BeforeOf(c.s))); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
	none := commanded(appv1.ReasonBeforeRollout, runs)
	none.Jobs = nil
	if diff := cmp.Diff([]string{"Command before the rollout,  true: ", "pods of 1.17.0,  true: wait for the command"}, stopsInWords(BeforeOf(none))); diff != "" {
		t.Errorf("without a Job (-want +got):\n%s", diff)
	}
	var happened []string
	for _, h := range HappenedOf(commanded(appv1.ReasonBeforeRolloutFailed, failed), 0) {
		if h.Title == jobTitle {
			happened = append(happened, h.Sign+" "+TimeAgo(now, h.Time)+" "+h.Text)
		}
	}
	want := []string{
		"✗ 4 min ago nginx:1.17.0: failed, BackoffLimitExceeded, 3 of 3 tries failed, exit code 2, after 60 s (Job cart-0767bbb1ec)",
		"✓ 9 days ago nginx:1.17.0: succeeded (Job cart-1d41e0c2aa)",
	}
	if diff := cmp.Diff(want, happened); diff != "" {
		t.Errorf("what has happened (-want +got):\n%s", diff)
	}
}

// TestHostileCommand checks that no picture of a command has an invisible part of a text of others.
func TestHostileCommand(t *testing.T) {
	s := commanded(appv1.ReasonBeforeRolloutFailed, func(job *batchv1.Job, pod *corev1.Pod) {
		job.Name, job.Status.Conditions[0].Reason, job.Spec.Template.Spec.Containers[0].Image = hostileMarkup, hostileMarkup, hostileMarkup
		status := &pod.Status.ContainerStatuses[0]
		status.Name, status.State.Waiting = hostileMarkup, &corev1.ContainerStateWaiting{Reason: "ErrImagePull", Message: hostileMarkup}
	})
	s.Resource.Image = hostileMarkup
	text := fmt.Sprintf("%+v %+v", BeforeOf(s), HappenedOf(s, 0))
	if strings.ContainsAny(text, "\u202e\x1b") || strings.Count(text, "<script>") < 4 {
		t.Errorf("%q", text)
	}
}
