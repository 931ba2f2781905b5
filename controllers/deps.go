package controllers

import (
	"context"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"huolala.cn/app-operator/internal/answers"
	"huolala.cn/app-operator/internal/content"
	"huolala.cn/app-operator/internal/reconciler"
	"huolala.cn/app-operator/internal/waves"
	"huolala.cn/app-operator/internal/workload"
)

// Deps has the values that all controllers share.
type Deps struct {
	workload.Reconciler
	// Recorder sends events.
	Recorder events.EventRecorder
	// Disabled are the features that are switched off.
	Disabled []string
	// Pending remembers which state of a paused resource the plan in its status describes.
	Pending *pendingPlans
	// defaults reads the AppDefaults. The Reconciler takes defaults and sizes from them.
	defaults *Defaults
	// grants are the waves of Apps, as the Reconciler has them.
	grants *waves.Grants
	// watched has the types that are watched, and how.
	watched watchSet
	// answers bounds the long answers of the API server that reconciles and plans hold, nil for no bound.
	answers *answers.Budget
}

// holdAnswers returns a reconciler whose reconciles hold their long answers to their end.
func holdAnswers(budget *answers.Budget, next reconcile.Reconciler) reconcile.Reconciler {
	return reconcile.Func(func(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
		held, release := budget.Hold(ctx)
		defer release()
		return next.Reconcile(held, req)
	})
}

// newSkeleton returns the reconciler of a kind, with its steps.
func newSkeleton[T reconciler.Resource](s *Deps, k *kind, empty func() reconciler.Stored[T], steps reconciler.Steps[T]) *reconciler.Reconciler[T] {
	return &reconciler.Reconciler[T]{
		Kind:     k.Name,
		Client:   s.Client,
		Recorder: s.Recorder,
		Clock:    s.Clock,
		New:      empty,
		Steps:    steps,
		OnReport: func(ctx context.Context, obj T, report *reconciler.Report, err error) {
			s.reportPending(ctx, k, obj, report, err)
		},
		OnDeleted: func(name types.NamespacedName) {
			s.Engine.Forget(name, k.manager)
			s.Records.ForgetOwner(k.manager, name)
			s.PodCauses.ForgetOwner(k.manager, name)
			s.Pending.forget(pendingKey{manager: k.manager, owner: name})
			s.Content.Forget(content.Owner{Kind: k.Name, NamespacedName: name})
			s.grants.Forget(waves.ID{Kind: k.Name, NamespacedName: name})
		},
	}
}
