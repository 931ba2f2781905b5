package controllers

import (
	"context"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appv1 "huolala.cn/app-operator/api/v1"
	"huolala.cn/app-operator/internal/apply"
	"huolala.cn/app-operator/internal/database"
	"huolala.cn/app-operator/internal/reconciler"
	"huolala.cn/app-operator/internal/tiers"
	"huolala.cn/app-operator/internal/workload"
	"huolala.cn/app-operator/resource"
)

// retainPrevious lets the volumes and Secrets of databases by earlier names outlive them if the present spec retains them, whatever
// the spec was when they were made. Until that is done, they are not removed.
func (r *CloudManagerReconciler) retainPrevious(ctx context.Context, plan *tiers.Plan) error {
	if !plan.RetainsPrevious() {
		return nil
	}
	db := plan.Tier(resource.TierDatabase)
	req := &apply.Request{Owner: plan.CloudManager, Manager: resource.KindCloudManager.FieldManager()}
	var errs []error
	for _, obj := range db.Previous {
		if set, ok := obj.(*appsv1.StatefulSet); ok {
			errs = append(errs, database.Retain(ctx, &r.Reconciler, req, set))
		}
	}
	err := reconciler.Aggregate(errs...)
	db.Retaining = err != nil
	return err
}

// repairPrevious repairs the objects of tiers by earlier names, which serve until they are removed, by the spec that was last applied
// of them.
func (r *CloudManagerReconciler) repairPrevious(ctx context.Context, plan *tiers.Plan) error {
	var errs []error
	for i := range plan.Tiers {
		past := plan.SpecOfPrevious(i)
		if past == nil {
			continue
		}
		event, err := r.repairTier(ctx, past, &plan.Tiers[i], plan.Tiers[i].Role.Component(plan.CloudManager))
		errs = append(errs, err)
		plan.NoteRepair(i, event)
	}
	return reconciler.Aggregate(errs...)
}

// newPreviousInput returns the input of a tier by an earlier name. The tier existed, so the owner is read before a Service is recreated.
func newPreviousInput(past *appv1.CloudManager, role resource.Tier) *workload.Input {
	in := newTierInput(past, role, nil, false)
	in.Existed = true
	return in
}

// repairTier repairs the objects of a tier by an earlier name. The Service of the present component has its node ports. A Service that both have is the earlier one's
// until the present one is available.
func (r *CloudManagerReconciler) repairTier(
	ctx context.Context, past *appv1.CloudManager, t *tiers.State, present *appv1.Component,
) (event reconciler.Event, err error) {
	in := newPreviousInput(past, t.Role)
	seen, err := r.observeTier(ctx, in)
	if err != nil || in.Paused {
		return event, err
	}
	last, err := r.LastApplied(in, seen)
	if last == nil || err != nil {
		return event, err
	}
	how := tierApply{previous: true}
	if !t.Service.Held {
		last = last.WithoutNodePorts(present.Ports)
		if t.SharesService {
			how.withoutService = last.ServiceName
		}
	}
	done := r.tierApplier(t.Role, how)(ctx, in, seen, last, workload.How{Earlier: true})
	return done.EventOf(), done.Err
}

// rememberedNames returns the names of the components whose memory is kept: the names that a tier states, has in force, or still has objects of.
func rememberedNames(plan *tiers.Plan, observed []observedTier) (names []string) {
	for i := range plan.Tiers {
		names = append(names, plan.Tiers[i].Name, observed[i].stated)
		for _, obj := range plan.Tiers[i].Previous { // A Service can have another name than its component, which its selector names.
			names = append(names, obj.GetName())
			if service, ok := obj.(*corev1.Service); ok {
				names = append(names, service.Spec.Selector[appv1.LabelPart])
			}
		}
	}
	return names
}

// removePrevious deletes the objects of tiers by earlier names that the plan lets go.
func (r *CloudManagerReconciler) removePrevious(ctx context.Context, plan *tiers.Plan) (apply.ChangeSet, error) {
	req := apply.Request{Owner: plan.CloudManager, Manager: resource.KindCloudManager.FieldManager()}
	var errs []error
	for i := range plan.Tiers {
		if !plan.CanRemovePrevious(i) {
			continue
		}
		for _, obj := range plan.Tiers[i].Previous {
			if set, ok := obj.(*appsv1.StatefulSet); ok {
				secret, err := database.PreviousSecret(ctx, &r.Reconciler, plan.CloudManager, set)
				if err != nil {
					errs = append(errs, err)
					continue
				}
				if secret != nil {
					// Before the StatefulSet, by which it is found.
					req.Prune = append(req.Prune, secret)
				}
			}
			req.Prune = append(req.Prune, obj)
		}
	}
	if len(req.Prune) == 0 {
		return nil, reconciler.Aggregate(errs...)
	}
	done, err := r.RunRequest(ctx, &req, r.Mode)
	if err == nil {
		for _, obj := range req.Prune {
			key := workload.Key{Manager: resource.KindCloudManager.FieldManager(), Owner: client.ObjectKeyFromObject(plan.CloudManager), Workload: obj.GetName()}
			r.Records.Forget(key)
			r.Records.RememberReplaced(key, plan.CloudManager.UID, nil)
		}
	}
	// An object that has finalizers is still there.
	return done.Changes(), reconciler.Aggregate(append(errs, database.LookAgain(err), done.Trouble())...)
}
