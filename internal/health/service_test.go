package health

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	appv1 "huolala.cn/app-operator/api/v1"
)

func TestService(t *testing.T) {
	address := []corev1.LoadBalancerIngress{{Hostname: "lb.example.com"}}
	ready := Verdict{Ready: true, Reason: appv1.ReasonReady, Message: "Service web is available"}
	pending := Verdict{Reason: appv1.ReasonProgressing, Message: "Service web is waiting for a load balancer address"}
	for _, c := range []struct {
		kind    corev1.ServiceType
		ingress []corev1.LoadBalancerIngress
		want    Verdict
	}{
		{"", nil, ready}, {corev1.ServiceTypeClusterIP, nil, ready}, {corev1.ServiceTypeNodePort, nil, ready},
		{corev1.ServiceTypeLoadBalancer, nil, pending}, {corev1.ServiceTypeLoadBalancer, address, ready},
	} {
		s := &corev1.Service{}
		s.Name, s.Spec.Type, s.Status.LoadBalancer.Ingress = "web", c.kind, c.ingress
		if diff := cmp.Diff(c.want, Service(s)); diff != "" {
			t.Errorf("%s with %d addresses (-want +got):\n%s", c.kind, len(c.ingress), diff)
		}
	}
}
