package apply

import (
	"context"
	"errors"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"

	appv1 "huolala.cn/app-operator/api/v1"
	"huolala.cn/app-operator/internal/describe"
	"huolala.cn/app-operator/internal/fields"
	"huolala.cn/app-operator/internal/reconciler"
)

// Plan says what Apply would do with the request, by the live objects that it states, without any request. Whether anything
// would change is exact; the fields that change are those that server-side apply changes, before admission. It needs whole
// live objects to say what an adoption removes and keeps. Like Apply's, its error is that of all children; the changes are
// those of the others.
func (e *Engine) Plan(req *Request) (ChangeSet, error) {
	look := func(p *plan) (Change, error) {
		change := p.change()
		if p.action == Created || p.action == Unchanged {
			return change, nil
		}
		t, err := e.planTransfer(req, p, p.child.Live)
		if err != nil {
			return change, err
		}
		fields, err := e.objectAfterTransfer(p, p.child.Live, t)
		if err != nil {
			return change, err
		}
		after, err := p.newTarget()
		if err != nil {
			return change, err
		}
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(fields, after); err != nil {
			return change, err
		}
		after.SetOwnerReferences(p.outcomeOwners(req, p.child.Live))
		err = e.foreseeChange(req, p, &change, p.child.Live, after, t)
		return change, err
	}
	return e.previewRequest(req, func(child *Child) (plan, error) { return e.planChild(req, child) }, look)
}

// Preview says what Apply would do with the request, by dry runs of it: what admission makes of the objects, and what the API
// server refuses, is part of the answer. It writes nothing, and asks nothing for what would stay as it is.
func (e *Engine) Preview(ctx context.Context, req *Request) (ChangeSet, error) {
	return e.previewRequest(req, func(child *Child) (plan, error) { return e.planExplained(ctx, req, child) }, func(p *plan) (Change, error) {
		change, err := e.previewChild(ctx, req, p)
		err = e.foreseeChild(ctx, req, p, &change, err)
		return change, err
	})
}

// previewRequest plans all children by one function, and what is unwanted, and has changes looked into by another one.
func (e *Engine) previewRequest(req *Request, decide func(*Child) (plan, error), look func(*plan) (Change, error)) (ChangeSet, error) {
	var changes ChangeSet
	var errs []error
	failed := make([]error, len(req.Children))
	missing := false
	for i := range req.Children {
		child := req.Children[i]
		if child.Auxiliary && req.leadsToFailed(&child, failed) {
			continue
		}
		p, err := decide(&child)
		var change Change
		if p.dropped {
			p.action = Unchanged
			p.noteOverride(req, p.diff, conflictMaxDelay)
		}
		if err == nil && (!missing || child.Independent || p.action != Created && p.action != Replaced) {
			change, err = look(&p)
		}
		if err == nil && change.Action != "" {
			changes = append(changes, change)
		}
		if failed[i] = err; child.Auxiliary {
			req.Children[i].Trouble = err
			e.foreseeTrouble(&child, err)
		} else {
			errs = append(errs, err)
		}
		missing = missing || err != nil && child.Prerequisite
	}
	req.noteTaken(failed)
	if err := req.nameTaken(reconciler.Aggregate(errs...)); err != nil {
		return changes, err
	}
	for _, obj := range req.Unwanted {
		if !canPrune(req, obj) {
			continue
		}
		gvk, err := e.client.GroupVersionKindFor(obj)
		if err != nil {
			return changes, err
		}
		change := Change{Action: Deleted, Kind: gvk.Kind, Name: obj.GetName()}
		changes = append(changes, change)
		if e.foresight != nil {
			e.foresight.note(Foreseen{Change: change, Before: obj})
		}
	}
	return changes, nil
}

// change is what the plan says of itself.
func (p *plan) change() Change {
	return Change{Action: p.action, Kind: p.gvk.Kind, Name: p.child.Desired.GetName(), Overridden: p.overridden, RetryAfter: p.retry}
}

// previewChild is the dry run of one child.
func (e *Engine) previewChild(ctx context.Context, req *Request, p *plan) (Change, error) {
	change := p.change()
	switch p.action {
	case Unchanged:
		return change, nil
	case Replaced:
		return change, e.canRecreate(ctx, p)
	case Created:
		return e.previewCreation(ctx, req, p)
	}
	live := p.child.Live
	if !p.transfers() {
		opts := append([]client.PatchOption{client.ForceOwnership}, dryRunOptions...)
		after, err := e.sendRequest(ctx, req, p, map[string]string{"uid": string(live.GetUID())}, opts...)
		if err != nil {
			return change, e.classifyError(p, err)
		}
		if p.handsOver(req) {
			keepReplicas(after, live)
		}
		err = e.foreseeChange(req, p, &change, live, after, nil)
		return change, err
	}
	live, err := e.readLive(ctx, p)
	if err != nil {
		return change, err
	}
	if err := e.claimWhole(ctx, req, p, live); err != nil {
		return change, err
	}
	t, err := e.planTransfer(req, p, live)
	if err != nil {
		return change, err
	}
	after, err := e.dryRun(ctx, req, p, live, t)
	if err != nil {
		return change, err
	}
	if p.handsOver(req) {
		keepReplicas(after, live)
	}
	err = e.foreseeChange(req, p, &change, live, after, t)
	return change, err
}

// previewCreation is the dry run of a child that is not seen. It may exist nevertheless.
func (e *Engine) previewCreation(ctx context.Context, req *Request, p *plan) (Change, error) {
	change := p.change()
	var err error
	p.after, err = e.sendRequest(ctx, req, p, map[string]string{"resourceVersion": neverVersion}, dryRunOptions...)
	if !apierrors.IsConflict(err) {
		return change, e.classifyError(p, err)
	}
	live, err := e.readLive(ctx, p)
	if errors.Is(err, reconciler.ErrStale) {
		p.after, err = e.sendRequest(ctx, req, p, nil, dryRunOptions...)
		return change, e.classifyError(p, err)
	}
	if err != nil {
		return change, err
	}
	child := *p.child
	child.Live = live
	again, err := e.planChild(req, &child)
	if err != nil {
		return change, err
	}
	change, err = e.previewChild(ctx, req, &again)
	*p = again
	return change, err
}

var dryRunOptions = []client.PatchOption{client.DryRunAll, client.DisableReadYourWritesConsistency}

// foreseeChange states in a change what it would change.
func (e *Engine) foreseeChange(req *Request, p *plan, change *Change, before, after client.Object, t *transfer) error {
	if err := e.describeDifference(change, req.Manager, before, after); err != nil {
		return err
	}
	if p.repair {
		change.By = describe.FieldManagers(before, req.Manager, p.diff)
	}
	if e.foresight != nil {
		var err error
		p.before, p.after = before, after
		if fields.IsSame(before, after) {
			change.Action = Unchanged
			return nil
		}
		if p.differences, err = describe.Differences(e.comparer, req.Manager, before, after, !p.takeover && !p.claimed && !p.moves); err != nil {
			return err
		}
	}
	if !p.takeover || t == nil {
		change.Removed = nil
		return nil
	}
	kept, err := e.keptFields(p, after, t)
	change.Kept = kept
	return err
}

// keptFields returns what other managers own in an adopted object's spec, and what stays there, but for defaults.
func (e *Engine) keptFields(p *plan, after client.Object, t *transfer) ([]string, error) {
	whole, err := e.comparer.TypedLive(p.gvk, after)
	if err != nil {
		return nil, err
	}
	all, err := whole.ToFieldSet()
	if err != nil {
		return nil, err
	}
	stated, err := e.statedFields(p)
	if err != nil {
		return nil, err
	}
	found, _ := whole.AsValue().Unstructured().(map[string]any)
	theirs := fields.SelectBelow(t.theirs.Intersection(all).Difference(stated), []fieldpath.Path{fieldpath.MakePathOrDie("spec")})
	leaves, kept := theirs.Leaves(), &fieldpath.Set{}
	for path := range theirs.All() {
		// An item of a list counts as a whole; of a struct, the fields do.
		if item := path[len(path)-1].FieldName == nil; item || leaves.Has(path) && !fields.IsDefault(found, path) {
			kept.Insert(path.Copy())
		}
	}
	return describe.ShortPaths(kept, describe.MainContainer(after)), nil
}

// canPrune reports whether an unwanted object is the owner's to delete, and is not being deleted yet.
func canPrune(req *Request, obj client.Object) bool {
	return isPrunable(req, obj) && obj.GetDeletionTimestamp() == nil
}

// isPrunable reports whether an unwanted object is the owner's to delete.
func isPrunable(req *Request, obj client.Object) bool {
	_, retained := obj.GetAnnotations()[appv1.AnnotationRetainedFor]
	return !volumeClaim(obj) && !retained && metav1.IsControlledBy(obj, req.Owner)
}
