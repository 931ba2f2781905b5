package view

import (
	"encoding/json"
	"maps"
	"strings"

	autoscalingv1 "k8s.io/api/autoscaling/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/ptr"

	appv1 "huolala.cn/app-operator/api/v1"
	"huolala.cn/app-operator/api/v1/bounds"
)

// The annotations of an autoscaler of the version v1 in which the API server keeps what this version has no field for.
const (
	annotationMetrics  = "autoscaling.alpha.kubernetes.io/metrics"
	annotationBehavior = "autoscaling.alpha.kubernetes.io/behavior"
)

// importAutoscaler states the autoscaler of the Deployment, which decides the number of pods then. An autoscaler leaves 0 pods as they are: an application
// that is stopped stays so under its own autoscaler. Under an autoscaler of another name, spec.replicas would have no effect, so the App does not state it.
func (i *importing) importAutoscaler() {
	stopped, other := ptr.Deref(i.from.Deployment.Spec.Replicas, 1) == 0, false
	for n := range i.from.Autoscalers {
		scaler := &i.from.Autoscalers[n]
		target, name := scaler.Spec.ScaleTargetRef, "HorizontalPodAutoscaler "+scaler.Name
		if target.Kind != "Deployment" || target.Name != i.App.Name {
			continue
		}
		if at, wrong := i.otherOwner(scaler); wrong != "" {
			goesOn := "goes on scaling the Deployment"
			if other = true; stopped {
				goesOn = "leaves the Deployment at 0"
			}
			i.addNote(name, at, "%s, so it is not taken over; it %s. To have its figures in the App, state them in "+
				"spec.autoscaling and delete it", wrong, goesOn)
			continue
		}
		i.App.Spec.Autoscaling = &appv1.AutoscalingSpec{
			MinReplicas: scaler.Spec.MinReplicas, MaxReplicas: scaler.Spec.MaxReplicas, Metrics: scaler.Spec.Metrics, Behavior: scaler.Spec.Behavior,
		}
		i.noteMetadata(name, scaler, false)
		i.noteUndecoded(name, scaler)
		if stopped {
			i.addNote("Deployment", "spec.replicas", "is 0, so the application is stopped in spite of %s, and stays so", name)
		}
	}
	own := i.App.Spec.Autoscaling != nil
	if own && !stopped || other && !own {
		i.App.Spec.Replicas = nil
	}
	if stopped && other && !own {
		i.addNote("Deployment", "spec.replicas", "is 0, so the application is stopped; the App does not state it, as the autoscaler decides, and a Deployment "+
			"that the App creates has one pod")
	}
}

// noteUndecoded notes the annotations of an autoscaler that addFormerAutoscaler has left there.
func (i *importing) noteUndecoded(name string, scaler *autoscalingv2.HorizontalPodAutoscaler) {
	if scaler.APIVersion != autoscalingv1.SchemeGroupVersion.String() { // Of a later version, they have no effect.
		return
	}
	for _, key := range []string{annotationMetrics, annotationBehavior} {
		if _, left := scaler.Annotations[key]; left {
			i.addNote(name, "metadata.annotations["+key+"]", "cannot be decoded, so it was not looked at")
		}
	}
}

// addFormerAutoscaler adds an autoscaler of the version v1 as the API server reads it. An annotation that cannot be decoded stays, so that a note names it.
func (n *Namespace) addFormerAutoscaler(obj *unstructured.Unstructured) error {
	var former autoscalingv1.HorizontalPodAutoscaler
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(obj.Object, &former); err != nil {
		return err
	}
	scaler := autoscalingv2.HorizontalPodAutoscaler{TypeMeta: former.TypeMeta, ObjectMeta: former.ObjectMeta}
	scaler.Spec = autoscalingv2.HorizontalPodAutoscalerSpec{
		ScaleTargetRef: autoscalingv2.CrossVersionObjectReference(former.Spec.ScaleTargetRef), MinReplicas: former.Spec.MinReplicas, MaxReplicas: former.Spec.MaxReplicas,
	}
	if text, stated := scaler.Annotations[annotationMetrics]; stated {
		var metrics []autoscalingv1.MetricSpec
		if bounds.Decode([]byte(text), &metrics, bounds.MaxPatch, annotationMetrics) == nil {
			for i := range metrics {
				scaler.Spec.Metrics = append(scaler.Spec.Metrics, metricOf(&metrics[i]))
			}
			delete(scaler.Annotations, annotationMetrics)
		}
	}
	if percentage := former.Spec.TargetCPUUtilizationPercentage; percentage != nil {
		cpu := autoscalingv1.ResourceMetricSource{Name: corev1.ResourceCPU, TargetAverageUtilization: percentage}
		scaler.Spec.Metrics = append(scaler.Spec.Metrics, metricOf(&autoscalingv1.MetricSpec{Type: autoscalingv1.ResourceMetricSourceType, Resource: &cpu}))
	}
	if text, stated := scaler.Annotations[annotationBehavior]; stated {
		if behavior, ok := decodeBehavior(text); ok {
			scaler.Spec.Behavior = behavior
			delete(scaler.Annotations, annotationBehavior)
		}
	}
	n.Autoscalers = append(n.Autoscalers, scaler)
	return nil
}

// decodeBehavior decodes the annotation of a behavior, in which the API server writes the names of fields with a capital. The behavior is nil if it is empty.
func decodeBehavior(text string) (behavior *autoscalingv2.HorizontalPodAutoscalerBehavior, ok bool) {
	var tree map[string]any
	if len(text) > bounds.MaxPatch || json.Unmarshal([]byte(text), &tree) != nil {
		return nil, false
	}
	data, err := json.Marshal(uncapitalize(tree))
	if err != nil {
		return nil, false
	}
	behavior = &autoscalingv2.HorizontalPodAutoscalerBehavior{}
	if bounds.Decode(data, behavior, bounds.MaxPatch, annotationBehavior) != nil {
		return nil, false
	}
	if *behavior == (autoscalingv2.HorizontalPodAutoscalerBehavior{}) {
		maps.DeleteFunc(tree, func(_ string, value any) bool { return value == nil })
		return nil, len(tree) == 0
	}
	return behavior, true
}

// uncapitalize returns a tree whose objects have names without a capital in front.
func uncapitalize(tree any) any {
	switch tree := tree.(type) {
	case map[string]any:
		made := make(map[string]any, len(tree))
		for key, value := range tree {
			if key == "" {
				continue
			}
			small := strings.ToLower(key[:1]) + key[1:]
			if _, twice := tree[small]; !twice || key == small {
				made[small] = uncapitalize(value)
			}
		}
		return made
	case []any:
		made := make([]any, 0, len(tree))
		for _, item := range tree {
			made = append(made, uncapitalize(item))
		}
		return made
	}
	return tree
}

// metricOf returns a metric of the version v1 as the version v2 has it.
func metricOf(former *autoscalingv1.MetricSpec) autoscalingv2.MetricSpec {
	metric := autoscalingv2.MetricSpec{Type: autoscalingv2.MetricSourceType(former.Type)}
	if m := former.Resource; m != nil {
		metric.Resource = &autoscalingv2.ResourceMetricSource{Name: m.Name, Target: resourceTarget(m.TargetAverageUtilization, m.TargetAverageValue)}
	}
	if m := former.ContainerResource; m != nil {
		metric.ContainerResource = &autoscalingv2.ContainerResourceMetricSource{
			Name: m.Name, Container: m.Container, Target: resourceTarget(m.TargetAverageUtilization, m.TargetAverageValue),
		}
	}
	if m := former.Pods; m != nil {
		metric.Pods = &autoscalingv2.PodsMetricSource{
			Metric: autoscalingv2.MetricIdentifier{Name: m.MetricName, Selector: m.Selector}, Target: valueTarget(nil, &m.TargetAverageValue),
		}
	}
	if m := former.Object; m != nil {
		value := &m.TargetValue
		if m.AverageValue != nil && value.IsZero() { // The field cannot be left out there.
			value = nil
		}
		metric.Object = &autoscalingv2.ObjectMetricSource{
			DescribedObject: autoscalingv2.CrossVersionObjectReference(m.Target), Metric: autoscalingv2.MetricIdentifier{Name: m.MetricName, Selector: m.Selector},
			Target: valueTarget(value, m.AverageValue),
		}
		if m.AverageValue != nil {
			metric.Object.Target.Type = autoscalingv2.AverageValueMetricType
		}
	}
	if m := former.External; m != nil {
		metric.External = &autoscalingv2.ExternalMetricSource{
			Metric: autoscalingv2.MetricIdentifier{Name: m.MetricName, Selector: m.MetricSelector}, Target: valueTarget(m.TargetValue, m.TargetAverageValue),
		}
	}
	return metric
}

func resourceTarget(utilization *int32, average *resource.Quantity) autoscalingv2.MetricTarget {
	target := autoscalingv2.MetricTarget{Type: autoscalingv2.AverageValueMetricType, AverageValue: average, AverageUtilization: utilization}
	if utilization != nil {
		target.Type = autoscalingv2.UtilizationMetricType
	}
	return target
}

func valueTarget(value, average *resource.Quantity) autoscalingv2.MetricTarget {
	target := autoscalingv2.MetricTarget{Type: autoscalingv2.AverageValueMetricType, Value: value, AverageValue: average}
	if value != nil {
		target.Type = autoscalingv2.ValueMetricType
	}
	return target
}
