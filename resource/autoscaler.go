package resource

import (
	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	appv1 "huolala.cn/app-operator/api/v1"
)

// defaultTargetCPU is the default target of an autoscaler, in percent of the cpu request.
const defaultTargetCPU int32 = 80

// HorizontalPodAutoscaler returns the autoscaler of the workload's Deployment, nil if the spec has no autoscaling or another
// autoscaler targets the Deployment.
func HorizontalPodAutoscaler(w *Workload) *autoscalingv2.HorizontalPodAutoscaler {
	if w.Serving.Autoscaling == nil || w.otherAutoscaler {
		return nil
	}
	spec := w.Serving.Autoscaling.DeepCopy()
	return &autoscalingv2.HorizontalPodAutoscaler{
		TypeMeta:   metav1.TypeMeta{APIVersion: autoscalingv2.SchemeGroupVersion.String(), Kind: "HorizontalPodAutoscaler"},
		ObjectMeta: w.objectMeta(),
		Spec: autoscalingv2.HorizontalPodAutoscalerSpec{
			ScaleTargetRef: autoscalingv2.CrossVersionObjectReference{
				APIVersion: appsv1.SchemeGroupVersion.String(), Kind: "Deployment", Name: w.Name,
			},
			MinReplicas: ptr.To(ptr.Deref(spec.MinReplicas, 1)),
			MaxReplicas: spec.MaxReplicas,
			Metrics:     w.metricSpecs(spec),
			Behavior:    spec.Behavior,
		},
	}
}

// metricSpecs returns the metrics of the autoscaler. The default targets are about the main container alone: a target for the whole
// pod fails if any container, such as an injected sidecar, has no requests.
func (w *Workload) metricSpecs(spec *appv1.AutoscalingSpec) []autoscalingv2.MetricSpec {
	if len(spec.Metrics) > 0 {
		return spec.Metrics
	}
	cpu, memory := spec.TargetCPUUtilizationPercentage, spec.TargetMemoryUtilizationPercentage
	if cpu == nil && memory == nil {
		cpu = ptr.To(defaultTargetCPU)
	}
	var metrics []autoscalingv2.MetricSpec
	for _, target := range []struct {
		name       corev1.ResourceName
		percentage *int32
	}{{corev1.ResourceCPU, cpu}, {corev1.ResourceMemory, memory}} {
		if target.percentage == nil {
			continue
		}
		metrics = append(metrics, autoscalingv2.MetricSpec{
			Type: autoscalingv2.ContainerResourceMetricSourceType,
			ContainerResource: &autoscalingv2.ContainerResourceMetricSource{
				Name: target.name, Container: w.scaledContainer(),
				Target: autoscalingv2.MetricTarget{Type: autoscalingv2.UtilizationMetricType, AverageUtilization: target.percentage},
			},
		})
	}
	return metrics
}
