package controllers

import (
	"context"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appv1 "huolala.cn/app-operator/api/v1"
	"huolala.cn/app-operator/internal/apply"
	"huolala.cn/app-operator/internal/reconciler"
	"huolala.cn/app-operator/internal/tiers"
	"huolala.cn/app-operator/resource"
)

// retainPrevious lets the volumes and Secrets of databases by earlier names outlive them if the spec says so now, whatever it said
// when they were made. Until that is done, they are not removed.
func (r *CloudManagerReconciler) retainPrevious(ctx context.Context, plan *tiers.Plan) error {
	if !plan.RetainsPrevious() {
		return nil
	}
	db := plan.Tier(resource.TierDatabase)
	req := &apply.Request{Owner: plan.CloudManager, Manager: resource.KindCloudManager.FieldManager()}
	var errs []error
	for _, obj := range db.Previous {
		if set, ok := obj.(*appsv1.StatefulSet); ok {
			errs = append(errs, r.retainDatabase(ctx, req, set))
		}
	}
	err := reconciler.Aggregate(errs...)
	db.Retaining = err != nil
	return err
}

// retainDatabase lets the volumes and the Secret of a former database outlive it. The policy comes last, as it reports whether anything
// is left to do.
func (r *CloudManagerReconciler) retainDatabase(ctx context.Context, req *apply.Request, set *appsv1.StatefulSet) error {
	if deletesClaims(set) {
		secret, err := r.readSecret(ctx, client.ObjectKey{Namespace: set.Namespace, Name: resource.SecretName(set.Name)})
		if err != nil {
			return err
		}
		if secret != nil && metav1.IsControlledBy(secret, req.Owner) {
			resource.Guard(secret)
			kept, err := r.Engine.Retain(ctx, *req, secret, r.Mode)
			if err != nil {
				return err
			}
			r.journal.noteOutcome(&kept)
		}
		kept, err := r.Engine.KeepVolumes(ctx, *req, set, r.Mode)
		if err != nil {
			return err
		}
		r.journal.noteOutcome(&kept)
	}
	if set.Status.ObservedGeneration < set.Generation {
		return reconciler.Waiting(appv1.ReasonProgressing, messageRetainingVolumes, set.Name)
	}
	claims, err := r.readClaims(ctx, client.ObjectKeyFromObject(set))
	if err != nil {
		return err
	}
	return claimsReleased(set, claims)
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
		report, err := r.repairTier(ctx, past, plan.Tiers[i].Role)
		errs = append(errs, err)
		plan.NoteRepair(i, &report)
	}
	return reconciler.Aggregate(errs...)
}

// repairTier repairs the objects of a tier by an earlier name.
func (r *CloudManagerReconciler) repairTier(ctx context.Context, past *appv1.CloudManager, role resource.Tier) (report reconciler.Report, err error) {
	d := r.newTarget(past, role, nil, false)
	seen, err := r.observeTier(ctx, d)
	if err != nil || d.paused {
		return report, err
	}
	d.status.Rendering = resource.RenderingLatest // It existed: the owner is read before a Service is recreated.
	workload, record, err := r.newDecider(d, seen).lastApplied()
	r.Records.remember(d.recordKey(), remembrance{record: record})
	if workload == nil || err != nil {
		return report, err
	}
	done := r.tierApplier(d, false, true)(ctx, seen, workload, application{earlier: true})
	reportApplied(&report, done)
	return report, done.err
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
				secret, err := r.previousSecret(ctx, set)
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
	done, err := r.applyRequest(ctx, &req, r.Mode)
	if err == nil {
		for _, obj := range req.Prune {
			r.Records.forgetRecord(recordKey{resource.KindCloudManager.FieldManager(), client.ObjectKeyFromObject(plan.CloudManager), obj.GetName()})
		}
	}
	return done.Changes(), reconciler.Aggregate(append(errs, lookAgain(err))...)
}

// previousSecret returns the Secret to delete with a former database, nil if there is none: one whose volumes are not to
// outlive it.
func (r *CloudManagerReconciler) previousSecret(ctx context.Context, set *appsv1.StatefulSet) (client.Object, error) {
	key := client.ObjectKeyFromObject(set)
	if !deletesClaims(set) {
		// The cache may not show yet what is the StatefulSet's to take along.
		claims, err := r.listClaims(ctx, r.Live, key)
		if err != nil {
			return nil, err
		}
		for i := range claims {
			if goesWith(&claims[i], set) {
				return nil, fmt.Errorf("%w: claim %s", reconciler.ErrStale, claims[i].Name)
			}
		}
		return nil, nil
	}
	secret, err := r.readSecret(ctx, client.ObjectKey{Namespace: key.Namespace, Name: resource.SecretName(key.Name)})
	if err != nil || secret == nil {
		return nil, err
	}
	return secret, nil
}
