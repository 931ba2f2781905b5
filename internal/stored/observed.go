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
	// Reduced reports whether the cache has only a part of the resource.
	Reduced() bool
	// Condition returns a condition of the status, nil if there is none.
	Condition(name string) *metav1.Condition
	// Outdated reports whether pods have an earlier rendering than this operator knows, or an earlier meaning of their size.
	Outdated() (rendering, size bool)
	// Defaults returns whether the resource has the present defaults, nil if no AppDefaults counts for it.
	Defaults() *appv1.DefaultsInUse
	// Canary returns the canary that waits for its promotion, nil if there is none.
	Canary() *appv1.CanaryStatus
}

// Each kind with a workload is observed.
var (
	_ Observed = (*App)(nil)
	_ Observed = (*ModelBox)(nil)
	_ Observed = (*UnitedDeployment)(nil)
	_ Observed = (*CloudManager)(nil)
	_ Observed = (*Task)(nil)
)

func statusCondition(status *appv1.CommonStatus, name string) *metav1.Condition {
	return meta.FindStatusCondition(status.Conditions, name)
}

func outdatedParts(status *appv1.WorkloadStatus) (rendering, size bool) {
	return status.LatestRendering != 0, status.LatestSize != ""
}
