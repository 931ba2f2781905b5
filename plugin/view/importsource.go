package view

import (
	"slices"

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
	DaemonSets   []appsv1.DaemonSet
	Services     []corev1.Service
	Autoscalers  []autoscalingv2.HorizontalPodAutoscaler
	Budgets      []policyv1.PodDisruptionBudget
	Ingresses    []networkingv1.Ingress
	Policies     []networkingv1.NetworkPolicy
	Routes       []gatewayv1.HTTPRoute
	Monitors     []monitoringv1.PodMonitor
	// Missing are the objects of files that an import cannot look at, by their versions.
	Missing []Missing
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
	for i := range n.DaemonSets {
		other := &n.DaemonSets[i]
		from.Others = append(from.Others, PodsOf{Kind: "DaemonSet", Name: other.Name, Labels: other.Spec.Template.Labels})
	}
	return from
}

// knownVersions are the versions that an import reads of a type with versions of other forms. A type that was once in another group has none there.
var knownVersions = map[string][]string{
	"HorizontalPodAutoscaler.autoscaling": {"v1", "v2", "v2beta2"}, "Ingress.networking.k8s.io": {"v1"},
	"Deployment.extensions": nil, "DaemonSet.extensions": nil, "Ingress.extensions": nil, "NetworkPolicy.extensions": nil,
}

// AddObject adds an object of a file, unless an import does not look at objects of its kind. An object of a version that an import does not know is
// missing.
func (n *Namespace) AddObject(obj *unstructured.Unstructured) error {
	kind := obj.GroupVersionKind()
	if versions, some := knownVersions[kind.GroupKind().String()]; some && !slices.Contains(versions, kind.Version) {
		n.Missing = append(n.Missing, Missing{Kinds: kind.Kind + " " + obj.GetName(), Why: "of the version " + obj.GetAPIVersion() + ", which import does not know"})
		return nil
	}
	switch kind.GroupKind().String() {
	case "Deployment.apps":
		return addTo(&n.Deployments, obj)
	case "StatefulSet.apps":
		return addTo(&n.StatefulSets, obj)
	case "DaemonSet.apps":
		return addTo(&n.DaemonSets, obj)
	case "Service":
		return addTo(&n.Services, obj)
	case "HorizontalPodAutoscaler.autoscaling":
		if obj.GroupVersionKind().Version == "v1" {
			return n.addFormerAutoscaler(obj)
		}
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

// addTo decodes an object into a list.
func addTo[T any](list *[]T, obj *unstructured.Unstructured) error {
	var typed T
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(obj.Object, &typed); err != nil {
		return err
	}
	*list = append(*list, typed)
	return nil
}
