package cli

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"net/http"
	"os"
	"path"
	"slices"
	"strings"
	"syscall"
	"testing"
	"unicode"

	appsv1 "k8s.io/api/apps/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/ptr"

	appv1 "huolala.cn/app-operator/api/v1"
)

// TestOutputIsPrintedInOnePlace checks the source of the package: only print.go writes to the standard output, where texts of others are cleaned. The
// functions with another use of the output pass on what is exact on purpose, or what is no text of others.
func TestOutputIsPrintedInOnePlace(t *testing.T) {
	exact := []string{
		"Run", "rootCommand", "completionCommand", // The plug-in's own help and completion.
		"attachTerminal", "printLog", "untilPipeBreaks", // The output of a user's command.
	}
	// onlyLook are the functions that read the size of a terminal, or draw a block of lines that are clean.
	onlyLook := []string{"styleOf", "sizeOf", "isTerminal", "New"}
	files, err := parser.ParseDir(token.NewFileSet(), ".", func(file fs.FileInfo) bool { //nolint:staticcheck // The package has no build tags.
		return !strings.HasSuffix(file.Name(), "_test.go") && file.Name() != "print.go"
	}, 0)
	if err != nil {
		t.Fatal(err)
	}
	used := map[string]bool{}
	for name, file := range files["cli"].Files {
		for _, decl := range file.Decls {
			f, ok := decl.(*ast.FuncDecl)
			if !ok {
				continue
			}
			looked := map[ast.Node]bool{}
			ast.Inspect(f, func(n ast.Node) bool {
				switch n := n.(type) {
				case *ast.CallExpr:
					called := ""
					switch fun := n.Fun.(type) {
					case *ast.Ident:
						called = fun.Name
					case *ast.SelectorExpr:
						called = fun.Sel.Name
					}
					if slices.Contains(onlyLook, called) && len(n.Args) > 0 {
						looked[n.Args[0]] = true
					}
				case *ast.SelectorExpr:
					if n.Sel.Name != "Out" || looked[n] {
						break
					}
					if used[f.Name.Name] = true; !slices.Contains(exact, f.Name.Name) {
						t.Errorf("%s: %s uses the standard output; print by r.printf or r.printText", name, f.Name.Name)
					}
				}
				return true
			})
		}
	}
	if named := slices.Sorted(maps.Keys(used)); len(named) != len(exact) {
		t.Errorf("of %v, only %v use the output", exact, named)
	}
}

// hostile is a text of a tenant with escape sequences, a line of its own and characters that change the direction of text.
const hostile = "x\x1b[31m\x1b]0;title\a\r\nroot# \u202e\u009bq\u2028end"

// hostileDeployment is a Deployment of the App web, with a hostile text.
func hostileDeployment() *appsv1.Deployment {
	d := &appsv1.Deployment{ObjectMeta: objectMeta("web")}
	d.OwnerReferences = []metav1.OwnerReference{{UID: "1", Controller: ptr.To(true)}}
	d.Annotations = map[string]string{"note": hostile}
	d.Spec.Template.Spec.Containers = []corev1.Container{{Name: "web", Image: "nginx:" + hostile}}
	return d
}

// answering returns a server with the App web, which answers requests by the last part of their path.
func answering(t *testing.T, app *appv1.App, answers map[string]runtime.Object) *fakeServer {
	t.Helper()
	f := newFakeServer(t, map[string]runtime.Object{"apps/web": app})
	f.answer = func(q *http.Request, _ string) runtime.Object {
		if strings.HasSuffix(q.URL.Path, "/selfsubjectaccessreviews") {
			return &authorizationv1.SelfSubjectAccessReview{Status: authorizationv1.SubjectAccessReviewStatus{Allowed: true}}
		}
		return answers[path.Base(q.URL.Path)]
	}
	return f
}

// hostileRevisions is revisionServer with hostile images in the recorded revisions.
func hostileRevisions(t *testing.T) *fakeServer {
	t.Helper()
	return revisionsWith(t, func(number int) map[string]any {
		return map[string]any{"image": fmt.Sprintf("nginx:%d%s", number, hostile)}
	})
}

// TestListNamesWhatIsMissing lists while one kind cannot be listed, in each format: the kind is named, and a list of names has no other line.
func TestListNamesWhatIsMissing(t *testing.T) {
	refused := status(apierrors.NewForbidden(appv1.GroupVersion.WithResource("modelboxes").GroupResource(), "", nil))
	web := &appv1.App{ObjectMeta: objectMeta("web")}
	for format, want := range map[string]string{
		"": "not shown: ModelBoxes (you may not list them in shop)", "wide": "not shown: ModelBoxes (", "name": "not shown: ModelBoxes (you may not list them in shop)\n",
		"json": `"kinds": "ModelBoxes"`, "yaml": "kinds: ModelBoxes",
	} {
		f := answering(t, web, map[string]runtime.Object{"apps": &appv1.AppList{Items: []appv1.App{*web}}, "modelboxes": refused})
		code, out, said := f.run(t, "list", "-o", format)
		if code != 0 || !strings.Contains(out+said, want) || format == "name" && out != "app.app.huolala.cn/web\n" {
			t.Errorf("-o %s: exit status %d\n%s%s", format, code, out, said)
		}
	}
}

// TestHostileTexts has hostile texts in all that commands print by themselves: the output has the texts without control characters, and no line of them.
func TestHostileTexts(t *testing.T) {
	t.Parallel()
	app := func(change func(*appv1.App)) *appv1.App {
		a := &appv1.App{ObjectMeta: objectMeta("web")}
		change(a)
		return a
	}
	plain := app(func(*appv1.App) {})
	good := app(func(a *appv1.App) {
		a.Status.LastGood = &appv1.GoodRevision{ReplicaSet: "web-5d", Image: "nginx:" + hostile}
	})
	held := app(func(a *appv1.App) { a.Annotations = map[string]string{appv1.AnnotationHold: hostile} })
	named := app(func(a *appv1.App) { a.Name = hostile })
	children := map[string]runtime.Object{"deployments": &appsv1.DeploymentList{Items: []appsv1.Deployment{*hostileDeployment()}}}
	foreign := hostileDeployment()
	foreign.OwnerReferences = nil
	foreign.Spec.Selector, foreign.Spec.Template.Labels = &metav1.LabelSelector{MatchLabels: map[string]string{"a": "b"}}, map[string]string{"a": "b"}
	for name, c := range map[string]struct {
		server *fakeServer
		args   []string
	}{
		"hold":               {answering(t, good, nil), []string{"hold", "web", "--yes"}},
		"refresh, held":      {answering(t, held, nil), []string{"refresh", "web", "--yes"}},
		"check":              {answering(t, plain, children), []string{"check"}},
		"list -o name":       {answering(t, plain, map[string]runtime.Object{"apps": &appv1.AppList{Items: []appv1.App{*named}}}), []string{"list", "-o", "name"}},
		"history":            {hostileRevisions(t), []string{"history", "web"}},
		"history --diff":     {hostileRevisions(t), []string{"history", "web", "--diff", "1..2"}},
		"history as data":    {hostileRevisions(t), []string{"history", "web", "--diff", "1..2", "-o", "yaml"}},
		"history --revision": {hostileRevisions(t), []string{"history", "web", "--revision", "2"}},
		"rollback":           {hostileRevisions(t), []string{"rollback", "web", "--to", "2", "--yes"}},
		"report":             {answering(t, plain, map[string]runtime.Object{"version": &unstructured.Unstructured{Object: map[string]any{"gitVersion": hostile}}}), []string{"report", "web"}},
		"eject":              {answering(t, plain, children), []string{"eject", "web"}},
		"import":             {answering(t, plain, map[string]runtime.Object{"deployments": &appsv1.DeploymentList{Items: []appsv1.Deployment{*foreign}}}), []string{"import", "--all"}},
	} {
		code, out, said := c.server.run(t, c.args...)
		if !strings.Contains(out, "root#") {
			t.Errorf("%s: exit status %d without the text\n%s%s", name, code, out, said)
		}
		for line := range strings.Lines(out + said) {
			line = strings.TrimSuffix(line, "\n")
			if strings.ContainsFunc(line, func(r rune) bool { return unicode.IsControl(r) || unicode.Is(unicode.Bidi_Control, r) || r == '\u2028' }) {
				t.Errorf("%s: a line has control characters: %q", name, line)
			}
			if strings.HasPrefix(line, "root#") {
				t.Errorf("%s: the text has a line of its own:\n%q", name, out+said)
			}
		}
	}
}

// TestCheckIsBounded has many Deployments with the label of the operator, which any tenant can set: check reads one chunk, and names some of them.
func TestCheckIsBounded(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		found            int
		more             bool
		containers, rest string
	}{
		"none":            {0, false, "none found", ""},
		"at the limit":    {maxOperators, false, "nginx:19", ""},
		"one more":        {maxOperators + 1, false, "nginx:19", "operator     1 more with the label\n"},
		"a further chunk": {maxOperators - 1, true, "nginx:18", "operator     at least 1 more with the label\n"},
		"many":            {3 * maxOperators, true, "nginx:19", "operator     at least 40 more with the label\n"},
	} {
		list := &appsv1.DeploymentList{}
		for i := range c.found {
			d := appsv1.Deployment{ObjectMeta: objectMeta(fmt.Sprint("operator-", i))}
			d.Spec.Template.Spec.Containers = []corev1.Container{{Image: fmt.Sprint("nginx:", i)}}
			list.Items = append(list.Items, d)
		}
		if c.more {
			list.Continue = "more"
		}
		f := answering(t, &appv1.App{}, nil)
		var limits []string
		rest := f.answer
		f.answer = func(q *http.Request, body string) runtime.Object {
			if path.Base(q.URL.Path) == "deployments" {
				limits = append(limits, q.URL.Query().Get("limit"))
				return list
			}
			return rest(q, body)
		}
		_, out, said := f.run(t, "check", "--chunk-size", "70")
		want := min(c.found, maxOperators)
		if strings.Count(out, ", nginx:") != want || !strings.Contains(out, c.containers) || !strings.Contains(out, c.rest) || strings.Contains(out, " more with") != (c.rest != "") {
			t.Errorf("%s: it names %d:\n%s%s", name, strings.Count(out, ", nginx:"), out, said)
		}
		if !slices.Equal(limits, []string{"70"}) {
			t.Errorf("%s: lists with the limits %q", name, limits)
		}
	}
}

// fullDisk is an output that takes some bytes, and fails then.
type fullDisk struct{ left int }

// Write implements io.Writer.
func (d *fullDisk) Write(text []byte) (int, error) {
	n := min(d.left, len(text))
	if d.left -= n; n < len(text) {
		return n, &os.PathError{Op: "write", Path: "/dev/stdout", Err: syscall.ENOSPC}
	}
	return n, nil
}

// TestFailedOutput has the output of each command that prints fail, at once and within the text: the exit status is that of an error, and nothing is
// deleted.
func TestFailedOutput(t *testing.T) {
	t.Parallel()
	children := map[string]runtime.Object{
		"deployments": &appsv1.DeploymentList{Items: []appsv1.Deployment{*hostileDeployment()}},
		"apps":        &appv1.AppList{Items: []appv1.App{{ObjectMeta: objectMeta("web")}}},
	}
	app := func(t *testing.T) *fakeServer {
		t.Helper()
		return answering(t, &appv1.App{ObjectMeta: objectMeta("web")}, children)
	}
	revisions := func(t *testing.T) *fakeServer { t.Helper(); return revisionServer(t, "web-3") }
	for name, c := range map[string]struct {
		server func(*testing.T) *fakeServer
		code   int
		args   []string
	}{
		"report":          {app, 1, []string{"report", "web"}},
		"list":            {app, 1, []string{"list"}},
		"list -o name":    {app, 1, []string{"list", "-o", "name"}},
		"list -w":         {app, 1, []string{"list", "-w"}},
		"tree -o json":    {app, 1, []string{"tree", "web", "-o", "json"}},
		"why -o yaml":     {app, 1, []string{"why", "web", "-o", "yaml"}},
		"history":         {revisions, 1, []string{"history", "web"}},
		"history --diff":  {revisions, 1, []string{"history", "web", "--diff", "1..2"}},
		"eject":           {app, 1, []string{"eject", "web"}},
		"eject --delete":  {app, 1, []string{"eject", "web", "--delete", "--yes"}},
		"plan":            {planServer, exitError, []string{"plan", "web", "--set", "replicas=3"}},
		"plan -o json":    {planServer, exitError, []string{"plan", "web", "--set", "replicas=3", "-o", "json"}},
		"logs":            {serverOfLogs, 1, []string{"logs", "web"}},
		"import":          {foreignServer, 1, []string{"import", "--all"}},
		"import --verify": {foreignServer, 1, []string{"import", "--all", "--verify"}},
		"version":         {app, 1, []string{"version"}},
		"help":            {app, 1, []string{"help"}},
	} {
		for _, room := range []int{0, 5} {
			var said bytes.Buffer
			f := c.server(t)
			code := Run(t.Context(), f.program(t, &fullDisk{room}, &said, c.args...))
			if code != c.code || !strings.Contains(said.String(), "write the output: write /dev/stdout: no space left on device") {
				t.Errorf("%s, after %d bytes: exit status %d, %s", name, room, code, said.String())
			}
			if len(f.writes) > 0 {
				t.Errorf("%s, after %d bytes: it writes %q", name, room, f.writes)
			}
		}
	}
}
