package apply

import (
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"

	appv1 "huolala.cn/app-operator/api/v1"
	"huolala.cn/app-operator/internal/claim"
	"huolala.cn/app-operator/internal/describe"
	"huolala.cn/app-operator/internal/fields"
	"huolala.cn/app-operator/internal/reconciler"
)

// plan is what to do with one child.
type plan struct {
	child  *Child
	gvk    schema.GroupVersionKind
	action Action
	// wanted is the desired object with the annotation that states sum, the hash of all else in it.
	wanted client.Object
	sum    string
	// fields is wanted as it is applied, nil until fields.Literal has made it.
	fields map[string]any
	// owner is the owner's kind, self the owner as the annotation of an object that is retained for it names it.
	owner schema.GroupVersionKind
	self  string
	// takeover is set where the live object was created by another client, or by an operator before this one.
	takeover bool
	// claimed is set where nothing of the owner's controls the live object yet, or any more.
	claimed bool
	// whole is set where the live object was read from the API server, which shows all of a foreign one.
	whole bool
	// moves is set where the pod template becomes that of our manager, or ceases to be.
	moves bool
	// crowded is set where the live object has what cannot stay next to what is wanted, and server-side apply does not
	// remove: items of others in a list that is ours as a whole, and excluded, the other members of one-ofs.
	crowded  bool
	excluded []fieldpath.Path
	// diff are the fields in which the live object is not as wanted although nothing new is. repair is set where another
	// writer has changed them, dropped where the API server itself did not keep them.
	diff            *fieldpath.Set
	repair, dropped bool
	// before is the live object before it was written.
	before client.Object
	// after is the object as a dry run has left it, differences are the fields that it changes; see Foresee.
	after       client.Object
	differences []describe.Difference
	// times is how often the object was repaired within an hour.
	times int
	// conflict is the error to report instead of writing, where another writer keeps undoing what is written.
	conflict error
	// overridden says which fields the API server does not keep, retry when they are written again.
	overridden string
	retry      time.Duration
}

// noteOverride notes that the API server does not keep fields, unless the owner accepts what it makes of them.
func (p *plan) noteOverride(req *Request, diff *fieldpath.Set, retry time.Duration) {
	if !req.AcceptOverrides {
		p.overridden, p.retry = overriddenMessage(p, diff), retry
	}
}

// planChild decides what to do with a child, and whether it may be touched at all.
func (e *Engine) planChild(req *Request, child *Child) (plan, error) {
	if child.planned != nil {
		return child.planned.plan, child.planned.err
	}
	p := plan{child: child}
	if child.Unavailable != nil {
		return p, child.Unavailable
	}
	var err error
	if p.gvk, err = apiutil.GVKForObject(child.Desired, e.client.Scheme()); err != nil {
		return p, fmt.Errorf("desired object: %w", err)
	}
	if p.owner, err = ownerKind(req.Owner, e.client.Scheme()); err != nil {
		return p, err
	}
	p.self = p.owner.Kind + "." + req.Owner.GetName()
	if err := p.checkDesired(); err != nil {
		return p, err
	}
	if err := p.stateWanted(req, recordedLabels(req, child.Desired, child.Live)); err != nil {
		return p, err
	}
	if child.Live != nil {
		if err := p.claimLive(req, child.Live); err != nil {
			return p, err
		}
	}
	if child.Live == nil {
		p.action = Created
	} else if err := e.compareLive(req, &p); err != nil {
		return p, err
	}
	if p.action == Unchanged {
		return p, nil
	}
	if child.Replace && (p.action == Configured || p.action == Repaired) {
		p.action = Replaced
	}
	if err := p.ensureFields(); err != nil {
		return p, err
	}
	_, err = e.comparer.Typed(p.fields) // What does not fit its type is said before anything is written.
	return p, err
}

// ownerKind returns the kind of an owner, by what it says itself if it does.
func ownerKind(owner client.Object, scheme *runtime.Scheme) (schema.GroupVersionKind, error) {
	if gvk := owner.GetObjectKind().GroupVersionKind(); !gvk.Empty() {
		return gvk, nil
	}
	gvk, err := apiutil.GVKForObject(owner, scheme)
	if err != nil {
		return gvk, fmt.Errorf("owner: %w", err)
	}
	return gvk, nil
}

// ensureFields states in fields what to apply. Most looks at an object find that it is as wanted, and need none.
func (p *plan) ensureFields() (err error) {
	if p.fields == nil {
		p.fields, err = fields.Literal(p.wanted)
	}
	return err
}

// Taken returns the error that Apply would return if the owner cannot manage the live object that has the name of a wanted one, or nil.
// Callers use it before they build a Request; adopt is Request.Adopt.
func Taken(scheme *runtime.Scheme, owner, wanted, live client.Object, adopt bool) error {
	p := plan{child: &Child{Desired: wanted}}
	var err error
	if p.gvk, err = apiutil.GVKForObject(wanted, scheme); err != nil {
		return err
	}
	if p.owner, err = ownerKind(owner, scheme); err != nil {
		return err
	}
	p.self = p.owner.Kind + "." + owner.GetName()
	return p.checkOwnership(&Request{Owner: owner, Adopt: adopt}, live)
}

// checkDesired finds mistakes of a builder that would cost data.
func (p *plan) checkDesired() error {
	wanted := p.child.Desired
	switch {
	case p.child.Retained && (wanted.GetAnnotations()[appv1.AnnotationRetainedFor] != p.self || len(wanted.GetOwnerReferences()) > 0):
		return fmt.Errorf(messageMustBeRetained,
			p.gvk.Kind, wanted.GetName(), appv1.AnnotationRetainedFor, p.self)
	case p.volumeClaim() && p.child.Live == nil:
		return fmt.Errorf(messageClaimMissing, p.gvk.Kind, wanted.GetName())
	}
	return nil
}

// volumeClaim reports whether the child is a claim that a StatefulSet makes.
func (p *plan) volumeClaim() bool { return volumeClaim(p.child.Desired) }

func volumeClaim(obj client.Object) bool { return TypeOf(obj).Role == RoleClaim }

// notCached reports whether the child is of a type that is never in the cache. For a client that waits for its own writes to
// show there, a write would start a watch.
func (p *plan) notCached() bool { return TypeOf(p.child.Desired).Scope == ScopeLive }

// newTarget returns an object of the child's type and name, for an answer of the API server to be read into.
func (p *plan) newTarget() (client.Object, error) {
	obj, ok := p.child.Desired.DeepCopyObject().(client.Object)
	if !ok {
		return nil, fmt.Errorf("%T is no API object", p.child.Desired)
	}
	return obj, nil
}

// claimLive decides whether the live object is the owner's to change, and what of it stays as it is.
func (p *plan) claimLive(req *Request, live client.Object) error {
	if err := p.checkOwnership(req, live); err != nil {
		return err
	}
	return p.keepLabels(req, live)
}

// checkOwnership decides whether the live object is the owner's to change.
func (p *plan) checkOwnership(req *Request, live client.Object) error {
	c := claim.Case{
		Wanted: p.child.Desired, Live: live, Kind: p.gvk.Kind, Owner: p.owner, Name: req.Owner.GetName(), UID: req.Owner.GetUID(),
		Adopt: req.Adopt, Sum: p.sum, Retained: p.child.Retained, Claim: p.volumeClaim(), Whole: p.whole,
		Applied: func() bool { return claim.WasApplied(live, req.Manager) },
	}
	// Without fields of ours, the object was made again by others, from a backup for one.
	_, known := live.GetAnnotations()[appv1.AnnotationLastAppliedHash]
	unmanaged := !known || !fields.OwnsAny(live, req.Manager)
	switch standing, words := c.Decide(); standing {
	case claim.Owned:
		// The garbage collector must find no reference on what is to outlive the owner, regardless of its writer.
		p.takeover = unmanaged || p.child.Retained
	case claim.Kept:
		p.claimed = !p.child.Retained
		// A claim is the StatefulSet controller's, but for its size.
		p.takeover = unmanaged && !p.volumeClaim()
	case claim.Lost:
		p.claimed = !p.child.Retained
	case claim.Adopted:
		p.claimed, p.takeover = true, true
	case claim.Leaving:
		return p.waitForDeletion(words)
	case claim.Taken:
		stalled := &reconciler.StalledError{Reason: appv1.ReasonResourceExists, Message: words}
		if p.child.Auxiliary {
			stalled.RetryAfter = lookAgain // The cache does not show what is not ours.
		}
		return stalled
	}
	return nil
}

// waitForDeletion says what is waited for. Where no watch tells of it, it is looked for again.
func (p *plan) waitForDeletion(words string) error {
	err := &reconciler.WaitingError{Reason: appv1.ReasonProgressing, Message: words}
	if p.notCached() || p.child.Auxiliary {
		err.RetryAfter = lookAgain
	}
	return err
}

// compareLive decides whether a live object of ours must be written. It changes nothing but the plan.
func (e *Engine) compareLive(req *Request, p *plan) error {
	live := p.child.Live
	p.action = Configured
	foreign, err := e.foreignListItems(req, p)
	if err != nil {
		return err
	}
	same := !p.takeover && live.GetAnnotations()[appv1.AnnotationLastAppliedHash] == p.sum
	if same && foreign.Empty() {
		switch holds, err := e.comparer.Contains(p.gvk, p.wanted, live); {
		case err != nil:
			return err
		case holds:
			p.action = Unchanged
			return nil
		}
	}
	p.moves = p.movesTemplate(req)
	if p.excluded, err = e.comparer.Exclusions(p.gvk, p.wanted, live); err != nil {
		return err
	}
	p.crowded = !foreign.Empty() || len(p.excluded) > 0
	edited := !same && p.hashEdited(req)
	if !same && !edited {
		return nil
	}
	diff, err := e.comparer.Diff(p.wanted, live)
	if err != nil {
		return err
	}
	if edited {
		// What of the diff is ours has another value than we applied last: the owner wants it so.
		if p.repair = diff.Leaves().Intersection(fields.OwnedBy(live, req.Manager)).Empty(); p.repair {
			p.action, p.diff = Repaired, diff.Union(foreign).Union(fieldpath.NewSet(p.excluded...))
		}
		return nil
	}
	ours := !p.crowded && fields.DroppedByServer(diff, live, req.Manager)
	switch {
	case diff.Empty() && !p.crowded:
		p.action = Unchanged
	case ours && !diff.Equals(diff.RecursiveDifference(TypeOf(p.child.Desired).unhashedFields())):
		p.diff = diff // Where the hash does not look, what is wanted has changed.
	case ours && e.conflicts.isOverridden(req, p, diff):
		// managedFields alone do not tell: another writer under our manager's name looks the same.
		p.dropped, p.diff = true, diff
	default:
		// Nothing new is wanted, and yet it does not hold: another writer has changed it.
		p.action, p.repair = Repaired, true
		p.diff = diff.Union(foreign).Union(fieldpath.NewSet(p.excluded...))
	}
	return nil
}

// hashEdited reports whether another writer has changed or removed the hash of an object that our manager applies and the
// owner controls. Then the hash does not show whether anything new is wanted.
func (p *plan) hashEdited(req *Request) bool {
	live := p.child.Live
	return !p.child.Retained && metav1.IsControlledBy(live, req.Owner) && fields.OwnsAny(live, req.Manager) &&
		!OwnsAnnotation(live, req.Manager, appv1.AnnotationLastAppliedHash)
}

// paceRepairs decides whether it is time to write what another writer, or the API server itself, keeps changing.
func (e *Engine) paceRepairs(req *Request, p *plan) {
	switch {
	case p.dropped && req.AcceptOverrides:
		p.action = Unchanged
	case p.dropped:
		if retry, wait := e.conflicts.retryWrite(req, p); wait {
			p.action = Unchanged
			p.noteOverride(req, p.diff, retry)
		}
	case p.repair:
		retry, fighting := e.conflicts.noteRepair(req, p)
		if fighting {
			p.conflict = fieldConflict(p, p.child.Live, p.diff, retry)
			return
		}
		p.times = e.conflicts.recentRepairs(req, p)
	}
}

// foreignListItems returns what others have in lists that are ours as a whole.
func (e *Engine) foreignListItems(req *Request, p *plan) (*fieldpath.Set, error) {
	lists := TypeOf(p.child.Desired).Exclusive
	if len(lists) == 0 {
		return &fieldpath.Set{}, nil
	}
	theirs := &fieldpath.Set{}
	for _, entry := range p.child.Live.GetManagedFields() {
		if entry.Manager == req.Manager || entry.Subresource != "" {
			continue
		}
		if set := fields.DecodeManaged(entry); set != nil {
			theirs = theirs.Union(set)
		}
	}
	if theirs.Empty() {
		return theirs, nil
	}
	stated, err := e.statedFields(p)
	if err != nil {
		return nil, err
	}
	return fields.ForeignItems(theirs, stated, lists), nil
}

// handsOver reports whether the number of replicas is ours and is to become an autoscaler's.
func (p *plan) handsOver(req *Request) bool {
	spec, _ := p.fields["spec"].(map[string]any)
	_, stated := spec["replicas"]
	return !stated && fields.OwnsPath(p.child.Live, req.Manager, replicasPath)
}
