package validation

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"
)

// PodTemplate returns the errors that a patch causes in a pod template. It omits errors from before the patch, which are reported
// for their own fields. claimed are the volumes from a StatefulSet's claims. Paths name an item of a list by its name, as the
// item has no index in the patch.
func PodTemplate(before, after *corev1.PodTemplateSpec, claimed []string, path *field.Path) field.ErrorList {
	at := path.Child("metadata")
	stated := func(t *corev1.PodTemplateSpec) (*pod, field.ErrorList) {
		p := patched(t, &after.Spec, claimed, path)
		return p, collected(append(p.stated(), p.annotations(t.Annotations, at.Child("annotations"))...))
	}
	p, errs := stated(after)
	if len(errs) > 0 {
		was := sets.Set[string]{}
		_, faults := stated(before)
		for _, err := range faults {
			was.Insert(err.Error())
		}
		errs = slices.DeleteFunc(errs, func(err *field.Error) bool { return was.Has(err.Error()) })
	}
	errs = append(errs, p.onlyPatched(cmp.Or(before.Spec.RestartPolicy, corev1.RestartPolicyAlways))...)
	errs = append(errs, p.host()...)
	errs = append(errs, p.hostname()...)
	errs = append(errs, p.whole()...)
	errs = append(errs, p.keys()...)
	errs = append(errs, labelMap(after.Labels, at.Child("labels"))...)
	return collected(append(errs, annotationMap(after.Annotations, at.Child("annotations"))...))
}

// patched returns the pod of a template. Around it are the volumes, the system and all else that its parts may refer to.
func patched(t *corev1.PodTemplateSpec, around *corev1.PodSpec, claimed []string, path *field.Path) *pod {
	at := path.Child("spec")
	spec := t.Spec.DeepCopy()
	spec.OS, spec.HostUsers, spec.HostNetwork, spec.ResourceClaims = around.OS, around.HostUsers, around.HostNetwork, around.ResourceClaims
	spec.TerminationGracePeriodSeconds = around.TerminationGracePeriodSeconds
	p := &pod{
		spec: spec,
		at: layout{
			spec: at, security: at.Child("securityContext"),
			containers: namedPlaces(spec.Containers, at.Child("containers")), init: namedPlaces(spec.InitContainers, at.Child("initContainers")),
		},
		volumes: map[string]corev1.VolumeSource{},
		names:   sets.New(spec.Containers[0].Name),
	}
	p.know(around.Volumes)
	for _, name := range claimed {
		p.volumes[name] = corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{}}
	}
	return p
}

// stated checks what a spec states as well as a patch.
func (p *pod) stated() field.ErrorList {
	errs := p.check()
	errs = append(errs, required(p.at.containers[0].self.Child("image"), p.spec.Containers[0].Image)...)
	return append(errs, spread(p.spec.TopologySpreadConstraints, false, p.at.spec.Child("topologySpreadConstraints"))...)
}

// namedPlaces are the places of containers by their names.
func namedPlaces(list []corev1.Container, at *field.Path) []place {
	places := make([]place, len(list))
	for i := range list {
		places[i] = containerPlace(keyIn(at, list[i].Name))
	}
	return places
}

// onlyPatched checks the fields of a pod that nothing but a patch states. A StatefulSet sets hostname and subdomain of its pods
// itself, and its API takes anything for them; they are checked all the same. restarts is the only restart policy.
func (p *pod) onlyPatched(restarts corev1.RestartPolicy) field.ErrorList {
	spec, at := p.spec, p.at.spec
	errs := oneOf(at.Child("restartPolicy"), spec.RestartPolicy, "", restarts)
	if spec.ActiveDeadlineSeconds != nil {
		message := messageActiveDeadlineOnlyForJobs
		if restarts == corev1.RestartPolicyNever {
			message = messageActiveDeadlineOfRuns
		}
		errs = append(errs, field.Forbidden(at.Child("activeDeadlineSeconds"), message))
	}
	if len(spec.EphemeralContainers) > 0 {
		errs = append(errs, field.Forbidden(at.Child("ephemeralContainers"), messageNoEphemeralContainers))
	}
	if spec.Hostname != "" {
		errs = append(errs, faults(at.Child("hostname"), spec.Hostname, validation.IsDNS1123Label(spec.Hostname))...)
	}
	if spec.Subdomain != "" {
		errs = append(errs, faults(at.Child("subdomain"), spec.Subdomain, validation.IsDNS1123Label(spec.Subdomain))...)
	}
	if spec.NodeName != "" {
		errs = append(errs, subdomain(spec.NodeName, at.Child("nodeName"))...)
	}
	errs = append(errs, optional(at.Child("preemptionPolicy"), spec.PreemptionPolicy, corev1.PreemptLowerPriority, corev1.PreemptNever)...)
	errs = append(errs, Resources(&corev1.ResourceRequirements{Limits: spec.Overhead}, at.Child("overhead"))...)
	errs = append(errs, gates(spec, at)...)
	errs = append(errs, resourceClaims(spec.ResourceClaims, at.Child("resourceClaims"))...)
	if spec.OS != nil {
		errs = append(errs, oneOf(at.Child("os", "name"), spec.OS.Name, corev1.Linux, corev1.Windows)...)
	}
	return errs
}

// host checks what of the node's own a pod shares.
func (p *pod) host() field.ErrorList {
	spec, at := p.spec, p.at.spec
	var errs field.ErrorList
	shared := []struct {
		name string
		set  bool
	}{{"hostNetwork", spec.HostNetwork}, {"hostPID", spec.HostPID}, {"hostIPC", spec.HostIPC}}
	for _, f := range shared {
		if f.set && !ptr.Deref(spec.HostUsers, true) {
			errs = append(errs, field.Forbidden(at.Child(f.name), messageHostNamespaceNeedsHostUsers))
		}
	}
	if ptr.Deref(spec.ShareProcessNamespace, false) && spec.HostPID {
		errs = append(errs, field.Forbidden(at.Child("shareProcessNamespace"), messageSharedProcessesExcludeHostPID))
	}
	if spec.OS == nil || spec.OS.Name != corev1.Windows {
		return errs
	}
	for _, f := range append(shared[1:], []struct {
		name string
		set  bool
	}{{"hostUsers", spec.HostUsers != nil}, {"shareProcessNamespace", spec.ShareProcessNamespace != nil}}...) {
		if f.set {
			errs = append(errs, field.Forbidden(at.Child(f.name), fmt.Sprintf(messageNotAvailableOnSystem, corev1.Windows)))
		}
	}
	return errs
}

// hostname checks the name that takes the place of the pod's own.
func (p *pod) hostname() field.ErrorList {
	const longest = 64
	if p.spec.HostnameOverride == nil {
		return nil
	}
	name, at := *p.spec.HostnameOverride, p.at.spec.Child("hostnameOverride")
	errs := faults(at, name, validation.IsDNS1123Subdomain(name))
	if len(name) > longest {
		errs = append(errs, field.TooLong(at, name, longest))
	}
	if ptr.Deref(p.spec.SetHostnameAsFQDN, false) || p.spec.HostNetwork {
		errs = append(errs, field.Forbidden(at, messageHostnameOverrideUnavailable))
	}
	return errs
}

// whole checks the resources of a pod as a whole: no container may have more.
func (p *pod) whole() field.ErrorList {
	r, at := p.spec.Resources, p.at.spec.Child("resources")
	if r == nil {
		return nil
	}
	if p.spec.OS != nil && p.spec.OS.Name == corev1.Windows {
		return field.ErrorList{field.Forbidden(at, fmt.Sprintf(messageNotAvailableOnSystem, corev1.Windows))}
	}
	errs := requirements(r, at, podResource)
	if len(r.Claims) > 0 {
		errs = append(errs, field.Forbidden(at.Child("claims"), messageNoClaimsAtPodLevel))
	}
	for _, name := range slices.Sorted(maps.Keys(r.Requests)) {
		if full(errs) {
			break
		}
		errs = append(errs, p.room(name, requests, r.Requests[name], keyIn(at.Child("requests"), name))...)
	}
	for _, name := range slices.Sorted(maps.Keys(r.Limits)) {
		if hugePages(name) {
			errs = append(errs, p.room(name, limits, r.Limits[name], keyIn(at.Child("limits"), name))...)
		}
	}
	for i := range p.spec.Containers {
		if full(errs) {
			break
		}
		own := p.spec.Containers[i].Resources.Limits
		for _, name := range slices.Sorted(maps.Keys(own)) {
			limit := own[name]
			if most, limited := r.Limits[name]; limited && limit.Cmp(most) > 0 {
				errs = append(errs, field.Invalid(keyIn(p.at.containers[i].self.Child("resources", "limits"), name),
					limit.String(), fmt.Sprintf(messageLimitMustNotExceedPod, most.String())))
			}
		}
	}
	return errs
}

func requests(c *corev1.Container) corev1.ResourceList { return c.Resources.Requests }

func limits(c *corev1.Container) corev1.ResourceList { return c.Resources.Limits }

// room checks that a pod as a whole has as much of a resource as its containers ask for.
func (p *pod) room(name corev1.ResourceName, of func(*corev1.Container) corev1.ResourceList, have resource.Quantity, at *field.Path) field.ErrorList {
	if need := p.need(name, of); need.Cmp(have) > 0 {
		return field.ErrorList{field.Invalid(at, have.String(), fmt.Sprintf(messagePodMustHaveSumOfContainers, need.String()))}
	}
	return nil
}

// need returns the amount of a resource that the containers request together: the sum of all containers that run at once, or the
// maximum of the init containers if greater.
func (p *pod) need(name corev1.ResourceName, of func(*corev1.Container) corev1.ResourceList) resource.Quantity {
	var running, most resource.Quantity
	for i := range p.spec.InitContainers {
		c := &p.spec.InitContainers[i]
		now := of(c)[name]
		now.Add(running)
		if ptr.Deref(c.RestartPolicy, "") == corev1.ContainerRestartPolicyAlways {
			running = now
		}
		if now.Cmp(most) > 0 {
			most = now
		}
	}
	for i := range p.spec.Containers {
		running.Add(of(&p.spec.Containers[i])[name])
	}
	if running.Cmp(most) > 0 {
		return running
	}
	return most
}

// keys checks that the items of lists can be told apart.
func (p *pod) keys() field.ErrorList {
	errs := unique(p.spec.ImagePullSecrets, p.at.spec.Child("imagePullSecrets"), func(r corev1.LocalObjectReference) string { return r.Name })
	errs = append(errs, unique(p.spec.HostAliases, p.at.spec.Child("hostAliases"), func(a corev1.HostAlias) string { return a.IP })...)
	p.each(func(c *corev1.Container, at place) {
		if full(errs) {
			return
		}
		errs = append(errs, unique(c.Env, at.env, func(v corev1.EnvVar) string { return v.Name })...)
		type port struct {
			number   int32
			protocol corev1.Protocol
		}
		errs = append(errs, unique(c.Ports, at.self.Child("ports"), func(p corev1.ContainerPort) port {
			if p.Protocol == "" {
				p.Protocol = corev1.ProtocolTCP
			}
			return port{p.ContainerPort, p.Protocol}
		})...)
	})
	return errs
}
