package children

import (
	"fmt"

	monitoringv1 "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"huolala.cn/app-operator/internal/health"
)

// SplitReplaced returns a predicate that takes an update of two objects for the deletion of the first one and the creation of the second one. An
// informer sends such an update, and nothing else, for an object that was deleted and created again while its watch had a gap. Both objects can have
// the same generation.
func SplitReplaced(of predicate.Predicate) predicate.Predicate { return replacedSplitter{of} }

type replacedSplitter struct{ predicate.Predicate }

// Update implements predicate.Predicate.
func (s replacedSplitter) Update(e event.UpdateEvent) bool {
	if e.ObjectOld.GetUID() != e.ObjectNew.GetUID() {
		return s.Delete(event.DeleteEvent{Object: e.ObjectOld}) || s.Create(event.CreateEvent{Object: e.ObjectNew})
	}
	return s.Predicate.Update(e)
}

// podChanged selects the events of a pod that change why it does not run. It also selects the begin and the end of a pod of a ReplicaSet: the
// status names the running ReplicaSet by its pods, and the cached pods can be older than the cached Deployment. All else about pods is in
// the figures of the workload object that they belong to.
func podChanged() predicate.Predicate {
	counts := func(obj client.Object) bool {
		owner := metav1.GetControllerOfNoCopy(obj)
		pod, ok := obj.(*corev1.Pod)
		return obj.GetDeletionTimestamp() == nil && owner != nil && owner.Kind == "ReplicaSet" && (!ok || !health.PodEnded(pod))
	}
	cause := func(obj client.Object) health.Cause {
		pod, ok := obj.(*corev1.Pod)
		if !ok {
			return health.Cause{}
		}
		return health.CauseOf(pod)
	}
	return SplitReplaced(predicate.Funcs{
		CreateFunc: func(e event.CreateEvent) bool {
			return !e.IsInInitialList && counts(e.Object) || cause(e.Object) != health.Cause{}
		},
		UpdateFunc: func(e event.UpdateEvent) bool {
			return counts(e.ObjectOld) != counts(e.ObjectNew) || cause(e.ObjectOld) != cause(e.ObjectNew)
		},
		DeleteFunc: func(e event.DeleteEvent) bool { return counts(e.Object) || cause(e.Object) != health.Cause{} },
	})
}

// scalingChanged selects the events of an autoscaler that change its target; for an autoscaler of the operator, also the events that change
// its spec or its health.
func scalingChanged() predicate.Predicate {
	ours := wantedChanged(func(obj client.Object) any {
		scaler, ok := obj.(*autoscalingv2.HorizontalPodAutoscaler)
		if !ok {
			return nil
		}
		return []any{scaler.Spec, health.Autoscaler(scaler)}
	})
	return SplitReplaced(predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
		return ScaleTarget(e.ObjectOld) != ScaleTarget(e.ObjectNew) || claimsOurs(e.ObjectNew) != claimsOurs(e.ObjectOld) ||
			claimsOurs(e.ObjectNew) && ours.Update(e)
	}})
}

// ingressChanged selects the events of an Ingress that change its spec, or whether it has an address.
func ingressChanged() predicate.Predicate {
	return wantedChanged(func(obj client.Object) any {
		ingress, ok := obj.(*networkingv1.Ingress)
		if !ok {
			return nil
		}
		return []any{ingress.Spec, health.Ingress(ingress)}
	})
}

// budgetChanged selects the events of a budget that change its spec.
func budgetChanged() predicate.Predicate {
	return wantedChanged(func(obj client.Object) any {
		budget, ok := obj.(*policyv1.PodDisruptionBudget)
		if !ok {
			return nil
		}
		return budget.Spec
	})
}

// serviceAccountChanged selects the events of an account that change its settings, and not the list of its tokens.
func serviceAccountChanged() predicate.Predicate {
	return wantedChanged(func(obj client.Object) any {
		account, ok := obj.(*corev1.ServiceAccount)
		if !ok {
			return nil
		}
		return account.AutomountServiceAccountToken
	})
}

// wantedChanged selects the updates of an object that change its metadata, as far as it is applied, or a part of it. Of an object
// that is kept in part, each new version may have.
func wantedChanged(part func(client.Object) any) predicate.Predicate {
	all := func(obj client.Object) []any {
		return []any{obj.GetLabels(), obj.GetAnnotations(), obj.GetOwnerReferences(), obj.GetDeletionTimestamp(), part(obj)}
	}
	return SplitReplaced(predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
		if IsPartial(e.ObjectOld) || IsPartial(e.ObjectNew) {
			return e.ObjectOld.GetResourceVersion() != e.ObjectNew.GetResourceVersion()
		}
		return !equality.Semantic.DeepEqual(all(e.ObjectOld), all(e.ObjectNew))
	}})
}

// cronJobChanged selects the events of a CronJob that change its spec, the times of its runs, or whether a run is active.
func cronJobChanged() predicate.Predicate {
	return wantedChanged(func(obj client.Object) any {
		job, ok := obj.(*batchv1.CronJob)
		if !ok {
			return nil
		}
		return []any{job.Spec, job.Status.LastScheduleTime, job.Status.LastSuccessfulTime, len(job.Status.Active) > 0}
	})
}

// jobChanged selects the events of a Job that change whether it has had a pod, runs, is suspended, has succeeded or has failed.
func jobChanged() predicate.Predicate {
	state := func(obj client.Object) any {
		job, ok := obj.(*batchv1.Job)
		if !ok {
			return nil
		}
		is := &job.Status
		return []any{is.Conditions, is.Active > 0, health.JobHadPod(job), ptr.Deref(job.Spec.Suspend, false), job.DeletionTimestamp != nil}
	}
	return SplitReplaced(predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
		return !equality.Semantic.DeepEqual(state(e.ObjectOld), state(e.ObjectNew))
	}})
}

// routeChanged selects the events of an HTTPRoute that change its spec, or whether it is accepted.
func routeChanged() predicate.Predicate {
	return wantedChanged(func(obj client.Object) any {
		route, ok := obj.(*gatewayv1.HTTPRoute)
		if !ok {
			return nil
		}
		return []any{route.Spec, health.HTTPRoute(route)}
	})
}

// monitorChanged selects the events of a PodMonitor that change its spec.
func monitorChanged() predicate.Predicate {
	return wantedChanged(func(obj client.Object) any {
		monitor, ok := obj.(*monitoringv1.PodMonitor)
		if !ok {
			return nil
		}
		return monitor.Spec
	})
}

// claimChanged selects the events of a claim that change its size, its owners, or whether its volume cannot grow, or delete it.
func claimChanged() predicate.Predicate {
	asks := func(obj client.Object) string {
		claim, ok := obj.(*corev1.PersistentVolumeClaim)
		if !ok {
			return ""
		}
		_, failed := health.ResizeFailure(&claim.Status) // The words of a driver may change with each attempt.
		return fmt.Sprint(claim.Spec.Resources.Requests.Storage(), len(claim.OwnerReferences), failed)
	}
	return SplitReplaced(predicate.Funcs{
		CreateFunc: func(event.CreateEvent) bool { return false },
		UpdateFunc: func(e event.UpdateEvent) bool { return asks(e.ObjectOld) != asks(e.ObjectNew) },
	})
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
