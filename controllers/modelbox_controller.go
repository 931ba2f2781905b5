package controllers

import (
	"context"

	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

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
	Deps
}

// modelBoxKind is the kind ModelBox.
func modelBoxKind() kind {
	return kind{
		Kind: resource.KindModelBox, manager: modelBoxManager, seesAutoscaler: true,
		empty: func() client.Object { return &stored.ModelBox{} },
		list:  func() client.ObjectList { return &stored.ModelBoxList{} },
		reconciler: func(k *kind, s *Deps) reconcile.Reconciler {
			return newSkeleton(s, k, func() reconciler.Stored[*appv1.ModelBox] { return &stored.ModelBox{} },
				(&ModelBoxReconciler{Deps: *s}).steps)
		},
		plan:      func(s *Deps) planFunc { return planSteps((&ModelBoxReconciler{Deps: *s}).steps) },
		watchMore: watchContent,
	}
}

// +kubebuilder:rbac:groups=app.huolala.cn,resources=modelboxes,verbs=get;list;watch
// +kubebuilder:rbac:groups=app.huolala.cn,resources=modelboxes/status,verbs=patch
// +kubebuilder:rbac:groups=app.huolala.cn,resources=modelboxes/finalizers,verbs=update

// steps makes true what the ModelBox means, and says how its pods are doing.
func (r *ModelBoxReconciler) steps(ctx context.Context, box *appv1.ModelBox, undecodable error) (reconciler.Report, error) {
	return r.reconcileWorkload(ctx, &target{
		owner:   box,
		manager: modelBoxManager,
		name:    box.Name,
		spec:    &box.Spec.WorkloadSpec,
		errs:    validation.ModelBox(box),
		status:  &box.Status.WorkloadStatus,
		serving: &box.Spec.ServingSpec, servingStatus: &box.Status.ServingStatus,
		paused:      box.Spec.Paused,
		undecodable: undecodable,
		scalable:    resource.KindModelBox.Name,
		history:     &box.Status.HistoryStatus,
		validateRecord: func(record string) field.ErrorList {
			past := &appv1.ModelBox{ObjectMeta: box.ObjectMeta}
			if err := resource.DecodeSpec(record, &past.Spec); err != nil {
				return field.ErrorList{field.InternalError(field.NewPath("spec"), err)}
			}
			return validation.ModelBox(past)
		},
		config: newConfigTarget(resource.KindModelBox.Name, &box.Status.ServingStatus),
		build: func(seen resource.BuildOptions) (*resource.Workload, field.ErrorList) {
			return resource.ModelBox(box, seen)
		},
		fromRecord: func(record string, seen resource.BuildOptions) (*resource.Workload, error) {
			return resource.ModelBoxFromRecord(box, record, seen)
		},
		changed:  func(record string) (bool, error) { return resource.ModelBoxSpecChanged(box, record) },
		identity: func() string { return resource.ModelBoxIdentity(box) },
	})
}
