package resource

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/ptr"

	appv1 "huolala.cn/app-operator/api/v1"
)

// TestIdentityStatesDefaults checks for each default of the operator that a spec is the same with and without it, and another one with
// another value. The number of pods is no part of the identity.
func TestIdentityStatesDefaults(t *testing.T) {
	for name, c := range map[string]struct {
		state func(spec *appv1.AppSpec)
		same  bool
	}{
		"the default pull policy": {func(spec *appv1.AppSpec) { spec.ImagePullPolicy = corev1.PullIfNotPresent }, true},
		"another pull policy":     {func(spec *appv1.AppSpec) { spec.ImagePullPolicy = corev1.PullAlways }, false},
		"the default protocol":    {func(spec *appv1.AppSpec) { spec.Ports[0].Protocol = tcp }, true},
		"another protocol":        {func(spec *appv1.AppSpec) { spec.Ports[0].Protocol = udp }, false},
		"the default target":      {func(spec *appv1.AppSpec) { spec.Ports[0].TargetPort = number(80) }, true},
		"another target":          {func(spec *appv1.AppSpec) { spec.Ports[0].TargetPort = number(8080) }, false},
		"no resources":            {func(spec *appv1.AppSpec) { spec.Resources.Limits = corev1.ResourceList{} }, true},
		"another limit":           {func(spec *appv1.AppSpec) { spec.Resources.Limits = corev1.ResourceList{"cpu": quantity("1")} }, false},
		"the number of pods":      {func(spec *appv1.AppSpec) { spec.Replicas = ptr.To[int32](3) }, true},
		"a patch":                 {func(spec *appv1.AppSpec) { spec.PodTemplatePatch = &runtime.RawExtension{Raw: []byte(`{}`)} }, false},
	} {
		without := &appv1.AppSpec{WorkloadSpec: appv1.WorkloadSpec{Image: "nginx", Ports: []appv1.Port{{Port: 80}}}}
		with := without.DeepCopy()
		c.state(with)
		for _, specs := range [][2]*appv1.AppSpec{{without, with}, {with, without}} {
			for _, record := range []string{string(canonicalJSON(specs[0])), hashSpec(identityMeta(specs[0], appWorkload))} {
				if changed, err := appChanged(specs[1], record); changed == c.same || err != nil {
					t.Errorf("%s, record %.10s: the spec has changed: %t, %v", name, record, changed, err)
				}
			}
		}
	}
}

// TestIdentityLeavesPausedOut checks that to pause a resource changes nothing about its pods.
func TestIdentityLeavesPausedOut(t *testing.T) {
	spec := &appv1.AppSpec{}
	spec.Image = "nginx"
	record := string(canonicalJSON(spec))
	spec.Paused = true
	if changed, err := appChanged(spec, record); changed || err != nil {
		t.Errorf("a paused App has changed: %t, %v", changed, err)
	}
	box := &appv1.ModelBox{}
	box.Spec.Image = "nginx"
	record = string(canonicalJSON(box.Spec))
	box.Spec.Paused = true
	if changed, err := ModelBoxSpec(box).Changed(record, ScopePods); changed || err != nil {
		t.Errorf("a paused ModelBox has changed: %t, %v", changed, err)
	}
}
