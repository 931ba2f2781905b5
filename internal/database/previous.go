package database

import (
	"context"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appv1 "huolala.cn/app-operator/api/v1"
	"huolala.cn/app-operator/internal/apply"
	"huolala.cn/app-operator/internal/reconciler"
	"huolala.cn/app-operator/internal/workload"
	"huolala.cn/app-operator/resource"
)

// Retain lets the volumes and the Secret of a former database outlive it. The policy comes last, as it reports whether anything
// is left to do.
func Retain(ctx context.Context, r *workload.Reconciler, req *apply.Request, set *appsv1.StatefulSet) error {
	if deletesClaims(set) {
		secret, err := readSecret(ctx, r.Live, client.ObjectKey{Namespace: set.Namespace, Name: resource.SecretName(set.Name)})
		if err != nil {
			return err
		}
		if secret != nil && metav1.IsControlledBy(secret, req.Owner) {
			resource.Guard(secret)
			kept, err := r.Engine.Retain(ctx, *req, secret, r.Mode)
			if err != nil {
				return err
			}
			r.Journal.Note(&kept)
		}
		kept, err := r.Engine.KeepVolumes(ctx, *req, set, r.Mode)
		if err != nil {
			return err
		}
		r.Journal.Note(&kept)
	}
	if set.Status.ObservedGeneration < set.Generation {
		return reconciler.Waiting(appv1.ReasonProgressing, messageRetainingVolumes, set.Name)
	}
	claims, err := readClaims(ctx, r, client.ObjectKeyFromObject(set))
	if err != nil {
		return err
	}
	return claimsReleased(set, claims)
}

// PreviousSecret returns the Secret to delete with a former database, nil if there is none: one whose volumes are not to
// outlive it, and that the spec does not name.
func PreviousSecret(ctx context.Context, r *workload.Reconciler, cm *appv1.CloudManager, set *appsv1.StatefulSet) (client.Object, error) {
	key := client.ObjectKeyFromObject(set)
	if !deletesClaims(set) {
		// The cache may not show yet what is the StatefulSet's to take along.
		claims, err := listClaims(ctx, r.Live, key)
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
	name := resource.SecretName(key.Name)
	if ref := cm.Spec.DB.RootPassSecretRef; ref != nil && ref.Name == name {
		return nil, nil // The present database has its password from there.
	}
	secret, err := readSecret(ctx, r.Live, client.ObjectKey{Namespace: key.Namespace, Name: name})
	if err != nil || secret == nil {
		return nil, err
	}
	return secret, nil
}
