package controllers

import (
	"context"
	"errors"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appv1 "huolala.cn/app-operator/api/v1"
	"huolala.cn/app-operator/api/v1/validation"
	"huolala.cn/app-operator/internal/apply"
	"huolala.cn/app-operator/internal/reconciler"
	"huolala.cn/app-operator/internal/stored"
	"huolala.cn/app-operator/resource"
)

// CloudManagerReconciler makes the tiers of a CloudManager, one after the other: the database, identity and front.
type CloudManagerReconciler struct {
	Deps
}

// cloudManagerKind is the kind CloudManager.
func cloudManagerKind() kind {
	k := newKind(resource.KindCloudManager, func() reconciler.Stored[*appv1.CloudManager] { return &stored.CloudManager{} },
		func() client.ObjectList { return &stored.CloudManagerList{} },
		func(s *Deps) reconciler.Steps[*appv1.CloudManager] { return (&CloudManagerReconciler{Deps: *s}).steps })
	k.index, k.childNames = indexWanted, cloudManagerChildNames
	return k
}

// +kubebuilder:rbac:groups=app.huolala.cn,resources=cloudmanagers,verbs=get;list;watch
// +kubebuilder:rbac:groups=app.huolala.cn,resources=cloudmanagers/status,verbs=patch
// +kubebuilder:rbac:groups=app.huolala.cn,resources=cloudmanagers/finalizers,verbs=update
// +kubebuilder:rbac:groups=apps,resources=statefulsets,verbs=get;list;watch;create;patch;delete
// +kubebuilder:rbac:groups="",resources=secrets,verbs=get;create;patch;delete
// +kubebuilder:rbac:groups="",resources=persistentvolumeclaims,verbs=get;list;watch;patch

// steps observes the tiers, applies one after the other as the plan decides, and reports how they are doing.
func (r *CloudManagerReconciler) steps(ctx context.Context, obj *appv1.CloudManager, undecodable error) (reconciler.Report, error) {
	if undecodable != nil {
		return reconciler.Report{}, invalidResource(undecodable)
	}
	cm := obj.DeepCopy()
	cm.DefaultNames()
	tiers, plan, err := r.observeTiers(ctx, cm)
	if err != nil {
		return reconciler.Report{}, err
	}
	for i := range plan.tiers {
		r.applyTier(ctx, plan, i, &tiers[i])
	}
	retained := r.retainPrevious(ctx, plan)
	repaired := r.repairPrevious(ctx, plan)
	removed, err := r.removePrevious(ctx, plan)
	if err = reconciler.Aggregate(append(plan.errors(), retained, repaired, err)...); errors.Is(err, reconciler.ErrStale) {
		return reconciler.Report{}, err
	}
	report := plan.reportTiers(obj, removed)
	report.AddCondition(passwordCondition(obj, plan.tiers[0].name, plan.tiers[0].secretChecked))
	return report, err
}

// observedTier has the observation of a tier, and the errors of its spec.
type observedTier struct {
	errs field.ErrorList
	seen *observed
}

// observeTiers returns the observations of the tiers, and the plan that begins with these.
func (r *CloudManagerReconciler) observeTiers(ctx context.Context, cm *appv1.CloudManager) ([]observedTier, *tiersPlan, error) {
	owned, err := r.Engine.Observe(ctx, cm, resource.KindCloudManager.FieldManager())
	if err != nil {
		return nil, nil, err
	}
	previous := previousObjects(cm, owned)
	invalid := validation.CloudManager(cm)
	tiers := []observedTier{{errs: invalid.Database}, {errs: invalid.Identity}, {errs: invalid.Front}}
	plan := &tiersPlan{cm: cm}
	for i, row := range tierRows {
		d := r.newTarget(cm, row.role, nil, false)
		seen, err := r.observeTier(ctx, d)
		if err != nil {
			return nil, nil, err
		}
		tiers[i].seen = seen
		plan.tiers = append(plan.tiers, tierState{
			tierRow: row, name: d.name, availability: availabilityOf(seen.object, cm), existed: d.hadWorkload(),
			lacksSecret: lacksSecret(seen.pods), previous: previous[row.role],
			previousSpec: recordOfOnly(previous[row.role], d.ownsRecord),
		})
	}
	return tiers, plan, nil
}

// observeTier reads the objects of a tier from the cache.
func (r *CloudManagerReconciler) observeTier(ctx context.Context, d *target) (*observed, error) {
	if d.database {
		return r.observeDatabase(ctx, d)
	}
	return r.observeWorkload(ctx, d)
}

// applyTier applies of a tier what the plan decides, and notes the outcome in the plan.
func (r *CloudManagerReconciler) applyTier(ctx context.Context, plan *tiersPlan, i int, tier *observedTier) {
	decided := plan.decideTier(i)
	d := r.newTarget(plan.specInForce(i), tierRows[i].role, tier.errs, decided.action != tierApplied)
	done, err := r.executeReconcile(ctx, d, tier.seen, r.tierApplier(d, plan.needsSecretCheck(), false))
	plan.noteOutcome(i, decided, availabilityOf(done.seen.object, plan.cm), tierOutcome{
		report: done.report, err: err, lastApplied: done.lastApplied, status: *d.status, secretChecked: done.secretChecked,
	})
}

// tierApplier returns what applies the objects of a tier; for checkSecret and previous see database.
func (r *CloudManagerReconciler) tierApplier(d *target, checkSecret, previous bool) applier {
	cm, ok := d.owner.(*appv1.CloudManager)
	if ok && d.database {
		return (&database{target: d, r: r, cm: cm, checkSecret: checkSecret, previous: previous}).apply
	}
	return func(ctx context.Context, seen *observed, w *resource.Workload, how application) *applied {
		return r.applyWorkload(ctx, d, seen, w, how)
	}
}

// newTarget is the workload that a tier of a CloudManager means.
func (r *CloudManagerReconciler) newTarget(cm *appv1.CloudManager, tier resource.Tier, errs field.ErrorList, mustWait bool) *target {
	spec := tier.Component(cm)
	return &target{
		owner:    cm,
		manager:  resource.KindCloudManager.FieldManager(),
		name:     spec.Name,
		tier:     spec.Name,
		database: tier == resource.TierDatabase,
		spec:     resource.TierSpec(cm, tier),
		errs:     errs,
		status:   componentStatus(cm, spec.Name),
		mustWait: mustWait,
		paused:   cm.Spec.Paused,
	}
}

// componentStatus returns the part of a CloudManager's status about the component of a name.
func componentStatus(cm *appv1.CloudManager, name string) *appv1.WorkloadStatus {
	status := &appv1.WorkloadStatus{}
	for _, tier := range []appv1.TierStatus{cm.Status.DB, cm.Status.Identity, cm.Status.Front} {
		if tier.Name == name {
			status.Rendering = tier.Rendering
		}
	}
	return status
}

// previousObjects returns what the CloudManager controls and, by its name, no longer wants, by the tier that it is of.
func previousObjects(cm *appv1.CloudManager, owned apply.Inventory) map[resource.Tier][]client.Object {
	db, identity, front := cm.Spec.DB.StatefulSet.Name, cm.Spec.Identity.Deployment.Name, cm.Spec.Front.Deployment.Name
	wanted := []client.Object{withName(&appsv1.StatefulSet{}, db), withName(&corev1.Service{}, resource.HeadlessName(db))}
	for _, name := range []string{identity, front} {
		wanted = append(wanted, withName(&appsv1.Deployment{}, name))
	}
	for _, row := range tierRows {
		wanted = append(wanted, withName(&corev1.Service{}, serviceName(row.role.Component(cm))))
	}
	previous := map[resource.Tier][]client.Object{}
	for _, obj := range owned.Without(wanted...) {
		role := resource.Tier(apply.OperatorLabel(obj, appv1.LabelComponent))
		if role != resource.TierDatabase && role != resource.TierIdentity {
			role = resource.TierFront
		}
		previous[role] = append(previous[role], obj)
	}
	return previous
}

// withName returns an object that has a name.
func withName(obj client.Object, name string) client.Object {
	obj.SetName(name)
	return obj
}

// cloudManagerChildNames returns the names of the children of a stored CloudManager, none for a spec that cannot be decoded.
func cloudManagerChildNames(obj client.Object) []string {
	kept, ok := obj.(*stored.CloudManager)
	if !ok {
		return nil
	}
	if names, dropped := kept.IndexNames(); dropped {
		return names
	}
	cm, err := kept.Decode()
	if err != nil {
		return nil
	}
	cm.DefaultNames()
	return childNames(cm)
}
