package controllers

import (
	"context"
	"errors"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
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
	observed, plan, err := r.observeTiers(ctx, cm)
	if err != nil {
		return reconciler.Report{}, err
	}
	for i := range plan.tiers {
		r.applyTier(ctx, plan, i, &observed[i])
	}
	retained := r.retainPrevious(ctx, plan)
	repaired := r.repairPrevious(ctx, plan)
	removed, err := r.removePrevious(ctx, plan)
	if err = reconciler.Aggregate(append(plan.errors(), retained, repaired, err)...); errors.Is(err, reconciler.ErrStale) {
		return reconciler.Report{}, err
	}
	report := plan.reportTiers(obj, removed)
	meta.SetStatusCondition(&obj.Status.Conditions, observed[0].database.passwordCondition(obj))
	return report, err
}

// observedTier is what lives of a tier: of a Deployment and a Service, or of a database.
type observedTier struct {
	errs     field.ErrorList
	workload *state
	database *databaseState
}

// observeTiers observes the tiers, and returns the plan that begins with what was observed.
func (r *CloudManagerReconciler) observeTiers(ctx context.Context, cm *appv1.CloudManager) ([]observedTier, *tiersPlan, error) {
	owned, err := r.Engine.Observe(ctx, cm, resource.KindCloudManager.FieldManager())
	if err != nil {
		return nil, nil, err
	}
	previous := previousObjects(cm, owned)
	invalid := validation.CloudManager(cm)
	observed := []observedTier{{errs: invalid.Database}, {errs: invalid.Identity}, {errs: invalid.Front}}
	plan := &tiersPlan{cm: cm}
	for i, row := range tierRows {
		d, seen := r.newTarget(cm, row.role, nil), &observed[i]
		if err := r.observeTier(ctx, d, row.role, seen); err != nil {
			return nil, nil, err
		}
		plan.tiers = append(plan.tiers, tierState{
			tierRow: row, name: d.name, availability: availabilityOf(seen.object(), cm), existed: d.hadWorkload(),
			lacksSecret: lacksSecret(seen.pods()), previous: previous[row.role],
			previousSpec: recordOfOnly(previous[row.role], d.ownsRecord),
		})
	}
	return observed, plan, nil
}

// observeTier reads the objects of a tier from the cache.
func (r *CloudManagerReconciler) observeTier(ctx context.Context, d *target, role resource.Tier, seen *observedTier) (err error) {
	if role == resource.TierDatabase {
		seen.database, err = r.observeDatabase(ctx, d)
	} else {
		seen.workload, err = r.observeWorkload(ctx, d)
	}
	return err
}

// object returns the live workload object, nil if there is none.
func (o *observedTier) object() client.Object {
	if o.database != nil {
		return o.database.provenance().object
	}
	return o.workload.provenance().object
}

func (o *observedTier) pods() []corev1.Pod {
	if o.database != nil {
		return o.database.pods
	}
	return o.workload.pods
}

// applyTier applies of a tier what the plan decides, and notes the outcome in the plan.
func (r *CloudManagerReconciler) applyTier(ctx context.Context, plan *tiersPlan, i int, seen *observedTier) {
	decided := plan.decideTier(i)
	d := r.newTarget(plan.specInForce(i), tierRows[i].role, seen.errs)
	d.mustWait = decided.action != tierApplied
	objects := r.tierObjects(d, seen)
	if db, ok := objects.(*database); ok {
		db.checkSecret = plan.needsSecretCheck()
	}
	report, err := r.executeReconcile(ctx, d, objects)
	plan.noteOutcome(i, decided, availabilityOf(seen.object(), plan.cm),
		tierOutcome{report: report, err: err, lastApplied: d.kept, status: *d.status})
}

// tierObjects returns the objects of a tier, for what is observed of it.
func (r *CloudManagerReconciler) tierObjects(d *target, seen *observedTier) workloadObjects {
	if seen.database != nil {
		return &database{target: d, r: r, cm: seen.database.cm, seen: seen.database}
	}
	return &deploymentObjects{shared: &r.Deps, target: d, seen: seen.workload}
}

// newTarget is the workload that a tier of a CloudManager means.
func (r *CloudManagerReconciler) newTarget(cm *appv1.CloudManager, tier resource.Tier, errs field.ErrorList) *target {
	spec := tier.Component(cm)
	return &target{
		owner:   cm,
		manager: resource.KindCloudManager.FieldManager(),
		name:    spec.Name,
		spec:    resource.TierSpec(cm, tier),
		errs:    errs,
		status:  componentStatus(cm, spec.Name),
		tier:    spec.Name,
		paused:  cm.Spec.Paused,
	}
}

// componentStatus is what the status of a CloudManager says of the component of a name.
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

// cloudManagerChildNames returns the names of the children of a stored CloudManager, none for one that cannot be decoded.
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
