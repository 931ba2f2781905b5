package view

import (
	"encoding/json"
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	appv1 "huolala.cn/app-operator/api/v1"
	"huolala.cn/app-operator/resource"
)

var update = flag.Bool("update", false, "Write the files in testdata.")

// golden compares a text with a file in testdata.
func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o600); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", path, diff)
	}
}

// styles are those that each golden file shows.
var styles = []struct {
	name  string
	style Style
}{
	{"80 columns", Style{Width: 80}},
	{"120 columns, in color", Style{Width: 120, Color: true}},
	{"ASCII, no limit", Style{ASCII: true}},
}

// TestGolden draws each case in each style, and checks that no line is wider than it may be.
func TestGolden(t *testing.T) {
	for name, s := range cases() {
		t.Run(name, func(t *testing.T) {
			var all strings.Builder
			for _, st := range styles {
				shown := map[string]string{
					"tree":     TreeOf(s, TreeOptions{Limit: 2}).Text(st.style, now),
					"why":      WhyOf(s, 3).Text(st.style, now),
					"progress": ProgressOf(s).Text(st.style, 42*time.Second, 10*time.Minute, 8),
					"list":     RowsOf([]Resource{s.Resource}, nil).Text(st.style, now, ListOptions{Namespaces: true}),
				}
				if h, err := HistoryOf(s, ""); err == nil {
					shown["history"] = h.Text(st.style, now)
				}
				if runs := RunsOf(s); runs != nil {
					shown["history"] = runs.Text(st.style, now)
				}
				for _, what := range []string{"list", "tree", "why", "progress", "history"} {
					fmt.Fprintf(&all, "=== %s, %s\n%s", what, st.name, shown[what])
					checkLines(t, what, st.style, shown[what])
				}
			}
			golden(t, name+".txt", all.String())
		})
	}
}

func checkLines(t *testing.T, what string, s Style, text string) {
	t.Helper()
	for line := range strings.Lines(text) {
		line = strings.TrimSuffix(line, "\n")
		if s.Color {
			for _, code := range []string{"\x1b[0m", "\x1b[1m", "\x1b[31m", "\x1b[32m", "\x1b[33m", "\x1b[35m", "\x1b[36m"} {
				line = strings.ReplaceAll(line, code, "")
			}
		}
		if strings.ContainsFunc(line, isUnprintable) {
			t.Errorf("%s: %q has control characters", what, line)
		}
		_, words, _ := strings.Cut(strings.TrimLeft(line, " │"), " ") // A word that is longer than a line is not cut.
		if n := utf8.RuneCountInString(line); s.Width > 0 && n > s.Width && words != "" {
			t.Errorf("%s: %d columns of %d: %s", what, n, s.Width, line)
		}
		if s.ASCII && strings.ContainsFunc(line, func(r rune) bool { return r >= utf8.RuneSelf }) {
			t.Errorf("%s: not ASCII: %s", what, line)
		}
	}
}

// TestJSON fixes the form of the data for programs.
func TestJSON(t *testing.T) {
	s := cases()["image"]
	h, err := HistoryOf(s, "")
	if err != nil {
		t.Fatal(err)
	}
	for name, data := range map[string]any{
		"tree": TreeOf(s, TreeOptions{}), "why": WhyOf(s, 3), "progress": ProgressOf(s), "history": h, "runs": RunsOf(tasks()["failed"]),
		"list": RowsOf([]Resource{s.Resource}, []Missing{{"Pods", "you may not list them in shop"}}),
	} {
		text, err := json.MarshalIndent(data, "", "  ")
		if err != nil {
			t.Fatal(err)
		}
		golden(t, name+".json", string(text)+"\n")
	}
}

// reasons returns the values of all Reason constants of the API.
func reasons(t *testing.T) []string {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), "../../api/v1/conditions.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	var found []string
	ast.Inspect(file, func(n ast.Node) bool {
		spec, ok := n.(*ast.ValueSpec)
		if !ok || !strings.HasPrefix(spec.Names[0].Name, "Reason") {
			return true
		}
		if value, ok := spec.Values[0].(*ast.BasicLit); ok {
			found = append(found, strings.Trim(value.Value, `"`))
		}
		return true
	})
	if len(found) < 40 {
		t.Fatalf("only %d reasons found: is conditions.go still where they are?", len(found))
	}
	return found
}

// TestReasons checks that each reason of the API has an answer, or asks for nothing, and fixes what is said of it.
func TestReasons(t *testing.T) {
	var all strings.Builder
	known := reasons(t)
	for _, reason := range known {
		_, answered := advices[reason]
		if well := slices.Contains(good, reason); answered == well {
			t.Errorf("%s: answered is %v, good is %v; want one of them", reason, answered, well)
		}
		if !answered {
			continue
		}
		s := stalled(reason, "the words of the operator")
		fmt.Fprintf(&all, "--- %s\n%s", reason, WhyOf(s, 0).Text(Style{Width: 120}, now))
	}
	for reason := range advices {
		if !slices.Contains(known, reason) {
			t.Errorf("%s is no reason of the API", reason)
		}
	}
	golden(t, "reasons.txt", all.String())
}

// TestKinds compares the table of kinds with the definitions, and with that of all kinds.
func TestKinds(t *testing.T) {
	if len(Kinds) != len(resource.Kinds) {
		t.Fatalf("%d kinds of %d have a view", len(Kinds), len(resource.Kinds))
	}
	for i, k := range Kinds {
		if k.Name != resource.Kinds[i].Name {
			t.Errorf("%s is where %s is in resource.Kinds", k.Name, resource.Kinds[i].Name)
		}
		if r, ok := ResourceOf(k.New()); !ok || r.Kind != k.Name || (r.Serving != nil) != k.Serves || (len(r.Workloads) == 0) != k.Scheduled || (r.Schedule != nil) != k.Scheduled {
			t.Errorf("%s: %v, %+v", k.Name, ok, r)
		}
		data, err := os.ReadFile(filepath.Join("../../config/crd/bases", appv1.GroupVersion.Group+"_"+k.Plural+".yaml"))
		if err != nil {
			t.Fatal(err)
		}
		var crd apiextensionsv1.CustomResourceDefinition
		if err := yaml.Unmarshal(data, &crd); err != nil {
			t.Fatal(err)
		}
		names := crd.Spec.Names
		if short := k.ShortNames[:len(names.ShortNames)]; !slices.Equal(short, names.ShortNames) {
			t.Errorf("%s begins its short names with %q, its definition has %q", k.Name, short, names.ShortNames)
		}
		if scale := crd.Spec.Versions[0].Subresources.Scale; (scale != nil) != k.Scales {
			t.Errorf("%s: Scales is %t", k.Name, k.Scales)
		}
		for _, word := range append([]string{names.Kind, names.Plural, names.Singular, names.Plural + "." + crd.Spec.Group}, names.ShortNames...) {
			if found, ok := KindOf(word); !ok || found.Name != k.Name {
				t.Errorf("%s is %q, want %s", word, found.Name, k.Name)
			}
		}
	}
	if got := NameKinds("or", AnyKind); !strings.HasPrefix(got, "App, ModelBox, ") || !strings.Contains(got, " or ") {
		t.Errorf("the kinds are %q", got)
	}
	for has, want := range map[string]string{"App": "App", "": ""} {
		if got := NameKinds("and", func(k Kind) bool { return k.Name == has }); got != want {
			t.Errorf("the kinds are %q, want %q", got, want)
		}
	}
	for _, word := range []string{"", "pod", "deployment.apps", "apps.example.com"} {
		if _, ok := KindOf(word); ok {
			t.Errorf("%q is a kind", word)
		}
	}
}

// TestCompare checks the differences of two specs, and which values are hidden.
func TestCompare(t *testing.T) {
	spec := func(text string) map[string]any {
		m := map[string]any{}
		if err := json.Unmarshal([]byte(text), &m); err != nil {
			t.Fatal(err)
		}
		return m
	}
	before := spec(`{"image":"a","args":["--x=hunter2"],"envs":[{"name":"TZ","value":"UTC"},{"name":"DB_PASSWORD","value":"hunter2"}]}`)
	after := spec(`{"image":"b","size":"small","args":["--x=hunter3"],"envs":[{"name":"DB_PASSWORD","value":"hunter3"},{"name":"API_TOKEN","value":"hunter4"}]}`)
	var lines []string
	for _, c := range RedactChanges(CompareSpecs(before, after)) {
		lines = append(lines, c.String())
		if data, err := json.Marshal(c); err != nil || strings.Contains(string(data), "hunter") {
			t.Errorf("%s (%v)", data, err)
		}
	}
	want := []string{"args ••• → •••", "+envs[API_TOKEN]", "envs[DB_PASSWORD].value ••• → •••", "-envs[TZ]", "image a → b", "+size small"}
	if diff := cmp.Diff(want, lines); diff != "" {
		t.Errorf("differences (-want +got):\n%s", diff)
	}
	if data, err := json.Marshal(RedactSpec(after)); err != nil || strings.Contains(string(data), "hunter") {
		t.Errorf("%s (%v)", data, err)
	}
	if more := CompareSpecs(after, after); more != nil {
		t.Errorf("equal specs differ: %v", more)
	}
}

// TestRollback checks that exactly the fields that differ are restored, and none that no revision has.
func TestRollback(t *testing.T) {
	now := map[string]any{"image": "b", "replicas": 3, "size": "small", "paused": true, "ingress": map[string]any{"host": "x"}, "envs": 1}
	record := &Revision{Spec: map[string]any{"image": "a", "replicas": 9, "envs": 1, "command": []any{"run"}}}
	want := []Operation{
		{Op: "add", Path: "/spec/command", Value: []any{"run"}}, {Op: "replace", Path: "/spec/image", Value: "a"}, {Op: "remove", Path: "/spec/size"},
	}
	if diff := cmp.Diff(want, RollbackOperations(now, "/spec", record)); diff != "" {
		t.Errorf("operations (-want +got):\n%s", diff)
	}
}

// TestDone checks that a rollout is not done while the status is that of before, and a Deployment has a change to roll out.
func TestDone(t *testing.T) {
	s := cases()["ready"]
	if !ProgressOf(s).IsDone() {
		t.Fatal("not done, though all is ready")
	}
	s.Deployments[0].Generation++
	if ProgressOf(s).IsDone() {
		t.Error("done, though the Deployment has a change that its controller has not seen")
	}
}

// TestGitOps checks by which signs a resource is known to be applied from elsewhere.
func TestGitOps(t *testing.T) {
	for name, c := range map[string]struct {
		meta metav1.ObjectMeta
		want string
	}{
		"none":       {metav1.ObjectMeta{ManagedFields: []metav1.ManagedFieldsEntry{{Manager: "kubectl"}, {Manager: "helmet"}}}, ""},
		"argo":       {metav1.ObjectMeta{ManagedFields: []metav1.ManagedFieldsEntry{{Manager: "argocd-controller"}}}, "argocd-controller"},
		"flux":       {metav1.ObjectMeta{ManagedFields: []metav1.ManagedFieldsEntry{{Manager: "kustomize-controller"}}}, "kustomize-controller"},
		"argo mark":  {metav1.ObjectMeta{Annotations: map[string]string{"argocd.argoproj.io/tracking-id": "x"}}, "Argo CD"},
		"flux label": {metav1.ObjectMeta{Labels: map[string]string{"kustomize.toolkit.fluxcd.io/name": "x"}}, "Flux"},
		"helm":       {metav1.ObjectMeta{Annotations: map[string]string{"meta.helm.sh/release-name": "x"}}, "Helm"},
	} {
		if got := (&Resource{ObjectMeta: c.meta}).GitOps(); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

// TestChangedBy names who changed what runs: neither who writes the status, nor who only paused the resource and annotated it since.
func TestChangedBy(t *testing.T) {
	entry := func(manager, fields, subresource string, minute int) metav1.ManagedFieldsEntry {
		return metav1.ManagedFieldsEntry{
			Manager: manager, Subresource: subresource, FieldsV1: &metav1.FieldsV1{Raw: []byte(fields)},
			Time: ptr.To(metav1.NewTime(time.Date(2026, 1, 1, 0, minute, 0, 0, time.UTC))),
		}
	}
	r := &Resource{ObjectMeta: metav1.ObjectMeta{ManagedFields: []metav1.ManagedFieldsEntry{
		entry("create", `{"f:spec":{".":{},"f:image":{}}}`, "", 1), entry("patch", `{"f:spec":{"f:image":{}}}`, "", 2),
		entry("happ", `{"f:metadata":{"f:annotations":{}},"f:spec":{"f:paused":{}}}`, "", 3), entry("operator", `{"f:status":{}}`, "status", 4),
	}}}
	if by := r.changedBy(); by.Name != "patch" {
		t.Errorf("changed by %q", by.Name)
	}
}

// TestWorstFirst checks the order of a table.
func TestWorstFirst(t *testing.T) {
	var resources []Resource
	var want []string
	for _, name := range []string{"image", "progressing", "ready"} {
		r := cases()[name].Resource
		r.ObjectMeta.Name = name
		resources = append([]Resource{r}, resources...)
		want = append(want, name)
	}
	var got []string
	for _, row := range RowsOf(resources, nil).Items {
		got = append(got, row.Name)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("order (-want +got):\n%s", diff)
	}
}

// TestRedactedTexts hides what may be secret of a spec and of its changes, by the names of variables, in headers, in the query of a request
// and in URLs, and shows what is not.
func TestRedactedTexts(t *testing.T) {
	spec := func(name, value string) map[string]any {
		return map[string]any{
			"envs":     []any{map[string]any{"name": name, "value": value}},
			"sidecars": []any{map[string]any{"name": "a", "env": []any{map[string]any{"name": name, "value": value}}}},
		}
	}
	probe := func(path, header string) map[string]any {
		get := map[string]any{"path": path, "httpHeaders": []any{map[string]any{"name": "Authorization", "value": header}}}
		return map[string]any{"probes": map[string]any{"readiness": map[string]any{"httpGet": get}}}
	}
	const secret = "hunter2hunter2"
	shows := func(before, after map[string]any) string {
		data, err := json.Marshal(RedactSpec(after))
		if err != nil {
			t.Fatal(err)
		}
		text := string(data)
		for _, c := range RedactChanges(CompareSpecs(before, after)) {
			text += " " + c.String()
		}
		return text
	}
	for _, name := range []string{
		"DB_PASSWORD", "DB_PASS", "DB_PWD", "MYSQL_PW", "PW", "API_TOKEN", "SECRET", "ACCESS_KEY", "BASIC_AUTH", "REDIS_AUTH", "AUTH", "AUTHORIZATION",
		"OAUTH2", "JWT", "SENTRY_DSN", "CONNECTION_STRING", "CONN_STR", "COOKIE_SALT", "githubPat", "GITHUB_PAT", "AWS_CRED", "SIGNATURE", "dbPw",
	} {
		for _, before := range []map[string]any{spec(name, "earlier"), spec("OTHER", "x"), {}} {
			if text := shows(before, spec(name, secret)); strings.Contains(text, secret) || !strings.Contains(text, hidden) {
				t.Errorf("%s: %s", name, text)
			}
		}
	}
	for _, name := range []string{"PATH", "PATTERN", "AUTHOR", "SPATIAL", "CONNECT_TIMEOUT", "COMPAT", "LOG_LEVEL", "UPWARD"} {
		for _, before := range []map[string]any{spec(name, "earlier"), {}} {
			if text := shows(before, spec(name, secret)); !strings.Contains(text, secret) {
				t.Errorf("%s is hidden: %s", name, text)
			}
		}
	}
	for _, before := range []map[string]any{probe("/health", "x"), {}} {
		after := probe("/health?token="+secret, "Bearer "+secret)
		if text := shows(before, after); strings.Contains(text, secret) || !strings.Contains(text, "/health?") || !strings.Contains(text, "Authorization") {
			t.Errorf("a probe: %s", text)
		}
	}
	if text := shows(spec("DATABASE", "x"), spec("DATABASE", "postgres://app:"+secret+"@db:5432/shop")); strings.Contains(text, secret) ||
		!strings.Contains(text, "postgres://app:"+hidden+"@db:5432/shop") {
		t.Errorf("a URL: %s", text)
	}
	if text := shows(map[string]any{}, spec("DOCS", "https://example.com:8080/a@b")); !strings.Contains(text, "https://example.com:8080/a@b") {
		t.Errorf("a URL without a password: %s", text)
	}
}

// TestPending shows what waits for the end of a pause in the row, in the answer to why and in the list. A status of an earlier spec does
// not count.
func TestPending(t *testing.T) {
	r := newApp("nginx:1", condition(appv1.ConditionReady, metav1.ConditionFalse, appv1.ReasonPaused, "spec.paused is true"))
	r.Status.Pending = []string{"1 object waits, 2 pods would be replaced", "Deployment cart: image nginx:1 -> nginx:2"}
	s := &Snapshot{Resource: r, Now: now}
	for what, text := range map[string]string{
		"list": RowsOf([]Resource{r}, nil).Text(Style{}, now, ListOptions{}), "why": WhyOf(s, 0).Text(Style{}, now),
	} {
		if !strings.Contains(text, r.Status.Pending[0]) || what == "why" && !strings.Contains(text, r.Status.Pending[1]) {
			t.Errorf("%s:\n%s", what, text)
		}
	}
	s.Resource.ObjectMeta.Generation++
	if text := WhyOf(s, 0).Text(Style{}, now); strings.Contains(text, "waits") {
		t.Errorf("of an earlier spec:\n%s", text)
	}
}

// TestPausedState has a paused resource whose pods are in trouble, with a change that waits or without one: all outputs have the state that
// the columns of kubectl have, and the advice is to resume.
func TestPausedState(t *testing.T) {
	for name, c := range map[string]struct {
		ready string
		want  State
	}{
		"a change waits":          {appv1.ReasonPaused, StatePaused},
		"no change waits":         {appv1.ReasonImagePullBackOff, StateStalled},
		"an object is in the way": {appv1.ReasonResourceExists, StateStalled},
	} {
		r := newApp("nginx:1", condition(appv1.ConditionReady, metav1.ConditionUnknown, c.ready, "m"),
			condition(appv1.ConditionStalled, metav1.ConditionTrue, appv1.ReasonImagePullBackOff, "m"))
		r.Paused = true
		if c.ready == appv1.ReasonResourceExists {
			r.Status.Conditions[1].Reason = c.ready
		}
		s := rollout(r, notStarted)
		w := WhyOf(s, 0)
		row := RowOf(&s.Resource)
		if row.State != c.want || w.State != c.want || ProgressOf(s).State != c.want || row.Reason != c.ready || w.Reason != c.ready {
			t.Errorf("%s: the row has %s/%s, why %s/%s, progress %s", name, row.State, row.Reason, w.State, w.Reason, ProgressOf(s).State)
		}
		if got := strings.Join(w.Advice, "\n"); !strings.Contains(got, "kubectl happ resume cart") {
			t.Errorf("%s: the advice is %s", name, got)
		}
	}
}

// TestNoRolloutAfterItsEnd loses a pod after the rollout has finished: nothing says that a rollout is under way.
func TestNoRolloutAfterItsEnd(t *testing.T) {
	for reason, under := range map[string]bool{"NewReplicaSetAvailable": false, "ReplicaSetUpdated": true} {
		r := newApp("nginx:1", condition(appv1.ConditionReady, metav1.ConditionFalse, appv1.ReasonProgressing, "1 of 2 available"))
		s := rollout(r, notStarted)
		s.Pods = nil
		d := &s.Deployments[0]
		d.Spec.Replicas = ptr.To[int32](2)
		d.Status = appsv1.DeploymentStatus{
			ObservedGeneration: d.Generation, Replicas: 2, UpdatedReplicas: 2, AvailableReplicas: 1,
			Conditions: []appsv1.DeploymentCondition{{Type: appsv1.DeploymentProgressing, Status: corev1.ConditionTrue, Reason: reason}},
		}
		if text := WhyOf(s, 0).Text(Style{}, now); strings.Contains(text, "rollout") != under {
			t.Errorf("%s: under way is not %t:\n%s", reason, under, text)
		}
	}
}

// TestWorksNamesTheMissingService has a resource with ports: what works says whether the Service is there.
func TestWorksNamesTheMissingService(t *testing.T) {
	for name, c := range map[string]struct {
		wants, there, unknown, want bool
	}{
		"there":            {wants: true, there: true},
		"missing":          {wants: true, want: true},
		"not asked for":    {},
		"not to be listed": {wants: true, unknown: true},
	} {
		r := newApp("nginx:1", condition(appv1.ConditionReady, metav1.ConditionTrue, appv1.ReasonReady, "all"))
		s := rollout(r, notStarted)
		s.Resource.WantsService, s.Services = c.wants, nil
		if c.there {
			s.Services = []corev1.Service{{ObjectMeta: metav1.ObjectMeta{Name: "cart", OwnerReferences: []metav1.OwnerReference{
				{UID: r.ObjectMeta.UID, Controller: ptr.To(true)},
			}}}}
		}
		if c.unknown {
			s.Missing = []Missing{{kindsServices, "you may not list them"}}
		}
		if works := WhyOf(s, 0).Works; strings.Contains(works, messageNoService) != c.want {
			t.Errorf("%s: %s", name, works)
		}
	}
}
