package resource

import (
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// buildDeployment returns the Deployment that runs the workload's pods.
func buildDeployment(w *Workload) *appsv1.Deployment {
	meta := w.objectMeta()
	meta.Labels, meta.Annotations = w.overriddenLabels(w.OwnLabels), mergedMaps(w.Annotations, w.OwnAnnotations, w.Record)
	template := w.Template
	if w.TemplateKept { // A template without containers is not applied.
		template = corev1.PodTemplateSpec{}
	}
	return &appsv1.Deployment{
		TypeMeta:   metav1.TypeMeta{APIVersion: appsv1.SchemeGroupVersion.String(), Kind: "Deployment"},
		ObjectMeta: meta,
		Spec: appsv1.DeploymentSpec{
			Replicas:                w.Replicas,
			Selector:                &metav1.LabelSelector{MatchLabels: w.Selector},
			Template:                template,
			Strategy:                w.Strategy,
			MinReadySeconds:         w.MinReadySeconds,
			RevisionHistoryLimit:    w.RevisionHistoryLimit,
			ProgressDeadlineSeconds: w.ProgressDeadlineSeconds,
		},
	}
}
