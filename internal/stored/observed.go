package stored

import (
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appv1 "huolala.cn/app-operator/api/v1"
)

// Observed is a stored resource of any kind by its status.
type Observed interface {
	client.Object
	// Condition returns a condition of the status, nil if there is none.
	Condition(name string) *metav1.Condition
	// Outdated reports whether pods have an earlier rendering than this operator knows, or an earlier meaning of their size.
	Outdated() (rendering, size bool)
}

// Condition implements Observed.
func (r *App) Condition(name string) *metav1.Condition {
	return meta.FindStatusCondition(r.Status.Value.Conditions, name)
}

// Outdated implements Observed.
func (r *App) Outdated() (rendering, size bool) { return outdated(&r.Status.Value.WorkloadStatus) }

// Condition implements Observed.
func (r *ModelBox) Condition(name string) *metav1.Condition {
	return meta.FindStatusCondition(r.Status.Value.Conditions, name)
}

// Outdated implements Observed.
func (r *ModelBox) Outdated() (rendering, size bool) {
	return outdated(&r.Status.Value.WorkloadStatus)
}

// Condition implements Observed.
func (r *UnitedDeployment) Condition(name string) *metav1.Condition {
	return meta.FindStatusCondition(r.Status.Value.Conditions, name)
}

// Outdated implements Observed.
func (r *UnitedDeployment) Outdated() (rendering, size bool) {
	return outdated(&r.Status.Value.WorkloadStatus)
}

// Condition implements Observed.
func (r *CloudManager) Condition(name string) *metav1.Condition {
	return meta.FindStatusCondition(r.Status.Value.Conditions, name)
}

// Outdated implements Observed.
func (r *CloudManager) Outdated() (rendering, size bool) {
	status := &r.Status.Value
	for _, tier := range []*appv1.TierStatus{&status.DB, &status.Identity, &status.Front} {
		rendering = rendering || tier.LatestRendering != 0
		size = size || tier.LatestSize != ""
	}
	return rendering, size
}

func outdated(status *appv1.WorkloadStatus) (rendering, size bool) {
	return status.LatestRendering != 0, status.LatestSize != ""
}
