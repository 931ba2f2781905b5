package children

import (
	"reflect"
	"slices"
	"strings"

	batchv1 "k8s.io/api/batch/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"huolala.cn/app-operator/internal/health"
)

// IndexOwner is the index of the cache that finds children by the UID of the custom resource that controls them, and Jobs by the UID of
// their CronJob, or of the resource whose command they run. OwnerKey is its function.
const IndexOwner = "owner"

// OwnerKey returns the UID of the owner of an object if that is of a kind of ours, or a CronJob.
func OwnerKey(obj client.Object) []string {
	if c := OwnerOf(obj); c != nil && (IsOfOurGroup(c) || IsCronJob(c)) {
		return []string{string(c.UID)}
	}
	return nil
}

// OwnerOf returns the controller of an object, or the resource whose command a Job runs, nil if there is neither.
func OwnerOf(obj client.Object) *metav1.OwnerReference {
	if c := metav1.GetControllerOfNoCopy(obj); c != nil {
		return c
	}
	if job, ok := obj.(*batchv1.Job); ok {
		return health.JobOwner(job)
	}
	return nil
}

// IsCronJob reports whether an owner is a CronJob.
func IsCronJob(owner *metav1.OwnerReference) bool {
	return owner.Kind == "CronJob" && strings.HasPrefix(owner.APIVersion, batchv1.GroupName+"/")
}

// Inventory has the live objects of an owner, sorted by the order of Types, and by name.
type Inventory []client.Object

// Without returns the objects of the inventory that are none of the wanted ones, by type and name.
func (i Inventory) Without(wanted ...client.Object) []client.Object {
	return slices.DeleteFunc(slices.Clone(i), func(live client.Object) bool {
		return slices.ContainsFunc(wanted, func(obj client.Object) bool {
			return reflect.TypeOf(obj) == reflect.TypeOf(live) && obj.GetName() == live.GetName()
		})
	})
}
