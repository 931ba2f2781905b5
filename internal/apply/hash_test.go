package apply

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"huolala.cn/app-operator/internal/fields"
	"huolala.cn/app-operator/internal/fields/fieldtest"
)

const owner = fieldtest.Owner

func literalOf(t testing.TB, obj client.Object) map[string]any {
	t.Helper()
	literal, err := fields.Literal(obj)
	if err != nil {
		t.Fatal(err)
	}
	return literal
}

func hashOf(t testing.TB, obj client.Object) string {
	t.Helper()
	sum, err := hashObject(obj, "")
	if err != nil {
		t.Fatal(err)
	}
	return sum
}

func TestHash(t *testing.T) {
	sum := hashOf(t, fieldtest.Deployment())
	for name, c := range map[string]struct {
		change func(*appsv1.Deployment)
		same   bool
	}{
		"nothing":            {func(*appsv1.Deployment) {}, true},
		"replicas":           {func(d *appsv1.Deployment) { d.Spec.Replicas = ptr.To[int32](9) }, true},
		"replicas given up":  {func(d *appsv1.Deployment) { d.Spec.Replicas = nil }, true},
		"status":             {func(d *appsv1.Deployment) { d.Status.Replicas = 9 }, true},
		"image":              {func(d *appsv1.Deployment) { d.Spec.Template.Spec.Containers[0].Image = "nginx:2" }, false},
		"order of variables": {func(d *appsv1.Deployment) { slices.Reverse(d.Spec.Template.Spec.Containers[0].Env) }, false},
		"label":              {func(d *appsv1.Deployment) { d.Labels = map[string]string{"app": "web", "more": "1"} }, false},
		"annotation":         {func(d *appsv1.Deployment) { d.Annotations = map[string]string{"a": "b"} }, false},
		"owner":              {func(d *appsv1.Deployment) { d.OwnerReferences[0].UID = "another" }, false},
		"name":               {func(d *appsv1.Deployment) { d.Name = "other" }, false},
	} {
		t.Run(name, func(t *testing.T) {
			d := fieldtest.Deployment()
			c.change(d)
			if got := hashOf(t, d) == sum; got != c.same {
				t.Errorf("the hash is the same: %t, want %t", got, c.same)
			}
		})
	}
}

// TestHashIsKept fails where hashes come out another way than they did, be it by a newer library: each child of every
// cluster is then written once after the upgrade. Where that has to be, the new hash goes in here, and a word into the release
// notes.
func TestHashIsKept(t *testing.T) {
	const kept = "5e2e0540f94e4e77a2a1b5b730eadff5"
	if sum := hashOf(t, fieldtest.Deployment()); sum != kept {
		t.Errorf("the hash of the same Deployment is %s, it was %s", sum, kept)
	}
}

// TestHashLeavesTheObject checks that what is sent is what was hashed, with replicas and values too.
func TestHashLeavesTheObject(t *testing.T) {
	secret := wantedSecret()
	secret.Data = map[string][]byte{"a": []byte("1")}
	for _, obj := range []client.Object{fieldtest.Deployment(), &appsv1.StatefulSet{Spec: appsv1.StatefulSetSpec{Replicas: ptr.To[int32](1)}}, secret} {
		before := obj.DeepCopyObject()
		sum := hashOf(t, obj)
		more, err := withAnnotation(obj, "sum", sum)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(before, obj); diff != "" {
			t.Errorf("%T was changed (-before +after):\n%s", obj, diff)
		}
		if more.GetAnnotations()["sum"] != sum {
			t.Errorf("%T does not state its hash: %v", obj, more.GetAnnotations())
		}
		if again := hashOf(t, obj); again != sum {
			t.Errorf("%T hashed again: %s, want %s", obj, again, sum)
		}
	}
}

func TestBody(t *testing.T) {
	fields := literalOf(t, fieldtest.Deployment())
	data, err := applyBody(fields, map[string]string{"uid": "live-uid"})
	if err != nil {
		t.Fatal(err)
	}
	var got appsv1.Deployment
	if err := json.Unmarshal(data, &got); err != nil {
		t.Fatal(err)
	}
	want := fieldtest.Deployment()
	want.UID = "live-uid"
	if diff := cmp.Diff(want, &got); diff != "" {
		t.Errorf("body (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(literalOf(t, fieldtest.Deployment()), fields); diff != "" {
		t.Errorf("the fields were changed (-before +after):\n%s", diff)
	}
}

// TestBodyIsYAML checks that the API server reads the body as it was meant: it takes an apply request for YAML, in which
// fewer characters may stand for themselves than in JSON.
func TestBodyIsYAML(t *testing.T) {
	var every strings.Builder
	for r := rune(1); r <= 0x1_1000; r++ {
		if utf8.ValidRune(r) {
			every.WriteRune(r)
		}
	}
	d := fieldtest.Deployment()
	d.Spec.Template.Spec.Containers[0].Env[0].Value = every.String()
	data, err := applyBody(literalOf(t, d), nil)
	if err != nil {
		t.Fatal(err)
	}
	var got appsv1.Deployment
	if err := yaml.Unmarshal(data, &got); err != nil {
		t.Fatal(err)
	}
	if got.Spec.Template.Spec.Containers[0].Env[0].Value != every.String() {
		t.Error("read as YAML, the value is another")
	}
}

const apply, updateOp = metav1.ManagedFieldsOperationApply, metav1.ManagedFieldsOperationUpdate

func TestOwners(t *testing.T) {
	mine := metav1.OwnerReference{UID: "1", Controller: ptr.To(true)}
	dead := metav1.OwnerReference{UID: "2", Controller: ptr.To(true)}
	plain := metav1.OwnerReference{UID: "3", Controller: ptr.To(false)}
	plainer := metav1.OwnerReference{UID: "4"}
	all := []metav1.OwnerReference{plain, dead, mine, plainer}
	owned, retained := &objectPlan{subject: subject{object: &Object{}}}, &objectPlan{subject: subject{object: &Object{Retained: true}}}
	if diff := cmp.Diff([]metav1.OwnerReference{plain, mine, plainer}, owned.ownerReferences(all, "1")); diff != "" {
		t.Errorf("owner references (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]metav1.OwnerReference{plain, plainer}, retained.ownerReferences(all, "1")); diff != "" {
		t.Errorf("owner references of a retained object (-want +got):\n%s", diff)
	}
	if got := owned.ownerReferences(nil, "1"); got == nil || len(got) != 0 {
		t.Errorf("none become %#v, want an empty list: it replaces the one that lives", got)
	}
}
