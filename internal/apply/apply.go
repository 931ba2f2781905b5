// Package apply is the one engine that writes children: the objects that a custom resource means.
//
// It compares desired and live objects, and sends the fewest server-side apply requests that bring the live objects to the
// desired state. It keeps no state that matters: a restarted operator finds every decision again in the live objects. It knows
// Kubernetes' kinds, and none of ours.
package apply

import (
	"context"
	"errors"
	"reflect"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"huolala.cn/app-operator/internal/describe"
	"huolala.cn/app-operator/internal/fields"
	"huolala.cn/app-operator/internal/reconciler"
)

// HandoverManager owns a field that the engine has given up to an autoscaler, until the autoscaler first writes it. It
// keeps the field's value from falling back to the default.
const HandoverManager = "app-operator-handover"

// Engine writes children. Make it with New.
type Engine struct {
	client      client.Client
	live        client.Reader
	comparer    *fields.Comparer
	conflicts   *conflicts
	scaleMemory *scaleMemory
	// foresight is set of an engine that writes nothing; see Foresee.
	foresight *Foresight
	// disabled are the features that are switched off.
	disabled []string
}

// Disable switches features off: nothing of their types is watched, so that there is nothing to look for.
func (e *Engine) Disable(features []string) { e.disabled = features }

// New returns an engine that writes with c. Where a decision needs more than the caller's view of an object holds, it
// reads with live.
func New(c client.Client, live client.Reader, clk clock.PassiveClock) *Engine {
	return &Engine{
		client:      c,
		live:        live,
		comparer:    fields.NewComparer(c.Scheme()),
		conflicts:   newConflicts(clk),
		scaleMemory: newScaleMemory(),
	}
}

// Matches reports whether a live object has all that a literal of its type states.
func (e *Engine) Matches(wanted, live client.Object) (bool, error) {
	return e.comparer.Matches(wanted, live)
}

// RecordHolds reports whether an object that was built from a record is the object that its carrier was made from; see
// fields.Comparer.
func (e *Engine) RecordHolds(manager string, built, found, carrier client.Object) (bool, error) {
	return e.comparer.RecordHolds(manager, built, found, carrier)
}

// Request is what should become true of one owner's children.
type Request struct {
	// Owner is the custom resource. It controls its children.
	Owner client.Object
	// Manager is the field owner to write with. It is the same for all owners of a kind, and only for them: under one
	// shared manager, one kind's partial apply would strip what another applied.
	Manager string
	// Children are wanted.
	Children []Child
	// Unwanted are live objects to delete if the owner controls them, once all children are applied.
	Unwanted []client.Object
	// Adopt takes over live objects that nothing controls.
	Adopt bool
	// DefaultLabels are the labels of the children that the owner does not state. On an object that is adopted, those of others stay.
	DefaultLabels []string
	// Overridden is the message of an earlier ChangeSet, of another process for one, on what the API server did not keep. It
	// counts for a child until the child is written.
	Overridden string
	// Existed says that the owner was reconciled before. A child that is missing is then created only after the owner was
	// read from the API server: the view of an owner that is being deleted may be outdated.
	Existed bool
	// AcceptOverrides takes what the API server makes of stated fields for what is wanted.
	AcceptOverrides bool
	// Whole writes nothing of what is new if the API server refuses a part of it; see Refusal.
	Whole bool

	// alive is set once the owner was read from the API server.
	alive bool
	// refusal is why nothing new was written; see Refusal.
	refusal error
	// unpruned is what was in the way of the deletion of auxiliary objects, and what is being deleted yet.
	unpruned []error
	// taken are the messages of the objects of others that have the names of children.
	taken []string
}

// Trouble returns what is in the way of auxiliary children and of deletions, nil if nothing is. It is for after Apply, whose error leaves it out.
func (r *Request) Trouble() error {
	errs := slices.Clone(r.unpruned)
	for i := range r.Children {
		errs = append(errs, r.Children[i].Trouble)
	}
	return r.nameTaken(reconciler.Aggregate(errs...))
}

// Refusal returns why nothing of what is new in a Whole request was written, nil if it was. It is for after Apply, whose error
// may tell of something else that is in the way as well.
func (r *Request) Refusal() error { return r.refusal }

// Child is one wanted object.
type Child struct {
	// Desired is the literal that is wanted: type, name and all fields that are ours. A Secret's are in data: stringData
	// never comes back. A PersistentVolumeClaim's are metadata and its size: its StatefulSet makes it, and it is only grown.
	Desired client.Object
	// Live is the object as it was last seen, nil if there is none. After Apply it is what was written.
	Live client.Object
	// Retained is an object that outlives the owner. Desired has no owner reference, and says by the annotation
	// app.huolala.cn/retained-for, as "<kind>.<name>", who owns it.
	Retained bool
	// Replace deletes the live object, if it is not as wanted, instead of updating it, and leaves alone what it controls.
	// The next Apply recreates it.
	Replace bool
	// Prerequisite is an object that must be in place before any child behind it is created or replaced, as a database's
	// password is before the database.
	Prerequisite bool
	// Independent is an object that is created whether or not the prerequisites before it are in place.
	Independent bool
	// Unavailable, if set, is why an object of this kind can be neither read nor written. Then nothing is, and that is the error.
	Unavailable error
	// Auxiliary is an object around the pods. What is in its way holds up no other object, unless it is a Prerequisite, and is
	// not in the error of Apply but in Trouble.
	Auxiliary bool
	// LeadsTo is the child, by type and name, that an Auxiliary object makes reachable. While there is none of the owner's, the
	// object stays as it is: it would lead to an object of another owner.
	LeadsTo client.Object
	// Trouble is set by Apply to what is in the way of an Auxiliary object, nil if nothing is.
	Trouble error
	// NotWritten is set by Apply where the object certainly was not written although it is not as wanted: another child is in the way, or
	// the API server refuses or forbids it. It is then as it was before.
	NotWritten bool

	// planned is what to do with it if that was found out before its turn, nil if not.
	planned *decision
}

// Apply makes the request true and returns what it changed, also together with an error. Each child is carried out whatever
// becomes of the others, but for those behind a Prerequisite, those of a Whole request, and objects to be adopted: none of
// them is taken over if one child cannot be written. Unwanted objects are deleted once all are in place.
//
// The error is reconciler.Aggregate of what went wrong: a reconciler.StalledError if an object is not ours (reason
// ResourceExists), a field cannot be changed (ImmutableField), the API server refuses an object (Invalid), or another
// writer keeps undoing a change (FieldConflict); a reconciler.WaitingError if an object is on its way out, to be replaced
// for one; reconciler.ErrStale if the view was outdated; and a reconciler.FailedError for all else. That the API server
// does not keep a field is no error; see ChangeSet.Overridden.
func (e *Engine) Apply(ctx context.Context, req *Request) (ChangeSet, error) {
	if e.foresight != nil {
		return e.foreseeRequest(ctx, req)
	}
	defer func() {
		for i := range req.Children {
			req.Children[i].planned = nil
		}
	}()
	t, err := e.tryRequest(ctx, req)
	if err != nil {
		return nil, err
	}
	changes, errs := e.applyChildren(ctx, req, t)
	if req.Whole && Refused(t.err) {
		req.refusal = t.err
	}
	changes = slices.DeleteFunc(changes, func(c Change) bool { return c.Action == "" })
	req.noteTaken(errs)
	if err := req.nameTaken(reconciler.Aggregate(reconciler.Aggregate(errs...), t.err)); err != nil {
		return changes, err
	}
	pruned, err := e.pruneObjects(ctx, req)
	return slices.Concat(changes, pruned), err
}

// applyChildren carries out each child that the try does not withhold, and returns what came of each.
func (e *Engine) applyChildren(ctx context.Context, req *Request, t *trial) (ChangeSet, []error) {
	changes, errs := make(ChangeSet, len(req.Children)), make([]error, len(req.Children))
	missing := false // A prerequisite is not in place.
	for _, i := range t.order {
		child := &req.Children[i]
		if child.Auxiliary {
			switch {
			case t.withheld[i]:
				missing = missing || child.Prerequisite
			case !req.Whole || !Refused(t.err): // Otherwise, what was applied last comes next, together with this child.
				changes[i], errs[i] = e.applyAuxiliary(ctx, req, child, errs)
				missing = missing || child.Prerequisite && (errs[i] != nil || child.Trouble != nil)
			}
			continue
		}
		if !t.withheld[i] {
			changes[i], errs[i] = e.applyChild(ctx, req, child, missing && !child.Independent)
		}
		child.NotWritten = t.withheld[i] || errs[i] == nil && changes[i].Action == "" || Refused(errs[i]) || isForbidden(errs[i])
		if req.Whole && (Refused(errs[i]) || errors.Is(errs[i], reconciler.ErrStale)) {
			t.noteRefusal(errs[i]) // On an outdated view it is not known yet whether a part is refused.
		}
		missing = missing || child.Prerequisite && (errs[i] != nil || t.withheld[i])
	}
	return changes, errs
}

// applyAuxiliary is applyChild for an auxiliary child. Its error is an outdated view alone.
func (e *Engine) applyAuxiliary(ctx context.Context, req *Request, child *Child, errs []error) (Change, error) {
	if held, err := req.leadsElsewhere(child, errs); held {
		child.Trouble = err
		return Change{}, nil
	}
	change, err := e.applyChild(ctx, req, child, false)
	if errors.Is(err, reconciler.ErrStale) {
		return change, err
	}
	child.Trouble = err
	return change, nil
}

// leadsElsewhere reports whether an auxiliary child leads to another child that the owner does not control yet, and what is in that
// one's way.
func (r *Request) leadsElsewhere(child *Child, errs []error) (bool, error) {
	if i := r.indexOf(child.LeadsTo); i >= 0 {
		to := &r.Children[i]
		return to.Live == nil || !metav1.IsControlledBy(to.Live, r.Owner), errs[i]
	}
	return false, nil
}

// leadsToFailed reports whether an auxiliary child leads to another child that the owner does not control, and cannot write.
func (r *Request) leadsToFailed(child *Child, errs []error) bool {
	elsewhere, err := r.leadsElsewhere(child, errs)
	return elsewhere && err != nil
}

// indexOf returns the index of the child of a type and name, -1 if there is none. obj may be nil.
func (r *Request) indexOf(obj client.Object) int {
	if obj == nil {
		return -1
	}
	return slices.IndexFunc(r.Children, func(c Child) bool {
		return reflect.TypeOf(c.Desired) == reflect.TypeOf(obj) && c.Desired.GetName() == obj.GetName()
	})
}

// applyChild plans one child and carries it out. The change has no action where nothing came of it.
func (e *Engine) applyChild(ctx context.Context, req *Request, child *Child, missing bool) (Change, error) {
	p, err := e.planExplained(ctx, req, child)
	if err != nil {
		return Change{}, err
	}
	if missing && (p.action == Created || p.action == Replaced) {
		return Change{}, nil
	}
	before := e.conflicts.snapshotOf(req, &p)
	e.paceRepairs(req, &p)
	if p.conflict != nil {
		return Change{}, p.conflict
	}
	change, err := e.execute(ctx, req, &p)
	var unseen *unseenError
	if errors.As(err, &unseen) {
		child.Live, child.planned = unseen.live, nil
		return e.applyChild(ctx, req, child, missing)
	}
	if p.repair {
		e.countRepair(req, &p, before, err == nil && change.Action != Unchanged)
	}
	if err != nil {
		return Change{}, err
	}
	change.Overridden, change.RetryAfter = p.overridden, p.retry
	if change.Action == Replaced {
		err = beingReplaced(&p)
	}
	return change, err
}

// countRepair counts a repair that has changed the object, and forgets any other: an attempt that was refused, or met a newer
// version of the object, says nothing of a fight.
func (e *Engine) countRepair(req *Request, p *plan, before fight, changed bool) {
	if changed {
		repairs.WithLabelValues(p.gvk.Kind).Inc()
		return
	}
	now := e.conflicts.snapshotOf(req, p)
	before.answered, before.overridden = now.answered, now.overridden
	e.conflicts.restoreSnapshot(req, p, before)
}

// Forget drops what is remembered of an owner that is gone.
func (e *Engine) Forget(owner types.NamespacedName, manager string) {
	e.conflicts.forgetOwner(manager, owner)
	e.scaleMemory.forgetOwner(manager, owner)
}

// execute does what was planned for one child.
func (e *Engine) execute(ctx context.Context, req *Request, p *plan) (Change, error) {
	change := Change{Action: p.action, Kind: p.gvk.Kind, Name: p.child.Desired.GetName()}
	if p.action == Unchanged {
		return change, nil
	}
	if p.claimed || p.action == Created && req.Existed {
		if err := e.verifyOwnerAlive(ctx, req); err != nil {
			return change, err
		}
	}
	if p.action == Replaced {
		if err := e.canRecreate(ctx, p); err != nil {
			return change, err
		}
		return change, e.removeObject(ctx, p, metav1.DeletePropagationOrphan)
	}
	seen := p.child.Live
	p.before = seen
	if p.transfers() {
		if err := e.takeOver(ctx, req, p); err != nil {
			return change, err
		}
	}
	if p.action != Created && p.handsOver(req) {
		if err := e.handOver(ctx, p); err != nil {
			return change, err
		}
	}
	write := e.update
	if p.action == Created {
		write = e.create
	}
	written, err := write(ctx, req, p)
	if err != nil {
		return change, err
	}
	p.child.Live = written
	if err := e.rewriteOverridden(ctx, req, p); err != nil {
		return change, err
	}
	if seen != nil && seen.GetResourceVersion() == p.child.Live.GetResourceVersion() {
		change.Action = Unchanged
		return change, nil
	}
	writes.WithLabelValues(change.Kind, string(change.Action)).Inc()
	err = e.describeRepair(req, p, &change)
	return change, err
}

// describeRepair states in a change what it has changed, and whose change it has repaired.
func (e *Engine) describeRepair(req *Request, p *plan, change *Change) error {
	if p.before == nil {
		return nil
	}
	if err := e.describeDifference(change, req.Manager, p.before, p.child.Live); err != nil {
		return err
	}
	if !p.takeover {
		change.Removed = nil
	}
	if p.repair {
		change.By, change.Times = describe.FieldManagers(p.before, req.Manager, p.diff), p.times
	}
	return nil
}

// rewriteOverridden writes once more what the API server has not kept, and notes what it does not keep then either. The first time it
// may be server-side apply itself: a struct goes with the last field that is taken out of it, although it is stated to be
// there and empty.
func (e *Engine) rewriteOverridden(ctx context.Context, req *Request, p *plan) error {
	for _, last := range []bool{false, true} {
		diff, err := e.comparer.Diff(p.wanted, p.child.Live)
		if err != nil {
			return err
		}
		if !fields.DroppedByServer(diff, p.child.Live, req.Manager) {
			e.conflicts.noteOverridden(req, p, nil)
			return nil
		}
		if last {
			e.conflicts.noteOverridden(req, p, diff)
			p.noteOverride(req, diff, conflictMaxDelay)
			return nil
		}
		written, err := e.update(ctx, req, p)
		if err != nil {
			return err
		}
		p.child.Live = written
	}
	return nil
}

// neverVersion is a resource version that no object has. A request that states it is refused if the object exists, and
// creates it if not (kubernetes/kubernetes#106745).
const neverVersion = "1"

// create applies an object that is not there. It is not forced, and refused if the object exists. What is then in the
// way is read to find its owner. It may be our own: the answer to its creation was lost, and the cache does not show it
// yet.
func (e *Engine) create(ctx context.Context, req *Request, p *plan) (client.Object, error) {
	written, err := e.sendRequest(ctx, req, p, map[string]string{"resourceVersion": neverVersion})
	if !apierrors.IsConflict(err) {
		return written, e.classifyError(p, err)
	}
	live, err := e.readLive(ctx, p)
	if errors.Is(err, reconciler.ErrStale) {
		// Nothing is there, so the API server refuses the resource version itself, or the object has just gone.
		written, err = e.sendRequest(ctx, req, p, nil)
		return written, e.classifyError(p, err)
	}
	if err != nil {
		return nil, err
	}
	if err := p.checkOwnership(req, live); err != nil {
		return nil, err
	}
	if p.hidden(live) {
		return nil, &unseenError{live}
	}
	return nil, reconciler.ErrStale
}

// unseenError says that an object of the owner's, or one to be adopted, exists, and that the cache never shows it.
type unseenError struct{ live client.Object }

func (e *unseenError) Error() string { return e.live.GetName() + " exists, and is not in the cache" }

// hidden reports whether a live object is not in the cache for want of the operator's label.
func (p *plan) hidden(live client.Object) bool {
	return TypeOf(p.child.Desired).Scope == ScopeOurs && !isManaged(live)
}

// update applies an object that is ours. It is forced, and bound to the object that was looked at by its UID.
func (e *Engine) update(ctx context.Context, req *Request, p *plan) (client.Object, error) {
	written, err := e.sendRequest(ctx, req, p, map[string]string{"uid": string(p.child.Live.GetUID())}, client.ForceOwnership)
	return written, e.classifyError(p, err)
}

// sendRequest sends the apply request, with preconditions stated in the metadata, and returns the object as it is then.
func (e *Engine) sendRequest(ctx context.Context, req *Request, p *plan, preconditions map[string]string, opts ...client.PatchOption) (client.Object, error) {
	data, err := applyBody(p.fields, preconditions)
	if err != nil {
		return nil, err
	}
	return e.apply(ctx, p, data, append(opts, client.FieldOwner(req.Manager))...)
}

// apply sends a server-side apply of the child and returns the object as it is then.
func (e *Engine) apply(ctx context.Context, p *plan, data []byte, opts ...client.PatchOption) (client.Object, error) {
	written, err := p.newTarget()
	if err != nil {
		return nil, err
	}
	if p.notCached() {
		opts = append(opts, client.DisableReadYourWritesConsistency)
	}
	err = e.client.Patch(ctx, written, client.RawPatch(types.ApplyPatchType, data), opts...)
	return written, err
}
