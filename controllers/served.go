package controllers

import (
	"context"

	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/source"

	appv1 "huolala.cn/app-operator/api/v1"
	"huolala.cn/app-operator/internal/content"
	"huolala.cn/app-operator/internal/reconciler"
	"huolala.cn/app-operator/internal/workload"
	"huolala.cn/app-operator/resource"
)

// servedStatus has the parts of the status of an App or a ModelBox.
type servedStatus struct {
	workload *appv1.WorkloadStatus
	serving  *appv1.ServingStatus
	history  *appv1.HistoryStatus
	release  *appv1.ReleaseStatus
	defaults *appv1.DefaultsStatus
}

// workloadStatus returns the parts.
func (s *servedStatus) workloadStatus() workload.Status {
	return workload.Status{Workload: *s.workload, Serving: *s.serving, History: *s.history, Release: *s.release, Defaults: *s.defaults}
}

// set writes the parts.
func (s *servedStatus) set(status *workload.Status) {
	*s.workload, *s.serving, *s.history = status.Workload, status.Serving, status.History
	*s.release, *s.defaults = status.Release, status.Defaults
}

// newServedKind returns the kind App or ModelBox. partsOf returns the parts of a resource that its steps need.
func newServedKind[T reconciler.Resource](
	of resource.Kind, empty func() reconciler.Stored[T], list func() client.ObjectList,
	partsOf func(T) (spec resource.Spec, paused bool, status servedStatus),
) kind {
	k := newKind(of, empty, list, func(d *Deps) reconciler.Steps[T] {
		return func(ctx context.Context, obj T, undecodable error) (reconciler.Report, error) {
			spec, paused, status := partsOf(obj)
			before := status.workloadStatus()
			done, err := d.Reconcile(ctx, workload.NewServedInput(of, obj, spec, paused, undecodable, d.Disabled, before))
			if is := done.Status.Defaults.Defaults; is != nil && is.Wave != nil {
				if runsInForce(&done, err) {
					workload.NoteReady(&done.Status.Defaults)
				}
				if !reconciler.IsReady(&done.Report, err) {
					workload.NoteLoss(&done.Status.Defaults, &before.Defaults, meta.FindStatusCondition(obj.CommonStatus().Conditions, appv1.ConditionReady), d.Clock.Now())
				}
			}
			status.set(&done.Status)
			return done.Report, err
		}
	})
	k.seesAutoscaler, k.watchMore = true, watchContent
	return k
}

// runsInForce reports whether the pods are ready and all objects have the spec in force, which a hold, a rollback or a canary may have chosen: such a resource is
// not Ready, and its defaults are not the cause.
func runsInForce(done *workload.Result, err error) bool {
	return err == nil && done.PodsReady && done.Report.Pause != reconciler.Pending
}

// watchContent adds the source of reconciles for followed content that has changed.
func watchContent(k *kind, s *Deps, _ *waker, b *builder.Builder) {
	b.WatchesRawSource(source.Func(func(_ context.Context, queue content.Queue) error {
		s.Content.Register(k.Name, queue)
		return nil
	}))
}
