package cli

import (
	"fmt"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/yaml"

	appv1 "huolala.cn/app-operator/api/v1"
	"huolala.cn/app-operator/plugin/view"
)

// TestViewerRole compares the role of the viewer in the cluster with what its pages read: it gives that, and nothing else.
func TestViewerRole(t *testing.T) {
	text, err := os.ReadFile("../../config/components/viewer/role.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var role rbacv1.ClusterRole
	if err := yaml.UnmarshalStrict(text, &role); err != nil {
		t.Fatal(err)
	}
	var given, used []string
	for _, rule := range role.Rules {
		if len(rule.ResourceNames)+len(rule.NonResourceURLs) > 0 || role.AggregationRule != nil {
			t.Errorf("a rule is of another form: %v", rule)
		}
		for _, group := range rule.APIGroups {
			for _, resource := range rule.Resources {
				for _, verb := range rule.Verbs {
					given = append(given, Right{verb, group, resource, false}.String())
				}
			}
		}
	}
	for _, right := range ViewerRights() {
		used = append(used, right.String())
	}
	slices.Sort(given)
	slices.Sort(used)
	if used = slices.Compact(used); !slices.Equal(given, used) {
		t.Errorf("the role gives\n%s\nthe pages use\n%s", strings.Join(given, "\n"), strings.Join(used, "\n"))
	}
	for _, right := range ViewerRights() {
		if !slices.Contains([]string{"get", "list", "watch"}, right.Verb) || slices.Contains([]string{"secrets", "configmaps", "pods/log", "*"}, right.Resource) {
			t.Errorf("the viewer may %s", right)
		}
	}
}

// TestViewerProxy checks that the proxy of the component overwrites the header by which the viewer tells readers apart, whatever its Secret has: a flag
// takes precedence over a variable.
func TestViewerProxy(t *testing.T) {
	text, err := os.ReadFile("../../config/components/viewer/deployment.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var d appsv1.Deployment
	if err := yaml.UnmarshalStrict(text, &d); err != nil {
		t.Fatal(err)
	}
	for _, c := range d.Spec.Template.Spec.Containers {
		if c.Name != "proxy" {
			continue
		}
		for _, want := range []string{"--pass-user-headers=true", "--skip-auth-strip-headers=true"} {
			if !slices.Contains(c.Args, want) {
				t.Errorf("the proxy has no %s: %q", want, c.Args)
			}
		}
		return
	}
	t.Error("there is no proxy")
}

// TestViewerRows has a value of a variable in the status of an App: the list of a viewer hides it, and a user's own list has it.
func TestViewerRows(t *testing.T) {
	app := &appv1.App{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "cart"}}
	app.Spec.Envs = []corev1.EnvVar{{Name: "PLAIN", Value: "value-of-a-variable"}}
	app.Status.Conditions = []metav1.Condition{{Type: appv1.ConditionReady, Reason: appv1.ReasonForbidden, Message: "denied: value-of-a-variable"}}
	for _, viewer := range []bool{true, false} {
		o := uiOptions{viewer: viewer}
		from := o.newReader(&clients{})
		rows := newStore(func(obj runtime.Object) view.Row {
			r, _ := view.ResourceOf(obj)
			return from.row(&r)
		})
		rows.reportTo(func() {}, func() {})
		if err := rows.Replace([]any{app}, "1"); err != nil {
			t.Fatal(err)
		}
		if text := rows.allValues()[0].Words(); strings.Contains(text, "value-of-a-variable") == viewer {
			t.Errorf("viewer %t: the row says %q", viewer, text)
		}
	}
}

// TestObjectsAreReadAsValues has a store that keeps values: of each object that is listed one by one, the value alone is kept, by the same key.
func TestObjectsAreReadAsValues(t *testing.T) {
	rows := newStore(func(obj runtime.Object) string {
		r, _ := view.ResourceOf(obj)
		return r.Image
	})
	rows.reportTo(func() {}, func() {})
	var read []any
	for _, name := range []string{"cart", "web"} {
		app := &appv1.App{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name, UID: "1", ResourceVersion: "7"}}
		app.Spec.Image, app.Spec.Args = name+":1", []string{strings.Repeat("x", 1<<20)}
		kept, err := rows.Transformer()(app)
		if err != nil {
			t.Fatal(err)
		}
		if text := fmt.Sprintf("%+v", kept); len(text) > 2000 {
			t.Errorf("%d bytes are kept of %s", len(text), name)
		}
		if again, err := rows.Transformer()(kept); err != nil || !reflect.DeepEqual(again, kept) {
			t.Errorf("twice: %v, %v", again, err)
		}
		read = append(read, kept)
	}
	if err := rows.Replace(read, "7"); err != nil {
		t.Fatal(err)
	}
	if err := rows.Add(&appv1.App{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web"}}); err != nil {
		t.Fatal(err)
	}
	values := rows.allValues()
	if slices.Sort(values); !slices.Equal(values, []string{"", "cart:1"}) {
		t.Errorf("the values are %q", values)
	}
}

// TestViewerFlags tries flags that do not fit together.
func TestViewerFlags(t *testing.T) {
	viewer := func(port int, hosts ...string) *uiOptions { return &uiOptions{viewer: true, port: port, hosts: hosts} }
	for _, c := range []struct {
		flags *uiOptions
		want  string
	}{
		{&uiOptions{}, ""},
		{viewer(8080, "apps.example.com", "Apps.Example.Org", "10.0.0.7", "::1"), ""},
		{viewer(0, "apps.example.com"), messageViewerFlags},
		{viewer(8080), messageViewerFlags},
		{&uiOptions{hosts: []string{"apps.example.com"}}, messageHostFlag},
		{viewer(8080, "https://apps.example.com"), fmt.Sprintf(messageHostName, "https://apps.example.com")},
		{viewer(8080, "apps.example.com:443"), fmt.Sprintf(messageHostName, "apps.example.com:443")},
		{viewer(8080, "*.example.com"), fmt.Sprintf(messageHostName, "*.example.com")},
		{viewer(8080, ""), fmt.Sprintf(messageHostName, "")},
	} {
		got := ""
		if err := c.flags.checkFlags(); err != nil {
			got = err.Error()
		}
		if got != c.want {
			t.Errorf("%+v: %q, want %q", c.flags, got, c.want)
		}
	}
}

// TestDocumented compares the table of rights in the documentation with what the commands need.
func TestDocumented(t *testing.T) {
	page, err := os.ReadFile("../../docs/cli.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range CommandNeeds() {
		if row := row(n); !strings.Contains(string(page), row) {
			t.Errorf("docs/cli.md has no row\n%s", row)
		}
	}
}

// row is a command's row in the documentation.
func row(n Need) string {
	groups := func(needed bool) string {
		var texts []string
		for _, verb := range []string{"get", "list", "watch", "create", "patch", "delete"} {
			var resources []string
			for _, r := range n.Rights {
				if r.Verb == verb && r.Needed == needed {
					resources = append(resources, r.Resource)
				}
			}
			if len(resources) > 0 {
				texts = append(texts, verb+" "+strings.Join(resources, ", "))
			}
		}
		return strings.Join(texts, "; ")
	}
	return "| `" + n.Command + "` | " + groups(true) + " | " + groups(false) + " |"
}
