package resource

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	appv1 "huolala.cn/app-operator/api/v1"
)

// KindModelBox is the kind of a ModelBox.
const KindModelBox = "ModelBox"

// ModelBox returns the workload that a ModelBox means, and what is wrong with its podTemplate.
func ModelBox(box *appv1.ModelBox, seen BuildOptions) (*Workload, field.ErrorList) {
	container := box.Spec.Name
	if container == "" {
		container = box.Name
	}
	w, errs := workload(workloadMeta{
		name:            box.Name,
		namespace:       box.Namespace,
		instance:        box.Name,
		component:       "modelbox",
		owner:           *metav1.NewControllerRef(box, appv1.GroupVersion.WithKind(KindModelBox)),
		container:       container,
		selector:        map[string]string{appv1.LabelModelBox: box.Name},
		path:            field.NewPath("spec"),
		minReadySeconds: appv1.ModelBoxMinReadySeconds,
		serviceType:     corev1.ServiceTypeNodePort,
		restarts:        true,
	}, &box.Spec.WorkloadSpec, seen)
	recorded := box.Spec
	recorded.Paused = false // To pause is no change of what runs.
	w.record(&recorded, identityOf(&recorded, modelBoxWorkload(box.Name)), seen.Inputs)
	return w, errs
}

// ModelBoxSpecChanged reports whether a ModelBox's spec differs from a record of an earlier one; see specChanged.
func ModelBoxSpecChanged(box *appv1.ModelBox, record string) (bool, error) {
	return specChanged(&box.Spec, record, modelBoxWorkload(box.Name))
}

// modelBoxWorkload returns what finds the workload in the spec of a ModelBox of a name. A spec that states the default for its
// container's name is the same as one that leaves it out, regardless of who has stated it.
func modelBoxWorkload(name string) func(*appv1.ModelBoxSpec) *appv1.WorkloadSpec {
	return func(spec *appv1.ModelBoxSpec) *appv1.WorkloadSpec {
		spec.Paused = false
		if spec.Name == name {
			spec.Name = ""
		}
		return &spec.WorkloadSpec
	}
}
