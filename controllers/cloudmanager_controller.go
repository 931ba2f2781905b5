package controllers

import (
	"context"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appv1 "huolala.cn/app-operator/api/v1"
	"huolala.cn/app-operator/internal/reconciler"
	"huolala.cn/app-operator/internal/stored"
	"huolala.cn/app-operator/resource"
)

// cloudManagerManager is the field owner of all that CloudManagers apply.
const cloudManagerManager = "app-operator/cloudmanager"

// The roles of the tiers, as resource states them in a label.
const (
	roleDatabase = "db"
	roleIdentity = "identity"
	roleFront    = "front"
)

// CloudManagerReconciler makes a CloudManager's database, and then, one after the other, its tiers.
type CloudManagerReconciler struct {
	Deps
}

// +kubebuilder:rbac:groups=app.huolala.cn,resources=cloudmanagers,verbs=get;list;watch
// +kubebuilder:rbac:groups=app.huolala.cn,resources=cloudmanagers/status,verbs=patch
// +kubebuilder:rbac:groups=app.huolala.cn,resources=cloudmanagers/finalizers,verbs=update
// +kubebuilder:rbac:groups=apps,resources=statefulsets,verbs=get;list;watch;create;patch;delete
// +kubebuilder:rbac:groups="",resources=secrets,verbs=get;create;patch;delete
// +kubebuilder:rbac:groups="",resources=persistentvolumeclaims,verbs=get;list;watch;patch

// steps makes true what the CloudManager means, tier by tier, and says how the tiers are doing.
func (r *CloudManagerReconciler) steps(ctx context.Context, obj *appv1.CloudManager, undecodable error) (reconciler.Report, error) {
	if undecodable != nil {
		return reconciler.Report{}, invalidResource(undecodable)
	}
	cm := obj.DeepCopy()
	cm.DefaultNames()
	s, err := r.observeTiers(ctx, cm)
	if err != nil {
		return reconciler.Report{}, err
	}
	s.reconcileTiers(ctx)
	kept := r.retainPreviousTiers(ctx, s)
	removed, err := r.removePrevious(ctx, s)
	if err = reconciler.Aggregate(append(s.tierErrors(), kept, err)...); isStale(err) {
		return reconciler.Report{}, err
	}
	return s.newReport(obj, removed), err
}

// findPrevious returns what the CloudManager controls and, by its name, no longer wants, by the role that it has.
func (r *CloudManagerReconciler) findPrevious(ctx context.Context, cm *appv1.CloudManager) (map[string][]client.Object, error) {
	owned, err := r.Engine.Observe(ctx, cm, cloudManagerManager)
	if err != nil {
		return nil, err
	}
	db, identity, front := cm.Spec.DB.StatefulSet.Name, cm.Spec.Identity.Deployment.Name, cm.Spec.Front.Deployment.Name
	wanted := []client.Object{withName(&appsv1.StatefulSet{}, db), withName(&corev1.Service{}, resource.HeadlessName(db))}
	for _, name := range []string{identity, front} {
		wanted = append(wanted, withName(&appsv1.Deployment{}, name))
	}
	for _, name := range []string{db, identity, front} {
		wanted = append(wanted, withName(&corev1.Service{}, name))
	}
	found := map[string][]client.Object{}
	for _, obj := range owned.Without(wanted...) {
		role := obj.GetLabels()[appv1.LabelComponent]
		if role != roleDatabase && role != roleIdentity {
			role = roleFront
		}
		found[role] = append(found[role], obj)
	}
	return found, nil
}

// withName returns an object that has a name.
func withName(obj client.Object, name string) client.Object {
	obj.SetName(name)
	return obj
}

// cloudManagerChildNames returns the names of the children of a stored CloudManager, none for one that cannot be decoded.
func cloudManagerChildNames(obj client.Object) []string {
	kept, ok := obj.(*stored.CloudManager)
	if !ok {
		return nil
	}
	cm, err := kept.Decode()
	if err != nil {
		return nil
	}
	cm.DefaultNames()
	db := cm.Spec.DB.StatefulSet.Name
	return []string{db, resource.HeadlessName(db), cm.Spec.Identity.Deployment.Name, cm.Spec.Front.Deployment.Name}
}
