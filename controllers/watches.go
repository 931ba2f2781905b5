package controllers

import (
	"context"
	"strings"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	appv1 "huolala.cn/app-operator/api/v1"
	"huolala.cn/app-operator/internal/budget"
	"huolala.cn/app-operator/internal/children"
	"huolala.cn/app-operator/internal/fairqueue"
)

// retryMost is the longest pause before a request that failed is tried again. What ends a failure may be a thing that
// nobody watches, a raised quota for one.
const retryMost = time.Minute

// retryOptions is how failed requests are tried again.
func retryOptions() controller.Options {
	return controller.Options{
		RateLimiter: workqueue.NewTypedItemExponentialFailureRateLimiter[ctrl.Request](5*time.Millisecond, retryMost),
	}
}

// queueOptions returns the options of a controller in which a namespace has at most the given number of workers. mayExist reports whether there may
// be a resource for a request, nil for a controller without resources.
func queueOptions(workers int, mayExist func(ctrl.Request) bool) controller.Options {
	return fairqueue.Configure(retryOptions(), workers, mayExist)
}

// existsIn returns a function that reports whether a cache may have an object by the name of a request. The function never waits: until the cache
// has listed the objects, each of them may exist.
func existsIn(known cache.Cache, empty func() client.Object) func(ctrl.Request) bool {
	var listed atomic.Bool
	return func(request ctrl.Request) bool {
		ctx, obj := context.Background(), empty()
		if !listed.Load() {
			informer, err := known.GetInformer(ctx, obj, cache.BlockUntilSynced(false))
			if err != nil || !informer.HasSynced() {
				return true
			}
			listed.Store(true)
		}
		return !apierrors.IsNotFound(known.Get(ctx, request.NamespacedName, obj, client.UnsafeDisableDeepCopy))
	}
}

// userChanged selects the events of a custom resource in which a user has changed something. Our own status writes have not.
func userChanged() predicate.Predicate {
	return predicate.Or(specChanged(), predicate.AnnotationChangedPredicate{})
}

// specChanged selects the events of a custom resource that change its spec.
func specChanged() predicate.Predicate {
	return children.SplitReplaced(predicate.GenerationChangedPredicate{})
}

// laterSpecChanged is specChanged without the resources that are there at the start.
func laterSpecChanged() predicate.Predicate {
	return predicate.And(specChanged(), predicate.Funcs{CreateFunc: func(e event.CreateEvent) bool { return !e.IsInInitialList }})
}

// mapByLabel maps an object to the custom resource that one of its labels names.
func mapByLabel(label string) handler.MapFunc {
	return func(_ context.Context, obj client.Object) []ctrl.Request {
		name := obj.GetLabels()[label]
		if name == "" {
			return nil
		}
		return []ctrl.Request{{NamespacedName: types.NamespacedName{Namespace: obj.GetNamespace(), Name: name}}}
	}
}

// mapPods returns the function that maps a pod or a claim to the custom resource that its label names, and a pod of a Job to the resource whose command the
// Job runs.
func (k *kind) mapPods(s *Deps) wakeFunc {
	byLabel := mapByLabel(k.PodLabel)
	return func(ctx context.Context, obj client.Object) wakeUps {
		requests := byLabel(ctx, obj)
		if name := obj.GetLabels()[appv1.LabelBeforeRollout]; name != "" && k.Serves {
			requests = append(requests, s.requestIfExists(ctx, k.empty(), types.NamespacedName{Namespace: obj.GetNamespace(), Name: name})...)
		}
		return wakeUps{requests: requests}
	}
}

// mapOwnedOrNamed maps an object to the resources of a kind that it concerns: its controller, and those that want an object of
// its name, which may be waiting until this one is deleted. Most objects of a cluster concern none.
func (k *kind) mapOwnedOrNamed(ctx context.Context, s *Deps, obj client.Object) wakeUps {
	owned, key := k.mapController(obj), client.ObjectKeyFromObject(obj)
	found := wakeUps{requests: owned}
	if _, service := obj.(*corev1.Service); service && k.namesService() {
		found.groups = append(found.groups, wakeGroup{indexService, key.Namespace, key.Name})
	}
	canary, ok := strings.CutSuffix(obj.GetName(), appv1.CanarySuffix)
	if ok && k.Serves && (len(owned) == 0 || owned[0].Name != canary) { // In the way of a canary.
		found.requests = append(found.requests, s.requestIfExists(ctx, k.empty(), types.NamespacedName{Namespace: obj.GetNamespace(), Name: canary})...)
	}
	if k.index == "" && len(owned) > 0 && owned[0].Name == obj.GetName() {
		return found
	}
	return k.byChildName(ctx, s, key).with(found)
}

// mapController maps an object to its owner, if that is of the kind.
func (k *kind) mapController(obj client.Object) []ctrl.Request {
	c := children.OwnerOf(obj)
	if c == nil || c.Kind != k.Name || !children.IsOfOurGroup(c) {
		return nil
	}
	return []ctrl.Request{{NamespacedName: types.NamespacedName{Namespace: obj.GetNamespace(), Name: c.Name}}}
}

// mapScaleTarget maps an autoscaler to the resources of a kind that it scales, itself or by their workload object.
func (k *kind) mapScaleTarget(ctx context.Context, s *Deps, obj client.Object) wakeUps {
	target := children.ScaleTarget(obj)
	key := types.NamespacedName{Namespace: obj.GetNamespace(), Name: target.Name}
	switch {
	case target.Kind == k.Name && k.seesAutoscaler:
		return wakeUps{requests: s.requestIfExists(ctx, k.empty(), key)}
	case target.Kind == "Deployment" || target.Kind == "StatefulSet":
		return k.byChildName(ctx, s, key)
	}
	return wakeUps{}
}

// byChildName returns the resources of a kind that want a child of a name.
func (k *kind) byChildName(ctx context.Context, s *Deps, key types.NamespacedName) wakeUps {
	if k.index == "" {
		return wakeUps{requests: s.requestIfExists(ctx, k.empty(), key)}
	}
	return wakeUps{groups: []wakeGroup{{k.index, key.Namespace, key.Name}}}
}

// listGroup returns a request for each resource of a group.
func (k *kind) listGroup(ctx context.Context, s *Deps, g wakeGroup) []ctrl.Request {
	list, options := k.list(), []client.ListOption{client.InNamespace(g.namespace), client.UnsafeDisableDeepCopy}
	if g.index != "" {
		options = append(options, client.MatchingFields{g.index: g.name})
	}
	if err := s.Client.List(ctx, list, options...); err != nil {
		ctrl.LoggerFrom(ctx).Error(err, "Cannot list the resources to reconcile", "index", g.index, "namespace", g.namespace, "value", g.name)
		return nil
	}
	return requestsFor(list)
}

// requestsFor returns a request for each object of a list.
func requestsFor(list client.ObjectList) []ctrl.Request {
	var requests []ctrl.Request
	_ = meta.EachListItem(list, func(item runtime.Object) error {
		if obj, ok := item.(client.Object); ok {
			requests = append(requests, ctrl.Request{NamespacedName: client.ObjectKeyFromObject(obj)})
		}
		return nil
	})
	return requests
}

// requestIfExists returns a request for a custom resource unless the cache knows that there is none. The cache alone answers: an event of
// another object costs no request.
func (s *Deps) requestIfExists(ctx context.Context, empty client.Object, key types.NamespacedName) []ctrl.Request {
	if err := s.Client.Get(ctx, key, empty, client.DisableReadYourWritesConsistency, budget.AcceptPartial); apierrors.IsNotFound(err) {
		return nil
	}
	return []ctrl.Request{{NamespacedName: key}}
}
