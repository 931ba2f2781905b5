package validation

import (
	"encoding/json"
	"fmt"
	"reflect"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	appv1 "huolala.cn/app-operator/api/v1"
)

// pod checks what is in the pod beside the main container, and all that refers to it.
func pod(spec *appv1.WorkloadSpec, f frame, path *field.Path) field.ErrorList {
	errs := volumes(spec.Volumes, path.Child("volumes"))
	known := volumeNames(spec, f.volumes)
	errs = append(errs, mounts(spec.VolumeMounts, known, path.Child("volumeMounts"))...)
	errs = append(errs, files(spec.Envs, known, path.Child("envs"))...)
	errs = append(errs, lifecycle(spec.Lifecycle, path.Child("lifecycle"))...)
	at := path.Child("probes")
	errs = append(errs, probe(spec.Probes.Liveness, once, at.Child("liveness"))...)
	errs = append(errs, probe(spec.Probes.Readiness, repeated, at.Child("readiness"))...)
	errs = append(errs, probe(spec.Probes.Startup, once, at.Child("startup"))...)

	names := map[string]bool{f.container: true}
	for i := range spec.InitContainers {
		errs = append(errs, sidecar(&spec.InitContainers[i], names, known, path.Child("initContainers").Index(i))...)
	}
	for i := range spec.Containers {
		errs = append(errs, sidecar(&spec.Containers[i], names, known, path.Child("containers").Index(i))...)
	}
	return append(errs, hostPorts(spec.Containers, path.Child("containers"))...)
}

// sidecar checks a container beside the main one, whose name must be none of those before it.
func sidecar(c *corev1.Container, names, known map[string]bool, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	for _, message := range validation.IsDNS1123Label(c.Name) {
		errs = append(errs, field.Invalid(path.Child("name"), c.Name, message))
	}
	if names[c.Name] {
		errs = append(errs, field.Invalid(path.Child("name"), c.Name, "must be unique among all containers of the pod, the main one included"))
	}
	names[c.Name] = true
	if c.Image == "" {
		errs = append(errs, field.Required(path.Child("image"), "the image that the container runs"))
	}
	errs = append(errs, Resources(&c.Resources, path.Child("resources"))...)
	errs = append(errs, envs(c.Env, path.Child("env"))...)
	errs = append(errs, envFrom(c.EnvFrom, path.Child("envFrom"))...)
	errs = append(errs, files(c.Env, known, path.Child("env"))...)
	errs = append(errs, mounts(c.VolumeMounts, known, path.Child("volumeMounts"))...)
	for i, device := range c.VolumeDevices {
		errs = append(errs, volume(device.Name, known, path.Child("volumeDevices").Index(i).Child("name"))...)
	}
	errs = append(errs, lifecycle(c.Lifecycle, path.Child("lifecycle"))...)
	errs = append(errs, probe(c.LivenessProbe, once, path.Child("livenessProbe"))...)
	errs = append(errs, probe(c.ReadinessProbe, repeated, path.Child("readinessProbe"))...)
	return append(errs, probe(c.StartupProbe, once, path.Child("startupProbe"))...)
}

// hostPorts checks that no two containers want one port of the node.
func hostPorts(containers []corev1.Container, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	taken := map[string]bool{}
	for i := range containers {
		for j, p := range containers[i].Ports {
			if p.HostPort == 0 {
				continue
			}
			protocol := p.Protocol
			if protocol == "" {
				protocol = corev1.ProtocolTCP
			}
			key := fmt.Sprintf("%s/%s/%d", protocol, p.HostIP, p.HostPort)
			if taken[key] {
				errs = append(errs, field.Duplicate(path.Index(i).Child("ports").Index(j).Child("hostPort"), p.HostPort))
			}
			taken[key] = true
		}
	}
	return errs
}

// volumes checks that each volume has a name that a pod takes, and exactly one source.
func volumes(list []corev1.Volume, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	for i := range list {
		at := path.Index(i)
		for _, message := range validation.IsDNS1123Label(list[i].Name) {
			errs = append(errs, field.Invalid(at.Child("name"), list[i].Name, message))
		}
		if n := set(list[i].VolumeSource); n != 1 {
			errs = append(errs, field.Invalid(at, fmt.Sprintf("%d sources", n), "must have exactly one source, such as emptyDir: {}"))
		}
	}
	return errs
}

// volumeNames returns the names of all volumes of the pod, those included that its kind or podTemplate adds. A podTemplate that
// cannot be read adds none; what is wrong with it is said where it is used.
func volumeNames(spec *appv1.WorkloadSpec, added []string) map[string]bool {
	known := map[string]bool{}
	for _, name := range added {
		known[name] = true
	}
	for i := range spec.Volumes {
		known[spec.Volumes[i].Name] = true
	}
	if spec.PodTemplate == nil {
		return known
	}
	var patch struct {
		Spec struct {
			Volumes []struct {
				Name string `json:"name"`
			} `json:"volumes"`
		} `json:"spec"`
	}
	if err := json.Unmarshal(spec.PodTemplate.Raw, &patch); err != nil {
		return known
	}
	for _, volume := range patch.Spec.Volumes {
		known[volume.Name] = true
	}
	return known
}

// mounts checks that each mount is one of a volume.
func mounts(list []corev1.VolumeMount, known map[string]bool, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	for i := range list {
		errs = append(errs, volume(list[i].Name, known, path.Index(i).Child("name"))...)
	}
	return errs
}

// files checks that variables that are read from a file name the volume it is in.
func files(vars []corev1.EnvVar, known map[string]bool, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	for i := range vars {
		if from := vars[i].ValueFrom; from != nil && from.FileKeyRef != nil {
			errs = append(errs, volume(from.FileKeyRef.VolumeName, known, path.Index(i).Child("valueFrom", "fileKeyRef", "volumeName"))...)
		}
	}
	return errs
}

// volume checks that a name is that of a volume.
func volume(name string, known map[string]bool, path *field.Path) field.ErrorList {
	if known[name] {
		return nil
	}
	return field.ErrorList{field.Invalid(path, name, "must be the name of one of the volumes")}
}

// How often a probe may have to succeed.
const (
	once     = false
	repeated = true
)

// probe checks that a probe has exactly one handler, and that one which restarts the container asks for one success.
func probe(p *corev1.Probe, often bool, path *field.Path) field.ErrorList {
	if p == nil {
		return nil
	}
	var errs field.ErrorList
	if n := set(p.ProbeHandler); n != 1 {
		errs = append(errs, field.Invalid(path, fmt.Sprintf("%d handlers", n), "must have exactly one of exec, grpc, httpGet and tcpSocket"))
	}
	switch {
	case !often && p.SuccessThreshold > 1:
		errs = append(errs, field.Invalid(path.Child("successThreshold"), p.SuccessThreshold, "must be 1; only a readiness probe may ask for more"))
	case often && p.TerminationGracePeriodSeconds != nil:
		errs = append(errs, field.Forbidden(path.Child("terminationGracePeriodSeconds"), "must not be set for a readiness probe, which ends nothing"))
	}
	return errs
}

// lifecycle checks that each action has exactly one handler.
func lifecycle(l *corev1.Lifecycle, path *field.Path) field.ErrorList {
	if l == nil {
		return nil
	}
	return append(action(l.PostStart, path.Child("postStart")), action(l.PreStop, path.Child("preStop"))...)
}

func action(h *corev1.LifecycleHandler, path *field.Path) field.ErrorList {
	if h == nil {
		return nil
	}
	if n := set(*h); n != 1 {
		return field.ErrorList{field.Invalid(path, fmt.Sprintf("%d handlers", n), "must have exactly one of exec, httpGet, sleep and tcpSocket")}
	}
	return nil
}

// set returns how many of a union's fields, which are all pointers, are set.
func set(union any) int {
	n, v := 0, reflect.ValueOf(union)
	for i := range v.NumField() {
		if !v.Field(i).IsNil() {
			n++
		}
	}
	return n
}
