package controllers

import (
	"context"

	"sigs.k8s.io/controller-runtime/pkg/client"

	appv1 "huolala.cn/app-operator/api/v1"
	"huolala.cn/app-operator/internal/reconciler"
	"huolala.cn/app-operator/internal/stored"
	"huolala.cn/app-operator/resource"
)

// ModelBoxReconciler makes a ModelBox's Deployment and Service.
type ModelBoxReconciler struct {
	Deps
}

// modelBoxKind is the kind ModelBox.
func modelBoxKind() kind {
	k := newKind(resource.KindModelBox, func() reconciler.Stored[*appv1.ModelBox] { return &stored.ModelBox{} },
		func() client.ObjectList { return &stored.ModelBoxList{} },
		func(s *Deps) reconciler.Steps[*appv1.ModelBox] { return (&ModelBoxReconciler{Deps: *s}).reconcileSteps })
	k.seesAutoscaler, k.watchMore = true, watchContent
	return k
}

// +kubebuilder:rbac:groups=app.huolala.cn,resources=modelboxes,verbs=get;list;watch
// +kubebuilder:rbac:groups=app.huolala.cn,resources=modelboxes/status,verbs=patch
// +kubebuilder:rbac:groups=app.huolala.cn,resources=modelboxes/finalizers,verbs=update

// reconcileSteps reconciles the ModelBox, and reports the health of its pods.
func (r *ModelBoxReconciler) reconcileSteps(ctx context.Context, box *appv1.ModelBox, undecodable error) (reconciler.Report, error) {
	status := &box.Status
	return r.reconcileServed(ctx, resource.KindModelBox, box, resource.ModelBoxSpec(box), box.Spec.Paused, undecodable, servedStatus{
		&status.WorkloadStatus, &status.ServingStatus, &status.HistoryStatus, &status.ReleaseStatus, &status.DefaultsStatus,
	})
}
