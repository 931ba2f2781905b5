package controllers

import (
	"context"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"

	appv1 "huolala.cn/app-operator/api/v1"
	"huolala.cn/app-operator/api/v1/validation"
	"huolala.cn/app-operator/internal/reconciler"
	"huolala.cn/app-operator/internal/stored"
	"huolala.cn/app-operator/resource"
)

// modelBoxManager is the field owner of all that ModelBoxes apply.
const modelBoxManager = "app-operator/modelbox"

// ModelBoxReconciler makes a ModelBox's Deployment and Service.
type ModelBoxReconciler struct {
	Shared
}

// +kubebuilder:rbac:groups=app.huolala.cn,resources=modelboxes,verbs=get;list;watch
// +kubebuilder:rbac:groups=app.huolala.cn,resources=modelboxes/status,verbs=patch
// +kubebuilder:rbac:groups=app.huolala.cn,resources=modelboxes/finalizers,verbs=update

// SetupWithManager adds the ModelBox's controller to the manager.
func (r *ModelBoxReconciler) SetupWithManager(mgr ctrl.Manager) error {
	b := ctrl.NewControllerManagedBy(mgr).
		WithOptions(retries()).
		For(&stored.ModelBox{}, builder.WithPredicates(asked())).
		Watches(&appsv1.Deployment{}, handler.EnqueueRequestsFromMapFunc(r.wanting)).
		Watches(&corev1.Service{}, handler.EnqueueRequestsFromMapFunc(r.wanting)).
		Watches(&corev1.Pod{}, handler.EnqueueRequestsFromMapFunc(byLabel(appv1.LabelModelBox)), builder.WithPredicates(causeChanged())).
		Watches(&autoscalingv2.HorizontalPodAutoscaler{}, handler.EnqueueRequestsFromMapFunc(r.scaled), builder.WithPredicates(targetChanged()))
	return r.watchSizes(b, &stored.ModelBoxList{}).
		Complete(skeleton(&r.Shared, resource.KindModelBox, modelBoxManager, func() reconciler.Stored[*appv1.ModelBox] { return &stored.ModelBox{} }, r.steps))
}

// steps makes true what the ModelBox means, and says how its pods are doing.
func (r *ModelBoxReconciler) steps(ctx context.Context, box *appv1.ModelBox, undecodable error) (reconciler.Report, error) {
	return r.deploy(ctx, &deployed{
		owner:       box,
		manager:     modelBoxManager,
		name:        box.Name,
		spec:        &box.Spec.WorkloadSpec,
		errs:        validation.ModelBox(box),
		status:      &box.Status.WorkloadStatus,
		paused:      box.Spec.Paused,
		undecodable: undecodable,
		scalable:    resource.KindModelBox,
		build: func(seen resource.Observed) (*resource.Workload, field.ErrorList) {
			return resource.ModelBox(box, seen)
		},
		fromRecord: func(record string, seen resource.Observed) (*resource.Workload, error) {
			return resource.ModelBoxFromRecord(box, record, seen)
		},
		changed: func(record string) (bool, error) { return resource.ModelBoxSpecChanged(box, record) },
	})
}

// wanting returns the ModelBoxes to look at when a child kind's object has changed: its controller, and the ModelBox of its
// name, which may be waiting for it to go.
func (r *ModelBoxReconciler) wanting(ctx context.Context, obj client.Object) []ctrl.Request {
	return r.named(ctx, &stored.ModelBox{}, resource.KindModelBox, obj)
}

// scaled returns the ModelBox whose Deployment an autoscaler targets.
func (r *ModelBoxReconciler) scaled(ctx context.Context, obj client.Object) []ctrl.Request {
	return r.target(ctx, &stored.ModelBox{}, resource.KindModelBox, obj)
}
