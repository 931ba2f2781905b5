package ui

import (
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	appv1 "huolala.cn/app-operator/api/v1"
	"huolala.cn/app-operator/plugin/view"
)

// hostileTask returns a Task with runs, in which each name and each text is hostile.
func hostileTask(runs int) *view.Snapshot {
	task := &appv1.Task{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: evil, UID: "task"}}
	task.Spec.App, task.Spec.Schedule, task.Spec.TimeZone, task.Status.Image = evil, evil, ptr.To(evil), evil
	task.Status.LastRun = &appv1.TaskRun{Job: evil, Started: ptr.To(metav1.Now()), Result: appv1.TaskResult(evil)}
	task.Status.Conditions = []metav1.Condition{{Type: appv1.ConditionReady, Status: metav1.ConditionFalse, Reason: appv1.ReasonRunFailed, Message: evil}}
	r, _ := view.ResourceOf(task)
	s := &view.Snapshot{Resource: r, Now: time.Now(), CronJobs: []batchv1.CronJob{{ObjectMeta: owned("cron", "task")}}}
	for n := range runs {
		job := batchv1.Job{ObjectMeta: owned(fmt.Sprint("run-", n), "cron")}
		job.Spec.Template.Spec.Containers = []corev1.Container{{Name: evil, Image: evil}}
		job.Status.Conditions = []batchv1.JobCondition{{Type: batchv1.JobFailed, Status: corev1.ConditionTrue, Reason: evil, Message: evil}}
		s.Jobs = append(s.Jobs, job)
	}
	return s
}

// TestHostileTask draws the page of a Task from hostile names and texts, with its runs in place of pods, a picture of up to 100 of them and a table of
// the latest ten.
func TestHostileTask(t *testing.T) {
	t.Parallel()
	f := newFake()
	f.snapshot = hostileTask(200)
	s := listen(t, f)
	secret, _ := s.sessions.startSession(s.NewCode(), "")
	text := visit(s, secret, "task/shop/"+url.PathEscape(evil), nil).Body.String()
	if strings.Contains(text, "<img") {
		t.Errorf("the page has markup of the cluster:\n%s", text)
	}
	_, part, found := strings.Cut(text, "<h2>Runs")
	part, _, _ = strings.Cut(part, "</section>")
	if cells, lines := strings.Count(part, "<span class=\"bad\" title="), strings.Count(part, "<tr><th scope=\"row\">"); !found || cells != 99 || lines != 10 {
		t.Errorf("%d cells, %d lines:\n%s", cells, lines, part)
	}
	for _, want := range []string{"<dt>Schedule</dt>", "<dt>Next run</dt><dd>none", "<dt>Last run</dt>", "<dt>Image</dt>"} {
		if !strings.Contains(text, want) {
			t.Errorf("no %s", want)
		}
	}
	if strings.Contains(text, "<dt>Serving</dt>") || strings.Contains(text, "<h2>Pods</h2>") {
		t.Error("the page of a Task has pods that serve")
	}
	f.snapshot = hostileTask(0)
	f.snapshot.Resource.Schedule.Last = nil
	if text := visit(s, secret, "task/shop/"+url.PathEscape(evil), nil).Body.String(); !strings.Contains(text, "No run has started yet.") || !strings.Contains(text, "none yet") {
		t.Errorf("without a run:\n%s", text)
	}
}

// TestOffersOfTasks offers to suspend a Task or to resume it, and carries that out.
func TestOffersOfTasks(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		paused, suspended bool
		offered, not      []string
	}{
		"plain":     {false, false, []string{Suspend, Pause}, []string{Resume, Restart, Scale, Refresh, Hold}},
		"suspended": {false, true, []string{Resume, Pause}, []string{Suspend}},
		"paused":    {true, false, []string{Resume, Suspend}, []string{Pause}},
		"both":      {true, true, []string{Resume}, []string{Suspend, Pause}},
	} {
		task := &appv1.Task{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "report"}}
		task.Spec.Paused, task.Spec.Suspended = c.paused, c.suspended
		f, actor := newFake(), &acted{}
		f.snapshot.Resource, _ = view.ResourceOf(task)
		s := listenWith(t, f, actor)
		secret, _ := s.sessions.startSession(s.NewCode(), "")
		text := visit(s, secret, "task/shop/report", nil).Body.String()
		for _, do := range c.offered {
			if !leadsTo(text, "report/"+do) {
				t.Errorf("%s: %s is not offered\n%s", name, do, text)
			}
			if answer := visit(s, secret, "task/shop/report/"+do, url.Values{"version": {"7"}}); answer.Code != http.StatusSeeOther {
				t.Errorf("%s: %s: %d", name, do, answer.Code)
			}
			if want := do + " shop/report  7"; !slices.Contains(actor.done, want) {
				t.Errorf("%s: done is %q, want %q", name, actor.done, want)
			}
		}
		for _, do := range c.not {
			if leadsTo(text, "report/"+do) {
				t.Errorf("%s offers %s", name, do)
			}
		}
	}
}
