// Package controllers has one thin file for each kind: its watches, its rights, and its steps, which hand an input to package workload. The
// manager, its cache, the watches and the planner are here, too.
package controllers

import (
	"sigs.k8s.io/controller-runtime/pkg/client"

	appv1 "huolala.cn/app-operator/api/v1"
	"huolala.cn/app-operator/internal/reconciler"
	"huolala.cn/app-operator/internal/stored"
	"huolala.cn/app-operator/resource"
)

// +kubebuilder:rbac:groups=app.huolala.cn,resources=apps,verbs=get;list;watch
// +kubebuilder:rbac:groups=app.huolala.cn,resources=apps/status,verbs=patch
// +kubebuilder:rbac:groups=app.huolala.cn,resources=apps/finalizers,verbs=update
// +kubebuilder:rbac:groups=apps,resources=deployments,verbs=get;list;watch;create;patch;delete
// +kubebuilder:rbac:groups="",resources=services,verbs=get;list;watch;create;patch;delete
// +kubebuilder:rbac:groups="",resources=pods,verbs=list;watch
// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create;patch
// +kubebuilder:rbac:groups="",resources=configmaps,verbs=get;list;watch
// +kubebuilder:rbac:groups=apps,resources=replicasets,verbs=get
// +kubebuilder:rbac:groups=apps,resources=daemonsets,verbs=list
// +kubebuilder:rbac:groups=batch,resources=cronjobs,verbs=list
// +kubebuilder:rbac:groups=batch,resources=jobs,verbs=list;watch;create;delete
// +kubebuilder:rbac:groups="",resources=serviceaccounts,verbs=get;list;watch;create;patch;delete
// +kubebuilder:rbac:groups=autoscaling,resources=horizontalpodautoscalers,verbs=get;list;watch;create;patch;delete
// +kubebuilder:rbac:groups=networking.k8s.io,resources=ingresses;networkpolicies,verbs=get;list;watch;create;patch;delete
// +kubebuilder:rbac:groups=policy,resources=poddisruptionbudgets,verbs=get;list;watch;create;patch;delete
// +kubebuilder:rbac:groups=discovery.k8s.io,resources=endpointslices,verbs=list

// appKind is the kind App, which has a Deployment and a Service.
func appKind() kind {
	return newServedKind(resource.KindApp, func() reconciler.Stored[*appv1.App] { return &stored.App{} },
		func() client.ObjectList { return &stored.AppList{} },
		func(app *appv1.App) (resource.Spec, bool, servedStatus) {
			status := &app.Status
			return resource.AppSpec(app), app.Spec.Paused, servedStatus{
				&status.WorkloadStatus, &status.ServingStatus, &status.HistoryStatus, &status.ReleaseStatus, &status.DefaultsStatus,
			}
		})
}
