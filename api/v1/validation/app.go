package validation

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	appv1 "huolala.cn/app-operator/api/v1"
)

// App validates the spec of an App beyond the schema.
func App(app *appv1.App) field.ErrorList {
	path := field.NewPath("spec")
	return slices.Concat(workload(&app.Spec.WorkloadSpec, kindDefaults{container: app.Name}, path),
		serving(&app.Spec.ServingSpec, &app.Spec.WorkloadSpec, path),
		reservedNames(app.Name, app.Namespace, &app.Spec.ServingSpec, &app.Spec.WorkloadSpec, path),
		release(&app.Spec.ReleaseSpec, &app.Spec.WorkloadSpec, app.Name, path),
		withoutDefaults(app.Spec.WithoutDefaults, path.Child("withoutDefaults")))
}

// Effective has the fields of an App or ModelBox with the defaults that count for it.
type Effective struct {
	Workload *appv1.WorkloadSpec
	Serving  *appv1.ServingSpec
	// Unknown is true if the defaults are not known. The fields are the stated ones then.
	Unknown bool
}

// AppWarnings returns warnings of valid settings of an App that are seldom intended. Each begins with the field. with has the fields with the
// defaults, nil for an App without defaults. Warnings of items of a list are about the stated fields: items of defaults come before them.
func AppWarnings(app *appv1.App, with *Effective) []string {
	return slices.Concat(AnnotationWarnings(app),
		servedWarnings(app, &app.Spec.WorkloadSpec, &app.Spec.ServingSpec, &app.Spec.ReleaseSpec, with, corev1.ServiceTypeClusterIP))
}

// servedWarnings returns the warnings of an App or ModelBox apart from its annotations. serviceType is the default of the kind.
func servedWarnings(
	obj metav1.Object, workload *appv1.WorkloadSpec, serving *appv1.ServingSpec, release *appv1.ReleaseSpec, with *Effective, serviceType corev1.ServiceType,
) []string {
	if with == nil {
		with = &Effective{Workload: workload, Serving: serving}
	}
	path := field.NewPath("spec")
	said := append(nullWarnings(obj, workload.PodTemplatePatch, path.Child("podTemplatePatch")), imageWarnings(workload, path)...)
	if !with.Unknown {
		said = append(said, resourcesWarnings(with.Workload, path)...)
	}
	return slices.Concat(said, warnings(workload, with.Workload, leastPods(with.Serving, workload.Replicas), serviceType, path),
		servingWarnings(serving, with, path), releaseWarnings(release, with.Serving, workload.Replicas, path))
}
