package claim

import (
	"reflect"
	"slices"
	"strings"

	monitoringv1 "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	appv1 "huolala.cn/app-operator/api/v1"
)

// concerns has, for a type whose objects restrict, scale or scrape pods, or lead to Services, what an object is about: an object that is about
// others than the wanted one is not adopted, as they would lose it. Whom a Service serves, the cache does not have of a foreign one; see Serves.
var concerns = map[reflect.Type]func(Object) any{
	reflect.TypeFor[*corev1.Service]():                        servesCluster,
	reflect.TypeFor[*autoscalingv2.HorizontalPodAutoscaler](): scaledByAutoscaler,
	reflect.TypeFor[*corev1.ServiceAccount]():                 ranAsByDefault,
	reflect.TypeFor[*networkingv1.NetworkPolicy]():            restrictedByPolicy,
	reflect.TypeFor[*policyv1.PodDisruptionBudget]():          coveredByBudget,
	reflect.TypeFor[*networkingv1.Ingress]():                  leadsByIngress,
	reflect.TypeFor[*gatewayv1.HTTPRoute]():                   leadsByRoute,
	reflect.TypeFor[*monitoringv1.PodMonitor]():               scrapedByMonitor,
}

// ConcernsOthers reports whether a live object is about something else than the wanted one of its type.
func ConcernsOthers(wanted, live Object) bool {
	about := concerns[reflect.TypeOf(wanted)]
	return about != nil && about(wanted) != about(live)
}

// IsManaged reports whether an object has the label of objects that the operator applies.
func IsManaged(obj Object) bool { return obj.GetLabels()[appv1.LabelManagedBy] == appv1.ManagedBy }

func scaledByAutoscaler(obj Object) any {
	if scaler, ok := obj.(*autoscalingv2.HorizontalPodAutoscaler); ok {
		return scaler.Spec.ScaleTargetRef.Kind + "/" + scaler.Spec.ScaleTargetRef.Name
	}
	return nil
}

func restrictedByPolicy(obj Object) any {
	if policy, ok := obj.(*networkingv1.NetworkPolicy); ok {
		return metav1.FormatLabelSelector(&policy.Spec.PodSelector)
	}
	return nil
}

func coveredByBudget(obj Object) any {
	if budget, ok := obj.(*policyv1.PodDisruptionBudget); ok {
		return metav1.FormatLabelSelector(budget.Spec.Selector)
	}
	return nil
}

func scrapedByMonitor(obj Object) any {
	if monitor, ok := obj.(*monitoringv1.PodMonitor); ok {
		return metav1.FormatLabelSelector(&monitor.Spec.Selector)
	}
	return nil
}

// leadsByIngress returns the backends that an Ingress leads to.
func leadsByIngress(obj Object) any {
	ingress, ok := obj.(*networkingv1.Ingress)
	if !ok {
		return nil
	}
	var all []string
	note := func(backend *networkingv1.IngressBackend) {
		switch {
		case backend == nil:
		case backend.Service != nil:
			all = append(all, "Service/"+backend.Service.Name)
		case backend.Resource != nil:
			all = append(all, backend.Resource.Kind+"/"+backend.Resource.Name)
		}
	}
	note(ingress.Spec.DefaultBackend)
	for _, rule := range ingress.Spec.Rules {
		if rule.HTTP == nil {
			continue
		}
		for i := range rule.HTTP.Paths {
			note(&rule.HTTP.Paths[i].Backend)
		}
	}
	slices.Sort(all)
	return strings.Join(slices.Compact(all), ",")
}

// leadsByRoute returns the backends that an HTTPRoute leads to.
func leadsByRoute(obj Object) any {
	route, ok := obj.(*gatewayv1.HTTPRoute)
	if !ok {
		return nil
	}
	var all []string
	for _, rule := range route.Spec.Rules {
		for _, backend := range rule.BackendRefs {
			kind := string(ptr.Deref(backend.Kind, "Service"))
			namespace := string(ptr.Deref(backend.Namespace, gatewayv1.Namespace(route.Namespace)))
			all = append(all, kind+"/"+namespace+"/"+string(backend.Name))
		}
	}
	slices.Sort(all)
	return strings.Join(slices.Compact(all), ",")
}

// servesCluster reports whether a Service is the API server's own, through which all pods reach the API server.
func servesCluster(obj Object) any {
	return obj.GetNamespace() == metav1.NamespaceDefault && obj.GetName() == "kubernetes" && !IsManaged(obj)
}

// ranAsByDefault tells the account of a namespace's pods that name none from one of the operator's.
func ranAsByDefault(obj Object) any { return obj.GetName() == "default" && !IsManaged(obj) }
