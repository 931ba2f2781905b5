package resource

import (
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
)

// NetworkPolicy returns the policy of the workload's pods, nil if the spec has no networkPolicy. It restricts only the directions
// in the spec.
func NetworkPolicy(w *Workload) *networkingv1.NetworkPolicy {
	if w.Serving.NetworkPolicy == nil {
		return nil
	}
	spec := w.Serving.NetworkPolicy.DeepCopy()
	policy := &networkingv1.NetworkPolicy{
		TypeMeta:   metav1.TypeMeta{APIVersion: networkingv1.SchemeGroupVersion.String(), Kind: "NetworkPolicy"},
		ObjectMeta: w.objectMeta(),
		Spec: networkingv1.NetworkPolicySpec{
			PodSelector: metav1.LabelSelector{MatchLabels: w.Selector},
			Ingress:     spec.Ingress,
			Egress:      spec.Egress,
		},
	}
	if spec.Ingress != nil {
		policy.Spec.PolicyTypes = append(policy.Spec.PolicyTypes, networkingv1.PolicyTypeIngress)
	}
	if spec.Egress != nil {
		policy.Spec.PolicyTypes = append(policy.Spec.PolicyTypes, networkingv1.PolicyTypeEgress)
	}
	for i := range policy.Spec.Ingress {
		stateProtocols(policy.Spec.Ingress[i].Ports)
	}
	for i := range policy.Spec.Egress {
		stateProtocols(policy.Spec.Egress[i].Ports)
	}
	return policy
}

// stateProtocols states the default of the API server: in an atomic list, an omitted default would be permanent drift.
func stateProtocols(ports []networkingv1.NetworkPolicyPort) {
	for i := range ports {
		if ports[i].Protocol == nil {
			ports[i].Protocol = ptr.To(corev1.ProtocolTCP)
		}
	}
}
