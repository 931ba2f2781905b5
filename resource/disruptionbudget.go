package resource

import (
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
)

// PodDisruptionBudget returns the budget of the workload's pods, nil if the spec has no disruptionBudget. By default, one pod may
// be unavailable, and unhealthy pods can always be evicted.
func PodDisruptionBudget(w *Workload) *policyv1.PodDisruptionBudget {
	if w.Serving.DisruptionBudget == nil {
		return nil
	}
	spec := w.Serving.DisruptionBudget.DeepCopy()
	policy := spec.UnhealthyPodEvictionPolicy
	if policy == "" {
		policy = policyv1.AlwaysAllow
	}
	if spec.MinAvailable == nil && spec.MaxUnavailable == nil {
		spec.MaxUnavailable = ptr.To(intstr.FromInt32(1))
	}
	return &policyv1.PodDisruptionBudget{
		TypeMeta:   metav1.TypeMeta{APIVersion: policyv1.SchemeGroupVersion.String(), Kind: "PodDisruptionBudget"},
		ObjectMeta: w.objectMeta(),
		Spec: policyv1.PodDisruptionBudgetSpec{
			MinAvailable:               spec.MinAvailable,
			MaxUnavailable:             spec.MaxUnavailable,
			Selector:                   &metav1.LabelSelector{MatchLabels: w.Selector},
			UnhealthyPodEvictionPolicy: ptr.To(policy),
		},
	}
}
