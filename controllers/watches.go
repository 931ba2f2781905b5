package controllers

import (
	"context"
	"time"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	"huolala.cn/app-operator/internal/health"
)

// retryMost is the longest pause before a request that failed is tried again. What ends a failure may be a thing that
// nobody watches, a raised quota for one.
const retryMost = time.Minute

// retries is how failed requests are tried again.
func retries() controller.Options {
	return controller.Options{
		RateLimiter: workqueue.NewTypedItemExponentialFailureRateLimiter[ctrl.Request](5*time.Millisecond, retryMost),
	}
}

// asked lets a custom resource's event pass if the user has changed something. Our own status writes have not.
func asked() predicate.Predicate {
	return predicate.Or(predicate.GenerationChangedPredicate{}, predicate.AnnotationChangedPredicate{})
}

// causeChanged lets a pod's event pass if it changes why the pod does not run. All else about pods is in the figures of
// the workload that they belong to.
func causeChanged() predicate.Predicate {
	cause := func(obj client.Object) health.Cause {
		pod, ok := obj.(*corev1.Pod)
		if !ok {
			return health.Cause{}
		}
		return health.CauseOf(pod)
	}
	return predicate.Funcs{
		CreateFunc: func(e event.CreateEvent) bool { return cause(e.Object) != health.Cause{} },
		UpdateFunc: func(e event.UpdateEvent) bool { return cause(e.ObjectOld) != cause(e.ObjectNew) },
		DeleteFunc: func(e event.DeleteEvent) bool { return cause(e.Object) != health.Cause{} },
	}
}

// targetChanged lets an autoscaler's event pass if it changes what the autoscaler targets.
func targetChanged() predicate.Predicate {
	return predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
		return scaleTarget(e.ObjectOld) != scaleTarget(e.ObjectNew)
	}}
}

// byLabel returns the custom resource that a label of a pod names.
func byLabel(label string) handler.MapFunc {
	return func(_ context.Context, obj client.Object) []ctrl.Request {
		name := obj.GetLabels()[label]
		if name == "" {
			return nil
		}
		return []ctrl.Request{{NamespacedName: types.NamespacedName{Namespace: obj.GetNamespace(), Name: name}}}
	}
}

// named returns the custom resources of one kind that an object concerns: its controller, and the one that wants an
// object of its name. Most objects of a cluster concern none.
func (s *Shared) named(ctx context.Context, empty client.Object, kind string, obj client.Object) []ctrl.Request {
	requests := controlling(kind, obj)
	if len(requests) > 0 && requests[0].Name == obj.GetName() {
		return requests
	}
	return append(requests, s.existing(ctx, empty, client.ObjectKeyFromObject(obj))...)
}

// controlling returns an object's controller, if that is of a kind of ours.
func controlling(kind string, obj client.Object) []ctrl.Request {
	c := metav1.GetControllerOf(obj)
	if c == nil || c.Kind != kind || !ofGroup(c) {
		return nil
	}
	return []ctrl.Request{{NamespacedName: types.NamespacedName{Namespace: obj.GetNamespace(), Name: c.Name}}}
}

// indexed returns the custom resources that an index has for a value. list is an empty one of their kind.
func (s *Shared) indexed(ctx context.Context, list client.ObjectList, index, namespace, value string) []ctrl.Request {
	if err := s.Client.List(ctx, list, client.InNamespace(namespace), client.DisableReadYourWritesConsistency,
		client.UnsafeDisableDeepCopy, client.MatchingFields{index: value}); err != nil {
		ctrl.LoggerFrom(ctx).Error(err, "Cannot list the resources to look at", "index", index, "namespace", namespace, "value", value)
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

// target returns the custom resource of one kind that an autoscaler targets, itself or by its Deployment.
func (s *Shared) target(ctx context.Context, empty client.Object, kind string, obj client.Object) []ctrl.Request {
	scaler, ok := obj.(*autoscalingv2.HorizontalPodAutoscaler)
	if !ok || scaler.Spec.ScaleTargetRef.Kind != "Deployment" && scaler.Spec.ScaleTargetRef.Kind != kind {
		return nil
	}
	return s.existing(ctx, empty, types.NamespacedName{Namespace: scaler.Namespace, Name: scaler.Spec.ScaleTargetRef.Name})
}

// existing returns a request for a custom resource if the cache has it, or cannot tell.
func (s *Shared) existing(ctx context.Context, empty client.Object, key types.NamespacedName) []ctrl.Request {
	if err := s.Client.Get(ctx, key, empty, client.DisableReadYourWritesConsistency); apierrors.IsNotFound(err) {
		return nil
	}
	return []ctrl.Request{{NamespacedName: key}}
}
