package reconciler

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrlmetrics "sigs.k8s.io/controller-runtime/pkg/metrics"

	appv1 "huolala.cn/app-operator/api/v1"
	"huolala.cn/app-operator/internal/metrics"
)

// settled is the histogram of the times until resources become ready or stalled.
var settled = metrics.SettleDuration.NewHistogram()

func init() { ctrlmetrics.Registry.MustRegister(settled) }

// observeSettled observes the time until a resource becomes ready or stalled, from its creation or from its last ready or stalled
// condition.
func (r *Reconciler[T]) observeSettled(before, after T) {
	stalled, ready := statusCondition(before, appv1.ConditionStalled), statusCondition(before, appv1.ConditionReady)
	if isTrue(stalled) || isTrue(ready) {
		return
	}
	var result string
	switch {
	case isTrue(statusCondition(after, appv1.ConditionReady)):
		result = "ready"
	case isTrue(statusCondition(after, appv1.ConditionStalled)):
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
