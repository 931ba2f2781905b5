package describe_test

import (
	"reflect"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/utils/ptr"

	"huolala.cn/app-operator/internal/describe"
	"huolala.cn/app-operator/internal/fields"
)

// TestDescribeValues has differences of objects that are the owner's, and of ones that are not.
func TestDescribeValues(t *testing.T) {
	c := fields.NewComparer(scheme.Scheme)
	deployment := func(image, value string, replicas int32) *appsv1.Deployment {
		d := &appsv1.Deployment{}
		d.Spec.Replicas = ptr.To(replicas)
		d.Spec.Template.Spec.Containers = []corev1.Container{{Name: "web", Image: image, Args: []string{value}, Env: []corev1.EnvVar{{Name: "A", Value: value}}}}
		d.Spec.Template.Annotations = map[string]string{"note": value}
		d.Spec.Template.Spec.NodeSelector = map[string]string{"zone": value}
		return d
	}
	before, after := deployment("a:1", "hunter1", 1), deployment("a:2", "hunter2", 2)
	for _, ours := range []bool{true, false} {
		found, err := describe.Differences(c, "app-operator/app", before, after, ours)
		if err != nil {
			t.Fatal(err)
		}
		said := map[string]string{}
		for _, d := range found {
			said[d.Path] = ptr.Deref(d.To, "-")
			if d.From != nil {
				t.Errorf("%s was %s, and was not the manager's", d.Path, *d.From)
			}
		}
		want := map[string]string{
			"replicas": "2", "template.containers[web].image": "a:2", "template.containers[web].args": "-", "template.containers[web].env[A]": "-",
			"template.metadata.annotations[note]": "-", "template.nodeSelector": "-",
		}
		if !ours {
			want["replicas"], want["template.containers[web].image"] = "-", "-"
		}
		if !reflect.DeepEqual(said, want) {
			t.Errorf("ours %t: %v", ours, said)
		}
	}
	secret := func(value string) *corev1.Secret {
		return &corev1.Secret{Type: corev1.SecretType(value), Data: map[string][]byte{"password": []byte(value)}}
	}
	found, err := describe.Differences(c, "app-operator/app", secret("a"), secret("b"), true)
	if err != nil || len(found) == 0 {
		t.Fatalf("%v, %v", found, err)
	}
	for _, d := range found {
		if d.From != nil || d.To != nil {
			t.Errorf("of a Secret %s is shown", d.Path)
		}
	}
}
