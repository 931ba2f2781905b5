package apply

import (
	"context"
	"errors"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"

	"huolala.cn/app-operator/internal/reconciler"
)

// Run carries out a request as far as the mode allows, and returns one outcome for each object, also together with an error. Run
// carries out each object whatever becomes of the others, except objects behind a Prerequisite, the parts of an AllOrNothing request, and
// objects to adopt: if one object cannot be written, Run adopts none. Run deletes the objects of Prune once all others are in place.
//
// The error is reconciler.Aggregate of the errors of the objects: a reconciler.StalledError if an object belongs to others (reason
// ResourceExists), a field is immutable (ImmutableField), the API server refuses an object (Invalid), or another
// writer keeps undoing a change (FieldConflict); a reconciler.WaitingError if an object is being deleted, to be replaced
// for example; reconciler.ErrStale if the view was outdated; and a reconciler.FailedError for all else. A field that the API server
// does not keep is no error; see ChangeSet.Overridden.
func (e *Engine) Run(ctx context.Context, req Request, mode Mode) (Outcomes, error) {
	r := &run{Engine: e, req: &req, mode: mode, decided: make([]*earlyPlan, len(req.Objects))}
	if mode == DryRun {
		r.Engine = e.ReadOnly()
	}
	for i := range req.Objects {
		r.out.Objects = append(r.out.Objects, e.newOutcome(&req.Objects[i]))
	}
	t, err := r.tryRequest(ctx)
	if err != nil {
		return r.out, err
	}
	errs := r.applyAll(ctx, t)
	r.out.noteTaken(errs)
	if err := r.concludeRun(t, reconciler.Aggregate(errs...)); err != nil {
		return r.out, err
	}
	return r.out, r.pruneObjects(ctx)
}

// newOutcome returns the outcome of an object that nothing was done with.
func (e *Engine) newOutcome(object *Object) Outcome {
	out := Outcome{Object: *object, Live: object.Live}
	out.Name = object.Desired.GetName()
	if gvk, err := apiutil.GVKForObject(object.Desired, e.client.Scheme()); err == nil { // Otherwise the plan has the error.
		out.Kind = gvk.Kind
	}
	return out
}

// run carries out one request.
type run struct {
	*Engine
	req  *Request
	mode Mode
	out  Outcomes
	// decided are the plans of objects that were made before their turn, nil for the others.
	decided []*earlyPlan
	// alive is set once the owner was read from the API server.
	alive bool
}

// applyAll carries out each object that the trial does not withhold, and returns the errors of the objects.
func (r *run) applyAll(ctx context.Context, t *trial) []error {
	errs := make([]error, len(r.req.Objects))
	missing := false // A prerequisite is not in place.
	for _, i := range r.orderAround(t.order) {
		o, out := &r.req.Objects[i], &r.out.Objects[i]
		switch {
		case o.Auxiliary && t.withheld[i]:
		case o.Auxiliary && r.req.Policy.AllOrNothing && Refused(t.err):
			continue // The last applied spec is next, together with this object.
		case o.Auxiliary:
			errs[i] = r.applyAuxiliary(ctx, i, t, errs)
		case !t.withheld[i]:
			errs[i] = r.applyOne(ctx, i, missing && !o.Independent)
			out.Err = errs[i]
		}
		missing = missing || o.Prerequisite && (out.Err != nil || errs[i] != nil || t.withheld[i])
		if o.Auxiliary || r.mode != Write {
			continue
		}
		out.NotWritten = t.withheld[i] || errs[i] == nil && out.Action == "" || Refused(errs[i]) || isForbidden(errs[i])
		if r.req.Policy.AllOrNothing && (Refused(errs[i]) || errors.Is(errs[i], reconciler.ErrStale)) {
			t.noteRefusal(errs[i]) // On an outdated view it is not known yet whether a part is refused.
		}
	}
	return errs
}

// concludeRun states the refusal of an AllOrNothing request, and returns the error of the run.
func (r *run) concludeRun(t *trial, err error) error {
	switch r.mode {
	case Write:
		if r.req.Policy.AllOrNothing && Refused(t.err) {
			r.out.Refusal = t.err
		}
		return r.out.nameTaken(reconciler.Aggregate(err, t.err))
	case DryRun:
		return r.concludeDryRun(r.out.nameTaken(err))
	}
	return r.out.nameTaken(err)
}

// concludeDryRun is concludeRun for a dry run. It withholds the parts of a request that would not be carried out as a whole: if a part is
// refused, no new part is written; and no object is adopted, nor created for an owner that was not reconciled before. Objects around
// the pods are written all the same unless they are adopted, or are about the pods of an object that is adopted, or together with the last
// applied spec, which then is next.
func (r *run) concludeDryRun(err error) error {
	refused := r.req.Policy.AllOrNothing && Refused(err)
	if refused {
		r.out.Refusal = err
	}
	adopts := slices.ContainsFunc(r.out.Objects, func(out Outcome) bool { return out.Adopted })
	for i := range r.out.Objects {
		if out := &r.out.Objects[i]; adopts && out.Object.Auxiliary && isTaken(out.Err) {
			err = r.out.nameTaken(reconciler.Aggregate(err, out.Err))
		}
	}
	for i := range r.out.Objects {
		out := &r.out.Objects[i]
		auxiliary := out.Object.Auxiliary
		out.NotWritten = Refused(err) || isForbidden(err)
		pods := r.findPodsTarget(i)
		out.Withheld = err != nil && (out.Err == nil && (out.Adopted || pods != nil && pods.Adopted) || auxiliary && refused ||
			!auxiliary && (refused || adopts && out.Action == Created && !r.req.Before.Existed))
	}
	return err
}

// applyAuxiliary is applyOne for an auxiliary object. Its error is an outdated view alone; another obstacle is in the outcome.
func (r *run) applyAuxiliary(ctx context.Context, i int, t *trial, errs []error) error {
	out := &r.out.Objects[i]
	if held := r.checkPodsTarget(i, t, errs); held != nil {
		out.Err = r.withholdAuxiliary(ctx, i, held)
		return nil
	}
	switch held, err := r.leadsElsewhere(i, errs); {
	case held && r.mode == Write:
		out.Err = err
		return nil
	case held && err != nil: // Otherwise a write would create the other object first.
		return nil //nolint:nilerr // A plan says so of the other object.
	}
	err := r.applyOne(ctx, i, false)
	if r.mode == Write && errors.Is(err, reconciler.ErrStale) {
		return err
	}
	out.Err = err
	return nil
}

// leadsElsewhere reports whether an auxiliary object leads to another object that the owner does not control yet, and returns the
// obstacle to that other object.
func (r *run) leadsElsewhere(i int, errs []error) (bool, error) {
	j := r.indexOf(r.req.Objects[i].LeadsTo)
	if j < 0 {
		return false, nil
	}
	to := &r.out.Objects[j]
	return to.Live == nil || !metav1.IsControlledBy(to.Live, r.req.Owner), errs[j]
}

// applyOne plans one object and carries the plan out. The outcome has no action if nothing came of it.
func (r *run) applyOne(ctx context.Context, i int, missing bool) error {
	out := &r.out.Objects[i]
	p, err := r.planObject(ctx, i)
	if err != nil || missing && (p.action == Created || p.action == Replaced) {
		return err
	}
	before := r.conflicts.snapshotOf(r.req, &p)
	pace := r.paceRepairs(&p)
	if pace.conflict != nil {
		return pace.conflict
	}
	done := result{action: Unchanged}
	if !pace.skip {
		done, err = r.executePlan(ctx, &p)
	}
	var unseen *unseenError
	if errors.As(err, &unseen) {
		out.Live, r.decided[i] = unseen.live, nil
		return r.applyOne(ctx, i, missing)
	}
	var change Change
	if err == nil || done.after != nil { // Of two writes, the second one may have failed.
		var failed error
		if change, failed = r.describeResult(&p, &done); err == nil {
			err = failed
		}
	}
	if r.mode == Write && p.drift == driftRepaired {
		r.countRepair(&p, before, err == nil && change.Action != Unchanged)
	}
	out.Adopted = r.mode == DryRun && p.adoptsObject(r.req)
	if r.mode == DryRun && err != nil {
		done, change, err = result{}, Change{Action: p.action}, r.excuseDryRun(ctx, &p, out, err)
	}
	if err != nil && done.after == nil {
		return err
	}
	change.Kind, change.Name = p.gvk.Kind, p.object.Desired.GetName()
	if change.Overridden = pace.overridden; done.overridden != "" {
		change.Overridden = done.overridden
	}
	change.RetryAfter = max(pace.retry, done.retry)
	change.Times = pace.times
	out.Change = change
	if r.mode == Write {
		if done.after != nil {
			out.Live = done.after
		}
	} else {
		out.Before, out.After, out.Differences, out.TakenOver = done.before, done.after, done.differences, p.claim != ClaimOwned
	}
	if done.waits {
		return beingReplaced(&p)
	}
	return err
}
