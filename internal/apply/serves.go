package apply

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appv1 "huolala.cn/app-operator/api/v1"
	"huolala.cn/app-operator/internal/message"
	"huolala.cn/app-operator/internal/reconciler"
)

// An adoption gives a Service the selector of the owner's pods. A Service that serves other pods is not adopted: they would lose it. A
// ServiceAccount that other pods run as is not adopted either: they would lose their token, and the account with the owner.

// CheckServes returns an error if a live Service or ServiceAccount serves pods that are not the owner's, so that its adoption would cut
// them off. It may ask the API server. live is the whole object; for an object of another type the answer is nil.
func (e *Engine) CheckServes(ctx context.Context, req *Request, child *Child, live client.Object) error {
	if metav1.IsControlledBy(live, req.Owner) {
		return nil
	}
	switch live := live.(type) {
	case *corev1.Service:
		return e.checkService(ctx, req, child, live)
	case *corev1.ServiceAccount:
		return e.checkAccount(ctx, req, live)
	}
	return nil
}

// checkAccount returns an error if a pod runs as a live account and the selector of the owner's pods does not select the pod. Each label of
// the selector costs a request, which returns at most one pod.
func (e *Engine) checkAccount(ctx context.Context, req *Request, live *corev1.ServiceAccount) error {
	others := []labels.Selector{labels.Everything()}
	if own := req.podSelector(); len(own) > 0 {
		others = nil
		for _, key := range slices.Sorted(maps.Keys(own)) {
			without, err := labels.NewRequirement(key, selection.NotIn, []string{own[key]})
			if err != nil {
				return fmt.Errorf("selector: %w", err)
			}
			others = append(others, labels.NewSelector().Add(*without))
		}
	}
	for _, selector := range others {
		used, err := e.anyPod(ctx, live.Namespace, selector, client.MatchingFields{podAccount: live.Name})
		if err != nil {
			return err
		}
		if used {
			return &reconciler.StalledError{
				Reason: appv1.ReasonResourceExists, RetryAfter: lookAgain, // The pods of others are not watched.
				Message: fmt.Sprintf(messageAccountOfOthers, live.Name),
			}
		}
	}
	return nil
}

// podAccount is the field of a pod by which the API server finds the pods of an account.
const podAccount = "spec.serviceAccountName"

// podSelector returns the labels by which the workload object among the children selects its pods, nil without one.
func (r *Request) podSelector() map[string]string {
	for i := range r.Children {
		switch wanted := r.Children[i].Desired.(type) {
		case *appsv1.Deployment:
			return wanted.Spec.Selector.MatchLabels
		case *appsv1.StatefulSet:
			return wanted.Spec.Selector.MatchLabels
		}
	}
	return nil
}

// checkService returns an error if a live Service serves pods that are not the owner's: the Service has no selector, or it selects pods
// now, and by their labels none of the owner's, or one that the wanted selector does not select, or it selects the pods of another workload
// object, which may have none now. It asks the API server only if the two selectors differ.
func (e *Engine) checkService(ctx context.Context, req *Request, child *Child, found *corev1.Service) error {
	wanted, ok := child.Desired.(*corev1.Service)
	if !ok || maps.Equal(found.Spec.Selector, wanted.Spec.Selector) {
		return nil
	}
	serves, err := e.servesOthers(ctx, req, found, wanted.Spec.Selector)
	if err != nil || !serves {
		return err
	}
	return &reconciler.StalledError{
		Reason: appv1.ReasonResourceExists, RetryAfter: lookAgain, // The pods of others are not watched.
		Message: fmt.Sprintf(messageServesOthers, found.Name, SelectorText(found.Spec.Selector), SelectorText(wanted.Spec.Selector)),
	}
}

// servesOthers reports whether a live Service serves pods that it would lose by a selector.
func (e *Engine) servesOthers(ctx context.Context, req *Request, live *corev1.Service, selector map[string]string) (bool, error) {
	if len(live.Spec.Selector) == 0 {
		return true, nil // Its endpoints are those of others.
	}
	if serves, err := e.servesOtherWorkload(ctx, req, live, selector); err != nil || serves {
		return serves, err
	}
	if serves, err := e.anyPod(ctx, live.Namespace, labels.SelectorFromSet(live.Spec.Selector)); err != nil || !serves {
		return false, err
	}
	if own, err := e.selectsOwnPods(ctx, req, live.Spec.Selector); err != nil || !own {
		return true, err
	}
	return e.losesPods(ctx, live, selector)
}

// servesOtherWorkload reports whether a Service selects, and would not select by another selector, the pods of a workload object that is none of
// the children, by the labels that the selector of the workload object states. It reads the cache, which has the selectors of foreign objects.
func (e *Engine) servesOtherWorkload(ctx context.Context, req *Request, service *corev1.Service, selector map[string]string) (bool, error) {
	var deployments appsv1.DeploymentList
	var sets appsv1.StatefulSetList
	for _, list := range []client.ObjectList{&deployments, &sets} {
		if err := e.client.List(ctx, list, client.InNamespace(service.Namespace), client.UnsafeDisableDeepCopy); err != nil {
			return false, fmt.Errorf("list workload objects: %w", err)
		}
	}
	is, becomes := labels.SelectorFromSet(service.Spec.Selector), labels.SelectorFromSet(selector)
	serves := func(obj client.Object, pods *metav1.LabelSelector) bool {
		return pods != nil && is.Matches(labels.Set(pods.MatchLabels)) && !becomes.Matches(labels.Set(pods.MatchLabels)) && !req.means(obj)
	}
	for i := range deployments.Items {
		if serves(&deployments.Items[i], deployments.Items[i].Spec.Selector) {
			return true, nil
		}
	}
	for i := range sets.Items {
		if serves(&sets.Items[i], sets.Items[i].Spec.Selector) {
			return true, nil
		}
	}
	return false, nil
}

// means reports whether an object is one of the children that a request asks for, by type and name.
func (r *Request) means(obj client.Object) bool {
	return slices.ContainsFunc(r.Children, func(child Child) bool {
		return reflect.TypeOf(child.Desired) == reflect.TypeOf(obj) && child.Desired.GetName() == obj.GetName()
	})
}

// anyPod reports whether a selector, and further options, select any pod of a namespace.
func (e *Engine) anyPod(ctx context.Context, namespace string, selector labels.Selector, options ...client.ListOption) (bool, error) {
	pods := &metav1.PartialObjectMetadataList{}
	pods.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("PodList"))
	options = append(options, client.InNamespace(namespace), client.Limit(1), client.MatchingLabelsSelector{Selector: selector})
	if err := e.live.List(ctx, pods, options...); err != nil {
		return false, fmt.Errorf("list pods: %w", err)
	}
	return len(pods.Items) > 0, nil
}

// SelectorText is how a message names a selector.
func SelectorText(selector map[string]string) string {
	if len(selector) == 0 {
		return "no label"
	}
	return message.Quote(labels.FormatLabels(selector))
}

// selectsOwnPods reports whether a selector selects the pods of the workload object among the children.
func (e *Engine) selectsOwnPods(ctx context.Context, req *Request, selector map[string]string) (bool, error) {
	found := labels.SelectorFromSet(selector)
	for i := range req.Children {
		child := &req.Children[i]
		wanted := podLabels(child.Desired)
		if wanted == nil {
			continue
		}
		if found.Matches(labels.Set(wanted)) {
			return true, nil
		}
		if child.Live == nil {
			continue
		}
		has := podLabels(child.Live)
		if len(has) == 0 { // The cache does not have the pod template of a foreign object.
			whole, err := (&plan{child: child}).newTarget()
			if err != nil {
				return false, err
			}
			err = client.IgnoreNotFound(e.live.Get(ctx, client.ObjectKeyFromObject(child.Live), whole))
			if err != nil {
				return false, fmt.Errorf("read %s: %w", child.Live.GetName(), err)
			}
			has = podLabels(whole)
		}
		all := maps.Clone(has) // The pod template keeps the labels that the owner does not state.
		maps.Copy(all, wanted)
		if found.Matches(labels.Set(all)) || found.Matches(labels.Set(has)) {
			return true, nil
		}
	}
	return false, nil
}

// podLabels returns the labels of the pods of a workload object, nil for any other object.
func podLabels(obj client.Object) map[string]string {
	var template *corev1.PodTemplateSpec
	switch obj := obj.(type) {
	case *appsv1.Deployment:
		template = &obj.Spec.Template
	case *appsv1.StatefulSet:
		template = &obj.Spec.Template
	default:
		return nil
	}
	if template.Labels == nil {
		return map[string]string{}
	}
	return template.Labels
}

// losesPods reports whether a Service selects a pod that another selector does not. Each label that the other one adds costs a
// request, which returns at most one pod.
func (e *Engine) losesPods(ctx context.Context, service *corev1.Service, selector map[string]string) (bool, error) {
	for _, key := range slices.Sorted(maps.Keys(selector)) {
		if value, ok := service.Spec.Selector[key]; ok && value == selector[key] {
			continue
		}
		without, err := labels.NewRequirement(key, selection.NotIn, []string{selector[key]})
		if err != nil {
			return false, fmt.Errorf("selector: %w", err)
		}
		lost, err := e.anyPod(ctx, service.Namespace, labels.SelectorFromSet(service.Spec.Selector).Add(*without))
		if err != nil || lost {
			return lost, err
		}
	}
	return false, nil
}

// planExplained is planChild for a caller that may ask the API server: of a foreign Service, the cache does not have the selector, by which
// it can be adopted or not. Of what cannot be read, the error stays as it is.
func (e *Engine) planExplained(ctx context.Context, req *Request, child *Child) (plan, error) {
	known := child.planned != nil
	p, err := e.planChild(req, child)
	if err == nil || known || !unknownSelector(child, err) {
		return p, err
	}
	live, unread := e.readLive(ctx, &p)
	switch {
	case errors.Is(unread, reconciler.ErrStale):
		return p, unread
	case unread != nil:
		return p, err
	}
	p.whole = true
	taken := p.checkOwnership(req, live)
	if taken == nil {
		return p, reconciler.ErrStale // The cache has an earlier version.
	}
	if !unknownSelector(child, taken) {
		return p, taken
	}
	var stalled *reconciler.StalledError
	switch serves := e.CheckServes(ctx, req, child, live); {
	case serves == nil:
		return p, taken
	case errors.As(serves, &stalled):
		return p, serves
	}
	return p, err
}

// unknownSelector reports whether an error says that a Service which nothing controls is in the way.
func unknownSelector(child *Child, err error) bool {
	_, service := child.Desired.(*corev1.Service)
	var stalled *reconciler.StalledError
	return service && child.Live != nil && metav1.GetControllerOf(child.Live) == nil &&
		errors.As(err, &stalled) && stalled.Reason == appv1.ReasonResourceExists
}

// claimWhole is claimLive for a whole live object, which is adopted only if it serves no pods of others.
func (e *Engine) claimWhole(ctx context.Context, req *Request, p *plan, live client.Object) error {
	if err := p.claimLive(req, live); err != nil || !p.takeover {
		return err
	}
	return e.CheckServes(ctx, req, p.child, live)
}
