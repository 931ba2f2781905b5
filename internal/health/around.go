package health

import (
	"fmt"
	"slices"
	"strings"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	appv1 "huolala.cn/app-operator/api/v1"
	"huolala.cn/app-operator/internal/message"
)

// Standing is the state of an auxiliary object, in the form of its condition.
type Standing struct {
	Status          metav1.ConditionStatus
	Reason, Message string
}

// maxAddresses limits how many addresses a message lists.
const maxAddresses = 3

// Ingress judges an Ingress. One without an address is not judged: some controllers never write any.
func Ingress(ingress *networkingv1.Ingress) Standing {
	var addresses []string
	for _, point := range ingress.Status.LoadBalancer.Ingress {
		for _, address := range []string{point.Hostname, point.IP} {
			if address != "" && !slices.Contains(addresses, address) {
				addresses = append(addresses, address)
			}
		}
	}
	if len(addresses) == 0 {
		return Standing{metav1.ConditionUnknown, appv1.ReasonNoAddress, fmt.Sprintf(messageIngressNoAddress, ingress.Name)}
	}
	if len(addresses) > maxAddresses {
		addresses = append(addresses[:maxAddresses], "…")
	}
	quoted := message.Quote(strings.Join(addresses, ", "))
	return Standing{metav1.ConditionTrue, appv1.ReasonAccepted, fmt.Sprintf(messageIngressAddress, ingress.Name, quoted)}
}

// Autoscaler judges an autoscaler by its own conditions.
func Autoscaler(scaler *autoscalingv2.HorizontalPodAutoscaler) Standing {
	condition := func(kind autoscalingv2.HorizontalPodAutoscalerConditionType) autoscalingv2.HorizontalPodAutoscalerCondition {
		for _, c := range scaler.Status.Conditions {
			if c.Type == kind {
				return c
			}
		}
		return autoscalingv2.HorizontalPodAutoscalerCondition{}
	}
	fails := func(c *autoscalingv2.HorizontalPodAutoscalerCondition) string {
		return fmt.Sprintf(messageAutoscalerFails, scaler.Name, message.Quote(c.Message))
	}
	able, active := condition(autoscalingv2.AbleToScale), condition(autoscalingv2.ScalingActive)
	limited := condition(autoscalingv2.ScalingLimited)
	switch {
	case able.Status == corev1.ConditionFalse:
		return Standing{metav1.ConditionFalse, appv1.ReasonApplyFailed, fails(&able)}
	case active.Status == corev1.ConditionFalse && active.Reason == "ScalingDisabled":
		return Standing{metav1.ConditionFalse, appv1.ReasonScaledToZero, messageAutoscalerStopped}
	case active.Status == corev1.ConditionFalse:
		return Standing{metav1.ConditionFalse, appv1.ReasonMetricsMissing, fails(&active)}
	case active.Status != corev1.ConditionTrue:
		return Standing{metav1.ConditionUnknown, appv1.ReasonProgressing, fmt.Sprintf(messageAutoscalerWaits, scaler.Name)}
	case limited.Status == corev1.ConditionTrue && limited.Reason == "TooManyReplicas":
		return Standing{metav1.ConditionTrue, appv1.ReasonAtMaximum, fmt.Sprintf(messageAutoscalerAtMost, scaler.Name)}
	}
	return Standing{metav1.ConditionTrue, appv1.ReasonAutoscaling, fmt.Sprintf(messageAutoscalerDecides, scaler.Name)}
}
