package apply

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"

	appv1 "huolala.cn/app-operator/api/v1"
	"huolala.cn/app-operator/internal/message"
	"huolala.cn/app-operator/internal/reconciler"
)

// takeOver prepares an object that an earlier operator made, that is adopted, or that has items of others in a list of
// ours: it removes controller references that lead to nothing, and hands fields of other managers to ours; otherwise
// they would survive their removal from the spec for ever. It reads the object, as a foreign one is seen in part only.
func (r *run) takeOver(ctx context.Context, p *objectPlan) (takenOver, error) {
	live, err := r.readLive(ctx, p)
	switch {
	case err != nil:
		return takenOver{}, err
	case live.GetUID() != p.live.GetUID():
		return takenOver{}, reconciler.ErrStale
	}
	if err := r.claimWhole(ctx, r.req, p, live); err != nil {
		return takenOver{}, err
	}
	done := takenOver{live: live, before: live.DeepCopyObject().(client.Object)} //nolint:forcetypeassert // It is the copy of one.
	if done.transfer, err = r.planTransfer(p, live); err != nil {
		return done, err
	}
	patch := p.transferPatch(r.req, live, done.transfer)
	if r.mode == DryRun || len(patch) > 1 {
		if done.tried, err = r.dryRun(ctx, p, live, done.transfer); err != nil {
			return done, err
		}
	}
	if r.mode == DryRun || len(patch) == 1 {
		return done, nil
	}
	return done, r.sendPatch(ctx, r.req.Manager, p, live, patch)
}

// takenOver is an object whose fields were handed to our manager.
type takenOver struct {
	// before is the whole object as it was read, live the object after the transfer, tried the answer to the dry run.
	before, live, tried client.Object
	transfer            *transfer
}

// transferPatch returns the patch that hands over fields, and removes the references to controllers other than the owner. Its first step
// tests the version of the object.
func (p *objectPlan) transferPatch(req *Request, live client.Object, t *transfer) jsonPatch {
	patch := jsonPatch{{Op: "test", Path: "/metadata/resourceVersion", Value: live.GetResourceVersion()}}
	owners := p.ownerReferences(live.GetOwnerReferences(), req.Owner.GetUID())
	if len(owners) != len(live.GetOwnerReferences()) {
		patch = append(patch, operation{Op: "replace", Path: "/metadata/ownerReferences", Value: owners})
	}
	if t.entries != nil {
		patch = append(patch, operation{Op: "add", Path: "/metadata/managedFields", Value: t.entries})
	}
	return patch
}

// dryRun sends a dry run of the object after the transfer and the apply, and returns the answer. Nothing is handed to our manager before that is known.
func (r *run) dryRun(ctx context.Context, p *objectPlan, live client.Object, t *transfer) (client.Object, error) {
	merged, err := r.objectAfterTransfer(p, live, t)
	if err != nil {
		return nil, err
	}
	patch := jsonPatch{{Op: "replace", Path: "/metadata/resourceVersion", Value: live.GetResourceVersion()}}
	for name, value := range merged {
		switch name {
		case "apiVersion", "kind", "status", "metadata":
		default:
			patch = append(patch, operation{Op: "add", Path: "/" + name, Value: value})
		}
	}
	meta, _ := merged["metadata"].(map[string]any)
	for _, name := range []string{"labels", "annotations"} {
		if value, ok := meta[name]; ok {
			patch = append(patch, operation{Op: "add", Path: "/metadata/" + name, Value: value})
		}
	}
	patch = append(patch, operation{Op: "add", Path: "/metadata/ownerReferences", Value: p.outcomeOwners(r.req, live)})
	data, err := json.Marshal(patch)
	if err != nil {
		return nil, fmt.Errorf("encode: %w", err)
	}
	tried, err := p.newTarget()
	if err != nil {
		return nil, err
	}
	tried.SetName(live.GetName())
	return tried, r.classifyError(p, r.client.Patch(ctx, tried, client.RawPatch(types.JSONPatchType, data), client.FieldOwner(r.req.Manager),
		client.DryRunAll, client.DisableReadYourWritesConsistency))
}

// outcomeOwners returns the owner references that the object has after an apply.
func (p *objectPlan) outcomeOwners(req *Request, live client.Object) []metav1.OwnerReference {
	owners := p.ownerReferences(live.GetOwnerReferences(), req.Owner.GetUID())
	for _, ref := range p.wanted.GetOwnerReferences() {
		owners = slices.DeleteFunc(owners, func(old metav1.OwnerReference) bool { return old.UID == ref.UID })
		owners = append(owners, ref)
	}
	return owners
}

// verifyOwnerAlive returns an error if the owner no longer exists or is being deleted, by one read in a run. To give an object back to an owner that is
// being deleted, with its children left alone, would delete the object. The garbage collector's removal of the reference
// may be seen before the deletion of the owner that it follows: the two come by two watches.
func (r *run) verifyOwnerAlive(ctx context.Context) error {
	if r.alive {
		return nil
	}
	owner := r.req.Owner
	gvk, err := ownerKind(owner, r.client.Scheme())
	if err != nil {
		return err
	}
	live := &metav1.PartialObjectMetadata{}
	live.SetGroupVersionKind(gvk)
	switch err := r.live.Get(ctx, client.ObjectKeyFromObject(owner), live); {
	case apierrors.IsNotFound(err):
		return fmt.Errorf("%w: %w", reconciler.ErrStale, err)
	case err != nil:
		return &reconciler.FailedError{
			Reason: appv1.ReasonApplyFailed, Err: err,
			Message: messageOwnerUnreadable + message.Quote(err.Error()) + "; retrying",
		}
	case live.GetUID() != owner.GetUID() || live.GetDeletionTimestamp() != nil:
		return fmt.Errorf("%w: %s is being deleted", reconciler.ErrStale, owner.GetName())
	}
	r.alive = true
	return nil
}

// readLive gets the live object from the API server.
func (e *Engine) readLive(ctx context.Context, p *objectPlan) (client.Object, error) {
	live, err := p.newTarget()
	if err != nil {
		return nil, err
	}
	if err := e.live.Get(ctx, client.ObjectKeyFromObject(live), live); err != nil {
		return nil, e.classifyError(p, err)
	}
	return live, nil
}

// sendPatch sends a patch whose first step tests the version of the object that it was made for.
func (e *Engine) sendPatch(ctx context.Context, manager string, p *objectPlan, live client.Object, patch jsonPatch) error {
	data, err := json.Marshal(patch)
	if err != nil {
		return fmt.Errorf("encode: %w", err)
	}
	opts := []client.PatchOption{client.FieldOwner(manager)}
	if p.notCached() || p.isHidden(live) {
		opts = append(opts, client.DisableReadYourWritesConsistency)
	}
	err = e.client.Patch(ctx, live, client.RawPatch(types.JSONPatchType, data), opts...)
	if apierrors.IsInvalid(err) {
		return reconciler.ErrStale // The test failed.
	}
	if err != nil {
		return e.classifyError(p, err)
	}
	return nil
}

// objectAfterTransfer returns the object after the transfer and the apply, by the rules of server-side apply: unstated fields of our
// manager are removed, unless another manager owns them.
func (e *Engine) objectAfterTransfer(p *objectPlan, live client.Object, t *transfer) (map[string]any, error) {
	value, err := e.comparer.TypedLive(p.gvk, live)
	if err != nil {
		return nil, err
	}
	stated, err := e.statedFields(p)
	if err != nil {
		return nil, err
	}
	schema, root := value.Schema(), value.TypeRef()
	members := func(set *fieldpath.Set) *fieldpath.Set { return set.EnsureNamedFieldsAreMembers(schema, root) }
	removed := members(t.ours).Difference(members(stated)).Difference(members(t.theirs))
	wanted, err := e.comparer.Typed(p.fields)
	if err != nil {
		return nil, err
	}
	merged, err := value.RemoveItems(removed).Merge(wanted)
	if err != nil {
		return nil, fmt.Errorf("merge: %w", err)
	}
	fields, ok := merged.AsValue().Unstructured().(map[string]any)
	if !ok {
		return nil, fmt.Errorf("%s %s is no object", p.gvk.Kind, live.GetName())
	}
	return fields, nil
}

type jsonPatch []operation

// operation is one step of a JSON patch (RFC 6902).
type operation struct {
	Op    string `json:"op"`
	Path  string `json:"path"`
	Value any    `json:"value"`
}

// ownerReferences returns the owner references without a controller other than the owner, and of a retained object without the
// owner too.
func (p *objectPlan) ownerReferences(refs []metav1.OwnerReference, owner types.UID) []metav1.OwnerReference {
	kept := make([]metav1.OwnerReference, 0, len(refs))
	for _, ref := range refs {
		switch {
		case ref.UID == owner && p.object.Retained:
		case ref.UID != owner && ref.Controller != nil && *ref.Controller:
		default:
			kept = append(kept, ref)
		}
	}
	return kept
}
