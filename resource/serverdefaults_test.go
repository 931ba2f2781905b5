package resource

import (
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
