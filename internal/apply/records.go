package apply

import (
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// OwnsAnnotation reports whether an annotation of a live object has the value that the manager applied last: another writer
// that changes it becomes its owner. It looks for the name in the text of the managed fields, which is much cheaper than to
// decode them; no other field of an object has the name of such an annotation.
func OwnsAnnotation(live client.Object, manager, key string) bool {
	return slices.ContainsFunc(live.GetManagedFields(), func(entry metav1.ManagedFieldsEntry) bool {
		return ofApply(entry, manager) && entry.FieldsV1 != nil && strings.Contains(entry.FieldsV1.GetRawString(), `"f:`+key+`"`)
	})
}

// Applies reports whether the manager's apply requests own anything of a live object, as they do unless another tool has made
// it again, from a backup for one, or somebody has cleared its managed fields.
func Applies(live client.Object, manager string) bool { return applies(live, manager) }

// RecordHolds reports whether an object that was built from a record is what its carrier was made of: wherever found, a part
// of the carrier, differs from it, the field is not the manager's. It is then another writer's, or was removed by one.
func (e *Engine) RecordHolds(manager string, built, found, carrier client.Object) (bool, error) {
	diff, err := e.difference(built, found)
	if err != nil || diff.Empty() {
		return err == nil, err
	}
	return diff.Leaves().Intersection(applied(carrier, manager)).Empty(), nil
}
