package controllers

import (
	"context"
	"errors"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appv1 "huolala.cn/app-operator/api/v1"
	"huolala.cn/app-operator/api/v1/validation"
	"huolala.cn/app-operator/internal/database"
	"huolala.cn/app-operator/internal/health"
	"huolala.cn/app-operator/internal/reconciler"
	"huolala.cn/app-operator/internal/stored"
	"huolala.cn/app-operator/internal/tiers"
	"huolala.cn/app-operator/internal/workload"
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
		func(s *Deps) reconciler.Steps[*appv1.CloudManager] {
			return (&CloudManagerReconciler{Deps: *s}).reconcileSteps
		})
	k.index, k.childNames = indexWanted, cloudManagerChildNames
	return k
}

// +kubebuilder:rbac:groups=app.huolala.cn,resources=cloudmanagers,verbs=get;list;watch
// +kubebuilder:rbac:groups=app.huolala.cn,resources=cloudmanagers/status,verbs=patch
// +kubebuilder:rbac:groups=app.huolala.cn,resources=cloudmanagers/finalizers,verbs=update
// +kubebuilder:rbac:groups=apps,resources=statefulsets,verbs=get;list;watch;create;patch;delete
// +kubebuilder:rbac:groups="",resources=secrets,verbs=get;create;patch;delete
// +kubebuilder:rbac:groups="",resources=persistentvolumeclaims,verbs=get;list;watch;patch

// reconcileSteps observes the tiers, applies one after the other as the plan decides, and reports how they are doing.
func (r *CloudManagerReconciler) reconcileSteps(ctx context.Context, obj *appv1.CloudManager, undecodable error) (reconciler.Report, error) {
	if undecodable != nil {
		return pausedReport(obj), workload.InvalidResource(undecodable)
	}
	cm := obj.DeepCopy()
	cm.DefaultNames()
	observed, plan, err := r.observeTiers(ctx, cm)
	if err != nil {
		return reconciler.Report{}, err
	}
	for i := range plan.Tiers {
		r.applyTier(ctx, plan, i, &observed[i])
	}
	retained := r.retainPrevious(ctx, plan)
	repaired := r.repairPrevious(ctx, plan)
	removed, err := r.removePrevious(ctx, plan)
	if err = reconciler.Aggregate(append(plan.Errors(), retained, repaired, err)...); errors.Is(err, reconciler.ErrStale) {
		_, report := plan.Report(&obj.Status, removed)
		return reconciler.Report{Event: report.Event}, err
	}
	status, report := plan.Report(&obj.Status, removed)
	obj.Status = status
	report.AddCondition(database.PasswordCondition(obj, plan.Tiers[0].Name, plan.Tiers[0].SecretChecked))
	return report, err
}

// observedTier has the observation of a tier, and the errors of its spec.
type observedTier struct {
	errs field.ErrorList
	seen *workload.Observed
}

// observeTiers returns the observations of the tiers, and the plan that begins with these.
func (r *CloudManagerReconciler) observeTiers(ctx context.Context, cm *appv1.CloudManager) ([]observedTier, *tiers.Plan, error) {
	owned, err := r.Engine.Observe(ctx, cm, resource.KindCloudManager.FieldManager())
	if err != nil {
		return nil, nil, err
	}
	previous := tiers.PreviousObjects(cm, owned)
	invalid := validation.CloudManager(cm)
	observed := []observedTier{{errs: invalid.Database}, {errs: invalid.Identity}, {errs: invalid.Front}}
	plan := &tiers.Plan{CloudManager: cm}
	for i, row := range tiers.Rows {
		in := newTierInput(cm, row.Role, nil, false)
		seen, err := r.observeTier(ctx, in)
		if err != nil {
			return nil, nil, err
		}
		observed[i].seen = seen
		plan.Tiers = append(plan.Tiers, tiers.State{
			Row: row, Name: in.Name, Availability: tiers.AvailabilityOf(seen.Object, cm), Existed: in.HadWorkload(),
			LacksSecret: tiers.LacksSecret(seen.Pods), Previous: previous[row.Role],
			PreviousSpec: tiers.RecordOfOnly(previous[row.Role], func(obj client.Object) bool { return tiers.HasRole(obj) && in.OwnsRecord(obj) }),
		})
	}
	return observed, plan, nil
}

// observeTier reads the objects of a tier from the cache.
func (r *CloudManagerReconciler) observeTier(ctx context.Context, in *workload.Input) (*workload.Observed, error) {
	if in.Tier == resource.TierDatabase {
		return database.Observe(ctx, &r.Reconciler, in)
	}
	return r.Observe(ctx, in)
}

// applyTier applies of a tier what the plan decides, and notes the outcome in the plan.
func (r *CloudManagerReconciler) applyTier(ctx context.Context, plan *tiers.Plan, i int, tier *observedTier) {
	decided := plan.Decide(i)
	in := newTierInput(plan.SpecInForce(i), tiers.Rows[i].Role, tier.errs, decided.Action != tiers.Applied)
	if plan.SpecOfPrevious(i) != nil { // A former Service that gives its node port away is recreated.
		in.Former = plan.Tiers[i].Previous
	}
	done, err := r.ReconcileObserved(ctx, in, tier.seen, r.tierApplier(tiers.Rows[i].Role, plan.NeedsSecretCheck(), false))
	plan.NoteOutcome(i, decided, tiers.AvailabilityOf(done.Seen.Object, plan.CloudManager), tiers.Outcome{
		Report: done.Report, Err: err, LastApplied: done.LastApplied, Status: done.Status.Workload, SecretChecked: done.SecretChecked,
		Service: r.serviceState(tiers.WithRecord(plan.CloudManager, tiers.Rows[i].Role, done.LastApplied), &plan.Tiers[i], done.Seen),
	})
}

// serviceState returns the state of a tier's Service after the apply of the spec in force. A plan has what follows, too, so in a plan a missing Service is there.
func (r *CloudManagerReconciler) serviceState(cm *appv1.CloudManager, t *tiers.State, seen *workload.Observed) tiers.ServiceState {
	var state tiers.ServiceState
	component := t.Role.Component(cm)
	if len(component.Ports) == 0 && t.Role == resource.TierIdentity { // The other tiers have a default port.
		return state
	}
	service, wanted := seen.Service, component.ServiceName(component.Name)
	switch {
	case service == nil, service.Name != wanted:
		state.Lacking = !r.IsPlan()
	case !metav1.IsControlledBy(service, cm):
		state.Lacking = true
	case !r.IsPlan():
		awaits := !health.Service(service).Ready && slices.ContainsFunc(t.Previous, hasAddress)
		state.Grace = r.RemainingServiceGrace(service, seen.AvailableSince(), seen.At, awaits)
	}
	return state
}

// hasAddress reports whether an object is a Service to which a load balancer has given an address.
func hasAddress(obj client.Object) bool {
	service, ok := obj.(*corev1.Service)
	return ok && len(service.Status.LoadBalancer.Ingress) > 0
}

// tierApplier returns the function that applies the objects of a tier; see database.NewApplier for checkSecret and previous.
func (r *CloudManagerReconciler) tierApplier(tier resource.Tier, checkSecret, previous bool) workload.Applier {
	if tier == resource.TierDatabase {
		return database.NewApplier(&r.Reconciler, checkSecret, previous)
	}
	return r.ApplyDeployment
}

// newTierInput returns the input of a tier of a CloudManager.
func newTierInput(cm *appv1.CloudManager, tier resource.Tier, errs field.ErrorList, mustWait bool) *workload.Input {
	name := tier.Component(cm).Name
	return &workload.Input{
		Owner: cm, Kind: resource.KindCloudManager, Name: name, Tier: tier, Spec: resource.TierSpec(cm, tier), Errs: errs,
		MustWait: mustWait, Paused: cm.Spec.Paused, Before: workload.Status{Workload: componentStatus(cm, name)},
	}
}

// componentStatus returns the part of a CloudManager's status about the component of a name.
func componentStatus(cm *appv1.CloudManager, name string) appv1.WorkloadStatus {
	var status appv1.WorkloadStatus
	for _, tier := range []appv1.TierStatus{cm.Status.DB, cm.Status.Identity, cm.Status.Front} {
		if tier.Name == name {
			status.Rendering = tier.Rendering
		}
	}
	return status
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
	return tiers.ChildNames(cm)
}
