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
	step := intstr.FromString("25%") // Kubernetes' default.
	if spec.RollingUpdate != nil {
		step = *spec.RollingUpdate
	}
	if n, err := strconv.ParseInt(step.StrVal, 10, 32); step.Type == intstr.String && err == nil {
		step = intstr.FromInt32(int32(n))
	}
	return appsv1.DeploymentStrategy{
		Type:          appsv1.RollingUpdateDeploymentStrategyType,
		RollingUpdate: &appsv1.RollingUpdateDeployment{MaxSurge: &step, MaxUnavailable: &step},
	}
}
