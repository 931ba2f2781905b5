package cli

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/ptr"

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

// TestEjectKeepsFiles ejects into a folder that has a file of the same name with another content: the error names the file, no file is written, and
// nothing is deleted. A file with the same content is no obstacle.
func TestEjectKeepsFiles(t *testing.T) {
	app := &appv1.App{ObjectMeta: objectMeta("web")}
	owners := []metav1.OwnerReference{{UID: app.UID, Controller: ptr.To(true)}}
	d, service := appsv1.Deployment{ObjectMeta: objectMeta("web")}, corev1.Service{ObjectMeta: objectMeta("web")}
	d.OwnerReferences, service.OwnerReferences = owners, owners
	f := newFakeServer(t, map[string]runtime.Object{"apps/web": app})
	f.answer = func(q *http.Request, _ string) runtime.Object {
		switch {
		case q.Method != http.MethodGet:
			return nil
		case strings.HasSuffix(q.URL.Path, "/deployments"):
			return &appsv1.DeploymentList{Items: []appsv1.Deployment{d}}
		case strings.HasSuffix(q.URL.Path, "/services"):
			return &corev1.ServiceList{Items: []corev1.Service{service}}
		}
		return nil
	}
	folder := t.TempDir()
	file := filepath.Join(folder, "service-web.yaml")
	if err := os.WriteFile(file, []byte("edited"), 0o600); err != nil {
		t.Fatal(err)
	}
	code, out, said := f.run(t, "eject", "web", "-o", folder, "--delete", "--yes")
	if code != 1 || !strings.Contains(said, file+" exists; remove it, or write into another folder") || strings.Contains(out, "Wrote") || len(f.writes) > 0 {
		t.Errorf("exit status %d, writes %q\n%s%s", code, f.writes, out, said)
	}
	text, err := os.ReadFile(file)
	if entries, unread := os.ReadDir(folder); err != nil || unread != nil || string(text) != "edited" || len(entries) != 1 {
		t.Errorf("%v, %v: the file has %q, the folder %v", err, unread, text, entries)
	}
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	if code, out, said := f.run(t, "eject", "web", "-o", folder); code != 0 || strings.Count(out, "Wrote ") != 2 {
		t.Errorf("into an empty folder: exit status %d\n%s%s", code, out, said)
	}
	code, out, said = f.run(t, "eject", "web", "-o", folder, "--delete", "--yes")
	if code != 0 || strings.Count(out, "Unchanged ") != 2 || !strings.HasPrefix(strings.Join(f.writes, ""), "DELETE ") {
		t.Errorf("a second time: exit status %d, writes %q\n%s%s", code, f.writes, out, said)
	}
}
