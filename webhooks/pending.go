package webhooks

import (
	"fmt"
	"regexp"
	"slices"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"huolala.cn/app-operator/api/v1/validation"
	"huolala.cn/app-operator/resource"
)

// A resource and the AppDefaults that it depends on can come in one sync, in any order. Flux sends a dry run of all objects of a sync first, and
// applies none if one is refused. So an error that other AppDefaults would remove is a warning.

// buildFunc builds the workload of a resource, and returns the errors of its spec.
type buildFunc func(resource.BuildOptions) (*resource.Workload, field.ErrorList)

// builtSpec is the workload of a spec, and the errors of the spec.
type builtSpec struct {
	workload *resource.Workload
	// errors are the errors that the spec has with and without the present AppDefaults. pending are the errors that other AppDefaults would remove.
	errors, pending field.ErrorList
	// unchecked is true if the AppDefaults are not known, and the spec has errors that some AppDefaults would remove.
	unchecked bool
}

// withCuringDefaults returns the inputs with AppDefaults that are made for a spec; see validation.CuringDefaults. container is the name of the main
// container of a spec that states none.
func withCuringDefaults(seen resource.BuildOptions, spec resource.Spec, container string) resource.BuildOptions {
	curing := resource.LayerDefaults(validation.CuringDefaults(spec.Workload(), spec.Serving(), container))
	seen.Inputs.Defaults = resource.TakeTransientDefaults(&curing, spec)
	seen.Inputs.Size = curing.Sizes.Resolve(spec.WithDefaults(seen.Inputs.Defaults).Workload().Size)
	return seen
}

// buildWithDefaults builds a workload with the present AppDefaults. container is the name of the main container of a spec that states none.
func buildWithDefaults(seen resource.BuildOptions, spec resource.Spec, container string, build buildFunc) builtSpec {
	w, all := build(seen)
	if len(all) == 0 {
		return builtSpec{workload: w}
	}
	if seen.Sizes == nil { // What the AppDefaults have is not known.
		lasting := all
		if spec.Serving() != nil {
			_, cured := build(withCuringDefaults(seen, spec, container))
			lasting = without(all, without(all, cured))
		}
		return builtSpec{workload: w, errors: lasting, unchecked: len(lasting) < len(all)}
	}
	plain := seen
	plain.Inputs.Defaults, plain.Sizes = "", nil
	_, own := build(plain)
	own = slices.DeleteFunc(own, validation.LeftToDefaults)
	return builtSpec{workload: w, errors: without(own, without(own, all)), pending: without(all, own)}
}

// listIndex is the index of an item of a list in the path of a field.
var listIndex = regexp.MustCompile(`\[\d+\]`)

// without returns the errors that are not among others. Items of a list have no index here: the items of AppDefaults come before those of a spec,
// and a user may insert others.
func without(errs, others field.ErrorList) field.ErrorList {
	text := func(err *field.Error) string {
		plain := *err
		plain.Field = listIndex.ReplaceAllString(err.Field, "[]")
		return plain.Error()
	}
	had := make(map[string]int, len(others))
	for _, err := range others {
		had[text(err)]++
	}
	return slices.DeleteFunc(slices.Clone(errs), func(err *field.Error) bool {
		had[text(err)]--
		return had[text(err)] >= 0
	})
}

// keepsPods reports whether a change leaves all pods as they are: the pods keep the defaults and the sizes that they were built with.
func keepsPods(now, before *review) bool {
	if len(now.specs) == 0 || len(now.specs) != len(before.specs) {
		return false
	}
	for i, spec := range now.specs {
		changed, err := spec.Changed(before.specs[i].Identity(), resource.ScopePods)
		if err != nil || changed || now.workloads[i].Name != before.workloads[i].Name {
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
