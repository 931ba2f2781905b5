package describe

import (
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"

	"huolala.cn/app-operator/internal/fields"
)

// MaxNamed limits how many fields a message names.
const MaxNamed = 3

// FieldManagers returns the names of the field managers other than ours that own any of the fields.
func FieldManagers(live client.Object, ours string, diff *fieldpath.Set) string {
	var names []string
	for _, entry := range live.GetManagedFields() {
		set := fields.DecodeManaged(entry)
		if set == nil || fields.IsApplyOf(entry, ours) || slices.Contains(names, entry.Manager) {
			continue
		}
		if entry.Operation == metav1.ManagedFieldsOperationUpdate && entry.Subresource == "status" {
			continue
		}
		if !set.Intersection(diff).Empty() {
			names = append(names, entry.Manager)
		}
	}
	slices.Sort(names)
	return strings.Join(names, ", ")
}

// FieldWriters returns a phrase that names the field managers that own any of the fields.
func FieldWriters(live client.Object, diff *fieldpath.Set) string {
	var names []string
	for _, entry := range live.GetManagedFields() {
		set := fields.DecodeManaged(entry)
		if set == nil || slices.Contains(names, entry.Manager) {
			continue
		}
		if !set.Intersection(diff).Empty() {
			names = append(names, entry.Manager)
		}
	}
	if len(names) == 0 {
		return "Another writer"
	}
	slices.Sort(names)
	return fmt.Sprintf("Field manager %q", strings.Join(names, ", "))
}

// ListFields returns the paths of the first MaxNamed fields of a set.
func ListFields(set *fieldpath.Set) string {
	var names []string
	set.Leaves().Iterate(func(path fieldpath.Path) { names = append(names, path.String()) })
	slices.Sort(names)
	if len(names) > MaxNamed {
		names = append(names[:MaxNamed], "…")
	}
	return strings.Join(names, ", ")
}
