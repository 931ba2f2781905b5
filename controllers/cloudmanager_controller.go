package controllers

import (
	"cmp"
	"context"
	"errors"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"

	appv1 "huolala.cn/app-operator/api/v1"
	"huolala.cn/app-operator/api/v1/validation"
	"huolala.cn/app-operator/internal/apply"
	"huolala.cn/app-operator/internal/children"
	"huolala.cn/app-operator/internal/database"
	"huolala.cn/app-operator/internal/fields"
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
	r.ForgetRenamed(resource.KindCloudManager, plan.CloudManager, rememberedNames(plan, observed)...)
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

// observedTier has the observation of a tier, and the name and the errors of its present spec.
type observedTier struct {
	stated string
	errs   field.ErrorList
	seen   *workload.Observed
}

// observeTiers returns the observations of the tiers, and the plan that begins with these. A tier whose name is another tier's is observed by its last applied
// spec.
func (r *CloudManagerReconciler) observeTiers(ctx context.Context, cm *appv1.CloudManager) ([]observedTier, *tiers.Plan, error) {
	owned, err := r.Engine.Observe(ctx, cm, resource.KindCloudManager.FieldManager())
	if err != nil {
		return nil, nil, err
	}
	invalid := validation.CloudManager(cm)
	observed := []observedTier{{errs: invalid.Database}, {errs: invalid.Identity}, {errs: invalid.Front}}
	for i, row := range tiers.Rows {
		observed[i].stated = row.Role.Component(cm).Name
	}
	cm, taken := tiers.FreeNames(cm, owned, signs)
	previous := tiers.PreviousObjects(cm, owned, signs)
	plan := &tiers.Plan{CloudManager: cm}
	for i, row := range tiers.Rows {
		in := newTierInput(cm, row.Role, nil, false)
		seen, err := r.observeTier(ctx, in)
		if err != nil {
			return nil, nil, err
		}
		observed[i].seen = seen
		record := tiers.RecordOfOnly(previous[row.Role], func(obj client.Object) bool { return tiers.HasRole(obj) && signs.OwnsRecord(obj) })
		own := tiers.OwnObject(seen.Object, row.Role, signs)
		last := ""
		if len(previous[row.Role]) > 0 {
			last = seen.LastSpec(in)
		}
		plan.Tiers = append(plan.Tiers, tiers.State{
			Row: row, Name: in.Name, Availability: tiers.AvailabilityOf(own, cm), Selector: tiers.SelectorOf(own), Existed: in.HadWorkload(),
			LacksSecret: tiers.LacksSecret(seen.Pods), Previous: previous[row.Role], PreviousSpec: record,
			LastSpec: last, SharesService: tiers.SharesService(cm, row.Role, record), Taken: taken[row.Role],
		})
	}
	return observed, plan, nil
}

// signs reports which marks of the objects of a CloudManager are the operator's own. A label of others that an object keeps is in a record.
var signs = tiers.Signs{
	OwnsRole: func(obj client.Object) bool {
		manager := resource.KindCloudManager.FieldManager()
		return fields.OwnsPath(obj, manager, fieldpath.MakePathOrDie("metadata", "labels", appv1.LabelComponent)) ||
			children.OwnsAnnotation(obj, manager, appv1.AnnotationKeptLabels) && apply.KeepsLabel(obj, appv1.LabelComponent)
	},
	OwnsRecord: (&workload.Input{Kind: resource.KindCloudManager}).OwnsRecord,
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
	t, decided := &plan.Tiers[i], plan.Decide(i)
	in := newTierInput(plan.SpecInForce(i), t.Role, tier.errs, decided.Action != tiers.Applied)
	switch taken := t.Taken; {
	case taken == nil:
	case taken.Withheld:
		plan.NoteOutcome(i, decided, t.Availability, withheldOutcome(in, taken))
		return
	case len(tier.errs) > 0: // The errors say more than that the name is taken.
		t.Taken = nil
	}
	if plan.SpecOfPrevious(i) != nil { // A former Service that gives its node port away is recreated.
		in.Former = t.Previous
	}
	how := tierApply{
		checkSecret: plan.NeedsSecretCheck(), previous: in.Name != tier.stated, withoutService: plan.HeldService(i, tier.seen.Service),
	}
	applier := r.tierApplier(t.Role, how)
	if tier.seen.Object == nil && !plan.KnowsGates(i) {
		applier = leaveTier
	}
	done, err := r.ReconcileObserved(ctx, in, tier.seen, applier)
	inForce := tiers.WithRecord(plan.CloudManager, t.Role, done.LastApplied)
	service := r.serviceState(inForce, t, done.Seen)
	service.Held = how.withoutService != "" && slices.Contains([]string{tier.seen.ServiceName, tiers.ServiceName(inForce, t.Role)}, how.withoutService)
	service.Lacking = service.Lacking || service.Held && !r.IsPlan()
	plan.NoteOutcome(i, decided, tiers.AvailabilityOf(done.Seen.Object, plan.CloudManager), tiers.Outcome{
		Report: done.Report, Err: err, LastApplied: done.LastApplied, Status: done.Status.Workload, SecretChecked: done.SecretChecked, Service: service,
	})
}

// withheldOutcome returns the outcome of a tier whose objects are not written, as its name is another tier's.
func withheldOutcome(in *workload.Input, taken *tiers.Taken) tiers.Outcome {
	out := tiers.Outcome{Err: cmp.Or(workload.InvalidSpec(in.Errs), taken.Err), Status: in.Before.Workload}
	out.Report.Pods.Reason, out.Report.Pods.Message = reconciler.ReasonAndMessageOf(out.Err)
	if in.Paused {
		out.Report.Pause = reconciler.Paused
	}
	return out
}

// leaveTier is the Applier of a tier that must not be recreated.
func leaveTier(_ context.Context, _ *workload.Input, seen *workload.Observed, _ *resource.Workload, _ workload.How) *workload.ApplyResult {
	return &workload.ApplyResult{Seen: seen}
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
		state.Grace = r.RemainingServiceGrace(service, seen.AvailableSince(), seen.At, slices.ContainsFunc(t.Previous, hasAddress))
	}
	return state
}

// hasAddress reports whether an object is a Service to which a load balancer has given an address.
func hasAddress(obj client.Object) bool {
	service, ok := obj.(*corev1.Service)
	return ok && len(service.Status.LoadBalancer.Ingress) > 0
}

// tierApply has the options of the apply of a tier.
type tierApply struct {
	// checkSecret and previous are arguments of database.NewApplier.
	checkSecret, previous bool
	// withoutService is the name of a Service that another component has yet, or already, empty for none.
	withoutService string
}

// tierApplier returns the function that applies the objects of a tier.
func (r *CloudManagerReconciler) tierApplier(tier resource.Tier, how tierApply) workload.Applier {
	switch {
	case tier == resource.TierDatabase:
		return database.NewApplier(&r.Reconciler, how.checkSecret, how.previous, how.withoutService)
	case how.withoutService != "":
		return r.withoutService(how.withoutService)
	}
	return r.ApplyDeployment
}

// withoutService returns the function that applies a Deployment, and leaves a Service of a name as it is.
func (r *CloudManagerReconciler) withoutService(name string) workload.Applier {
	return func(ctx context.Context, in *workload.Input, seen *workload.Observed, w *resource.Workload, how workload.How) *workload.ApplyResult {
		if w.ServiceName != name {
			return r.ApplyDeployment(ctx, in, seen, w, how)
		}
		if seen.ServiceName != name {
			var err error
			if seen, err = workload.ObserveService(ctx, r.Client, in, seen, name); err != nil {
				return workload.FailApply(seen, err)
			}
		}
		unserved, before := *w, *seen
		unserved.Ports, before.Service = nil, nil
		done := *r.ApplyDeployment(ctx, in, &before, &unserved, how)
		after := *done.Seen
		after.Service, done.Seen = seen.Service, &after
		return &done
	}
}

// newTierInput returns the input of a tier of a CloudManager.
func newTierInput(cm *appv1.CloudManager, tier resource.Tier, errs field.ErrorList, mustWait bool) *workload.Input {
	name := tier.Component(cm).Name
	return &workload.Input{
		Owner: cm, Kind: resource.KindCloudManager, Name: name, Tier: tier, Spec: resource.TierSpec(cm, tier), Errs: errs,
		MustWait: mustWait, Paused: cm.Spec.Paused, Before: workload.Status{Workload: componentStatus(cm, tier, name)},
	}
}

// componentStatus returns the part of a CloudManager's status about the component of a tier, empty if the status is about a component of another name.
func componentStatus(cm *appv1.CloudManager, role resource.Tier, name string) appv1.WorkloadStatus {
	of := map[resource.Tier]appv1.TierStatus{
		resource.TierDatabase: cm.Status.DB, resource.TierIdentity: cm.Status.Identity, resource.TierFront: cm.Status.Front,
	}[role]
	if of.Name != name {
		return appv1.WorkloadStatus{}
	}
	return appv1.WorkloadStatus{Rendering: of.Rendering}
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
