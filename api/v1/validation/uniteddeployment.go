package validation

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	appv1 "huolala.cn/app-operator/api/v1"
)

// UnitedDeployment validates the spec of a UnitedDeployment beyond the schema.
func UnitedDeployment(ud *appv1.UnitedDeployment) field.ErrorList {
	if ud.Spec.Template == nil {
		return nil
	}
	return workload(ud.Spec.Template, kindDefaults{container: ud.Spec.DeploymentName}, field.NewPath("spec", "template"))
}

// UnitedDeploymentWarnings is AppWarnings for a UnitedDeployment.
func UnitedDeploymentWarnings(ud *appv1.UnitedDeployment) []string {
	said := AnnotationWarnings(ud)
	if ud.Spec.Template == nil {
		return said
	}
	path := field.NewPath("spec", "template")
	return slices.Concat(said, nullWarnings(ud, ud.Spec.Template.PodTemplatePatch, path.Child("podTemplatePatch")),
		plainWarnings(ud.Spec.Template, ud.Spec.Replicas, corev1.ServiceTypeClusterIP, path))
}
