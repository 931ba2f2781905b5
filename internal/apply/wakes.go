package apply

import (
	"fmt"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	"huolala.cn/app-operator/internal/health"
)

// causeChanged selects the events of a pod that change why it does not run. All else about pods is in the figures of the
// workload object that they belong to.
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

// targetChanged selects the events of an autoscaler that change what it scales.
func targetChanged() predicate.Predicate {
	return predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
		return ScaleTarget(e.ObjectOld) != ScaleTarget(e.ObjectNew)
	}}
}

// claimChanged selects the events of a claim that change its size or its owners, or delete it.
func claimChanged() predicate.Predicate {
	asks := func(obj client.Object) string {
		claim, ok := obj.(*corev1.PersistentVolumeClaim)
		if !ok {
			return ""
		}
		return fmt.Sprint(claim.Spec.Resources.Requests.Storage(), len(claim.OwnerReferences))
	}
	return predicate.Funcs{
		CreateFunc: func(event.CreateEvent) bool { return false },
		UpdateFunc: func(e event.UpdateEvent) bool { return asks(e.ObjectOld) != asks(e.ObjectNew) },
	}
}

// ScaledObject is what an autoscaler scales, in its own namespace.
type ScaledObject struct{ Kind, Name string }

// String returns "<kind>/<name>".
func (s ScaledObject) String() string { return s.Kind + "/" + s.Name }

// ScaleTarget returns what an object of the type RoleScaler scales.
func ScaleTarget(obj client.Object) ScaledObject {
	scaler, ok := obj.(*autoscalingv2.HorizontalPodAutoscaler)
	if !ok {
		return ScaledObject{}
	}
	return ScaledObject{scaler.Spec.ScaleTargetRef.Kind, scaler.Spec.ScaleTargetRef.Name}
}
