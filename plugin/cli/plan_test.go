package cli

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"huolala.cn/app-operator/api/plan"
	"huolala.cn/app-operator/plugin/view"
)

// TestAsk has the operator answer with plans that are not complete, and is asked again, but not for ever.
func TestAsk(t *testing.T) {
	for _, tt := range []struct {
		name       string
		incomplete int
		asked      int
		complete   bool
	}{
		{"complete at once", 0, 1, true},
		{"complete at last", 2, 3, true},
		{"never complete", 10, 3, false},
	} {
		asked := 0
		c := change{send: func(context.Context) ([]byte, error) {
			asked++
			data, err := json.Marshal(plan.Plan{Version: plan.Version, Incomplete: asked <= tt.incomplete})
			if err != nil {
				t.Fatal(err)
			}
			return nil, &apierrors.StatusError{ErrStatus: metav1.Status{
				Reason:  plan.ReasonAnswered,
				Details: &metav1.StatusDetails{Causes: []metav1.StatusCause{{Type: plan.CauseAnswered, Message: string(data)}}},
			}}
		}}
		p, err := c.askPlan(t.Context())
		if err != nil || p.Incomplete == tt.complete || asked != tt.asked {
			t.Errorf("%s: asked %d times, want %d: %+v, %v", tt.name, asked, tt.asked, p, err)
		}
	}
}

// TestPlanExitStatus has a row for each exit status. With --fail-on-restart, a plan that lacks objects is an error: its pods may restart.
func TestPlanExitStatus(t *testing.T) {
	changed := plan.Object{Kind: "Deployment", Name: "web", Action: plan.Changed}
	restarts := changed
	restarts.Pods = &plan.Pods{Running: 1, Wanted: 1, Replaced: true}
	for name, c := range map[string]struct {
		plan        plan.Plan
		plain, fail int
	}{
		"nothing":                  {plan.Plan{}, 0, 0},
		"a change":                 {plan.Plan{Objects: []plan.Object{changed}}, 1, 1},
		"a restart":                {plan.Plan{Objects: []plan.Object{restarts}}, 1, exitRestart},
		"incomplete":               {plan.Plan{Incomplete: true, Objects: []plan.Object{changed}}, 1, exitError},
		"incomplete, with restart": {plan.Plan{Incomplete: true, Objects: []plan.Object{restarts}}, 1, exitRestart},
		"a problem":                {plan.Plan{Problem: &plan.Problem{Reason: "Invalid"}, Objects: []plan.Object{restarts}}, exitError, exitError},
	} {
		for fail, want := range map[bool]int{false: c.plain, true: c.fail} {
			err := (&planOptions{failOnRestart: fail}).exitStatus(view.PlanOf(&c.plan))
			var coded *exit
			if code := 0; errors.As(err, &coded) && coded.code != want || !errors.As(err, &coded) && code != want {
				t.Errorf("%s, --fail-on-restart %t: %v, want %d", name, fail, err, want)
			}
		}
	}
}

// TestAssign has --set make a patch of a spec.
func TestAssign(t *testing.T) {
	for text, want := range map[string]string{
		"image=nginx:2":                      `{"spec":{"image":"nginx:2"}}`,
		"spec.replicas=3":                    `{"spec":{"replicas":3}}`,
		"paused=true":                        `{"spec":{"paused":true}}`,
		"resources.limits.cpu=500m":          `{"spec":{"resources":{"limits":{"cpu":"500m"}}}}`,
		`networkPolicy={"ingress": []}`:      `{"spec":{"networkPolicy":{"ingress":[]}}}`,
		"autoscaling=":                       `{"spec":{"autoscaling":null}}`,
		"image":                              "",
		"=x":                                 "",
		"envs[0].value=x":                    "",
		"image={":                            "",
		"front.deployment.image=a=b":         `{"spec":{"front":{"deployment":{"image":"a=b"}}}}`,
		"template.image=registry.test:5/a:1": `{"spec":{"template":{"image":"registry.test:5/a:1"}}}`,
	} {
		body := map[string]any{}
		err := assignField(body, text)
		got, _ := json.Marshal(body)
		if (err != nil) != (want == "") || err == nil && string(got) != want {
			t.Errorf("%s: %s, %v; want %s", text, got, err, want)
		}
		if err != nil && !strings.Contains(err.Error(), "--set") {
			t.Errorf("%s: %v", text, err)
		}
	}
}

// TestAppliedBy finds the manager of the last server-side apply.
func TestAppliedBy(t *testing.T) {
	at := func(seconds int64) *metav1.Time {
		stamp := metav1.NewTime(time.Unix(seconds, 0))
		return &stamp
	}
	const apply, update = metav1.ManagedFieldsOperationApply, metav1.ManagedFieldsOperationUpdate
	fields := []metav1.ManagedFieldsEntry{
		{Manager: "kubectl-edit", Operation: update, Time: at(9)},
		{Manager: "app-operator", Operation: apply, Subresource: "status", Time: at(8)},
	}
	if got := appliedBy(fields); got != "" {
		t.Errorf("nobody has applied it, got %s", got)
	}
	fields = append(fields, metav1.ManagedFieldsEntry{Manager: "flux", Operation: apply, Time: at(2)}, metav1.ManagedFieldsEntry{Manager: "kubectl", Operation: apply, Time: at(1)})
	if got := appliedBy(fields); got != "flux" {
		t.Errorf("flux was the last, got %s", got)
	}
}

// TestReadObjects reads files and directories as kubectl does.
func TestReadObjects(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{
		"a.yaml":     "kind: App\nmetadata: {name: a}\n---\n---\nkind: App\nmetadata: {name: b}\n",
		"b.json":     `{"kind": "List", "apiVersion": "v1", "items": [{"kind": "App", "apiVersion": "x/v1", "metadata": {"name": "c"}}]}`,
		"notes.txt":  "no YAML: {",
		"more/d.yml": "kind: App\nmetadata: {name: d}\n",
	} {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct {
		o    planOptions
		want string
	}{
		{planOptions{files: []string{dir}}, "a b c"},
		{planOptions{files: []string{dir}, recursive: true}, "a b c d"},
		{planOptions{files: []string{filepath.Join(dir, "b.json"), "-"}}, "c e"},
		{planOptions{files: []string{filepath.Join(dir, "notes.txt")}}, ""},
		{planOptions{files: []string{filepath.Join(dir, "none")}}, ""},
	} {
		r := &root{Program: Program{In: strings.NewReader("kind: App\nmetadata: {name: e}\n")}}
		objects, err := r.readObjects(t.Context(), c.o.files, c.o.recursive)
		var names []string
		for _, obj := range objects {
			names = append(names, obj.GetName())
		}
		if got := strings.Join(names, " "); got != c.want || (err != nil) != (c.want == "") {
			t.Errorf("%v: %q, %v; want %q", c.o.files, got, err, c.want)
		}
	}
}
