package resource

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
)

// Service returns the Service that leads to the workload's pods, nil for a workload without ports.
func Service(w *Workload) *corev1.Service {
	if len(w.Ports) == 0 {
		return nil
	}
	meta := w.meta()
	meta.Annotations = merged(w.Annotations, w.Access.Annotations)
	service := &corev1.Service{
		TypeMeta:   metav1.TypeMeta{APIVersion: corev1.SchemeGroupVersion.String(), Kind: "Service"},
		ObjectMeta: meta,
		Spec: corev1.ServiceSpec{
			Type:                  w.Access.Type,
			ClusterIP:             w.Access.ClusterIP,
			Selector:              w.Selector,
			Ports:                 slices.Clone(w.Ports),
			LoadBalancerClass:     w.Access.LoadBalancerClass,
			ExternalTrafficPolicy: w.Access.ExternalTrafficPolicy,
			SessionAffinity:       w.Access.SessionAffinity,
		},
	}
	if service.Spec.Type == corev1.ServiceTypeClusterIP {
		// The API server drops a node's port under this type, and refuses a policy for what comes by nodes.
		for i := range service.Spec.Ports {
			service.Spec.Ports[i].NodePort = 0
		}
		service.Spec.ExternalTrafficPolicy = ""
	}
	if service.Spec.SessionAffinity == corev1.ServiceAffinityClientIP {
		// The API server's default, stated so that it is ours to keep: the schema of ServiceSpec promises three hours.
		service.Spec.SessionAffinityConfig = &corev1.SessionAffinityConfig{
			ClientIP: &corev1.ClientIPConfig{TimeoutSeconds: ptr.To(corev1.DefaultClientIPServiceAffinitySeconds)},
		}
	}
	return service
}

// Endpoint says where a Service answers inside the cluster, as "name.namespace.svc:port[,port…]".
func Endpoint(service *corev1.Service) string {
	ports := make([]string, 0, len(service.Spec.Ports))
	for _, p := range service.Spec.Ports {
		ports = append(ports, strconv.Itoa(int(p.Port)))
	}
	return fmt.Sprintf("%s.%s.svc:%s", service.Name, service.Namespace, strings.Join(ports, ","))
}
