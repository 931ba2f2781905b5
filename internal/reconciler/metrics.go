package reconciler

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrlmetrics "sigs.k8s.io/controller-runtime/pkg/metrics"

	appv1 "huolala.cn/app-operator/api/v1"
	"huolala.cn/app-operator/internal/metrics"
)

// settled says how long resources took that were not ready.
var settled = metrics.SettleDuration.NewHistogram()

func init() { ctrlmetrics.Registry.MustRegister(settled) }

// observeSettled notes how long a resource took that has become ready, or has stalled: since it was created, was ready last, or was
// stalled last, as that lasts as long as its user needs.
func (r *Reconciler[T]) observeSettled(before, after T) {
	stalled, ready := condition(before, appv1.ConditionStalled), condition(before, appv1.ConditionReady)
	if isTrue(stalled) || isTrue(ready) {
		return
	}
	var result string
	switch {
	case isTrue(condition(after, appv1.ConditionReady)):
		result = "ready"
	case isTrue(condition(after, appv1.ConditionStalled)):
		result = "stalled"
	default:
		return
	}
	began := after.GetCreationTimestamp().Time
	for _, c := range []*metav1.Condition{stalled, ready} {
		if c != nil && c.LastTransitionTime.After(began) {
			began = c.LastTransitionTime.Time
		}
	}
	settled.WithLabelValues(r.Kind, result).Observe(max(r.Clock.Since(began).Seconds(), 0))
}
