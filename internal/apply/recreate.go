package apply

import (
	"context"
	"errors"
	"fmt"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"

	appv1 "huolala.cn/app-operator/api/v1"
	"huolala.cn/app-operator/internal/fields"
	"huolala.cn/app-operator/internal/reconciler"
)

// rolloutRoots are the fields of a workload object that decide which of its pods are replaced.
var rolloutRoots = []fieldpath.Path{fieldpath.MakePathOrDie("spec", "template"), fieldpath.MakePathOrDie("spec", "updateStrategy")}

// recreation is an object to create in place of a deleted one, with the additions of other managers.
type recreation struct {
	object  client.Object
	entries []metav1.ManagedFieldsEntry
}

// HasAdditions reports whether an object that the manager has applied for the owner that controls the object may have fields of other managers. An
// object of others, or of an earlier operator, has fields that an adoption removes.
func HasAdditions(obj, owner client.Object, manager string) bool {
	return isApplied(obj, owner, manager) && slices.ContainsFunc(obj.GetManagedFields(), func(entry metav1.ManagedFieldsEntry) bool {
		return entry.Subresource == "" && entry.Manager != manager
	})
}

// isApplied reports whether the owner controls an object, and the manager has applied it.
func isApplied(obj, owner client.Object, manager string) bool {
	_, known := obj.GetAnnotations()[appv1.AnnotationLastAppliedHash]
	return known && metav1.IsControlledBy(obj, owner) && fields.OwnsAny(obj, manager)
}

// tryRecreation creates an object with the additions of others to Object.Former. done is false where an apply is to create the object: there are no
// additions, or the API server refuses them. Pods without an object that controls them are worse than pods without the additions.
func (r *run) tryRecreation(ctx context.Context, p *objectPlan) (made result, done bool, err error) {
	if of := r.findRecreation(ctx, p); of != nil {
		return r.recreateObject(ctx, p, of)
	}
	return result{}, false, nil
}

// findRecreation is planRecreation, and logs an error, for which the additions are lost.
func (r *run) findRecreation(ctx context.Context, p *objectPlan) *recreation {
	of, err := r.planRecreation(p)
	if err != nil { // The error may quote a value.
		ctrl.LoggerFrom(ctx).Info(messageAdditionsLost, "kind", p.gvk.Kind, "name", p.object.Desired.GetName())
		return nil
	}
	return of
}

// planRecreation returns the object to create in place of Object.Former, nil where no other manager owns a field of rolloutRoots that the wanted
// object does not state. Then an apply creates the same pods.
func (r *run) planRecreation(p *objectPlan) (*recreation, error) {
	former := p.object.Former
	if former == nil || r.mode != Write || !isApplied(former, r.req.Owner, r.req.Manager) {
		return nil, nil
	}
	t, err := r.planTransfer(p, former)
	if err != nil {
		return nil, err
	}
	stated, err := r.statedFields(p)
	if err != nil {
		return nil, err
	}
	if fields.SelectBelow(t.theirs.Difference(stated), rolloutRoots).Empty() {
		return nil, nil
	}
	merged, err := r.objectAfterTransfer(p, former, t)
	if err != nil {
		return nil, err
	}
	r.trimMetadata(p, merged)
	made := &recreation{}
	if made.entries, err = r.formerEntries(p, t, stated, merged); err != nil {
		return nil, err
	}
	if made.object, err = p.newTarget(); err != nil {
		return nil, err
	}
	return made, runtime.DefaultUnstructuredConverter.FromUnstructured(merged, made.object)
}

// trimMetadata removes what a new object cannot have: the status, the metadata of the former object, and the references to other owners.
func (r *run) trimMetadata(p *objectPlan, merged map[string]any) {
	delete(merged, "status")
	metadata, _ := merged["metadata"].(map[string]any)
	kept := map[string]any{"name": p.object.Former.GetName(), "namespace": p.object.Former.GetNamespace()}
	for _, name := range []string{"labels", "annotations"} {
		if value, ok := metadata[name]; ok {
			kept[name] = value
		}
	}
	stated, _ := p.fields["metadata"].(map[string]any)
	if references, ok := stated["ownerReferences"]; ok {
		kept["ownerReferences"] = references
	}
	merged["metadata"] = kept
}

// formerEntries returns the managed fields of the object that is created in place of a former one: our manager has the stated fields, each
// other manager the fields that it had and whose values stay.
func (r *run) formerEntries(p *objectPlan, t *transfer, stated *fieldpath.Set, merged map[string]any) ([]metav1.ManagedFieldsEntry, error) {
	was, err := r.comparer.TypedLive(p.gvk, p.object.Former)
	if err != nil {
		return nil, err
	}
	is, err := r.comparer.TypedFields(p.gvk, merged)
	if err != nil {
		return nil, err
	}
	changes, err := was.Compare(is)
	if err != nil {
		return nil, fmt.Errorf("compare with the former object: %w", err)
	}
	ours := metav1.ManagedFieldsEntry{
		Manager: r.req.Manager, Operation: metav1.ManagedFieldsOperationApply, APIVersion: p.gvk.GroupVersion().String(), FieldsType: "FieldsV1",
	}
	if err := fields.EncodeManaged(&ours, stated); err != nil {
		return nil, err
	}
	entries := []metav1.ManagedFieldsEntry{ours}
	before := t.entries
	if before == nil {
		before = p.object.Former.GetManagedFields()
	}
	for _, entry := range before {
		set := fields.DecodeManaged(entry)
		if set == nil || entry.Subresource != "" || fields.IsApplyOf(entry, r.req.Manager) {
			continue
		}
		set = set.Difference(changes.Modified).Difference(changes.Removed)
		if set.Empty() {
			continue
		}
		if err := fields.EncodeManaged(&entry, set); err != nil {
			return nil, err
		}
		entries = append(entries, entry)
	}
	return entries, nil
}

// recreateObject creates an object with the additions of other managers. The API server makes the creator the manager of all fields, so a patch then
// gives the managers of the former object their fields back. done is false where the API server refuses the object.
func (r *run) recreateObject(ctx context.Context, p *objectPlan, of *recreation) (made result, done bool, err error) {
	err = r.client.Create(ctx, of.object, client.FieldOwner(r.req.Manager))
	switch {
	case isRefusal(err):
		return result{}, false, nil
	case err != nil: // The next run tries again.
		return result{}, true, r.classifyError(p, err)
	}
	for range 2 {
		err = r.sendPatch(ctx, r.req.Manager, p, of.object, jsonPatch{
			{Op: "test", Path: "/metadata/uid", Value: of.object.GetUID()},
			{Op: "add", Path: "/metadata/managedFields", Value: of.entries},
		})
		if err == nil || errors.Is(err, reconciler.ErrStale) {
			break
		}
	}
	made, err = r.completeResult(ctx, p, result{action: Created, after: of.object}, err)
	return made, true, err
}

// isRefusal reports whether an error of a creation is the answer that the API server does not create the object. After any other error, the object may
// exist, or the same request may succeed later.
func isRefusal(err error) bool {
	return err != nil && (isRejected(err) || deniedByAdmission(err.Error()) || apierrors.IsForbidden(err) || apierrors.IsAlreadyExists(err) || apierrors.IsConflict(err))
}
