package view

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"

	appv1 "huolala.cn/app-operator/api/v1"
)

// TestTasks checks the row of a Task in each state, the way to its cause, and what helps.
func TestTasks(t *testing.T) {
	type answer struct {
		State              State
		Cause, Last, Works string
		Advice             []string
	}
	const again = "start a run by hand: kubectl create job report-again --from=cronjob/report -n shop."
	const success = "the last run that has succeeded: Job report-2, 38 h ago"
	got := map[string]answer{}
	for name, s := range tasks() {
		row, why := RowOf(&s.Resource), WhyOf(s, 0)
		got[name] = answer{row.State, row.Cause, why.Chain[len(why.Chain)-1].Object, why.Works, why.Advice}
	}
	want := map[string]answer{
		"failed": {StateFailing, messageFailed, "condition Stalled", success, []string{
			"Read the output of the run: kubectl happ logs task/report -n shop. Then fix the spec, or its App; " + again,
		}},
		"missed": {StateFailing, "The run of 2026-03-01 05:00 has not started", "condition Stalled", success, []string{
			"Look at the events of its CronJob: kubectl describe cronjob/report -n shop. If runs are missed again and again, see " +
				"spec.startingDeadlineSeconds and spec.concurrency; " + again,
		}},
		"running": {StateRunning, "Job report-4 runs", "1 pod, on node-1", success, []string{
			"Nothing while it runs. Follow it: kubectl happ wait task/report -n shop; or read its output: kubectl happ logs task/report -n shop. " +
				"Why it has no pod is in the message.",
		}},
		"no pod": {StateFailing, "Job report-4 has no pod after 30s; kubectl describe job -n shop report-4 names the cause", "condition Ready", success, []string{
			"Nothing while it runs. Follow it: kubectl happ wait task/report -n shop; or read its output: kubectl happ logs task/report -n shop. " +
				"Why it has no pod is in the message.",
		}},
		"suspended": {StateSuspended, "no run starts until it is resumed", "condition Ready", success, []string{"Resume it: kubectl happ resume task/report -n shop."}},
		"waiting": {StateWaiting, "App cart has no Deployment", "condition Ready", "", []string{
			"Check the App that spec.app names: kubectl happ list -n shop. The Task takes effect once the App has pods in force; the CronJob, if it exists, runs as before.",
		}},
		"ready": {StateReady, "next run at 2026-03-01 21:00:00 UTC", "Task report", success, nil},
		"never": {StateReady, "the schedule never comes", "Task report", "", nil},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if g := WhyOf(tasks()["suspended"], 0).Suggested; g == nil || g.Command != "kubectl happ resume task/report -n shop" {
		t.Errorf("a suspended Task suggests %+v", g)
	}
}

// TestListOfTasks has columns about runs for Tasks alone. In a list with other kinds, the message has the next run.
func TestListOfTasks(t *testing.T) {
	task, app := tasks()["ready"].Resource, cases()["ready"].Resource
	alone := RowsOf([]Resource{task}, nil).Text(Style{}, now, ListOptions{})
	want := "NAME         STATE  SCHEDULE                 LAST  RESULT     NEXT   MESSAGE\n" +
		"Task/report  Ready  0 5 * * * Asia/Shanghai  39h   Succeeded  in 9h  Succeeded: next run at 2026-03-01 21:00:00 UTC\n"
	if diff := cmp.Diff(want, alone); diff != "" {
		t.Errorf("Tasks alone (-want +got):\n%s", diff)
	}
	both := RowsOf([]Resource{task, app}, nil).Text(Style{}, now, ListOptions{})
	want = "NAME         STATE  READY  SINCE  MESSAGE\n" +
		"App/cart     Ready  4/6    12m\n" +
		"Task/report  Ready  -      12m    Succeeded: next run at 2026-03-01 21:00:00 UTC\n"
	if diff := cmp.Diff(want, both); diff != "" {
		t.Errorf("with an App (-want +got):\n%s", diff)
	}
	none := tasks()["never"].Resource
	if text := RowsOf([]Resource{none}, nil).Text(Style{}, now, ListOptions{NoHead: true}); !strings.Contains(text, "  -  -  -  NoRun: the schedule never comes") {
		t.Errorf("without a run: %q", text)
	}
}

// TestLogsOfTasks reads the log of the run that has failed, or else of the latest run with pods; by the labels alone, where Jobs are not to be
// listed.
func TestLogsOfTasks(t *testing.T) {
	all := tasks()
	noPod := scheduled(all["ready"].Resource)
	noPod.Jobs[2].Status.Conditions, noPod.Pods = nil, noPod.Pods[:2]
	blind := scheduled(all["failed"].Resource)
	blind.Jobs, blind.Missing = nil, []Missing{{kindsJobs, "you may not list them"}}
	failedBefore := scheduled(all["failed"].Resource)
	job, pod := newRun(4, time.Minute, nil, running)
	failedBefore.Jobs, failedBefore.Pods = append(failedBefore.Jobs, job), append(failedBefore.Pods, pod)
	for name, c := range map[string]struct {
		s    *Snapshot
		want string
	}{
		"failed": {all["failed"], "report-3-x2k"}, "ready": {all["ready"], "report-2-x2k"}, "running": {all["running"], "report-4-x2k"},
		"no pod yet": {noPod, "report-2-x2k"}, "Jobs unseen": {blind, "report-3-x2k"}, "failed, and another runs": {failedBefore, "report-3-x2k"},
	} {
		sources, _, err := LogSources(c.s, LogOptions{Most: 1})
		if err != nil || sources[0].Pod != c.want {
			t.Errorf("%s: %+v (%v), want %s", name, sources, err, c.want)
		}
	}
	if _, _, err := LogSources(all["never"], LogOptions{Most: 1}); err == nil || !strings.Contains(err.Error(), "has no pod") {
		t.Errorf("without a run: %v", err)
	}
}

// TestRuns lists the runs of the CronJob, by its UID or, where it is not to be read, by its name; the run that the status has and whose Job is
// gone; and no more than the limit.
func TestRuns(t *testing.T) {
	names := func(s *Snapshot) (words []string) {
		for _, run := range RunsOf(s).Runs {
			words = append(words, run.Job+" "+run.Result+" "+run.Took(now)+" "+run.Words())
		}
		return words
	}
	s := tasks()["failed"]
	want := []string{
		"report-3 failed 10m BackoffLimitExceeded, 1 of 1 tries failed, exit code 3", "report-2 succeeded 10m started by hand", "report-1 succeeded 10m ",
	}
	if diff := cmp.Diff(want, names(s)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if label := RunsOf(s).Label(); label != "1 failed, 2 succeeded" {
		t.Errorf("the label is %q", label)
	}
	s.CronJobs, s.Missing = nil, []Missing{{kindsCronJobs, "you may not list them"}}
	if diff := cmp.Diff(want, names(s)); diff != "" {
		t.Errorf("without the right to CronJobs (-want +got):\n%s", diff)
	}
	gone := tasks()["failed"]
	gone.Jobs = gone.Jobs[:2]
	if got := names(gone)[0]; got != "report-3 failed 60m its Job is deleted" {
		t.Errorf("a Job that is gone: %q", got)
	}
	if _, err := HistoryOf(s, ""); !errors.Is(err, ErrNoHistory) || !strings.Contains(err.Error(), "kubectl happ history task/report -n shop") {
		t.Errorf("the history: %v", err)
	}
	if RunsOf(cases()["ready"]) != nil {
		t.Error("an App has runs")
	}
	many := tasks()["ready"]
	for n := range 2 * maxRuns {
		job, _ := newRun(n+10, time.Duration(n)*time.Minute, &batchv1.JobCondition{Type: batchv1.JobComplete}, running)
		many.Jobs = append(many.Jobs, job)
	}
	if runs := RunsOf(many); len(runs.Runs) != maxRuns || runs.More != maxRuns+2 || !strings.Contains(runs.Text(Style{}, now), "102 earlier runs are not shown") {
		t.Errorf("%d runs, %d more", len(runs.Runs), runs.More)
	}
	if tree := TreeOf(many, TreeOptions{Limit: 3}); len(tree.Root.Children[0].Children) != 3 || tree.Root.Children[0].More != 2*maxRuns-1 {
		t.Errorf("the tree has %d Jobs, and %d more", len(tree.Root.Children[0].Children), tree.Root.Children[0].More)
	}
}

// TestNoRunVanishes counts the runs that are shown and those that are not, with and without the row of a last run whose Job is gone.
func TestNoRunVanishes(t *testing.T) {
	for _, number := range []int{maxRuns - 1, maxRuns, maxRuns + 1, 2 * maxRuns} {
		for gone, rows := range map[bool]int{false: number, true: number + 1} {
			s := tasks()["ready"]
			s.Jobs = nil
			for n := range number {
				job, _ := newRun(n+10, time.Duration(n)*time.Minute, &batchv1.JobCondition{Type: batchv1.JobComplete}, running)
				s.Jobs = append(s.Jobs, job)
			}
			s.Resource.Schedule.Last = &appv1.TaskRun{Job: s.Jobs[0].Name, Result: appv1.TaskSucceeded}
			if gone {
				s.Resource.Schedule.Last.Job = "report-gone"
			}
			if runs := RunsOf(s); len(runs.Runs) != min(rows, maxRuns) || len(runs.Runs)+runs.More != rows {
				t.Errorf("of %d Jobs, gone %t: %d runs, and %d more, want %d in all", number, gone, len(runs.Runs), runs.More, rows)
			}
		}
	}
}

// TestProgressOfTasks waits for the run that goes on, and for the status of a run that has ended.
func TestProgressOfTasks(t *testing.T) {
	all := tasks()
	late := tasks()["ready"]
	job, pod := newRun(5, 20*time.Minute, &batchv1.JobCondition{Type: batchv1.JobFailed, Reason: "DeadlineExceeded"}, corev1.ContainerState{Terminated: crashed})
	late.Jobs, late.Pods = append(late.Jobs, job), append(late.Pods, pod)
	blind := tasks()["running"]
	blind.Missing = []Missing{{kindsJobs, "you may not list them"}}
	next := tasks()["failed"]
	job, pod = newRun(4, time.Minute, nil, running)
	next.Jobs, next.Pods = append(next.Jobs, job), append(next.Pods, pod)
	for name, c := range map[string]struct {
		s            *Snapshot
		done, failed bool
		line         string
	}{
		"ready":              {all["ready"], true, false, "Task shop/report: Succeeded; Job report-2: succeeded, after 10 min"},
		"no pod":             {all["no pod"], false, false, "Task shop/report: Running; Job report-4: running"},
		"never":              {all["never"], true, false, "Task shop/report: NoRun"},
		"suspended":          {all["suspended"], true, false, "Task shop/report: Suspended; Job report-3: failed, BackoffLimitExceeded, 1 of 1 tries failed, exit code 3, after 10 min"},
		"failed":             {all["failed"], false, true, "Task shop/report: RunFailed; Job report-3: failed, BackoffLimitExceeded, 1 of 1 tries failed, exit code 3, after 10 min"},
		"the next one runs":  {next, false, false, "Task shop/report: RunFailed; Job report-4: running"},
		"the status is late": {late, false, false, "Task shop/report: Succeeded; Job report-5: failed, DeadlineExceeded, exit code 2, after 10 min"},
		"Jobs unseen":        {blind, false, false, "Task shop/report: Running; not shown: Jobs (you may not list them)"},
	} {
		p := ProgressOf(c.s)
		if p.IsDone() != c.done || (p.EndReason() != "") != c.failed {
			t.Errorf("%s: done is %t, failed %q", name, p.IsDone(), p.EndReason())
		}
		if line := p.OneLine(); line != c.line {
			t.Errorf("%s: %s", name, line)
		}
	}
	if line := ProgressOf(all["running"]).OneLine(); !strings.HasPrefix(line, `Task shop/report: Running; Job report-4: running; container "cart"`) {
		t.Errorf("running: %s", line)
	}
}

// TestNewJobName proposes a name that no Job has.
func TestNewJobName(t *testing.T) {
	s := tasks()["failed"]
	for n, want := range []string{"report-again", "report-again-2", "report-again-3"} {
		if got := s.newJobName(); got != want {
			t.Errorf("%d: %s, want %s", n, got, want)
		}
		job := batchv1.Job{}
		job.Name = want
		s.Jobs = append(s.Jobs, job)
	}
}

// TestReportOfTask has the runs of a Task, and hides the values of its variables.
func TestReportOfTask(t *testing.T) {
	s := tasks()["failed"]
	spec, ok := s.Resource.Spec.(*appv1.TaskSpec)
	if !ok {
		t.Fatalf("the spec is %T", s.Resource.Spec)
	}
	spec.Envs = []corev1.EnvVar{{Name: "MODE", Value: "hunter2hunter2"}}
	text := ReportOf(s, nil)
	if !strings.Contains(text, "## Runs\n") || !strings.Contains(text, "report-3") || strings.Contains(text, "hunter2") {
		t.Error(text)
	}
}
