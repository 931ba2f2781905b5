package controllers

import (
	"context"
	"fmt"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	appv1 "huolala.cn/app-operator/api/v1"
	"huolala.cn/app-operator/internal/reconciler"
	"huolala.cn/app-operator/internal/stored"
	"huolala.cn/app-operator/resource"
)

// cloudManagerManager is the field owner of all that CloudManagers apply.
const cloudManagerManager = "app-operator/cloudmanager"

// The roles of the tiers, as resource states them in a label.
const (
	roleDatabase = "db"
	roleIdentity = "identity"
	roleFront    = "front"
)

// CloudManagerReconciler makes a CloudManager's database, and then, one after the other, its tiers.
type CloudManagerReconciler struct {
	Shared
}

// +kubebuilder:rbac:groups=app.huolala.cn,resources=cloudmanagers,verbs=get;list;watch
// +kubebuilder:rbac:groups=app.huolala.cn,resources=cloudmanagers/status,verbs=patch
// +kubebuilder:rbac:groups=app.huolala.cn,resources=cloudmanagers/finalizers,verbs=update
// +kubebuilder:rbac:groups=apps,resources=statefulsets,verbs=get;list;watch;create;patch;delete
// +kubebuilder:rbac:groups="",resources=secrets,verbs=get;create;patch;delete
// +kubebuilder:rbac:groups="",resources=persistentvolumeclaims,verbs=get;list;watch;patch

// SetupWithManager adds the CloudManager's controller to the manager.
func (r *CloudManagerReconciler) SetupWithManager(mgr ctrl.Manager) error {
	b := ctrl.NewControllerManagedBy(mgr).
		WithOptions(retries()).
		For(&stored.CloudManager{}, builder.WithPredicates(asked())).
		Watches(&appsv1.StatefulSet{}, handler.EnqueueRequestsFromMapFunc(r.wanting)).
		Watches(&appsv1.Deployment{}, handler.EnqueueRequestsFromMapFunc(r.wanting)).
		Watches(&corev1.Service{}, handler.EnqueueRequestsFromMapFunc(r.wanting)).
		Watches(&corev1.PersistentVolumeClaim{}, handler.EnqueueRequestsFromMapFunc(byLabel(appv1.LabelCloudManager)), builder.WithPredicates(claimChanged())).
		Watches(&corev1.Pod{}, handler.EnqueueRequestsFromMapFunc(byLabel(appv1.LabelCloudManager)), builder.WithPredicates(causeChanged())).
		Watches(&autoscalingv2.HorizontalPodAutoscaler{}, handler.EnqueueRequestsFromMapFunc(r.scaled), builder.WithPredicates(targetChanged()))
	return r.watchSizes(b, &stored.CloudManagerList{}).
		Complete(skeleton(&r.Shared, resource.KindCloudManager, cloudManagerManager, func() reconciler.Stored[*appv1.CloudManager] { return &stored.CloudManager{} }, r.steps))
}

// steps makes true what the CloudManager means, tier by tier, and says how the tiers are doing.
func (r *CloudManagerReconciler) steps(ctx context.Context, obj *appv1.CloudManager, undecodable error) (reconciler.Report, error) {
	if undecodable != nil {
		return reconciler.Report{}, refuse(undecodable)
	}
	cm := obj.DeepCopy()
	cm.DefaultNames()
	s, err := r.stack(ctx, cm)
	if err != nil {
		return reconciler.Report{}, err
	}
	s.carryOut(ctx)
	kept := r.keepFormer(ctx, s)
	removed, err := r.removeFormer(ctx, s)
	if err = reconciler.Aggregate(append(s.errors(), kept, err)...); stale(err) {
		return reconciler.Report{}, err
	}
	return s.report(obj, removed), err
}

// claimChanged lets a claim's event pass if it changes what the claim asks for or what it goes with, or if the claim goes.
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

// addCloudManagerIndexes adds the indexes that CloudManagers and their children are looked up by.
func addCloudManagerIndexes(ctx context.Context, indexer client.FieldIndexer) error {
	for _, child := range []client.Object{&appsv1.StatefulSet{}, &appsv1.Deployment{}, &corev1.Service{}} {
		if err := indexer.IndexField(ctx, child, indexController, func(obj client.Object) []string {
			if c := metav1.GetControllerOf(obj); c != nil && c.Kind == resource.KindCloudManager && ofGroup(c) {
				return []string{c.Name}
			}
			return nil
		}); err != nil {
			return err
		}
	}
	return indexer.IndexField(ctx, &stored.CloudManager{}, indexWanted, func(obj client.Object) []string {
		kept, ok := obj.(*stored.CloudManager)
		if !ok {
			return nil
		}
		cm, err := kept.Decode()
		if err != nil {
			return nil // It wants nothing as long as nobody knows what it says.
		}
		cm.DefaultNames()
		db := cm.Spec.DB.StatefulSet.Name
		return []string{db, resource.HeadlessName(db), cm.Spec.Identity.Deployment.Name, cm.Spec.Front.Deployment.Name}
	})
}

// wanting returns the CloudManagers to look at when a child kind's object has changed: its controller, and those that want
// an object of its name, which may be waiting for it to go.
func (r *CloudManagerReconciler) wanting(ctx context.Context, obj client.Object) []ctrl.Request {
	return append(r.naming(ctx, obj.GetNamespace(), obj.GetName()), controlling(resource.KindCloudManager, obj)...)
}

// scaled returns the CloudManagers that want the workload object which an autoscaler targets.
func (r *CloudManagerReconciler) scaled(ctx context.Context, obj client.Object) []ctrl.Request {
	scaler, ok := obj.(*autoscalingv2.HorizontalPodAutoscaler)
	if !ok {
		return nil
	}
	return r.naming(ctx, scaler.Namespace, scaler.Spec.ScaleTargetRef.Name)
}

// naming returns the CloudManagers that want a child of a name.
func (r *CloudManagerReconciler) naming(ctx context.Context, namespace, name string) []ctrl.Request {
	return r.indexed(ctx, &stored.CloudManagerList{}, indexWanted, namespace, name)
}

// former returns what the CloudManager controls and, by its name, no longer wants, by the role that it has.
func (r *CloudManagerReconciler) former(ctx context.Context, cm *appv1.CloudManager) (map[string][]client.Object, error) {
	db, identity, front := cm.Spec.DB.StatefulSet.Name, cm.Spec.Identity.Deployment.Name, cm.Spec.Front.Deployment.Name
	found := map[string][]client.Object{}
	note := func(obj client.Object, wanted ...string) {
		if !slices.Contains(wanted, obj.GetName()) && metav1.IsControlledBy(obj, cm) {
			role := obj.GetLabels()[appv1.LabelComponent]
			if role != roleDatabase && role != roleIdentity {
				role = roleFront
			}
			found[role] = append(found[role], obj)
		}
	}
	mine := []client.ListOption{client.InNamespace(cm.Namespace), client.MatchingFields{indexController: cm.Name}}
	var sets appsv1.StatefulSetList
	var deployments appsv1.DeploymentList
	var services corev1.ServiceList
	for _, list := range []client.ObjectList{&sets, &deployments, &services} {
		if err := r.Client.List(ctx, list, mine...); err != nil {
			return nil, fmt.Errorf("list %T: %w", list, err)
		}
	}
	for i := range sets.Items {
		note(&sets.Items[i], db)
	}
	for i := range deployments.Items {
		note(&deployments.Items[i], identity, front)
	}
	// The cache has no order, and an event lists them.
	slices.SortFunc(services.Items, func(a, b corev1.Service) int { return strings.Compare(a.Name, b.Name) })
	for i := range services.Items {
		note(&services.Items[i], db, resource.HeadlessName(db), identity, front)
	}
	return found, nil
}
