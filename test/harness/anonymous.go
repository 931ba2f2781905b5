package harness

import (
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	appv1 "huolala.cn/app-operator/api/v1"
)

// Anonymous returns a JSON value without the fields that tell two objects apart which were made in the same way: UIDs,
// versions and times, and the hash, which covers the owner's UID. general makes texts and keys alike, such as by taking out
// names.
func Anonymous(value any, general func(string) string) any {
	switch value := value.(type) {
	case map[string]any:
		kept := map[string]any{}
		for key, field := range value {
			switch key {
			case "uid", "resourceVersion", "creationTimestamp", "time", "since", "lastTransitionTime", appv1.AnnotationLastAppliedHash:
			default:
				kept[general(key)] = Anonymous(field, general)
			}
		}
		return kept
	case []any:
		kept := make([]any, len(value))
		for i := range value {
			kept[i] = Anonymous(value[i], general)
		}
		return kept
	case string:
		return general(value)
	}
	return value
}

// SortManagers puts managedFields, which are sorted by time, into an order that is the same each time.
func SortManagers(obj metav1.Object) {
	managers := obj.GetManagedFields()
	slices.SortFunc(managers, func(a, b metav1.ManagedFieldsEntry) int {
		return strings.Compare(a.Manager+string(a.Operation)+a.Subresource, b.Manager+string(b.Operation)+b.Subresource)
	})
	obj.SetManagedFields(managers)
}
