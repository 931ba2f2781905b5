package validation

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"

	appv1 "huolala.cn/app-operator/api/v1"
)

// MaxDefaultsSpec is the maximum length of the JSON of the spec of AppDefaults, in bytes. Each manager keeps all of them decoded.
const MaxDefaultsSpec = 64 << 10

// maxSizes is the maximum number of sizes of AppDefaults.
const maxSizes = 32

// AppDefaults validates the spec of AppDefaults: the sizes, and the defaults as the fields of an App that states the rest. length is the
// length of the JSON of the spec in bytes, and disabled are the features that are switched off.
func AppDefaults(spec *appv1.AppDefaultsSpec, length int, disabled []string) field.ErrorList {
	path := field.NewPath("spec")
	if length > MaxDefaultsSpec {
		return field.ErrorList{field.TooLong(path, "", MaxDefaultsSpec)}
	}
	errs := append(sizes(spec.Sizes, path.Child("sizes")), rollout(spec.Rollout, path.Child("rollout"))...)
	path = path.Child("defaults")
	if spec.Defaults.Service.Name != "" {
		errs = append(errs, field.Forbidden(path.Child("service", "name"), messageNoDefaultServiceName))
	}
	if spec.Defaults.Size == appv1.SizeCustom {
		errs = append(errs, field.Invalid(path.Child("size"), spec.Defaults.Size, messageNoDefaultCustomSize))
	}
	w, s := spec.Defaults.Specs()
	if w.Size.Named() && len(w.Resources.Requests)+len(w.Resources.Limits) > 0 {
		errs = append(errs, field.Invalid(path.Child("size"), w.Size, messageSizeExcludesResources))
	}
	w.Image, w.Service.Name = "image", ""
	if w.Size == "" && len(w.Resources.Requests)+len(w.Resources.Limits) == 0 {
		w.Size = appv1.SizeSmall
	}
	main := &defaultsTemplate(&w).Spec.Containers[0]
	w.Ports = []appv1.Port{{Port: 1}}
	for _, p := range main.Ports {
		w.Ports = append(w.Ports, appv1.Port{Name: p.Name, Port: p.ContainerPort})
	}
	return slices.Concat(errs, DisabledFeatures(&s, disabled, path), workload(&w, kindDefaults{container: main.Name}, path), serving(&s, &w, path),
		whenStated(&spec.WhenStated, field.NewPath("spec", "whenStated")))
}

// RunnableDefaults validates the containers of AppDefaults whose spec is valid otherwise; see WholePod. AppDefaults that have only these errors can be
// in force since an earlier release, with resources that do without the field or state another value.
func RunnableDefaults(spec *appv1.AppDefaultsSpec) field.ErrorList {
	w, _ := spec.Defaults.Specs()
	template := defaultsTemplate(&w)
	return WholePod(&w, template, template.Spec.Containers[0].Name, field.NewPath("spec", "defaults"))
}

// defaultsTemplate returns the pod template of an App with default fields that states the rest: the ports that its main container refers to, and
// a user.
func defaultsTemplate(spec *appv1.WorkloadSpec) *corev1.PodTemplateSpec {
	main := corev1.Container{
		Name: cmp.Or(spec.ContainerName, mainOfDefaults), LivenessProbe: spec.Probes.Liveness, ReadinessProbe: spec.Probes.Readiness, StartupProbe: spec.Probes.Startup,
		Lifecycle: spec.Lifecycle, SecurityContext: spec.SecurityContext,
	}
	for i, name := range referredPorts(&main) {
		main.Ports = append(main.Ports, corev1.ContainerPort{Name: name, ContainerPort: int32(i) + 2}) //nolint:gosec // There are five at most.
	}
	if main.SecurityContext == nil {
		main.SecurityContext = &corev1.SecurityContext{RunAsUser: ptr.To[int64](1)}
	}
	return &corev1.PodTemplateSpec{Spec: corev1.PodSpec{
		InitContainers: spec.InitContainers, Containers: append([]corev1.Container{main}, spec.Containers...), SecurityContext: spec.PodSecurityContext,
	}}
}

// whenStated validates the defaults of blocks: as blocks of an App that states the rest.
func whenStated(d *appv1.WhenStated, path *field.Path) field.ErrorList {
	var s appv1.ServingSpec
	if block := d.HTTPRoute; block != nil {
		s.HTTPRoute = &appv1.HTTPRouteSpec{ParentRefs: block.ParentRefs, PathType: block.PathType, Annotations: block.Annotations}
		if len(block.ParentRefs) == 0 {
			s.HTTPRoute.ParentRefs = []appv1.ParentRef{{Name: "gateway"}}
		}
	}
	if block := d.Ingress; block != nil {
		s.Ingress = &appv1.IngressSpec{
			ClassName: block.ClassName, PathType: block.PathType, TLS: block.TLS, Annotations: block.Annotations,
			Rules: []appv1.IngressRule{{Host: "host.example"}},
		}
	}
	if block := d.PodMonitor; block != nil {
		s.PodMonitor = &appv1.PodMonitorSpec{Path: block.Path, Interval: block.Interval, Labels: block.Labels}
	}
	return serving(&s, &appv1.WorkloadSpec{Ports: []appv1.Port{{Port: 1}}}, path)
}

// LeftToDefaults reports whether an error is about a field that AppDefaults may have, which are not known.
func LeftToDefaults(err *field.Error) bool {
	return err.Type == field.ErrorTypeRequired && err.Field == field.NewPath("spec", "httpRoute", "parentRefs").String()
}

// referredPorts returns the names of ports that the probes and the hooks of a container refer to, each once.
func referredPorts(c *corev1.Container) []string {
	var names []string
	for _, r := range portReferences(c, nil, place{}, place{}) {
		if r.port.Type == intstr.String && r.port.StrVal != "" && !slices.Contains(names, r.port.StrVal) {
			names = append(names, r.port.StrVal)
		}
	}
	return names
}

// sizes validates definitions of sizes.
func sizes(given map[appv1.Size]appv1.SizeAmounts, path *field.Path) field.ErrorList {
	if len(given) > maxSizes {
		return field.ErrorList{field.TooMany(path, len(given), maxSizes)}
	}
	var errs field.ErrorList
	for _, name := range slices.Sorted(maps.Keys(given)) {
		at, amounts := path.Key(string(name)), given[name]
		errs = append(errs, faults(at, string(name), validation.IsDNS1123Label(string(name)))...)
		if name == appv1.SizeCustom {
			errs = append(errs, field.Forbidden(at, messageCustomNotDefined))
		}
		if len(amounts.Requests)+len(amounts.Limits) == 0 {
			errs = append(errs, field.Required(at, messageSizeNeedsAmounts))
		}
		errs = append(errs, Resources(&corev1.ResourceRequirements{Requests: amounts.Requests, Limits: amounts.Limits}, at)...)
	}
	return collected(errs)
}

// withoutDefaults checks that each name is of a field of the defaults.
func withoutDefaults(names []string, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	for i, name := range names {
		if full(errs) {
			break
		}
		if !slices.Contains(appv1.OptOuts(), name) {
			errs = append(errs, field.Invalid(path.Index(i), name, fmt.Sprintf(messageNoDefaultOfName, strings.Join(appv1.OptOuts(), ", "))))
		}
	}
	return errs
}
