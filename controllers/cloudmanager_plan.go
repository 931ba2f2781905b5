package controllers

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appv1 "huolala.cn/app-operator/api/v1"
	"huolala.cn/app-operator/internal/apply"
	"huolala.cn/app-operator/internal/health"
	"huolala.cn/app-operator/internal/reconciler"
	"huolala.cn/app-operator/resource"
)

// The plan of a CloudManager decides, from what was observed and from the outcome of the tiers so far, what is applied of the next
// tier, what it waits for, which objects of earlier names are removed, and what the status says. Nothing in this file reads or
// writes an object; cloudmanager_controller.go carries out what is decided here.

// tierRow is a tier as it is the same in all CloudManagers.
type tierRow struct {
	role resource.Tier
	// phase is that of a CloudManager while the tier is starting, condition the condition that reports the tier.
	phase     appv1.Phase
	condition string
	// after is the tier's gate: it is created only once all these tiers are available.
	after []resource.Tier
}

// tierRows are the tiers in the order in which they are applied.
var tierRows = []tierRow{
	{role: resource.TierDatabase, phase: appv1.PhaseDatabase, condition: appv1.ConditionDatabaseReady},
	{
		role: resource.TierIdentity, phase: appv1.PhaseIdentity, condition: appv1.ConditionIdentityReady,
		after: []resource.Tier{resource.TierDatabase},
	},
	{
		role: resource.TierFront, phase: appv1.PhaseFront, condition: appv1.ConditionFrontReady,
		after: []resource.Tier{resource.TierDatabase, resource.TierIdentity},
	},
}

// availability is how a workload object is doing.
type availability struct {
	// exists is true if there is an object of the name, owned if the CloudManager controls it.
	exists, owned bool
	// available is true if others can rely on it. observed is false until its controller has observed its latest generation.
	observed, available bool
}

// availabilityOf returns how a live workload object is doing, by the figures of its status. live may be nil.
func availabilityOf(live client.Object, owner metav1.Object) availability {
	var observed int64
	var replicas *int32
	var ready int32
	switch live := live.(type) {
	case *appsv1.Deployment:
		observed, replicas, ready = live.Status.ObservedGeneration, live.Spec.Replicas, live.Status.ReadyReplicas
	case *appsv1.StatefulSet:
		observed, replicas, ready = live.Status.ObservedGeneration, live.Spec.Replicas, live.Status.ReadyReplicas
	default:
		return availability{observed: true}
	}
	if !metav1.IsControlledBy(live, owner) {
		return availability{exists: true, observed: true}
	}
	known := observed >= live.GetGeneration()
	return availability{exists: true, owned: true, observed: known, available: known && health.Up(ptr.Deref(replicas, 1), ready)}
}

// tierState is what the plan knows of a tier.
type tierState struct {
	tierRow
	name string
	// availability is how its workload object is doing; after the tier was applied, how it does then.
	availability availability
	// existed is true if there was a workload object before, by the status.
	existed bool
	// lacksSecret is true if a pod of it waits for a Secret.
	lacksSecret bool
	// previous are the tier's objects of earlier names. previousSpec is the spec of the workload object among them, as the operator
	// has recorded it; it is empty if there is none, or several.
	previous     []client.Object
	previousSpec string
	// retaining is true while previous objects must not be deleted yet, as their volumes are to be retained.
	retaining bool

	tierDecision
	tierOutcome
}

// tierAction is what is applied of a tier.
type tierAction int

const (
	// tierApplied is a tier whose present spec is applied.
	tierApplied tierAction = iota
	// tierKept is a tier that exists and keeps its last applied spec, as a tier before it is being replaced by one of another name.
	tierKept
	// tierBlocked is a tier that never existed, and is not created before its gate is open.
	tierBlocked
)

// tierDecision is what is to be applied of a tier.
type tierDecision struct {
	action tierAction
	// waitsFor is the name of the tier that it waits for, empty unless it is kept or blocked.
	waitsFor string
}

// tierOutcome is what came of the apply of a tier.
type tierOutcome struct {
	report reconciler.Report
	err    error
	// lastApplied is the record of an earlier spec that was applied in the place of the present one, empty if none was.
	lastApplied string
	status      appv1.WorkloadStatus
	// secretChecked is true for a database whose Secret was found, or made, as it should be.
	secretChecked bool
}

// tiersPlan is the plan of one CloudManager in one reconcile.
type tiersPlan struct {
	cm *appv1.CloudManager
	// tiers are in the order of tierRows. Those whose turn was have an outcome.
	tiers []tierState
}

// tier returns the state of the tier of a role.
func (p *tiersPlan) tier(role resource.Tier) *tierState {
	i := slices.IndexFunc(p.tiers, func(t tierState) bool { return t.role == role })
	return &p.tiers[i]
}

// decideTier decides what is applied of a tier, once all tiers in its gate have had their turn. A tier that exists, or did, is kept
// as the spec asks even if another fails. The exception is a tier before it that is to be replaced by one of another name: this
// tier must not use the new one before it is available, and keeps its last applied spec.
func (p *tiersPlan) decideTier(i int) tierDecision {
	t := &p.tiers[i]
	d, replacing := tierDecision{}, false
	for _, role := range t.after {
		gate := p.tier(role)
		replacing = replacing || len(gate.previous) > 0 && !gate.availability.available
		if d.waitsFor == "" && gate.closed() {
			d.waitsFor = gate.name
		}
	}
	switch {
	case d.waitsFor == "":
	case !t.availability.owned && !t.existed:
		d.action = tierBlocked
	case replacing:
		d.action = tierKept
	default:
		d.waitsFor = ""
	}
	return d
}

// closed reports whether no new tier may use this one: it is not available, or the object of its name has another owner.
func (t *tierState) closed() bool {
	var stalled *reconciler.StalledError
	return !t.availability.available || errors.As(t.err, &stalled) && stalled.Reason == appv1.ReasonResourceExists
}

// noteOutcome notes what came of a tier's turn.
func (p *tiersPlan) noteOutcome(i int, decided tierDecision, now availability, outcome tierOutcome) {
	t := &p.tiers[i]
	t.tierDecision, t.availability, t.tierOutcome = decided, now, outcome
	if t.action != tierApplied && !now.owned && t.err == nil {
		t.report.Pods.Reason, t.report.Pods.Message = appv1.ReasonDependencyNotReady, t.waitMessage()
	}
}

// waitMessage says what the tier waits for.
func (t *tierState) waitMessage() string {
	return fmt.Sprintf(messageTierWaits, t.name, t.waitsFor)
}

// specInForce returns the CloudManager that a tier is built from: with the specs of the tiers before it that are in force. Of a tier
// whose spec is refused that is the last applied one, and of a tier with a new name the earlier one, until the new one is
// available.
func (p *tiersPlan) specInForce(i int) *appv1.CloudManager {
	cm := p.cm
	for j := range p.tiers[:i] {
		t := &p.tiers[j]
		record := t.lastApplied
		if record == "" && !t.availability.available {
			record = t.previousSpec
		}
		cm = withRecord(cm, t.role, record)
	}
	return cm
}

// withRecord returns the CloudManager with a component as a record has it, the same one if the record cannot be read.
func withRecord(cm *appv1.CloudManager, role resource.Tier, record string) *appv1.CloudManager {
	if record == "" {
		return cm
	}
	past, err := resource.CloudManagerFromRecord(cm, role, record)
	if err != nil {
		return cm
	}
	return past
}

// recordOfOnly returns the recorded spec of the one workload object among some objects, empty if there is none, or several, or if
// the record is not the manager's own.
func recordOfOnly(objects []client.Object, owns func(client.Object) bool) string {
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

// needsSecretCheck reports whether the database's Secret must be read: where that was not done for this spec, where the database is
// to be created, and where a pod lacks a Secret. Secrets are not watched, and each read is a request.
func (p *tiersPlan) needsSecretCheck() bool {
	c := meta.FindStatusCondition(p.cm.Status.Conditions, appv1.ConditionPasswordInClearText)
	return c == nil || c.ObservedGeneration != p.cm.Generation || !p.tier(resource.TierDatabase).availability.exists ||
		slices.ContainsFunc(p.tiers, func(t tierState) bool { return t.lacksSecret })
}

// lacksSecret reports whether a pod waits for a Secret.
func lacksSecret(pods []corev1.Pod) bool {
	return slices.ContainsFunc(pods, func(pod corev1.Pod) bool {
		return health.CauseOf(&pod).Reason == appv1.ReasonContainerConfigError
	})
}

// retainsPrevious reports whether the volumes of databases of earlier names are to outlive these, whatever the spec said when they
// were created.
func (p *tiersPlan) retainsPrevious() bool {
	return p.tier(resource.TierDatabase).report.Pause == reconciler.NotPaused && ptr.Deref(p.cm.Spec.DB.StatefulSet.Storage.Retain, true)
}

// canRemovePrevious reports whether the objects of a tier's earlier names can be removed: the tier is available under its new name,
// and all pods of the tiers that use it have been replaced.
func (p *tiersPlan) canRemovePrevious(i int) bool {
	t := &p.tiers[i]
	return t.err == nil && t.report.Pause == reconciler.NotPaused && !t.retaining && t.availability.available &&
		!slices.ContainsFunc(p.tiers, func(user tierState) bool {
			return slices.Contains(user.after, t.role) && (user.err != nil || !user.report.Pods.Ready)
		})
}

// specOfPrevious returns the CloudManager by which the objects of a tier's earlier name are repaired until they can be removed, nil
// if they are not: if no record tells what they are to be like, or another tier has, or had, an object of their name.
func (p *tiersPlan) specOfPrevious(i int) *appv1.CloudManager {
	t := &p.tiers[i]
	if t.previousSpec == "" || t.report.Pause != reconciler.NotPaused || p.canRemovePrevious(i) ||
		slices.ContainsFunc(t.previous, func(obj client.Object) bool { return obj.GetDeletionTimestamp() != nil }) {
		return nil
	}
	past := p.cm
	for j := range p.tiers[:i+1] { // The earlier object uses the tiers before it by their earlier names.
		past = withRecord(past, p.tiers[j].role, cmp.Or(p.tiers[j].previousSpec, p.tiers[j].lastApplied))
	}
	taken := childNames(p.cm)
	for j := range p.tiers {
		for _, obj := range p.tiers[j].previous {
			if j != i {
				taken = append(taken, obj.GetName())
			}
		}
	}
	component := t.role.Component(past)
	for _, name := range []string{component.Name, resource.HeadlessName(component.Name), serviceName(component)} {
		if slices.Contains(taken, name) {
			return nil
		}
	}
	return past
}

// childNames returns the names of the objects of a CloudManager that states the names of its components.
func childNames(cm *appv1.CloudManager) []string {
	db := cm.Spec.DB.StatefulSet.Name
	names := []string{db, resource.HeadlessName(db), cm.Spec.Identity.Deployment.Name, cm.Spec.Front.Deployment.Name}
	for _, row := range tierRows {
		if name := serviceName(row.role.Component(cm)); !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return names
}

// serviceName returns the name of a component's Service.
func serviceName(c *appv1.Component) string { return c.ServiceName(c.Name) }

// noteRepair adds to a tier's report what was repaired of its objects of an earlier name.
func (p *tiersPlan) noteRepair(i int, repair *reconciler.Report) {
	p.tiers[i].report.Event.AddChanges(repair.Event.Action, repair.Event.Changes)
}

// errors returns those of all tiers.
func (p *tiersPlan) errors() []error {
	errs := make([]error, len(p.tiers))
	for i := range p.tiers {
		errs[i] = p.tiers[i].err
	}
	return errs
}

// reportTiers states in the status and in the report how the tiers are doing. removed are the objects of earlier names that were
// deleted.
func (p *tiersPlan) reportTiers(obj *appv1.CloudManager, removed apply.ChangeSet) reconciler.Report {
	for i, status := range []*appv1.TierStatus{&obj.Status.DB, &obj.Status.Identity, &obj.Status.Front} {
		*status = p.tiers[i].tierStatus()
	}
	before := obj.Status.Phase
	obj.Status.Phase, obj.Status.Ready = p.phase(before, obj.Status.Ready)

	report := p.summarizeTiers()
	for i := range p.tiers {
		report.AddCondition(p.tiers[i].readyCondition(obj.Generation))
	}
	if obj.Status.Phase != before && (before != "" || obj.Status.Phase != appv1.PhasePending) {
		report.Event.Reason, report.Event.Note = "Updated", "phase "+string(obj.Status.Phase)
	}
	if action, line := removed.Summary(); line != "" {
		report.Event.Reason = string(action)
		report.Event.AddChanges(string(action), line)
	}
	return report
}

// tierStatus is what the status says of the tier.
func (t *tierState) tierStatus() appv1.TierStatus {
	return appv1.TierStatus{
		Name: t.name, Ready: t.status.Ready, Endpoint: t.status.Endpoint,
		Rendering: t.status.Rendering, LatestRendering: t.status.LatestRendering,
		Size: t.status.Size, LatestSize: t.status.LatestSize,
	}
}

// readyCondition is the condition that reports the tier.
func (t *tierState) readyCondition(generation int64) metav1.Condition {
	c := metav1.Condition{
		Type: t.condition, Status: metav1.ConditionFalse, ObservedGeneration: generation,
		Reason: t.report.Pods.Reason, Message: t.report.Pods.Message,
	}
	switch {
	case t.err != nil:
		c.Reason, c.Message = reconciler.ReasonAndMessageOf(t.err)
	case t.report.Pods.Ready:
		c.Status = metav1.ConditionTrue
	}
	return c
}

// phase says how far the CloudManager has come, and how many tiers are available. Until it is known how a tier takes a change, what
// was said before still holds.
func (p *tiersPlan) phase(before appv1.Phase, ready string) (appv1.Phase, string) {
	var next *tierState // The first that is not available, or has yet to replace one of an earlier name.
	available, renaming, down, unknown := 0, false, false, false
	for i := range p.tiers {
		t := &p.tiers[i]
		var waiting *reconciler.WaitingError
		switch {
		case t.availability.available:
			available++
		case !t.availability.observed, errors.As(t.err, &waiting):
			unknown = true
		default:
			down = true
		}
		renaming = renaming || len(t.previous) > 0
		if next == nil && (!t.availability.available || len(t.previous) > 0) {
			next = t
		}
	}
	figures := fmt.Sprintf("%d/%d", available, len(p.tiers))
	wasReady := (before == appv1.PhaseReady || before == appv1.PhaseDegraded) && !renaming
	switch {
	case next == nil:
		return appv1.PhaseReady, figures
	case wasReady && unknown && !down:
		return before, ready
	case wasReady:
		return appv1.PhaseDegraded, figures
	case len(next.after) == 0 && !next.availability.exists:
		return appv1.PhasePending, figures
	}
	return next.phase, figures
}

// summarizeTiers is the report on all tiers: that of the first that is not ready, and what was written for any.
func (p *tiersPlan) summarizeTiers() reconciler.Report {
	report := reconciler.Report{Pods: health.Verdict{Ready: true, Reason: appv1.ReasonReady}}
	var messages []string
	for i := range p.tiers {
		t := &p.tiers[i]
		t.mergeInto(&report)
		messages = append(messages, t.report.Pods.Message)
		if report.Pods.Ready && !t.report.Pods.Ready {
			report.Pods.Ready, report.Pods.Stalled = false, t.report.Pods.Stalled
			report.Pods.Reason, report.Pods.Message = t.report.Pods.Reason, t.report.Pods.Message
		}
	}
	for i := range p.tiers {
		if t := &p.tiers[i]; report.Pods.Ready && len(t.previous) > 0 {
			report.Pods.Ready, report.Pods.Reason = false, appv1.ReasonProgressing
			report.Pods.Message = fmt.Sprintf(messageRemovingPrevious, t.name, t.previous[0].GetName())
		}
	}
	if report.Pods.Ready {
		report.Pods.Message = strings.Join(messages, "; ")
	}
	return report
}

// mergeInto adds to a report of all tiers what the tier has to say next to how its pods are doing.
func (t *tierState) mergeInto(report *reconciler.Report) {
	report.Pause = max(report.Pause, t.report.Pause)
	report.PendingKey += t.report.PendingKey
	report.RetryAfter = reconciler.MinRequeue(report.RetryAfter, t.report.RetryAfter)
	report.Event.Warning = cmp.Or(report.Event.Warning, t.report.Event.Warning)
	switch note := &report.Note; note.Reason {
	case "":
		*note = t.report.Note
	case t.report.Note.Reason:
		note.Message += " " + t.report.Note.Message
	}
	if t.action != tierApplied && report.InForce == reconciler.Present {
		report.InForce = reconciler.Earlier
		report.Why = reconciler.ReasonAndMessage{Reason: appv1.ReasonDependencyNotReady, Message: t.waitMessage()}
	}
	report.Event.AddChanges(t.report.Event.Action, t.report.Event.Changes)
}
