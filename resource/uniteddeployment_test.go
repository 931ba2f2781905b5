package resource

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	appv1 "huolala.cn/app-operator/api/v1"
)

// TestUnitedDeploymentSpecChanged compares templates with the record of one, read back from the Deployment that was built
// of it. The numbers of pods, and the Deployment's name, do not count.
func TestUnitedDeploymentSpecChanged(t *testing.T) {
	united := func() *appv1.UnitedDeployment {
		ud := &appv1.UnitedDeployment{}
		ud.Name, ud.Spec.DeploymentName, ud.Spec.Replicas = "holder", "site", ptr.To[int32](2)
		ud.Spec.Template = &appv1.WorkloadSpec{Image: "nginx:1.16.1", Ports: []appv1.Port{{Port: 80}}}
		return ud
	}
	w, errs := UnitedDeployment(united(), BuildOptions{Inputs: BuildInputs{Rendering: RenderingLatest}})
	if len(errs) > 0 {
		t.Fatal(errs)
	}
	record := buildDeployment(w).Annotations[appv1.AnnotationLastAppliedSpec]
	for name, c := range map[string]struct {
		mutate func(*appv1.UnitedDeployment)
		want   bool
	}{
		"nothing":          {func(*appv1.UnitedDeployment) {}, false},
		"replicas":         {func(ud *appv1.UnitedDeployment) { ud.Spec.Replicas = ptr.To[int32](9) }, false},
		"Deployment":       {func(ud *appv1.UnitedDeployment) { ud.Spec.DeploymentName = "other" }, false},
		"a stated default": {func(ud *appv1.UnitedDeployment) { ud.Spec.Template.ImagePullPolicy = corev1.PullIfNotPresent }, false},
		"image":            {func(ud *appv1.UnitedDeployment) { ud.Spec.Template.Image = "nginx:1.17" }, true},
		"ports":            {func(ud *appv1.UnitedDeployment) { ud.Spec.Template.Ports = nil }, true},
	} {
		ud := united()
		c.mutate(ud)
		if got, err := UnitedDeploymentSpec(ud).Changed(record, ScopePods); err != nil || got != c.want {
			t.Errorf("%s: changed %t (%v), want %t", name, got, err, c.want)
		}
		if ud.Spec.Template.Replicas != nil {
			t.Errorf("%s: the template itself was changed", name)
		}
	}
}
