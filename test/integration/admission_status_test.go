package integration

import (
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// TestStatusBeforeTheOperator makes one of each kind where no operator runs: its status says that nobody has looked at it yet,
// which kstatus, and with it Flux and kubectl wait, take for a resource in progress.
func TestStatusBeforeTheOperator(t *testing.T) {
	t.Parallel()
	ns := plane.Namespace(t)
	for kind, spec := range map[string]string{
		"App":              `{image: a}`,
		"ModelBox":         `{image: a}`,
		"UnitedDeployment": `{deploymentName: a, replicas: 1}`,
		"CloudManager":     `{front: {deployment: {image: a}}, identity: {deployment: {image: a}}, db: {statefulSet: {image: a, storage: {size: 1Gi}}}}`,
	} {
		obj := parseApp(t, ns, "unseen", spec)
		obj.SetKind(kind)
		if err := unstructured.SetNestedField(obj.Object, "1/1", "status", "ready"); err != nil {
			t.Fatal(err)
		}
		applied := obj.DeepCopy()
		applied.SetName("applied")
		unstructured.RemoveNestedField(applied.Object, "status")
		plane.Create(t, obj)
		if err := plane.Client.Patch(t.Context(), applied, client.Apply, client.FieldOwner("test")); err != nil { //nolint:staticcheck // An unstructured object has no apply configuration.
			t.Fatal(err)
		}
		for _, made := range []*unstructured.Unstructured{obj, applied} {
			if n := observedGeneration(made); n != -1 {
				t.Errorf("%s %s: observedGeneration is %d in the answer, want -1", kind, made.GetName(), n)
			}
			plane.Read(t, made)
			if n := observedGeneration(made); n != -1 {
				t.Errorf("%s %s: observedGeneration is %d, want -1", kind, made.GetName(), n)
			}
		}
		// A write of a part of the status keeps the rest.
		patch := client.RawPatch(types.MergePatchType, []byte(`{"status":{"ready":"0/1"}}`))
		if err := plane.Client.Status().Patch(t.Context(), obj, patch); err != nil {
			t.Fatal(err)
		}
		if n := observedGeneration(obj); n != -1 {
			t.Errorf("%s: observedGeneration is %d after a write of the status, want -1", kind, n)
		}
	}
}

// observedGeneration returns status.observedGeneration, 0 if it is not there.
func observedGeneration(obj *unstructured.Unstructured) int64 {
	n, _, _ := unstructured.NestedInt64(obj.Object, "status", "observedGeneration")
	return n
}
