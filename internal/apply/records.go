package apply

import (
	"fmt"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// OwnsAnnotation reports whether an annotation of a live object has the value that the manager applied last: another writer
// that changes it becomes its owner. It looks for the name in the text of the managed fields, which is much cheaper than to
// decode them; no other field of an object has the name of such an annotation.
func OwnsAnnotation(live client.Object, manager, key string) bool {
	return ownsNamed(live, manager, `"f:`+key+`"`)
}

// ownsNamed reports whether the text of the fields that the manager's apply requests own has a name in it.
func ownsNamed(live client.Object, manager, name string) bool {
	return slices.ContainsFunc(live.GetManagedFields(), func(entry metav1.ManagedFieldsEntry) bool {
		return ofApply(entry, manager) && entry.FieldsV1 != nil && strings.Contains(entry.FieldsV1.GetRawString(), name)
	})
}

// ownsReference reports whether the manager's apply requests own an object's reference to an owner.
func ownsReference(live client.Object, manager string, owner types.UID) bool {
	return ownsNamed(live, manager, fmt.Sprintf(`"k:{\"uid\":\"%s\"}"`, owner))
}

// Applies reports whether the manager's apply requests own anything of a live object, as they do unless another tool has made
// it again, from a backup for one, or a user has cleared its managed fields.
func Applies(live client.Object, manager string) bool { return ownsAny(live, manager) }

// LastApplied returns when the manager's apply requests have last changed an object, the zero time if they never have.
func LastApplied(live client.Object, manager string) time.Time {
	var last time.Time
	for _, entry := range live.GetManagedFields() {
		if ofApply(entry, manager) && entry.Time != nil && entry.Time.After(last) {
			last = entry.Time.Time
		}
	}
	return last
}

// Marks returns the entries of managed fields that say which managers of the operator have applied an object, without the
// fields. It is what is kept of a foreign object, nil of one that the operator has never applied.
func Marks(entries []metav1.ManagedFieldsEntry) []metav1.ManagedFieldsEntry {
	var marks []metav1.ManagedFieldsEntry
	for _, entry := range entries {
		if strings.HasPrefix(entry.Manager, managerPrefix) && ofApply(entry, entry.Manager) {
			marks = append(marks, metav1.ManagedFieldsEntry{Manager: entry.Manager, Operation: entry.Operation})
		}
	}
	return marks
}

// managerPrefix is how the names of the operator's managers begin.
const managerPrefix = "app-operator/"

// RecordHolds reports whether an object that was built from a record is what its carrier was made of: wherever found, a part
// of the carrier, differs from it, the field is not the manager's. It is then another writer's, or was removed by one.
func (e *Engine) RecordHolds(manager string, built, found, carrier client.Object) (bool, error) {
	diff, err := e.diffObject(built, found)
	if err != nil || diff.Empty() {
		return err == nil, err
	}
	return diff.Leaves().Intersection(ownedFields(carrier, manager)).Empty(), nil
}
