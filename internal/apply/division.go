package apply

import (
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"

	appv1 "huolala.cn/app-operator/api/v1"
	"huolala.cn/app-operator/internal/children"
	"huolala.cn/app-operator/internal/fields"
)

// transfer is what changes in an object's managed fields before it is applied.
type transfer struct {
	// entries are the managed fields as they are to be, nil if they stay.
	entries []metav1.ManagedFieldsEntry
	// ours are the fields of our manager after the transfer, theirs the fields of all others.
	ours, theirs *fieldpath.Set
}

// needsTransfer reports whether fields change their managers before the object is applied.
func (p *objectPlan) needsTransfer() bool { return p.claim.takesOver() || p.crowded || p.moves }

// planTransfer hands fields of others to our manager that become ours alone: in a take-over, the stated fields; items of
// lists that are ours; and the excluded fields, also without an owner. The apply after the transfer removes the fields that it
// does not state.
func (r *run) planTransfer(p *objectPlan, live client.Object) (*transfer, error) {
	stated, err := r.statedFields(p)
	if err != nil {
		return nil, err
	}
	s := &seizure{
		stated: stated, lists: r.listsToTransfer(p, live),
		formerKind: p.moves || p.claim.takesOver() && children.AppliedByOther(live, r.req.Manager),
	}
	first, err := r.divideFields(p, live, s, nil)
	if err != nil {
		return nil, err
	}
	roots, excluded, err := r.excludedFields(p, live, first)
	if err != nil {
		return nil, err
	}
	d := first
	if len(roots) > 0 {
		if d, err = r.divideFields(p, live, s, roots); err != nil {
			return nil, err
		}
	}
	seized := d.seized.Union(excluded)
	if len(live.GetManagedFields()) == 0 {
		// The managed fields were cleared. The API server would note "before-first-apply" as the manager of all fields.
		seized = seized.Union(stated)
	}
	t, ours := &transfer{ours: d.owned.Union(seized), theirs: d.theirs}, d.ours
	entries, err := p.leaveTemplate(t, &ours, d.others)
	if err != nil {
		return nil, err
	}
	if t.ours.Equals(d.owned) && !d.handed {
		return t, nil
	}
	if err := fields.EncodeManaged(&ours, t.ours); err != nil {
		return nil, err
	}
	t.entries = slices.Concat(entries, []metav1.ManagedFieldsEntry{ours})
	return t, nil
}

// seizure is what a transfer takes from other managers, apart from fields that cannot stay.
type seizure struct {
	stated *fieldpath.Set
	lists  []fieldpath.Path
	// formerKind is set where all fields that the operator applied for resources of other kinds become ours. The fields that another kind left behind
	// before the last apply for the present kind stay: the pods run with these fields.
	formerKind bool
}

// division is how a transfer divides the managed fields of an object between our manager and others.
type division struct {
	// ours is the entry of our manager before the transfer, others are the entries of all others after it.
	ours   metav1.ManagedFieldsEntry
	others []metav1.ManagedFieldsEntry
	// owned are the fields of our manager before the transfer, seized the fields that it gets, theirs the fields that others keep.
	owned, seized, theirs *fieldpath.Set
	// handed is set where an entry of another manager changes.
	handed bool
}

// divideFields divides the managed fields of a live object. excluded are the roots of fields that cannot stay.
func (r *run) divideFields(p *objectPlan, live client.Object, s *seizure, excluded []fieldpath.Path) (*division, error) {
	d := &division{
		ours: metav1.ManagedFieldsEntry{
			Manager: r.req.Manager, Operation: metav1.ManagedFieldsOperationApply,
			APIVersion: p.gvk.GroupVersion().String(), FieldsType: "FieldsV1",
		},
		owned: &fieldpath.Set{}, seized: &fieldpath.Set{}, theirs: &fieldpath.Set{},
	}
	for _, entry := range live.GetManagedFields() {
		set := fields.DecodeManaged(entry)
		switch {
		case set == nil || entry.Subresource != "" || entry.APIVersion != d.ours.APIVersion:
			d.others = append(d.others, entry)
			continue
		case entry.Manager == d.ours.Manager && entry.Operation == d.ours.Operation:
			d.ours, d.owned = entry, set
			continue
		}
		part := p.partToTransfer(live, entry, set, s, excluded)
		d.seized, d.handed = d.seized.Union(part), d.handed || !part.Empty()
		if rest := set.Difference(part); !rest.Empty() {
			if err := fields.EncodeManaged(&entry, rest); err != nil {
				return nil, err
			}
			d.theirs = d.theirs.Union(rest)
			d.others = append(d.others, entry)
		}
	}
	return d, nil
}

// divided returns a live object with the managed fields after a transfer.
func (d *division) divided(live client.Object) (client.Object, error) {
	if !d.handed {
		return live, nil
	}
	ours := d.ours
	if err := fields.EncodeManaged(&ours, d.owned.Union(d.seized)); err != nil {
		return nil, err
	}
	after := live.DeepCopyObject().(client.Object) //nolint:forcetypeassert // It is the copy of one.
	after.SetManagedFields(slices.Concat(d.others, []metav1.ManagedFieldsEntry{ours}))
	return after, nil
}

// listsToTransfer returns the lists whose items become ours alone: the exclusive lists of the type, and at the first take-over also its adopted
// lists.
func (r *run) listsToTransfer(p *objectPlan, live client.Object) []fieldpath.Path {
	row := children.TypeOf(p.object.Desired)
	begins := p.moves && !fields.LeavesTemplate(p.wanted)
	if begins || p.claim.takesOver() && !metav1.IsControlledBy(live, r.req.Owner) && !fields.OwnsAny(live, r.req.Manager) {
		return slices.Concat(row.Exclusive, row.Adopted)
	}
	return row.Exclusive
}

// partToTransfer returns which of the fields that another manager's entry has become ours alone. excluded are the roots of fields that cannot
// stay. Of a former kind nothing stays: no tool would remove it later. The hash is the last to go, with the apply, which states
// another one; until then, a second attempt can see whose records the object has.
func (p *objectPlan) partToTransfer(live client.Object, entry metav1.ManagedFieldsEntry, set *fieldpath.Set, s *seizure, excluded []fieldpath.Path) *fieldpath.Set {
	part := fields.ForeignItems(set, s.stated, s.lists).Union(fields.SelectBelow(set, excluded)).Union(p.inheritedTemplate(entry, set))
	switch {
	case p.claim.takesOver() && isOfEarlierOperator(live, entry, set):
		part = set
	case s.formerKind && children.IsMark(entry):
		part = set.Difference(hashSet)
	case p.claim.takesOver() || p.moves:
		part = part.Union(set.Intersection(s.stated))
	}
	if fields.LeavesTemplate(p.wanted) {
		part = part.Difference(fields.SelectBelow(part, templateRoot))
	}
	return part
}

// hashSet has the annotation with the hash of an object.
var hashSet = fieldpath.NewSet(fieldpath.MakePathOrDie("metadata", "annotations", appv1.AnnotationLastAppliedHash))

// isOfEarlierOperator reports whether an earlier operator wrote an entry with a set of fields: the manager of the entry created the live object for the object's
// controller, a resource of our group. A reference to an owner that is no controller proves nothing: any client may have set it.
func isOfEarlierOperator(live client.Object, entry metav1.ManagedFieldsEntry, set *fieldpath.Set) bool {
	controller := metav1.GetControllerOf(live)
	return controller != nil && children.IsOfOurGroup(controller) && fields.CreatedByController(entry, set, controller.UID)
}

// excludedFields returns the roots of the live fields that exclude stated ones, and all fields below these roots. The apply removes seized fields, so
// that a rest of others that cannot stay without a seized field is among the excluded fields.
func (r *run) excludedFields(p *objectPlan, live client.Object, d *division) ([]fieldpath.Path, *fieldpath.Set, error) {
	after, err := d.divided(live)
	if err != nil {
		return nil, nil, err
	}
	roots, err := r.comparer.Exclusions(p.gvk, r.req.Manager, p.wanted, after)
	if err != nil || len(roots) == 0 {
		return nil, &fieldpath.Set{}, err
	}
	value, err := r.comparer.TypedLive(p.gvk, live)
	if err != nil {
		return nil, nil, err
	}
	all, err := value.ToFieldSet()
	if err != nil {
		return nil, nil, fmt.Errorf("live object: %w", err)
	}
	return roots, fields.SelectBelow(all, roots).Union(fieldpath.NewSet(roots...)), nil
}
