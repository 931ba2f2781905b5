package controllers

import (
	"context"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appv1 "huolala.cn/app-operator/api/v1"
	"huolala.cn/app-operator/internal/apply"
	"huolala.cn/app-operator/internal/reconciler"
	"huolala.cn/app-operator/resource"
)

// retainPreviousTiers lets the volumes and Secrets of databases by earlier names outlive them if the spec says so now, whatever it
// said when they were made. Until that is done, they are not removed.
func (r *CloudManagerReconciler) retainPreviousTiers(ctx context.Context, s *tiers) error {
	db := s.tiers[0]
	if db.report.Paused || !ptr.Deref(s.cm.Spec.DB.StatefulSet.Storage.Retain, true) {
		return nil
	}
	req := &apply.Request{Owner: s.cm, Manager: cloudManagerManager}
	var errs []error
	for _, obj := range db.previous {
		if set, ok := obj.(*appsv1.StatefulSet); ok {
			errs = append(errs, r.retainPrevious(ctx, req, set))
		}
	}
	err := reconciler.Aggregate(errs...)
	db.keeps = err != nil
	return err
}

// retainPrevious lets the volumes and the Secret of a former database outlive it. The policy comes last, as it reports whether anything
// is left to do.
func (r *CloudManagerReconciler) retainPrevious(ctx context.Context, req *apply.Request, set *appsv1.StatefulSet) error {
	if deletesClaims(set) {
		secret, err := r.readSecret(ctx, client.ObjectKey{Namespace: set.Namespace, Name: resource.SecretName(set.Name)})
		if err != nil {
			return err
		}
		if secret != nil && metav1.IsControlledBy(secret, req.Owner) {
			resource.Guard(secret)
			if err := r.Engine.Retain(ctx, req, secret); err != nil {
				return err
			}
		}
		if err := r.Engine.KeepVolumes(ctx, req, set); err != nil {
			return err
		}
	}
	if set.Status.ObservedGeneration < set.Generation {
		return reconciler.Waiting(appv1.ReasonProgressing, messageRetainingVolumes, set.Name)
	}
	claims, err := r.listClaims(ctx, r.Client, client.ObjectKeyFromObject(set))
	if err != nil {
		return err
	}
	return claimsReleased(set, claims)
}

// claimsReleased returns what is left to be done before a StatefulSet leaves its claims behind, as it is to. Its controller takes
// its references off those of the pods that it has, and forgets those of pods that were scaled away. To do so here would take
// the permission to delete claims.
func claimsReleased(set *appsv1.StatefulSet, claims []corev1.PersistentVolumeClaim) error {
	if deletesClaims(set) || set.Status.ObservedGeneration < set.Generation {
		return nil
	}
	for i := range claims {
		name := claims[i].Name
		if !goesWith(&claims[i], set) {
			continue
		}
		if ordinal, _ := resource.ClaimOrdinal(set.Name, name); ordinal < ptr.Deref(set.Spec.Replicas, 1) {
			return reconciler.Waiting(appv1.ReasonProgressing, messageReleasingClaim, name, set.Name)
		}
		return reconciler.Stalled(appv1.ReasonVolumeResizeFailed,
			messageClaimNotReleased, name, set.Name)
	}
	return nil
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

// deletesClaims reports whether a StatefulSet takes its claims along when it is deleted.
func deletesClaims(set *appsv1.StatefulSet) bool {
	policy := set.Spec.PersistentVolumeClaimRetentionPolicy
	return policy != nil && policy.WhenDeleted == appsv1.DeletePersistentVolumeClaimRetentionPolicyType
}

// goesWith reports whether a claim goes with a StatefulSet.
func goesWith(claim *corev1.PersistentVolumeClaim, set *appsv1.StatefulSet) bool {
	for _, ref := range claim.OwnerReferences {
		if ref.UID == set.UID {
			return true
		}
	}
	return false
}
