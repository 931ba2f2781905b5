package controllers

import (
	"context"

	"sigs.k8s.io/controller-runtime/pkg/client"

	appv1 "huolala.cn/app-operator/api/v1"
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

// reconcileServed reconciles an App or a ModelBox, writes the parts of its status, and reports the health of its pods.
func (d *Deps) reconcileServed(
	ctx context.Context, k resource.Kind, owner client.Object, spec resource.Spec, paused bool, undecodable error, status servedStatus,
) (reconciler.Report, error) {
	done, err := d.Reconcile(ctx, workload.NewServedInput(k, owner, spec, paused, undecodable, d.Disabled, status.workloadStatus()))
	status.set(&done.Status)
	return done.Report, err
}
