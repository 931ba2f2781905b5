package validation

import (
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/validation/field"

	appv1 "huolala.cn/app-operator/api/v1"
)

// podWarnings returns the warnings of what the API server accepts in a pod and seldom can be meant, podTemplatePatch included.
func podWarnings(spec *appv1.WorkloadSpec, at *field.Path) []string {
	var said []string
	warn := func(more []string) {
		if !crowded(said) {
			said = append(said, more...)
		}
	}
	p := podOf(spec, kindDefaults{}, at)
	p.each(func(c *corev1.Container, at place) { warn(containerWarnings(c, at.self)) })
	warn(volumeWarnings(spec.Volumes, at.Child("volumes")))
	patch, in := patchedSpec(spec), at.Child("podTemplatePatch", "spec")
	for _, part := range []struct {
		field string
		list  []corev1.Container
	}{{"initContainers", patch.InitContainers}, {"containers", patch.Containers}} {
		for i := range part.list {
			warn(containerWarnings(&part.list[i], keyIn(in.Child(part.field), part.list[i].Name)))
		}
	}
	warn(volumeWarnings(patch.Volumes, in.Child("volumes")))
	if patch.Resources != nil {
		warn(resourceWarnings(patch.Resources.Requests, in.Child("resources", "requests")))
		warn(resourceWarnings(patch.Resources.Limits, in.Child("resources", "limits")))
	}
	if patch.Priority != nil {
		warn([]string{warning(in.Child("priority"), messagePriorityComputed)})
	}
	if len(patch.Overhead) > 0 {
		warn([]string{warning(in.Child("overhead"), messageOverheadComputed)})
	}
	return said
}

// containerWarnings returns the warnings of a container: its paths and its quantities.
func containerWarnings(c *corev1.Container, at *field.Path) []string {
	said := append(resourceWarnings(c.Resources.Requests, at.Child("resources", "requests")),
		resourceWarnings(c.Resources.Limits, at.Child("resources", "limits"))...)
	first := map[string]string{}
	for i, m := range c.VolumeMounts {
		said = append(said, pathWarnings(m.MountPath, at.Child("volumeMounts").Index(i).Child("mountPath"), first)...)
	}
	for i, d := range c.VolumeDevices {
		said = append(said, pathWarnings(d.DevicePath, at.Child("volumeDevices").Index(i).Child("devicePath"), first)...)
	}
	return said
}

// pathWarnings returns the warnings of a path at which a container sees a volume. first holds the fields of the previous paths of the
// container by the clean form of each. No warning repeats a path.
func pathWarnings(mount string, at *field.Path, first map[string]string) []string {
	windows := len(mount) > 1 && mount[1] == ':' || strings.Contains(mount, `\`)
	if mount == "" || windows {
		return nil
	}
	clean := path.Clean("/" + mount)
	other, taken := first[clean]
	if !taken {
		first[clean] = at.String()
	}
	switch {
	case !path.IsAbs(mount):
		return []string{warning(at, messageMountPathRelative)}
	case clean == "/":
		return []string{warning(at, messageMountPathIsRoot)}
	case strings.Contains(mount, ":"):
		return []string{warning(at, messageMountPathHasColon)}
	case backsteps(mount):
		return []string{warning(at, messagePathMustNotContainDotDot)}
	case taken:
		return []string{warning(at, fmt.Sprintf(messageMountPathRepeated, other))}
	}
	return nil
}

// volumeWarnings returns the warnings of the sizes of volumes.
func volumeWarnings(list []corev1.Volume, at *field.Path) []string {
	var said []string
	for i := range list {
		if crowded(said) {
			break
		}
		v, at := &list[i], at.Index(i)
		if v.EmptyDir != nil && v.EmptyDir.SizeLimit != nil {
			said = append(said, bytesWarning(*v.EmptyDir.SizeLimit, at.Child("emptyDir", "sizeLimit"))...)
		}
		if v.Ephemeral != nil && v.Ephemeral.VolumeClaimTemplate != nil {
			r, at := &v.Ephemeral.VolumeClaimTemplate.Spec.Resources, at.Child("ephemeral", "volumeClaimTemplate", "spec", "resources")
			said = slices.Concat(said, resourceWarnings(r.Requests, at.Child("requests")), resourceWarnings(r.Limits, at.Child("limits")))
		}
	}
	return said
}

// resourceWarnings returns the warnings of quantities whose unit does not go with their resource.
func resourceWarnings(list corev1.ResourceList, at *field.Path) []string {
	var said []string
	for _, name := range slices.Sorted(maps.Keys(list)) {
		if crowded(said) {
			break
		}
		switch name {
		case corev1.ResourceCPU:
			said = append(said, coresWarning(list[name], keyIn(at, name))...)
		case corev1.ResourceMemory, corev1.ResourceEphemeralStorage, corev1.ResourceStorage:
			said = append(said, bytesWarning(list[name], keyIn(at, name))...)
		}
	}
	return said
}

// The bounds beyond which a unit is missing or another one is meant: no container runs in so few bytes, and no node has so many cores.
const (
	leastBytes = 1 << 20
	mostCores  = 10_000
)

// bytesWarning warns of a number of bytes that is too small to be meant. 0 is no mistake: it means none.
func bytesWarning(q resource.Quantity, at *field.Path) []string {
	if q.Sign() <= 0 || q.CmpInt64(leastBytes) >= 0 {
		return nil
	}
	if text := q.String(); strings.HasSuffix(text, "m") {
		return []string{warning(at, fmt.Sprintf(messageThousandthsOfBytes, text))}
	}
	return []string{warning(at, fmt.Sprintf(messageFewBytes, q.String()))}
}

// coresWarning warns of a number of cores that no node has.
func coresWarning(q resource.Quantity, at *field.Path) []string {
	if q.CmpInt64(mostCores) < 0 {
		return nil
	}
	return []string{warning(at, fmt.Sprintf(messageManyCores, q.String()))}
}

// metricWarnings returns the warnings of the quantities that an autoscaler compares the resources of pods with.
func metricWarnings(list []autoscalingv2.MetricSpec, at *field.Path) []string {
	var said []string
	for i := range list {
		if crowded(said) {
			break
		}
		m, at := &list[i], at.Index(i)
		if m.Resource != nil && m.Resource.Target.AverageValue != nil {
			at := at.Child("resource", "target", "averageValue")
			said = append(said, quantityWarning(m.Resource.Name, *m.Resource.Target.AverageValue, at)...)
		}
		if m.ContainerResource != nil && m.ContainerResource.Target.AverageValue != nil {
			at := at.Child("containerResource", "target", "averageValue")
			said = append(said, quantityWarning(m.ContainerResource.Name, *m.ContainerResource.Target.AverageValue, at)...)
		}
	}
	return said
}

// quantityWarning warns of one quantity of a resource.
func quantityWarning(name corev1.ResourceName, q resource.Quantity, at *field.Path) []string {
	switch name {
	case corev1.ResourceCPU:
		return coresWarning(q, at)
	case corev1.ResourceMemory, corev1.ResourceEphemeralStorage:
		return bytesWarning(q, at)
	}
	return nil
}

// serviceWarnings warns of stated fields of the Service that have no effect: all without ports, and some with the type of the Service.
func serviceWarnings(spec *appv1.WorkloadSpec, defaultType corev1.ServiceType, at *field.Path) []string {
	fields := stated(spec.Service)
	if len(spec.Ports) == 0 {
		if len(fields) == 0 {
			return nil
		}
		return []string{warning(at, fmt.Sprintf(messageServiceNeedsPorts, strings.Join(fields, ", ")))}
	}
	serviceType := spec.Service.Type
	if serviceType == "" {
		serviceType = defaultType
	}
	if spec.Service.ClusterIP == corev1.ClusterIPNone {
		serviceType = corev1.ServiceTypeClusterIP
	}
	if serviceType == corev1.ServiceTypeClusterIP && spec.Service.ExternalTrafficPolicy != "" {
		return []string{warning(at.Child("externalTrafficPolicy"), messageNeedsExternalService)}
	}
	return nil
}
