package integration

import (
	"fmt"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appv1 "huolala.cn/app-operator/api/v1"
	"huolala.cn/app-operator/test/fixture"
)

// leastSpecs are the smallest specs that the schema takes, by kind, AppDefaults among them.
var leastSpecs = map[string]string{
	"App":              `{image: a}`,
	"ModelBox":         `{image: a}`,
	"UnitedDeployment": `{deploymentName: a, replicas: 1, template: {image: a}}`,
	"CloudManager":     `{front: {deployment: {image: a}}, identity: {deployment: {image: a}}, db: {statefulSet: {image: a, storage: {size: 1Gi}}}}`,
	"Task":             `{image: a, schedule: "@daily"}`,
	"AppDefaults":      `{}`,
}

// eachLeast returns a resource of each kind with the smallest spec, in the order of resource.Kinds, and AppDefaults.
func eachLeast(t *testing.T, namespace string) []*unstructured.Unstructured {
	t.Helper()
	var all []*unstructured.Unstructured
	add := func(kind string) {
		spec, ok := leastSpecs[kind]
		if !ok {
			t.Fatalf("the kind %s has no smallest spec", kind)
		}
		obj := parseApp(t, namespace, appv1.AppDefaultsName, spec)
		obj.SetKind(kind)
		all = append(all, obj)
	}
	for _, k := range fixture.Kinds {
		add(k.Name)
	}
	add("AppDefaults")
	return all
}

// TestStatusBeforeTheOperator makes one of each kind where no operator runs: its status says that nobody has looked at it yet,
// which kstatus, and with it Flux and kubectl wait, take for a resource in progress.
func TestStatusBeforeTheOperator(t *testing.T) {
	t.Parallel()
	ns, second := plane.Namespace(t), plane.Namespace(t)
	const conditions = `[{"type":"Ready","status":"%s","reason":"Test","message":"","lastTransitionTime":"2026-01-01T00:00:00Z"}]`
	for _, obj := range eachLeast(t, ns) {
		kind := obj.GetKind()
		if err := unstructured.SetNestedField(obj.Object, fromYAML(t, fmt.Sprintf(conditions, "True")), "status", "conditions"); err != nil {
			t.Fatal(err)
		}
		applied := obj.DeepCopy()
		applied.SetNamespace(second)
		unstructured.RemoveNestedField(applied.Object, "status")
		plane.Create(t, obj)
		if err := plane.Client.Patch(t.Context(), applied, client.Apply, client.FieldOwner("test")); err != nil { //nolint:staticcheck // An unstructured object has no apply configuration.
			t.Fatal(err)
		}
		for _, made := range []*unstructured.Unstructured{obj, applied} {
			if n := observedGeneration(made); n != -1 {
				t.Errorf("%s %s: observedGeneration is %d in the answer, want -1", kind, made.GetNamespace(), n)
			}
			plane.Read(t, made)
			if n := observedGeneration(made); n != -1 {
				t.Errorf("%s %s: observedGeneration is %d, want -1", kind, made.GetNamespace(), n)
			}
		}
		// A write of a part of the status keeps the rest.
		patch := client.RawPatch(types.MergePatchType, []byte(`{"status":{"conditions":`+fmt.Sprintf(conditions, "False")+`}}`))
		if err := plane.Client.Status().Patch(t.Context(), obj, patch); err != nil {
			t.Fatal(err)
		}
		if n := observedGeneration(obj); n != -1 {
			t.Errorf("%s: observedGeneration is %d after a write of the status, want -1", kind, n)
		}
		if written, _, _ := unstructured.NestedSlice(obj.Object, "status", "conditions"); len(written) != 1 {
			t.Errorf("%s: the conditions are %v after a write of the status", kind, written)
		}
	}
}

// observedGeneration returns status.observedGeneration, 0 if it is not there.
func observedGeneration(obj *unstructured.Unstructured) int64 {
	n, _, _ := unstructured.NestedInt64(obj.Object, "status", "observedGeneration")
	return n
}
