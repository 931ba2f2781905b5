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
func ModelBox(box *appv1.ModelBox, seen Observed) (*Workload, field.ErrorList) {
	container := box.Spec.Name
	if container == "" {
		container = box.Name
	}
	w, errs := workload(part{
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
	}, &box.Spec.WorkloadSpec, seen)
	w.record(&box.Spec, identity(&box.Spec, modelBoxWorkload), seen.Inputs)
	return w, errs
}

// ModelBoxSpecChanged tells whether a ModelBox's spec differs from a record of an earlier one; see specChanged.
func ModelBoxSpecChanged(spec *appv1.ModelBoxSpec, record string) (bool, error) {
	return specChanged(spec, record, modelBoxWorkload)
}

func modelBoxWorkload(spec *appv1.ModelBoxSpec) *appv1.WorkloadSpec { return &spec.WorkloadSpec }
