package controllers

import (
	"sigs.k8s.io/controller-runtime/pkg/client"

	appv1 "huolala.cn/app-operator/api/v1"
	"huolala.cn/app-operator/internal/reconciler"
	"huolala.cn/app-operator/internal/stored"
	"huolala.cn/app-operator/resource"
)

// +kubebuilder:rbac:groups=app.huolala.cn,resources=modelboxes,verbs=get;list;watch
// +kubebuilder:rbac:groups=app.huolala.cn,resources=modelboxes/status,verbs=patch
// +kubebuilder:rbac:groups=app.huolala.cn,resources=modelboxes/finalizers,verbs=update

// modelBoxKind is the kind ModelBox, which has a Deployment and a Service.
func modelBoxKind() kind {
	return newServedKind(resource.KindModelBox, func() reconciler.Stored[*appv1.ModelBox] { return &stored.ModelBox{} },
		func() client.ObjectList { return &stored.ModelBoxList{} },
		func(box *appv1.ModelBox) (resource.Spec, bool, servedStatus) {
			status := &box.Status
			return resource.ModelBoxSpec(box), box.Spec.Paused, servedStatus{
				&status.WorkloadStatus, &status.ServingStatus, &status.HistoryStatus, &status.ReleaseStatus, &status.DefaultsStatus,
			}
		})
}
