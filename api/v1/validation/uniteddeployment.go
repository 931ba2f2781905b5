package validation

import (
	"k8s.io/apimachinery/pkg/util/validation/field"

	appv1 "huolala.cn/app-operator/api/v1"
)

// UnitedDeployment returns what is wrong with a UnitedDeployment's spec, nothing if it is right.
func UnitedDeployment(ud *appv1.UnitedDeployment) field.ErrorList {
	if ud.Spec.Template == nil {
		return nil
	}
	return workload(ud.Spec.Template, kindDefaults{container: ud.Spec.DeploymentName}, field.NewPath("spec", "template"))
}
