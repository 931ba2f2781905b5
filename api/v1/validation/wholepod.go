package validation

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"

	appv1 "huolala.cn/app-operator/api/v1"
)

// WholePod checks a built pod template for what the kubelet refuses and the API server accepts: actions and probes on the name of a port that
// the container does not declare, and root as the user of a container that must not run as root. The parts of such a fault are in different
// fields of the spec, or in podTemplatePatch. main is the name of the main container.
func WholePod(spec *appv1.WorkloadSpec, template *corev1.PodTemplateSpec, main string, path *field.Path) field.ErrorList {
	f := finder{spec: spec, main: main, path: path}
	var errs field.ErrorList
	for _, part := range []struct {
		field string
		list  []corev1.Container
	}{{"initContainers", template.Spec.InitContainers}, {"containers", template.Spec.Containers}} {
		for i := range part.list {
			if full(errs) {
				break
			}
			c := &part.list[i]
			patch := containerPlace(keyIn(path.Child("podTemplatePatch", "spec", part.field), c.Name))
			errs = append(errs, f.namedPorts(c, patch)...)
			errs = append(errs, f.root(c, patch, template.Spec.SecurityContext)...)
		}
	}
	return collected(errs)
}

// finder finds the field of a workload's spec that states a part of the built pod.
type finder struct {
	spec *appv1.WorkloadSpec
	main string
	path *field.Path
}

// stated returns the container as the spec states it apart from the patch, with its paths; nil for a container of the patch alone.
func (f finder) stated(name string) (*corev1.Container, place) {
	if name == f.main {
		probes := &f.spec.Probes
		return &corev1.Container{
			LivenessProbe: probes.Liveness, ReadinessProbe: probes.Readiness, StartupProbe: probes.Startup,
			Lifecycle: f.spec.Lifecycle, SecurityContext: f.spec.SecurityContext,
		}, mainPlace(f.path)
	}
	for _, part := range []struct {
		field string
		list  []corev1.Container
	}{{"containers", f.spec.Containers}, {"initContainers", f.spec.InitContainers}} {
		for i := range part.list {
			if part.list[i].Name == name {
				return &part.list[i], containerPlace(f.path.Child(part.field).Index(i))
			}
		}
	}
	return nil, place{}
}

// portReference is a port that a probe or an action of a container names, with its field.
type portReference struct {
	port intstr.IntOrString
	at   *field.Path
}

// namedPorts returns an error for each name of a port that the container does not declare. The kubelet looks for the name in that container
// alone. patch has the paths of the container in the patch.
func (f finder) namedPorts(c *corev1.Container, patch place) field.ErrorList {
	declared := map[string]bool{}
	for i := range c.Ports {
		declared[c.Ports[i].Name] = true
	}
	stated, at := f.stated(c.Name)
	var errs field.ErrorList
	for _, r := range portReferences(c, stated, at, patch) {
		if r.port.Type != intstr.String || r.port.StrVal == "" || declared[r.port.StrVal] {
			continue
		}
		names := strings.Join(slices.Sorted(maps.Keys(declared)), " ")
		if names = strings.TrimSpace(names); names == "" {
			names = messageNoNamedPorts
		}
		errs = append(errs, field.Invalid(r.at, r.port.StrVal, fmt.Sprintf(messagePortNameNotDeclared, cut(names, maxValue))))
	}
	return errs
}

// portReferences returns the ports that the probes and actions of a container name. A field that the spec does not state is the patch's.
func portReferences(c, stated *corev1.Container, own, patch place) []portReference {
	var refs []portReference
	handler := func(http *corev1.HTTPGetAction, tcp *corev1.TCPSocketAction, at *field.Path) {
		if http != nil {
			refs = append(refs, portReference{http.Port, at.Child("httpGet", "port")})
		}
		if tcp != nil {
			refs = append(refs, portReference{tcp.Port, at.Child("tcpSocket", "port")})
		}
	}
	if stated == nil {
		stated = &corev1.Container{}
	}
	for _, probe := range []struct {
		built, stated *corev1.Probe
		own, patch    *field.Path
	}{
		{c.LivenessProbe, stated.LivenessProbe, own.liveness, patch.liveness},
		{c.ReadinessProbe, stated.ReadinessProbe, own.readiness, patch.readiness},
		{c.StartupProbe, stated.StartupProbe, own.startup, patch.startup},
	} {
		at := probe.own
		if probe.stated == nil {
			at = probe.patch
		}
		if probe.built != nil {
			handler(probe.built.HTTPGet, probe.built.TCPSocket, at)
		}
	}
	if c.Lifecycle == nil {
		return refs
	}
	self := own.self
	if stated.Lifecycle == nil {
		self = patch.self
	}
	if h := c.Lifecycle.PostStart; h != nil {
		handler(h.HTTPGet, h.TCPSocket, self.Child("lifecycle", "postStart"))
	}
	if h := c.Lifecycle.PreStop; h != nil {
		handler(h.HTTPGet, h.TCPSocket, self.Child("lifecycle", "preStop"))
	}
	return refs
}

// root returns an error for a container that runs as root and must not. A container's own fields take precedence over the fields of the pod.
func (f finder) root(c *corev1.Container, patch place, pod *corev1.PodSecurityContext) field.ErrorList {
	var user *int64
	var nonRoot *bool
	if pod != nil {
		user, nonRoot = pod.RunAsUser, pod.RunAsNonRoot
	}
	own := c.SecurityContext != nil && c.SecurityContext.RunAsUser != nil
	if own {
		user = c.SecurityContext.RunAsUser
	}
	if c.SecurityContext != nil && c.SecurityContext.RunAsNonRoot != nil {
		nonRoot = c.SecurityContext.RunAsNonRoot
	}
	if !ptr.Deref(nonRoot, false) || ptr.Deref(user, 1) != 0 {
		return nil
	}
	return field.ErrorList{field.Invalid(f.userPath(c.Name, patch, own), 0, fmt.Sprintf(messageRootExcludesNonRoot, c.Name))}
}

// userPath returns the field that states the user of a container: the container's own, or the pod's.
func (f finder) userPath(name string, patch place, own bool) *field.Path {
	switch stated, at := f.stated(name); {
	case own && stated != nil && stated.SecurityContext != nil && stated.SecurityContext.RunAsUser != nil:
		return at.self.Child("securityContext", "runAsUser")
	case own:
		return patch.self.Child("securityContext", "runAsUser")
	}
	if pod := f.spec.PodSecurityContext; pod != nil && pod.RunAsUser != nil {
		return f.path.Child("podSecurityContext", "runAsUser")
	}
	return f.path.Child("podTemplatePatch", "spec", "securityContext", "runAsUser")
}

// reservedNames checks that the objects of a resource do not have the names of objects that Kubernetes itself creates and keeps.
func reservedNames(name, namespace string, spec *appv1.ServingSpec, workload *appv1.WorkloadSpec, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	if name == "default" && spec.ServiceAccount != nil {
		errs = append(errs, field.Invalid(path.Child("serviceAccount"), name, messageServiceAccountReserved))
	}
	if service := workload.ServiceName(name); service == "kubernetes" && namespace == "default" && len(workload.Ports) > 0 {
		errs = append(errs, field.Invalid(path.Child("service", "name"), service, messageServiceReserved))
	}
	return errs
}

// nul reports whether a text has a character that no argument, variable or path of a process can have.
func nul(text string) bool { return strings.Contains(text, "\x00") }

// withoutNUL checks texts that a process gets: variables, arguments and paths. The error repeats none.
func withoutNUL(at *field.Path, text string) field.ErrorList {
	if !nul(text) {
		return nil
	}
	return field.ErrorList{field.Invalid(at, field.OmitValueType{}, messageNoNUL)}
}

// eachWithoutNUL is withoutNUL for a list.
func eachWithoutNUL(at *field.Path, texts []string) field.ErrorList {
	var errs field.ErrorList
	for i, text := range texts {
		if full(errs) {
			break
		}
		errs = append(errs, withoutNUL(at.Index(i), text)...)
	}
	return errs
}

// texts checks the texts of a container that its process gets, except for probes and actions.
func texts(c *corev1.Container, at place) field.ErrorList {
	errs := slices.Concat(eachWithoutNUL(at.self.Child("command"), c.Command), eachWithoutNUL(at.self.Child("args"), c.Args),
		withoutNUL(at.self.Child("workingDir"), c.WorkingDir), withoutNUL(at.self.Child("terminationMessagePath"), c.TerminationMessagePath))
	for i := range c.Env {
		if full(errs) {
			break
		}
		errs = append(errs, withoutNUL(at.env.Index(i).Child("value"), c.Env[i].Value)...)
	}
	for i := range c.VolumeMounts {
		if full(errs) {
			break
		}
		m, at := &c.VolumeMounts[i], at.self.Child("volumeMounts").Index(i)
		errs = slices.Concat(errs, withoutNUL(at.Child("mountPath"), m.MountPath), withoutNUL(at.Child("subPath"), m.SubPath),
			withoutNUL(at.Child("subPathExpr"), m.SubPathExpr))
	}
	for i := range c.VolumeDevices {
		if full(errs) {
			break
		}
		errs = append(errs, withoutNUL(at.self.Child("volumeDevices").Index(i).Child("devicePath"), c.VolumeDevices[i].DevicePath)...)
	}
	return errs
}
