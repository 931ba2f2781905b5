package resource

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"

	appv1 "huolala.cn/app-operator/api/v1"
	"huolala.cn/app-operator/api/v1/validation"
)

// KindUnitedDeployment is the kind UnitedDeployment.
var KindUnitedDeployment = Kind{
	Name: "UnitedDeployment", Plural: "uniteddeployments", ShortNames: []string{"hud", "ud"}, PodLabel: appv1.LabelUnitedDeployment, Scales: true,
	New: func() Object { return &appv1.UnitedDeployment{} }, NewList: func() runtime.Object { return &appv1.UnitedDeploymentList{} },
}

// UnitedDeployment maps a UnitedDeployment, which must have a template, to its workload. The errors are about the
// podTemplatePatch and the ports of the template.
func UnitedDeployment(ud *appv1.UnitedDeployment, seen BuildOptions) (*Workload, field.ErrorList) {
	spec := templateSpec(ud)
	w, errs := buildWorkload(workloadMeta{
		name:        ud.Spec.DeploymentName,
		namespace:   ud.Namespace,
		instance:    ud.Name,
		component:   "uniteddeployment",
		owner:       *metav1.NewControllerRef(ud, appv1.GroupVersion.WithKind(KindUnitedDeployment.Name)),
		container:   ud.Spec.DeploymentName,
		selector:    unitedDeploymentSelector(ud),
		path:        field.NewPath("spec", "template"),
		serviceType: corev1.ServiceTypeClusterIP,
	}, spec, seen)
	w.setRecord(spec, identityOf(spec, identityFunc), seen)
	return w, errs
}

// unitedDeploymentSelector returns the selector of a new Deployment. The selector has the name of the Deployment: if
// deploymentName changes, the previous Deployment may still exist.
func unitedDeploymentSelector(ud *appv1.UnitedDeployment) map[string]string {
	return map[string]string{appv1.LabelUnitedDeployment: ud.Name, appv1.LabelPart: ud.Spec.DeploymentName}
}

// templateSpec returns the template of a UnitedDeployment with its number of pods. Without a template, the result has the number
// of pods alone.
func templateSpec(ud *appv1.UnitedDeployment) *appv1.WorkloadSpec {
	var spec appv1.WorkloadSpec
	if ud.Spec.Template != nil {
		spec = *ud.Spec.Template // No deep copy: a spec can have 1 MiB, and no builder changes a spec.
	}
	spec.Replicas = ud.Spec.Replicas
	return &spec
}

func identityFunc(spec *appv1.WorkloadSpec) *appv1.WorkloadSpec { return spec }

// unitedDeploymentSpec is the Spec of a UnitedDeployment. spec is the template with the number of pods.
type unitedDeploymentSpec struct {
	ud   *appv1.UnitedDeployment
	spec *appv1.WorkloadSpec
}

// UnitedDeploymentSpec returns the spec of a UnitedDeployment. Build requires a template.
func UnitedDeploymentSpec(ud *appv1.UnitedDeployment) Spec {
	return unitedDeploymentSpec{ud, templateSpec(ud)}
}

func (s unitedDeploymentSpec) Workload() *appv1.WorkloadSpec { return s.spec }

func (s unitedDeploymentSpec) Serving() *appv1.ServingSpec { return nil }

func (s unitedDeploymentSpec) Release() *appv1.ReleaseSpec { return nil }

func (s unitedDeploymentSpec) Without() []string { return nil }

func (s unitedDeploymentSpec) WithDefaults(DefaultsRecord) Spec { return s }

func (s unitedDeploymentSpec) Validate() field.ErrorList { return validation.UnitedDeployment(s.ud) }

func (s unitedDeploymentSpec) Build(seen BuildOptions) (*Workload, field.ErrorList) {
	return UnitedDeployment(s.ud, seen)
}

// Past keeps the current number of pods, which is not part of the template.
func (s unitedDeploymentSpec) Past(record string) (Spec, error) {
	past := *s.ud
	past.Spec.Template = &appv1.WorkloadSpec{}
	if err := decodeWorkload(record, past.Spec.Template, past.Spec.Template); err != nil {
		return nil, err
	}
	return UnitedDeploymentSpec(&past), nil
}

func (s unitedDeploymentSpec) Changed(record string, scope Scope) (bool, error) {
	if scope == ScopeVolumes {
		return false, nil
	}
	return specChanged(s.spec, record, identityFunc)
}

func (s unitedDeploymentSpec) Identity() string { return hashSpec(identityMeta(s.spec, identityFunc)) }
