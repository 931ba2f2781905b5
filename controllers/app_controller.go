// Package controllers has one thin file a kind: what it watches, what it may do, and its steps from what is observed by
// way of what is desired to what is reported. What the kinds share in this is in workload.go and watches.go.
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

// appManager is the field owner of all that Apps apply.
const appManager = "app-operator/app"

// AppReconciler makes an App's Deployment and Service.
type AppReconciler struct {
	Deps
}

// appKind is the kind App.
func appKind() kind {
	return kind{
		Kind: resource.KindApp, manager: appManager, seesAutoscaler: true,
		empty: func() client.Object { return &stored.App{} },
		list:  func() client.ObjectList { return &stored.AppList{} },
		reconciler: func(k *kind, s *Deps) reconcile.Reconciler {
			return newSkeleton(s, k, func() reconciler.Stored[*appv1.App] { return &stored.App{} },
				(&AppReconciler{Deps: *s}).steps)
		},
		plan:      func(s *Deps) planFunc { return planSteps((&AppReconciler{Deps: *s}).steps) },
		watchMore: watchContent,
	}
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
	d := target{
		owner:   app,
		manager: appManager,
		name:    app.Name,
		spec:    &app.Spec.WorkloadSpec,
		errs:    validation.App(app),
		status:  &app.Status.WorkloadStatus,
		serving: &app.Spec.ServingSpec, servingStatus: &app.Status.ServingStatus,
		paused:      app.Spec.Paused,
		undecodable: undecodable,
		scalable:    resource.KindApp.Name,
		history:     &app.Status.HistoryStatus,
		validateRecord: func(record string) field.ErrorList {
			past := &appv1.App{ObjectMeta: app.ObjectMeta}
			if err := resource.DecodeSpec(record, &past.Spec); err != nil {
				return field.ErrorList{field.InternalError(field.NewPath("spec"), err)}
			}
			return validation.App(past)
		},
		config: newConfigTarget(resource.KindApp.Name, &app.Status.ServingStatus),
		build: func(seen resource.BuildOptions) (*resource.Workload, field.ErrorList) {
			return resource.App(app, seen)
		},
		fromRecord: func(record string, seen resource.BuildOptions) (*resource.Workload, error) {
			return resource.AppFromRecord(app, record, seen)
		},
		changed:  func(record string) (bool, error) { return resource.AppSpecChanged(&app.Spec, record) },
		identity: func() string { return resource.AppIdentity(&app.Spec) },
	}
	if record, ok := app.Annotations[appv1.AnnotationTutorialSpec]; ok {
		d.tutorial = &record
	}
	return r.reconcileWorkload(ctx, &d)
}
