package cli

import (
	"net/http"
	"path"
	"slices"
	"strings"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	appv1 "huolala.cn/app-operator/api/v1"
)

// taskServer returns an API server with the Task report, whose latest run has failed. Lists of the resources in without are forbidden.
func taskServer(t *testing.T, change func(*appv1.Task), without ...string) *fakeServer {
	t.Helper()
	task := &appv1.Task{ObjectMeta: objectMeta("report")}
	task.Spec.App, task.Spec.Schedule = "cart", "0 5 * * *"
	task.Status.ObservedGeneration = task.Generation
	task.Status.Conditions = []metav1.Condition{{Type: appv1.ConditionReady, Status: metav1.ConditionFalse, Reason: appv1.ReasonRunFailed, Message: "Job report-1 failed"}}
	task.Status.LastRun = &appv1.TaskRun{Job: "report-1", Started: ptr.To(metav1.Now()), Result: appv1.TaskFailed}
	change(task)
	owned := func(name string, uid types.UID, by metav1.OwnerReference) metav1.ObjectMeta {
		meta := objectMeta(name)
		by.Controller = ptr.To(true)
		meta.UID, meta.OwnerReferences, meta.CreationTimestamp = uid, []metav1.OwnerReference{by}, metav1.NewTime(time.Now().Add(-time.Hour))
		return meta
	}
	cron := batchv1.CronJob{ObjectMeta: owned("report", "cron", metav1.OwnerReference{APIVersion: appv1.GroupVersion.String(), Kind: "Task", Name: "report", UID: task.UID})}
	job := batchv1.Job{ObjectMeta: owned("report-1", "job", metav1.OwnerReference{APIVersion: "batch/v1", Kind: "CronJob", Name: "report", UID: "cron"})}
	job.Status.Conditions = []batchv1.JobCondition{{Type: batchv1.JobFailed, Status: corev1.ConditionTrue, Reason: "BackoffLimitExceeded"}}
	pod := corev1.Pod{ObjectMeta: owned("report-1-a", "pod", metav1.OwnerReference{APIVersion: "batch/v1", Kind: "Job", Name: "report-1", UID: "job"})}
	pod.Spec.Containers = []corev1.Container{{Name: "cart"}}
	pod.Status.Phase = corev1.PodFailed
	pod.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "cart", State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: 3}}}}
	lists := map[string]runtime.Object{
		"cronjobs": &batchv1.CronJobList{Items: []batchv1.CronJob{cron}}, "jobs": &batchv1.JobList{Items: []batchv1.Job{job}},
		"pods": &corev1.PodList{Items: []corev1.Pod{pod}},
	}
	f := newFakeServer(t, map[string]runtime.Object{
		"tasks/report": task, "cronjobs/report": &cron, "jobs/report-1": &job, "pods/report-1-a": &pod, "apps/web": &appv1.App{ObjectMeta: objectMeta("web")},
	})
	f.logs = map[string]string{"report-1-a": "no rows\n"}
	f.answer = func(q *http.Request, _ string) runtime.Object {
		if last := path.Base(q.URL.Path); q.Method == http.MethodGet {
			if slices.Contains(without, last) {
				return status(apierrors.NewForbidden(schema.GroupResource{Resource: last}, "", nil))
			}
			return lists[last]
		}
		return nil
	}
	return f
}

// TestLooksAtTask prints what each reading command has of a Task, also by what belongs to it, and what it says without a right.
func TestLooksAtTask(t *testing.T) {
	nothing := func(*appv1.Task) {}
	for _, c := range []struct {
		without string
		args    []string
		want    []string
	}{
		{"", []string{"tree", "task/report"}, []string{"Task/report", "`- CronJob/report", "`- Job/report-1", "Pod/report-1-a"}},
		{"", []string{"tree", "pod/report-1-a"}, []string{"Task/report"}},
		{"", []string{"why", "job/report-1"}, []string{"Task shop/report is Failing", "Job report-1"}},
		{"", []string{"why", "cj/report"}, []string{"kubectl create job report-again --from=cronjob/report -n shop"}},
		{"", []string{"history", "htask/report"}, []string{"JOB       STARTED", "report-1  60m ago", "failed", "exit code 3"}},
		{"", []string{"history", "task/report", "-o", "yaml"}, []string{"kind: Runs", "result: failed"}},
		{"", []string{"logs", "task/report"}, []string{"==> Pod report-1-a, container cart, which ended with exit code 3 <==\nno rows\n"}},
		{"", []string{"report", "task/report"}, []string{"# Task shop/report: Failing", "## Runs"}},
		{"", []string{"eject", "task/report"}, []string{"kind: CronJob"}},
		{"cronjobs", []string{"tree", "task/report"}, []string{"Job/report-1", "not shown: CronJobs (you may not list them in shop)"}},
		{"jobs", []string{"history", "task/report"}, []string{"report-1", "failed", "not shown: Jobs (you may not list them in shop)"}},
		{"jobs", []string{"logs", "task/report"}, []string{"no rows"}},
	} {
		var without []string
		if c.without != "" {
			without = []string{c.without}
		}
		code, out, said := taskServer(t, nothing, without...).run(t, c.args...)
		if code != 0 {
			t.Errorf("%v: exit status %d", c.args, code)
		}
		for _, want := range c.want {
			if !strings.Contains(out+said, want) {
				t.Errorf("%v without %q: no %q in\n%s%s", c.args, c.without, want, out, said)
			}
		}
	}
}

// TestRefusedForTasks has each command that does not apply to a Task: the answer says what to do instead, and nothing is written.
func TestRefusedForTasks(t *testing.T) {
	for want, args := range map[string][]string{
		"start a run by hand: kubectl create job report-again --from=cronjob/report -n shop": {"restart", "task/report", "--yes"},
		"or name the App that spec.app names":                                                {"run", "task/report", "--", "date"},
		"roll back the App that spec.app names":                                              {"rollback", "task/report", "--yes"},
		"hold the App that spec.app names":                                                   {"hold", "task/report", "--yes"},
		"cannot be held":                                                                     {"unhold", "task/report", "--yes"},
		"has no canary: its next run follows":                                                {"promote", "task/report", "--yes"},
		"name the App that spec.app names":                                                   {"abort", "task/report", "--yes"},
		"takes over sizes and renderings":                                                    {"refresh", "task/report", "--yes"},
		"kubectl happ history task/report -n shop":                                           {"history", "task/report", "--revision", "1"},
		"to stop writes to its children: kubectl":                                            {"suspend", "web"},
	} {
		f := taskServer(t, func(*appv1.Task) {})
		code, out, said := f.run(t, args...)
		if code == 0 || !strings.Contains(said, want) || len(f.writes) > 0 {
			t.Errorf("%v: exit status %d, writes %q\n%s%s", args, code, f.writes, out, said)
		}
	}
}

// TestSuspend suspends a Task, resumes it from a pause and a suspension at once, and says of a pause that the runs go on.
func TestSuspend(t *testing.T) {
	for name, c := range map[string]struct {
		paused, suspended bool
		args              []string
		patch, want       string
	}{
		"suspend":              {false, false, []string{"suspend"}, `"spec":{"suspended":true}`, "Task shop/report suspended\n"},
		"suspend again":        {false, true, []string{"suspend"}, "", "Task shop/report is suspended already\n"},
		"resume":               {false, true, []string{"resume"}, `"spec":{"suspended":false}`, "Task shop/report resumed\n"},
		"resume both":          {true, true, []string{"resume"}, `"spec":{"paused":false,"suspended":false}`, "Task shop/report resumed\n"},
		"resume what does run": {false, false, []string{"resume"}, "", "Task shop/report is resumed already\n"},
		"pause":                {false, false, []string{"pause"}, `"spec":{"paused":true}`, "The runs of Task shop/report go on; to start no more of them: kubectl happ suspend task/report -n shop\n"},
	} {
		f := taskServer(t, func(task *appv1.Task) { task.Spec.Paused, task.Spec.Suspended = c.paused, c.suspended })
		code, out, said := f.run(t, append(c.args, "task/report")...)
		if code != 0 || !strings.Contains(out+said, c.want) || (len(f.writes) > 0) != (c.patch != "") || c.patch != "" && !strings.Contains(f.writes[0], c.patch) {
			t.Errorf("%s: exit status %d, writes %q\n%s%s", name, code, f.writes, out, said)
		}
	}
}

// TestWaitForTask ends with the state of the latest run.
func TestWaitForTask(t *testing.T) {
	ready := func(result appv1.TaskResult, status metav1.ConditionStatus, reason string) func(*appv1.Task) {
		return func(task *appv1.Task) {
			task.Status.LastRun.Result = result
			task.Status.Conditions[0].Status, task.Status.Conditions[0].Reason = status, reason
		}
	}
	for name, c := range map[string]struct {
		change func(*appv1.Task)
		args   []string
		code   int
		want   string
	}{
		"succeeded":           {ready(appv1.TaskSucceeded, metav1.ConditionTrue, appv1.ReasonSucceeded), nil, 0, "Task shop/report: Succeeded"},
		"failed":              {ready(appv1.TaskFailed, metav1.ConditionFalse, appv1.ReasonRunFailed), nil, 1, "task/report is not ready: RunFailed: Job report-1 failed; see: kubectl happ why task/report -n shop"},
		"failed, never fails": {ready(appv1.TaskFailed, metav1.ConditionFalse, appv1.ReasonRunFailed), []string{"--fail", "never", "--timeout", "1ms"}, exitTimeout, "is not ready after"},
		"suspended":           {ready(appv1.TaskSucceeded, metav1.ConditionTrue, appv1.ReasonSuspended), nil, 0, "Task shop/report: Suspended"},
		"the status is late":  {ready(appv1.TaskRunning, metav1.ConditionTrue, appv1.ReasonRunning), []string{"--timeout", "1ms"}, exitTimeout, "Running"},
	} {
		code, out, said := taskServer(t, c.change).run(t, append([]string{"wait", "task/report"}, c.args...)...)
		if code != c.code || !strings.Contains(out+said, c.want) {
			t.Errorf("%s: exit status %d\n%s%s", name, code, out, said)
		}
	}
}
