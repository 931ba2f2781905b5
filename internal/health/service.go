package health

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"

	appv1 "huolala.cn/app-operator/api/v1"
)

// Service judges a Service. A Service of type LoadBalancer is ready once it has an address, as by kstatus; any other Service is ready as
// soon as it exists. A Service is never stalled, because the API does not show whether the cluster has load balancers.
func Service(s *corev1.Service) Verdict {
	if s.Spec.Type == corev1.ServiceTypeLoadBalancer && len(s.Status.LoadBalancer.Ingress) == 0 {
		return Verdict{Reason: appv1.ReasonProgressing, Message: fmt.Sprintf(messageServiceNoAddress, s.Name)}
	}
	return Verdict{Ready: true, Reason: appv1.ReasonReady, Message: fmt.Sprintf(messageServiceAvailable, s.Name)}
}
