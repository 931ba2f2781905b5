package resource

import (
	"cmp"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	appv1 "huolala.cn/app-operator/api/v1"
)

// HTTPRoute returns the HTTPRoute from Gateways to the workload's Service. It returns nil if the spec has no httpRoute or the
// Service lacks the port. It states the defaults of the API server: in an atomic list, omitted defaults would be permanent drift.
func HTTPRoute(w *Workload) *gatewayv1.HTTPRoute {
	spec := w.Serving.HTTPRoute
	if spec == nil {
		return nil
	}
	port, ok := w.serviceBackend(spec.Port)
	if !ok {
		return nil
	}
	route := &gatewayv1.HTTPRoute{
		TypeMeta:   metav1.TypeMeta{APIVersion: gatewayv1.GroupVersion.String(), Kind: "HTTPRoute"},
		ObjectMeta: w.annotatedMeta(spec.Annotations),
	}
	for i := range spec.ParentRefs {
		route.Spec.ParentRefs = append(route.Spec.ParentRefs, parentOf(&spec.ParentRefs[i]))
	}
	for _, host := range spec.Hostnames {
		route.Spec.Hostnames = append(route.Spec.Hostnames, gatewayv1.Hostname(host))
	}
	rule := gatewayv1.HTTPRouteRule{BackendRefs: []gatewayv1.HTTPBackendRef{{BackendRef: gatewayv1.BackendRef{
		BackendObjectReference: gatewayv1.BackendObjectReference{
			Group: ptr.To[gatewayv1.Group](""), Kind: ptr.To[gatewayv1.Kind]("Service"), Name: gatewayv1.ObjectName(w.ServiceName), Port: ptr.To(port),
		},
		Weight: ptr.To[int32](1),
	}}}}
	pathType := gatewayv1.PathMatchType(cmp.Or(spec.PathType, string(gatewayv1.PathMatchPathPrefix)))
	for _, path := range PathsOf(spec.Paths) {
		rule.Matches = append(rule.Matches, gatewayv1.HTTPRouteMatch{
			Path: &gatewayv1.HTTPPathMatch{Type: ptr.To(pathType), Value: ptr.To(string(path))},
		})
	}
	route.Spec.Rules = []gatewayv1.HTTPRouteRule{rule}
	return route
}

// parentOf returns a reference to a Gateway or ListenerSet.
func parentOf(ref *appv1.ParentRef) gatewayv1.ParentReference {
	parent := gatewayv1.ParentReference{
		Group: ptr.To[gatewayv1.Group](gatewayv1.GroupName),
		Kind:  ptr.To(gatewayv1.Kind(cmp.Or(ref.Kind, "Gateway"))),
		Name:  gatewayv1.ObjectName(ref.Name),
		Port:  ref.Port,
	}
	if ref.Namespace != "" {
		parent.Namespace = ptr.To(gatewayv1.Namespace(ref.Namespace))
	}
	if ref.SectionName != "" {
		parent.SectionName = ptr.To(gatewayv1.SectionName(ref.SectionName))
	}
	return parent
}
