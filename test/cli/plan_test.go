package cli

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appv1 "huolala.cn/app-operator/api/v1"
	"huolala.cn/app-operator/plugin/view"
	"huolala.cn/app-operator/test/fixture"
	"huolala.cn/app-operator/test/harness"
)

// planner returns an administrator in a namespace whose manager answers plans.
func planner(t *testing.T) *user {
	t.Helper()
	ns := plane.Namespace(t)
	plane.Start(t, ns, harness.WithWebhooks(plane.Webhooks(t, ns)))
	u := as(t, plane.Config, ns)
	harness.Eventually(t, func() error {
		code, out, said := u.try("plan", "-f", written(t, newFile(ns, "probe", "nginx:1")))
		if code == 1 && strings.Contains(out, "App "+ns+"/probe (new)") {
			return nil
		}
		return errors.New(out + said)
	})
	return u
}

// newFile is the manifest of an App as a user writes it.
func newFile(ns, name, image string) map[string]any {
	return map[string]any{
		"apiVersion": appv1.GroupVersion.String(), "kind": "App", "metadata": map[string]any{"name": name, "namespace": ns},
		"spec": map[string]any{"image": image, "replicas": 2, "ports": []any{map[string]any{"port": 80}}},
	}
}

// written writes a manifest into a file and returns its path.
func written(t *testing.T, manifest map[string]any) string {
	t.Helper()
	data, err := json.Marshal(manifest)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "app.json")
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// TestPlanOfAWayBack plans the end of a rollout that fails: the pods that serve run what is wanted, and stay.
func TestPlanOfAWayBack(t *testing.T) {
	t.Parallel()
	u := planner(t)
	app := newApp(t, u, "nginx:1")
	u.run("wait", "web")
	pods := func() []string {
		var list corev1.PodList
		if err := plane.Client.List(t.Context(), &list, client.InNamespace(u.namespace), client.MatchingLabels{"app.kubernetes.io/name": "web"}); err != nil {
			t.Fatal(err)
		}
		var names []string
		for i := range list.Items {
			if list.Items[i].Spec.Containers[0].Image == "nginx:1" {
				names = append(names, list.Items[i].Name)
			}
		}
		slices.Sort(names)
		return names
	}
	serve := pods()
	if len(serve) != 2 {
		t.Fatalf("the pods are %q", serve)
	}
	plane.Change(t, app, func() { app.Spec.Image = badImage })
	plane.Until(t, app, func() error { return standing(app, "ImagePullBackOff") })
	// The pods are seen before the Deployment's controller has counted them.
	d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: u.namespace, Name: "web"}}
	plane.Until(t, d, func() error {
		if d.Status.Replicas != 3 {
			return fmt.Errorf("%d pods are counted, want 3", d.Status.Replicas)
		}
		return nil
	})
	code, out, said := u.try("plan", "web", "--set", "image=nginx:1", "--fail-on-restart")
	if code != 1 || !strings.Contains(out, "changed, 3 pods become 2") || strings.Contains(out, "RESTART") {
		t.Errorf("%d\n%s%s", code, out, said)
	}
	code, out, said = u.try("plan", "web", "--set", "image=nginx:2", "--fail-on-restart")
	if code != 3 || !strings.Contains(out, "2 pods are replaced") {
		t.Errorf("%d\n%s%s", code, out, said)
	}
	asks := func(want string) { // The question has the number of the plan.
		t.Helper()
		harness.Eventually(t, func() error {
			if _, _, said := u.try("rollback", "web"); !strings.Contains(said, want) {
				return fmt.Errorf("the question is %q, want %q", said, want)
			}
			return nil
		})
	}
	asks("Restore this? No pod restarts.")
	defaults := &appv1.AppDefaults{ObjectMeta: fixture.Meta(u.namespace, appv1.AppDefaultsName)}
	defaults.Spec.Defaults.PodLabels = map[string]string{"team": "red"}
	plane.Create(t, defaults)
	asks("Restore this? 2 pods restart.")
	if err := plane.Client.Delete(t.Context(), defaults); err != nil {
		t.Fatal(err)
	}
	asks("Restore this? No pod restarts.")
	plane.Read(t, app)
	plane.Change(t, app, func() { app.Spec.Image = "nginx:1" })
	u.run("wait", "web")
	if now := pods(); !slices.Equal(now, serve) {
		t.Errorf("the pods are %q, and were %q", now, serve)
	}
}

// TestPlan plans changes of an App that was created, applied by kubectl and applied on the server, from files and by flags. Nothing is
// written, and the exit status says what would happen.
func TestPlan(t *testing.T) {
	t.Parallel()
	u := planner(t)
	same, other := newFile(u.namespace, "web", "nginx:1"), newFile(u.namespace, "web", "nginx:2")
	fewer := newFile(u.namespace, "web", "nginx:1")
	delete(fewer["spec"].(map[string]any), "ports")
	stored, err := json.Marshal(same)
	if err != nil {
		t.Fatal(err)
	}
	app := &appv1.App{}
	if err := json.Unmarshal(stored, app); err != nil {
		t.Fatal(err)
	}
	app.Annotations = map[string]string{corev1.LastAppliedConfigAnnotation: string(stored)}
	plane.Create(t, app)
	u.run("wait", "web")
	for _, how := range []string{"kubectl apply", "server-side apply", "neither"} {
		plane.Read(t, app)
		generation := app.Generation
		for name, c := range map[string]struct {
			args []string
			code int
			says string
		}{
			"the same":                  {[]string{"-f", written(t, same)}, 0, "nothing changes"},
			"another image":             {[]string{"-f", written(t, other)}, 1, "image: nginx:1 -> nginx:2"},
			"another image, no restart": {[]string{"-f", written(t, other), "--fail-on-restart"}, 3, "RESTART  2 pods"},
			"by flag":                   {[]string{"web", "--set", "image=nginx:2"}, 1, "RESTART  2 pods"},
			"the number of pods":        {[]string{"web", "--set", "replicas=3", "--fail-on-restart"}, 1, "no pod is replaced"},
			"a refresh":                 {[]string{"web", "--refresh"}, 1, "no pod is replaced"},
			"revision 1":                {[]string{"web", "--to", "1"}, 0, "nothing changes"},
			"wrong":                     {[]string{"web", "--set", "image=1 2"}, 2, "image"},
			"no such App":               {[]string{"none", "--set", "image=nginx:2"}, 2, "there is no App none"},
			"no such revision":          {[]string{"web", "--to", "9"}, 2, "9"},
			"nothing to plan":           {nil, 2, "name either a resource"},
			"a file and a name":         {[]string{"web", "-f", written(t, same)}, 2, "name either a resource"},
			"a misspelled field":        {[]string{"web", "--set", "foo=bar"}, 2, "spec.foo"},
			"two changes":               {[]string{"web", "--to", "1", "--set", "image=nginx:2"}, 2, "--to goes with neither"},
			"a misspelled flag":         {[]string{"web", "--bogus"}, 2, "bogus"},
			"another format":            {[]string{"web", "-o", "name"}, 2, "--output"},
		} {
			code, out, said := u.try(append([]string{"plan"}, c.args...)...)
			if code != c.code || !strings.Contains(out+said, c.says) {
				t.Errorf("%s, %s: exit status %d, want %d with %q\n%s%s", how, name, code, c.code, c.says, out, said)
			}
		}
		if code, out, _ := u.try("plan", "-f", written(t, fewer)); how != "neither" && (code != 1 || !strings.Contains(out, "Service web: deleted")) {
			t.Errorf("%s: without its ports, the exit status is %d\n%s", how, code, out)
		}
		var data view.Plan
		code, out, said := u.try("plan", "-f", written(t, other), "-o", "json")
		if err := json.Unmarshal([]byte(out), &data); err != nil || code != 1 || data.Restarts.Pods != 2 || data.APIVersion != view.APIVersion {
			t.Errorf("%s: exit status %d, %v, %+v\n%s", how, code, err, data, said)
		}
		if plane.Read(t, app); app.Generation != generation || app.Annotations[appv1.AnnotationPlan] != "" {
			t.Errorf("%s: a plan has changed the App", how)
		}
		applyOtherwise(t, app, how, stored)
	}
}

// applyOtherwise has an App that was applied by kubectl be applied on the server, and one that was that, by nobody.
func applyOtherwise(t *testing.T, app *appv1.App, how string, manifest []byte) {
	t.Helper()
	switch how {
	case "kubectl apply":
		plane.Change(t, app, func() { delete(app.Annotations, corev1.LastAppliedConfigAnnotation) })
		if err := plane.Client.Patch(t.Context(), app.DeepCopy(), client.RawPatch("application/apply-patch+yaml", manifest),
			client.FieldOwner("flux"), client.ForceOwnership); err != nil {
			t.Fatal(err)
		}
		// The one who created it states the same, and so would keep what the apply leaves out.
		plane.Read(t, app)
		plane.Change(t, app, func() {
			for _, f := range app.ManagedFields {
				if f.Operation == metav1.ManagedFieldsOperationApply && f.Subresource == "" {
					app.ManagedFields = []metav1.ManagedFieldsEntry{f}
					return
				}
			}
		})
	case "server-side apply":
		plane.Change(t, app, func() { app.ManagedFields = []metav1.ManagedFieldsEntry{{}} })
	}
}

// TestPlanWithoutAnswer plans where no webhook answers: there is no plan, and the exit status is not that of no change.
func TestPlanWithoutAnswer(t *testing.T) {
	t.Parallel()
	u := administrator(t)
	newApp(t, u, "nginx:1")
	code, out, said := u.try("plan", "web", "--set", "image=nginx:2")
	if code != 2 || out != "" {
		t.Errorf("exit status %d: %s", code, out)
	}
	says(t, said, "has not answered with a plan", "webhooks are off")
	code, _, said = u.try("plan", "-f", written(t, map[string]any{"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"name": "x"}}))
	if code != 2 {
		t.Errorf("a file without a resource of ours: exit status %d", code)
	}
	says(t, said, "Not planned: ConfigMap x", "no App")
}

// TestHold returns to an earlier revision by its number and by its name, without a change of the spec, and lets it go.
func TestHold(t *testing.T) {
	t.Parallel()
	u := administrator(t)
	app := newApp(t, u, "nginx:1")
	plane.Change(t, app, func() { app.Spec.Image = badImage })
	plane.Until(t, app, func() error { return standing(app, appv1.ReasonImagePullBackOff) })
	if code, _, said := u.try("hold", "web", "--to", "1"); code == 0 || !strings.Contains(said, "--yes") {
		t.Errorf("held without being asked: %s", said)
	}
	says(t, u.run("hold", "web", "--to", "1", "--yes"), "held at web-")
	plane.Until(t, app, func() error { return standing(app, appv1.ReasonHeld) })
	if app.Spec.Image != badImage {
		t.Errorf("the spec has the image %s", app.Spec.Image)
	}
	held := app.Annotations[appv1.AnnotationHold]
	says(t, u.run("hold", "web", "--to", held, "--yes"), "already")
	if code, _, said := u.try("rollback", "web", "--yes"); code == 0 || !strings.Contains(said, "unhold") {
		t.Errorf("a held App was rolled back: %s", said)
	}
	says(t, u.run("why", "web"), "kubectl happ unhold")
	says(t, u.run("unhold", "web", "--yes"), "no longer held")
	plane.Until(t, app, func() error { return standing(app, appv1.ReasonImagePullBackOff) })
	for _, args := range [][]string{
		{"hold", "cmgr/office", "--yes"}, {"hold", "web", "--to", "99", "--yes"}, {"hold", "none", "--yes"},
		{"hold", "web", "--to", "web-none", "--yes"}, {"hold", "web", "--to", "", "--yes"},
	} {
		if code, _, said := u.try(args...); code == 0 || said == "" {
			t.Errorf("%v: exit status %d: %s", args, code, said)
		}
	}
}

// TestPlanOfConflicts plans a server-side apply that conflicts with another manager: a warning names it, and the plan is there.
func TestPlanOfConflicts(t *testing.T) {
	t.Parallel()
	u := planner(t)
	newApp(t, u, "nginx:1")
	code, out, said := u.try("plan", "-f", written(t, newFile(u.namespace, "web", "nginx:2")), "--field-manager", "ci")
	if code != 1 || !strings.Contains(out, "nginx:1 -> nginx:2") {
		t.Errorf("%d\n%s%s", code, out, said)
	}
	says(t, said, "spec.image is owned by ", "--force-conflicts")
}

// TestBeingDeleted has an App whose deletion a finalizer holds back: what would change it says so.
func TestBeingDeleted(t *testing.T) {
	t.Parallel()
	u := planner(t)
	app := newApp(t, u, "nginx:1")
	plane.Change(t, app, func() { app.Finalizers = append(app.Finalizers, "example.com/wait") })
	if err := plane.Client.Delete(t.Context(), app); err != nil {
		t.Fatal(err)
	}
	defer plane.Change(t, app, func() { app.Finalizers = nil })
	for _, args := range [][]string{
		{"plan", "web", "--set", "replicas=3"}, {"plan", "-f", written(t, newFile(u.namespace, "web", "nginx:2"))}, {"adopt", "web", "--yes"},
		{"pause", "web"}, {"rollback", "web", "--yes"}, {"wait", "web", "--for", "synced"},
	} {
		if code, out, said := u.try(args...); code == 0 || !strings.Contains(said, "is being deleted") {
			t.Errorf("%v: exit status %d\n%s%s", args, code, out, said)
		}
	}
}
