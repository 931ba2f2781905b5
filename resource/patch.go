package resource

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	kubejson "k8s.io/apimachinery/pkg/util/json"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
	"k8s.io/apimachinery/pkg/util/validation/field"
	kjson "sigs.k8s.io/json"

	appv1 "huolala.cn/app-operator/api/v1"
	rules "huolala.cn/app-operator/api/v1/validation"
)

// patching is a strategic merge patch of a pod template. Its errors never repeat a value of the patch, which may be a secret:
// errors appear in conditions, events and logs. The libraries that apply and decode the patch do repeat values, so their messages
// are never passed on.
type patching struct {
	// raw is the patch; path is the path of its field.
	raw  []byte
	path *field.Path
	// identity are the labels that make the pods belong to this workload.
	identity map[string]string
	part     workloadMeta
}

// patchTemplate applies the spec's patch to a pod template. It then restores the labels of the workload's identity and removes
// annotations of the operator that the patch sets. If the patch cannot be applied, the template is unchanged and usable is false.
// A patch that produces an invalid pod is applied, and returns errors as well.
func patchTemplate(template *corev1.PodTemplateSpec, spec *appv1.WorkloadSpec, identity map[string]string, p workloadMeta) (errs field.ErrorList, usable bool) {
	if spec.PodTemplatePatch == nil || len(spec.PodTemplatePatch.Raw) == 0 {
		return nil, true
	}
	at := &patching{raw: spec.PodTemplatePatch.Raw, path: p.path.Child("podTemplatePatch"), identity: identity, part: p}
	result, errs := at.mergeTemplate(template)
	if len(errs) > 0 {
		return errs, false
	}
	errs = at.restoreIdentity(result)
	usable = len(errs) == 0
	errs = append(errs, rules.PodTemplate(template, result, p.claims, at.path)...)
	*template = *result
	return errs, usable
}

// mergeTemplate returns the template with the patch applied.
func (at *patching) mergeTemplate(template *corev1.PodTemplateSpec) (*corev1.PodTemplateSpec, field.ErrorList) {
	if errs := at.checkStructure(); len(errs) > 0 {
		return nil, errs
	}
	plain, err := json.Marshal(template)
	if err != nil {
		return nil, field.ErrorList{field.InternalError(at.path, errors.New(messageNoTemplateJSON))}
	}
	patched, ok := mergePatch(plain, at.raw)
	if !ok {
		return nil, field.ErrorList{field.Invalid(at.path, "a patch", messageNotMergePatch)}
	}
	var result corev1.PodTemplateSpec
	unknown, err := kjson.UnmarshalStrict(patched, &result)
	if err != nil {
		return nil, field.ErrorList{field.Invalid(at.path, "a patch", messageNoTemplateFromPatch+describeDecodeError(err))}
	}
	var errs field.ErrorList
	for _, err := range unknown {
		// Example: unknown field "spec.containers[0].x"
		errs = append(errs, field.Invalid(at.path, "a patch", err.Error()+messageFieldUnknown))
	}
	main := slices.IndexFunc(result.Spec.Containers, func(c corev1.Container) bool { return c.Name == at.part.container })
	if main < 0 {
		errs = append(errs, field.Invalid(at.path.Child("spec", "containers"), "a patch", fmt.Sprintf(messageMainContainerRemoved, at.part.container)))
	}
	if errs = append(errs, at.furtherContainers(template, result.Spec.Containers)...); len(errs) > 0 {
		return nil, errs
	}
	// A patch inserts new containers at the front, and the first container is kubectl's default.
	first := result.Spec.Containers[main]
	result.Spec.Containers = slices.Insert(slices.Delete(result.Spec.Containers, main, main+1), 0, first)
	return &result, nil
}

// furtherContainers returns an error for each container without an image that a patch adds: often, the patch is about the main container, and
// has another name.
func (at *patching) furtherContainers(before *corev1.PodTemplateSpec, containers []corev1.Container) field.ErrorList {
	var errs field.ErrorList
	for i := range containers {
		c := &containers[i]
		known := slices.ContainsFunc(before.Spec.Containers, func(was corev1.Container) bool { return was.Name == c.Name })
		if c.Image == "" && !known {
			image := at.path.Child("spec", "containers").Key(c.Name).Child("image")
			errs = append(errs, field.Required(image, fmt.Sprintf(messageFurtherContainer, at.part.container)))
		}
	}
	return errs
}

// mergePatch applies a patch to the JSON of a pod template. No object in the result has a null. ok is false if the patch cannot be
// applied: the library panics on some directives of a wrong type, such as an object in $retainKeys.
func mergePatch(template, patch []byte) (patched []byte, ok bool) {
	defer func() {
		if recover() != nil {
			patched, ok = nil, false
		}
	}()
	var original, changes map[string]any
	if kubejson.Unmarshal(template, &original) != nil || kubejson.Unmarshal(patch, &changes) != nil {
		return nil, false
	}
	replaceAbsentAmounts(original, changes)
	merged, err := strategicpatch.StrategicMergeMapPatch(original, changes, corev1.PodTemplateSpec{})
	if err != nil {
		return nil, false
	}
	removeNulls(map[string]any(merged))
	patched, err = json.Marshal(merged)
	return patched, err == nil
}

// replaceAbsentAmounts removes the instruction to replace limits or requests from a patch of a container without them. The library drops a map with
// an instruction that it has nothing to merge with, so the container would have none of the amounts.
func replaceAbsentAmounts(original, changes map[string]any) {
	for _, list := range []string{"containers", "initContainers"} {
		before := map[any]any{}
		for _, container := range listAt(original, "spec", list) {
			before[valueAt(container, "name")] = container
		}
		for _, container := range listAt(changes, "spec", list) {
			was := before[valueAt(container, "name")]
			for _, amounts := range []string{"limits", "requests"} {
				wanted, ok := valueAt(container, "resources", amounts).(map[string]any)
				if ok && wanted["$patch"] == "replace" && valueAt(was, "resources", amounts) == nil {
					delete(wanted, "$patch")
				}
			}
		}
	}
}

// listAt returns the list at a path of a JSON value, nil if there is none.
func listAt(value any, path ...string) []any {
	list, _ := valueAt(value, path...).([]any)
	return list
}

// valueAt returns the value at a path of a JSON value, nil if there is none.
func valueAt(value any, path ...string) any {
	for _, key := range path {
		object, _ := value.(map[string]any)
		value = object[key]
	}
	return value
}

// removeNulls removes the nulls of each object in a merged template. The library leaves those of an added item and of a replaced map,
// and a decoder reads a null in a map as a value: a quantity of 0, or an empty text.
func removeNulls(value any) {
	switch value := value.(type) {
	case map[string]any:
		maps.DeleteFunc(value, func(_ string, v any) bool { return v == nil })
		for _, v := range value {
			removeNulls(v)
		}
	case []any:
		for _, v := range value {
			removeNulls(v)
		}
	}
}

// describeDecodeError names the field of a pod template that cannot be decoded, without its value.
func describeDecodeError(err error) string {
	var mismatch *json.UnmarshalTypeError
	if errors.As(err, &mismatch) && mismatch.Field != "" {
		kind, _, _ := strings.Cut(mismatch.Value, " ") // For a number, its value follows.
		return fmt.Sprintf(messageWrongType, mismatch.Field, describeType(mismatch.Type), kind)
	}
	return messageInvalidScalar
}

// describeType returns the JSON type of a Go type.
func describeType(t reflect.Type) string {
	switch t.Kind() {
	case reflect.Bool:
		return "true or false"
	case reflect.String:
		return "a string"
	case reflect.Int32:
		return "an integer of 32 bits"
	case reflect.Int, reflect.Int64:
		return "an integer of 64 bits"
	case reflect.Slice, reflect.Array:
		return "a list"
	}
	return "an object"
}

// restoreIdentity restores the labels of the workload's identity in a patched template, and removes the operator's annotations. It
// returns an error for each label of the operator that the patch sets: such a label could make the pods belong to another
// resource and its Service.
func (at *patching) restoreIdentity(result *corev1.PodTemplateSpec) field.ErrorList {
	var patch struct {
		Metadata struct {
			Labels map[string]any `json:"labels"`
		} `json:"metadata"`
	}
	// A value of another type is skipped: mergeTemplate has not applied it either.
	_ = json.Unmarshal(at.raw, &patch)
	stated := patch.Metadata.Labels
	var errs field.ErrorList
	for _, key := range slices.Sorted(maps.Keys(mergedMaps(result.Labels, keysOf(stated)))) {
		reason := messageSetByOperator
		switch {
		case key == appv1.LabelName || key == appv1.LabelInstance || key == appv1.LabelComponent:
			reason = messageSetInPodLabels
		case !rules.OperatorLabel(key):
			continue
		}
		_, patched := stated[key]
		_, own := at.identity[key]
		_, left := result.Labels[key]
		foreign := left && !own && strings.HasPrefix(key, appv1.GroupVersion.Group+"/")
		if foreign || patched {
			errs = append(errs, field.Forbidden(at.path.Child("metadata", "labels").Key(key), reason))
		}
	}
	result.Labels = mergedMaps(result.Labels, at.identity)
	maps.DeleteFunc(result.Annotations, func(key, _ string) bool { return strings.HasPrefix(key, appv1.GroupVersion.Group+"/") })
	return errs
}

// keysOf returns a map with the same keys and empty values.
func keysOf(m map[string]any) map[string]string {
	keys := make(map[string]string, len(m))
	for key := range m {
		keys[key] = ""
	}
	return keys
}

// checkStructure validates the structure of the patch: it must be an object, and each item of a merged list must have its merge key.
func (at *patching) checkStructure() field.ErrorList {
	var patch any
	if err := json.Unmarshal(at.raw, &patch); err != nil {
		return field.ErrorList{field.Invalid(at.path, "a patch", messagePatchNotJSON)}
	}
	object, ok := patch.(map[string]any)
	if !ok {
		return field.ErrorList{field.Invalid(at.path, "a patch", messageNotObject)}
	}
	schema, err := strategicpatch.NewPatchMetaFromStruct(corev1.PodTemplateSpec{})
	if err != nil {
		return field.ErrorList{field.InternalError(at.path, errors.New(messageNoPatchSchema))}
	}
	return checkPatch(object, schema, at.path)
}

// checkPatch checks an object of a patch by its schema. The decoder reports the fields that the schema lacks.
func checkPatch(patch map[string]any, schema strategicpatch.LookupPatchMeta, at *field.Path) field.ErrorList {
	var errs field.ErrorList
	for _, name := range slices.Sorted(maps.Keys(patch)) {
		if len(errs) > rules.MaxErrors {
			break
		}
		if strings.HasPrefix(name, "$") {
			continue // A directive.
		}
		at := at.Child(name)
		switch value := patch[name].(type) {
		case map[string]any:
			if below, _, err := schema.LookupPatchMetadataForStruct(name); err == nil {
				errs = append(errs, checkPatch(value, below, at)...)
			}
		case []any:
			if below, meta, err := schema.LookupPatchMetadataForSlice(name); err == nil && meta.GetPatchMergeKey() != "" {
				errs = append(errs, checkPatchItems(value, meta.GetPatchMergeKey(), below, at)...)
			}
		}
	}
	return errs
}

// checkPatchItems checks the items of a list with a merge key.
func checkPatchItems(items []any, key string, schema strategicpatch.LookupPatchMeta, at *field.Path) field.ErrorList {
	var errs field.ErrorList
	for i := range items {
		if len(errs) > rules.MaxErrors {
			break
		}
		at := at.Index(i)
		item, ok := items[i].(map[string]any)
		if !ok {
			errs = append(errs, field.Invalid(at, "an item", messageNotObject))
			continue
		}
		if directive, ok := item["$patch"]; ok && directive == "replace" {
			continue
		}
		switch value := item[key].(type) {
		case string:
			if value != "" {
				errs = append(errs, checkPatch(item, schema, at)...)
				continue
			}
		case float64:
			errs = append(errs, checkPatch(item, schema, at)...)
			continue
		}
		errs = append(errs, field.Required(at.Child(key), messageItemWithoutKey))
	}
	return errs
}
