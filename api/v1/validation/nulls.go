package validation

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// nullWarnings warns of a null in a patch of a pod template, at a path in the resource, that a client has dropped. Client-side apply sends no null of a custom
// resource, at its creation neither, so the patch that arrives does not have it; the annotation in which the client records the file still has it.
func nullWarnings(obj metav1.Object, patch *runtime.RawExtension, path *field.Path) []string {
	const null = "null"
	applied := obj.GetAnnotations()[corev1.LastAppliedConfigAnnotation]
	if patch == nil || !strings.Contains(applied, null) {
		return nil
	}
	var file, stored any
	if json.Unmarshal([]byte(applied), &file) != nil || json.Unmarshal(patch.Raw, &stored) != nil {
		return nil // Another client has written the annotation, or the rules of the patch refuse it.
	}
	for name := range strings.SplitSeq(path.String(), ".") {
		object, _ := file.(map[string]any)
		file = object[name]
	}
	if at := droppedNull(file, stored, path); at != nil {
		return []string{warning(at, messageNullDropped)}
	}
	return nil
}

// droppedNull returns the path of the first null that a patch in a file has and the stored patch lacks, nil if there is none.
func droppedNull(file, stored any, path *field.Path) *field.Path {
	switch file := file.(type) {
	case map[string]any:
		other, _ := stored.(map[string]any)
		for _, key := range slices.Sorted(maps.Keys(file)) {
			value, kept := other[key]
			if file[key] == nil && !kept {
				return keyOrChild(path, key)
			}
			if at := droppedNull(file[key], value, keyOrChild(path, key)); at != nil {
				return at
			}
		}
	case []any:
		other, _ := stored.([]any)
		if len(other) != len(file) {
			return nil // Another writer has changed the list since.
		}
		for i := range file {
			if at := droppedNull(file[i], other[i], path.Index(i)); at != nil {
				return at
			}
		}
	}
	return nil
}

// keyOrChild returns the path of a member of an object, with a key of any length cut.
func keyOrChild(path *field.Path, key string) *field.Path { return path.Child(cut(key, maxKey)) }
