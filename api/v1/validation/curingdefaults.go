package validation

import (
	"cmp"
	"maps"
	"math"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/utils/ptr"

	appv1 "huolala.cn/app-operator/api/v1"
)

const (
	// mainOfDefaults is the name of a main container whose name is not known. It is not valid, so that no other container has it.
	mainOfDefaults = "(main)"
	// containerOfPorts is the name of the container with the ports that a Service leads to. It is not valid either.
	containerOfPorts = "(ports)"
)

// CuringDefaults returns AppDefaults that remove the errors of an App or ModelBox which any AppDefaults remove: they have the volumes, the containers
// and the ports that the spec names and does not state, and numbers that go with each stated number. An error may be left that depends on the content
// of several default fields at once. The AppDefaults are not valid, and cause other errors. They have a name of the spec only if that name can be
// valid, and up to a number of each kind, so that their length has a bound. container is the name of the main container of a spec that states none.
func CuringDefaults(spec *appv1.WorkloadSpec, serving *appv1.ServingSpec, container string) *appv1.AppDefaultsSpec {
	patch := patchedSpec(spec)
	main := cmp.Or(spec.ContainerName, container)
	own := patchedPart(patch.Containers, main)
	made := &appv1.AppDefaultsSpec{
		Defaults: appv1.Defaults{
			Size:                          appv1.SizeSmall,
			ContainerPorts:                missingMainPorts(spec, serving, own),
			Service:                       appv1.ServiceSpec{Type: corev1.ServiceTypeLoadBalancer},
			MinReadySeconds:               ptr.To[int32](0),
			ProgressDeadlineSeconds:       ptr.To[int32](math.MaxInt32),
			Probes:                        appv1.Probes{Liveness: missingProbe(own.LivenessProbe), Readiness: missingProbe(own.ReadinessProbe), Startup: missingProbe(own.StartupProbe)},
			Lifecycle:                     missingHooks(own.Lifecycle),
			SecurityContext:               &corev1.SecurityContext{Privileged: ptr.To(true), RunAsNonRoot: ptr.To(false)},
			Volumes:                       missingVolumes(spec, &patch),
			InitContainers:                missingContainers(patch.InitContainers, main, true),
			Containers:                    append(missingContainers(patch.Containers, main, false), servedContainer(spec.Ports, serving)),
			TerminationGracePeriodSeconds: ptr.To[int64](math.MaxInt64),
		},
		WhenStated: appv1.WhenStated{HTTPRoute: &appv1.HTTPRouteDefaults{ParentRefs: []appv1.ParentRef{{Name: "gateway"}}}},
	}
	made.Defaults.Containers = append(made.Defaults.Containers, armouredContainers(spec.PodAnnotations, main)...)
	if slices.ContainsFunc(slices.Concat(spec.Containers, spec.InitContainers), func(c corev1.Container) bool { return c.Name == main }) {
		made.Defaults.ContainerName = mainOfDefaults
	}
	return made
}

// patchedPart returns the part of a container that a patch states, the zero value if the patch states none.
func patchedPart(patched []corev1.Container, name string) *corev1.Container {
	if i := slices.IndexFunc(patched, func(c corev1.Container) bool { return c.Name == name }); i >= 0 {
		return &patched[i]
	}
	return &corev1.Container{}
}

// mayBeLabel reports whether a name can be the name of a volume or of a container.
func mayBeLabel(name string) bool { return len(validation.IsDNS1123Label(name)) == 0 }

// mayBePort reports whether a name can be the name of a port.
func mayBePort(name string) bool { return len(validation.IsValidPortName(name)) == 0 }

// missingVolumes returns a volume for each volume that a container mounts or has a file of, and that neither the spec nor its patch states: an empty
// directory for files of variables, and a claim otherwise. A patch can state the mount of a path without a name.
func missingVolumes(spec *appv1.WorkloadSpec, patch *corev1.PodSpec) []corev1.Volume {
	known := map[string]bool{}
	for _, v := range slices.Concat(spec.Volumes, patch.Volumes) {
		known[v.Name] = true
	}
	var made []corev1.Volume
	need := func(name string, source corev1.VolumeSource) {
		if len(made) > MaxErrors || known[name] {
			return
		}
		known[name] = true
		if name == "" || mayBeLabel(name) {
			made = append(made, corev1.Volume{Name: name, VolumeSource: source})
		}
	}
	claim := corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "a"}}
	main := corev1.Container{VolumeMounts: spec.VolumeMounts, Env: spec.Envs}
	all := slices.Concat([]corev1.Container{main}, spec.Containers, spec.InitContainers, patch.Containers, patch.InitContainers)
	for i := range all {
		for _, v := range all[i].Env {
			if v.ValueFrom != nil && v.ValueFrom.FileKeyRef != nil {
				need(v.ValueFrom.FileKeyRef.VolumeName, corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}})
			}
		}
	}
	for i := range all {
		for _, m := range all[i].VolumeMounts {
			need(m.Name, claim)
		}
		for _, d := range all[i].VolumeDevices {
			need(d.Name, claim)
		}
	}
	return made
}

// missingContainers returns a container for each container of a patch, other than the main one, that the patch states in part: with the ports that the
// patch refers to, and the handlers of the probes and the hooks that the patch changes. initial is true for init containers. One with probes or hooks
// is a sidecar.
func missingContainers(patched []corev1.Container, main string, initial bool) []corev1.Container {
	var made []corev1.Container
	for i := range patched {
		c := &patched[i]
		if c.Image != "" || c.Name == main || !mayBeLabel(c.Name) || len(made) > MaxErrors {
			continue
		}
		container := corev1.Container{
			Name: c.Name, Image: "a", Lifecycle: missingHooks(c.Lifecycle),
			LivenessProbe: missingProbe(c.LivenessProbe), ReadinessProbe: missingProbe(c.ReadinessProbe), StartupProbe: missingProbe(c.StartupProbe),
		}
		if initial && (c.Lifecycle != nil || c.LivenessProbe != nil || c.ReadinessProbe != nil || c.StartupProbe != nil) {
			container.RestartPolicy = ptr.To(corev1.ContainerRestartPolicyAlways)
		}
		for j, name := range slices.DeleteFunc(referredPorts(c), func(name string) bool { return !mayBePort(name) }) {
			container.Ports = append(container.Ports, corev1.ContainerPort{Name: name, ContainerPort: unusedPort(j)})
		}
		made = append(made, container)
	}
	return made
}

// anyCommand is the handler of probes and hooks that a patch changes without a handler.
var anyCommand = corev1.ExecAction{Command: []string{"a"}}

// missingProbe returns a probe for a probe that a patch states without a handler, nil for none.
func missingProbe(patched *corev1.Probe) *corev1.Probe {
	if patched == nil || set(patched.ProbeHandler) > 0 {
		return nil
	}
	return &corev1.Probe{ProbeHandler: corev1.ProbeHandler{Exec: anyCommand.DeepCopy()}}
}

// missingHooks returns the hooks that a patch states without a handler, nil for none.
func missingHooks(patched *corev1.Lifecycle) *corev1.Lifecycle {
	if patched == nil {
		return nil
	}
	hook := func(stated *corev1.LifecycleHandler) *corev1.LifecycleHandler {
		if stated == nil || set(*stated) > 0 {
			return nil
		}
		return &corev1.LifecycleHandler{Exec: anyCommand.DeepCopy()}
	}
	made := &corev1.Lifecycle{PostStart: hook(patched.PostStart), PreStop: hook(patched.PreStop)}
	if made.PostStart == nil && made.PreStop == nil {
		return nil
	}
	return made
}

// scrapedPort returns the port that a PodMonitor states, the empty name for none.
func scrapedPort(serving *appv1.ServingSpec) intstr.IntOrString {
	if serving.PodMonitor == nil || serving.PodMonitor.Port == nil {
		return intstr.FromString("")
	}
	port := *serving.PodMonitor.Port
	if port.Type == intstr.String && !mayBePort(port.StrVal) {
		return intstr.FromString("")
	}
	return port
}

// missingMainPorts returns the ports that the probes and the hooks of the main container name, and the port of the PodMonitor, at least one. patched is
// the part of the container that the patch states.
func missingMainPorts(spec *appv1.WorkloadSpec, serving *appv1.ServingSpec, patched *corev1.Container) []appv1.ContainerPort {
	names := append(referredPorts(&corev1.Container{
		LivenessProbe: spec.Probes.Liveness, ReadinessProbe: spec.Probes.Readiness, StartupProbe: spec.Probes.Startup, Lifecycle: spec.Lifecycle,
	}), referredPorts(patched)...)
	scraped := scrapedPort(serving)
	made := []appv1.ContainerPort{{Name: scraped.StrVal, ContainerPort: cmp.Or(scraped.IntVal, unusedPort(len(names)))}}
	for i, name := range names {
		if name != scraped.StrVal && mayBePort(name) {
			made = append(made, appv1.ContainerPort{Name: name, ContainerPort: unusedPort(i)})
		}
	}
	return made
}

// servedContainer returns a container with the container ports that the ports of a Service name, and the port of the PodMonitor.
func servedContainer(ports []appv1.Port, serving *appv1.ServingSpec) corev1.Container {
	var made []corev1.ContainerPort
	if scraped := scrapedPort(serving); scraped.StrVal != "" || scraped.IntVal != 0 {
		made = append(made, corev1.ContainerPort{Name: scraped.StrVal, ContainerPort: cmp.Or(scraped.IntVal, unusedPort(len(ports)))})
	}
	for i, p := range ports {
		if p.TargetPort != nil && mayBePort(p.TargetPort.StrVal) && len(made) <= MaxErrors {
			made = append(made, corev1.ContainerPort{Name: p.TargetPort.StrVal, ContainerPort: unusedPort(i), Protocol: cmp.Or(p.Protocol, corev1.ProtocolTCP)})
		}
	}
	return corev1.Container{Name: containerOfPorts, Image: "a", Ports: made}
}

// armouredContainers returns the containers that AppArmor annotations name, other than the main one.
func armouredContainers(annotations map[string]string, main string) []corev1.Container {
	var made []corev1.Container
	for _, key := range slices.Sorted(maps.Keys(annotations)) {
		name, armoured := strings.CutPrefix(key, corev1.DeprecatedAppArmorBetaContainerAnnotationKeyPrefix)
		if armoured && name != main && mayBeLabel(name) && len(made) <= MaxErrors {
			made = append(made, corev1.Container{Name: name, Image: "a"})
		}
	}
	return made
}

// unusedPort returns a number of a port that a spec hardly states.
func unusedPort(i int) int32 { return math.MaxUint16 - int32(i%MaxErrors) } //nolint:gosec // The remainder is small.
