package cli

import (
	"net/http"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	appv1 "huolala.cn/app-operator/api/v1"
)

// TestRefreshTakesKeptTemplates has the resources that refresh --all refreshes: outdated ones, and those with the pod template of before an
// adoption. The list names the latter.
func TestRefreshTakesKeptTemplates(t *testing.T) {
	apps := &appv1.AppList{TypeMeta: metav1.TypeMeta{APIVersion: appv1.GroupVersion.String(), Kind: "AppList"}}
	objects := map[string]runtime.Object{}
	for name, applied := range map[string]string{"kept": appv1.ReasonTemplateKept, "plain": "Applied", "outdated": "Applied"} {
		app := appv1.App{ObjectMeta: objectMeta(name)}
		app.Status.Conditions = []metav1.Condition{
			{Type: appv1.ConditionReady, Status: metav1.ConditionTrue, Reason: appv1.ReasonReady, Message: "all is well"},
			{Type: appv1.ConditionApplied, Status: metav1.ConditionTrue, Reason: applied},
		}
		if name == "outdated" {
			app.Status.LatestRendering = 2
		}
		apps.Items = append(apps.Items, app)
		objects["apps/"+name] = &app
	}
	f := newFakeServer(t, objects)
	f.answer = func(q *http.Request, _ string) runtime.Object {
		if strings.HasSuffix(q.URL.Path, "/namespaces/"+namespaceOfTests+"/apps") {
			return apps
		}
		return nil
	}
	code, out, said := f.run(t, "refresh", "--all", "--yes")
	if code != 0 || len(f.writes) != 2 || !strings.Contains(out, "shop/kept refreshed") || !strings.Contains(out, "shop/outdated refreshed") {
		t.Errorf("exit status %d, %s%s, writes %q", code, out, said, f.writes)
	}
	_, out, _ = f.run(t, "list")
	for line := range strings.Lines(out) {
		if strings.Contains(line, "App/kept") != strings.Contains(line, "TemplateKept") {
			t.Errorf("list: %q", line)
		}
	}
}
