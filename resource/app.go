package resource

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"

	appv1 "huolala.cn/app-operator/api/v1"
	"huolala.cn/app-operator/api/v1/validation"
)

// KindApp is the kind App.
var KindApp = Kind{
	Name: "App", Plural: "apps", ShortNames: []string{"happ"}, PodLabel: appv1.LabelApp, Scales: true, Serves: true, Holds: true,
	New: func() Object { return &appv1.App{} }, NewList: func() runtime.Object { return &appv1.AppList{} },
}

// App maps an App to its workload. The errors are about its podTemplatePatch and ports.
func App(app *appv1.App, seen BuildOptions) (*Workload, field.ErrorList) {
	spec, serving := seen.Inputs.Defaults.defaultedFields(&app.Spec.WorkloadSpec, &app.Spec.ServingSpec, app.Spec.WithoutDefaults)
	if seen.Serving == nil {
		seen.Serving = &serving
	}
	w, errs := buildWorkload(workloadMeta{
		name:        app.Name,
		namespace:   app.Namespace,
		instance:    app.Name,
		component:   "app",
		owner:       *metav1.NewControllerRef(app, appv1.GroupVersion.WithKind(KindApp.Name)),
		container:   app.Name,
		selector:    map[string]string{appv1.LabelApp: app.Name},
		path:        field.NewPath("spec"),
		serviceType: corev1.ServiceTypeClusterIP,
	}, &spec, seen)
	recorded := app.Spec
	recorded.Paused = false // Pausing does not change the pods.
	recorded.ServingSpec, recorded.ReleaseSpec, recorded.WithoutDefaultsSpec = appv1.ServingSpec{}, appv1.ReleaseSpec{}, appv1.WithoutDefaultsSpec{}
	w.setRecord(&recorded, identityOf(&recorded, appWorkload), seen)
	return w, errs
}

// appWorkload returns the workload of an App spec for comparison. It clears the fields that do not shape the pods.
func appWorkload(spec *appv1.AppSpec) *appv1.WorkloadSpec {
	spec.Paused = false
	spec.ServingSpec, spec.ReleaseSpec, spec.WithoutDefaultsSpec = appv1.ServingSpec{}, appv1.ReleaseSpec{}, appv1.WithoutDefaultsSpec{}
	return &spec.WorkloadSpec
}

// appSpec is the Spec of an App.
type appSpec struct {
	// app is the App, and with is the App with defaults: app itself without defaults.
	app, with *appv1.App
}

// AppSpec returns the spec of an App.
func AppSpec(app *appv1.App) Spec { return appSpec{app, app} }

func (s appSpec) Workload() *appv1.WorkloadSpec { return &s.with.Spec.WorkloadSpec }

func (s appSpec) Serving() *appv1.ServingSpec { return &s.with.Spec.ServingSpec }

func (s appSpec) Release() *appv1.ReleaseSpec { return &s.app.Spec.ReleaseSpec }

func (s appSpec) Without() []string { return s.app.Spec.WithoutDefaults }

func (s appSpec) WithDefaults(record DefaultsRecord) Spec {
	if record == "" {
		return appSpec{s.app, s.app}
	}
	with := *s.app
	with.Spec.WorkloadSpec, with.Spec.ServingSpec = record.defaultedFields(&s.app.Spec.WorkloadSpec, &s.app.Spec.ServingSpec, s.app.Spec.WithoutDefaults)
	return appSpec{s.app, &with}
}

func (s appSpec) Validate() field.ErrorList { return validation.App(s.with) }

func (s appSpec) Build(seen BuildOptions) (*Workload, field.ErrorList) { return App(s.app, seen) }

func (s appSpec) Past(record string) (Spec, error) {
	past := *s.app
	past.Spec = appv1.AppSpec{}
	if err := decodeWorkload(record, &past.Spec, &past.Spec.WorkloadSpec); err != nil {
		return nil, err
	}
	return appSpec{&past, &past}, nil
}

func (s appSpec) Changed(record string, scope Scope) (bool, error) {
	if scope == ScopeVolumes {
		return false, nil
	}
	return specChanged(&s.app.Spec, record, appWorkload)
}

func (s appSpec) Identity() string { return hashSpec(identityMeta(&s.app.Spec, appWorkload)) }
