package validation

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	appv1 "huolala.cn/app-operator/api/v1"
)

// App returns what is wrong with an App's spec, nothing if it is right.
func App(app *appv1.App) field.ErrorList {
	path := field.NewPath("spec")
	return append(workload(&app.Spec.WorkloadSpec, kindDefaults{container: app.Name}, path),
		serving(&app.Spec.ServingSpec, &app.Spec.WorkloadSpec, path)...)
}

// AppWarnings returns what is allowed in an App and seldom meant: a line each, which begins with the field.
func AppWarnings(app *appv1.App) []string {
	path := field.NewPath("spec")
	return slices.Concat(AnnotationWarnings(app),
		warnings(&app.Spec.WorkloadSpec, leastPods(&app.Spec.ServingSpec, app.Spec.Replicas), corev1.ServiceTypeClusterIP, path),
		servingWarnings(&app.Spec.ServingSpec, &app.Spec.WorkloadSpec, path))
}
