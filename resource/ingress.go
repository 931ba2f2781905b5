package resource

import (
	"cmp"

	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	appv1 "huolala.cn/app-operator/api/v1"
)

// rootPath is the default path of a host.
const rootPath appv1.HTTPPath = "/"

// Ingress returns the Ingress to the workload's Service, nil if the spec has no ingress or the Service lacks the port.
func Ingress(w *Workload) *networkingv1.Ingress {
	spec := w.Serving.Ingress
	if spec == nil {
		return nil
	}
	port, ok := w.serviceBackend(spec.Port)
	if !ok {
		return nil
	}
	ingress := &networkingv1.Ingress{
		TypeMeta:   metav1.TypeMeta{APIVersion: networkingv1.SchemeGroupVersion.String(), Kind: "Ingress"},
		ObjectMeta: w.annotatedMeta(spec.Annotations),
		Spec:       networkingv1.IngressSpec{IngressClassName: spec.ClassName},
	}
	pathType := cmp.Or(spec.PathType, networkingv1.PathTypePrefix)
	backend := networkingv1.IngressBackend{Service: &networkingv1.IngressServiceBackend{
		Name: w.ServiceName, Port: networkingv1.ServiceBackendPort{Number: port},
	}}
	var hosts []string
	for _, rule := range spec.Rules {
		http := &networkingv1.HTTPIngressRuleValue{}
		for _, path := range PathsOf(rule.Paths) {
			http.Paths = append(http.Paths, networkingv1.HTTPIngressPath{Path: string(path), PathType: ptr.To(pathType), Backend: backend})
		}
		ingress.Spec.Rules = append(ingress.Spec.Rules, networkingv1.IngressRule{
			Host: string(rule.Host), IngressRuleValue: networkingv1.IngressRuleValue{HTTP: http},
		})
		hosts = append(hosts, string(rule.Host))
	}
	if spec.TLS != nil {
		ingress.Spec.TLS = []networkingv1.IngressTLS{{Hosts: hosts, SecretName: spec.TLS.SecretName}}
	}
	return ingress
}

// PathsOf returns the stated paths, by default the root path.
func PathsOf(stated []appv1.HTTPPath) []appv1.HTTPPath {
	if len(stated) == 0 {
		return []appv1.HTTPPath{rootPath}
	}
	return stated
}
