package health

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	appv1 "huolala.cn/app-operator/api/v1"
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

// JobOwner returns the reference of a Job to the resource whose command the Job runs before a rollout, nil for any other Job. The Job has no controller:
// the controller of CronJobs takes a Job whose controller has the name of the CronJob for a run of the CronJob, whatever the kind of the Job's controller,
// and deletes it by the limits of the CronJob's history (k8s.io/kubernetes/pkg/controller/cronjob).
func JobOwner(job metav1.Object) *metav1.OwnerReference {
	if job.GetLabels()[appv1.LabelBeforeRollout] == "" || metav1.GetControllerOfNoCopy(job) != nil {
		return nil
	}
	refs := job.GetOwnerReferences()
	for i := range refs {
		if strings.HasPrefix(refs[i].APIVersion, appv1.GroupVersion.Group+"/") {
			return &refs[i]
		}
	}
	return nil
}

// IsJobOf reports whether a Job runs the command before a rollout of the resource of a UID.
func IsJobOf(job metav1.Object, uid types.UID) bool {
	owner := JobOwner(job)
	return owner != nil && owner.UID == uid
}
