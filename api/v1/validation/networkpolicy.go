package validation

import (
	"fmt"
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
	_, cidr, err := net.ParseCIDR(block.CIDR)
	if err != nil {
		return field.ErrorList{field.Invalid(at.Child("cidr"), block.CIDR, messageCIDRInvalid)}
	}
	var errs field.ErrorList
	for i, text := range block.Except {
		if full(errs) {
			break
		}
		_, except, err := net.ParseCIDR(text)
		if err != nil {
			errs = append(errs, field.Invalid(at.Child("except").Index(i), text, messageCIDRInvalid))
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

// networkWarnings warns of networks that Kubernetes refuses in a new NetworkPolicy since 1.36: those with bits beyond the prefix, and of IPv4 in the
// form of IPv6.
func networkWarnings(s *appv1.NetworkPolicySpec, at *field.Path) []string {
	var said []string
	check := func(peers []networkingv1.NetworkPolicyPeer, at *field.Path) {
		for i := range peers {
			block, at := peers[i].IPBlock, at.Index(i).Child("ipBlock")
			if block == nil || len(said) > MaxWarnings {
				continue
			}
			errs := validation.IsValidCIDRForLegacyField(at.Child("cidr"), block.CIDR, true, nil)
			for n := range min(len(block.Except), MaxWarnings) {
				errs = append(errs, validation.IsValidCIDRForLegacyField(at.Child("except").Index(n), block.Except[n], true, nil)...)
			}
			for _, err := range errs {
				said = append(said, fmt.Sprintf(messageNetworkRefused, err))
			}
		}
	}
	for i := range s.Ingress {
		check(s.Ingress[i].From, at.Child("ingress").Index(i).Child("from"))
	}
	for i := range s.Egress {
		check(s.Egress[i].To, at.Child("egress").Index(i).Child("to"))
	}
	return said
}
