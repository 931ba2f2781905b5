// Package controllers has one thin file a kind: what it watches, what it may do, and its steps from what is observed by
// way of what is desired to what is reported. What the kinds share in this is in workload.go and watches.go.
package controllers

import (
	"context"

	"sigs.k8s.io/controller-runtime/pkg/client"

	appv1 "huolala.cn/app-operator/api/v1"
	"huolala.cn/app-operator/internal/reconciler"
	"huolala.cn/app-operator/internal/stored"
	"huolala.cn/app-operator/resource"
)

// AppReconciler makes an App's Deployment and Service.
type AppReconciler struct {
	Deps
}

// appKind is the kind App.
func appKind() kind {
	k := newKind(resource.KindApp, func() reconciler.Stored[*appv1.App] { return &stored.App{} },
		func() client.ObjectList { return &stored.AppList{} },
		func(s *Deps) reconciler.Steps[*appv1.App] { return (&AppReconciler{Deps: *s}).steps })
	k.seesAutoscaler, k.watchMore = true, watchContent
	return k
}

// +kubebuilder:rbac:groups=app.huolala.cn,resources=apps,verbs=get;list;watch
// +kubebuilder:rbac:groups=app.huolala.cn,resources=apps/status,verbs=patch
// +kubebuilder:rbac:groups=app.huolala.cn,resources=apps/finalizers,verbs=update
// +kubebuilder:rbac:groups=apps,resources=deployments,verbs=get;list;watch;create;patch;delete
// +kubebuilder:rbac:groups="",resources=services,verbs=get;list;watch;create;patch;delete
// +kubebuilder:rbac:groups="",resources=pods,verbs=list;watch
// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create;patch

// steps makes true what the App means, and says how its pods are doing.
func (r *AppReconciler) steps(ctx context.Context, app *appv1.App, undecodable error) (reconciler.Report, error) {
	d := r.newServedTarget(resource.KindApp, app, resource.AppSpec(app), app.Spec.Paused, undecodable, &app.Status.ServingStatus)
	d.status, d.history = &app.Status.WorkloadStatus, &app.Status.HistoryStatus
	d.release = &app.Status.ReleaseStatus
	if record, ok := app.Annotations[appv1.AnnotationTutorialSpec]; ok {
		d.tutorial = &record
	}
	return r.reconcileWorkload(ctx, d)
}
