package cli

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	appv1 "huolala.cn/app-operator/api/v1"
	plugin "huolala.cn/app-operator/plugin/cli"
	"huolala.cn/app-operator/test/fixture"
)

// newTask creates the Task of a name, which runs once a year, and waits for its CronJob.
func newTask(t *testing.T, namespace, name, app, image string) *appv1.Task {
	t.Helper()
	task := &appv1.Task{ObjectMeta: fixture.Meta(namespace, name)}
	task.Spec.App, task.Spec.Image, task.Spec.Command, task.Spec.Schedule = app, image, []string{"/app/report"}, fixture.Schedule
	plane.Create(t, task)
	plane.Until(t, task, func() error { return reportsOf(task, appv1.ReasonNoRun) })
	return task
}

// reportsOf returns an error unless the reason of Ready of a Task is this one, for the latest generation.
func reportsOf(task *appv1.Task, reason string) error {
	if c := meta.FindStatusCondition(task.Status.Conditions, appv1.ConditionReady); c != nil && c.Reason == reason && task.Status.ObservedGeneration == task.Generation {
		return nil
	}
	return fmt.Errorf("not %s: %+v", reason, task.Status.Conditions)
}

// runAgain has a run that fails, corrects the Task, and starts a run by hand. What serves goes on.
func runAgain(t *testing.T, clause string) {
	t.Helper()
	s := newSite(t)
	task := newTask(t, s.u.namespace, "web", "web", "jobfails.test/web:1")
	s.follows("kubectl create job web-first --from=cronjob/web" + inAnyNamespace)
	plane.Until(t, task, func() error { return reportsOf(task, appv1.ReasonRunFailed) })
	s.advises("task/web", clause)
	plane.Change(t, task, func() { task.Spec.Image = "" })
	cron := &batchv1.CronJob{ObjectMeta: fixture.Meta(s.u.namespace, "web")}
	plane.Until(t, cron, func() error {
		if cron.Spec.JobTemplate.Spec.Template.Spec.Containers[0].Image != s.app.Spec.Image {
			return errNotYet
		}
		return nil
	})
	s.follows(clause)
	plane.Until(t, task, func() error { return reportsOf(task, appv1.ReasonSucceeded) })
	s.keepsPods()
}

// TestTask starts runs by hand with the command of the documentation, and shows, waits for, suspends and ejects a Task.
func TestTask(t *testing.T) {
	t.Parallel()
	s := emptySite(t, administrator(t))
	u := s.u
	task := newTask(t, u.namespace, "report", "", "nginx:1")
	says(t, u.run("list", "task"), "SCHEDULE", "Task/report", fixture.Schedule, "NoRun: next run at")
	s.follows("kubectl create job report-1 --from=cronjob/report" + inAnyNamespace)
	says(t, u.run("wait", "task/report"), "Job report-1: succeeded")
	says(t, u.run("history", "task/report"), "report-1", "succeeded", "started by hand", "The next run is due in")
	says(t, u.run("tree", "task/report"), "Task/report", "CronJob/report", "Job/report-1", "Pod/report-1-")
	for _, from := range []string{"cronjob/report", "job/report-1", "htask/report"} {
		says(t, u.run("why", from), "Task "+u.namespace+"/report is Ready")
	}

	plane.Change(t, task, func() { task.Spec.Image = "jobfails.test/report:1" })
	cron := &batchv1.CronJob{ObjectMeta: fixture.Meta(u.namespace, "report")}
	plane.Until(t, cron, func() error {
		if cron.Spec.JobTemplate.Spec.Template.Spec.Containers[0].Image != task.Spec.Image {
			return errNotYet
		}
		return nil
	})
	s.follows("kubectl create job report-2 --from=cronjob/report" + inAnyNamespace)
	code, out, said := u.try("wait", "task/report")
	if code != 1 || !strings.Contains(said, "is not ready: RunFailed: Job report-2 failed") {
		t.Errorf("wait has the exit status %d\n%s%s", code, out, said)
	}
	says(t, u.run("why", "task/report"), "is Failing", "RunFailed", "Job report-2", "exit code 1", "the last run that has succeeded: Job report-1")
	says(t, u.run("report", "task/report"), "## Runs", "report-2")

	says(t, u.run("suspend", "task/report"), "suspended")
	plane.Until(t, cron, func() error {
		if !ptr.Deref(cron.Spec.Suspend, false) {
			return errNotYet
		}
		return nil
	})
	plane.Until(t, task, func() error { return reportsOf(task, appv1.ReasonSuspended) })
	says(t, u.run("why", "task/report"), "is Suspended", "kubectl happ resume task/report")
	says(t, u.run("resume", "task/report"), "resumed")
	plane.Until(t, cron, func() error {
		if ptr.Deref(cron.Spec.Suspend, false) {
			return errNotYet
		}
		return nil
	})
	says(t, u.run("eject", "task/report"), "kind: CronJob", "schedule: "+fixture.Schedule)
	u.run("eject", "task/report", "--delete", "--yes")
	plane.Gone(t, task)
	plane.Until(t, cron, func() error {
		if len(cron.OwnerReferences) > 0 || cron.Labels[appv1.LabelManagedBy] != "" {
			return errors.New("the CronJob is still the operator's")
		}
		return nil
	})
}

// taskCommands are the arguments with which each command that applies to a Task is tried.
var taskCommands = map[string][]string{
	"tree": {"tree", "task/report"}, "why": {"why", "task/report"}, "logs": {"logs", "task/report"}, "report": {"report", "task/report"},
	"wait": {"wait", "task/report"}, "history": {"history", "task/report"}, "pause": {"pause", "task/report"}, "suspend": {"suspend", "task/report"},
	"resume": {"resume", "task/report"}, "eject": {"eject", "task/report"}, "eject --delete": {"eject", "task/report", "--delete", "--yes"},
	"plan": {"plan", "task/report", "--set", "schedule=" + fixture.Schedule}, "adopt": {"adopt", "task/report", "--yes"},
}

// TestRightsToTasks is TestRights for a Task.
func TestRightsToTasks(t *testing.T) {
	t.Parallel()
	for _, n := range plugin.CommandNeeds() {
		args, known := taskCommands[n.Command]
		if !known {
			continue
		}
		t.Run(strings.ReplaceAll(n.Command, " ", ""), func(t *testing.T) {
			t.Parallel()
			ns := namespaceFor(t, n.Command)
			if n.Command == "adopt" {
				plane.Create(t, &batchv1.CronJob{ObjectMeta: fixture.Meta(ns, "report"), Spec: handMadeSchedule()})
				task := &appv1.Task{ObjectMeta: fixture.Meta(ns, "report")}
				task.Spec.Image, task.Spec.Schedule = "nginx:1", fixture.Schedule
				plane.Create(t, task)
				plane.Stands(t, task, "Applied=False/ResourceExists")
			} else {
				task := newTask(t, ns, "report", "", "nginx:1")
				s := &site{T: t, u: as(t, plane.Config, ns)}
				s.follows("kubectl create job report-1 --from=cronjob/report" + inAnyNamespace)
				plane.Until(t, task, func() error { return reportsOf(task, appv1.ReasonSucceeded) })
				if n.Command == "resume" {
					plane.Change(t, task, func() { task.Spec.Suspended = true })
				}
			}
			tryRights(t, ns, &n, args, func(right plugin.Right) bool {
				if right.Group == appv1.GroupVersion.Group {
					return right.Resource == "tasks"
				}
				if n.Command == "eject --delete" && right.Verb == "patch" {
					return false
				}
				return slices.Contains([]string{"cronjobs", "jobs", "pods", "events", "pods/log"}, right.Resource)
			})
		})
	}
}

// handMadeSchedule is the spec of a CronJob that a user has made.
func handMadeSchedule() batchv1.CronJobSpec {
	spec := batchv1.CronJobSpec{Schedule: fixture.Schedule}
	spec.JobTemplate.Spec.Template = handMade("x").Spec.Template
	spec.JobTemplate.Spec.Template.Spec.RestartPolicy = "Never"
	spec.JobTemplate.Spec.Template.ObjectMeta = metav1.ObjectMeta{}
	return spec
}
