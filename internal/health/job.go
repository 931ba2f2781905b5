package health

import (
	"cmp"
	"fmt"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"
)

// JobEnd returns the condition by which a Job has succeeded or failed, nil while it has not. The controller of Jobs sets the condition once no
// pod of the Job runs.
func JobEnd(job *batchv1.Job) *batchv1.JobCondition {
	for i := range job.Status.Conditions {
		c := &job.Status.Conditions[i]
		if c.Status == corev1.ConditionTrue && (c.Type == batchv1.JobComplete || c.Type == batchv1.JobFailed) {
			return c
		}
	}
	return nil
}

// JobEndedBy reports whether a Job has ended by a condition, batchv1.JobComplete or batchv1.JobFailed.
func JobEndedBy(job *batchv1.Job, by batchv1.JobConditionType) bool {
	end := JobEnd(job)
	return end != nil && end.Type == by
}

// JobSuspended reports whether a Job that has not ended is suspended: by its creator, or by a queue such as Kueue.
func JobSuspended(job *batchv1.Job) bool {
	return JobEnd(job) == nil && ptr.Deref(job.Spec.Suspend, false)
}

// SuspendedJobMessage returns the message of a condition about a suspended Job, with the command that resumes it.
func SuspendedJobMessage(job *batchv1.Job) string {
	return fmt.Sprintf(messageJobSuspended, job.Name, job.Namespace, job.Name)
}

// JobPodPatience is the time after which a Job without a pod is reported: nothing in the status of the Job has the reason.
const JobPodPatience = 30 * time.Second

// JobHadPod reports whether a pod of a Job runs, ends or has ended. A pod that a drained node has ended counts while it ends, and neither as failed
// nor as active.
func JobHadPod(job *batchv1.Job) bool {
	is := &job.Status
	return is.Active+is.Failed+is.Succeeded+ptr.Deref(is.Terminating, 0) > 0
}

// JobAwaitsPod reports whether no pod of a Job has started, and returns the time until that is reported, 0 once it is due. The Job has not ended.
func JobAwaitsPod(job *batchv1.Job, now time.Time) (awaits bool, again time.Duration) {
	if JobHadPod(job) || JobSuspended(job) {
		return false, 0
	}
	begin := job.CreationTimestamp.Time
	if started := job.Status.StartTime; started != nil && started.After(begin) { // A suspended Job starts when it is resumed.
		begin = started.Time
	}
	return true, max(0, JobPodPatience-now.Sub(begin))
}

// JobExceededDeadline reports whether a Job has failed because its command had not ended in time.
func JobExceededDeadline(job *batchv1.Job) bool {
	end := JobEnd(job)
	return end != nil && end.Type == batchv1.JobFailed && end.Reason == batchv1.JobReasonDeadlineExceeded
}

// CompareJobs orders Jobs by their creation, the latest first. Of Jobs of the same second, a Job that has not ended is the latest.
func CompareJobs(a, b *batchv1.Job) int {
	ended := func(job *batchv1.Job) int {
		if JobEnd(job) != nil {
			return 1
		}
		return 0
	}
	return cmp.Or(b.CreationTimestamp.Compare(a.CreationTimestamp.Time), cmp.Compare(ended(a), ended(b)))
}
