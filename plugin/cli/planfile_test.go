package cli

import (
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"huolala.cn/app-operator/api/plan"
	appv1 "huolala.cn/app-operator/api/v1"
)

// answeredPlan is the operator's answer to a dry run: a plan for the App web.
func answeredPlan(t *testing.T, p *plan.Plan) *metav1.Status {
	t.Helper()
	p.Version, p.Kind, p.Namespace, p.Name = plan.Version, "App", namespaceOfTests, "web"
	data, err := json.Marshal(p)
	if err != nil {
		t.Fatal(err)
	}
	return status(&apierrors.StatusError{ErrStatus: metav1.Status{
		Status: metav1.StatusFailure, Code: http.StatusUnprocessableEntity, Reason: plan.ReasonAnswered,
		Details: &metav1.StatusDetails{Causes: []metav1.StatusCause{{Type: plan.CauseAnswered, Message: string(data)}}},
	}})
}

// planned answers a dry run with a plan of no changes.
func planned(t *testing.T) *metav1.Status {
	t.Helper()
	return answeredPlan(t, &plan.Plan{})
}

// planServer returns a server with the App web, which answers each dry run with a plan of no changes.
func planServer(t *testing.T) *fakeServer {
	t.Helper()
	f := newFakeServer(t, map[string]runtime.Object{"apps/web": &appv1.App{ObjectMeta: objectMeta("web")}})
	f.answer = func(q *http.Request, _ string) runtime.Object {
		if q.URL.Query().Get("dryRun") != "" {
			return planned(t)
		}
		return nil
	}
	return f
}

// manifestFile writes a manifest into a file, and returns its path.
func manifestFile(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "a.yaml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

const webManifest = "apiVersion: app.huolala.cn/v1\nkind: App\nmetadata: {name: web}\nspec: {image: 'nginx:1'}\n"

// TestPlanOfConflicts plans an apply, which is forced where it conflicts with another manager: a warning names it and the fields.
func TestPlanOfConflicts(t *testing.T) {
	conflict := &apierrors.StatusError{ErrStatus: metav1.Status{
		Status: metav1.StatusFailure, Code: http.StatusConflict, Reason: metav1.StatusReasonConflict, Message: "Apply failed with 1 conflict",
		Details: &metav1.StatusDetails{Causes: []metav1.StatusCause{{
			Type: metav1.CauseTypeFieldManagerConflict, Field: ".spec.image", Message: `conflict with "kubectl-edit" using app.huolala.cn/v1`,
		}}},
	}}
	for name, c := range map[string]struct {
		args      []string
		conflicts bool
		warned    bool
	}{
		"a conflict":         {[]string{"--field-manager", "ci"}, true, true},
		"no conflict":        {[]string{"--field-manager", "ci"}, false, false},
		"client-side apply":  {nil, true, false},
		"of another manager": {[]string{"--field-manager=other"}, true, true},
	} {
		f := newFakeServer(t, map[string]runtime.Object{"apps/web": &appv1.App{ObjectMeta: objectMeta("web")}})
		f.answer = func(q *http.Request, _ string) runtime.Object {
			apply := q.Header.Get("Content-Type") == "application/apply-patch+yaml"
			switch {
			case q.Method != http.MethodPatch:
				return nil
			case apply && c.conflicts && q.URL.Query().Get("force") != "true":
				return status(conflict)
			}
			return planned(t)
		}
		code, out, said := f.run(t, append([]string{"plan", "-f", manifestFile(t, webManifest)}, c.args...)...)
		want := `spec.image is owned by "kubectl-edit" using app.huolala.cn/v1. It needs --force-conflicts`
		if code != 0 || !strings.Contains(out, "nothing changes") || (strings.Count(said, want) == 1) != c.warned || (said == "") == c.warned {
			t.Errorf("%s: exit status %d\n%s%s", name, code, out, said)
		}
	}
}

// TestPlanOfFilesRefuses has files with what cannot be planned.
func TestPlanOfFilesRefuses(t *testing.T) {
	f := newFakeServer(t, map[string]runtime.Object{"apps/web": &appv1.App{ObjectMeta: objectMeta("web")}})
	f.answer = func(q *http.Request, _ string) runtime.Object {
		if q.Method == http.MethodPatch {
			return planned(t)
		}
		return nil
	}
	for text, want := range map[string]string{
		webManifest + "---\n" + webManifest: "App shop/web is there twice; remove one of the two",
		webManifest + "---\n" + strings.ReplaceAll(webManifest, "name: web", "name: web, namespace: shop"): "App shop/web is there twice",
		strings.ReplaceAll(webManifest, "name: web", "generateName: web"):                                  "a resource of the kind App has no metadata.name",
	} {
		if code, out, said := f.run(t, "plan", "-f", manifestFile(t, text)); code != exitError || out != "" || !strings.Contains(said, want) {
			t.Errorf("%q: exit status %d\n%s%s", text, code, out, said)
		}
	}
}

// TestNotPlanned names an object that is no resource with a plan of its own, and where the plan of AppDefaults is.
func TestNotPlanned(t *testing.T) {
	for apiVersion, want := range map[string]string{
		"v1":                        "Not planned: AppDefaults x, which is no resource of app-operator",
		appv1.GroupVersion.String(): "Not planned: AppDefaults x, whose plan is about many Apps; a server-side dry run of its apply prints it",
	} {
		obj := &unstructured.Unstructured{}
		obj.SetAPIVersion(apiVersion)
		obj.SetKind("AppDefaults")
		obj.SetName("x")
		if got := notPlanned(obj); got != want {
			t.Errorf("%s: %s", apiVersion, got)
		}
	}
}
