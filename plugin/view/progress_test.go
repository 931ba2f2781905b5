package view

import (
	"strings"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"

	appv1 "huolala.cn/app-operator/api/v1"
)

// TestProgressOfCommands waits for the command before a rollout: the pods of before are old, and the pods of the Job have the cause.
func TestProgressOfCommands(t *testing.T) {
	runs := func(job *batchv1.Job, _ *corev1.Pod) { job.Status.Conditions = nil }
	starts := func(job *batchv1.Job, pod *corev1.Pod) {
		runs(job, pod)
		pod.Status.ContainerStatuses[0].State = notStarted
	}
	ended := func(*batchv1.Job, *corev1.Pod) {}
	pull := `container "cart": image "nginx:1.17.0" cannot be pulled: 429 Too Many[2J Requests`
	without := func(s *Snapshot, kinds ...string) *Snapshot {
		for _, kind := range kinds {
			s.Missing = append(s.Missing, Missing{Kinds: kind, Why: "not today"})
		}
		return s
	}
	noJob := commanded(appv1.ReasonBeforeRollout, runs)
	noJob.Jobs = nil
	noSets := without(commanded(appv1.ReasonBeforeRollout, runs), kindsReplicaSets)
	noSets.ReplicaSets = nil
	crashes := commanded(appv1.ReasonBeforeRollout, starts)
	for i := range crashes.Pods[:len(crashes.Pods)-1] {
		crashes.Pods[i].Status.Conditions[0].Status = corev1.ConditionFalse
		crashes.Pods[i].Status.ContainerStatuses[0] = corev1.ContainerStatus{Name: "cart", State: corev1.ContainerState{Terminated: crashed}}
	}
	for name, c := range map[string]struct {
		s          *Snapshot
		cause, run string
		ready, old int
		pods       int
	}{
		"its pod has no image":            {commanded(appv1.ReasonBeforeRollout, runs), pull, "Job cart-0767bbb1ec: running", 0, 7, 1},
		"its pod starts":                  {commanded(appv1.ReasonBeforeRollout, starts), "", "Job cart-0767bbb1ec: running", 0, 7, 1},
		"the pods of before crash":        {crashes, "", "Job cart-0767bbb1ec: running", 0, 7, 1},
		"it has failed":                   {commanded(appv1.ReasonBeforeRolloutFailed, ended), "", "Job cart-0767bbb1ec: failed, BackoffLimitExceeded, after 60 s", 0, 7, 0},
		"it has only a Job of before":     {commanded(appv1.ReasonBeforeRollout, ended), "", noJob.Resource.mainCondition().Message, 0, 7, 0},
		"it has no Job":                   {noJob, "", noJob.Resource.mainCondition().Message, 0, 7, 0},
		"Deployments cannot be listed":    {without(commanded(appv1.ReasonBeforeRollout, runs), kindsDeployments), pull, "Job cart-0767bbb1ec: running", 4, 0, 1},
		"ReplicaSets cannot be listed":    {noSets, pull, "Job cart-0767bbb1ec: running", 0, 6, 1},
		"no command waits for the latest": {commanded(appv1.ReasonProgressing, runs), "", "", 5, 2, 0},
	} {
		p := ProgressOf(c.s)
		if p.Cause != c.cause || p.Run != c.run || p.Ready != c.ready || p.Old != c.old || len(p.Pods) != c.pods {
			t.Errorf("%s: cause %q, run %q, %d ready, %d old, %d pods; want %+v", name, p.Cause, p.Run, p.Ready, p.Old, len(p.Pods), c)
		}
		for what, text := range map[string]string{"line": p.OneLine(), "text": p.Text(Style{ASCII: true}, time.Minute, time.Hour, 0)} {
			if !strings.Contains(text, c.run) || what == "line" && !strings.Contains(text, c.cause) || p.IsDone() {
				t.Errorf("%s: the %s is %q", name, what, text)
			}
		}
	}
}

// TestProgressNotShown names what could not be listed where figures are missing for it: workloads and pods, and no other kind.
func TestProgressNotShown(t *testing.T) {
	for kinds, want := range map[string]bool{
		kindsDeployments: true, kindsStatefulSets: true, kindsPods: true, kindsReplicaSets: false, kindsServices: false,
	} {
		s := cases()["cloudmanager"]
		s.Missing = []Missing{{Kinds: kinds, Why: "not today"}}
		p := ProgressOf(s)
		if named := strings.Contains(p.OneLine(), "not shown: "+kinds+" (not today)"); named != want || len(p.NotShown) > 0 != want {
			t.Errorf("%s: %q", kinds, p.OneLine())
		}
	}
}
