package resource

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	appv1 "huolala.cn/app-operator/api/v1"
)

// KindUnitedDeployment is the kind of a UnitedDeployment.
const KindUnitedDeployment = "UnitedDeployment"

// UnitedDeployment returns the workload that the template of a UnitedDeployment means, and what is wrong with the
// template's podTemplate. There must be a template.
func UnitedDeployment(ud *appv1.UnitedDeployment, seen BuildOptions) (*Workload, field.ErrorList) {
	spec := UnitedDeploymentSpec(ud)
	w, errs := workload(workloadMeta{
		name:      ud.Spec.DeploymentName,
		namespace: ud.Namespace,
		instance:  ud.Name,
		component: "uniteddeployment",
		owner:     *metav1.NewControllerRef(ud, appv1.GroupVersion.WithKind(KindUnitedDeployment)),
		container: ud.Spec.DeploymentName,
		// With the Deployment's name: a UnitedDeployment that came to name another one may still have the first.
		selector:    map[string]string{appv1.LabelUnitedDeployment: ud.Name, appv1.LabelName: ud.Spec.DeploymentName},
		path:        field.NewPath("spec", "template"),
		serviceType: corev1.ServiceTypeClusterIP,
	}, spec, seen)
	w.record(spec, identityOf(spec, identityFunc), seen.Inputs)
	return w, errs
}

// UnitedDeploymentSpec returns the template of a UnitedDeployment with its number of pods: what is built, and recorded.
func UnitedDeploymentSpec(ud *appv1.UnitedDeployment) *appv1.WorkloadSpec {
	spec := ud.Spec.Template.DeepCopy()
	spec.Replicas = ud.Spec.Replicas
	return spec
}

// UnitedDeploymentSpecChanged reports whether the template of a UnitedDeployment differs from a record of an earlier one;
// see specChanged.
func UnitedDeploymentSpecChanged(ud *appv1.UnitedDeployment, record string) (bool, error) {
	return specChanged(UnitedDeploymentSpec(ud), record, identityFunc)
}

func identityFunc(spec *appv1.WorkloadSpec) *appv1.WorkloadSpec { return spec }
