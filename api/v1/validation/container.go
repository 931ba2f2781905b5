package validation

import (
	"maps"
	"path"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"
)

// place holds the paths of a container's fields: in a spec, the fields of the main container have their own names.
type place struct {
	self, env, envFrom, liveness, readiness, startup *field.Path
}

// mainPlace is where a workload's spec states its main container.
func mainPlace(spec *field.Path) place {
	probes := spec.Child("probes")
	return place{
		self: spec, env: spec.Child("envs"), envFrom: spec.Child("envFrom"),
		liveness: probes.Child("liveness"), readiness: probes.Child("readiness"), startup: probes.Child("startup"),
	}
}

// containerPlace is where a container is stated as Kubernetes has it.
func containerPlace(at *field.Path) place {
	return place{
		self: at, env: at.Child("env"), envFrom: at.Child("envFrom"),
		liveness: at.Child("livenessProbe"), readiness: at.Child("readinessProbe"), startup: at.Child("startupProbe"),
	}
}

// container checks what any container of a pod may state.
func (p *pod) container(c *corev1.Container, at place) field.ErrorList {
	errs := Resources(&c.Resources, at.self.Child("resources"))
	errs = append(errs, p.claims(c.Resources.Claims, at.self.Child("resources", "claims"))...)
	errs = append(errs, envs(c.Env, at.env)...)
	errs = append(errs, texts(c, at)...)
	errs = append(errs, envFrom(c.EnvFrom, at.envFrom)...)
	errs = append(errs, p.files(c.Env, at.env)...)
	errs = append(errs, containerPorts(c.Ports, at.self.Child("ports"))...)
	errs = append(errs, p.mounts(c, at.self.Child("volumeMounts"))...)
	errs = append(errs, p.devices(c, at.self.Child("volumeDevices"))...)
	errs = append(errs, resizes(c.ResizePolicy, at.self.Child("resizePolicy"))...)
	errs = append(errs, restarts(c, at.self)...)
	errs = append(errs, oneOf(at.self.Child("terminationMessagePolicy"), c.TerminationMessagePolicy, "",
		corev1.TerminationMessageReadFile, corev1.TerminationMessageFallbackToLogsOnError)...)
	errs = append(errs, oneOf(at.self.Child("imagePullPolicy"), c.ImagePullPolicy, "", corev1.PullAlways, corev1.PullIfNotPresent, corev1.PullNever)...)
	return append(errs, p.containerSecurity(c.SecurityContext, at.self.Child("securityContext"))...)
}

// named checks a container's name, which must be none of those before it, and its image.
func (p *pod) named(c *corev1.Container, at *field.Path) field.ErrorList {
	errs := faults(at.Child("name"), c.Name, validation.IsDNS1123Label(c.Name))
	if p.names.Has(c.Name) {
		errs = append(errs, field.Invalid(at.Child("name"), c.Name, messageContainerMustBeUnique))
	}
	p.names.Insert(c.Name)
	switch {
	case c.Image == "":
		errs = append(errs, field.Required(at.Child("image"), messageImageRequired))
	case strings.TrimSpace(c.Image) != c.Image:
		// A Deployment may have it, and each of its pods is refused.
		errs = append(errs, field.Invalid(at.Child("image"), c.Image, messageNoOuterWhiteSpace))
	}
	return errs
}

// running checks what only a container may state that runs as long as the pod: probes and actions.
func (p *pod) running(c *corev1.Container, at place) field.ErrorList {
	errs := p.lifecycle(c.Lifecycle, at.self.Child("lifecycle"))
	errs = append(errs, p.probe(c.LivenessProbe, once, at.liveness)...)
	errs = append(errs, p.probe(c.ReadinessProbe, repeated, at.readiness)...)
	return append(errs, p.probe(c.StartupProbe, once, at.startup)...)
}

// isSidecar reports whether an init container keeps running next to the main one.
func isSidecar(c *corev1.Container) bool {
	return ptr.Deref(c.RestartPolicy, "") == corev1.ContainerRestartPolicyAlways
}

// initial checks a container that ends before the main one starts, unless it is a sidecar.
func (p *pod) initial(c *corev1.Container, at place) field.ErrorList {
	errs := p.named(c, at.self)
	errs = append(errs, p.container(c, at)...)
	errs = append(errs, p.hostPorts([]corev1.Container{*c}, []place{at})...)
	if isSidecar(c) {
		return append(errs, p.running(c, at)...)
	}
	for _, f := range []struct {
		set bool
		at  *field.Path
	}{
		{c.Lifecycle != nil, at.self.Child("lifecycle")}, {c.LivenessProbe != nil, at.liveness},
		{c.ReadinessProbe != nil, at.readiness}, {c.StartupProbe != nil, at.startup},
	} {
		if f.set {
			errs = append(errs, field.Forbidden(f.at, messageOnlyForRunningContainers))
		}
	}
	for i, policy := range c.ResizePolicy {
		if full(errs) {
			break
		}
		if policy.RestartPolicy == corev1.RestartContainer {
			errs = append(errs, field.Invalid(at.self.Child("resizePolicy").Index(i).Child("restartPolicy"), string(policy.RestartPolicy),
				messageInitContainerResizeRestarts))
		}
	}
	return errs
}

// containerPorts checks the ports that a container declares.
func containerPorts(ports []corev1.ContainerPort, at *field.Path) field.ErrorList {
	var errs field.ErrorList
	names := sets.Set[string]{}
	for i, p := range ports {
		if full(errs) {
			break
		}
		at := at.Index(i)
		if p.Name != "" {
			errs = append(errs, faults(at.Child("name"), p.Name, validation.IsValidPortName(p.Name))...)
			if names.Has(p.Name) {
				errs = append(errs, field.Duplicate(at.Child("name"), p.Name))
			}
			names.Insert(p.Name)
		}
		errs = append(errs, faults(at.Child("containerPort"), p.ContainerPort, validation.IsValidPortNum(int(p.ContainerPort)))...)
		if p.HostPort != 0 {
			errs = append(errs, faults(at.Child("hostPort"), p.HostPort, validation.IsValidPortNum(int(p.HostPort)))...)
		}
		errs = append(errs, oneOf(at.Child("protocol"), p.Protocol, "", corev1.ProtocolTCP, corev1.ProtocolUDP, corev1.ProtocolSCTP)...)
	}
	return errs
}

// volume checks that a volume of the pod has the name.
func (p *pod) volume(name string, at *field.Path) field.ErrorList {
	if _, known := p.volumes[name]; known || p.inherits {
		return nil
	}
	return field.ErrorList{field.Invalid(at, name, messageVolumeMustExist)}
}

// mounts checks where a container sees volumes.
func (p *pod) mounts(c *corev1.Container, at *field.Path) field.ErrorList {
	var errs field.ErrorList
	paths := sets.Set[string]{}
	for i := range c.VolumeMounts {
		if full(errs) {
			break
		}
		m, at := &c.VolumeMounts[i], at.Index(i)
		errs = append(errs, p.volume(m.Name, at.Child("name"))...)
		switch {
		case m.MountPath == "":
			errs = append(errs, field.Required(at.Child("mountPath"), messageMountPathRequired))
		case paths.Has(m.MountPath):
			errs = append(errs, field.Duplicate(at.Child("mountPath"), m.MountPath))
		}
		paths.Insert(m.MountPath)
		errs = append(errs, descends(m.SubPath, at.Child("subPath"))...)
		errs = append(errs, descends(m.SubPathExpr, at.Child("subPathExpr"))...)
		if m.SubPath != "" && m.SubPathExpr != "" {
			errs = append(errs, field.Forbidden(at.Child("subPathExpr"), messageSubPathExcludesSubPathExpr))
		}
		errs = append(errs, propagation(m, c.SecurityContext, at)...)
	}
	return errs
}

// propagation checks how far mounts within a volume reach, and whether they can be written.
func propagation(m *corev1.VolumeMount, security *corev1.SecurityContext, at *field.Path) field.ErrorList {
	errs := optional(at.Child("mountPropagation"), m.MountPropagation,
		corev1.MountPropagationNone, corev1.MountPropagationHostToContainer, corev1.MountPropagationBidirectional)
	privileged := security != nil && ptr.Deref(security.Privileged, false)
	if ptr.Deref(m.MountPropagation, "") == corev1.MountPropagationBidirectional && !privileged {
		errs = append(errs, field.Forbidden(at.Child("mountPropagation"), messageBidirectionalNeedsPrivileged))
	}
	if m.RecursiveReadOnly == nil {
		return errs
	}
	at = at.Child("recursiveReadOnly")
	errs = append(errs, oneOf(at, *m.RecursiveReadOnly, corev1.RecursiveReadOnlyDisabled, corev1.RecursiveReadOnlyIfPossible, corev1.RecursiveReadOnlyEnabled)...)
	if *m.RecursiveReadOnly == corev1.RecursiveReadOnlyDisabled {
		return errs
	}
	if !m.ReadOnly {
		errs = append(errs, field.Forbidden(at, messageRecursiveReadOnlyNeedsReadOnly))
	}
	if ptr.Deref(m.MountPropagation, corev1.MountPropagationNone) != corev1.MountPropagationNone {
		errs = append(errs, field.Forbidden(at, messageRecursiveReadOnlyExcludesPropagation))
	}
	return errs
}

// devices checks which volumes a container has as they are, without a file system.
func (p *pod) devices(c *corev1.Container, at *field.Path) field.ErrorList {
	var errs field.ErrorList
	if len(c.VolumeDevices) > 0 && p.spec.HostUsers != nil && !*p.spec.HostUsers {
		errs = append(errs, field.Forbidden(at, messageDevicesNeedHostUsers))
	}
	names, paths := sets.Set[string]{}, sets.Set[string]{}
	// Of several mounts of one volume the API server knows the path of the last alone.
	mounted := map[string]string{}
	for i := range c.VolumeMounts {
		mounted[c.VolumeMounts[i].Name] = c.VolumeMounts[i].MountPath
	}
	mountPaths := sets.New(slices.Collect(maps.Values(mounted))...)
	for i, d := range c.VolumeDevices {
		if full(errs) {
			break
		}
		at := at.Index(i)
		errs = append(errs, p.volume(d.Name, at.Child("name"))...)
		source, known := p.volumes[d.Name]
		if known && source.PersistentVolumeClaim == nil && source.Ephemeral == nil {
			errs = append(errs, field.Invalid(at.Child("name"), d.Name, messageDeviceMustBeClaim))
		}
		if _, both := mounted[d.Name]; both || names.Has(d.Name) {
			errs = append(errs, field.Duplicate(at.Child("name"), d.Name))
		}
		names.Insert(d.Name)
		switch {
		case d.DevicePath == "":
			errs = append(errs, field.Required(at.Child("devicePath"), messageDevicePathRequired))
		case backsteps(d.DevicePath):
			errs = append(errs, field.Invalid(at.Child("devicePath"), d.DevicePath, messagePathMustNotContainDotDot))
		case paths.Has(d.DevicePath):
			errs = append(errs, field.Duplicate(at.Child("devicePath"), d.DevicePath))
		}
		if mountPaths.Has(d.DevicePath) {
			errs = append(errs, field.Invalid(at.Child("devicePath"), d.DevicePath, messageDevicePathMustNotBeMountPath))
		}
		paths.Insert(d.DevicePath)
	}
	return errs
}

// resizes checks what a container does when its resources change.
func resizes(list []corev1.ContainerResizePolicy, at *field.Path) field.ErrorList {
	var errs field.ErrorList
	taken := sets.Set[corev1.ResourceName]{}
	for i, p := range list {
		if full(errs) {
			break
		}
		at := at.Index(i)
		errs = append(errs, oneOf(at.Child("resourceName"), p.ResourceName, corev1.ResourceCPU, corev1.ResourceMemory)...)
		errs = append(errs, oneOf(at.Child("restartPolicy"), p.RestartPolicy, corev1.NotRequired, corev1.RestartContainer)...)
		if taken.Has(p.ResourceName) {
			errs = append(errs, field.Duplicate(at.Child("resourceName"), p.ResourceName))
		}
		taken.Insert(p.ResourceName)
	}
	return errs
}

// restarts checks when a container that has ended is started again.
func restarts(c *corev1.Container, at *field.Path) field.ErrorList {
	const mostRules, mostCodes = 20, 255
	errs := optional(at.Child("restartPolicy"), c.RestartPolicy,
		corev1.ContainerRestartPolicyAlways, corev1.ContainerRestartPolicyNever, corev1.ContainerRestartPolicyOnFailure)
	rules := at.Child("restartPolicyRules")
	if len(c.RestartPolicyRules) > 0 && c.RestartPolicy == nil {
		errs = append(errs, field.Required(at.Child("restartPolicy"), messageRestartRulesNeedPolicy))
	}
	if n := len(c.RestartPolicyRules); n > mostRules {
		errs = append(errs, field.TooMany(rules, n, mostRules))
	}
	for i, rule := range c.RestartPolicyRules {
		if full(errs) {
			break
		}
		at := rules.Index(i)
		errs = append(errs, oneOf(at.Child("action"), rule.Action, corev1.ContainerRestartRuleActionRestart, corev1.ContainerRestartRuleActionRestartAllContainers)...)
		if rule.ExitCodes == nil {
			errs = append(errs, field.Required(at.Child("exitCodes"), messageExitCodesRequired))
			continue
		}
		errs = append(errs, oneOf(at.Child("exitCodes", "operator"), rule.ExitCodes.Operator,
			corev1.ContainerRestartRuleOnExitCodesOpIn, corev1.ContainerRestartRuleOnExitCodesOpNotIn)...)
		if n := len(rule.ExitCodes.Values); n > mostCodes {
			errs = append(errs, field.TooMany(at.Child("exitCodes", "values"), n, mostCodes))
		}
	}
	return errs
}

// claims checks that a container uses resource claims that the pod has, each once.
func (p *pod) claims(list []corev1.ResourceClaim, at *field.Path) field.ErrorList {
	errs := unique(list, at, func(c corev1.ResourceClaim) string { return c.Name })
	claimed := sets.Set[string]{}
	if len(list) > 0 {
		for i := range p.spec.ResourceClaims {
			claimed.Insert(p.spec.ResourceClaims[i].Name)
		}
	}
	for i, c := range list {
		if full(errs) {
			break
		}
		at := at.Index(i)
		if c.Request != "" {
			errs = append(errs, faults(at.Child("request"), c.Request, validation.IsDNS1123Label(c.Request))...)
		}
		if c.Name == "" || !claimed.Has(c.Name) {
			errs = append(errs, field.Invalid(at.Child("name"), c.Name, messageResourceClaimMustExist))
		}
	}
	return errs
}

// descends checks that a path does not leave the folder that it is in.
func descends(name string, at *field.Path) field.ErrorList {
	switch {
	case path.IsAbs(name):
		return field.ErrorList{field.Invalid(at, name, messagePathMustBeRelative)}
	case backsteps(name):
		return field.ErrorList{field.Invalid(at, name, messagePathMustNotContainDotDot)}
	}
	return nil
}

// filename checks the path of a file in a volume. The kubelet reserves names that begin with '..'.
func filename(name string, at *field.Path) field.ErrorList {
	if errs := descends(name, at); len(errs) > 0 {
		return errs
	}
	if strings.HasPrefix(name, "..") {
		return field.ErrorList{field.Invalid(at, name, messageFileMustNotBeginWithDotDot)}
	}
	return nil
}

func backsteps(name string) bool { return slices.Contains(strings.Split(name, "/"), "..") }

// subdomain checks the name of an object that is referred to.
func subdomain(name string, at *field.Path) field.ErrorList {
	return faults(at, name, apivalidation.NameIsDNSSubdomain(name, false))
}

// faults returns an error for each of the messages about a value.
func faults[T any](at *field.Path, value T, messages []string) field.ErrorList {
	var errs field.ErrorList
	for _, message := range messages {
		errs = append(errs, field.Invalid(at, value, message))
	}
	return errs
}

// oneOf checks that a value is allowed. An empty allowed value represents an omitted field.
func oneOf[T ~string](at *field.Path, value T, allowed ...T) field.ErrorList {
	if slices.Contains(allowed, value) {
		return nil
	}
	return field.ErrorList{field.NotSupported(at, value, slices.DeleteFunc(slices.Clone(allowed), func(v T) bool { return v == "" }))}
}

// optional is oneOf for a field that may be left out, and not be empty.
func optional[T ~string](at *field.Path, value *T, allowed ...T) field.ErrorList {
	if value == nil {
		return nil
	}
	return oneOf(at, *value, allowed...)
}
