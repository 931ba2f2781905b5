package view

import (
	"cmp"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	appv1 "huolala.cn/app-operator/api/v1"
	"huolala.cn/app-operator/internal/health"
)

// AroundType is a type of auxiliary objects, which a resource has for its pods if its spec has the field of the type.
type AroundType struct {
	// Kind is the kind, Kinds its plural as a person reads it.
	Kind, Kinds string
	Resource    schema.GroupVersionResource
	// First is true for a type that is applied before the first pod.
	First bool
	// Asked reports whether a spec has the field of the type. Always is true for a type that is read in any case.
	Asked  func(*appv1.ServingSpec) bool
	Always bool
	// describe adds the state of an object to its node; nil for a type without a state.
	describe func(n *Node, obj *unstructured.Unstructured)
}

// AroundTypes are these types, in the order of a tree, but for HorizontalPodAutoscalers, which have fields of their own in a Snapshot. Reading, showing, ejecting
// and checking rights use this list.
var AroundTypes = []AroundType{
	{
		Kind: "PodDisruptionBudget", Kinds: "PodDisruptionBudgets", Resource: policyv1.SchemeGroupVersion.WithResource("poddisruptionbudgets"),
		Asked: func(s *appv1.ServingSpec) bool { return s.DisruptionBudget != nil }, Always: true, describe: describeBudget,
	},
	{
		Kind: "Ingress", Kinds: "Ingresses", Resource: networkingv1.SchemeGroupVersion.WithResource("ingresses"),
		Asked: func(s *appv1.ServingSpec) bool { return s.Ingress != nil }, Always: true, describe: describeIngress,
	},
	{
		Kind: kindRoute, Kinds: "HTTPRoutes", Resource: gatewayGroup.WithResource("httproutes"),
		Asked: func(s *appv1.ServingSpec) bool { return s.HTTPRoute != nil }, describe: describeRoute,
	},
	{
		Kind: kindMonitor, Kinds: "PodMonitors", Resource: schema.GroupVersionResource{Group: "monitoring.coreos.com", Version: "v1", Resource: "podmonitors"},
		Asked: func(s *appv1.ServingSpec) bool { return s.PodMonitor != nil },
	},
	{
		Kind: "NetworkPolicy", Kinds: "NetworkPolicies", Resource: networkingv1.SchemeGroupVersion.WithResource("networkpolicies"),
		Asked: func(s *appv1.ServingSpec) bool { return s.NetworkPolicy != nil }, First: true,
	},
	{
		Kind: "ServiceAccount", Kinds: "ServiceAccounts", Resource: corev1.SchemeGroupVersion.WithResource("serviceaccounts"),
		Asked: func(s *appv1.ServingSpec) bool { return s.ServiceAccount != nil }, First: true,
	},
}

// The kinds of custom resources among them.
const (
	kindRoute   = "HTTPRoute"
	kindMonitor = "PodMonitor"
)

var gatewayGroup = schema.GroupVersion(gatewayv1.GroupVersion)

// aroundNodes returns the nodes of the auxiliary objects that the resource controls.
func (s *Snapshot) aroundNodes() []Node {
	var nodes []Node
	for i := range AroundTypes {
		t := &AroundTypes[i]
		for _, obj := range s.OwnedObjects(t) {
			n := Node{Kind: t.Kind, Name: obj.GetName(), Created: createdAt(metav1.ObjectMeta{CreationTimestamp: obj.GetCreationTimestamp()})}
			if t.describe != nil {
				t.describe(&n, obj)
			}
			nodes = append(nodes, n)
		}
	}
	return nodes
}

// OwnedObjects returns the objects of a type around the pods that belong to the resource.
func (s *Snapshot) OwnedObjects(t *AroundType) []*unstructured.Unstructured {
	var found []*unstructured.Unstructured
	for i := range s.Around {
		if obj := &s.Around[i]; obj.GetKind() == t.Kind && controlsObject(s.Resource.ObjectMeta.UID, obj) {
			found = append(found, obj)
		}
	}
	return found
}

func describeBudget(n *Node, obj *unstructured.Unstructured) {
	var budget policyv1.PodDisruptionBudget
	if runtime.DefaultUnstructuredConverter.FromUnstructured(obj.Object, &budget) == nil {
		n.State = fmt.Sprintf("%d may go", budget.Status.DisruptionsAllowed)
	}
}

func describeIngress(n *Node, obj *unstructured.Unstructured) {
	var ingress networkingv1.Ingress
	if runtime.DefaultUnstructuredConverter.FromUnstructured(obj.Object, &ingress) != nil {
		return
	}
	n.State = health.Ingress(&ingress).Reason
	var hosts []string
	for i := range ingress.Spec.Rules {
		hosts = append(hosts, cmp.Or(ingress.Spec.Rules[i].Host, "*"))
	}
	n.Detail = strings.Join(hosts, ", ")
}

// describeRoute adds the hostnames of an HTTPRoute and the conditions of its gateways.
func describeRoute(n *Node, obj *unstructured.Unstructured) {
	var route gatewayv1.HTTPRoute
	if runtime.DefaultUnstructuredConverter.FromUnstructured(obj.Object, &route) != nil {
		return
	}
	standing := health.HTTPRoute(&route)
	n.State = standing.Reason
	if standing.Status == metav1.ConditionFalse {
		n.Mark, n.Notes = MarkBad, []string{standing.Message}
	}
	var hosts []string
	for _, name := range route.Spec.Hostnames {
		hosts = append(hosts, string(name))
	}
	n.Detail = strings.Join(hosts, ", ")
}

// serviceNode returns the node of a Service, with where it answers.
func serviceNode(service *corev1.Service) Node {
	var ports []string
	for i := range service.Spec.Ports {
		p := &service.Spec.Ports[i]
		port := fmt.Sprint(p.Port)
		if target := p.TargetPort.String(); target != "0" && target != port {
			port += " → " + target
		}
		ports = append(ports, port)
	}
	address := service.Spec.ClusterIP
	if address == corev1.ClusterIPNone {
		address = "headless"
	}
	detail := strings.Trim(address+":"+strings.Join(ports, ", "), ":")
	for _, point := range service.Status.LoadBalancer.Ingress {
		detail += ", " + cmp.Or(point.Hostname, point.IP)
	}
	return Node{
		Kind: "Service", Name: service.Name, State: string(cmp.Or(service.Spec.Type, corev1.ServiceTypeClusterIP)), Detail: detail,
		Created: createdAt(service.ObjectMeta),
	}
}
