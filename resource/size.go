package resource

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/validation/field"

	appv1 "huolala.cn/app-operator/api/v1"
	rules "huolala.cn/app-operator/api/v1/validation"
)

// Sizes maps each named size to its amounts.
type Sizes map[appv1.Size]Amounts

// Amounts are requests and limits.
type Amounts struct {
	Requests corev1.ResourceList `json:"requests,omitempty"`
	Limits   corev1.ResourceList `json:"limits,omitempty"`
}

// ResolvedSize is a named size with its amounts at the time of resolution. The zero value means no size.
type ResolvedSize struct {
	Name    appv1.Size `json:"name"`
	Amounts `json:",inline"`
}

// BuiltInSizes returns the default amounts of the sizes.
func BuiltInSizes() Sizes {
	list := func(cpu, memory string) corev1.ResourceList {
		return corev1.ResourceList{
			corev1.ResourceCPU:    resource.MustParse(cpu),
			corev1.ResourceMemory: resource.MustParse(memory),
		}
	}
	return Sizes{
		appv1.SizeSmall:  {Requests: list("100m", "128Mi"), Limits: list("500m", "256Mi")},
		appv1.SizeMedium: {Requests: list("250m", "512Mi"), Limits: list("1", "1Gi")},
		appv1.SizeLarge:  {Requests: list("1", "2Gi"), Limits: list("2", "4Gi")},
	}
}

// checkAmounts validates the amounts.
func (a Amounts) checkAmounts(at *field.Path) field.ErrorList {
	if len(a.Requests)+len(a.Limits) == 0 {
		return field.ErrorList{field.Required(at, messageSizeEmpty)}
	}
	return rules.Resources(&corev1.ResourceRequirements{Requests: a.Requests, Limits: a.Limits}, at)
}

// Resolve returns a size with its amounts: none for a name that is not defined, the zero value for no named size.
func (s Sizes) Resolve(size appv1.Size) ResolvedSize {
	if !size.Named() {
		return ResolvedSize{}
	}
	return ResolvedSize{Name: size, Amounts: s[size]}
}

// Undefined returns an error if the size has a name without amounts. known are the sizes that exist.
func (r ResolvedSize) Undefined(known Sizes, path *field.Path) field.ErrorList {
	if r.Name == "" || len(r.Requests)+len(r.Limits) > 0 {
		return nil
	}
	return field.ErrorList{field.Invalid(path, r.Name, fmt.Sprintf(messageSizeUndefined, known.SizeNames()))}
}

// Equal reports whether two sizes have the same name and the same amounts.
func (r ResolvedSize) Equal(other ResolvedSize) bool { return equality.Semantic.DeepEqual(r, other) }

// String returns the size with each resource as request/limit, such as "small (cpu 100m/500m, memory 128Mi/256Mi)"; empty for no
// size.
func (r ResolvedSize) String() string {
	if r.Name == "" {
		return ""
	}
	amount := func(list corev1.ResourceList, name corev1.ResourceName) string {
		q, stated := list[name]
		if !stated {
			return "-"
		}
		return q.String()
	}
	both := maps.Clone(r.Requests)
	if both == nil {
		both = corev1.ResourceList{}
	}
	maps.Copy(both, r.Limits)
	parts := make([]string, 0, len(both))
	for _, name := range slices.Sorted(maps.Keys(both)) {
		parts = append(parts, fmt.Sprintf("%s %s/%s", name, amount(r.Requests, name), amount(r.Limits, name)))
	}
	return fmt.Sprintf("%s (%s)", r.Name, strings.Join(parts, ", "))
}
