package view

import (
	"cmp"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
)

// serviceNode returns the node of a Service, with where it answers.
func serviceNode(service *corev1.Service) Node {
	var ports []string
	for i := range service.Spec.Ports {
		p := &service.Spec.Ports[i]
		port := fmt.Sprint(p.Port)
		if target := p.TargetPort.String(); target != "0" && target != port {
			port += " → " + target
		}
		ports = append(ports, port)
	}
	address := service.Spec.ClusterIP
	if address == corev1.ClusterIPNone {
		address = "headless"
	}
	detail := strings.Trim(address+":"+strings.Join(ports, ", "), ":")
	for _, point := range service.Status.LoadBalancer.Ingress {
		detail += ", " + cmp.Or(point.Hostname, point.IP)
	}
	return Node{
		Kind: "Service", Name: service.Name, State: string(cmp.Or(service.Spec.Type, corev1.ServiceTypeClusterIP)), Detail: detail,
		Created: created(service.ObjectMeta),
	}
}

// hosts returns the hosts of an Ingress.
func hosts(ingress *networkingv1.Ingress) string {
	var found []string
	for i := range ingress.Spec.Rules {
		found = append(found, cmp.Or(ingress.Spec.Rules[i].Host, "*"))
	}
	return strings.Join(found, ", ")
}
