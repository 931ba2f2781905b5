package controllers

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"

	operatorsv2 "github.com/operator-framework/api/pkg/operators/v2"
	"github.com/operator-framework/operator-lib/conditions"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	appv1 "huolala.cn/app-operator/api/v1"
	"huolala.cn/app-operator/internal/children"
	"huolala.cn/app-operator/internal/stored"
)

// Reasons of the condition Upgradeable.
const (
	reasonUpgradeable         = "Upgradeable"
	reasonStatefulSetReplaced = "StatefulSetReplaced"
)

// OperatorCondition returns what OLM asks before it replaces the operator, nil where OLM has not installed it.
func OperatorCondition(cfg *rest.Config) (conditions.Condition, error) {
	if os.Getenv("OPERATOR_CONDITION_NAME") == "" {
		return nil, nil
	}
	scheme := runtime.NewScheme()
	if err := operatorsv2.AddToScheme(scheme); err != nil {
		return nil, fmt.Errorf("scheme: %w", err)
	}
	// Without a cache: OLM lets the operator read this one object, and list none.
	c, err := client.New(cfg, client.Options{Scheme: scheme, FieldOwner: fieldOwner})
	if err != nil {
		return nil, err
	}
	return conditions.InClusterFactory{Client: c}.NewCondition(operatorsv2.ConditionType(operatorsv2.Upgradeable))
}

// upgradeable sets the condition Upgradeable of OLM to False while pods of a database lack their StatefulSet, which was deleted to be
// recreated with larger volumes: a pod that is lost in between is not recreated. All other steps can be interrupted at any point.
//
// upgradeable decides by the live pods and not by memory, so a restart changes nothing.
type upgradeable struct {
	client    client.Client
	condition conditions.Condition
}

// SetupWithManager adds the condition's controller to the manager, if there is a condition. newCondition makes it, with the configuration of all
// requests of the manager, which end with its lease; nil for none.
func (u *upgradeable) SetupWithManager(mgr ctrl.Manager, cfg *rest.Config, newCondition func(*rest.Config) (conditions.Condition, error)) (err error) {
	if newCondition == nil {
		return nil
	}
	if u.condition, err = newCondition(cfg); err != nil {
		return fmt.Errorf("OperatorCondition: %w", err)
	}
	if u.condition == nil {
		return nil
	}
	all := handler.EnqueueRequestsFromMapFunc(func(context.Context, client.Object) []reconcile.Request {
		return []reconcile.Request{{}}
	})
	start := source.Func(func(_ context.Context, queue workqueue.TypedRateLimitingInterface[reconcile.Request]) error {
		queue.Add(reconcile.Request{})
		return nil
	})
	return ctrl.NewControllerManagedBy(mgr).
		Named("upgradeable").
		WithOptions(queueOptions(1, nil)).
		Watches(&corev1.Pod{}, all, builder.WithPredicates(strayChanged())).
		Watches(&stored.CloudManager{}, all, builder.WithPredicates(comesOrGoes())).
		WatchesRawSource(start).
		Complete(u)
}

// Reconcile implements reconcile.Reconciler.
func (u *upgradeable) Reconcile(ctx context.Context, _ reconcile.Request) (reconcile.Result, error) {
	strays, err := u.findStrays(ctx)
	if err != nil {
		return reconcile.Result{}, err
	}
	status, reason, message := metav1.ConditionTrue, reasonUpgradeable, messageUpgradeable
	if len(strays) > 0 {
		status, reason = metav1.ConditionFalse, reasonStatefulSetReplaced
		message = messageNotUpgradeable + firstPods(strays)
	}
	if is, err := u.condition.Get(ctx); err == nil && is.Status == status && is.Reason == reason && is.Message == message {
		return reconcile.Result{}, nil
	}
	// Get has no error of its own for a condition that was never set. What else is in the way, Set meets too.
	if err := u.condition.Set(ctx, status, conditions.WithReason(reason), conditions.WithMessage(message)); err != nil {
		return reconcile.Result{}, fmt.Errorf("OperatorCondition: %w", err)
	}
	return reconcile.Result{}, nil
}

// firstPods names some of the pods.
func firstPods(pods []types.NamespacedName) string {
	const most = 5
	var names []string
	for _, pod := range pods[:min(most, len(pods))] {
		names = append(names, pod.String())
	}
	if len(pods) > most {
		names = append(names, "…")
	}
	return strings.Join(names, ", ")
}

// findStrays are the pods of existing CloudManagers that a StatefulSet has made and that nothing controls, in order.
func (u *upgradeable) findStrays(ctx context.Context) ([]types.NamespacedName, error) {
	var pods corev1.PodList
	if err := u.client.List(ctx, &pods, client.DisableReadYourWritesConsistency, client.HasLabels{appv1.LabelCloudManager}); err != nil {
		return nil, err
	}
	var found []types.NamespacedName
	for i := range pods.Items {
		pod := &pods.Items[i]
		if !isStray(pod) {
			continue
		}
		owner := types.NamespacedName{Namespace: pod.Namespace, Name: pod.Labels[appv1.LabelCloudManager]}
		switch err := u.client.Get(ctx, owner, &stored.CloudManager{}); {
		case client.IgnoreNotFound(err) != nil:
			return nil, err
		case err == nil:
			found = append(found, client.ObjectKeyFromObject(pod))
		}
	}
	slices.SortFunc(found, func(a, b types.NamespacedName) int { return strings.Compare(a.String(), b.String()) })
	return found, nil
}

// isStray reports whether a pod of a StatefulSet has lost it.
func isStray(pod client.Object) bool {
	_, made := pod.GetLabels()[appsv1.StatefulSetPodNameLabel]
	return made && pod.GetDeletionTimestamp() == nil && metav1.GetControllerOf(pod) == nil
}

// strayChanged lets events through that change which pods are strays.
func strayChanged() predicate.Predicate {
	return children.SplitReplaced(predicate.Funcs{
		CreateFunc:  func(e event.CreateEvent) bool { return isStray(e.Object) },
		UpdateFunc:  func(e event.UpdateEvent) bool { return isStray(e.ObjectOld) != isStray(e.ObjectNew) },
		DeleteFunc:  func(e event.DeleteEvent) bool { return isStray(e.Object) },
		GenericFunc: func(event.GenericEvent) bool { return false },
	})
}

// comesOrGoes lets creations and deletions through.
func comesOrGoes() predicate.Predicate {
	return children.SplitReplaced(predicate.Funcs{
		UpdateFunc:  func(event.UpdateEvent) bool { return false },
		GenericFunc: func(event.GenericEvent) bool { return false },
	})
}
