package resource

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// SecretName returns the name of a workload's Secret.
func SecretName(workload string) string { return workload + "auth" }

// Secret returns the Secret with the credentials of the workload's data. It is retained as long as the data.
func Secret(w *Workload, values map[string]string) *corev1.Secret {
	meta := w.objectMeta()
	meta.Name = SecretName(w.Name)
	if w.Retain {
		meta = w.retainedMeta(meta)
	}
	data := make(map[string][]byte, len(values))
	for key, value := range values {
		data[key] = []byte(value)
	}
	return &corev1.Secret{
		TypeMeta:   metav1.TypeMeta{APIVersion: corev1.SchemeGroupVersion.String(), Kind: "Secret"},
		ObjectMeta: meta,
		Data:       data,
	}
}
