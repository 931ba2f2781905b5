package validation

import (
	"cmp"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	appv1 "huolala.cn/app-operator/api/v1"
)

// ModelBox validates the spec of a ModelBox beyond the schema.
func ModelBox(box *appv1.ModelBox) field.ErrorList {
	f := kindDefaults{container: cmp.Or(box.Spec.Name, box.Name), minReadySeconds: appv1.ModelBoxMinReadySeconds}
	errs := workload(&box.Spec.WorkloadSpec, f, field.NewPath("spec"))
	name, alias := box.Spec.ContainerName, box.Spec.Name
	if name != "" && alias != "" && alias != name && alias != box.Name {
		errs = append(errs, field.Invalid(field.NewPath("spec", "containerName"), name, messageNameAndContainerNameDiffer))
	}
	path := field.NewPath("spec")
	return slices.Concat(errs, serving(&box.Spec.ServingSpec, &box.Spec.WorkloadSpec, path),
		reservedNames(box.Name, box.Namespace, &box.Spec.ServingSpec, &box.Spec.WorkloadSpec, path),
		release(&box.Spec.ReleaseSpec, &box.Spec.WorkloadSpec, box.Name, path),
		withoutDefaults(box.Spec.WithoutDefaults, path.Child("withoutDefaults")))
}

// ModelBoxWarnings is AppWarnings for a ModelBox.
func ModelBoxWarnings(box *appv1.ModelBox, with *Effective) []string {
	return slices.Concat(AnnotationWarnings(box),
		servedWarnings(box, &box.Spec.WorkloadSpec, &box.Spec.ServingSpec, &box.Spec.ReleaseSpec, with, corev1.ServiceTypeNodePort))
}
