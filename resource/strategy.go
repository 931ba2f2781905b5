package resource

import (
	"strconv"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	appv1 "huolala.cn/app-operator/api/v1"
)

// strategy returns how pods are replaced. The numbers are always stated: left to the API server, they would stay behind
// unowned when the strategy becomes Recreate, which takes none.
func strategy(spec *appv1.WorkloadSpec) appsv1.DeploymentStrategy {
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
			MaxSurge: step(spec.MaxSurge, both), MaxUnavailable: step(spec.MaxUnavailable, both),
		},
	}
}

// step returns a number of pods or a percentage: a number in a string is a number. both is what counts if it is left out.
func step(stated *intstr.IntOrString, both intstr.IntOrString) *intstr.IntOrString {
	if stated != nil {
		both = *stated
	}
	if n, err := strconv.ParseInt(both.StrVal, 10, 32); both.Type == intstr.String && err == nil {
		both = intstr.FromInt32(int32(n))
	}
	return &both
}
