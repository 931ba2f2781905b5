package resource

import (
	"math"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	appv1 "huolala.cn/app-operator/api/v1"
)

// Canary is the second Deployment of a workload: pods of another spec behind the Service of the workload.
type Canary struct {
	// Workload is the workload of the other spec. Only its pods, its records and the settings of its Deployment count.
	Workload *Workload
	// Pods is the number of pods.
	Pods int32
	// MinReadySeconds is the time for which a pod must be ready before it counts as available, in seconds. The one of the workload counts
	// if it is longer.
	MinReadySeconds int32
}

// CanaryName returns the name of the Deployment of a workload's canary.
func CanaryName(workload string) string { return workload + appv1.CanarySuffix }

// CanaryPods returns how many pods a canary starts with, next to a number of pods of before.
func CanaryPods(spec *appv1.CanarySpec, before int32) int32 {
	pods, err := intstr.GetScaledValueFromIntOrPercent(ptr.To(ptr.Deref(spec.Pods, intstr.FromInt32(1))), int(before), true)
	if err != nil { // The rules exclude it.
		pods = 1
	}
	return int32(min(max(pods, 1), math.MaxInt32)) //nolint:gosec // It is within the bounds.
}

const (
	// defaultDeadline is Kubernetes' default for the progress deadline of a Deployment, in seconds.
	defaultDeadline = 600
	// deadlineMargin is how much longer than MinReadySeconds a canary has at least to become available, in seconds.
	deadlineMargin = 60
)

// Template returns the pod template of the canary of a workload.
func (c *Canary) Template() corev1.PodTemplateSpec {
	template := c.Workload.Template
	template.Labels = mergedMaps(template.Labels, map[string]string{appv1.LabelCanary: c.Workload.Name})
	return template
}

// buildCanary returns the Deployment of the canary of a workload, nil for a workload without one.
func buildCanary(w *Workload) *appsv1.Deployment {
	if w.Canary == nil {
		return nil
	}
	label := map[string]string{appv1.LabelCanary: w.Name}
	d := buildDeployment(w.Canary.Workload)
	d.Name = CanaryName(w.Name)
	d.Labels = mergedMaps(d.Labels, label)
	d.Spec.Selector = &metav1.LabelSelector{MatchLabels: mergedMaps(w.Selector, label)}
	d.Spec.Template = w.Canary.Template()
	d.Spec.Replicas = ptr.To(w.Canary.Pods)
	if after := w.Canary.MinReadySeconds; after > d.Spec.MinReadySeconds {
		d.Spec.MinReadySeconds = after
		if least := after + deadlineMargin; ptr.Deref(d.Spec.ProgressDeadlineSeconds, defaultDeadline) < least {
			d.Spec.ProgressDeadlineSeconds = &least
		}
	}
	return d
}
