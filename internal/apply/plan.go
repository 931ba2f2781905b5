package apply

import (
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"

	appv1 "huolala.cn/app-operator/api/v1"
	"huolala.cn/app-operator/internal/children"
	"huolala.cn/app-operator/internal/claim"
	"huolala.cn/app-operator/internal/fields"
	"huolala.cn/app-operator/internal/reconciler"
)

// Claim is the relation of an owner to a live object.
type Claim int

const (
	// ClaimOwned is an object that the owner controls and our manager applies, or an object that does not exist.
	ClaimOwned Claim = iota
	// ClaimTakenOver is an object of the owner that another client, or an earlier operator, created: fields of other managers become ours.
	ClaimTakenOver
	// ClaimReturned is an object that our manager applied for the owner, and that has lost the reference to the owner.
	ClaimReturned
	// ClaimAdopted is an object of others, or an object that was created again by others: it is returned to the owner and taken over.
	ClaimAdopted
)

// takesOver reports whether fields of other managers become ours.
func (c Claim) takesOver() bool { return c == ClaimTakenOver || c == ClaimAdopted }

// isReturned reports whether nothing of the owner controls the object yet, or any more.
func (c Claim) isReturned() bool { return c == ClaimReturned || c == ClaimAdopted }

// newClaim returns the claim of an object that nothing of the owner controls (returned), or that other managers applied (taken).
func newClaim(returned, taken bool) Claim {
	switch {
	case returned && taken:
		return ClaimAdopted
	case returned:
		return ClaimReturned
	case taken:
		return ClaimTakenOver
	}
	return ClaimOwned
}

// drift is why a live object differs from a desired object that is not new.
type drift int

const (
	_ drift = iota
	// driftRepaired is a change by another writer.
	driftRepaired
	// driftDropped is a change by the API server, which did not keep the fields.
	driftDropped
)

// objectPlan is the decision on one object.
type objectPlan struct {
	subject
	comparison
	// live is the object that the decision is about, nil if none exists.
	live  client.Object
	claim Claim
	// wanted is the desired object with the annotation that states sum, the hash of all else in it. fields is wanted as it is applied, nil
	// until ensureFields was called.
	wanted client.Object
	sum    string
	fields map[string]any
	// whole is set where the live object was read from the API server. The cache has a foreign object in part.
	whole bool
	// partial is set where the decision is made on an object that the cache has in part.
	partial bool
}

// subject is the object that a plan is about.
type subject struct {
	object *Object
	gvk    schema.GroupVersionKind
	// owner is the owner's kind, self the owner as the annotation of an object that is retained for it names it.
	owner schema.GroupVersionKind
	self  string
}

// comparison has the action that makes a live object equal to the wanted one, and its cause.
type comparison struct {
	action Action
	// moves is set where our manager becomes, or ceases to be, the owner of the pod template.
	moves bool
	// crowded is set where the live object has fields that cannot stay next to the wanted ones, and that server-side apply does not
	// remove: items of others in a list that is ours as a whole, and the other members of one-ofs.
	crowded bool
	// diff are the fields in which the live object differs although nothing new is wanted, drift is the cause.
	diff  *fieldpath.Set
	drift drift
}

// newPlan returns a plan for an object, without a decision.
func newPlan(owner client.Object, object *Object, scheme *runtime.Scheme) (objectPlan, error) {
	about := subject{object: object}
	var err error
	if about.gvk, err = apiutil.GVKForObject(object.Desired, scheme); err != nil {
		return objectPlan{subject: about}, fmt.Errorf("desired object: %w", err)
	}
	if about.owner, err = ownerKind(owner, scheme); err != nil {
		return objectPlan{subject: about}, err
	}
	about.self = about.owner.Kind + "." + owner.GetName()
	return objectPlan{subject: about, live: object.Live}, nil
}

// newKnownPlan returns the plan of an object whose action is known without a comparison.
func newKnownPlan(object *Object, gvk schema.GroupVersionKind, action Action) *objectPlan {
	return &objectPlan{subject: subject{object: object, gvk: gvk}, comparison: comparison{action: action}, live: object.Live}
}

// planLocally decides what to do with an object, and whether it may be changed at all. It sends no request.
func (e *Engine) planLocally(req *Request, object *Object) (objectPlan, error) {
	if object.Unavailable != nil {
		return objectPlan{subject: subject{object: object}}, object.Unavailable
	}
	p, err := newPlan(req.Owner, object, e.client.Scheme())
	if err != nil {
		return p, err
	}
	if err := p.checkDesired(); err != nil {
		return p, err
	}
	if err := p.stateWanted(req, recordedLabels(req, object, object.Live)); err != nil {
		return p, err
	}
	if object.Live == nil {
		p.action = Created
	} else if err := p.claimLive(req, object.Live); err != nil {
		return p, err
	} else if p.comparison, err = e.compareLive(req, &p); err != nil {
		return p, err
	}
	if p.action == Unchanged {
		return p, nil
	}
	if object.Replace && (p.action == Configured || p.action == Repaired) {
		p.action = Replaced
	}
	if err := p.ensureFields(); err != nil {
		return p, err
	}
	_, err = e.comparer.Typed(p.fields) // An object that does not fit its type is reported before anything is written.
	return p, err
}

// ownerKind returns the kind of an owner: the stated kind, else the kind of its Go type.
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
func (p *objectPlan) ensureFields() (err error) {
	if p.fields == nil {
		p.fields, err = fields.Literal(p.wanted)
	}
	return err
}

// Taken returns the error that Run would return if the owner cannot manage the live object that has the name of a wanted one, or nil.
// Callers use it before they build a Request; adopt is Policy.Adopt. For a live object that the cache has in part, the error does not depend
// on the spec of the object.
func Taken(scheme *runtime.Scheme, owner, wanted, live client.Object, adopt bool) error {
	p, err := newPlan(owner, &Object{Desired: wanted}, scheme)
	if err != nil {
		return err
	}
	p.partial = children.IsPartial(live)
	return p.checkOwnership(&Request{Owner: owner, Policy: Policy{Adopt: adopt}}, live)
}

// checkDesired finds mistakes of a builder that would cost data.
func (p *objectPlan) checkDesired() error {
	wanted := p.object.Desired
	switch {
	case p.object.Retained && (wanted.GetAnnotations()[appv1.AnnotationRetainedFor] != p.self || len(wanted.GetOwnerReferences()) > 0):
		return fmt.Errorf(messageMustBeRetained,
			p.gvk.Kind, wanted.GetName(), appv1.AnnotationRetainedFor, p.self)
	case p.volumeClaim() && p.live == nil:
		return fmt.Errorf(messageClaimMissing, p.gvk.Kind, wanted.GetName())
	}
	return nil
}

// volumeClaim reports whether the child is a claim that a StatefulSet makes.
func (p *objectPlan) volumeClaim() bool { return volumeClaim(p.object.Desired) }

func volumeClaim(obj client.Object) bool { return children.TypeOf(obj).Role == children.RoleClaim }

// notCached reports whether the child is of a type that is never in the cache. For a client that waits for its own writes to
// show there, a write would start a watch.
func (p *objectPlan) notCached() bool {
	return children.TypeOf(p.object.Desired).Scope == children.ScopeLive
}

// othersCached reports whether the cache has the objects of others of the child's type, too.
func (p *objectPlan) othersCached() bool {
	return children.TypeOf(p.object.Desired).Scope == children.ScopeAll
}

// newTarget returns an object of the child's type and name, for an answer of the API server to be read into.
func (p *objectPlan) newTarget() (client.Object, error) {
	obj, ok := p.object.Desired.DeepCopyObject().(client.Object)
	if !ok {
		return nil, fmt.Errorf("%T is no API object", p.object.Desired)
	}
	return obj, nil
}

// claimLive decides whether the live object is the owner's to change, and what of it stays as it is.
func (p *objectPlan) claimLive(req *Request, live client.Object) error {
	if err := p.checkOwnership(req, live); err != nil {
		return err
	}
	return p.keepLabels(req, live)
}

// checkOwnership returns an error if the live object is not the owner's to change, and states the claim otherwise.
func (p *objectPlan) checkOwnership(req *Request, live client.Object) (err error) {
	p.claim, err = p.claimOn(req, live)
	return err
}

// claimOn returns the owner's claim on a live object, or why there is none.
func (p *objectPlan) claimOn(req *Request, live client.Object) (Claim, error) {
	retained := p.object.Retained
	c := claim.Case{
		Wanted: p.object.Desired, Live: live, Kind: p.gvk.Kind, Owner: p.owner, Name: req.Owner.GetName(), UID: req.Owner.GetUID(),
		Adopt: req.Policy.Adopt, Sum: p.sum, Retained: retained, Claim: p.volumeClaim(), Whole: p.whole,
		Partial: p.partial,
		Applied: func() bool { return claim.WasApplied(live, req.Manager) },
	}
	// Without fields of ours, the object was created again by others, from a backup for example.
	_, known := live.GetAnnotations()[appv1.AnnotationLastAppliedHash]
	unmanaged := !known || !fields.OwnsAny(live, req.Manager)
	switch standing, words := c.Decide(); standing {
	case claim.Kept:
		// A PersistentVolumeClaim is the StatefulSet controller's, except its size.
		return newClaim(!retained, unmanaged && !p.volumeClaim()), nil
	case claim.Lost:
		return newClaim(!retained, false), nil
	case claim.Adopted:
		return ClaimAdopted, nil
	case claim.Leaving:
		return ClaimOwned, p.waitForDeletion(words)
	case claim.Taken:
		stalled := &reconciler.StalledError{Reason: appv1.ReasonResourceExists, Message: words}
		if p.object.Auxiliary || !p.othersCached() {
			stalled.RetryAfter = lookAgain
		}
		return ClaimOwned, stalled
	}
	// The garbage collector must find no reference on an object that outlives the owner, regardless of its writer.
	return newClaim(false, unmanaged || retained), nil
}

// waitForDeletion returns the error that names the awaited deletion. Without a watch on the object, the error has a retry.
func (p *objectPlan) waitForDeletion(words string) error {
	err := &reconciler.WaitingError{Reason: appv1.ReasonProgressing, Message: words}
	if p.object.Auxiliary || !p.othersCached() {
		err.RetryAfter = lookAgain
	}
	return err
}

// compareLive returns the comparison of a live object of ours with the wanted one.
func (e *Engine) compareLive(req *Request, p *objectPlan) (comparison, error) {
	found := comparison{action: Configured}
	foreign, err := e.foreignListItems(req, p)
	if err != nil {
		return found, err
	}
	same := !p.claim.takesOver() && p.live.GetAnnotations()[appv1.AnnotationLastAppliedHash] == p.sum
	if same && foreign.Empty() {
		if holds, err := e.comparer.Contains(p.gvk, p.wanted, p.live); err != nil || holds {
			return comparison{action: Unchanged}, err
		}
	}
	excluded, err := e.comparer.Exclusions(p.gvk, req.Manager, p.wanted, p.live)
	if err != nil {
		return found, err
	}
	found.moves = p.movesTemplate(req)
	found.crowded = !foreign.Empty() || len(excluded) > 0
	edited := !same && p.hashEdited(req)
	if !same && !edited {
		return found, nil
	}
	diff, err := e.comparer.Diff(p.wanted, p.live)
	if err != nil {
		return found, err
	}
	ours := !found.crowded && fields.DroppedByServer(diff, p.live, req.Manager)
	unhashed := children.TypeOf(p.object.Desired).UnhashedFields()
	switch {
	case edited && !diff.Leaves().Intersection(fields.OwnedBy(p.live, req.Manager)).Empty():
		// A field that our manager owns has another value than we applied last: the desired value is new.
	case !edited && diff.Empty() && !found.crowded:
		found.action = Unchanged
	case !edited && (ours && !diff.Equals(diff.RecursiveDifference(unhashed)) ||
		req.Before.SpecChanged && !found.crowded && !diff.Empty() && diff.RecursiveDifference(unhashed).Empty()):
		found.diff = diff // The desired value of a field outside the hash has changed.
	case !edited && ours && e.conflicts.isOverridden(req, p, diff):
		// managedFields alone do not tell: another writer under our manager's name looks the same.
		found.drift, found.diff = driftDropped, diff
	default:
		// Nothing new is wanted, and yet it does not hold: another writer has changed it.
		found.action, found.drift = Repaired, driftRepaired
		found.diff = diff.Union(foreign).Union(fieldpath.NewSet(excluded...))
	}
	return found, nil
}

// hashEdited reports whether another writer has changed or removed the hash of an object that our manager applies and the
// owner controls. Then the hash does not show whether anything new is wanted.
func (p *objectPlan) hashEdited(req *Request) bool {
	live := p.live
	return !p.object.Retained && metav1.IsControlledBy(live, req.Owner) && fields.OwnsAny(live, req.Manager) &&
		!children.OwnsAnnotation(live, req.Manager, appv1.AnnotationLastAppliedHash)
}

// foreignListItems returns what others have in lists that are ours as a whole.
func (e *Engine) foreignListItems(req *Request, p *objectPlan) (*fieldpath.Set, error) {
	lists := children.TypeOf(p.object.Desired).Exclusive
	if len(lists) == 0 {
		return &fieldpath.Set{}, nil
	}
	theirs := &fieldpath.Set{}
	for _, entry := range p.live.GetManagedFields() {
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
