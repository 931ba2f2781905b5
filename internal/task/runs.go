package task

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	appv1 "huolala.cn/app-operator/api/v1"
	"huolala.cn/app-operator/internal/health"
	"huolala.cn/app-operator/internal/reconciler"
	"huolala.cn/app-operator/resource"
)

const (
	// missedAfter is how late a run may be before it counts as missed, unless startingDeadlineSeconds is longer.
	missedAfter = 2 * time.Minute
	// maxJobs is the maximum number of Jobs of one CronJob that are judged: five times what keep allows.
	maxJobs = 1000
	// lookAgain is the longest time until a Task is looked at again: a clock may be set.
	lookAgain = time.Hour
	// clockFormat is the form of a time in messages.
	clockFormat = "2006-01-02 15:04:05"
)

// latestFirst sorts Jobs, the latest first.
func latestFirst(jobs []batchv1.Job) []batchv1.Job {
	slices.SortFunc(jobs, func(a, b batchv1.Job) int { return cmp.Or(health.CompareJobs(&a, &b), cmp.Compare(b.Name, a.Name)) })
	return jobs
}

// runOf returns the run of a Job.
func runOf(job *batchv1.Job) *appv1.TaskRun {
	run := &appv1.TaskRun{Job: job.Name, Started: ptr.To(job.CreationTimestamp), Result: appv1.TaskRunning}
	end := health.JobEnd(job)
	if end == nil {
		return run
	}
	run.Result, run.Finished = appv1.TaskSucceeded, ptr.To(end.LastTransitionTime)
	if end.Type == batchv1.JobFailed {
		run.Result = appv1.TaskFailed
	}
	return run
}

// lastRun returns the latest run: of the Jobs, or of the status before, where the Job is deleted. The CronJob has the time of the latest
// success. It returns nil if there was no run.
func lastRun(before *appv1.TaskRun, seen *observed, live *batchv1.CronJob) *appv1.TaskRun {
	// A suspended Job has not started, unless it was seen to run.
	started := func(job batchv1.Job) bool {
		return !health.JobSuspended(&job) || before != nil && before.Job == job.Name
	}
	if i := slices.IndexFunc(seen.jobs, started); i >= 0 {
		if latest := &seen.jobs[i]; before == nil || before.Started == nil || !before.Started.After(latest.CreationTimestamp.Time) {
			return runOf(latest)
		}
	}
	if before == nil || before.Result == appv1.TaskSucceeded || before.Result == appv1.TaskFailed {
		return before
	}
	// The CronJob controller deletes a Job before it writes the time of the success.
	run := before.DeepCopy()
	run.Result = appv1.TaskUnknown
	if run.Finished == nil {
		run.Finished = ptr.To(metav1.NewTime(seen.at.Truncate(time.Second)))
	}
	if live != nil && live.Status.LastSuccessfulTime != nil && before.Started != nil && !live.Status.LastSuccessfulTime.Before(before.Started) &&
		!slices.ContainsFunc(seen.jobs, func(job batchv1.Job) bool { return succeededAt(&job, live.Status.LastSuccessfulTime) }) {
		run.Result, run.Finished = appv1.TaskSucceeded, ptr.To(*live.Status.LastSuccessfulTime)
	}
	return run
}

// succeededAt reports whether a Job has succeeded at a time.
func succeededAt(job *batchv1.Job, at *metav1.Time) bool {
	end := health.JobEnd(job)
	return end != nil && end.Type == batchv1.JobComplete && end.LastTransitionTime.Equal(at)
}

// failedJob returns the Job that has ended last if it has failed, nil if it has not. A Job that has succeeded after it may be deleted already.
func failedJob(seen *observed, live *batchv1.CronJob) *batchv1.Job {
	var last *batchv1.Job
	var end *batchv1.JobCondition
	for i := range seen.jobs { // The latest is the first.
		if is := health.JobEnd(&seen.jobs[i]); is != nil && (end == nil || is.LastTransitionTime.After(end.LastTransitionTime.Time)) {
			last, end = &seen.jobs[i], is
		}
	}
	if end == nil || end.Type != batchv1.JobFailed || live.Status.LastSuccessfulTime != nil && live.Status.LastSuccessfulTime.After(end.LastTransitionTime.Time) {
		return nil
	}
	return last
}

// isActive reports whether a Job runs.
func isActive(job *batchv1.Job) bool { return health.JobEnd(job) == nil && !health.JobSuspended(job) }

// activeJobs returns the number of Jobs that run.
func (o *observed) activeJobs() int32 {
	var n int32
	for i := range o.jobs {
		if isActive(&o.jobs[i]) {
			n++
		}
	}
	return n
}

// verdictOf returns how the runs are doing. Ready is true if the latest run that has ended has succeeded, or if none was due.
func verdictOf(task *appv1.Task, seen *observed, live *batchv1.CronJob, t *timing, last *appv1.TaskRun) health.Verdict {
	failed := failedJob(seen, live)
	running, suspended := seen.activeJobs() > 0, slices.IndexFunc(seen.jobs, func(job batchv1.Job) bool { return health.JobSuspended(&job) })
	switch {
	case seen.crowded:
		return health.Verdict{Stalled: true, Reason: appv1.ReasonTooManyRuns, Message: fmt.Sprintf(messageTooManyRuns, task.Name, maxJobs)}
	case isSuspended(live) && !running:
		return health.Verdict{Ready: true, Reason: appv1.ReasonSuspended, Message: messageSuspended}
	case failed != nil:
		return health.Verdict{Stalled: true, Reason: appv1.ReasonRunFailed, Message: fmt.Sprintf(messageRunFailed,
			failed.Name, failureMessage(failed), task.Namespace, failed.Name)}
	case !running && last != nil && last.Result == appv1.TaskFailed && lastCounts(last, live):
		return health.Verdict{Stalled: true, Reason: appv1.ReasonRunFailed, Message: fmt.Sprintf(messageRunFailed,
			last.Job, messageRunCommand, task.Namespace, last.Job)}
	case !t.missed.IsZero():
		return health.Verdict{Stalled: true, Reason: appv1.ReasonRunMissed, Message: fmt.Sprintf(messageRunMissed,
			t.missed.UTC().Format(clockFormat), task.Namespace, task.Name, task.Name)}
	case running:
		return verdictOfRun(task, seen, live)
	case suspended >= 0:
		return health.Verdict{Ready: true, Reason: appv1.ReasonNoRun, Message: health.SuspendedJobMessage(&seen.jobs[suspended])}
	case last != nil && last.Result == appv1.TaskUnknown:
		return health.Verdict{Ready: true, Reason: appv1.ReasonNoRun, Message: fmt.Sprintf(messageRunDeleted, last.Job)}
	case live.Status.LastSuccessfulTime == nil && (last == nil || last.Result != appv1.TaskSucceeded):
		return health.Verdict{Ready: true, Reason: appv1.ReasonNoRun, Message: noRun(t)}
	case last != nil && last.Result == appv1.TaskSucceeded:
		return health.Verdict{Ready: true, Reason: appv1.ReasonSucceeded, Message: fmt.Sprintf(messageSucceeded, last.Job)}
	}
	return health.Verdict{Ready: true, Reason: appv1.ReasonSucceeded, Message: messageRunSucceeded}
}

// lastCounts reports whether no run has succeeded since the latest run of the status, whose Job is deleted.
func lastCounts(last *appv1.TaskRun, live *batchv1.CronJob) bool {
	success := live.Status.LastSuccessfulTime
	return success == nil || last.Finished == nil || !success.After(last.Finished.Time)
}

func noRun(t *timing) string {
	if t.next.IsZero() {
		return messageNeverDue
	}
	return messageNoRun
}

// verdictOfRun returns how the latest run that has not ended is doing. A pod that does not start is the reason why it is not ready. The cache has
// Jobs without their pod template, so the CronJob has the values that the cause must not have.
func verdictOfRun(task *appv1.Task, seen *observed, live *batchv1.CronJob) health.Verdict {
	i := slices.IndexFunc(seen.jobs, func(job batchv1.Job) bool { return isActive(&job) })
	job := &seen.jobs[i]
	if cause := health.WorstFor(seen.podsOf(job), false, live); cause != (health.Cause{}) {
		return health.Verdict{Reason: cause.Reason, Message: fmt.Sprintf(messageRunningCause, job.Name, cause)}
	}
	v := health.Verdict{
		Ready: true, Reason: appv1.ReasonRunning, Message: fmt.Sprintf(messageRunning, job.Name, job.CreationTimestamp.UTC().Format(clockFormat)),
	}
	if awaits, again := health.JobAwaitsPod(job, seen.at); awaits {
		if v.Again = again; again == 0 {
			v.Ready, v.Message = false, fmt.Sprintf(messageRunWithoutPod, job.Name, health.JobPodPatience, task.Namespace, job.Name)
		}
	}
	return v
}

// podsOf returns the pods of a Job.
func (o *observed) podsOf(job *batchv1.Job) []corev1.Pod {
	return slices.DeleteFunc(slices.Clone(o.pods), func(pod corev1.Pod) bool { return !metav1.IsControlledBy(&pod, job) })
}

// failureMessage returns the reason of a failed Job in words. No text has a line of the command's output, which may have a password.
func failureMessage(job *batchv1.Job) string {
	if health.JobExceededDeadline(job) {
		return messageRunDeadline
	}
	return messageRunCommand
}

// newReport returns the report of a reconcile, and writes the status of the Task.
func newReport(in *Input, seen *observed, want *decision, done outcome) reconciler.Report {
	task, live := in.Task, seen.cronJob(in.Task)
	report := reconciler.Report{ExactNumbers: true}
	action, line := done.changes.Summary()
	report.Event.AddChanges(string(action), line)
	if message, retry := done.changes.Overridden(); message != "" {
		report.Note = reconciler.ReasonAndMessage{Reason: appv1.ReasonOverridden, Message: message}
		report.RetryAfter = retry
	}
	if want.job != nil && !want.job.Workload.Recorded && line != "" {
		report.Event.Warning = messageRecordTooLong
	}
	switch {
	case done.pending != "":
		report.Pause, report.PendingKey = reconciler.Pending, done.pending
	case task.Spec.Paused:
		report.Pause = reconciler.Paused
	}
	status := &task.Status
	if live == nil {
		*status = appv1.TaskStatus{CommonStatus: status.CommonStatus, LastRun: status.LastRun}
		report.Pods = health.Verdict{Reason: appv1.ReasonProgressing, Message: fmt.Sprintf(messageCronJobMissing, task.Name)}
		return report
	}
	if !seen.crowded {
		status.LastRun, status.Active = lastRun(status.LastRun, seen, live), seen.activeJobs()
	}
	t := timingOf(seen, live, status.LastRun)
	status.NextRun, status.Image = nil, resource.MainImage(live)
	if !t.next.IsZero() {
		status.NextRun = ptr.To(metav1.NewTime(t.next.UTC().Truncate(time.Second)))
	}
	if want.job != nil {
		status.Size = want.size.String()
	}
	report.Pods = verdictOf(task, seen, live, &t, status.LastRun)
	if !t.again.IsZero() {
		report.RetryAfter = reconciler.MinRequeue(report.RetryAfter, min(max(t.again.Sub(seen.at), time.Second), lookAgain))
	}
	report.RetryAfter = reconciler.MinRequeue(report.RetryAfter, report.Pods.Again)
	return report
}
