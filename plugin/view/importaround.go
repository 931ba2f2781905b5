package view

import (
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	appv1 "huolala.cn/app-operator/api/v1"
)

// otherOwner returns the field, name or owner, by which an object cannot belong to the App, and the problem with the field. Both are empty
// if the object can belong to the App.
func (i *importing) otherOwner(obj metav1.Object) (field, wrong string) {
	switch {
	case obj.GetName() != i.App.Name:
		return "metadata.name", "is not " + i.App.Name
	case metav1.GetControllerOf(obj) != nil:
		return "metadata.ownerReferences", "name another owner"
	}
	return "", ""
}

// importBudget states the disruption budget of the pods.
func (i *importing) importBudget() {
	for n := range i.from.Budgets {
		budget := &i.from.Budgets[n]
		name := "PodDisruptionBudget " + budget.Name
		if selector, err := metav1.LabelSelectorAsSelector(budget.Spec.Selector); err != nil || selector.Empty() ||
			!selector.Matches(labels.Set(i.from.Deployment.Spec.Template.Labels)) {
			continue
		}
		at, wrong := i.otherOwner(budget)
		if s := budget.Spec.Selector; wrong == "" && (len(s.MatchExpressions) > 0 || !maps.Equal(s.MatchLabels, i.selector)) {
			at, wrong = "spec.selector", "is not that of the Deployment"
		}
		if wrong == "" {
			at, wrong = evictsNothing(&budget.Spec)
		}
		if wrong != "" {
			i.addNote(name, at, "%s, so it is not taken over; it stays as it is. State no spec.disruptionBudget besides it: pods with two budgets "+
				"cannot be evicted", wrong)
			continue
		}
		i.noteMetadata(name, budget, false)
		into := &appv1.DisruptionBudgetSpec{MinAvailable: budget.Spec.MinAvailable, MaxUnavailable: budget.Spec.MaxUnavailable}
		into.UnhealthyPodEvictionPolicy = ptr.Deref(budget.Spec.UnhealthyPodEvictionPolicy, policyv1.IfHealthyBudget)
		i.App.Spec.DisruptionBudget = into
	}
}

// evictsNothing returns the field of a budget that lets no pod be evicted, which no App can state.
func evictsNothing(budget *policyv1.PodDisruptionBudgetSpec) (at, wrong string) {
	is := func(value *intstr.IntOrString, amounts ...string) bool {
		return value != nil && slices.Contains(amounts, value.String())
	}
	switch {
	case is(budget.MinAvailable, "100%"):
		return "spec.minAvailable", "is 100%"
	case is(budget.MaxUnavailable, "0", "0%"):
		return "spec.maxUnavailable", "is 0"
	}
	return "", ""
}

// importIngress sets the Ingress that leads to the Service, if an App can express it. It notes the Ingresses that lead to other Services of the pods.
func (i *importing) importIngress(service *corev1.Service, others []string) {
	for n := range i.from.Ingresses {
		ingress := &i.from.Ingresses[n]
		name := "Ingress " + ingress.Name
		if service == nil || !leadsTo(ingress, service.Name) {
			i.noteWayTo(name, others, func(other string) bool { return leadsTo(ingress, other) })
			continue
		}
		if at, wrong := i.otherOwner(ingress); wrong != "" {
			i.addNote(name, at, "%s, so it is not taken over; it stays as it is, and goes on leading to the Service", wrong)
			continue
		}
		if into := ingressSpec(ingress, service.Name); into != nil {
			i.noteMetadata(name, ingress, true)
			into.Annotations = ownAnnotations(ingress.Annotations)
			i.App.Spec.Ingress = into
		} else {
			i.addNote(name, "spec", "has more than one type of path, backend or certificate, or a rule without a host; it stays as it is")
		}
	}
}

// notePolicies notes the NetworkPolicies that select the pods by their labels.
func (i *importing) notePolicies() {
	for n := range i.from.Policies {
		policy := &i.from.Policies[n]
		selector, err := metav1.LabelSelectorAsSelector(&policy.Spec.PodSelector)
		if err != nil || selector.Empty() || !selector.Matches(labels.Set(i.from.Deployment.Spec.Template.Labels)) {
			continue
		}
		i.addNote("NetworkPolicy "+policy.Name, "spec.podSelector", "selects the pods; it stays as it is, and applies to the pods of the App, too")
	}
}

// noteWayTo notes that an object leads to the first of the Services that stay as they are.
func (i *importing) noteWayTo(name string, services []string, leadsTo func(service string) bool) {
	if at := slices.IndexFunc(services, leadsTo); at >= 0 {
		i.addNote(name, "spec", "leads to Service %s, which is not taken over; it stays as it is, and goes on leading there", services[at])
	}
}

// noteRoutes notes the HTTPRoutes that lead to the Service, nil if the App has none, or to other Services of the pods.
func (i *importing) noteRoutes(service *corev1.Service, others []string) {
	for n := range i.from.Routes {
		route := &i.from.Routes[n]
		name := kindRoute + " " + route.Name
		if service != nil && routesTo(route, service.Name) {
			i.addNote(name, "spec.rules", "lead to Service %s; it stays as it is, and goes on leading there. State no spec.httpRoute besides it", service.Name)
			continue
		}
		i.noteWayTo(name, others, func(other string) bool { return routesTo(route, other) })
	}
}

// noteMonitors notes the PodMonitors that select the pods by their labels.
func (i *importing) noteMonitors() {
	for n := range i.from.Monitors {
		monitor := &i.from.Monitors[n]
		selector, err := metav1.LabelSelectorAsSelector(&monitor.Spec.Selector)
		if err != nil || selector.Empty() || !selector.Matches(labels.Set(i.from.Deployment.Spec.Template.Labels)) {
			continue
		}
		i.addNote(kindMonitor+" "+monitor.Name, "spec.selector", "selects the pods; it stays as it is, and scrapes the pods of the App, too. "+
			"State no spec.podMonitor besides it")
	}
}

// routesTo reports whether a rule of an HTTPRoute leads to a Service of its namespace.
func routesTo(route *gatewayv1.HTTPRoute, service string) bool {
	return slices.ContainsFunc(route.Spec.Rules, func(rule gatewayv1.HTTPRouteRule) bool {
		return slices.ContainsFunc(rule.BackendRefs, func(ref gatewayv1.HTTPBackendRef) bool {
			namespace := string(ptr.Deref(ref.Namespace, gatewayv1.Namespace(route.Namespace)))
			return string(ref.Name) == service && namespace == route.Namespace && ptr.Deref(ref.Kind, "Service") == "Service"
		})
	})
}

// leadsTo reports whether the default backend or any path of an Ingress leads to a Service.
func leadsTo(ingress *networkingv1.Ingress, service string) bool {
	if backend := ingress.Spec.DefaultBackend; backend != nil && backend.Service != nil && backend.Service.Name == service {
		return true
	}
	return slices.ContainsFunc(ingress.Spec.Rules, func(rule networkingv1.IngressRule) bool {
		return rule.HTTP != nil && slices.ContainsFunc(rule.HTTP.Paths, func(path networkingv1.HTTPIngressPath) bool {
			return path.Backend.Service != nil && path.Backend.Service.Name == service
		})
	})
}

// ingressSpec returns the block of an App that means an Ingress, nil if none does.
func ingressSpec(ingress *networkingv1.Ingress, service string) *appv1.IngressSpec {
	into := &appv1.IngressSpec{ClassName: ingress.Spec.IngressClassName}
	if ingress.Spec.DefaultBackend != nil || len(ingress.Spec.TLS) > 1 {
		return nil
	}
	var backend *networkingv1.ServiceBackendPort
	hosts := map[string]bool{}
	for _, rule := range ingress.Spec.Rules {
		if rule.Host == "" || rule.HTTP == nil || hosts[rule.Host] {
			return nil
		}
		hosts[rule.Host] = true
		made := appv1.IngressRule{Host: appv1.Hostname(rule.Host)}
		for _, path := range rule.HTTP.Paths {
			kind, to := ptr.Deref(path.PathType, networkingv1.PathTypeImplementationSpecific), path.Backend.Service
			if to == nil || to.Name != service || into.PathType != "" && into.PathType != kind || backend != nil && *backend != to.Port {
				return nil
			}
			into.PathType, backend = kind, &to.Port
			made.Paths = append(made.Paths, appv1.HTTPPath(path.Path))
		}
		into.Rules = append(into.Rules, made)
	}
	if backend != nil {
		port := intstr.FromInt32(backend.Number)
		if backend.Name != "" {
			port = intstr.FromString(backend.Name)
		}
		into.Port = &port
	}
	for _, tls := range ingress.Spec.TLS {
		if len(tls.Hosts) != len(hosts) || slices.ContainsFunc(tls.Hosts, func(host string) bool { return !hosts[host] }) || tls.SecretName == "" {
			return nil
		}
		into.TLS = &appv1.IngressTLS{SecretName: tls.SecretName}
	}
	return into
}
