package resource

import (
	"reflect"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
)

// TestPullPolicies has images for which the API server would choose one policy or the other.
func TestPullPolicies(t *testing.T) {
	for image, want := range map[string]corev1.PullPolicy{
		"nginx":                              corev1.PullAlways,
		"nginx:latest":                       corev1.PullAlways,
		"nginx:1":                            corev1.PullIfNotPresent,
		"registry.example.com:5000/nginx":    corev1.PullAlways,
		"registry.example.com:5000/a/b:v1.2": corev1.PullIfNotPresent,
		"nginx@sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855":        corev1.PullIfNotPresent,
		"nginx:latest@sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855": corev1.PullAlways,
		"": corev1.PullIfNotPresent,
	} {
		pod := corev1.PodSpec{
			InitContainers: []corev1.Container{{Image: image}},
			Containers:     []corev1.Container{{Image: image}, {Image: image, ImagePullPolicy: corev1.PullNever}},
			Volumes:        []corev1.Volume{{VolumeSource: corev1.VolumeSource{Image: &corev1.ImageVolumeSource{Reference: image}}}},
		}
		applyServerDefaults(&pod)
		for _, got := range []corev1.PullPolicy{pod.InitContainers[0].ImagePullPolicy, pod.Containers[0].ImagePullPolicy, pod.Volumes[0].Image.PullPolicy} {
			if got != want {
				t.Errorf("%q: %s, want %s", image, got, want)
			}
		}
		if got := pod.Containers[1].ImagePullPolicy; got != corev1.PullNever {
			t.Errorf("%q: %s in place of what is stated", image, got)
		}
	}
}

// mayBeNull are the fields of a pod that an object has as null while they are unset, as they have no omitempty, and the reason why that is no difference to the
// object that the API server stores.
var mayBeNull = map[string]string{
	"RBDVolumeSource.CephMonitors":       "required",
	"CephFSVolumeSource.Monitors":        "required",
	"ScaleIOVolumeSource.SecretRef":      "required",
	"PodSpec.Containers":                 "required",
	"NodeSelector.NodeSelectorTerms":     "required",
	"ProjectedVolumeSource.Sources":      "stored as null",
	"TypedLocalObjectReference.APIGroup": "stored as null",
	"TypedObjectReference.APIGroup":      "stored as null",
	"EvictionResponder.Priority":         "required",
	"GRPCAction.Service":                 "set by applyContainerDefaults, as the API server sets it",
}

// TestNullsAreNoDifference walks all fields of a pod: each field that is null while it is unset is known.
func TestNullsAreNoDifference(t *testing.T) {
	visitFields(reflect.TypeFor[corev1.PodSpec](), map[reflect.Type]bool{}, func(typ reflect.Type, f reflect.StructField) {
		tag, kind := f.Tag.Get("json"), f.Type.Kind()
		nullable := kind == reflect.Pointer || kind == reflect.Slice || kind == reflect.Map
		if !nullable || tag == "-" || strings.Contains(tag, "omit") || strings.Contains(tag, "inline") {
			return
		}
		if name := typ.Name() + "." + f.Name; mayBeNull[name] == "" {
			t.Errorf("%s is null while it is unset: is that what the API server stores?", name)
		}
	})
}

// TestProbesByGRPC has a probe without a service in each place of each container: the API server stores an empty one.
func TestProbesByGRPC(t *testing.T) {
	probe := func() *corev1.Probe {
		return &corev1.Probe{ProbeHandler: corev1.ProbeHandler{GRPC: &corev1.GRPCAction{Port: 80}}}
	}
	container := func() corev1.Container {
		return corev1.Container{LivenessProbe: probe(), ReadinessProbe: probe(), StartupProbe: probe()}
	}
	pod := corev1.PodSpec{Containers: []corev1.Container{container(), container()}, InitContainers: []corev1.Container{container()}}
	applyServerDefaults(&pod)
	for _, c := range slices.Concat(pod.Containers, pod.InitContainers) {
		for _, p := range []*corev1.Probe{c.LivenessProbe, c.ReadinessProbe, c.StartupProbe} {
			if p.GRPC.Service == nil || *p.GRPC.Service != "" {
				t.Errorf("the service is %v", p.GRPC.Service)
			}
		}
	}
}
