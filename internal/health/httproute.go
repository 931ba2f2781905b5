package health

import (
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	appv1 "huolala.cn/app-operator/api/v1"
	"huolala.cn/app-operator/internal/message"
)

// HTTPRoute judges an HTTPRoute by the conditions that the controllers of its parents set for the latest generation. A parent that rejects
// the route takes precedence over a parent without a condition.
func HTTPRoute(route *gatewayv1.HTTPRoute) Standing {
	accepted := Standing{metav1.ConditionTrue, appv1.ReasonAccepted, fmt.Sprintf(messageRouteAccepted, route.Name)}
	var silent *Standing
	for i := range route.Spec.ParentRefs {
		switch verdict := judgeParent(route, &route.Spec.ParentRefs[i]); verdict.Status {
		case metav1.ConditionFalse:
			return verdict
		case metav1.ConditionUnknown:
			if silent == nil {
				silent = &verdict
			}
		}
	}
	if silent != nil {
		return *silent
	}
	return accepted
}

// judgeParent judges an HTTPRoute by the conditions that the controllers of one parent set.
func judgeParent(route *gatewayv1.HTTPRoute, ref *gatewayv1.ParentReference) Standing {
	said := 0
	for i := range route.Status.Parents {
		parent := &route.Status.Parents[i]
		if !sameParent(route.Namespace, ref, &parent.ParentRef) {
			continue
		}
		agreed := 0
		for _, kind := range []gatewayv1.RouteConditionType{gatewayv1.RouteConditionAccepted, gatewayv1.RouteConditionResolvedRefs} {
			c := meta.FindStatusCondition(parent.Conditions, string(kind))
			switch {
			case c == nil || c.ObservedGeneration < route.Generation:
			case c.Status == metav1.ConditionTrue:
				agreed++
			case c.Status == metav1.ConditionFalse:
				return Standing{metav1.ConditionFalse, appv1.ReasonNotAccepted, fmt.Sprintf(messageRouteNotAccepted,
					route.Name, nameParent(route.Namespace, ref), strings.TrimSuffix(c.Reason+": "+message.Quote(c.Message), ": "))}
			}
		}
		if agreed == 2 {
			said++
		}
	}
	if said == 0 {
		return Standing{metav1.ConditionUnknown, appv1.ReasonNoController, fmt.Sprintf(
			messageRouteNoController, route.Name, nameParent(route.Namespace, ref))}
	}
	return Standing{Status: metav1.ConditionTrue}
}

// sameParent reports whether two references of a route in a namespace mean the same parent.
func sameParent(namespace string, a, b *gatewayv1.ParentReference) bool {
	of := func(ref *gatewayv1.ParentReference) [6]string {
		return [6]string{
			string(ptr.Deref(ref.Group, gatewayv1.GroupName)), string(ptr.Deref(ref.Kind, "Gateway")),
			string(ptr.Deref(ref.Namespace, gatewayv1.Namespace(namespace))), string(ref.Name),
			string(ptr.Deref(ref.SectionName, "")), fmt.Sprint(ptr.Deref(ref.Port, 0)),
		}
	}
	return of(a) == of(b)
}

// nameParent returns "<kind> <name>", with the namespace if it differs from the route's, and with the listener and the port if the reference has them.
func nameParent(namespace string, ref *gatewayv1.ParentReference) string {
	name := string(ref.Name)
	if ns := string(ptr.Deref(ref.Namespace, "")); ns != "" && ns != namespace {
		name = ns + "/" + name
	}
	name = string(ptr.Deref(ref.Kind, "Gateway")) + " " + name
	if listener := string(ptr.Deref(ref.SectionName, "")); listener != "" {
		name += ", listener " + listener
	}
	if port := ptr.Deref(ref.Port, 0); port != 0 {
		name += fmt.Sprintf(", port %d", port)
	}
	return name
}
