package resource

import (
	"cmp"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"

	appv1 "huolala.cn/app-operator/api/v1"
	"huolala.cn/app-operator/api/v1/validation"
)

// KindModelBox is the kind ModelBox.
var KindModelBox = Kind{
	Name: "ModelBox", Plural: "modelboxes", ShortNames: []string{"mbox"}, PodLabel: appv1.LabelModelBox, Scales: true, Serves: true, Holds: true,
	New: func() Object { return &appv1.ModelBox{} }, NewList: func() runtime.Object { return &appv1.ModelBoxList{} },
}

// ModelBox maps a ModelBox to its workload. The errors are about its podTemplatePatch and ports.
func ModelBox(box *appv1.ModelBox, seen BuildOptions) (*Workload, field.ErrorList) {
	spec, serving := defaultedModelBox(box, seen.Inputs.Defaults)
	if seen.Serving == nil {
		seen.Serving = &serving
	}
	w, errs := buildWorkload(workloadMeta{
		name:            box.Name,
		namespace:       box.Namespace,
		instance:        box.Name,
		component:       "modelbox",
		owner:           *metav1.NewControllerRef(box, appv1.GroupVersion.WithKind(KindModelBox.Name)),
		container:       cmp.Or(box.Spec.Name, box.Name),
		selector:        map[string]string{appv1.LabelModelBox: box.Name},
		path:            field.NewPath("spec"),
		minReadySeconds: appv1.ModelBoxMinReadySeconds,
		serviceType:     corev1.ServiceTypeNodePort,
		restarts:        true,
	}, &spec, seen)
	recorded := box.Spec
	recorded.Paused = false // Pausing does not change the pods.
	recorded.ServingSpec, recorded.ReleaseSpec, recorded.WithoutDefaultsSpec = appv1.ServingSpec{}, appv1.ReleaseSpec{}, appv1.WithoutDefaultsSpec{}
	w.setRecord(&recorded, identityOf(&recorded, modelBoxWorkload(box.Name)), seen)
	return w, errs
}

// modelBoxWorkload returns the function that gets the workload of a ModelBox spec for comparison. It clears the fields that do
// not shape the pods, treats name as an alias of containerName, and clears a container name that equals the default.
func modelBoxWorkload(name string) func(*appv1.ModelBoxSpec) *appv1.WorkloadSpec {
	return func(spec *appv1.ModelBoxSpec) *appv1.WorkloadSpec {
		spec.Paused = false
		spec.Name, spec.ContainerName = cmp.Or(spec.ContainerName, spec.Name), ""
		spec.ServingSpec, spec.ReleaseSpec, spec.WithoutDefaultsSpec = appv1.ServingSpec{}, appv1.ReleaseSpec{}, appv1.WithoutDefaultsSpec{}
		if spec.Name == name {
			spec.Name = ""
		}
		return &spec.WorkloadSpec
	}
}

// defaultedModelBox returns the fields of a ModelBox with recorded defaults. The former field name states the name of the container, unless it is
// the name of the ModelBox, which the webhook sets.
func defaultedModelBox(box *appv1.ModelBox, record DefaultsRecord) (appv1.WorkloadSpec, appv1.ServingSpec) {
	stated := box.Spec.WorkloadSpec
	if name := box.Spec.Name; record != "" && name != box.Name {
		stated.ContainerName = cmp.Or(stated.ContainerName, name)
	}
	return record.defaultedFields(&stated, &box.Spec.ServingSpec, box.Spec.WithoutDefaults)
}

// modelBoxSpec is the Spec of a ModelBox.
type modelBoxSpec struct {
	// box is the ModelBox, and with is the ModelBox with defaults: box itself without defaults.
	box, with *appv1.ModelBox
}

// ModelBoxSpec returns the spec of a ModelBox.
func ModelBoxSpec(box *appv1.ModelBox) Spec { return modelBoxSpec{box, box} }

func (s modelBoxSpec) Workload() *appv1.WorkloadSpec { return &s.with.Spec.WorkloadSpec }

func (s modelBoxSpec) Serving() *appv1.ServingSpec { return &s.with.Spec.ServingSpec }

func (s modelBoxSpec) Release() *appv1.ReleaseSpec { return &s.box.Spec.ReleaseSpec }

func (s modelBoxSpec) Without() []string { return s.box.Spec.WithoutDefaults }

func (s modelBoxSpec) WithDefaults(record DefaultsRecord) Spec {
	if record == "" {
		return modelBoxSpec{s.box, s.box}
	}
	with := *s.box
	with.Spec.WorkloadSpec, with.Spec.ServingSpec = defaultedModelBox(s.box, record)
	return modelBoxSpec{s.box, &with}
}

func (s modelBoxSpec) Validate() field.ErrorList { return validation.ModelBox(s.with) }

func (s modelBoxSpec) Build(seen BuildOptions) (*Workload, field.ErrorList) {
	return ModelBox(s.box, seen)
}

func (s modelBoxSpec) Past(record string) (Spec, error) {
	past := *s.box
	past.Spec = appv1.ModelBoxSpec{}
	if err := decodeWorkload(record, &past.Spec, &past.Spec.WorkloadSpec); err != nil {
		return nil, err
	}
	return modelBoxSpec{&past, &past}, nil
}

func (s modelBoxSpec) Changed(record string, scope Scope) (bool, error) {
	if scope == ScopeVolumes {
		return false, nil
	}
	return specChanged(&s.box.Spec, record, modelBoxWorkload(s.box.Name))
}

func (s modelBoxSpec) Identity() string {
	return hashSpec(identityMeta(&s.box.Spec, modelBoxWorkload(s.box.Name)))
}
