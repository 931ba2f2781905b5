package resource

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"

	appv1 "huolala.cn/app-operator/api/v1"
)

// TestStatedNameIsNoChange compares a ModelBox whose default name is stated with one that leaves it out, by each kind of
// record. Which of the two was recorded must not matter.
func TestStatedNameIsNoChange(t *testing.T) {
	long := make([]corev1.EnvVar, 8000)
	for i := range long {
		sum := sha256.Sum256(fmt.Append(nil, i))
		long[i] = corev1.EnvVar{Name: fmt.Sprint("V", i), Value: hex.EncodeToString(sum[:])}
	}
	for what, envs := range map[string][]corev1.EnvVar{"plain": nil, "compressed": long[:800], "hashed": long} {
		for _, c := range []struct {
			then, now string
			changed   bool
		}{
			{"", "", false}, {"", "box", false}, {"box", "", false}, {"box", "box", false}, {"main", "main", false},
			{"", "main", true}, {"main", "", true}, {"box", "main", true},
		} {
			box := func(name string) *appv1.ModelBox {
				b := &appv1.ModelBox{}
				b.Name, b.Spec.Name, b.Spec.Image, b.Spec.Envs = "box", name, "a:1", envs
				return b
			}
			w, errs := ModelBox(box(c.then), BuildOptions{})
			if len(errs) > 0 {
				t.Fatal(errs)
			}
			if w.Recorded == (what == "hashed") {
				t.Fatalf("%s: the record is %.20s", what, w.Record[appv1.AnnotationLastAppliedSpec])
			}
			changed, err := ModelBoxSpec(box(c.now)).Changed(w.Record[appv1.AnnotationLastAppliedSpec], ScopePods)
			if err != nil || changed != c.changed {
				t.Errorf("%s, name %q after %q: changed is %t (%v), want %t", what, c.now, c.then, changed, err, c.changed)
			}
		}
	}
}

// TestDefaultContainerName builds ModelBoxes with a default containerName. The name that a ModelBox states in its former field takes precedence,
// unless it is the name that the webhook sets.
func TestDefaultContainerName(t *testing.T) {
	present := LayerDefaults(defaultsSpecOf(t, "defaults: {containerName: main}"))
	for _, c := range []struct{ name, container, want string }{
		{"nginx", "", "nginx"}, {"", "", "main"}, {"box", "", "main"}, {"", "own", "own"}, {"own", "own", "own"},
	} {
		box := &appv1.ModelBox{}
		box.Name, box.Spec.Name, box.Spec.ContainerName, box.Spec.Image = "box", c.name, c.container, "a:1"
		spec := ModelBoxSpec(box)
		inputs := BuildInputs{Rendering: RenderingLatest, Defaults: TakeDefaults(&present, spec)}
		w, errs := spec.Build(BuildOptions{Inputs: inputs})
		if errs = append(errs, spec.WithDefaults(inputs.Defaults).Validate()...); len(errs) > 0 || w.Template.Spec.Containers[0].Name != c.want {
			t.Errorf("%+v: the container is %s: %v", c, w.Template.Spec.Containers[0].Name, errs)
		}
	}
}
