package validation

import (
	"cmp"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	appv1 "huolala.cn/app-operator/api/v1"
)

// longestAffinity is how long, in seconds, a Service can lead a client to one pod.
const longestAffinity = 24 * 60 * 60

// serviceFields checks the fields of a Service. The schema has most of the rules, but a stored object may be older than the
// schema.
func serviceFields(s *appv1.ServiceSpec, at *field.Path) field.ErrorList {
	var errs field.ErrorList
	if s.Name != "" {
		errs = append(errs, faults(at.Child("name"), s.Name, validation.IsDNS1035Label(s.Name))...)
	}
	if len(s.LoadBalancerSourceRanges) > 0 && s.Type != corev1.ServiceTypeLoadBalancer {
		errs = append(errs, field.Forbidden(at.Child("loadBalancerSourceRanges"), messageSourceRangesNeedLoadBalancer))
	}
	for i, network := range s.LoadBalancerSourceRanges {
		if full(errs) {
			break
		}
		errs = append(errs, validation.IsValidCIDRForLegacyField(at.Child("loadBalancerSourceRanges").Index(i), network, true, nil)...)
	}
	if c := s.SessionAffinityConfig; c != nil {
		where := at.Child("sessionAffinityConfig")
		switch {
		case s.SessionAffinity != corev1.ServiceAffinityClientIP:
			errs = append(errs, field.Forbidden(where, messageAffinityConfigNeedsClientIP))
		case c.ClientIP != nil && c.ClientIP.TimeoutSeconds != nil && (*c.ClientIP.TimeoutSeconds < 1 || *c.ClientIP.TimeoutSeconds > longestAffinity):
			errs = append(errs, field.Invalid(where.Child("clientIP", "timeoutSeconds"), *c.ClientIP.TimeoutSeconds,
				fmt.Sprintf(messageMustBeInRange, 1, longestAffinity)))
		}
	}
	return append(errs, families(s, at)...)
}

// families checks the families of a Service's addresses. Whether the cluster has them is for it to say.
func families(s *appv1.ServiceSpec, at *field.Path) field.ErrorList {
	var errs field.ErrorList
	single := s.IPFamilyPolicy == nil || *s.IPFamilyPolicy == corev1.IPFamilyPolicySingleStack
	for i, family := range s.IPFamilies {
		if full(errs) {
			break
		}
		errs = append(errs, oneOf(at.Child("ipFamilies").Index(i), family, corev1.IPv4Protocol, corev1.IPv6Protocol)...)
		if slices.Contains(s.IPFamilies[:i], family) {
			errs = append(errs, field.Duplicate(at.Child("ipFamilies").Index(i), family))
		}
	}
	if len(s.IPFamilies) > 1 && single {
		errs = append(errs, field.Invalid(at.Child("ipFamilies"), s.IPFamilies, messageTwoFamiliesNeedDualStack))
	}
	return errs
}

// rollingUpdate checks that the numbers of a rolling update say one thing, and let it begin.
func rollingUpdate(spec *appv1.WorkloadSpec, path *field.Path) field.ErrorList {
	if spec.MaxSurge == nil && spec.MaxUnavailable == nil {
		return nil
	}
	var errs field.ErrorList
	if spec.RollingUpdate != nil {
		errs = append(errs, field.Forbidden(path.Child("rollingUpdate"), messageRollingUpdateExcludesItsFields))
	}
	none := func(n *intstr.IntOrString) bool {
		return n != nil && (*n == intstr.FromInt32(0) || *n == intstr.FromString("0%"))
	}
	if none(spec.MaxSurge) && none(spec.MaxUnavailable) {
		errs = append(errs, field.Invalid(path.Child("maxUnavailable"), spec.MaxUnavailable.String(), messageSurgeAndUnavailableAreZero))
	}
	return errs
}

// mainPorts checks the ports of the main container apart from the Service's. Another container of the pod must not declare the
// same port.
func mainPorts(spec *appv1.WorkloadSpec, path *field.Path) field.ErrorList {
	if len(spec.ContainerPorts) == 0 {
		return nil
	}
	type number struct {
		value    int32
		protocol corev1.Protocol
	}
	// numbered and named are the containers that declare a port, by its number and by its name.
	numbered, named := map[number]string{}, map[string]string{}
	declare := func(c *corev1.Container) {
		for _, q := range c.Ports {
			numbered[number{q.ContainerPort, cmp.Or(q.Protocol, corev1.ProtocolTCP)}], named[q.Name] = c.Name, c.Name
		}
	}
	for i := range spec.Containers {
		declare(&spec.Containers[i])
	}
	for i := range spec.InitContainers {
		if isSidecar(&spec.InitContainers[i]) { // Any other one has ended when the main container starts.
			declare(&spec.InitContainers[i])
		}
	}
	var errs field.ErrorList
	names, numbers := map[string]bool{}, map[number]bool{}
	for i, p := range spec.ContainerPorts {
		if full(errs) {
			break
		}
		key := number{p.ContainerPort, cmp.Or(p.Protocol, corev1.ProtocolTCP)}
		if numbers[key] {
			errs = append(errs, field.Duplicate(path.Index(i).Child("containerPort"), p.ContainerPort))
		}
		if p.Name != "" {
			errs = append(errs, faults(path.Index(i).Child("name"), p.Name, validation.IsValidPortName(p.Name))...)
			if names[p.Name] {
				errs = append(errs, field.Duplicate(path.Index(i).Child("name"), p.Name))
			}
		}
		numbers[key], names[p.Name] = true, true
		other, declared := numbered[key]
		if by, ok := named[p.Name]; ok && p.Name != "" && !declared {
			other, declared = by, true
		}
		if declared {
			errs = append(errs, field.Invalid(path.Index(i), fmt.Sprintf("%d/%s", key.value, key.protocol),
				fmt.Sprintf(messagePortDeclaredByContainer, other)))
		}
	}
	return errs
}

// knownProfile checks that a security profile is: one of a later release must not pass for none.
func knownProfile(given appv1.SecurityProfile, path *field.Path) field.ErrorList {
	return oneOf(path, given, "", appv1.SecurityProfileRestricted)
}
