package webhooks

import (
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"huolala.cn/app-operator/api/v1/validation"
	"huolala.cn/app-operator/resource"
)

// A resource and the AppDefaults that it depends on can come in one sync, in any order. Flux sends a dry run of all objects of a sync first, and
// applies none if one is refused. So an error that other AppDefaults would remove is a warning.

// buildFunc builds the workload of a resource, and returns the errors of its spec.
type buildFunc func(resource.BuildOptions) (*resource.Workload, field.ErrorList)

// buildWithDefaults builds a workload with the present AppDefaults. It returns the errors that the spec has with and without them, and the pending
// errors, which other AppDefaults would remove.
func buildWithDefaults(seen resource.BuildOptions, build buildFunc) (w *resource.Workload, errs, pending field.ErrorList) {
	w, all := build(seen)
	if len(all) == 0 {
		return w, nil, nil
	}
	plain := seen
	plain.Inputs.Defaults, plain.Sizes = "", nil
	_, own := build(plain)
	own = slices.DeleteFunc(own, validation.LeftToDefaults)
	if seen.Sizes == nil { // What the AppDefaults have is not known.
		all = slices.DeleteFunc(all, validation.LeftToDefaults)
	}
	pending = without(all, own)
	return w, without(all, pending), pending
}

// without returns the errors that are not among others.
func without(errs, others field.ErrorList) field.ErrorList {
	had := make(map[string]bool, len(others))
	for _, err := range others {
		had[err.Error()] = true
	}
	return slices.DeleteFunc(slices.Clone(errs), func(err *field.Error) bool { return had[err.Error()] })
}

// keepsPods reports whether a change of specs leaves their pods as they are: the pods keep the defaults and the sizes that they were built with.
func keepsPods(specs, previous []resource.Spec) bool {
	if len(specs) == 0 || len(specs) != len(previous) {
		return false
	}
	for i, spec := range specs {
		if changed, err := spec.Changed(previous[i].Identity(), resource.ScopePods); err != nil || changed {
			return false
		}
	}
	return true
}

// warnOf returns errors as warnings; message has a place for the error.
func warnOf(errs field.ErrorList, message string) []string {
	var said []string
	for _, err := range validation.List(errs) {
		said = append(said, fmt.Sprintf(message, err))
	}
	return said
}
