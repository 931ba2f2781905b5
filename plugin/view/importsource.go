package view

import (
	monitoringv1 "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"
	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"
)

// Source is what an App is made from: a Deployment, and the objects of its namespace that may be about its pods.
type Source struct {
	Deployment  *appsv1.Deployment
	Services    []corev1.Service
	Autoscalers []autoscalingv2.HorizontalPodAutoscaler
	Budgets     []policyv1.PodDisruptionBudget
	Ingresses   []networkingv1.Ingress
	Policies    []networkingv1.NetworkPolicy
	Routes      []gatewayv1.HTTPRoute
	Monitors    []monitoringv1.PodMonitor
	// Others are the pods of the other workloads of the namespace.
	Others []PodsOf
}

// PodsOf are the labels of the pods of a workload.
type PodsOf struct {
	Kind, Name string
	Labels     map[string]string
}

// Namespace holds the objects of a namespace that an import looks at.
type Namespace struct {
	Deployments  []appsv1.Deployment
	StatefulSets []appsv1.StatefulSet
	Services     []corev1.Service
	Autoscalers  []autoscalingv2.HorizontalPodAutoscaler
	Budgets      []policyv1.PodDisruptionBudget
	Ingresses    []networkingv1.Ingress
	Policies     []networkingv1.NetworkPolicy
	Routes       []gatewayv1.HTTPRoute
	Monitors     []monitoringv1.PodMonitor
}

// ImportedCustom returns the types of custom resources that an import looks at. A cluster may lack them.
func ImportedCustom() []*AroundType {
	var custom []*AroundType
	for i := range AroundTypes {
		if around := &AroundTypes[i]; around.Kind == kindRoute || around.Kind == kindMonitor {
			custom = append(custom, around)
		}
	}
	return custom
}

// SourceOf returns what the App of a Deployment of the namespace is made from.
func (n *Namespace) SourceOf(d *appsv1.Deployment) *Source {
	from := &Source{
		Deployment: d, Services: n.Services, Autoscalers: n.Autoscalers, Budgets: n.Budgets, Ingresses: n.Ingresses, Policies: n.Policies,
		Routes: n.Routes, Monitors: n.Monitors,
	}
	for i := range n.Deployments {
		if other := &n.Deployments[i]; other.Name != d.Name {
			from.Others = append(from.Others, PodsOf{Kind: "Deployment", Name: other.Name, Labels: other.Spec.Template.Labels})
		}
	}
	for i := range n.StatefulSets {
		other := &n.StatefulSets[i]
		from.Others = append(from.Others, PodsOf{Kind: "StatefulSet", Name: other.Name, Labels: other.Spec.Template.Labels})
	}
	return from
}

// AddObject adds an object of a file, unless an import does not look at objects of its kind.
func (n *Namespace) AddObject(obj *unstructured.Unstructured) error {
	switch kind := obj.GroupVersionKind().GroupKind().String(); kind {
	case "Deployment.apps":
		return addTo(&n.Deployments, obj)
	case "StatefulSet.apps":
		return addTo(&n.StatefulSets, obj)
	case "Service":
		return addTo(&n.Services, obj)
	case "HorizontalPodAutoscaler.autoscaling":
		stateMetric(obj)
		return addTo(&n.Autoscalers, obj)
	case "PodDisruptionBudget.policy":
		return addTo(&n.Budgets, obj)
	case "Ingress.networking.k8s.io":
		return addTo(&n.Ingresses, obj)
	case "NetworkPolicy.networking.k8s.io":
		return addTo(&n.Policies, obj)
	case "HTTPRoute.gateway.networking.k8s.io":
		return addTo(&n.Routes, obj)
	case "PodMonitor.monitoring.coreos.com":
		return addTo(&n.Monitors, obj)
	}
	return nil
}

// stateMetric states the metric of an autoscaler of the version v1 as later versions do.
func stateMetric(obj *unstructured.Unstructured) {
	const former = "targetCPUUtilizationPercentage"
	spec, _ := obj.Object["spec"].(map[string]any)
	percentage, stated := spec[former]
	if !stated {
		return
	}
	delete(spec, former)
	target := map[string]any{"type": "Utilization", "averageUtilization": percentage}
	spec["metrics"] = []any{map[string]any{"type": "Resource", "resource": map[string]any{"name": "cpu", "target": target}}}
}

// addTo decodes an object into a list.
func addTo[T any](list *[]T, obj *unstructured.Unstructured) error {
	var typed T
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(obj.Object, &typed); err != nil {
		return err
	}
	*list = append(*list, typed)
	return nil
}
