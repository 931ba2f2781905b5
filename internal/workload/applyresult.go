package workload

import (
	"cmp"
	"errors"
	"reflect"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"

	"huolala.cn/app-operator/internal/apply"
	"huolala.cn/app-operator/internal/reconciler"
)

// ApplyResult has the results of the applies of one reconcile.
type ApplyResult struct {
	// Seen is the observation after the last apply.
	Seen *Observed
	// Err is the error of the last apply. Refused is the reason why nothing new was written, nil if something was.
	Err, Refused error
	// notWritten is true where the workload object is not as wanted, and was certainly not written.
	notWritten bool
	// canaryWithheld is true where the Deployment of a canary was not created, as an object that its first pod waits for could not be applied.
	canaryWithheld bool
	// Changes are what each apply wrote.
	Changes []apply.ChangeSet
	// pending is true where a pause holds back a change, and heldBack describes it.
	pending  bool
	heldBack string
	// auxiliary are the auxiliary objects as they were applied, and auxiliaryKnown is true once it is known which are to be applied.
	auxiliary      []apply.Outcome
	auxiliaryKnown bool
	// troubles are the obstacles to auxiliary objects, one for each apply.
	troubles []error
	// serviceGrace is for how long a former Service stays yet.
	serviceGrace time.Duration
	// startedJob is the name of the Job that was created before a rollout, empty if none was.
	startedJob string
	// SecretChecked is true once a database's Secret was found, or made, as it should be.
	SecretChecked bool
}

// FailApply returns the result of an apply that has written nothing.
func FailApply(seen *Observed, err error) *ApplyResult { return &ApplyResult{Seen: seen, Err: err} }

// hasFailedEarly reports whether a step failed before it was known which auxiliary objects are to be applied, at a read for example.
func (a *ApplyResult) hasFailedEarly() bool { return a.Err != nil && !a.auxiliaryKnown }

// isStale reports whether the decision was made on an outdated view.
func (a *ApplyResult) isStale() bool { return errors.Is(a.Err, reconciler.ErrStale) }

// followedBy returns the outcome of an apply after another one.
func (a *ApplyResult) followedBy(b *ApplyResult) *ApplyResult {
	all := *b
	all.Changes = slices.Concat(a.Changes, b.Changes)
	all.pending, all.heldBack = a.pending || b.pending, a.heldBack+b.heldBack
	all.auxiliary, all.auxiliaryKnown = slices.Concat(a.auxiliary, b.auxiliary), a.auxiliaryKnown || b.auxiliaryKnown
	all.troubles = slices.Concat(a.troubles, b.troubles)
	all.serviceGrace = cmp.Or(a.serviceGrace, b.serviceGrace)
	return &all
}

// missingPrerequisite returns the obstacle to the first object of those that must be in place before the first pod, nil if there is none. Of
// several applications of an object, the last one counts.
func missingPrerequisite(auxiliary []apply.Outcome) error {
	var missing error
	last := map[reflect.Type]bool{}
	for i := range slices.Backward(auxiliary) {
		done := &auxiliary[i]
		of := reflect.TypeOf(done.Object.Desired)
		if !done.Object.Prerequisite || last[of] {
			continue
		}
		if last[of] = true; done.Err != nil {
			missing = done.Err
		}
	}
	return missing
}

// NewApplyResult returns the outcome of a request as the engine has left it.
func NewApplyResult(seen *Observed, done *apply.Outcomes, grace time.Duration) *ApplyResult {
	out := &ApplyResult{
		Seen: seen.afterApply(done.Objects), Refused: done.Refusal, auxiliaryKnown: true, serviceGrace: grace,
		Changes: []apply.ChangeSet{done.Changes()},
	}
	for i := range done.Objects {
		object := &done.Objects[i]
		switch object.Object.Desired.(type) {
		case *appsv1.Deployment, *appsv1.StatefulSet:
			if seen.isCanary(object.Object.Desired) {
				out.canaryWithheld = object.NotWritten && object.Err == nil
			} else {
				out.notWritten = object.NotWritten
			}
		}
		if object.Object.Auxiliary {
			out.auxiliary = append(out.auxiliary, *object)
		}
	}
	if trouble := done.Trouble(); trouble != nil {
		out.troubles = []error{trouble}
	}
	return out
}
