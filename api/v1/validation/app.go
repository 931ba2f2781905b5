package validation

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
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

// AppWarnings returns warnings of valid settings of an App that are seldom intended. Each begins with the field.
func AppWarnings(app *appv1.App) []string {
	path := field.NewPath("spec")
	return slices.Concat(AnnotationWarnings(app), nullWarnings(app, app.Spec.PodTemplatePatch, path.Child("podTemplatePatch")),
		warnings(&app.Spec.WorkloadSpec, leastPods(&app.Spec.ServingSpec, app.Spec.Replicas), corev1.ServiceTypeClusterIP, path),
		servingWarnings(&app.Spec.ServingSpec, &app.Spec.WorkloadSpec, path),
		releaseWarnings(&app.Spec.ReleaseSpec, &app.Spec.ServingSpec, app.Spec.Replicas, path))
}
