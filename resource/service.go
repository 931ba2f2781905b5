package resource

import (
	"cmp"
	"net"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
)

// buildService returns the Service of the workload's pods, nil for a workload without ports.
func buildService(w *Workload) *corev1.Service {
	if len(w.Ports) == 0 {
		return nil
	}
	meta := w.objectMeta()
	meta.Name = w.ServiceName
	meta.Labels, meta.Annotations = w.overriddenLabels(w.Access.Labels), mergedMaps(w.Annotations, w.Access.Annotations)
	service := &corev1.Service{
		TypeMeta:   metav1.TypeMeta{APIVersion: corev1.SchemeGroupVersion.String(), Kind: "Service"},
		ObjectMeta: meta,
		Spec: corev1.ServiceSpec{
			Type:                  w.Access.Type,
			ClusterIP:             w.Access.ClusterIP,
			Selector:              w.serviceSelector,
			Ports:                 slices.Clone(w.Ports),
			LoadBalancerClass:     w.Access.LoadBalancerClass,
			ExternalTrafficPolicy: w.Access.ExternalTrafficPolicy,
			SessionAffinity:       w.Access.SessionAffinity,

			LoadBalancerSourceRanges: w.Access.LoadBalancerSourceRanges,
			PublishNotReadyAddresses: w.Access.PublishNotReadyAddresses,
			InternalTrafficPolicy:    w.Access.InternalTrafficPolicy,
			TrafficDistribution:      w.Access.TrafficDistribution,
			IPFamilies:               w.Access.IPFamilies,
			IPFamilyPolicy:           w.Access.IPFamilyPolicy,
		},
	}
	if service.Spec.Type == corev1.ServiceTypeClusterIP {
		// For this type, the API server drops node ports and rejects externalTrafficPolicy.
		for i := range service.Spec.Ports {
			service.Spec.Ports[i].NodePort = 0
		}
		service.Spec.ExternalTrafficPolicy = ""
	}
	if service.Spec.SessionAffinity == corev1.ServiceAffinityClientIP {
		// The default of the API server, stated for ownership: the schema of ServiceSpec promises three hours.
		seconds := corev1.DefaultClientIPServiceAffinitySeconds
		if c := w.Access.SessionAffinityConfig; c != nil && c.ClientIP != nil {
			seconds = ptr.Deref(c.ClientIP.TimeoutSeconds, seconds)
		}
		service.Spec.SessionAffinityConfig = &corev1.SessionAffinityConfig{
			ClientIP: &corev1.ClientIPConfig{TimeoutSeconds: &seconds},
		}
	}
	return service
}

// Endpoint returns the addresses of a Service, separated by spaces, each a host with its ports: within the cluster
// ("name.namespace.svc:80,443"), on every node for a Service with node ports of type NodePort ("nodes:30010,30011"), and at each
// address of the load balancer ("203.0.113.7:80,443").
func Endpoint(service *corev1.Service) string {
	ports, nodePorts := make([]string, 0, len(service.Spec.Ports)), make([]string, 0, len(service.Spec.Ports))
	for _, p := range service.Spec.Ports {
		ports = append(ports, strconv.Itoa(int(p.Port)))
		if p.NodePort != 0 {
			nodePorts = append(nodePorts, strconv.Itoa(int(p.NodePort)))
		}
	}
	all := strings.Join(ports, ",")
	addresses := []string{service.Name + "." + service.Namespace + ".svc:" + all}
	switch service.Spec.Type {
	case corev1.ServiceTypeNodePort:
		if len(nodePorts) > 0 {
			addresses = append(addresses, "nodes:"+strings.Join(nodePorts, ","))
		}
	case corev1.ServiceTypeLoadBalancer:
		for _, ingress := range service.Status.LoadBalancer.Ingress {
			if host := cmp.Or(ingress.IP, ingress.Hostname); host != "" {
				addresses = append(addresses, net.JoinHostPort(host, all))
			}
		}
	}
	return strings.Join(addresses, " ")
}
