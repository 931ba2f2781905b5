package controllers

import (
	"context"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	appv1 "huolala.cn/app-operator/api/v1"
	"huolala.cn/app-operator/internal/apply"
	"huolala.cn/app-operator/internal/reconciler"
	"huolala.cn/app-operator/resource"
)

// +kubebuilder:rbac:groups=discovery.k8s.io,resources=endpointslices,verbs=list

// endpointsRetry is when to look again for the endpoints of a Service: they are read while it takes the place of another one, and not
// watched.
const endpointsRetry = time.Second

// awaitEndpoints returns why an Ingress or HTTPRoute still leads to the former Service of the workload, nil if it need not: the new one has
// no endpoints yet, and every request from outside would fail until it has. Without pods that are ready, neither Service has any.
func (s *Deps) awaitEndpoints(ctx context.Context, d *target, wanted, live client.Object, seen *observed) error {
	from, to := backendOf(live), backendOf(wanted)
	if from == to || s.Mode == apply.DryRun || d.paused || !seen.hasService(from, d.owner) || seen.readyPods() == 0 {
		return nil
	}
	waits := &reconciler.WaitingError{
		Reason: appv1.ReasonProgressing, RetryAfter: endpointsRetry,
		Message: fmt.Sprintf(messageAwaitsEndpoints, wanted.GetObjectKind().GroupVersionKind().Kind, wanted.GetName(), from, to),
	}
	if service := seen.service; service != nil && service.Name == to && service.DeletionTimestamp != nil {
		return waits // Its endpoints go with it.
	}
	var list discoveryv1.EndpointSliceList
	err := s.Live.List(ctx, &list, client.InNamespace(d.owner.GetNamespace()), client.MatchingLabels{discoveryv1.LabelServiceName: to})
	switch {
	case apierrors.IsForbidden(err): // Without the right it leads to the new one at once.
		return nil
	case err != nil:
		return fmt.Errorf("list the EndpointSlices of Service %s: %w", to, err)
	case slices.ContainsFunc(list.Items, hasReadyEndpoint):
		return nil
	}
	return waits
}

// routeGrace is how much time proxies have to follow. They learn of a changed Ingress or HTTPRoute and of a deleted Service in any order, and
// some gather changes for seconds.
const routeGrace = 10 * time.Second

// remainingGrace returns for how long a former Service stays yet, as the proxies may not have followed to the new one; 0 for any other
// object. The time begins with the last change of what has led to it, which its managed fields have to the second.
func (s *Deps) remainingGrace(d *target, w *resource.Workload, obj client.Object, seen *observed) time.Duration {
	_, ok := obj.(*corev1.Service)
	if !ok || s.RouteGrace == 0 || w.Serving == nil || w.Serving.Ingress == nil && w.Serving.HTTPRoute == nil {
		return 0
	}
	var changed time.Time
	for _, route := range seen.owned {
		if to := backendOf(route); to == obj.GetName() {
			return s.RouteGrace // It leads there still, and is changed in this reconcile, or later.
		} else if at := apply.LastApplied(route, d.manager); to != "" && at.After(changed) {
			changed = at
		}
	}
	return max(0, s.RouteGrace-s.Clock.Since(changed))
}

// backendOf returns the name of the Service that an Ingress or HTTPRoute of the operator's leads to, empty if it leads to several, or to
// none.
func backendOf(obj client.Object) string {
	names := map[string]bool{}
	switch obj := obj.(type) {
	case *networkingv1.Ingress:
		for _, rule := range obj.Spec.Rules {
			for _, path := range ptr.Deref(rule.HTTP, networkingv1.HTTPIngressRuleValue{}).Paths {
				names[ptr.Deref(path.Backend.Service, networkingv1.IngressServiceBackend{}).Name] = true
			}
		}
	case *gatewayv1.HTTPRoute:
		for _, rule := range obj.Spec.Rules {
			for _, backend := range rule.BackendRefs {
				names[string(backend.Name)] = true
			}
		}
	}
	for name := range names {
		if len(names) == 1 {
			return name
		}
	}
	return ""
}

// hasService reports whether the owner has a Service of this name.
func (o *observed) hasService(name string, owner client.Object) bool {
	is := func(obj client.Object) bool { return obj.GetName() == name && metav1.IsControlledBy(obj, owner) }
	return o.former != nil && is(o.former) || slices.ContainsFunc(o.owned, func(obj client.Object) bool {
		_, ok := obj.(*corev1.Service)
		return ok && is(obj)
	})
}

// readyPods is how many pods of the Deployment are ready.
func (o *observed) readyPods() int32 {
	if live := o.deployment(); live != nil {
		return live.Status.ReadyReplicas
	}
	return 0
}

// hasReadyEndpoint reports whether traffic can go to an endpoint of a slice. One that does not say is ready, by the API.
func hasReadyEndpoint(slice discoveryv1.EndpointSlice) bool {
	return slices.ContainsFunc(slice.Endpoints, func(endpoint discoveryv1.Endpoint) bool { return ptr.Deref(endpoint.Conditions.Ready, true) })
}
