package workload

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appv1 "huolala.cn/app-operator/api/v1"
	"huolala.cn/app-operator/internal/reconciler"
	"huolala.cn/app-operator/resource"
)

// This file decides which spec of a workload is in force. The methods of decider, here and in the other files, read and write no object, no
// clock and no memory: equal values make equal decisions.

// specSource is the spec that a decision applies.
type specSource int

const (
	// sourcePresent is the present spec.
	sourcePresent specSource = iota
	// sourceHeld is the spec of a ReplicaSet, because the user has asked for it or because a rollout was rolled back.
	sourceHeld
	// sourceLastApplied is the last applied spec, because the present spec is invalid.
	sourceLastApplied
	// sourceCanary is the last applied spec, because a few further pods run the present spec first.
	sourceCanary
	// sourceWaiting is the last applied spec, because the present spec must wait for another workload.
	sourceWaiting
	// sourceBeforeRollout is the last applied spec, because the present spec waits for the Job that runs its command.
	sourceBeforeRollout
)

// decision has the spec of a workload that is in force, the workload to apply, and the reason why the present spec is not in force.
type decision struct {
	source specSource
	// workload is the workload to apply, nil for none; how has the options of the apply.
	workload *resource.Workload
	how      How
	// canary is what a report needs about the canary.
	canary canaryDecision
	// refusal is the error that keeps the present spec, or a requested hold, out of force.
	refusal error
	// invalid is why the present spec is not applied at all, nil if it is valid.
	invalid error
	// lost is true where there was a workload object that cannot be rebuilt.
	lost bool
	// held is the record that is held, nil if none is.
	held *holdSource
	// notRolledBack is why a rollout that has stalled is not rolled back, empty if that is not so.
	notRolledBack string
	// retryAfter is the requeue interval where no watch reports a change, 0 for none.
	retryAfter time.Duration
	// today are the inputs of a new workload.
	today resource.BuildInputs
	// defaultsInvalid is why the spec cannot have today's defaults, nil if it can.
	defaultsInvalid error
	// unrecorded is true if the record of the present spec is a hash.
	unrecorded bool
	// content is the decision on the content that the pods use.
	content contentDecision
	// job is the decision on the command before the rollout.
	job jobDecision
	// remember is added to the memory of the workload.
	remember remembrance
}

// need is what decideSpec must know before it can decide. At most one field is set.
type need struct {
	// replicaSet is the name of a ReplicaSet to read from the API server.
	replicaSet string
	// content is the content to read, nil if none is needed.
	content *contentNeed
}

// comparer compares pod templates. It sends no request. apply.Engine implements it.
type comparer interface {
	// Matches reports whether a live object has all that a wanted object states.
	Matches(wanted, live client.Object) (bool, error)
	// RecordHolds reports whether a live object equals an object that was built from a record, apart from fields of other managers.
	RecordHolds(manager string, built, found, carrier client.Object) (bool, error)
	// StatesTemplate reports whether an object states every field that the manager owns of the pod template of a live object.
	StatesTemplate(manager string, built, carrier client.Object) (bool, error)
}

// decider decides for one workload by its observation.
type decider struct {
	compare comparer
	in      *Input
	seen    *Observed
	// secrets is true if the content of Secrets is followed.
	secrets bool
	// foresees is true in a plan, which has what follows once a command has succeeded.
	foresees bool
}

// decideSpec returns the decision, or the need that must be read first. The rules are in the order of their priority:
//
//  1. A requested hold, a rollback in force, and a stalled rollout: the spec of a ReplicaSet.
//  2. An invalid spec: the last applied spec.
//  3. A spec that must wait for another workload: the last applied spec.
//  4. A change of the pods that waits for its command: the last applied spec.
//  5. A change of the pod template that runs in a canary first: the last applied spec.
//  6. The present spec, with the inputs chosen by its history.
func (c decider) decideSpec() (*decision, *need, error) {
	want := &decision{}
	if c.canHold() {
		wish := c.wishHold()
		want.notRolledBack = wish.declined
		if wish.mark != nil {
			held, ask := c.decideHold(wish)
			switch {
			case ask != nil:
				return nil, ask, nil
			case held.source == sourceHeld:
				held.defaultsInvalid = c.refuseDefaultsAtRest()
				return held, nil, nil
			}
			want = held // The rollback is declined, and the present spec stays in force.
		}
	}
	if c.in.Undecodable != nil {
		return c.decideInvalid(want, InvalidResource(c.in.Undecodable)), nil, nil //nolint:nilerr // The decision has the error.
	}
	want.today = c.seen.today
	present, ask, err := c.buildPresent()
	if err != nil || ask != nil {
		return nil, ask, err
	}
	want.content, want.defaultsInvalid = present.content, c.refuseDefaults(present)
	if len(present.errs) > 0 {
		return c.decideInvalid(want, InvalidSpec(present.errs)), nil, nil
	}
	want.unrecorded = !present.workload.Recorded
	if c.in.MustWait {
		return c.decideWaiting(want), nil, nil
	}
	released, err := c.releaseByJob(want, present)
	if err != nil || released.waits != nil {
		return released.waits, nil, err
	}
	present, want.job = released.present, released.job
	want.workload = present.workload
	want.how.Whole = c.isChanged(present.liveChanged) || c.growsVolume(present.workload)
	if !c.in.Kind.Serves {
		return want, nil, nil
	}
	want, err = c.decideCanary(want, present)
	return want, nil, err
}

// useEarlier changes a new decision to an earlier spec, of a source.
func (want *decision) useEarlier(source specSource) {
	want.source, want.how, want.canary = source, How{Earlier: true}, canaryDecision{}
}

// aroundNow returns the fields for the objects around the pods with the present defaults, nil for an invalid spec, and while the defaults are not known.
func (c decider) aroundNow() *appv1.ServingSpec {
	if now := c.inputNow(); now.isValid() && c.seen.unknown == "" {
		return now.Around
	}
	return nil
}

// decideInvalid decides for an invalid spec: the last applied spec stays in force.
func (c decider) decideInvalid(want *decision, refusal error) *decision {
	want.useEarlier(sourceLastApplied)
	want.refusal, want.invalid = refusal, refusal
	if !c.in.Paused {
		c.restoreLastApplied(want, nil)
	}
	return want
}

// decideWaiting decides for a spec that must wait: the last applied spec is repaired.
func (c decider) decideWaiting(want *decision) *decision {
	want.useEarlier(sourceWaiting)
	if !c.in.Paused {
		want.workload, want.remember.record, want.refusal = c.lastApplied()
	}
	return want
}

// afterRefusal returns what to apply after the present spec was refused in part: the last applied spec. Where only the workload object
// could not be written, that object alone is kept as it was last applied. ok is false if nothing more is to be applied. c.seen is
// the observation after the first apply.
func (c decider) afterRefusal(want *decision, done *ApplyResult) (next *decision, ok bool) {
	if want.source != sourcePresent || done.isStale() {
		return nil, false
	}
	copied := *want
	next = &copied
	next.useEarlier(sourceLastApplied)
	next.workload, next.refusal = nil, done.Err
	next.remember = remembrance{}
	switch {
	case done.Refused != nil:
	case want.how.Whole && done.notWritten:
		next.how.Alone = true
	default:
		return nil, false
	}
	if !c.in.Paused {
		c.restoreLastApplied(next, want.workload)
	}
	return next, true
}

// restoreLastApplied has a decision apply the last applied spec. refused is what the present spec means, nil if it could not be built.
func (c decider) restoreLastApplied(want *decision, refused *resource.Workload) {
	workload, record, err := c.lastApplied()
	if workload == nil && err == nil && refused != nil {
		workload = c.substituteWorkload(refused)
	}
	want.remember.record = record
	if workload != nil && err == nil {
		want.workload = workload
		return
	}
	if c.seen.Object == nil && c.in.HadWorkload() {
		want.lost = true
		want.refusal = appendMessage(want.refusal, fmt.Sprintf(messageNotRestored, c.in.objectKind(), c.in.Name))
	}
	want.refusal = reconciler.Aggregate(err, want.refusal)
}

// isChanged reports whether the spec differs from the record on the live workload object, or from the remembered record of
// a deleted object. changed reports whether the history of the live object has a change.
func (c decider) isChanged(changed bool) bool {
	in := c.in
	differs := func(record string, scopes ...resource.Scope) bool {
		return record != "" && slices.ContainsFunc(scopes, func(scope resource.Scope) bool {
			changed, err := in.Spec.Changed(record, scope)
			return err == nil && changed
		})
	}
	switch {
	case c.seen.Object == nil:
		return differs(c.seen.Remembered.record.spec, resource.ScopePods, resource.ScopeVolumes)
	case !c.seen.isOwned(in.Owner):
		return false
	}
	return changed || differs(recordOf(c.seen.Object), resource.ScopeVolumes)
}

// buildPresent builds the workload of the present spec with the inputs that count, and decides on the content that its pods use.
func (c decider) buildPresent() (*builtSpec, *need, error) {
	chosen, err := c.chooseInputs()
	if err != nil {
		return nil, nil, err
	}
	if !c.in.Kind.Serves || len(chosen.errs) > 0 || chosen.workload.TemplateKept { // Content is followed once the template is the resource's.
		return chosen, nil, nil
	}
	content, ask := c.decideContent(chosen)
	if ask != nil {
		return nil, ask, nil
	}
	with := *chosen
	with.content = content
	if content.next.Equal(chosen.inputs.Config) {
		return &with, nil, nil
	}
	followed := chosen.inputs
	followed.Config = content.next
	next := c.rebuildChosen(&with, followed)
	if !chosen.inCanary || content.next.Sum == chosen.inputs.Config.Sum {
		return next, nil, nil
	}
	return c.preferStable(next)
}

// preferStable returns the present spec with the content that its canary does not run: as the Deployment runs it, if the content went back to that. The
// inputs of the canary would make another template of it, and so another canary.
func (c decider) preferStable(next *builtSpec) (*builtSpec, *need, error) {
	alone := c
	seen := *c.seen
	seen.canary.object = nil
	alone.seen = &seen
	again, ask, err := alone.buildPresent()
	if err != nil || ask != nil {
		return nil, ask, err
	}
	if stable := c.stableWorkload(); stable != nil && !stable.TemplateKept && len(again.errs) == 0 && equality.Semantic.DeepEqual(stable.Template, again.workload.Template) {
		return again, nil, nil
	}
	return next, nil, nil
}

// growsVolume reports whether a workload has larger volumes than the database.
func (c decider) growsVolume(w *resource.Workload) bool {
	if c.seen.Data == nil || len(w.Claims) == 0 {
		return false
	}
	volume := c.seen.Data.Volume(c.seen)
	return volume != nil && w.Claims[0].Spec.Resources.Requests.Storage().Cmp(*volume.Spec.Resources.Requests.Storage()) > 0
}

// substituteWorkload returns the refused workload of a database with the volumes that the database has, if nothing else of it differs from
// the last applied spec, or no record of that spec is known and the StatefulSet is gone; nil otherwise, and for other workloads. Where only the claims
// are left, their class may be the cluster's default, which a spec without a class does not state.
func (c decider) substituteWorkload(refused *resource.Workload) *resource.Workload {
	if c.seen.Data == nil || len(refused.Claims) == 0 {
		return nil
	}
	volume := c.seen.Data.Volume(c.seen)
	if volume == nil {
		return nil
	}
	is := volume.Spec
	if refused.Claims[0].Spec.StorageClassName == nil && c.seen.StatefulSet() == nil {
		is.StorageClassName = nil
	}
	kept := refused.WithVolume(&is)
	if set := c.seen.StatefulSet(); set != nil {
		record := recordOf(set)
		if changed, err := c.in.Spec.Changed(record, resource.ScopePods); err != nil || changed || !c.in.OwnsRecord(set) {
			return nil
		}
		kept.Record = maps.Clone(kept.Record)
		kept.Record[appv1.AnnotationLastAppliedSpec] = record
	}
	return kept
}
