// Package tiers has the plan of the tiers of a CloudManager. From the observation of the tiers, and from the outcomes of the tiers that
// were applied, the plan decides which spec of the next tier is applied, what the tier waits for, which objects of earlier names are
// removed, and what the status reports. The package reads and writes no object: equal values make equal plans.
package tiers

import (
	"errors"
	"fmt"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appv1 "huolala.cn/app-operator/api/v1"
	"huolala.cn/app-operator/internal/health"
	"huolala.cn/app-operator/internal/reconciler"
	"huolala.cn/app-operator/resource"
)

// Row has the properties of a tier that are the same in all CloudManagers.
type Row struct {
	Role resource.Tier
	// phase is the phase of a CloudManager while the tier starts, condition the condition that reports the tier.
	phase     appv1.Phase
	condition string
	// after is the tier's gate: it is created only once all these tiers are available.
	after []resource.Tier
}

// Rows are the tiers in the order in which they are applied.
var Rows = []Row{
	{Role: resource.TierDatabase, phase: appv1.PhaseDatabase, condition: appv1.ConditionDatabaseReady},
	{
		Role: resource.TierIdentity, phase: appv1.PhaseIdentity, condition: appv1.ConditionIdentityReady,
		after: []resource.Tier{resource.TierDatabase},
	},
	{
		Role: resource.TierFront, phase: appv1.PhaseFront, condition: appv1.ConditionFrontReady,
		after: []resource.Tier{resource.TierDatabase, resource.TierIdentity},
	},
}

// Availability has the state of a workload object.
type Availability struct {
	// exists is true if there is an object of the name, owned if the CloudManager controls it.
	exists, owned bool
	// available is true if others can rely on it. observed is false until its controller has observed its latest generation.
	observed, available bool
}

// AvailabilityOf returns the state of a live workload object by the figures of its status. live may be nil.
func AvailabilityOf(live client.Object, owner metav1.Object) Availability {
	var observed int64
	var replicas *int32
	var ready int32
	switch live := live.(type) {
	case *appsv1.Deployment:
		observed, replicas, ready = live.Status.ObservedGeneration, live.Spec.Replicas, live.Status.ReadyReplicas
	case *appsv1.StatefulSet:
		observed, replicas, ready = live.Status.ObservedGeneration, live.Spec.Replicas, live.Status.ReadyReplicas
	default:
		return Availability{observed: true}
	}
	if !metav1.IsControlledBy(live, owner) {
		return Availability{exists: true, observed: true}
	}
	known := observed >= live.GetGeneration()
	return Availability{exists: true, owned: true, observed: known, available: known && health.Up(ptr.Deref(replicas, 1), ready)}
}

// State has the observation, the decision and the outcome of a tier.
type State struct {
	Row
	Name string
	// Availability is the state of the workload object, after the apply of the tier once the tier was applied.
	Availability Availability
	// Selector has the labels by which the workload object selects its pods, as it was before the apply; nil if there was none.
	Selector map[string]string
	// Existed is true if there was a workload object before, by the status.
	Existed bool
	// LacksSecret is true if a pod of it waits for a Secret.
	LacksSecret bool
	// Previous are the tier's objects of earlier names. PreviousSpec is the spec of the workload object among them, as the operator
	// has recorded it; it is empty if there is none, or several.
	Previous     []client.Object
	PreviousSpec string
	// Retaining is true while previous objects must not be deleted yet, as their volumes are to be retained.
	Retaining bool
	// LastSpec is the last applied spec of the tier's name, where objects of earlier names are left; empty if there is none.
	LastSpec string
	// SharesService is true if the spec of the workload object in PreviousSpec has a Service of the name of the present one.
	SharesService bool
	// Taken is why the present spec is not in force, as another tier has a name of it; nil for a tier whose names are free.
	Taken *Taken

	Decision
	Outcome
}

// Action selects the spec of a tier that is applied.
type Action int

const (
	// Applied is a tier whose present spec is applied.
	Applied Action = iota
	// Kept is a tier that exists and keeps its last applied spec, as a tier before it is being replaced by one of another name.
	Kept
	// Blocked is a tier that never existed, and is not created before its gate is open.
	Blocked
)

// Decision has the action for a tier.
type Decision struct {
	Action Action
	// waitsFor is the name of the tier that it waits for, empty unless it is kept or blocked.
	waitsFor string
}

// Outcome has the result of the apply of a tier.
type Outcome struct {
	Report reconciler.Report
	Err    error
	// LastApplied is the record of an earlier spec that was applied in the place of the present one, empty if none was.
	LastApplied string
	Status      appv1.WorkloadStatus
	// SecretChecked is true for a database whose Secret was found, or made, as it should be.
	SecretChecked bool
	// Service is the state of the Service of the present spec.
	Service ServiceState
}

// ServiceState has the state of the Service that leads to a tier.
type ServiceState struct {
	// Lacking is true if the tier has no Service and is to have one: it is missing, belongs to another owner, or leads to the component of the earlier name.
	Lacking bool
	// Held is true while the Service leads to the component of the earlier name.
	Held bool
	// Grace is the time that is left to the clients of a Service of an earlier name to follow to this one.
	Grace time.Duration
}

// Plan is the plan of one CloudManager in one reconcile.
type Plan struct {
	CloudManager *appv1.CloudManager
	// Tiers are in the order of Rows. Those whose turn was have an outcome.
	Tiers []State
}

// Tier returns the state of the tier of a role.
func (p *Plan) Tier(role resource.Tier) *State {
	i := slices.IndexFunc(p.Tiers, func(t State) bool { return t.Role == role })
	return &p.Tiers[i]
}

// Decide decides what is applied of a tier, once all tiers in its gate have had their turn. A tier that exists, or did, is kept
// as the spec asks even if another fails. The exception is a tier before it that is to be replaced by one of another name: this
// tier must not use the new one before it is available, and keeps its last applied spec. A tier that has, or had, objects does not wait for a tier without
// any whose name is taken: the tier that has the name may wait for this one.
func (p *Plan) Decide(i int) Decision {
	t := &p.Tiers[i]
	d, replacing := Decision{}, false
	for _, role := range t.after {
		gate := p.Tier(role)
		if gate.isUnmade() && (t.Existed || t.hasFormer()) {
			continue
		}
		replacing = replacing || gate.isReplaced()
		if d.waitsFor == "" && gate.isClosed() {
			d.waitsFor = gate.Name
		}
	}
	switch {
	case d.waitsFor == "":
	case !t.Availability.owned && !t.Existed:
		d.Action = Blocked
	case replacing:
		d.Action = Kept
	default:
		d.waitsFor = ""
	}
	return d
}

// isClosed reports whether no other tier may be led to this one: it is not available, an object of its name has another owner, or it lacks its
// Service.
func (t *State) isClosed() bool {
	var stalled *reconciler.StalledError
	return !t.Availability.available || t.Service.Lacking || t.isWithheld() || errors.As(t.Err, &stalled) && stalled.Reason == appv1.ReasonResourceExists
}

// isReplaced reports whether the tier has objects of earlier names, or of a name that is no longer its own, and no other tier may be led to the new ones yet.
func (t *State) isReplaced() bool {
	return t.isClosed() && !t.isUnmade() && (len(t.Previous) > 0 || t.isWithheld())
}

// isWithheld reports whether nothing of the tier is written, as another tier has a name of its spec.
func (t *State) isWithheld() bool { return t.Taken != nil && t.Taken.Withheld }

// trouble returns the error to report of the tier.
func (t *State) trouble() error {
	if t.Taken == nil {
		return t.Err
	}
	var waiting *reconciler.WaitingError
	if t.Err == nil && errors.As(t.Taken.Err, &waiting) && !t.Report.Pods.Ready { // The other tier may wait for this one.
		words := fmt.Sprintf(messageNameAwaitedDown, waiting.Message, t.Report.Pods.Message)
		if t.Report.Pods.Stalled {
			return reconciler.Stalled(waiting.Reason, "%s", words)
		}
		return reconciler.Waiting(waiting.Reason, "%s", words)
	}
	return reconciler.Aggregate(t.Err, t.Taken.Err)
}

// KnowsGates reports whether the specs in force of the tiers in a tier's gate are known, so that the tier can be recreated as it was last applied.
func (p *Plan) KnowsGates(i int) bool {
	return !slices.ContainsFunc(p.Tiers[i].after, func(role resource.Tier) bool {
		gate := p.Tier(role)
		return gate.isReplaced() && gate.LastApplied == "" && gate.PreviousSpec == "" && gate.formerService() == ""
	})
}

// NoteOutcome notes the decision and the outcome of a tier.
func (p *Plan) NoteOutcome(i int, decided Decision, now Availability, outcome Outcome) {
	t := &p.Tiers[i]
	t.Decision, t.Availability, t.Outcome = decided, now, outcome
	if t.Action != Applied && !now.owned && t.Err == nil {
		t.Report.Pods.Reason, t.Report.Pods.Message = appv1.ReasonDependencyNotReady, t.waitMessage()
	}
}

// waitMessage returns what the tier waits for: before it is created, or before it follows the present spec.
func (t *State) waitMessage() string {
	if t.Action == Kept {
		return fmt.Sprintf(messageTierKept, t.Name, t.waitsFor)
	}
	return fmt.Sprintf(messageTierWaits, t.Name, t.waitsFor)
}

// SpecInForce returns the CloudManager that a tier is built from: with the specs of the tiers before it that are in force. Of a tier
// whose spec is refused that is the last applied one, and of a tier with a new name, or with a Service of a new name, the earlier one, until other
// tiers can be led to the new one.
func (p *Plan) SpecInForce(i int) *appv1.CloudManager {
	cm := p.CloudManager
	for j := range p.Tiers[:i] {
		t := &p.Tiers[j]
		switch former := t.formerService(); {
		case t.LastApplied != "":
			cm = WithRecord(cm, t.Role, t.LastApplied)
		case !t.isClosed():
		case former != "":
			cm = cm.DeepCopy()
			t.Role.Component(cm).Service.Name = former
		default:
			cm = WithRecord(cm, t.Role, t.PreviousSpec)
		}
	}
	return cm
}

// formerService returns the name of the Service that a tier had before its Service alone was renamed, empty if there is none.
func (t *State) formerService() string {
	former := ""
	for _, obj := range t.Previous {
		service, ok := obj.(*corev1.Service)
		if ok && t.Role == resource.TierDatabase && service.Name == resource.HeadlessName(service.Spec.Selector[appv1.LabelPart]) {
			continue // The Service of the StatefulSet, next to the Service that the clients use.
		}
		if !ok || former != "" {
			return ""
		}
		former = service.Name
	}
	return former
}

// WithRecord returns the CloudManager with a component as a record has it, the same one if the record cannot be read.
func WithRecord(cm *appv1.CloudManager, role resource.Tier, record string) *appv1.CloudManager {
	if record == "" {
		return cm
	}
	past, err := resource.CloudManagerFromRecord(cm, role, record)
	if err != nil {
		return cm
	}
	return past
}

// RecordOfOnly returns the recorded spec of the one workload object among some objects, empty if there is none, or several, or if
// the record is not the manager's own.
func RecordOfOnly(objects []client.Object, owns func(client.Object) bool) string {
	var records []string
	for _, obj := range objects {
		if _, service := obj.(*corev1.Service); !service && owns(obj) {
			records = append(records, obj.GetAnnotations()[appv1.AnnotationLastAppliedSpec])
		}
	}
	if len(records) != 1 {
		return ""
	}
	return records[0]
}

// passwordReasons are the reasons of a database whose Secret is not as it should be.
var passwordReasons = []string{appv1.ReasonPasswordLost, appv1.ReasonPasswordMismatch, appv1.ReasonSecretNotFound}

// NeedsSecretCheck reports whether the database's Secret must be read: where that was not done for this spec, where the database is
// to be created, where a pod lacks a Secret, and until trouble with the Secret is over. Secrets are not watched, and each read is a request.
func (p *Plan) NeedsSecretCheck() bool {
	c := meta.FindStatusCondition(p.CloudManager.Status.Conditions, appv1.ConditionPasswordInClearText)
	if is := meta.FindStatusCondition(p.CloudManager.Status.Conditions, appv1.ConditionDatabaseReady); is != nil && slices.Contains(passwordReasons, is.Reason) {
		return true
	}
	return c == nil || c.ObservedGeneration != p.CloudManager.Generation || !p.Tier(resource.TierDatabase).Availability.exists ||
		slices.ContainsFunc(p.Tiers, func(t State) bool { return t.LacksSecret })
}

// LacksSecret reports whether a pod waits for a Secret.
func LacksSecret(pods []corev1.Pod) bool {
	return slices.ContainsFunc(pods, func(pod corev1.Pod) bool {
		return health.CauseOf(&pod).Reason == appv1.ReasonContainerConfigError
	})
}

// ChildNames returns the names of the objects of a CloudManager that states the names of its components.
func ChildNames(cm *appv1.CloudManager) []string {
	db := cm.Spec.DB.StatefulSet.Name
	names := []string{db, resource.HeadlessName(db), cm.Spec.Identity.Deployment.Name, cm.Spec.Front.Deployment.Name}
	for _, row := range Rows {
		if name := serviceName(row.Role.Component(cm)); !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return names
}

// ServiceName returns the name of the Service of a tier.
func ServiceName(cm *appv1.CloudManager, role resource.Tier) string {
	return serviceName(role.Component(cm))
}

// serviceName returns the name of a component's Service.
func serviceName(c *appv1.Component) string { return c.ServiceName(c.Name) }

// NoteRepair adds to a tier's report what was repaired of its objects of an earlier name.
func (p *Plan) NoteRepair(i int, repair reconciler.Event) {
	p.Tiers[i].Report.Event.AddChanges(repair.Action, repair.Changes)
}

// Errors returns the errors of all tiers.
func (p *Plan) Errors() []error {
	errs := make([]error, len(p.Tiers))
	for i := range p.Tiers {
		errs[i] = p.Tiers[i].trouble()
	}
	return errs
}
