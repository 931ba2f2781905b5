package validation

import (
	"net"
	"slices"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	appv1 "huolala.cn/app-operator/api/v1"
)

// networkPolicy checks the rules as Kubernetes does.
func networkPolicy(s *appv1.NetworkPolicySpec, at *field.Path) field.ErrorList {
	var errs field.ErrorList
	for i, rule := range s.Ingress {
		if full(errs) {
			break
		}
		errs = append(errs, policyRule(rule.Ports, rule.From, at.Child("ingress").Index(i), "from")...)
	}
	for i, rule := range s.Egress {
		if full(errs) {
			break
		}
		errs = append(errs, policyRule(rule.Ports, rule.To, at.Child("egress").Index(i), "to")...)
	}
	return errs
}

func policyRule(ports []networkingv1.NetworkPolicyPort, peers []networkingv1.NetworkPolicyPeer, at *field.Path, name string) field.ErrorList {
	var errs field.ErrorList
	for i := range ports {
		if full(errs) {
			break
		}
		errs = append(errs, policyPort(&ports[i], at.Child("ports").Index(i))...)
	}
	for i := range peers {
		if full(errs) {
			break
		}
		errs = append(errs, policyPeer(&peers[i], at.Child(name).Index(i))...)
	}
	return errs
}

func policyPort(p *networkingv1.NetworkPolicyPort, at *field.Path) field.ErrorList {
	var errs field.ErrorList
	protocols := []corev1.Protocol{corev1.ProtocolTCP, corev1.ProtocolUDP, corev1.ProtocolSCTP}
	if p.Protocol != nil && !slices.Contains(protocols, *p.Protocol) {
		errs = append(errs, field.NotSupported(at.Child("protocol"), *p.Protocol, protocols))
	}
	switch {
	case p.Port == nil && p.EndPort != nil:
		errs = append(errs, field.Required(at.Child("port"), messageEndPortNeedsPort))
	case p.Port == nil:
	case p.Port.Type == intstr.String:
		errs = append(errs, faults(at.Child("port"), p.Port.StrVal, validation.IsValidPortName(p.Port.StrVal))...)
		if p.EndPort != nil {
			errs = append(errs, field.Invalid(at.Child("endPort"), *p.EndPort, messageEndPortExcludesName))
		}
	default:
		errs = append(errs, faults(at.Child("port"), p.Port.String(), validation.IsValidPortNum(int(p.Port.IntVal)))...)
		if p.EndPort != nil && *p.EndPort < p.Port.IntVal {
			errs = append(errs, field.Invalid(at.Child("endPort"), *p.EndPort, messageEndPortMustNotBeBelowPort))
		}
		if p.EndPort != nil {
			errs = append(errs, faults(at.Child("endPort"), strconv.Itoa(int(*p.EndPort)), validation.IsValidPortNum(int(*p.EndPort)))...)
		}
	}
	return errs
}

func policyPeer(p *networkingv1.NetworkPolicyPeer, at *field.Path) field.ErrorList {
	var errs field.ErrorList
	if p.PodSelector == nil && p.NamespaceSelector == nil && p.IPBlock == nil {
		return field.ErrorList{field.Required(at, messagePeerRequired)}
	}
	if p.IPBlock != nil && (p.PodSelector != nil || p.NamespaceSelector != nil) {
		errs = append(errs, field.Forbidden(at, messageIPBlockExcludesOthers))
	}
	errs = append(errs, selector(p.PodSelector, at.Child("podSelector"))...)
	errs = append(errs, selector(p.NamespaceSelector, at.Child("namespaceSelector"))...)
	if p.IPBlock != nil {
		errs = append(errs, ipBlock(p.IPBlock, at.Child("ipBlock"))...)
	}
	return errs
}

func ipBlock(block *networkingv1.IPBlock, at *field.Path) field.ErrorList {
	cidr, errs := network(block.CIDR, at.Child("cidr"))
	if cidr == nil {
		return errs
	}
	for i, text := range block.Except {
		if full(errs) {
			break
		}
		except, wrong := network(text, at.Child("except").Index(i))
		if errs = append(errs, wrong...); except == nil {
			continue
		}
		outer, _ := cidr.Mask.Size()
		inner, _ := except.Mask.Size()
		if !cidr.Contains(except.IP) || outer >= inner {
			errs = append(errs, field.Invalid(at.Child("except").Index(i), text, messageExceptMustBeWithinCIDR))
		}
	}
	return errs
}

// network returns the network of a CIDR, nil if the text is no CIDR. Kubernetes 1.36 refuses a CIDR with bits beyond its prefix, and one of IPv4 as
// IPv6, in a new NetworkPolicy.
func network(text string, at *field.Path) (*net.IPNet, field.ErrorList) {
	_, parsed, err := net.ParseCIDR(text)
	if err != nil {
		return nil, field.ErrorList{field.Invalid(at, text, messageCIDRInvalid)}
	}
	return parsed, validation.IsValidCIDRForLegacyField(at, text, true, nil)
}
