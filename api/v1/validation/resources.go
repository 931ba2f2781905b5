package validation

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"huolala.cn/app-operator/api/v1/bounds"
)

// Resources checks a container's requests and limits: that each is of a resource that a container can have, none is negative
// or in parts of what has none, and no request is above its limit
// (https://kubernetes.io/docs/concepts/configuration/manage-resources-containers/). Resources that cannot be
// overcommitted, which are all but cpu, memory and ephemeral-storage, need a limit that equals the request.
func Resources(r *corev1.ResourceRequirements, path *field.Path) field.ErrorList {
	return requirements(r, path, containerResource)
}

// requirements is Resources with the rule on names that a container has, or a pod.
func requirements(r *corev1.ResourceRequirements, path *field.Path, known func(corev1.ResourceName) string) field.ErrorList {
	errs := amounts(r.Limits, path.Child("limits"), known)
	wrong := amounts(r.Requests, path.Child("requests"), known)
	errs = append(errs, wrong...)
	refused := sets.Set[string]{}
	for _, err := range wrong {
		refused.Insert(err.Field)
	}
	for _, name := range slices.Sorted(maps.Keys(r.Requests)) {
		if full(errs) {
			break
		}
		request, at := rounded(r.Requests[name]), keyIn(path.Child("requests"), name)
		limit, limited := r.Limits[name]
		limit = rounded(limit)
		switch {
		case refused.Has(at.String()):
		case limited && request.Cmp(limit) > 0:
			errs = append(errs, field.Invalid(at, request.String(), fmt.Sprintf(messageRequestMustNotExceedLimit, limit.String())))
		case overcommits(name):
		case !limited:
			errs = append(errs, field.Required(keyIn(path.Child("limits"), name), messageRequestNeedsEqualLimit))
		case request.Cmp(limit) != 0:
			errs = append(errs, field.Invalid(at, request.String(), fmt.Sprintf(messageRequestMustEqualLimit, limit.String())))
		}
	}
	all := sets.KeySet(r.Limits).Union(sets.KeySet(r.Requests))
	pages := slices.ContainsFunc(all.UnsortedList(), hugePages)
	if pages && !all.HasAny(corev1.ResourceCPU, corev1.ResourceMemory) {
		errs = append(errs, field.Required(path.Child("limits"), messageHugePagesNeedCPUOrMemory))
	}
	return errs
}

// amounts checks names and quantities.
func amounts(list corev1.ResourceList, path *field.Path, known func(corev1.ResourceName) string) field.ErrorList {
	var errs field.ErrorList
	for _, name := range slices.Sorted(maps.Keys(list)) {
		if full(errs) {
			break
		}
		q, at := rounded(list[name]), keyIn(path, name)
		fault := known(name)
		switch {
		case fault != "":
			errs = append(errs, field.Invalid(at, string(name), fault))
		case q.Sign() < 0:
			errs = append(errs, field.Invalid(at, q.String(), messageMustNotBeNegative))
		case extended(name) && q.MilliValue()%1000 != 0:
			errs = append(errs, field.Invalid(at, q.String(), messageMustBeWholeNumber))
		case hugePages(name):
			errs = append(errs, pages(name, q, at)...)
		}
	}
	return errs
}

// rounded is a quantity as the API server keeps it, rounded up to a thousandth.
func rounded(q resource.Quantity) resource.Quantity {
	q = q.DeepCopy()
	q.RoundUp(resource.Milli)
	return q
}

// pages checks that huge pages are whole ones.
func pages(name corev1.ResourceName, q resource.Quantity, path *field.Path) field.ErrorList {
	size, err := bounds.ParseQuantity(strings.TrimPrefix(string(name), corev1.ResourceHugePagesPrefix))
	if err != nil || size.Sign() <= 0 || size.MilliValue()%1000 != 0 {
		return field.ErrorList{field.Invalid(path, string(name), messageHugePagesNameInvalid)}
	}
	if q.Value()%size.Value() != 0 {
		return field.ErrorList{field.Invalid(path, q.String(), fmt.Sprintf(messageHugePagesMustBeWhole, size.String()))}
	}
	return nil
}

// containerResource returns an error message for an invalid resource name of a container, empty for a valid name.
func containerResource(name corev1.ResourceName) string {
	if faults := validation.IsQualifiedName(string(name)); len(faults) > 0 {
		return fmt.Sprintf(messageResourceNameMalformed, faults[0])
	}
	switch {
	case name == corev1.ResourceCPU, name == corev1.ResourceMemory, name == corev1.ResourceEphemeralStorage, hugePages(name):
	case !strings.Contains(string(name), "/"):
		return messageResourceNameUnknown
	case !native(name) && !extended(name):
		return messageResourceDomainInvalid
	}
	return ""
}

// podResource is containerResource for what a pod has as a whole.
func podResource(name corev1.ResourceName) string {
	if name == corev1.ResourceCPU || name == corev1.ResourceMemory || hugePages(name) {
		return ""
	}
	return messagePodResourceNameUnknown
}

func hugePages(name corev1.ResourceName) bool {
	return strings.HasPrefix(string(name), corev1.ResourceHugePagesPrefix)
}

// native reports whether a resource is Kubernetes' own.
func native(name corev1.ResourceName) bool {
	return !strings.Contains(string(name), "/") || strings.Contains(string(name), corev1.ResourceDefaultNamespacePrefix)
}

// extended reports whether a resource is an extended one, such as a device. Its quantities are whole numbers.
func extended(name corev1.ResourceName) bool {
	return !native(name) && !strings.HasPrefix(string(name), corev1.DefaultResourceRequestsPrefix) &&
		len(validation.IsQualifiedName(corev1.DefaultResourceRequestsPrefix+string(name))) == 0
}

func overcommits(name corev1.ResourceName) bool { return native(name) && !hugePages(name) }
