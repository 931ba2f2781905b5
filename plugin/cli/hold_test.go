package cli

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/ptr"

	appv1 "huolala.cn/app-operator/api/v1"
	"huolala.cn/app-operator/resource"
)

// revisionServer returns a server with the App web, whose first revision has the pods of before an adoption, whose second one has a record
// and whose third one has none. The last good revision is the second one, and runs too if it is the one named.
func revisionServer(t *testing.T, running string) *fakeServer {
	t.Helper()
	app := &appv1.App{ObjectMeta: objectMeta("web")}
	app.Spec.Image = "nginx:3"
	app.Status.ReplicaSet = running
	app.Status.LastGood = &appv1.GoodRevision{ReplicaSet: "web-2", Image: "nginx:2"}
	d := appsv1.Deployment{ObjectMeta: objectMeta("web")}
	d.UID, d.OwnerReferences = "deployment", []metav1.OwnerReference{{UID: app.UID, Controller: ptr.To(true)}}
	d.Annotations = map[string]string{"deployment.kubernetes.io/revision": "3"}
	kept := resource.BuildInputs{Rendering: resource.RenderingLatest, Kept: true}
	sets := &appsv1.ReplicaSetList{TypeMeta: metav1.TypeMeta{APIVersion: "apps/v1", Kind: "ReplicaSetList"}}
	for i, inputs := range []string{kept.Encode(), resource.BuildInputs{Rendering: resource.RenderingLatest}.Encode(), ""} {
		set := appsv1.ReplicaSet{ObjectMeta: objectMeta(fmt.Sprintf("web-%d", i+1))}
		set.OwnerReferences = []metav1.OwnerReference{{UID: d.UID, Controller: ptr.To(true)}}
		set.Annotations = map[string]string{"deployment.kubernetes.io/revision": fmt.Sprint(i + 1)}
		if inputs != "" {
			set.Annotations[appv1.AnnotationLastAppliedSpec] = fmt.Sprintf(`{"image":"nginx:%d"}`, i+1)
			set.Annotations[appv1.AnnotationLastAppliedInputs] = inputs
		}
		built, err := resource.BuildRecorded(resource.AppSpec(app), fmt.Sprintf(`{"image":"nginx:%d"}`, i+1),
			resource.BuildOptions{Inputs: resource.BuildInputs{Rendering: resource.RenderingLatest}})
		if err != nil {
			t.Fatal(err)
		}
		set.Spec.Template = built.Template
		sets.Items = append(sets.Items, set)
	}
	f := newFakeServer(t, map[string]runtime.Object{"apps/web": app})
	f.answer = func(q *http.Request, _ string) runtime.Object {
		switch {
		case strings.HasSuffix(q.URL.Path, "/replicasets"):
			return sets
		case strings.HasSuffix(q.URL.Path, "/deployments"):
			return &appsv1.DeploymentList{TypeMeta: metav1.TypeMeta{APIVersion: "apps/v1", Kind: "DeploymentList"}, Items: []appsv1.Deployment{d}}
		}
		return nil
	}
	return f
}

// revisionsWith is revisionServer with other recorded specs of the revisions 1 and 2
func revisionsWith(t *testing.T, spec func(number int) map[string]any) *fakeServer {
	t.Helper()
	f := revisionServer(t, "web-3")
	answer, app := f.answer, f.objects["apps/web"].(*appv1.App) //nolint:forcetypeassert // It is made above.
	f.answer = func(q *http.Request, body string) runtime.Object {
		found := answer(q, body)
		sets, ok := found.(*appsv1.ReplicaSetList)
		if !ok {
			return found
		}
		sets = sets.DeepCopy()
		for i := range sets.Items[:2] {
			text, err := json.Marshal(spec(i + 1))
			if err != nil {
				t.Error(err)
			}
			built, err := resource.BuildRecorded(resource.AppSpec(app), string(text), resource.BuildOptions{Inputs: resource.BuildInputs{Rendering: resource.RenderingLatest}})
			if err != nil {
				t.Error(err)
				continue
			}
			sets.Items[i].Annotations[appv1.AnnotationLastAppliedSpec], sets.Items[i].Spec.Template = string(text), built.Template
		}
		return sets
	}
	return f
}

// TestHoldRefuses has each revision named by number and by ReplicaSet: those that the operator cannot hold are refused before anything is
// written, and the last good one is named, with a warning if it is the one that runs.
func TestHoldRefuses(t *testing.T) {
	for _, c := range []struct {
		to, running, want, not string
		writes                 int
	}{
		{"1", "web-3", "cannot be held: pods of before the adoption", "", 0},
		{"web-1", "web-3", "cannot be held: pods of before the adoption", "", 0},
		{"3", "web-3", "no record", "", 0},
		{"web-3", "web-3", "cannot be held: no record", "", 0},
		{"2", "web-3", "held at web-2", "Warning", 1},
		{"web-2", "web-3", "held at web-2", "Warning", 1},
		{"last-good", "web-3", "held at last-good, ReplicaSet web-2 (nginx:2)", "Warning", 1},
		{"last-good", "web-2", "Warning: the last good revision is the one that runs now", "", 1},
	} {
		f := revisionServer(t, c.running)
		code, out, said := f.run(t, "hold", "web", "--to", c.to, "--yes")
		if text := out + said; !strings.Contains(text, c.want) || c.not != "" && strings.Contains(text, c.not) || len(f.writes) != c.writes || (code == 0) != (c.writes > 0) {
			t.Errorf("--to %s: exit status %d, %q, writes %q; want %q", c.to, code, text, f.writes, c.want)
		}
	}
}

// TestHistoryMarksWhatCannotBeHeld has the marks of the same revisions in the history, and a rollback to one with the pods of before an
// adoption, which restores its spec and says what it does not restore.
func TestHistoryMarksWhatCannotBeHeld(t *testing.T) {
	f := revisionServer(t, "web-3")
	_, out, said := f.run(t, "history", "web")
	for _, mark := range []string{"pods of before the adoption: no hold", "no record: no rollback"} {
		if strings.Count(out, mark) != 1 {
			t.Errorf("%q is not once in\n%s%s", mark, out, said)
		}
	}
	code, out, said := f.run(t, "rollback", "web", "--to", "1", "--yes")
	if code != 0 || len(f.writes) != 1 || !strings.Contains(said, "restores its spec, and not their pod template") {
		t.Errorf("exit status %d, %s%s, writes %q", code, out, said, f.writes)
	}
	f = revisionServer(t, "web-3")
	if code, out, said = f.run(t, "rollback", "web", "--to", "3", "--yes"); code == 0 || len(f.writes) > 0 || !strings.Contains(said, "no record") {
		t.Errorf("exit status %d, %s%s, writes %q", code, out, said, f.writes)
	}
}
