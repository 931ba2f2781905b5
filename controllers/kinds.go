package controllers

import (
	"context"

	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"huolala.cn/app-operator/internal/children"
	"huolala.cn/app-operator/internal/reconciler"
	"huolala.cn/app-operator/resource"
)

// kind is a kind of custom resource as its controller has it: all that differs between the controllers, except for their steps.
type kind struct {
	resource.Kind
	// manager is the field owner of all that its resources apply.
	manager string
	// seesAutoscaler is true for a kind whose status reports the autoscaler of a resource itself.
	seesAutoscaler bool
	// empty returns an empty resource as it is stored, list an empty list of such.
	empty func() client.Object
	list  func() client.ObjectList
	// index is the index of the cache that finds the resources by the names of their children, or of the App that a Task names, which
	// childNames returns. It is empty for a kind whose children have the name of the resource.
	index      string
	childNames client.IndexerFunc
	// reconciler returns what reconciles a resource.
	reconciler func(*kind, *Deps) reconcile.Reconciler
	// plan returns the steps by which a plan is computed, the same steps as in the reconciler.
	plan func(*Deps) planFunc
	// watchMore adds watches that only this kind has. It may be nil.
	watchMore func(*kind, *Deps, *waker, *builder.Builder)
}

// newKind returns a kind whose steps are given. stored returns an empty resource as it is stored.
func newKind[T reconciler.Resource](
	kindOf resource.Kind, stored func() reconciler.Stored[T], list func() client.ObjectList, steps func(*Deps) reconciler.Steps[T],
) kind {
	return kind{
		Kind: kindOf, manager: kindOf.FieldManager(), empty: func() client.Object { return stored() }, list: list,
		reconciler: func(k *kind, s *Deps) reconcile.Reconciler { return newSkeleton(s, k, stored, steps(s)) },
		plan:       func(s *Deps) planFunc { return planSteps(steps(s)) },
	}
}

// allKinds returns the controllers' part of all kinds in resource.Kinds. The manager, the indexes, the check that the manager is ready and
// the tests range over it.
func allKinds() []kind {
	return []kind{appKind(), modelBoxKind(), unitedDeploymentKind(), cloudManagerKind(), taskKind()}
}

// setupWithManager adds the controller of a kind to the manager.
func (k *kind) setupWithManager(mgr ctrl.Manager, s *Deps) error {
	options := queueOptions(mgr.GetControllerOptions().MaxConcurrentReconciles, existsIn(mgr.GetCache(), k.empty))
	b := ctrl.NewControllerManagedBy(mgr).WithOptions(options).For(k.empty(), builder.WithPredicates(userChanged()))
	w := newWaker(k, s)
	for i := range children.Types {
		row := &children.Types[i]
		if !s.watched.isShared(row) || !k.watchesType(row) {
			continue
		}
		var opts []builder.WatchesOption
		if row.Wakes != nil {
			opts = append(opts, builder.WithPredicates(row.Wakes))
		}
		b.Watches(row.Object, w.handler(k.wakeFunc(s, row.Role)), opts...)
	}
	if k.watchMore != nil {
		k.watchMore(k, s, w, b)
	}
	if k.Serves {
		watchGrants(k, s, b)
	}
	if k.Serves || k.Scheduled {
		b.WatchesRawSource(s.ClusterKinds.Source(k.manager, func(row *children.Type) handler.EventHandler {
			if !k.watchesType(row) {
				return handler.Funcs{}
			}
			return w.handler(k.wakeFunc(s, row.Role))
		}))
	}
	return s.watchDefaults(b, w).Complete(holdAnswers(s.answers, k.reconciler(k, s)))
}

// watchesType reports whether objects of a type concern resources of the kind.
func (k *kind) watchesType(row *children.Type) bool {
	if k.Scheduled {
		return row.Scheduled || row.Role.Has(children.RoleJob|children.RolePod)
	}
	return !row.Scheduled
}

// namesService reports whether a resource of the kind can state a name for its Service, which indexService finds it by. The index
// of a CloudManager has the names of its components.
func (k *kind) namesService() bool {
	_, ok := k.empty().(serviceNamer)
	return ok
}

// wakeFunc returns the function that maps an object of a role to the resources that it concerns.
func (k *kind) wakeFunc(s *Deps, role children.Role) wakeFunc {
	if role.Has(children.RoleClaim | children.RolePod) {
		return k.mapPods(s)
	}
	if k.Scheduled {
		return k.mapScheduled(s)
	}
	return func(ctx context.Context, obj client.Object) wakeUps {
		found := k.mapOwnedOrNamed(ctx, s, obj)
		if role.Has(children.RoleScaler) {
			found = found.with(k.mapScaleTarget(ctx, s, obj))
		}
		return found
	}
}
