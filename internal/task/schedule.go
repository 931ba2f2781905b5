package task

import (
	"encoding/json"
	"fmt"
	"reflect"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	batchv1ac "k8s.io/client-go/applyconfigurations/batch/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"

	appv1 "huolala.cn/app-operator/api/v1"
	"huolala.cn/app-operator/api/v1/validation"
	"huolala.cn/app-operator/internal/fields"
)

// timing has the times of a schedule at the time of a reconcile.
type timing struct {
	// next is when the next run is due, zero for never.
	next time.Time
	// missed is when a run was due that has not started, zero for none.
	missed time.Time
	// again is when time alone changes one of the two, zero for never.
	again time.Time
}

// timingOf returns the times of the schedule of a live CronJob. A run counts as missed if it was due since the latest run, and since the
// schedule counts. With Forbid, a run whose deadline passed while an earlier run went on is left out and not missed. last is the latest run,
// nil for none.
func timingOf(seen *observed, live *batchv1.CronJob, last *appv1.TaskRun) timing {
	schedule, ok := validation.ScheduleOf(live.Spec.Schedule, live.Spec.TimeZone)
	if !ok || isSuspended(live) || live.DeletionTimestamp != nil {
		return timing{}
	}
	base := live.CreationTimestamp.Time
	if scheduled := live.Status.LastScheduleTime; scheduled != nil {
		base = scheduled.Time
	}
	deadline := time.Duration(ptr.Deref(live.Spec.StartingDeadlineSeconds, 0)) * time.Second
	patience := max(missedAfter, deadline)
	forbids := live.Spec.ConcurrencyPolicy == batchv1.ForbidConcurrent
	since := laterTime(base, scheduledSince(live))
	if last != nil && last.Started != nil { // Also of a run by hand.
		since = laterTime(since, last.Started.Time)
	}
	if forbids && deadline > 0 {
		since = laterTime(since, lastEnd(last, live).Add(-deadline))
	}
	t := timing{next: schedule.Next(base, seen.at)}
	due := schedule.First(since)
	switch late := due.Add(patience); {
	case due.IsZero():
		return t
	case seen.at.Before(late):
		t.again = late
	case forbids && len(live.Status.Active) > 0: // It is left out. A Job by hand is not among the active ones. No event reports that the next one is.
		t.again = t.next
	default:
		t.missed, t.again = due, t.next.Add(patience)
	}
	return t
}

// isSuspended reports whether a CronJob starts no run.
func isSuspended(job *batchv1.CronJob) bool { return ptr.Deref(job.Spec.Suspend, false) }

// lastEnd returns when the latest run has ended, as far as it is known; the zero time for none.
func lastEnd(last *appv1.TaskRun, live *batchv1.CronJob) (end time.Time) {
	if last != nil && last.Finished != nil {
		end = last.Finished.Time
	}
	if success := live.Status.LastSuccessfulTime; success != nil {
		end = laterTime(end, success.Time)
	}
	return end
}

// laterTime returns the later one of two times.
func laterTime(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}

// scheduledSince returns the time since which the schedule of a CronJob counts, the zero time for its creation or an unreadable time.
func scheduledSince(job *batchv1.CronJob) time.Time {
	since, err := time.Parse(time.RFC3339, job.Annotations[appv1.AnnotationScheduleSince])
	if err != nil {
		return time.Time{}
	}
	return since
}

// withSince returns a CronJob with the time since which its schedule counts: the time of the live one, or at if the schedule, its time zone, its
// deadline or the suspension changes. The repair of a change by another writer is no change. live is nil for a new CronJob, which has no such time.
func withSince(wanted, live *batchv1.CronJob, manager string, at time.Time) *batchv1.CronJob {
	if live == nil {
		return wanted
	}
	since := live.Annotations[appv1.AnnotationScheduleSince]
	if changesSchedule(wanted, live, manager) {
		since = at.UTC().Format(time.RFC3339)
	}
	if since == "" {
		return wanted
	}
	with := *wanted
	with.Annotations = map[string]string{appv1.AnnotationScheduleSince: since}
	for key, value := range wanted.Annotations {
		if key != appv1.AnnotationScheduleSince {
			with.Annotations[key] = value
		}
	}
	return &with
}

// changesSchedule reports whether a CronJob states other times of runs than the live one, in a field that the field manager owns, or that the
// live one lacks. Where the manager owns nothing, as before an adoption, each other value counts.
func changesSchedule(wanted, live *batchv1.CronJob, manager string) bool {
	owned := fields.OwnedBy(live, manager)
	for _, of := range []struct {
		name  string
		value func(*batchv1.CronJobSpec) any
	}{
		{"schedule", func(s *batchv1.CronJobSpec) any { return &s.Schedule }},
		{"timeZone", func(s *batchv1.CronJobSpec) any { return s.TimeZone }},
		{"startingDeadlineSeconds", func(s *batchv1.CronJobSpec) any { return s.StartingDeadlineSeconds }},
		{"suspend", func(s *batchv1.CronJobSpec) any { return s.Suspend }},
	} {
		is := of.value(&live.Spec)
		lacks := reflect.ValueOf(is).IsNil()
		if !reflect.DeepEqual(of.value(&wanted.Spec), is) && (lacks || owned.Empty() || owned.Has(fieldpath.MakePathOrDie("spec", of.name))) {
			return true
		}
	}
	return false
}

// keepJob returns the live CronJob as the field manager has last applied it, with another suspension.
func keepJob(live *batchv1.CronJob, manager string, suspended bool) (*batchv1.CronJob, error) {
	applied, err := batchv1ac.ExtractCronJob(live, manager)
	if err != nil {
		return nil, fmt.Errorf("extract the applied fields of CronJob %s: %w", live.Name, err)
	}
	if applied.Spec == nil {
		applied.WithSpec(batchv1ac.CronJobSpec())
	}
	applied.Spec.WithSuspend(suspended)
	delete(applied.Annotations, appv1.AnnotationLastAppliedHash)
	data, err := json.Marshal(applied)
	if err != nil {
		return nil, fmt.Errorf("encode CronJob %s: %w", live.Name, err)
	}
	kept := &batchv1.CronJob{}
	if err := json.Unmarshal(data, kept); err != nil {
		return nil, fmt.Errorf("decode CronJob %s: %w", live.Name, err)
	}
	return kept, nil
}
