package resource

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"

	appv1 "huolala.cn/app-operator/api/v1"
)

// KindUnitedDeployment is the kind UnitedDeployment.
var KindUnitedDeployment = Kind{
	Name: "UnitedDeployment", Plural: "uniteddeployments", ShortNames: []string{"hud", "ud"}, PodLabel: appv1.LabelUnitedDeployment, Scales: true,
	New: func() Object { return &appv1.UnitedDeployment{} }, NewList: func() runtime.Object { return &appv1.UnitedDeploymentList{} },
}

// UnitedDeployment returns the workload that the template of a UnitedDeployment means, and what is wrong with the
// template's podTemplate. There must be a template.
func UnitedDeployment(ud *appv1.UnitedDeployment, seen BuildOptions) (*Workload, field.ErrorList) {
	spec := UnitedDeploymentSpec(ud)
	w, errs := workload(workloadMeta{
		name:        ud.Spec.DeploymentName,
		namespace:   ud.Namespace,
		instance:    ud.Name,
		component:   "uniteddeployment",
		owner:       *metav1.NewControllerRef(ud, appv1.GroupVersion.WithKind(KindUnitedDeployment.Name)),
		container:   ud.Spec.DeploymentName,
		selector:    unitedDeploymentSelector(ud, seen),
		path:        field.NewPath("spec", "template"),
		serviceType: corev1.ServiceTypeClusterIP,
	}, spec, seen)
	w.record(spec, identityOf(spec, identityFunc), seen)
	return w, errs
}

// unitedDeploymentSelector returns the selector of a new Deployment. It has the Deployment's name, as a UnitedDeployment that came
// to name another one may still have the first. Earlier releases had that name in a label that users can state by now; a
// Deployment that one of them made keeps its pods as they are.
func unitedDeploymentSelector(ud *appv1.UnitedDeployment, seen BuildOptions) map[string]string {
	key := appv1.LabelPart
	if seen.Inputs.Rendering < RenderingNamedPorts || seen.Selector != nil && seen.Selector[appv1.LabelPart] == "" {
		key = appv1.LabelName
	}
	return map[string]string{appv1.LabelUnitedDeployment: ud.Name, key: ud.Spec.DeploymentName}
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

// UnitedDeploymentFromRecord returns the workload that the template of a UnitedDeployment meant when the record was written,
// with the present number of pods: that is no part of the template.
func UnitedDeploymentFromRecord(ud *appv1.UnitedDeployment, record string, seen BuildOptions) (*Workload, error) {
	past := *ud
	past.Spec.Template = &appv1.WorkloadSpec{}
	if err := decodeWorkload(record, past.Spec.Template, past.Spec.Template); err != nil {
		return nil, err
	}
	w, _ := UnitedDeployment(&past, seen)
	return w.recordedAs(record)
}
