package fields

import (
	"bytes"
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
)

// ForeignItems returns what of the fields, which are another manager's, is in the lists and in no item that is stated.
func ForeignItems(fields, stated *fieldpath.Set, lists []fieldpath.Path) *fieldpath.Set {
	found := &fieldpath.Set{}
	for path := range fields.RecursiveDifference(stated).All() {
		for _, list := range lists {
			if len(path) > len(list) && path[:len(list)].Equals(list) {
				found.Insert(path.Copy())
			}
		}
	}
	return found
}

// OwnsPath reports whether the manager's apply requests own the path.
func OwnsPath(live client.Object, manager string, path fieldpath.Path) bool {
	return OwnedBy(live, manager).Has(path)
}

// OwnsAny reports whether the manager's apply requests own anything.
func OwnsAny(live client.Object, manager string) bool {
	return slices.ContainsFunc(live.GetManagedFields(), func(entry metav1.ManagedFieldsEntry) bool {
		return IsApplyOf(entry, manager) && entry.FieldsV1 != nil && len(entry.FieldsV1.GetRawString()) > len("{}")
	})
}

// IsApplyOf reports whether an entry of managedFields is of the manager's apply requests.
func IsApplyOf(entry metav1.ManagedFieldsEntry, manager string) bool {
	return entry.Manager == manager && entry.Operation == metav1.ManagedFieldsOperationApply && entry.Subresource == ""
}

// OwnedBy returns the fields that the manager's apply requests own.
func OwnedBy(live client.Object, manager string) *fieldpath.Set {
	fields := &fieldpath.Set{}
	for _, entry := range live.GetManagedFields() {
		if !IsApplyOf(entry, manager) {
			continue
		}
		if set := DecodeManaged(entry); set != nil {
			fields = fields.Union(set)
		}
	}
	return fields
}

// OwnedByOthers returns the fields of an object that other managers own and the manager does not.
func OwnedByOthers(obj client.Object, manager string) *fieldpath.Set {
	ours, others := &fieldpath.Set{}, &fieldpath.Set{}
	for _, entry := range obj.GetManagedFields() {
		set := DecodeManaged(entry)
		switch {
		case set == nil:
		case entry.Manager == manager:
			ours = ours.Union(set)
		default:
			others = others.Union(set)
		}
	}
	return others.Difference(ours)
}

// DroppedByServer reports whether the manager still owns every field that differs. Then no other writer changed them, as a writer
// becomes the owner of a field, or removes the ownership: the API server dropped the values, because a feature is switched off or
// admission changed the object.
func DroppedByServer(diff *fieldpath.Set, live client.Object, manager string) bool {
	return !diff.Empty() && diff.Leaves().Difference(OwnedBy(live, manager)).Empty()
}

// DecodeManaged returns the fields of an entry of managedFields, nil for an entry that cannot be decoded.
func DecodeManaged(entry metav1.ManagedFieldsEntry) *fieldpath.Set {
	if entry.FieldsV1 == nil {
		return nil
	}
	set := &fieldpath.Set{}
	if err := set.FromJSON(entry.FieldsV1.GetRawReader()); err != nil {
		return nil
	}
	return set
}

// EncodeManaged states the fields of an entry of managedFields.
func EncodeManaged(entry *metav1.ManagedFieldsEntry, set *fieldpath.Set) error {
	data, err := set.ToJSON()
	if err != nil {
		return fmt.Errorf("encode managed fields: %w", err)
	}
	entry.FieldsV1 = metav1.NewFieldsV1(string(data))
	return nil
}

// OwnsName reports whether the text of the fields that the manager's apply requests own has a name in it.
func OwnsName(live client.Object, manager, name string) bool {
	text := []byte(name)
	return slices.ContainsFunc(live.GetManagedFields(), func(entry metav1.ManagedFieldsEntry) bool {
		return IsApplyOf(entry, manager) && bytes.Contains(entry.FieldsV1.GetRawBytes(), text) // The text as a string would be a copy.
	})
}

// CreatedByController reports whether the manager of the fields created the object for the owner with a UID: by plain updates, with the
// reference to that owner.
func CreatedByController(entry metav1.ManagedFieldsEntry, fields *fieldpath.Set, owner types.UID) bool {
	return entry.Operation == metav1.ManagedFieldsOperationUpdate &&
		fields.Has(fieldpath.MakePathOrDie("metadata", "ownerReferences", fieldpath.KeyByFields("uid", string(owner))))
}
