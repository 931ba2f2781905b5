package resource

import (
	"strconv"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	appv1 "huolala.cn/app-operator/api/v1"
)

// rolloutStrategy returns the rollout strategy. It always states maxSurge and maxUnavailable: if the API server set their defaults, the
// values would stay without an owner when the strategy becomes Recreate, which forbids them.
func rolloutStrategy(spec *appv1.WorkloadSpec) appsv1.DeploymentStrategy {
	if spec.Strategy == appsv1.RecreateDeploymentStrategyType {
		return appsv1.DeploymentStrategy{Type: appsv1.RecreateDeploymentStrategyType}
	}
	both := intstr.FromString("25%") // Kubernetes' default.
	if spec.RollingUpdate != nil {
		both = *spec.RollingUpdate
	}
	return appsv1.DeploymentStrategy{
		Type: appsv1.RollingUpdateDeploymentStrategyType,
		RollingUpdate: &appsv1.RollingUpdateDeployment{
			MaxSurge: podsOrPercent(spec.MaxSurge, both), MaxUnavailable: podsOrPercent(spec.MaxUnavailable, both),
		},
	}
}

// podsOrPercent returns a number of pods or a percentage, both by default. A number in a string becomes a number.
func podsOrPercent(stated *intstr.IntOrString, both intstr.IntOrString) *intstr.IntOrString {
	if stated != nil {
		both = *stated
	}
	if n, err := strconv.ParseInt(both.StrVal, 10, 32); both.Type == intstr.String && err == nil {
		both = intstr.FromInt32(int32(n))
	}
	return &both
}
