package workload

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	appv1 "huolala.cn/app-operator/api/v1"
	"huolala.cn/app-operator/internal/apply"
	"huolala.cn/app-operator/internal/children"
	"huolala.cn/app-operator/internal/health"
	"huolala.cn/app-operator/internal/reconciler"
	"huolala.cn/app-operator/resource"
)

// endpointsRetry is when to look again for the endpoints of a Service: they are read while it takes the place of another one, and not
// watched.
const endpointsRetry = time.Second

// awaitEndpoints returns why an Ingress or HTTPRoute still leads to the former Service of the workload, nil if it need not: the new one has
// no endpoints yet, and every request from outside would fail until it has. Without pods that are ready, neither Service has any.
func awaitEndpoints(ctx context.Context, from client.Reader, in *Input, wanted, live client.Object, seen *Observed) error {
	former, to := backendOf(live), backendOf(wanted)
	if former == to || in.Paused || !seen.hasService(former, in.Owner) || seen.readyPods() == 0 {
		return nil
	}
	waits := &reconciler.WaitingError{
		Reason: appv1.ReasonProgressing, RetryAfter: endpointsRetry,
		Message: fmt.Sprintf(messageAwaitsEndpoints, wanted.GetObjectKind().GroupVersionKind().Kind, wanted.GetName(), former, to),
	}
	if service := seen.Service; service != nil && service.Name == to && service.DeletionTimestamp != nil {
		return waits // Its endpoints go with it.
	}
	var list discoveryv1.EndpointSliceList
	err := from.List(ctx, &list, client.InNamespace(in.Owner.GetNamespace()), client.MatchingLabels{discoveryv1.LabelServiceName: to})
	switch {
	case apierrors.IsForbidden(err): // Without the right to list EndpointSlices, the route leads to the new Service at once.
		return nil
	case err != nil:
		return fmt.Errorf("list the EndpointSlices of Service %s: %w", to, err)
	case slices.ContainsFunc(list.Items, hasReadyEndpoint):
		return nil
	}
	return waits
}

// DefaultServiceGrace is how much time clients have to follow to a Service of another name. Clients inside the cluster keep an address for as long
// as the DNS of the cluster allows, 30 seconds by default. Proxies learn of a changed Ingress or HTTPRoute and of a deleted Service in any
// order, and some gather changes for seconds.
const DefaultServiceGrace = time.Minute

// remainingGrace returns for how long a former Service stays yet, as its clients may not have followed to the new one; 0 for any other
// object. The time begins with the creation of the new Service, or with the last change of an Ingress or HTTPRoute that has led to the former
// one, which the managed fields have to the second.
func remainingGrace(grace time.Duration, in *Input, w *resource.Workload, obj client.Object, seen *Observed) time.Duration {
	_, ok := obj.(*corev1.Service)
	if !ok || grace == 0 || len(w.Ports) == 0 || seen.Service == nil {
		return 0
	}
	changed := seen.Service.CreationTimestamp.Time
	routes := seen.Owned
	if w.Serving == nil || w.Serving.Ingress == nil && w.Serving.HTTPRoute == nil {
		routes = nil // They are deleted in this reconcile.
	}
	for _, route := range routes {
		if to := backendOf(route); to == obj.GetName() {
			return grace // It leads there still, and is changed in this reconcile, or later.
		} else if at := children.LastApplied(route, in.fieldManager()); to != "" && at.After(changed) {
			changed = at
		}
	}
	return timeLeft(grace, changed, seen.At)
}

// timeLeft returns the rest of a time that has begun, at most the whole time: the clocks may differ.
func timeLeft(whole time.Duration, since, now time.Time) time.Duration {
	return min(whole, max(0, whole-now.Sub(since)))
}

// addressGraces is how many times longer clients outside of the cluster wait for the address of a Service.
const addressGraces = 10

// RemainingServiceGrace returns the time that the clients of a former Service still have to follow to a Service: from when it exists, and leads to
// pods that are available. hadAddress is true if a load balancer has given the former Service an address. Its clients can follow only once the Service
// has an address, too: they wait for that, and have the grace from then on, which ends with the time to wait at the latest.
func (r *Reconciler) RemainingServiceGrace(service *corev1.Service, available, now time.Time, hadAddress bool) time.Duration {
	since := laterOf(service.CreationTimestamp.Time, available)
	if !hadAddress {
		return timeLeft(r.ServiceGrace, since, now)
	}
	longest := timeLeft(addressGraces*r.ServiceGrace, since, now)
	if !health.Service(service).Ready {
		return longest
	}
	return min(longest, timeLeft(r.ServiceGrace, laterOf(since, statusChanged(service)), now))
}

// laterOf returns the later one of two times.
func laterOf(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// statusChanged returns when the status of an object was last changed, which the managed fields have to the second; the zero time if they do not have it.
func statusChanged(obj client.Object) time.Time {
	var last time.Time
	for _, entry := range obj.GetManagedFields() {
		if entry.Subresource == "status" && entry.Time != nil {
			last = laterOf(last, entry.Time.Time)
		}
	}
	return last
}

// AvailableSince returns the time since when more than half of the wanted pods have been ready, by the ready pods that are known; the zero time if none
// is known, and the present time if too few are ready.
func (o *Observed) AvailableSince() time.Time {
	var ready []time.Time
	for i := range o.Pods {
		for _, c := range o.Pods[i].Status.Conditions {
			if c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue && o.Pods[i].DeletionTimestamp == nil {
				ready = append(ready, c.LastTransitionTime.Time)
			}
		}
	}
	wanted := int32(1)
	switch live := o.Object.(type) {
	case *appsv1.Deployment:
		wanted = ptr.Deref(live.Spec.Replicas, 1)
	case *appsv1.StatefulSet:
		wanted = ptr.Deref(live.Spec.Replicas, 1)
	}
	switch half := int(wanted / 2); {
	case len(o.Pods) == 0 || wanted == 0:
		return time.Time{}
	case half >= len(ready):
		return o.At
	default:
		slices.SortFunc(ready, time.Time.Compare)
		return ready[half]
	}
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
func (o *Observed) hasService(name string, owner client.Object) bool {
	is := func(obj client.Object) bool { return obj.GetName() == name && metav1.IsControlledBy(obj, owner) }
	return o.former != nil && is(o.former) || slices.ContainsFunc(o.Owned, func(obj client.Object) bool {
		_, ok := obj.(*corev1.Service)
		return ok && is(obj)
	})
}

// readyPods is how many pods of the Deployment are ready.
func (o *Observed) readyPods() int32 {
	if live := o.Deployment(); live != nil {
		return live.Status.ReadyReplicas
	}
	return 0
}

// hasReadyEndpoint reports whether traffic can go to an endpoint of a slice. By the API, an endpoint without the condition ready is ready.
func hasReadyEndpoint(slice discoveryv1.EndpointSlice) bool {
	return slices.ContainsFunc(slice.Endpoints, func(endpoint discoveryv1.Endpoint) bool { return ptr.Deref(endpoint.Conditions.Ready, true) })
}

// FreeNodePorts deletes the Services of former names that have node ports which the workload's Service is to have, and is not
// there yet: the cluster has each once. Without that, a former Service waits for the new one. req is the request that follows: if the API server refuses
// a part of it, nothing is deleted, and refused has the result. What no dry run detects, such as a port beyond the range of the cluster, is refused once for a
// generation of the owner (RunFreed).
func (r *Reconciler) FreeNodePorts(
	ctx context.Context, in *Input, w *resource.Workload, seen *Observed, req *apply.Request,
) (freed apply.ChangeSet, refused *ApplyResult, err error) {
	if seen.Service != nil || len(w.Ports) == 0 || seen.foreign { // Next to a Deployment of others, the new Service leads to no pod.
		return nil, nil, nil
	}
	wanted := serviceOf(w)
	isWanted := func(c apply.Object) bool {
		_, ok := c.Desired.(*corev1.Service)
		return ok && c.Desired.GetName() == w.ServiceName
	}
	if wanted == nil || !slices.ContainsFunc(req.Objects, isWanted) { // A later request has the Service.
		return nil, nil, nil
	}
	prune := r.servicesInTheWay(in, seen, wanted)
	if len(prune.Prune) == 0 {
		return nil, nil, nil
	}
	if known := seen.Remembered.freed; known.service == describeService(in, wanted) && seen.At.Before(known.until) {
		return nil, &ApplyResult{Seen: seen, Err: known.err, Refused: known.err}, nil
	}
	switch err := r.tryWithFreePorts(ctx, req, wanted, prune); {
	case exceedsQuota(err): // The deletion gives back what the Service takes.
	case errors.Is(err, reconciler.ErrStale), err != nil && req.Policy.AllOrNothing:
		refused = &ApplyResult{Seen: seen, Err: err}
		if apply.Refused(err) {
			refused.Refused = err
		}
		return nil, refused, nil
	case err != nil: // The former Services stay, and the request has the error of its part.
		return nil, nil, nil //nolint:nilerr // The request has it.
	}
	done, err := r.RunRequest(ctx, prune, r.Mode)
	return done.Changes(), nil, err
}

// exceedsQuota reports whether a quota forbids an object.
func exceedsQuota(err error) bool {
	return err != nil && strings.Contains(err.Error(), "exceeded quota:") // As Kubernetes' own quota says it.
}

// servicesInTheWay returns the request that deletes the former Services with node ports of a wanted Service.
func (r *Reconciler) servicesInTheWay(in *Input, seen *Observed, wanted *corev1.Service) *apply.Request {
	prune := &apply.Request{Owner: in.Owner, Manager: in.fieldManager()}
	former := slices.Concat(seen.Owned, in.Former)
	if seen.former != nil {
		former = append(former, children.Inventory{seen.former}.Without(former...)...)
	}
	for _, obj := range former {
		service, ok := obj.(*corev1.Service)
		if ok && service.Name != wanted.Name && !in.leavesFormer(service, former) && slices.ContainsFunc(wanted.Spec.Ports, func(wants corev1.ServicePort) bool { return hasNodePort(obj, wants) }) {
			prune.Prune = append(prune.Prune, service)
		}
	}
	return prune
}

// hasNodePort reports whether an object is a Service with the node port of a port.
func hasNodePort(obj client.Object, port corev1.ServicePort) bool {
	service, ok := obj.(*corev1.Service)
	return ok && port.NodePort != 0 && slices.ContainsFunc(service.Spec.Ports, func(has corev1.ServicePort) bool {
		return has.NodePort == port.NodePort && has.Protocol == port.Protocol
	})
}

// tryWithFreePorts returns the error of a dry run of a request without the node ports that the former Services have. Of a request that writes its parts one by
// one, the Service alone is tried.
func (r *Reconciler) tryWithFreePorts(ctx context.Context, req *apply.Request, wanted *corev1.Service, prune *apply.Request) error {
	trial := *req
	trial.Prune, trial.Objects = nil, nil
	for _, object := range req.Objects {
		service, ok := object.Desired.(*corev1.Service)
		switch isWanted := ok && service.Name == wanted.Name; {
		case isWanted:
			free := service.DeepCopy()
			for i := range free.Spec.Ports {
				if slices.ContainsFunc(prune.Prune, func(former client.Object) bool { return hasNodePort(former, free.Spec.Ports[i]) }) {
					free.Spec.Ports[i].NodePort = 0
				}
			}
			object.Desired = free
		case !req.Policy.AllOrNothing:
			continue
		}
		trial.Objects = append(trial.Objects, object)
	}
	_, err := r.Engine.Run(ctx, trial, apply.DryRun)
	return err
}

// freedAgain is the time until former Services are deleted again for a Service that was refused all the same.
const freedAgain = time.Hour

// RunFreed is RunRequest after FreeNodePorts. If the Service is refused although former Services were deleted for it, no Service is deleted again for it within
// freedAgain: otherwise the former Services would be deleted and recreated without an end. A node port that is taken may belong to a Service that is being
// deleted, and is tried again.
func (r *Reconciler) RunFreed(ctx context.Context, in *Input, w *resource.Workload, req *apply.Request, freed apply.ChangeSet) (apply.Outcomes, error) {
	done, err := r.RunRequest(ctx, req, r.Mode)
	if len(freed) == 0 || r.Mode != apply.Write {
		return done, err
	}
	memory := freedPorts{}
	if done.Refusal != nil {
		if reason, _ := reconciler.ReasonAndMessageOf(done.Refusal); reason != appv1.ReasonNodePortTaken {
			memory = freedPorts{service: describeService(in, serviceOf(w)), until: r.Clock.Now().Add(freedAgain), err: done.Refusal}
		}
	}
	r.Records.rememberFreed(in.Key(), in.Owner.GetUID(), memory)
	return done, err
}

// describeService returns a digest of a wanted Service, with the generation of the owner.
func describeService(in *Input, wanted *corev1.Service) string {
	return fmt.Sprintf("%d %s %s", in.Owner.GetGeneration(), wanted.Name, DigestDesired(wanted.Spec))
}

// serviceOf returns the Service that leads to a workload's pods, nil if there is to be none.
func serviceOf(w *resource.Workload) *corev1.Service {
	for _, obj := range w.Objects() {
		if service, ok := obj.(*corev1.Service); ok && service.Name == w.ServiceName {
			return service
		}
	}
	return nil
}

// RefuseHeadlessChange takes out of the request a Service that would give a headless one an address, and returns the error to
// report of it: to apply a Service that states no address would change nothing, and look as if it had. The live Service is the
// owner's, or one to be adopted.
func RefuseHeadlessChange(in *Input, scheme *runtime.Scheme, req *apply.Request, live *corev1.Service) error {
	if live == nil || live.Spec.ClusterIP != corev1.ClusterIPNone {
		return nil
	}
	again := " again"
	if !metav1.IsControlledBy(live, in.Owner) {
		if !req.Policy.Adopt || apply.Taken(scheme, in.Owner, live, live, true) != nil {
			return nil //nolint:nilerr // The engine returns this error for an object that it does not adopt.
		}
		again = ""
	}
	i := slices.IndexFunc(req.Objects, func(c apply.Object) bool {
		wanted, ok := c.Desired.(*corev1.Service)
		return ok && wanted.Name == live.Name && wanted.Spec.ClusterIP != corev1.ClusterIPNone
	})
	if i < 0 {
		return nil
	}
	req.Objects = slices.Delete(req.Objects, i, i+1)
	return reconciler.Stalled(appv1.ReasonImmutableField,
		messageServiceHeadless, live.Name, again)
}
