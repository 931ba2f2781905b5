package resource

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
)

// ServiceAccount returns the account of the workload's pods, nil if the spec has no serviceAccount.
func ServiceAccount(w *Workload) *corev1.ServiceAccount {
	spec := w.Serving.ServiceAccount
	if spec == nil {
		return nil
	}
	return &corev1.ServiceAccount{
		TypeMeta:                     metav1.TypeMeta{APIVersion: corev1.SchemeGroupVersion.String(), Kind: "ServiceAccount"},
		ObjectMeta:                   w.annotatedMeta(spec.Annotations),
		AutomountServiceAccountToken: ptr.To(spec.AutomountToken),
	}
}
