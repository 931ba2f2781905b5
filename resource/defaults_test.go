package resource

import (
	"encoding/json"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/yaml"

	appv1 "huolala.cn/app-operator/api/v1"
	"huolala.cn/app-operator/internal/heap"
	"huolala.cn/app-operator/test/specs"
)

// defaultsOf decodes defaults.
func defaultsOf(t testing.TB, text string) *appv1.Defaults {
	t.Helper()
	d := &appv1.Defaults{}
	if err := yaml.UnmarshalStrict([]byte(text), d); err != nil {
		t.Fatalf("%v in %s", err, text)
	}
	return d
}

// newDefaultedApp returns an App with a spec.
func newDefaultedApp(t testing.TB, text string) *appv1.App {
	t.Helper()
	app := &appv1.App{}
	if err := yaml.UnmarshalStrict([]byte(text), &app.Spec); err != nil {
		t.Fatalf("%v in %s", err, text)
	}
	app.Namespace, app.Name, app.UID = "shop", "web", "1"
	if app.Spec.Image == "" {
		app.Spec.Image = "nginx:1"
	}
	return app
}

// taken returns the record of the defaults that an App takes.
func taken(app *appv1.App, d *appv1.Defaults) DefaultsRecord {
	return TakeDefaults(&PresentDefaults{Fields: d, Sizes: BuiltInSizes()}, AppSpec(app))
}

// TestMergeDefaults has a row for each rule of the merge. The result is read through a record, as a builder reads it.
func TestMergeDefaults(t *testing.T) {
	for name, c := range map[string]struct{ defaults, app, want string }{
		"a scalar":                   {"minReadySeconds: 5", "", "minReadySeconds: 5"},
		"the App's own scalar":       {"minReadySeconds: 5", "minReadySeconds: 7", "minReadySeconds: 7"},
		"a stated zero":              {"minReadySeconds: 5", "minReadySeconds: 0", "minReadySeconds: 0"},
		"a struct as a whole":        {"disruptionBudget: {maxUnavailable: 1, unhealthyPodEvictionPolicy: AlwaysAllow}", "disruptionBudget: {minAvailable: 2}", "disruptionBudget: {minAvailable: 2}"},
		"an empty struct is stated":  {"disruptionBudget: {maxUnavailable: 2}", "disruptionBudget: {}", "disruptionBudget: {}"},
		"an atomic list":             {"tolerations: [{key: a}]", "tolerations: [{key: b}]", "tolerations: [{key: b}]"},
		"maps by key":                {"podAnnotations: {a: '1', b: '1'}", "podAnnotations: {b: '2'}", "podAnnotations: {a: '1', b: '2'}"},
		"variables by name":          {"envs: [{name: A, value: '1'}, {name: B, value: '1'}]", "envs: [{name: C}, {name: A, value: '2'}]", "envs: [{name: B, value: '1'}, {name: C}, {name: A, value: '2'}]"},
		"mounts by path":             {"volumeMounts: [{name: t, mountPath: /t}]", "volumeMounts: [{name: t, mountPath: /u}]", "volumeMounts: [{name: t, mountPath: /t}, {name: t, mountPath: /u}]"},
		"containers by name":         {"containers: [{name: proxy, image: a}]", "containers: [{name: proxy, image: b}]", "containers: [{name: proxy, image: b}]"},
		"size off by resources":      {"size: small", "resources: {limits: {cpu: '1'}}", "resources: {limits: {cpu: '1'}}"},
		"resources off by size":      {"resources: {limits: {cpu: '1'}}", "size: small", "size: small"},
		"empty resources are none":   {"size: small", "resources: {}", "size: small"},
		"strategy as one":            {"rollingUpdate: 50%", "strategy: Recreate", "strategy: Recreate"},
		"maxSurge off by one":        {"maxSurge: 1\nmaxUnavailable: 0", "maxUnavailable: 1", "maxUnavailable: 1"},
		"account off by its name":    {"serviceAccount: {}", "serviceAccountName: me", "serviceAccountName: me"},
		"name resolution as one":     {"dnsPolicy: None\ndnsConfig: {nameservers: [1.1.1.1]}", "dnsConfig: {options: [{name: ndots}]}", "dnsConfig: {options: [{name: ndots}]}"},
		"a Service":                  {"service: {type: NodePort}", "service: {name: shop}", "service: {name: shop, type: NodePort}"},
		"a Service of the App":       {"service: {type: NodePort}", "service: {annotations: {a: b}}", "service: {annotations: {a: b}}"},
		"without":                    {"minReadySeconds: 5\ndisruptionBudget: {}", "withoutDefaults: [minReadySeconds, disruptionBudget]", "withoutDefaults: [minReadySeconds, disruptionBudget]"},
		"without nothing of a group": {"size: small", "withoutDefaults: [resources]", "withoutDefaults: [resources]\nsize: small"},
	} {
		t.Run(name, func(t *testing.T) {
			app, want := newDefaultedApp(t, c.app), newDefaultedApp(t, c.want)
			before := app.DeepCopy()
			with := AppSpec(app).WithDefaults(taken(app, defaultsOf(t, c.defaults)))
			if diff := cmp.Diff(string(canonicalJSON(&want.Spec.WorkloadSpec)), string(canonicalJSON(with.Workload()))); diff != "" {
				t.Errorf("the workload (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(string(canonicalJSON(&want.Spec.ServingSpec)), string(canonicalJSON(with.Serving()))); diff != "" {
				t.Errorf("around the pods (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(before, app); diff != "" {
				t.Errorf("the App was changed:\n%s", diff)
			}
		})
	}
}

// TestLayersOfDefaults has two layers: that of the namespace takes precedence, for sizes too.
func TestLayersOfDefaults(t *testing.T) {
	spec := func(text string) *appv1.AppDefaultsSpec {
		made := &appv1.AppDefaultsSpec{}
		if err := yaml.UnmarshalStrict([]byte(text), made); err != nil {
			t.Fatal(err)
		}
		return made
	}
	operator := spec("defaults: {size: small, podAnnotations: {a: '1', b: '1'}}\nsizes: {huge: {limits: {cpu: '8'}}, small: {limits: {cpu: '1'}}}")
	own := spec("defaults: {resources: {limits: {cpu: '2'}}, podAnnotations: {b: '2'}}\nsizes: {small: {limits: {cpu: '3'}}}")
	got := LayerDefaults(operator, nil, own)
	if diff := cmp.Diff(string(canonicalJSON(defaultsOf(t, "resources: {limits: {cpu: '2'}}\npodAnnotations: {a: '1', b: '2'}"))), string(canonicalJSON(got.Fields))); diff != "" {
		t.Errorf("defaults (-want +got):\n%s", diff)
	}
	if got := got.Sizes.Resolve("small").String(); got != "small (cpu -/3)" {
		t.Errorf("small is %s", got)
	}
	if got := got.Sizes.SizeNames(); got != "huge, large, medium, small, custom" {
		t.Errorf("the sizes are %s", got)
	}
	if LayerDefaults().Fields != nil || LayerDefaults(&appv1.AppDefaultsSpec{}).Fields == nil {
		t.Error("without AppDefaults there are defaults, or with one there are none")
	}
}

// excludedTogether are the rules of a definition that need no group, by the fields of the rule, with the reason.
var excludedTogether = map[string]string{
	"ingress ports":                 "the ports are no default",
	"httpRoute ports":               "the ports are no default",
	"revisionHistoryLimit rollback": "an App without old ReplicaSets names rollback in withoutDefaults, and the rule says so",
	"canary strategy":               "an App with a canary names strategy in withoutDefaults, and the rule says so",
}

// TestGroupsAreTheOneOfs compares the groups of the merge with the rules of the definition of App about several fields of the spec.
func TestGroupsAreTheOneOfs(t *testing.T) {
	data, err := os.ReadFile(filepath.Join("..", "config", "crd", "bases", "app.huolala.cn_apps.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	var crd struct {
		Spec struct {
			Versions []struct {
				Schema struct {
					OpenAPIV3Schema struct {
						Properties struct {
							Spec struct {
								Rules []struct {
									Rule string `json:"rule"`
								} `json:"x-kubernetes-validations"`
							} `json:"spec"`
						} `json:"properties"`
					} `json:"openAPIV3Schema"`
				} `json:"schema"`
			} `json:"versions"`
		} `json:"spec"`
	}
	if err := yaml.Unmarshal(data, &crd); err != nil {
		t.Fatal(err)
	}
	grouped, excluded := map[string]bool{}, map[string]bool{}
	fieldName := regexp.MustCompile(`self\.([a-zA-Z]+)`)
	for _, rule := range crd.Spec.Versions[0].Schema.OpenAPIV3Schema.Properties.Spec.Rules {
		var fields []string
		for _, match := range fieldName.FindAllStringSubmatch(rule.Rule, -1) {
			fields = append(fields, match[1])
		}
		slices.Sort(fields)
		fields = slices.Compact(fields)
		key := strings.Join(fields, " ")
		inGroup := slices.ContainsFunc(DefaultsGroups, func(group []string) bool {
			return !slices.ContainsFunc(fields, func(field string) bool { return !slices.Contains(group, field) })
		})
		switch {
		case len(fields) < 2:
		case inGroup:
			for _, field := range fields {
				grouped[field] = true
			}
		case excludedTogether[key] == "":
			t.Errorf("the rule about %s needs a group, or a reason: %s", key, rule.Rule)
		default:
			excluded[key] = true
		}
	}
	for _, field := range slices.Concat(DefaultsGroups...) {
		if !grouped[field] {
			t.Errorf("%s is in a group, and in no rule", field)
		}
	}
	for key := range excludedTogether {
		if !excluded[key] {
			t.Errorf("no rule is about %s", key)
		}
	}
}

// TestDefaultsAreFieldsOfApps compares the type of the defaults with the spec of an App: a field has the same name and type, and a field that
// is missing is missing for a reason.
func TestDefaultsAreFieldsOfApps(t *testing.T) {
	missing := strings.Fields("replicas image imagePullPolicy command args ports podTemplatePatch serviceAccountName ingress httpRoute")
	var of []string
	for _, spec := range []reflect.Type{reflect.TypeFor[appv1.WorkloadSpec](), reflect.TypeFor[appv1.ServingSpec]()} {
		for _, field := range reflect.VisibleFields(spec) {
			name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
			if name == "" { // Its fields follow.
				continue
			}
			of = append(of, name)
			d, has := reflect.TypeFor[appv1.Defaults]().FieldByName(field.Name)
			switch {
			case has == slices.Contains(missing, name):
				t.Errorf("%s: it is a default: %t", name, has)
			case has && (d.Type != field.Type || d.Tag.Get("json") != field.Tag.Get("json")):
				t.Errorf("%s has the type %s, and is %s in an App", name, d.Type, field.Type)
			}
		}
	}
	for _, name := range appv1.DefaultsFields() {
		if !slices.Contains(of, name) {
			t.Errorf("%s is no field of an App", name)
		}
	}
	for name := range mergeRules {
		if !slices.Contains(appv1.DefaultsFields(), name) {
			t.Errorf("%s has a rule and is no default", name)
		}
	}
}

// TestDefaultsRecord has records that are right, and those that another writer may have left.
func TestDefaultsRecord(t *testing.T) {
	app := newDefaultedApp(t, "podAnnotations: {b: '2'}\nwithoutDefaults: [minReadySeconds, tolerations]")
	record := taken(app, defaultsOf(t, "podAnnotations: {a: '1', b: '1'}\nminReadySeconds: 5\ndisruptionBudget: {}\nsize: small"))
	got, err := record.decodeRecord()
	if err != nil {
		t.Fatal(err)
	}
	want := `{"fields":{"podAnnotations":{"a":"1"},"size":"small","disruptionBudget":{}},"without":["minReadySeconds"]}`
	if diff := cmp.Diff(want, string(canonicalJSON(got))); diff != "" {
		t.Errorf("the record (-want +got):\n%s", diff)
	}
	in := BuildInputs{Rendering: RenderingLatest, Defaults: record}
	if read, err := DecodeInputs(in.Encode()); err != nil || read.Defaults != record {
		t.Errorf("the inputs come back as %+v, %v", read, err)
	}
	for _, c := range []struct {
		without []string
		want    bool
	}{
		{[]string{"minReadySeconds", "tolerations"}, false},
		{[]string{"minReadySeconds"}, false},
		{[]string{"minReadySeconds", "disruptionBudget"}, false},
		{nil, true},
		{[]string{"minReadySeconds", "size"}, true},
	} {
		if got := record.OptsOut(c.without); got != c.want {
			t.Errorf("without %q: %t", c.without, got)
		}
	}
	for _, bad := range []DefaultsRecord{
		"x", "AAAA", record[:len(record)/2], DefaultsRecord(strings.Repeat("A", MaxDefaultsRecord+1)), pack(t, `{"later":1}`), pack(t, `{"whenStated":{"ingress":{"rules":[]}}}`), pack(t, `{"fields":{"Size":"a"}}`),
		pack(t, `{"fields":{"resources":{"limits":{"cpu":"1e-100000000"}}}}`), pack(t, strings.Repeat(" ", maxRecordedDefaults+1)), pack(t, `{}{}`),
	} {
		costsLittle(t, string(bad[:1]), func() {
			if _, err := DecodeInputs(BuildInputs{Rendering: RenderingLatest, Defaults: bad}.Encode()); err == nil {
				t.Errorf("%.40s is read", bad)
			}
		})
	}
}

// pack compresses a text as a record is.
func pack(t *testing.T, text string) DefaultsRecord {
	t.Helper()
	return DefaultsRecord(Compress([]byte(text)))
}

// TestDefaultsAtTheLimit has the longest record that is taken, and a longer one: it makes the App invalid and adds nothing.
func TestDefaultsAtTheLimit(t *testing.T) {
	app := newDefaultedApp(t, "")
	at := func(length int) (DefaultsRecord, int) {
		record := taken(app, &appv1.Defaults{PodAnnotations: map[string]string{"a": padding(length)}})
		_, errs := App(app, BuildOptions{Inputs: BuildInputs{Rendering: RenderingLatest, Defaults: record}})
		return record, len(errs)
	}
	length := 100
	for record, _ := at(length); len(record) <= MaxDefaultsRecord; record, _ = at(length) {
		length += 10
	}
	if record, errs := at(length - 10); len(record) < MaxDefaultsRecord-100 || errs != 0 {
		t.Errorf("%d bytes make %d errors", len(record), errs)
	}
	if _, errs := at(length); errs != 1 {
		t.Errorf("a record that is too long makes %d errors", errs)
	}
}

// TestNoDefaultsChangeNothing builds all golden cases of Apps and ModelBoxes with an empty AppDefaults: not a byte differs.
func TestNoDefaultsChangeNothing(t *testing.T) {
	for name, path := range cases(t, "app") {
		app := &appv1.App{}
		seen := readCase(t, path, app)
		options := seen.observed()
		without := appBytes(t, app, options)
		options.Inputs.Defaults = taken(app, &appv1.Defaults{})
		if diff := cmp.Diff(without, appBytes(t, app, options)); diff != "" || options.Inputs.Defaults != "" {
			t.Errorf("%s (-without +with):\n%s", name, diff)
		}
	}
}

// TestMemoKeepsABudget has a memo remember results until their bytes are beyond its budget. A result that is larger is not remembered.
func TestMemoKeepsABudget(t *testing.T) {
	var m memo[string]
	made := 0
	get := func(text string, length int) {
		m.get(text, func() string { made++; return strings.Repeat("x", length) })
	}
	for i := range 100 {
		get(strings.Repeat("a", i), maxMemo/10)
		if size := heap.Size(m.known); size > maxMemo+maxMemo/50 || m.bytes > maxMemo {
			t.Fatalf("after %d results it has %d bytes and counts %d", i+1, size, m.bytes)
		}
	}
	get("fits", maxMemo-1000)
	get("fits", maxMemo-1000)
	get("too long", maxMemo)
	get("too long", maxMemo)
	if made != 103 {
		t.Errorf("%d results are made, want 103", made)
	}
}

// randomDefaults returns defaults of an App that the schema takes.
func randomDefaults(t testing.TB, src specs.Source) *appv1.Defaults {
	t.Helper()
	app, _ := randomApp(t, src)
	d := appv1.NewDefaults(&app.Spec.WorkloadSpec, &app.Spec.ServingSpec)
	d.Service.Name = ""
	if src.IntN(2) == 1 {
		d.DisruptionBudget = &appv1.DisruptionBudgetSpec{UnhealthyPodEvictionPolicy: policyv1.AlwaysAllow}
	}
	if src.IntN(2) == 1 {
		d.MaxSurge, d.RollingUpdate, d.Strategy = ptr.To(intstr.FromInt32(1)), nil, appsv1.RollingUpdateDeploymentStrategyType
	}
	if src.IntN(2) == 1 {
		d.Envs = append(d.Envs, corev1.EnvVar{Name: "OF_THE_PLATFORM", Value: "1"})
	}
	return MergeDefaults(&appv1.Defaults{}, d) // Without empty values.
}

// FuzzDefaults merges random layers: the App wins, the order of merging makes no difference, twice is as once, and a record means what was
// merged.
func FuzzDefaults(f *testing.F) {
	f.Add([]byte(nil))
	random := rand.New(rand.NewPCG(1, 2))
	for range 200 {
		data := make([]byte, random.IntN(900))
		for i := range data {
			data[i] = byte(random.IntN(256))
		}
		f.Add(data)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		src := specs.FromBytes(data)
		a, b, c := randomDefaults(t, src), randomDefaults(t, src), randomDefaults(t, src)
		before := string(canonicalJSON([]*appv1.Defaults{a, b, c}))
		text := func(d *appv1.Defaults) string { return string(canonicalJSON(d)) }
		if one, other := text(MergeDefaults(MergeDefaults(a, b), c)), text(MergeDefaults(a, MergeDefaults(b, c))); one != other {
			t.Errorf("the order matters:\n%s", cmp.Diff(one, other))
		}
		if once, twice := text(MergeDefaults(a, b)), text(MergeDefaults(MergeDefaults(a, b), b)); once != twice {
			t.Errorf("twice is not as once:\n%s", cmp.Diff(once, twice))
		}
		if alone := text(MergeDefaults(&appv1.Defaults{}, a)); alone != text(a) {
			t.Errorf("an empty layer changes:\n%s", cmp.Diff(text(a), alone))
		}
		app, _ := randomApp(t, src)
		blocks := randomWhenStated(t, src)
		checkWhenStated(t, blocks, randomWhenStated(t, src), randomWhenStated(t, src))
		checkTaken(t, app, MergeDefaults(a, b), blocks)
		if after := string(canonicalJSON([]*appv1.Defaults{a, b, c})); after != before {
			t.Errorf("a layer was changed:\n%s", cmp.Diff(before, after))
		}
	})
}

// checkTaken checks what an App takes of defaults.
func checkTaken(t *testing.T, app *appv1.App, d *appv1.Defaults, blocks *appv1.WhenStated) {
	t.Helper()
	record := TakeDefaults(&PresentDefaults{Fields: d, WhenStated: *blocks, Sizes: BuiltInSizes()}, AppSpec(app))
	if len(record) > MaxDefaultsRecord {
		return
	}
	with := AppSpec(app).WithDefaults(record)
	direct, around := withDefaults(d, &app.Spec.WorkloadSpec, &app.Spec.ServingSpec, app.Spec.WithoutDefaults)
	fillBlocks(blocks, &around, app.Spec.WithoutDefaults)
	if diff := cmp.Diff(string(canonicalJSON(&direct)), string(canonicalJSON(with.Workload()))); diff != "" {
		t.Errorf("the record means another workload (-merged +record):\n%s", diff)
	}
	if diff := cmp.Diff(string(canonicalJSON(&around)), string(canonicalJSON(with.Serving()))); diff != "" {
		t.Errorf("the record means other objects (-merged +record):\n%s", diff)
	}
	checkStated(t, &app.Spec.WorkloadSpec, with.Workload())
	checkStated(t, &app.Spec.ServingSpec, with.Serving())
}

// checkStated checks that the fields of an App with defaults have all that the App states.
func checkStated(t *testing.T, stated, merged any) {
	t.Helper()
	var own, all map[string]any
	for into, spec := range map[*map[string]any]any{&own: stated, &all: merged} {
		if err := json.Unmarshal(canonicalJSON(spec), into); err != nil {
			t.Fatal(err)
		}
	}
	for name, value := range own {
		depth := 1
		if slices.Contains(appv1.WhenStatedBlocks(), name) {
			depth = 2
		}
		if !holds(all[name], value, depth) {
			t.Errorf("%s: the App states %v, and has %v", name, value, all[name])
		}
	}
}

// holds reports whether a merged value has all of a stated one. Objects down to a depth may have more.
func holds(merged, stated any, depth int) bool {
	switch stated := stated.(type) {
	case map[string]any:
		all, ok := merged.(map[string]any)
		for key, value := range stated {
			ok = ok && (depth > 1 && holds(all[key], value, depth-1) || reflect.DeepEqual(all[key], value))
		}
		return ok
	case []any:
		all, ok := merged.([]any)
		return ok && len(all) >= len(stated) && reflect.DeepEqual(all[len(all)-len(stated):], stated)
	}
	return reflect.DeepEqual(merged, stated)
}
