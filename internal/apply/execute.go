package apply

import (
	"context"
	"errors"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appv1 "huolala.cn/app-operator/api/v1"
	"huolala.cn/app-operator/internal/children"
	"huolala.cn/app-operator/internal/claim"
	"huolala.cn/app-operator/internal/describe"
	"huolala.cn/app-operator/internal/fields"
	"huolala.cn/app-operator/internal/reconciler"
)

// result is what came of a plan.
type result struct {
	action Action
	// before and after are the object before and after the run, nil if it did not exist or was not asked for.
	before, after client.Object
	// transfer is the transfer of fields of a dry or local run, nil without one.
	transfer    *transfer
	differences []describe.Difference
	// overridden is the message about fields that the API server does not keep, retry when they are written again.
	overridden string
	retry      time.Duration
	// waits reports that the object was deleted to be recreated.
	waits bool
}

// executePlan carries out the plan of one object.
func (r *run) executePlan(ctx context.Context, p *objectPlan) (result, error) {
	switch {
	case p.action == Unchanged:
		return result{action: Unchanged}, nil
	case r.mode == Local:
		return r.predictResult(p)
	}
	if r.mode == Write && (p.claim.isReturned() || p.action == Created && r.req.Before.Existed) {
		if err := r.verifyOwnerAlive(ctx); err != nil {
			return result{}, err
		}
	}
	switch p.action {
	case Created:
		return r.createObject(ctx, p)
	case Replaced:
		return r.deleteForReplacement(ctx, p)
	}
	return r.updateObject(ctx, p)
}

// predictResult returns the object as an apply would leave it, before admission.
func (r *run) predictResult(p *objectPlan) (result, error) {
	if p.action == Created {
		return result{action: Created}, nil
	}
	t, err := r.planTransfer(p, p.live)
	if err != nil {
		return result{}, err
	}
	merged, err := r.objectAfterTransfer(p, p.live, t)
	if err != nil {
		return result{}, err
	}
	after, err := p.newTarget()
	if err != nil {
		return result{}, err
	}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(merged, after); err != nil {
		return result{}, err
	}
	if p.handsOver(r.req, t) {
		keepLasting(after, p.live)
	}
	after.SetOwnerReferences(p.outcomeOwners(r.req, p.live))
	return result{action: p.action, before: p.live, after: after, transfer: t}, nil
}

// neverVersion is a resource version that no object has. A request that states it is refused if the object exists, and
// creates it if not (kubernetes/kubernetes#106745).
const neverVersion = "1"

// createObject applies an object that does not exist in the view. The request is not forced, and refused if the object exists. createObject
// then reads the object to find its owner. It may be the owner of the request: the answer to the creation was lost, and the cache does not
// have the object yet.
func (r *run) createObject(ctx context.Context, p *objectPlan) (result, error) {
	if made, done, err := r.tryRecreation(ctx, p); done {
		return made, err
	}
	written, err := r.sendRequest(ctx, p, map[string]string{"resourceVersion": neverVersion})
	if !apierrors.IsConflict(err) {
		return r.completeResult(ctx, p, result{action: Created, after: written}, r.classifyError(p, err))
	}
	live, err := r.readLive(ctx, p)
	switch {
	case errors.Is(err, reconciler.ErrStale):
		// Nothing exists, so the API server refuses the resource version itself, or the object was deleted in between.
		written, err = r.sendRequest(ctx, p, nil)
		return r.completeResult(ctx, p, result{action: Created, after: written}, r.classifyError(p, err))
	case err != nil:
		return result{}, err
	case r.mode == DryRun:
		return result{}, &unseenError{live}
	}
	if err := p.checkOwnership(r.req, live); err != nil {
		return result{}, err
	}
	if p.isHidden(live) {
		return result{}, &unseenError{live}
	}
	return result{}, reconciler.ErrStale
}

// unseenError reports that an object of the owner, or an object to adopt, exists and is not in the view.
type unseenError struct{ live client.Object }

func (e *unseenError) Error() string { return e.live.GetName() + " exists, and is not in the cache" }

// isHidden reports whether a live object is not in the cache for want of the operator's label.
func (p *objectPlan) isHidden(live client.Object) bool {
	return children.TypeOf(p.object.Desired).Scope == children.ScopeOurs && !claim.IsManaged(live)
}

// deleteForReplacement deletes an object that is recreated once its deletion is seen.
func (r *run) deleteForReplacement(ctx context.Context, p *objectPlan) (result, error) {
	err := r.canRecreate(ctx, p)
	switch {
	case err != nil, r.mode == DryRun && p.object.ReplacePods:
		return result{action: Replaced}, err
	case r.mode == DryRun: // Its pods stay, and the new object replaces them if their template changes.
		return r.predictResult(p)
	}
	propagation := metav1.DeletePropagationOrphan
	if p.object.ReplacePods {
		propagation = metav1.DeletePropagationBackground
	}
	return result{action: Replaced, waits: true}, r.removeObject(ctx, p, propagation)
}

// updateObject applies an object of the owner, or one to take over. The request is forced, and bound by its UID to the object that was read.
func (r *run) updateObject(ctx context.Context, p *objectPlan) (result, error) {
	done := result{action: p.action, before: p.live}
	seen := p.live
	if p.needsTransfer() {
		taken, err := r.takeOver(ctx, p)
		if err != nil {
			return result{}, err
		}
		if r.mode == DryRun {
			done.before, done.after, done.transfer = taken.live, taken.tried, taken.transfer
			return r.completeResult(ctx, p, done, nil)
		}
		done.before, p.live = taken.before, taken.live
	}
	if r.mode == Write && p.handsOver(r.req, nil) {
		if err := r.handOver(ctx, p); err != nil {
			return result{}, err
		}
	}
	written, err := r.sendRequest(ctx, p, map[string]string{"uid": string(p.live.GetUID())}, client.ForceOwnership)
	done.after = written
	done, err = r.completeResult(ctx, p, done, r.classifyError(p, err))
	if done.after != nil && r.mode == Write && seen.GetResourceVersion() == done.after.GetResourceVersion() {
		done.action = Unchanged
	}
	return done, err
}

// completeResult completes a result after the answer of the API server. It writes once more the fields that the API server has not kept; in
// a dry run, it has the object keep the value that a write hands over first.
func (r *run) completeResult(ctx context.Context, p *objectPlan, done result, err error) (result, error) {
	switch {
	case err != nil:
		return result{}, err
	case r.mode == Write:
		p.live = done.after
		return r.rewriteOverridden(ctx, p, done)
	case p.action != Created && p.handsOver(r.req, done.transfer):
		keepLasting(done.after, done.before)
	}
	return done, nil
}

// rewriteOverridden writes once more the fields that the API server has not kept, and notes the fields that it does not keep then either.
// The first time the cause may be server-side apply itself: a struct is removed with its last field, although the empty struct is stated. An
// error of the second write comes with the result of the first write.
func (r *run) rewriteOverridden(ctx context.Context, p *objectPlan, done result) (result, error) {
	for _, last := range []bool{false, true} {
		diff, err := r.comparer.Diff(p.wanted, p.live)
		if err != nil {
			return result{}, err
		}
		if !fields.DroppedByServer(diff, p.live, r.req.Manager) {
			r.conflicts.noteOverridden(r.req, p, nil)
			break
		}
		if last {
			r.conflicts.noteOverridden(r.req, p, diff)
			if !r.req.Policy.AcceptOverrides {
				done.overridden, done.retry = overriddenMessage(p, diff), conflictMaxDelay
			}
			break
		}
		written, err := r.sendRequest(ctx, p, map[string]string{"uid": string(p.live.GetUID())}, client.ForceOwnership)
		if err != nil {
			return done, r.classifyError(p, err)
		}
		p.live, done.after = written, written
	}
	return done, nil
}

// describeResult returns the change of an object, with the fields that changed and the field managers whose change was repaired.
func (r *run) describeResult(p *objectPlan, done *result) (Change, error) {
	change := Change{Action: done.action}
	if r.mode == Write && done.action != Unchanged && !done.waits {
		writes.WithLabelValues(p.gvk.Kind, string(done.action)).Inc()
	}
	if done.before == nil || done.after == nil || r.mode == Write && done.action == Unchanged {
		return change, nil
	}
	if err := r.describeDifference(&change, r.req.Manager, done.before, done.after); err != nil {
		return change, err
	}
	if p.drift == driftRepaired {
		change.By = describe.FieldManagers(done.before, r.req.Manager, p.diff)
	}
	if r.mode == DryRun {
		if fields.IsSame(done.before, done.after) {
			done.action, change.Action = Unchanged, Unchanged
			return change, nil
		}
		var err error
		done.differences, err = describe.Differences(r.comparer, r.req.Manager, done.before, done.after, p.claim == ClaimOwned && !p.moves)
		if err != nil {
			return change, err
		}
	}
	switch {
	case !p.claim.takesOver():
		change.Removed = nil
	case done.transfer != nil:
		var err error
		if change.Kept, err = r.keptFields(p, done.after, done.transfer); err != nil {
			return change, err
		}
	}
	return change, nil
}

// excuseDryRun returns the error of a dry run, nil for an error that a write would not have. A late answer, and a webhook without dry runs,
// are stated in the outcome.
func (r *run) excuseDryRun(ctx context.Context, p *objectPlan, out *Outcome, err error) error {
	var refused *reconciler.StalledError
	switch {
	case errors.As(err, &refused) && refused.Reason == appv1.ReasonNodePortTaken && p.action == Created && r.req.Before.deletesKind(p.gvk.Kind):
		return nil // The port is free once the object that has it is deleted.
	case err != nil && (ctx.Err() != nil || noDryRun(err)):
		out.Unasked = true
		return nil //nolint:nilerr // The outcome has it: the API server was not asked.
	}
	return err
}

// noDryRun reports whether the cause of an error is that an admission webhook supports no dry runs.
func noDryRun(err error) bool {
	return err != nil && strings.Contains(err.Error(), "does not support dry run")
}

// sendRequest sends the apply request, with preconditions in the metadata, and returns the object of the answer.
func (r *run) sendRequest(ctx context.Context, p *objectPlan, preconditions map[string]string, opts ...client.PatchOption) (client.Object, error) {
	data, err := applyBody(p.fields, preconditions)
	if err != nil {
		return nil, err
	}
	if r.mode == DryRun {
		opts = append(opts, client.DryRunAll, client.DisableReadYourWritesConsistency)
	}
	if p.notCached() {
		opts = append(opts, client.DisableReadYourWritesConsistency)
	}
	written, err := p.newTarget()
	if err != nil {
		return nil, err
	}
	err = r.client.Patch(ctx, written, client.RawPatch(types.ApplyPatchType, data), append(opts, client.FieldOwner(r.req.Manager))...)
	return written, err
}
