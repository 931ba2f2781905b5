package claim

import (
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	appv1 "huolala.cn/app-operator/api/v1"
)

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
