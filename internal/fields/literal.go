package fields

import (
	"fmt"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// serverFields are the paths that a typed literal has and an apply request must not state. They are removed by name:
// dropping whatever is empty would drop an "emptyDir: {}" as well.
var serverFields = [][]string{
	{"status"},
	{"metadata", "managedFields"},
	{"metadata", "creationTimestamp"},
	{"spec", "template", "metadata", "creationTimestamp"},
}

// claimTemplates is a list that server-side apply takes as one unit, though the API server adds to its items: to each it
// adds itemFields, or not, as the encoding has it, so they count neither in the desired nor in the live object. A builder
// states all else that has a default: volumeMode.
var (
	claimTemplates = []string{"spec", "volumeClaimTemplates"}
	itemFields     = []string{"apiVersion", "kind", "status"}
)

// Literal returns the fields that a typed literal states.
func Literal(obj client.Object) (map[string]any, error) {
	fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(obj)
	if err != nil {
		return nil, fmt.Errorf("convert %T: %w", obj, err)
	}
	for _, path := range serverFields {
		unstructured.RemoveNestedField(fields, path...)
	}
	removeTemplate(obj, fields)
	for _, item := range volumeClaimTemplates(fields) {
		template, _ := item.(map[string]any)
		for _, name := range itemFields {
			delete(template, name)
		}
	}
	return fields, nil
}

// volumeClaimTemplates returns the claim templates of a literal.
func volumeClaimTemplates(fields map[string]any) []any {
	// A value that is no list has no templates.
	value, _, _ := unstructured.NestedFieldNoCopy(fields, claimTemplates...)
	list, _ := value.([]any)
	return list
}

// LeavesTemplate reports whether a wanted object is a Deployment that states no pod template.
func LeavesTemplate(wanted client.Object) bool {
	d, ok := wanted.(*appsv1.Deployment)
	return ok && len(d.Spec.Template.Spec.Containers) == 0
}

// removeTemplate removes the empty pod template from a literal that states none.
func removeTemplate(obj client.Object, fields map[string]any) {
	if LeavesTemplate(obj) {
		unstructured.RemoveNestedField(fields, "spec", "template")
	}
}

// IsSame reports whether a write changes nothing of an object, and so is none: neither its fields nor who owns them.
func IsSame(before, after client.Object) bool {
	was, err := Literal(before)
	if err != nil {
		return false
	}
	is, err := Literal(after)
	if err != nil {
		return false
	}
	for _, fields := range []map[string]any{was, is} {
		for _, name := range []string{"apiVersion", "kind"} { // An object that was read lacks them.
			delete(fields, name)
		}
		for _, name := range []string{"resourceVersion", "generation"} {
			unstructured.RemoveNestedField(fields, "metadata", name)
		}
	}
	return equality.Semantic.DeepEqual(was, is) && slices.Equal(ownershipEntries(before), ownershipEntries(after))
}

// ownershipEntries returns the managed fields of an object without the fields of its status, and without times.
func ownershipEntries(obj client.Object) []string {
	var kept []string
	for _, entry := range obj.GetManagedFields() {
		if entry.Subresource != "status" && entry.FieldsV1 != nil {
			kept = append(kept, fmt.Sprint(entry.Manager, " ", entry.Operation, " ", entry.APIVersion, " ", entry.Subresource, " ", entry.FieldsV1.GetRawString()))
		}
	}
	return kept
}
