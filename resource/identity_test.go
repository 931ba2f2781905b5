package resource

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/ptr"

	appv1 "huolala.cn/app-operator/api/v1"
)

// specWith returns a spec that has the object around a former default and, unless value is empty, that field itself.
func specWith(t *testing.T, path, value string) *appv1.AppSpec {
	t.Helper()
	names := strings.Split(path, ".")
	last := len(names) - 1
	around := map[string]any{}
	if value != "" {
		around[names[last]] = json.RawMessage(value)
	}
	var node any = around
	for _, name := range slices.Backward(names[:last]) {
		if name == "[]" {
			node = []any{node}
		} else {
			node = map[string]any{name: node}
		}
	}
	tree := node.(map[string]any)
	tree["image"] = "nginx"
	spec := &appv1.AppSpec{}
	if err := json.Unmarshal(canonical(tree), spec); err != nil {
		t.Fatal(err)
	}
	return spec
}

func identityOfApp(spec *appv1.AppSpec) string { return string(identityMeta(spec, appWorkload)) }

// TestIdentityStatesFormerDefaults checks for each default that the schema had that a spec is the same with and without it, and
// another one with another value.
func TestIdentityStatesFormerDefaults(t *testing.T) {
	if len(formerDefaults) < 48 {
		t.Fatalf("the table has %d defaults only", len(formerDefaults))
	}
	for _, d := range formerDefaults {
		with, without := specWith(t, d.path, d.value), specWith(t, d.path, "")
		if identityOfApp(with) != identityOfApp(without) {
			t.Errorf("%s: %s is not the same as nothing", d.path, d.value)
		}
		if changed, err := appChanged(without, string(canonical(with))); changed || err != nil {
			t.Errorf("%s: the spec without %s differs from a record with it: %t, %v", d.path, d.value, changed, err)
		}
		other := map[byte]string{'"': `"other"`, 'f': "true", '1': "2"}[d.value[0]]
		if same := identityOfApp(specWith(t, d.path, other)) == identityOfApp(without); same != (d.path == "replicas") {
			t.Errorf("%s: %s is the same as %s: %t", d.path, other, d.value, same)
		}
	}
}

// TestIdentityOfTheTemplatePatch checks that the patch's name is no part of it, and what it says is.
func TestIdentityOfTheTemplatePatch(t *testing.T) {
	patch := func(text string) *runtime.RawExtension { return &runtime.RawExtension{Raw: []byte(text)} }
	spec := func(former, present *runtime.RawExtension) *appv1.AppSpec {
		s := &appv1.AppSpec{}
		s.Image, s.PodTemplate, s.PodTemplatePatch = "nginx", former, present
		return s
	}
	former, present := spec(patch(`{"spec":{}}`), nil), spec(nil, patch(`{"spec":{}}`))
	if identityOfApp(former) != identityOfApp(present) {
		t.Error("the patch is another one under its present name")
	}
	if identityOfApp(present) == identityOfApp(spec(nil, patch(`{"metadata":{}}`))) {
		t.Error("another patch is the same")
	}
}

// TestIdentityLeavesPausedOut checks that to pause a resource changes nothing about its pods.
func TestIdentityLeavesPausedOut(t *testing.T) {
	spec := &appv1.AppSpec{}
	spec.Image = "nginx"
	record := string(canonical(spec))
	spec.Paused = true
	if changed, err := appChanged(spec, record); changed || err != nil {
		t.Errorf("a paused App has changed: %t, %v", changed, err)
	}
	box := &appv1.ModelBox{}
	box.Spec.Image = "nginx"
	record = string(canonical(box.Spec))
	box.Spec.Paused = true
	if changed, err := ModelBoxSpec(box).Changed(record, ScopePods); changed || err != nil {
		t.Errorf("a paused ModelBox has changed: %t, %v", changed, err)
	}
}

// formerIdentity is the identity of the releases whose schema stated all former defaults. Records that hold no spec have its hash.
func formerIdentity(spec *appv1.AppSpec) json.RawMessage {
	copied := spec.DeepCopy()
	w := &copied.WorkloadSpec
	w.Replicas = nil
	w.ImagePullPolicy = pullPolicy(w)
	w.Resources = resources(w.Resources)
	for i := range w.Ports {
		w.Ports[i].Protocol = portProtocol(w.Ports[i])
		w.Ports[i].TargetPort = ptr.To(targetPort(w.Ports[i]))
	}
	return canonical(copied)
}

// TestIdentityKeepsFormerHashes checks that the hash of a former record is that of the spec it was made of.
func TestIdentityKeepsFormerHashes(t *testing.T) {
	for _, d := range formerDefaults {
		spec := specWith(t, d.path, d.value)
		spec.Replicas = ptr.To[int32](3)
		spec.Ports = []appv1.Port{{Port: 80}}
		spec.PodTemplate = &runtime.RawExtension{Raw: []byte(`{"metadata":{"annotations":{"a":"<1e3>"}},"spec":{"x":1.50}}`)}
		if d.path == "ports.[].protocol" {
			continue // It is stated anyway.
		}
		// What the former schema has stated around the field is stated here, too.
		stated := &appv1.AppSpec{}
		if err := json.Unmarshal(withFormerDefaults(canonical(spec)), stated); err != nil {
			t.Fatal(err)
		}
		record := hashSpec(formerIdentity(stated))
		if changed, err := appChanged(spec, record); changed || err != nil {
			t.Errorf("%s: the spec differs from its former record: %t, %v", d.path, changed, err)
		}
	}
}
