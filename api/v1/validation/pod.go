package validation

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	appv1 "huolala.cn/app-operator/api/v1"
	"huolala.cn/app-operator/api/v1/bounds"
)

// pod is a pod under validation.
type pod struct {
	// spec is the validated spec. It also holds fields outside of the paths of at, for rules that refer to them.
	spec *corev1.PodSpec
	// at holds the paths of the fields.
	at layout
	// volumes are the volumes available for mounts, by name.
	volumes map[string]corev1.VolumeSource
	// inherits is true if there are further volumes, which are not known here.
	inherits bool
	// names are the names of the containers already checked.
	names sets.Set[string]
}

// layout holds the paths of a pod's fields.
type layout struct {
	// spec is the default path of a field; security is the path of the pod's security context.
	spec, security *field.Path
	// containers and init are the paths of each container.
	containers, init []place
}

// podOf returns the pod of a workload's spec, with the stated fields only.
func podOf(spec *appv1.WorkloadSpec, f kindDefaults, path *field.Path) *pod {
	main := corev1.Container{
		Name: f.container, Image: spec.Image, ImagePullPolicy: spec.ImagePullPolicy, Command: spec.Command, Args: spec.Args,
		Env: spec.Envs, EnvFrom: spec.EnvFrom, Resources: spec.Resources, VolumeMounts: spec.VolumeMounts,
		LivenessProbe: spec.Probes.Liveness, ReadinessProbe: spec.Probes.Readiness, StartupProbe: spec.Probes.Startup,
		Lifecycle: spec.Lifecycle, SecurityContext: spec.SecurityContext,
	}
	patched := patchedSpec(spec)
	p := &pod{
		spec: &corev1.PodSpec{
			InitContainers: spec.InitContainers, Containers: append([]corev1.Container{main}, spec.Containers...),
			Volumes: spec.Volumes, ServiceAccountName: spec.ServiceAccountName, SecurityContext: spec.PodSecurityContext,
			NodeSelector: spec.NodeSelector, Tolerations: spec.Tolerations, Affinity: spec.Affinity,
			TopologySpreadConstraints: spec.TopologySpreadConstraints, PriorityClassName: spec.PriorityClassName,
			RuntimeClassName: spec.RuntimeClassName, DNSPolicy: spec.DNSPolicy, DNSConfig: spec.DNSConfig, HostAliases: spec.HostAliases,
			TerminationGracePeriodSeconds: spec.TerminationGracePeriodSeconds,
			OS:                            patched.OS, HostUsers: patched.HostUsers, HostNetwork: patched.HostNetwork,
			ResourceClaims: patched.ResourceClaims,
		},
		at:       layout{spec: path, security: path.Child("podSecurityContext")},
		volumes:  map[string]corev1.VolumeSource{},
		inherits: f.inherits,
		names:    sets.New(f.container),
	}
	if patched.TerminationGracePeriodSeconds != nil {
		p.spec.TerminationGracePeriodSeconds = patched.TerminationGracePeriodSeconds
	}
	for _, name := range f.volumes {
		p.volumes[name] = corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{}}
	}
	p.know(patched.Volumes)
	p.know(spec.Volumes)
	p.at.containers = []place{mainPlace(path)}
	for i := range spec.Containers {
		p.at.containers = append(p.at.containers, containerPlace(path.Child("containers").Index(i)))
	}
	for i := range spec.InitContainers {
		p.at.init = append(p.at.init, containerPlace(path.Child("initContainers").Index(i)))
	}
	return p
}

// patchedSpec returns the fields of the pod in a podTemplatePatch, which other fields may refer to, such as a volume or the
// operating system. It returns an empty spec for an unreadable patch; the builder reports the error.
func patchedSpec(spec *appv1.WorkloadSpec) corev1.PodSpec {
	if spec.PodTemplatePatch == nil {
		return corev1.PodSpec{}
	}
	var patch corev1.PodTemplateSpec
	raw := withoutDirectives(spec.PodTemplatePatch.Raw)
	if err := bounds.Decode(raw, &patch, bounds.MaxPatch, "podTemplatePatch"); err != nil {
		return corev1.PodSpec{}
	}
	return patch.Spec
}

// withoutDirectives returns a patch without the directives of strategic merge. The Go type of a map cannot decode them: in
// limits, $patch: replace is no quantity. A patch that exceeds the bounds, or is no JSON, is returned as it is.
func withoutDirectives(raw []byte) []byte {
	if !bytes.Contains(raw, []byte(`"$`)) {
		return raw
	}
	var patch any
	if bounds.Decode(raw, &patch, bounds.MaxPatch, "podTemplatePatch") != nil {
		return raw
	}
	removeDirectives(patch)
	plain, err := json.Marshal(patch)
	if err != nil {
		return raw
	}
	return plain
}

// removeDirectives removes the directives of each object.
func removeDirectives(value any) {
	switch value := value.(type) {
	case map[string]any:
		maps.DeleteFunc(value, func(key string, _ any) bool { return strings.HasPrefix(key, "$") })
		for _, v := range value {
			removeDirectives(v)
		}
	case []any:
		for _, v := range value {
			removeDirectives(v)
		}
	}
}

// know adds available volumes.
func (p *pod) know(volumes []corev1.Volume) {
	for i := range volumes {
		p.volumes[volumes[i].Name] = volumes[i].VolumeSource
	}
}

// each calls a function with every container.
func (p *pod) each(do func(*corev1.Container, place)) {
	for i := range p.spec.InitContainers {
		do(&p.spec.InitContainers[i], p.at.init[i])
	}
	for i := range p.spec.Containers {
		do(&p.spec.Containers[i], p.at.containers[i])
	}
}

// check validates the fields of a pod that a spec can state, except for the name and the image of the main container.
func (p *pod) check() field.ErrorList {
	main, rest := &p.spec.Containers[0], p.spec.Containers[1:]
	errs := p.container(main, p.at.containers[0])
	errs = append(errs, p.running(main, p.at.containers[0])...)
	errs = append(errs, checkVolumes(p.spec.Volumes, p.at.spec.Child("volumes"))...)
	for i := range p.spec.InitContainers {
		if full(errs) {
			break
		}
		errs = append(errs, p.initial(&p.spec.InitContainers[i], p.at.init[i])...)
	}
	for i := range rest {
		if full(errs) {
			break
		}
		at := p.at.containers[i+1]
		errs = append(errs, p.named(&rest[i], at.self)...)
		errs = append(errs, p.container(&rest[i], at)...)
		errs = append(errs, p.running(&rest[i], at)...)
	}
	errs = append(errs, p.hostPorts(p.spec.Containers, p.at.containers)...)
	errs = append(errs, p.hostNetwork()...)
	errs = append(errs, p.podSecurity(p.spec.SecurityContext, p.at.security)...)
	errs = append(errs, p.hostProcess()...)
	errs = append(errs, p.system()...)
	errs = append(errs, affinity(p.spec.Affinity, p.at.spec.Child("affinity"))...)
	errs = append(errs, tolerations(p.spec.Tolerations, p.at.spec.Child("tolerations"))...)
	errs = append(errs, p.dns()...)
	errs = append(errs, labelMap(p.spec.NodeSelector, p.at.spec.Child("nodeSelector"))...)
	return append(errs, p.objects()...)
}

// objects checks the names of other objects that pods refer to, and of other hosts.
func (p *pod) objects() field.ErrorList {
	var errs field.ErrorList
	if name := p.spec.ServiceAccountName; name != "" {
		errs = append(errs, subdomain(name, p.at.spec.Child("serviceAccountName"))...)
	}
	if name := p.spec.PriorityClassName; name != "" {
		errs = append(errs, subdomain(name, p.at.spec.Child("priorityClassName"))...)
	}
	if name := p.spec.RuntimeClassName; name != nil {
		errs = append(errs, subdomain(*name, p.at.spec.Child("runtimeClassName"))...)
	}
	for i, alias := range p.spec.HostAliases {
		if full(errs) {
			break
		}
		at := p.at.spec.Child("hostAliases").Index(i)
		errs = append(errs, validation.IsValidIPForLegacyField(at.Child("ip"), alias.IP, true, nil)...)
		for j, name := range alias.Hostnames {
			if full(errs) {
				break
			}
			errs = append(errs, subdomain(name, at.Child("hostnames").Index(j))...)
		}
	}
	return errs
}

// dns checks the DNS settings. The limits are the limits of Linux' C library.
func (p *pod) dns() field.ErrorList {
	const mostServers, mostSearches, longestSearches = 3, 32, 2048
	at, config := p.at.spec.Child("dnsConfig"), p.spec.DNSConfig
	errs := oneOf(p.at.spec.Child("dnsPolicy"), p.spec.DNSPolicy, "", corev1.DNSClusterFirst, corev1.DNSClusterFirstWithHostNet, corev1.DNSDefault, corev1.DNSNone)
	if p.spec.DNSPolicy == corev1.DNSNone && (config == nil || len(config.Nameservers) == 0) {
		errs = append(errs, field.Required(at.Child("nameservers"), messageDNSNoneNeedsNameServer))
	}
	if config == nil {
		return errs
	}
	if n := len(config.Nameservers); n > mostServers {
		errs = append(errs, field.TooMany(at.Child("nameservers"), n, mostServers))
	}
	for i, ip := range config.Nameservers {
		if full(errs) {
			break
		}
		errs = append(errs, validation.IsValidIPForLegacyField(at.Child("nameservers").Index(i), ip, true, nil)...)
	}
	if n := len(config.Searches); n > mostSearches {
		errs = append(errs, field.TooMany(at.Child("searches"), n, mostSearches))
	}
	if n := len(strings.Join(config.Searches, " ")); n > longestSearches {
		errs = append(errs, field.Invalid(at.Child("searches"), n, fmt.Sprintf(messageDNSSearchesTooLong, longestSearches)))
	}
	for i, name := range config.Searches {
		if full(errs) {
			break
		}
		if name != "." {
			errs = append(errs, faults(at.Child("searches").Index(i), name, validation.IsDNS1123SubdomainWithUnderscore(strings.TrimSuffix(name, ".")))...)
		}
	}
	for i, option := range config.Options {
		if full(errs) {
			break
		}
		errs = append(errs, required(at.Child("options").Index(i).Child("name"), option.Name)...)
	}
	return errs
}

// hostPorts checks that no two containers want one port of the node. In the network of the node, each port of a container is one of the node.
func (p *pod) hostPorts(containers []corev1.Container, at []place) field.ErrorList {
	type hostPort struct {
		protocol corev1.Protocol
		ip       string
		number   int32
	}
	var errs field.ErrorList
	taken := sets.Set[hostPort]{}
	for i := range containers {
		if full(errs) {
			break
		}
		for j, port := range containers[i].Ports {
			if full(errs) {
				break
			}
			key := hostPort{cmp.Or(port.Protocol, corev1.ProtocolTCP), port.HostIP, port.HostPort}
			if p.spec.HostNetwork {
				key.number = cmp.Or(port.HostPort, port.ContainerPort)
			}
			switch at := at[i].self.Child("ports").Index(j); {
			case key.number == 0:
				continue
			case taken.Has(key) && port.HostPort == 0:
				errs = append(errs, field.Invalid(at.Child("containerPort"), key.number, messageHostNetworkSharesPorts))
			case taken.Has(key):
				errs = append(errs, field.Duplicate(at.Child("hostPort"), key.number))
			}
			taken.Insert(key)
		}
	}
	return errs
}

// hostNetwork checks ports that are the node's own.
func (p *pod) hostNetwork() field.ErrorList {
	if !p.spec.HostNetwork {
		return nil
	}
	var errs field.ErrorList
	for i := range p.spec.Containers {
		if full(errs) {
			break
		}
		for j, port := range p.spec.Containers[i].Ports {
			if full(errs) {
				break
			}
			if port.HostPort != 0 && port.HostPort != port.ContainerPort {
				errs = append(errs, field.Invalid(p.at.containers[i].self.Child("ports").Index(j).Child("hostPort"), port.HostPort,
					messageHostPortMustEqualContainerPort))
			}
		}
	}
	return errs
}

// set returns how many of a union's fields, which are all pointers, are set.
func set(union any) int { return len(stated(union)) }

// stated returns the names of a struct's fields that are set.
func stated(value any) []string {
	var names []string
	v := reflect.ValueOf(value)
	for i := range v.NumField() {
		if f := v.Field(i); !f.IsZero() && (f.Kind() != reflect.Slice || f.Len() > 0) {
			name, _, _ := strings.Cut(v.Type().Field(i).Tag.Get("json"), ",")
			names = append(names, name)
		}
	}
	return names
}

// unique checks that no two items of a list have the same key, by which the API server merges them.
func unique[T any, K comparable](list []T, at *field.Path, key func(T) K) field.ErrorList {
	var errs field.ErrorList
	taken := sets.Set[K]{}
	for i := range list {
		if full(errs) {
			break
		}
		k := key(list[i])
		if taken.Has(k) {
			errs = append(errs, field.Duplicate(at.Index(i), k))
		}
		taken.Insert(k)
	}
	return errs
}
