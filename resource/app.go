package resource

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"

	appv1 "huolala.cn/app-operator/api/v1"
)

// KindApp is the kind App.
var KindApp = Kind{
	Name: "App", Plural: "apps", ShortNames: []string{"happ"}, PodLabel: appv1.LabelApp, Scales: true, Serves: true, Holds: true,
	New: func() Object { return &appv1.App{} }, NewList: func() runtime.Object { return &appv1.AppList{} },
}

// App returns the workload that an App means, and what is wrong with its podTemplate.
func App(app *appv1.App, seen BuildOptions) (*Workload, field.ErrorList) {
	if seen.Serving == nil {
		seen.Serving = &app.Spec.ServingSpec
	}
	w, errs := workload(workloadMeta{
		name:        app.Name,
		namespace:   app.Namespace,
		instance:    app.Name,
		component:   "app",
		owner:       *metav1.NewControllerRef(app, appv1.GroupVersion.WithKind(KindApp.Name)),
		container:   app.Name,
		selector:    map[string]string{appv1.LabelApp: app.Name},
		path:        field.NewPath("spec"),
		serviceType: corev1.ServiceTypeClusterIP,
	}, &app.Spec.WorkloadSpec, seen)
	recorded := app.Spec
	recorded.Paused = false // To pause is no change of what runs.
	recorded.ServingSpec = appv1.ServingSpec{}
	w.record(&recorded, identityOf(&recorded, appWorkload), seen)
	return w, errs
}

// AppSpecChanged reports whether an App's spec differs from a record of an earlier one; see specChanged.
func AppSpecChanged(spec *appv1.AppSpec, record string) (bool, error) {
	return specChanged(spec, record, appWorkload)
}

// AppIdentity returns a short record of an App's spec, by which AppSpecChanged tells it from another one.
func AppIdentity(spec *appv1.AppSpec) string { return hashSpec(identityMeta(spec, appWorkload)) }

// appWorkload finds the workload in the spec of an App, and takes out of it what does not tell one spec from another.
func appWorkload(spec *appv1.AppSpec) *appv1.WorkloadSpec {
	spec.Paused = false
	spec.ServingSpec = appv1.ServingSpec{}
	return &spec.WorkloadSpec
}

// AppFromRecord returns the workload that an App meant when the record was written.
func AppFromRecord(app *appv1.App, record string, seen BuildOptions) (*Workload, error) {
	past := *app
	past.Spec = appv1.AppSpec{}
	if err := decodeWorkload(record, &past.Spec, &past.Spec.WorkloadSpec); err != nil {
		return nil, err
	}
	w, _ := App(&past, seen)
	return w.recordedAs(record)
}
