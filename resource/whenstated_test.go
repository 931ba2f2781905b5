package resource

import (
	"reflect"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"

	appv1 "huolala.cn/app-operator/api/v1"
	"huolala.cn/app-operator/test/specs"
)

// defaultsSpecOf decodes the spec of AppDefaults.
func defaultsSpecOf(t testing.TB, text string) *appv1.AppDefaultsSpec {
	t.Helper()
	spec := &appv1.AppDefaultsSpec{}
	if err := yaml.UnmarshalStrict([]byte(text), spec); err != nil {
		t.Fatalf("%v in %s", err, text)
	}
	return spec
}

// TestWhenStated has a row for each rule of the blocks, with the AppDefaults of the operator's namespace and of the App's. The result is read
// through a record.
func TestWhenStated(t *testing.T) {
	for name, c := range map[string]struct{ far, near, app, want string }{
		"no block":                  {"whenStated: {httpRoute: {parentRefs: [{name: a}]}, ingress: {className: a}, podMonitor: {path: /a}}", "", "", ""},
		"an empty block":            {"whenStated: {httpRoute: {parentRefs: [{name: a}]}}", "", "httpRoute: {}", "httpRoute: {parentRefs: [{name: a}]}"},
		"the App's own parents":     {"whenStated: {httpRoute: {parentRefs: [{name: a}], pathType: Exact}}", "", "httpRoute: {parentRefs: [{name: b}]}", "httpRoute: {parentRefs: [{name: b}], pathType: Exact}"},
		"a class":                   {"whenStated: {ingress: {className: a}}", "", "ingress: {rules: [{host: a.b}]}", "ingress: {className: a, rules: [{host: a.b}]}"},
		"the App's own class":       {"whenStated: {ingress: {className: a, pathType: Exact}}", "", "ingress: {className: b, rules: [{host: a.b}]}", "ingress: {className: b, pathType: Exact, rules: [{host: a.b}]}"},
		"the App's former class":    {"whenStated: {ingress: {className: a, pathType: Exact}}", "", "ingress: {rules: [{host: a.b}], annotations: {kubernetes.io/ingress.class: b}}", "ingress: {pathType: Exact, rules: [{host: a.b}], annotations: {kubernetes.io/ingress.class: b}}"},
		"a former class of all":     {"whenStated: {ingress: {className: a}}", "", "annotations: {kubernetes.io/ingress.class: b}\ningress: {rules: [{host: a.b}]}", "ingress: {rules: [{host: a.b}]}"},
		"a class of both layers":    {"whenStated: {ingress: {className: a}}", "whenStated: {ingress: {annotations: {kubernetes.io/ingress.class: b}}}", "ingress: {rules: [{host: a.b}]}", "ingress: {rules: [{host: a.b}], annotations: {kubernetes.io/ingress.class: b}}"},
		"a former class of a layer": {"whenStated: {ingress: {annotations: {kubernetes.io/ingress.class: b}}}", "", "ingress: {className: a, rules: [{host: a.b}]}", "ingress: {className: a, rules: [{host: a.b}], annotations: {kubernetes.io/ingress.class: a}}"},
		"a certificate":             {"whenStated: {ingress: {tls: {secretName: a}}}", "whenStated: {ingress: {className: b}}", "ingress: {rules: [{host: a.b}]}", "ingress: {className: b, tls: {secretName: a}, rules: [{host: a.b}]}"},
		"annotations by key":        {"whenStated: {ingress: {annotations: {a: '1', b: '1', c: '1'}}}", "whenStated: {ingress: {annotations: {b: '2', c: '2'}}}", "ingress: {rules: [{host: a.b}], annotations: {c: '3'}}", "ingress: {rules: [{host: a.b}], annotations: {a: '1', b: '2', c: '3'}}"},
		"labels by key":             {"whenStated: {podMonitor: {labels: {release: a, team: a}, interval: 30s}}", "", "podMonitor: {labels: {team: b}}", "podMonitor: {labels: {release: a, team: b}, interval: 30s}"},
		"the namespace's parents":   {"whenStated: {httpRoute: {parentRefs: [{name: a}]}}", "whenStated: {httpRoute: {parentRefs: [{name: b}]}}", "httpRoute: {}", "httpRoute: {parentRefs: [{name: b}]}"},
		"an empty list":             {"whenStated: {httpRoute: {parentRefs: [{name: a}]}}", "whenStated: {httpRoute: {parentRefs: []}}", "httpRoute: {parentRefs: []}", "httpRoute: {parentRefs: [{name: a}]}"},
		"without a block":           {"whenStated: {httpRoute: {parentRefs: [{name: a}]}, podMonitor: {path: /a}}", "", "httpRoute: {}\npodMonitor: {}\nwithoutDefaults: [httpRoute]", "httpRoute: {}\npodMonitor: {path: /a}\nwithoutDefaults: [httpRoute]"},
		"a block of the defaults":   {"defaults: {podMonitor: {port: 9}}\nwhenStated: {podMonitor: {path: /a}}", "", "", "podMonitor: {port: 9, path: /a}"},
		"without both":              {"defaults: {podMonitor: {port: 9}}\nwhenStated: {podMonitor: {path: /a}}", "", "withoutDefaults: [podMonitor]", "withoutDefaults: [podMonitor]"},
		"the block as a whole, too": {"defaults: {podMonitor: {path: /b}}\nwhenStated: {podMonitor: {path: /a, interval: 1m}}", "", "podMonitor: {}", "podMonitor: {path: /a, interval: 1m}"},
	} {
		t.Run(name, func(t *testing.T) {
			app, want := newDefaultedApp(t, c.app), newDefaultedApp(t, c.want)
			far, near := defaultsSpecOf(t, c.far), defaultsSpecOf(t, c.near)
			before := string(canonicalJSON([]any{app, far, near}))
			present := LayerDefaults(far, near)
			with := AppSpec(app).WithDefaults(TakeDefaults(&present, AppSpec(app)))
			if diff := cmp.Diff(string(canonicalJSON(&want.Spec.ServingSpec)), string(canonicalJSON(with.Serving()))); diff != "" {
				t.Errorf("around the pods (-want +got):\n%s", diff)
			}
			if after := string(canonicalJSON([]any{app, far, near})); after != before {
				t.Errorf("an argument was changed:\n%s", cmp.Diff(before, after))
			}
		})
	}
}

// TestWhenStatedFields compares the blocks with those of an App: each field is a field of the block with the same type and name, and blocks without
// the fields that are about one application.
func TestWhenStatedFields(t *testing.T) {
	of := map[string][]string{
		"httpRoute": {"hostnames", "paths", "port"}, "ingress": {"rules", "port"}, "podMonitor": {"port"},
	}
	serving := reflect.TypeFor[appv1.ServingSpec]()
	for block := range reflect.TypeFor[appv1.WhenStated]().Fields() {
		stated, ok := serving.FieldByName(block.Name)
		name, _, _ := strings.Cut(block.Tag.Get("json"), ",")
		if !ok || block.Tag.Get("json") != stated.Tag.Get("json") || of[name] == nil {
			t.Fatalf("%s is no block of an App", name)
		}
		for field := range stated.Type.Elem().Fields() {
			own, _, _ := strings.Cut(field.Tag.Get("json"), ",")
			found, has := block.Type.Elem().FieldByName(field.Name)
			missing := strings.Contains(" "+strings.Join(of[name], " ")+" ", " "+own+" ")
			switch {
			case has == missing:
				t.Errorf("%s.%s: it has a default: %t", name, own, has)
			case has && (found.Type != field.Type || found.Tag.Get("json") != field.Tag.Get("json")):
				t.Errorf("%s.%s has the type %s, and is %s in an App", name, own, found.Type, field.Type)
			}
		}
		for field := range block.Type.Elem().Fields() {
			if _, has := stated.Type.Elem().FieldByName(field.Name); !has {
				t.Errorf("%s.%s is no field of an App", name, field.Name)
			}
		}
	}
}

// randomWhenStated returns defaults of blocks that the schema takes.
func randomWhenStated(t testing.TB, src specs.Source) *appv1.WhenStated {
	t.Helper()
	app, _ := randomApp(t, src)
	d := &appv1.WhenStated{}
	into := reflect.ValueOf(d).Elem()
	for i := range into.NumField() {
		stated := reflect.ValueOf(&app.Spec.ServingSpec).Elem().FieldByName(into.Type().Field(i).Name)
		if stated.IsNil() {
			continue
		}
		block := reflect.New(into.Field(i).Type().Elem())
		for field := range block.Type().Elem().Fields() {
			block.Elem().FieldByName(field.Name).Set(stated.Elem().FieldByName(field.Name))
		}
		into.Field(i).Set(block)
	}
	made := MergeWhenStated(&appv1.WhenStated{}, d) // Without empty values.
	return &made
}

// checkWhenStated merges random layers of blocks: the order of merging makes no difference, twice is as once, and an empty layer changes nothing.
func checkWhenStated(t *testing.T, a, b, c *appv1.WhenStated) {
	t.Helper()
	before := string(canonicalJSON([]*appv1.WhenStated{a, b, c}))
	merge := func(layers ...*appv1.WhenStated) *appv1.WhenStated {
		merged := layers[0]
		for _, layer := range layers[1:] {
			next := MergeWhenStated(merged, layer)
			merged = &next
		}
		return merged
	}
	text := func(d *appv1.WhenStated) string { return string(canonicalJSON(d)) }
	if one, other := text(merge(merge(a, b), c)), text(merge(a, merge(b, c))); one != other {
		t.Errorf("the order matters:\n%s", cmp.Diff(one, other))
	}
	if once, twice := text(merge(a, b)), text(merge(a, b, b)); once != twice {
		t.Errorf("twice is not as once:\n%s", cmp.Diff(once, twice))
	}
	for _, alone := range []string{text(merge(&appv1.WhenStated{}, a)), text(merge(a, &appv1.WhenStated{}))} {
		if alone != text(a) {
			t.Errorf("an empty layer changes:\n%s", cmp.Diff(text(a), alone))
		}
	}
	if after := string(canonicalJSON([]*appv1.WhenStated{a, b, c})); after != before {
		t.Errorf("a layer was changed:\n%s", cmp.Diff(before, after))
	}
}
