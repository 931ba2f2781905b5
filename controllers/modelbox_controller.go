package controllers

import (
	"context"

	"k8s.io/apimachinery/pkg/util/validation/field"

	appv1 "huolala.cn/app-operator/api/v1"
	"huolala.cn/app-operator/api/v1/validation"
	"huolala.cn/app-operator/internal/reconciler"
	"huolala.cn/app-operator/resource"
)

// modelBoxManager is the field owner of all that ModelBoxes apply.
const modelBoxManager = "app-operator/modelbox"

// ModelBoxReconciler makes a ModelBox's Deployment and Service.
type ModelBoxReconciler struct {
	Deps
}

// +kubebuilder:rbac:groups=app.huolala.cn,resources=modelboxes,verbs=get;list;watch
// +kubebuilder:rbac:groups=app.huolala.cn,resources=modelboxes/status,verbs=patch
// +kubebuilder:rbac:groups=app.huolala.cn,resources=modelboxes/finalizers,verbs=update

// steps makes true what the ModelBox means, and says how its pods are doing.
func (r *ModelBoxReconciler) steps(ctx context.Context, box *appv1.ModelBox, undecodable error) (reconciler.Report, error) {
	return r.reconcileWorkload(ctx, &target{
		owner:       box,
		manager:     modelBoxManager,
		name:        box.Name,
		spec:        &box.Spec.WorkloadSpec,
		errs:        validation.ModelBox(box),
		status:      &box.Status.WorkloadStatus,
		paused:      box.Spec.Paused,
		undecodable: undecodable,
		scalable:    resource.KindModelBox,
		build: func(seen resource.BuildOptions) (*resource.Workload, field.ErrorList) {
			return resource.ModelBox(box, seen)
		},
		fromRecord: func(record string, seen resource.BuildOptions) (*resource.Workload, error) {
			return resource.ModelBoxFromRecord(box, record, seen)
		},
		changed: func(record string) (bool, error) { return resource.ModelBoxSpecChanged(box, record) },
	})
}
