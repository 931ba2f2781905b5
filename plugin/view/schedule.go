package view

import (
	"cmp"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	appv1 "huolala.cn/app-operator/api/v1"
)

// Schedule is when a Task runs, and what has become of its latest run, from its spec and status.
type Schedule struct {
	// Cron is the schedule, with its time zone where the spec states one.
	Cron string `json:"cron"`
	// App is the App whose pods the runs are built from, empty without one.
	App string `json:"app,omitempty"`
	// Last is the latest run that has started, nil where none has.
	Last *appv1.TaskRun `json:"lastRun,omitempty"`
	// Next is when the next run is due, nil where none is.
	Next *metav1.Time `json:"nextRun,omitempty"`
	// Active is how many runs have started and not ended.
	Active int `json:"active,omitempty"`
	// Suspended is true while no run starts.
	Suspended bool `json:"suspended,omitempty"`
}

func taskResource(obj runtime.Object) (Resource, bool) {
	task, ok := obj.(*appv1.Task)
	if !ok {
		return Resource{}, false
	}
	cron := task.Spec.Schedule
	if zone := task.Spec.TimeZone; zone != nil {
		cron += " " + *zone
	}
	return Resource{
		ObjectMeta: task.ObjectMeta, Image: cmp.Or(task.Status.Image, task.Spec.Image), Paused: task.Spec.Paused, Spec: &task.Spec,
		Status: task.Status.CommonStatus, Size: task.Status.Size,
		Schedule: &Schedule{
			Cron: cron, App: task.Spec.App, Last: task.Status.LastRun, Next: task.Status.NextRun, Active: int(task.Status.Active),
			Suspended: task.Spec.Suspended,
		},
	}, true
}

// IsSuspended reports whether a Task starts no run.
func (r *Resource) IsSuspended() bool { return r.Schedule != nil && r.Schedule.Suspended }

// LastStarted returns when the latest run has started, nil if that is not known.
func (s *Schedule) LastStarted() *metav1.Time {
	if s.Last == nil {
		return nil
	}
	return s.Last.Started
}

// LastResult returns the result of the latest run, empty where none has started.
func (s *Schedule) LastResult() string {
	if s.Last == nil {
		return ""
	}
	return string(s.Last.Result)
}

// NextIn returns the time until the next run, such as "in 5h"; empty where none is due.
func (s *Schedule) NextIn(now time.Time) string {
	if s.Next == nil {
		return ""
	}
	return "in " + shortDuration(s.Next.Sub(now))
}

// The causes of the states of a Task.
const (
	causeNextRun   = "next run at "
	causeNeverRuns = "the schedule never comes"
	causeRuns      = "Job %s runs"
	causeRunsMany  = "%d runs have not ended"
	causeSuspended = "no run starts until it is resumed"
)

// causeOf returns why a Task is in a state that is no problem, in one sentence, without the time of now: the row of a resource stays the same
// while nothing changes.
func (s *Schedule) causeOf(state State) string {
	switch {
	case state == StateSuspended:
		return causeSuspended
	case state == StateRunning && s.Active > 1:
		return fmt.Sprintf(causeRunsMany, s.Active)
	case state == StateRunning && s.Last != nil:
		return fmt.Sprintf(causeRuns, s.Last.Job)
	case s.Next == nil:
		return causeNeverRuns
	}
	return causeNextRun + FormatUTC(s.Next)
}
