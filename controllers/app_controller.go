// Package controllers has one thin file a kind: what it watches, what it may do, and its steps from what is observed by
// way of what is desired to what is reported. What the kinds share in this is in workload.go and watches.go.
package controllers

import (
	"context"

	"k8s.io/apimachinery/pkg/util/validation/field"

	appv1 "huolala.cn/app-operator/api/v1"
	"huolala.cn/app-operator/api/v1/validation"
	"huolala.cn/app-operator/internal/reconciler"
	"huolala.cn/app-operator/resource"
)

// appManager is the field owner of all that Apps apply.
const appManager = "app-operator/app"

// AppReconciler makes an App's Deployment and Service.
type AppReconciler struct {
	Deps
}

// +kubebuilder:rbac:groups=app.huolala.cn,resources=apps,verbs=get;list;watch
// +kubebuilder:rbac:groups=app.huolala.cn,resources=apps/status,verbs=patch
// +kubebuilder:rbac:groups=app.huolala.cn,resources=apps/finalizers,verbs=update
// +kubebuilder:rbac:groups=apps,resources=deployments,verbs=get;list;watch;create;patch;delete
// +kubebuilder:rbac:groups="",resources=services,verbs=get;list;watch;create;patch;delete
// +kubebuilder:rbac:groups="",resources=pods,verbs=list;watch
// +kubebuilder:rbac:groups=autoscaling,resources=horizontalpodautoscalers,verbs=list;watch
// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create;patch

// steps makes true what the App means, and says how its pods are doing.
func (r *AppReconciler) steps(ctx context.Context, app *appv1.App, undecodable error) (reconciler.Report, error) {
	d := target{
		owner:       app,
		manager:     appManager,
		name:        app.Name,
		spec:        &app.Spec.WorkloadSpec,
		errs:        validation.App(app),
		status:      &app.Status.WorkloadStatus,
		paused:      app.Spec.Paused,
		undecodable: undecodable,
		scalable:    resource.KindApp,
		build: func(seen resource.BuildOptions) (*resource.Workload, field.ErrorList) {
			return resource.App(app, seen)
		},
		fromRecord: func(record string, seen resource.BuildOptions) (*resource.Workload, error) {
			return resource.AppFromRecord(app, record, seen)
		},
		changed: func(record string) (bool, error) { return resource.AppSpecChanged(&app.Spec, record) },
	}
	if record, ok := app.Annotations[appv1.AnnotationTutorialSpec]; ok {
		d.tutorial = &record
	}
	return r.reconcileWorkload(ctx, &d)
}
