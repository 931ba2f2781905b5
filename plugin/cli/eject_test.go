package cli

import (
	"fmt"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	appv1 "huolala.cn/app-operator/api/v1"
)

// TestEjectRemovesMarks prints a child, and removes from it the marks that the operator alone has set, and nothing that another manager has set,
// too: from a child of a type, such as a Deployment, and from an unstructured child, as those around the pods are.
func TestEjectRemovesMarks(t *testing.T) {
	const hash, note = appv1.AnnotationLastAppliedHash, "note"
	owns := func(manager string, op metav1.ManagedFieldsOperationType, labels, annotations []string) metav1.ManagedFieldsEntry {
		set := func(keys []string) string {
			var fields []string
			for _, key := range keys {
				fields = append(fields, fmt.Sprintf(`"f:%s":{}`, key))
			}
			return "{" + strings.Join(fields, ",") + "}"
		}
		return metav1.ManagedFieldsEntry{
			Manager: manager, Operation: op, FieldsType: "FieldsV1",
			FieldsV1: metav1.NewFieldsV1(`{"f:metadata":{"f:labels":` + set(labels) + `,"f:annotations":` + set(annotations) + `}}`),
		}
	}
	labels, annotations := []string{appv1.LabelManagedBy, appv1.LabelName, "team"}, []string{hash, note, appv1.AnnotationRetainedFor}
	ours := owns("app-operator/app", metav1.ManagedFieldsOperationApply, labels, annotations)
	for name, c := range map[string]struct {
		fields []metav1.ManagedFieldsEntry
		want   string
	}{
		"the operator alone": {[]metav1.ManagedFieldsEntry{ours},
			`{"metadata":{"annotations":{"app.huolala.cn/last-applied-hash":null},"labels":{"app.kubernetes.io/managed-by":null},"uid":"1"}}`},
		"another manager, too": {[]metav1.ManagedFieldsEntry{ours, owns("helm", metav1.ManagedFieldsOperationUpdate, labels, []string{note})},
			`{"metadata":{"annotations":{"app.huolala.cn/last-applied-hash":null},"uid":"1"}}`},
		"others alone": {[]metav1.ManagedFieldsEntry{owns("helm", metav1.ManagedFieldsOperationUpdate, labels, annotations)}, ""},
		"nobody":       {nil, ""},
	} {
		d := &appsv1.Deployment{TypeMeta: metav1.TypeMeta{APIVersion: "apps/v1", Kind: "Deployment"}, ObjectMeta: objectMeta("web")}
		d.Labels = map[string]string{appv1.LabelManagedBy: appv1.ManagedBy, appv1.LabelName: "web", "team": "a"}
		d.Annotations = map[string]string{hash: "x", note: "y", appv1.AnnotationRetainedFor: "App.web"}
		d.ManagedFields = c.fields
		tree, err := runtime.DefaultUnstructuredConverter.ToUnstructured(d)
		if err != nil {
			t.Fatal(err)
		}
		for _, child := range []object{d, &unstructured.Unstructured{Object: tree}} {
			f := newFakeServer(t, map[string]runtime.Object{"deployments/web": d})
			if _, err := manifestOf(child); err != nil {
				t.Fatal(err)
			}
			if err := f.clients(t).removeMarks(t.Context(), child); err != nil {
				t.Errorf("%s, %T: %v", name, child, err)
			}
			sent := strings.Join(f.writes, "\n")
			if !strings.HasSuffix(sent, c.want) || (sent == "") != (c.want == "") {
				t.Errorf("%s, %T: %s is sent, want %s", name, child, sent, c.want)
			}
		}
	}
}
