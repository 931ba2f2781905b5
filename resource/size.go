package resource

import (
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apimachinery/pkg/util/yaml"

	appv1 "huolala.cn/app-operator/api/v1"
	"huolala.cn/app-operator/api/v1/bounds"
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

// ParseSizes reads the sizes from a ConfigMap. Each key is the name of a size, each value has its requests and limits as YAML. A
// size that the ConfigMap lacks keeps its built-in amounts. If one key is invalid, ParseSizes returns an error and uses no key.
func ParseSizes(config *corev1.ConfigMap) (Sizes, error) {
	sizes := BuiltInSizes()
	var errs field.ErrorList
	for _, key := range slices.Sorted(maps.Keys(config.BinaryData)) {
		errs = append(errs, field.Invalid(field.NewPath("binaryData").Key(key), "bytes", messageSizeInBinaryData))
	}
	for _, key := range slices.Sorted(maps.Keys(config.Data)) {
		at := field.NewPath("data").Key(key)
		if _, known := sizes[appv1.Size(key)]; !known {
			errs = append(errs, field.NotSupported(at, key, slices.Sorted(maps.Keys(sizes))))
			continue
		}
		amounts, wrong := parseAmounts(config.Data[key], at)
		sizes[appv1.Size(key)] = amounts
		errs = append(errs, wrong...)
	}
	if len(errs) > 0 {
		return nil, errs.ToAggregate()
	}
	return sizes, nil
}

func parseAmounts(text string, at *field.Path) (Amounts, field.ErrorList) {
	if wrong := checkAmounts(text, at); wrong != nil {
		return Amounts{}, field.ErrorList{wrong}
	}
	var amounts Amounts
	if err := yaml.UnmarshalStrict([]byte(text), &amounts); err != nil {
		return Amounts{}, field.ErrorList{field.Invalid(at, "a size", messageSizeNotYAML+err.Error())}
	}
	return Amounts{Requests: resourceList(amounts.Requests), Limits: resourceList(amounts.Limits)}, amounts.check(at)
}

// maxAmounts is the maximum length in bytes of the YAML of a size, and of its JSON.
const maxAmounts = 16 << 10

// checkAmounts returns an error if the YAML of a size is too expensive to decode. It checks amounts under every key, as the YAML
// decoder ignores the case of keys.
func checkAmounts(text string, at *field.Path) *field.Error {
	if len(text) > maxAmounts {
		return field.TooLong(at, "", maxAmounts)
	}
	var tree map[string]any
	if err := yaml.UnmarshalStrict([]byte(text), &tree); err != nil {
		return field.Invalid(at, "a size", messageSizeNotYAML+err.Error())
	}
	plain := canonical(tree)
	if len(plain) > maxAmounts { // YAML aliases can expand.
		return field.TooLong(at, "", maxAmounts)
	}
	var wrong *field.Error
	if errors.As(bounds.Check(plain, reflect.TypeFor[map[string]corev1.ResourceList](), at.String()), &wrong) {
		return wrong
	}
	return nil
}

// check validates the amounts.
func (a Amounts) check(at *field.Path) field.ErrorList {
	if len(a.Requests)+len(a.Limits) == 0 {
		return field.ErrorList{field.Required(at, messageSizeEmpty)}
	}
	return rules.Resources(&corev1.ResourceRequirements{Requests: a.Requests, Limits: a.Limits}, at)
}

// Resolve returns a size with its amounts, or the zero value for an unknown size.
func (s Sizes) Resolve(size appv1.Size) ResolvedSize {
	amounts, named := s[size]
	if !named {
		return ResolvedSize{}
	}
	return ResolvedSize{Name: size, Amounts: amounts}
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
