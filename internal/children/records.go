package children

import (
	"fmt"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appv1 "huolala.cn/app-operator/api/v1"
	"huolala.cn/app-operator/internal/fields"
)

// OwnsAnnotation reports whether an annotation of a live object has the value that the manager applied last: another writer
// that changes it becomes its owner. It looks for the name in the text of the managed fields, which is much cheaper than to
// decode them; no other field of an object has the name of such an annotation.
func OwnsAnnotation(live client.Object, manager, key string) bool {
	return fields.OwnsName(live, manager, `"f:`+key+`"`)
}

// OwnsReference reports whether the manager's apply requests own an object's reference to an owner.
func OwnsReference(live client.Object, manager string, owner types.UID) bool {
	return fields.OwnsName(live, manager, fmt.Sprintf(`"k:{\"uid\":\"%s\"}"`, owner))
}

// Applies reports whether the manager's apply requests own anything of a live object, as they do unless another tool has made
// it again, from a backup for one, or a user has cleared its managed fields.
func Applies(live client.Object, manager string) bool { return fields.OwnsAny(live, manager) }

// LastApplied returns when the manager's apply requests have last changed an object, the zero time if they never have.
func LastApplied(live client.Object, manager string) time.Time {
	var last time.Time
	for _, entry := range live.GetManagedFields() {
		if fields.IsApplyOf(entry, manager) && entry.Time != nil && entry.Time.After(last) {
			last = entry.Time.Time
		}
	}
	return last
}

// Marks returns the entries of managed fields that say which managers of the operator have applied an object, without the
// fields. The cache keeps them of a foreign object. They are nil for an object that the operator has never applied.
func Marks(entries []metav1.ManagedFieldsEntry) []metav1.ManagedFieldsEntry {
	var marks []metav1.ManagedFieldsEntry
	for _, entry := range entries {
		if IsMark(entry) {
			marks = append(marks, metav1.ManagedFieldsEntry{Manager: entry.Manager, Operation: entry.Operation})
		}
	}
	return marks
}

// IsMark reports whether an entry of managed fields is of apply requests of the operator, for a resource of any kind.
func IsMark(entry metav1.ManagedFieldsEntry) bool {
	return strings.HasPrefix(entry.Manager, appv1.FieldManagerPrefix) && fields.IsApplyOf(entry, entry.Manager)
}

// AppliedByOther reports whether the last apply request of the operator for a live object was for a resource of another kind than the manager's:
// each request writes the hash. Managed fields that were cleared prove nothing.
func AppliedByOther(live client.Object, manager string) bool {
	return slices.ContainsFunc(Marks(live.GetManagedFields()), func(mark metav1.ManagedFieldsEntry) bool {
		return mark.Manager != manager && (!Applies(live, manager) || OwnsAnnotation(live, mark.Manager, appv1.AnnotationLastAppliedHash))
	})
}
