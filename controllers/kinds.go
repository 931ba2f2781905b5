package controllers

import (
	"context"

	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	appv1 "huolala.cn/app-operator/api/v1"
	"huolala.cn/app-operator/internal/apply"
	"huolala.cn/app-operator/internal/reconciler"
	"huolala.cn/app-operator/internal/stored"
	"huolala.cn/app-operator/resource"
)

// kind is a kind of custom resource: all that differs between the controllers, except for their steps.
type kind struct {
	// name is the kind, manager the field owner of all that its resources apply.
	name, manager string
	// podLabel is the label of pods and volume claims that names the resource that they belong to.
	podLabel string
	// empty returns an empty resource as it is stored, list an empty list of such.
	empty func() client.Object
	list  func() client.ObjectList
	// index is the index of the cache that finds the resources by the names of their children, which childNames returns. It
	// is empty for a kind whose children have the name of the resource.
	index      string
	childNames client.IndexerFunc
	// scalable is true for a kind that an autoscaler can scale.
	scalable bool
	// reconciler returns what reconciles a resource.
	reconciler func(*Deps) reconcile.Reconciler
	// watchMore adds watches that only this kind has. It may be nil.
	watchMore func(*kind, *Deps, *builder.Builder)
}

// kinds returns all kinds. The manager, the indexes, the check that the manager is ready and the tests range over it.
func kinds() []kind {
	return []kind{
		{
			name: resource.KindApp, manager: appManager, podLabel: appv1.LabelApp, scalable: true,
			empty: func() client.Object { return &stored.App{} },
			list:  func() client.ObjectList { return &stored.AppList{} },
			reconciler: func(s *Deps) reconcile.Reconciler {
				return newSkeleton(s, resource.KindApp, appManager, func() reconciler.Stored[*appv1.App] { return &stored.App{} },
					(&AppReconciler{Deps: *s}).steps)
			},
		},
		{
			name: resource.KindModelBox, manager: modelBoxManager, podLabel: appv1.LabelModelBox, scalable: true,
			empty: func() client.Object { return &stored.ModelBox{} },
			list:  func() client.ObjectList { return &stored.ModelBoxList{} },
			reconciler: func(s *Deps) reconcile.Reconciler {
				return newSkeleton(s, resource.KindModelBox, modelBoxManager, func() reconciler.Stored[*appv1.ModelBox] { return &stored.ModelBox{} },
					(&ModelBoxReconciler{Deps: *s}).steps)
			},
		},
		{
			name: resource.KindUnitedDeployment, manager: unitedDeploymentManager, podLabel: appv1.LabelUnitedDeployment,
			empty: func() client.Object { return &stored.UnitedDeployment{} },
			list:  func() client.ObjectList { return &stored.UnitedDeploymentList{} },
			index: stored.IndexDeployment, childNames: unitedDeploymentChildNames,
			reconciler: func(s *Deps) reconcile.Reconciler {
				return newSkeleton(s, resource.KindUnitedDeployment, unitedDeploymentManager,
					func() reconciler.Stored[*appv1.UnitedDeployment] { return &stored.UnitedDeployment{} },
					(&UnitedDeploymentReconciler{Deps: *s}).steps)
			},
			watchMore: watchCompeting,
		},
		{
			name: resource.KindCloudManager, manager: cloudManagerManager, podLabel: appv1.LabelCloudManager,
			empty: func() client.Object { return &stored.CloudManager{} },
			list:  func() client.ObjectList { return &stored.CloudManagerList{} },
			index: indexWanted, childNames: cloudManagerChildNames,
			reconciler: func(s *Deps) reconcile.Reconciler {
				return newSkeleton(s, resource.KindCloudManager, cloudManagerManager,
					func() reconciler.Stored[*appv1.CloudManager] { return &stored.CloudManager{} },
					(&CloudManagerReconciler{Deps: *s}).steps)
			},
		},
	}
}

// setupWithManager adds the controller of a kind to the manager.
func (k *kind) setupWithManager(mgr ctrl.Manager, s *Deps) error {
	b := ctrl.NewControllerManagedBy(mgr).WithOptions(retryOptions()).For(k.empty(), builder.WithPredicates(userChanged()))
	for i := range apply.Types {
		row := &apply.Types[i]
		if row.Scope == apply.ScopeLive {
			continue
		}
		var opts []builder.WatchesOption
		if row.Wakes != nil {
			opts = append(opts, builder.WithPredicates(row.Wakes))
		}
		b.Watches(row.Object, handler.EnqueueRequestsFromMapFunc(k.mapFunc(s, row.Role)), opts...)
	}
	if k.watchMore != nil {
		k.watchMore(k, s, b)
	}
	return s.watchSizes(b, k.list()).Complete(k.reconciler(s))
}

// mapFunc returns the function that maps an object of a role to the resources that it concerns.
func (k *kind) mapFunc(s *Deps, role apply.Role) handler.MapFunc {
	switch role {
	case apply.RoleClaim, apply.RolePod:
		return mapByLabel(k.podLabel)
	case apply.RoleScaler:
		return func(ctx context.Context, obj client.Object) []ctrl.Request { return k.mapScaleTarget(ctx, s, obj) }
	}
	return func(ctx context.Context, obj client.Object) []ctrl.Request { return k.mapOwnedOrNamed(ctx, s, obj) }
}
