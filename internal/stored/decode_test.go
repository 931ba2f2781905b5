package stored

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"runtime"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apiresource "k8s.io/apimachinery/pkg/api/resource"
	k8sruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation/field"

	appv1 "huolala.cn/app-operator/api/v1"
	"huolala.cn/app-operator/api/v1/bounds"
)

// storedKinds is the scheme of the stored types. The tests decode thousands of specs with it.
var storedKinds = sync.OnceValue(func() *k8sruntime.Scheme {
	scheme := k8sruntime.NewScheme()
	if err := AddToScheme(scheme); err != nil {
		panic(err) // The types cannot be registered: a mistake in the program.
	}
	return scheme
})

// decodeSpec decodes a spec of a kind, and returns what is wrong with it.
func decodeSpec(t *testing.T, kind, spec string) error {
	t.Helper()
	data := fmt.Sprintf(`{"apiVersion":"app.huolala.cn/v1","kind":%q,"metadata":{"name":"web","namespace":"default"},"spec":%s}`, kind, spec)
	obj, err := storedKinds().New(appv1.GroupVersion.WithKind(kind))
	if err != nil {
		t.Fatal(err)
	}
	return decodeAll(t, data, obj, func() error {
		err, _ := reflect.ValueOf(obj).MethodByName("Decode").Call(nil)[1].Interface().(error)
		return err
	})
}

func decodeAll(t *testing.T, data string, into any, decode func() error) error {
	t.Helper()
	if err := json.Unmarshal([]byte(data), into); err != nil {
		t.Fatalf("the stored type refuses what the API server has: %v", err)
	}
	return decode()
}

// leaf is a field of a spec that holds a number of a kind.
type leaf struct {
	path string
	// spec returns the spec that has a value in that field alone.
	spec func(value string) string
	// of is the field's type; patched is true within a pod template patch.
	of      reflect.Type
	patched bool
}

// leaves returns all quantities, int-or-strings and integers of a type.
func leaves(t reflect.Type, path string, spec func(string) string, patched bool) []leaf {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	switch t {
	case reflect.TypeFor[apiresource.Quantity](), reflect.TypeFor[intstr.IntOrString]():
		return []leaf{{path, spec, t, patched}}
	case reflect.TypeFor[k8sruntime.RawExtension]():
		return leaves(reflect.TypeFor[corev1.PodTemplateSpec](), path, spec, true)
	}
	if reflect.PointerTo(t).Implements(reflect.TypeFor[json.Unmarshaler]()) {
		return nil
	}
	var found []leaf
	switch t.Kind() {
	case reflect.Struct:
		for f := range t.Fields() {
			name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
			if name == "" {
				found = append(found, leaves(f.Type, path, spec, patched)...)
				continue
			}
			found = append(found, leaves(f.Type, path+"."+name, func(v string) string { return spec(fmt.Sprintf("{%q:%s}", name, v)) }, patched)...)
		}
	case reflect.Map:
		return leaves(t.Elem(), path+"[example.com/gpu]", func(v string) string { return spec(`{"example.com/gpu":` + v + `}`) }, patched)
	case reflect.Slice:
		return leaves(t.Elem(), path+"[1]", func(v string) string { return spec("[null," + v + "]") }, patched)
	case reflect.Int32, reflect.Int64:
		return []leaf{{path, spec, t, patched}}
	}
	return found
}

// kinds are the types of the specs of all kinds of the API.
var kinds = specTypes()

func specTypes() map[string]reflect.Type {
	scheme, types := k8sruntime.NewScheme(), map[string]reflect.Type{}
	if err := appv1.AddToScheme(scheme); err != nil {
		panic(err)
	}
	for name, typ := range scheme.KnownTypes(appv1.GroupVersion) {
		if spec, ok := typ.FieldByName("Spec"); ok {
			types[name] = spec.Type
		}
	}
	return types
}

// hostile returns values that a field of a type must not have, those that decoding a patch does not refuse last.
func hostile(t reflect.Type) (bounds, others []string) {
	digits := strings.Repeat("9", 20_000)
	switch t {
	case reflect.TypeFor[apiresource.Quantity]():
		return []string{`"1e-100000000"`, `1e-100000000`, `1E100000000`, `"1e+20000000"`, `"-1.5e-0030000000"`, `" 1e-30000000 "`, `"` + digits + `m"`, digits},
			[]string{`"1e1.5"`, `"many"`, `""`, `true`, `{}`, `[]`, `"1\u0065-30000000"`}
	case reflect.TypeFor[intstr.IntOrString]():
		return []string{digits, `"` + digits + `%"`}, []string{`99999999999`, `-2147483649`, `1.5`, `1e3`, `1e100000000`, `true`, `{}`, `[]`}
	case reflect.TypeFor[int64]():
		return nil, []string{`9300000000000000000`, digits, `1.5`, `1e100000000`, `"1"`, `true`, `{}`, `[]`}
	}
	return nil, []string{`99999999999`, `-2147483649`, digits, `1.5`, `1e100000000`, `"1"`, `true`, `{}`, `[]`}
}

// TestDecodeRefusesNumbers has each field of each kind that holds a number with each value that the type cannot hold, or that
// it would take minutes to read. The error names the field, and not the value.
func TestDecodeRefusesNumbers(t *testing.T) {
	for kind, typ := range kinds {
		var fields int
		for _, l := range leaves(typ, "spec", func(v string) string { return v }, false) {
			fields++
			bounds, others := hostile(l.of)
			if !l.patched {
				bounds = append(bounds, others...)
			}
			for _, value := range bounds {
				err := decodeSpec(t, kind, l.spec(value))
				var wrong *field.Error
				if !errors.As(err, &wrong) || !strings.HasPrefix(wrong.Field, l.path) {
					t.Errorf("%s %s is %.40s: error %v", kind, l.path, value, err)
					continue
				}
				if len(value) > 5 && strings.Contains(err.Error(), strings.Trim(value, `"`)) {
					t.Errorf("%s %s: the message repeats the value: %v", kind, l.path, err)
				}
			}
		}
		if fields < 3 {
			t.Errorf("%s has %d fields with numbers", kind, fields)
		}
	}
}

// TestDecodeAllowsNumbers has each such field with values that are right.
func TestDecodeAllowsNumbers(t *testing.T) {
	for kind, typ := range kinds {
		for _, l := range leaves(typ, "spec", func(v string) string { return v }, false) {
			values := []string{"5", "0", "-1", "null", "2147483647"}
			switch l.of {
			case reflect.TypeFor[apiresource.Quantity]():
				values = append(values, `"1Gi"`, `"500m"`, `"1e3"`, `"1E3"`, `"1E"`, `"2Ei"`, `"1e-9"`, `1.5`, `1e3`, `"0.1"`)
			case reflect.TypeFor[intstr.IntOrString]():
				values = append(values, `"25%"`, `"http"`)
			}
			for _, value := range values {
				if err := decodeSpec(t, kind, l.spec(value)); err != nil {
					t.Errorf("%s %s is %s: %v", kind, l.path, value, err)
				}
			}
		}
	}
}

// TestDecodeNamesTheField has other mistakes of every sort.
func TestDecodeNamesTheField(t *testing.T) {
	many := func(n int, item string) string {
		return "[" + strings.TrimSuffix(strings.Repeat(item+",", n), ",") + "]"
	}
	deep := func(n int) string { return strings.Repeat("[", n) + strings.Repeat("]", n) }
	for name, c := range map[string]struct{ kind, spec, want string }{
		"no spec":            {"App", `null`, "spec: Required value: must be an object"},
		"a text for a spec":  {"App", `"x"`, "spec: Invalid value: must be an object"},
		"a list for a spec":  {"App", `[]`, "spec: Invalid value: must be an object"},
		"a number as a text": {"App", `{"image":5}`, "spec.image: Invalid value: must be a string"},
		"a text as a truth":  {"App", `{"paused":"yes"}`, "spec.paused: Invalid value: must be true or false"},
		"an object as a list": {
			"App", `{"envs":{"name":"A"}}`, "spec.envs: Invalid value: must be a list",
		},
		"a text in a list": {"App", `{"envs":[{"name":"A"},"B"]}`, "spec.envs[1]: Invalid value: must be an object"},
		"an annotation":    {"App", `{"podAnnotations":{"a.b/c":5}}`, "spec.podAnnotations[a.b/c]: Invalid value: must be a string"},
		"an extended resource": {
			"App", `{"resources":{"limits":{"example.com/gpu":"1e1.5"}}}`,
			"spec.resources.limits[example.com/gpu]: Invalid value: must be a quantity, such as 2, 500m or 1Gi, a number with an optional suffix or a whole exponent",
		},
		"within a tier": {
			"CloudManager", `{"front":{"deployment":{"rollingUpdate":99999999999}}}`,
			"spec.front.deployment.rollingUpdate: Invalid value: must be a number from -2147483648 to 2147483647, or a string",
		},
		"an escaped key": {
			"App", `{"resources":{"limits":{"\u0063pu":"1e-30000000"}}}`,
			"spec.resources.limits[cpu]: Invalid value: must be a quantity, such as 2, 500m or 1Gi, with an exponent of at most 3 digits",
		},
		"a long spec": {"App", `{"image":"` + strings.Repeat("x", bounds.MaxSpec) + `"}`, "spec: Invalid value: must be at most 1024 KiB long as JSON; it has 1025 KiB"},
		"a long patch": {
			"App", `{"podTemplatePatch":{"x":"` + strings.Repeat("x", bounds.MaxPatch) + `"}}`,
			"spec.podTemplatePatch: Invalid value: must be at most 64 KiB long as JSON; it has 65 KiB",
		},
		"a long patch by its former name": {
			"UnitedDeployment", `{"template":{"podTemplatePatch":{"x":"` + strings.Repeat("x", bounds.MaxPatch) + `"}}}`,
			"spec.template.podTemplatePatch: Invalid value: must be at most 64 KiB long as JSON; it has 65 KiB",
		},
		"many containers in a patch": {
			"App", `{"podTemplatePatch":{"spec":{"containers":` + many(101, `{}`) + `}}}`,
			"spec.podTemplatePatch.spec.containers: Invalid value: must have at most 100 items",
		},
		"many volumes in a patch": {
			"App", `{"podTemplatePatch":{"spec":{"volumes":` + many(501, `{}`) + `}}}`,
			"spec.podTemplatePatch.spec.volumes: Invalid value: must have at most 500 items",
		},
		"many containers": {"App", `{"containers":` + many(101, `{}`) + `}`, "spec.containers: Invalid value: must have at most 100 items"},
		"many quantities": {
			"App", `{"containers":` + many(5, `{"resources":{"limits":{`+strings.Repeat(`"x.y/z":"1",`, bounds.MaxItems-1)+`"x.y/z":"1"}}}`) + `,"resources":{"limits":{"cpu":"1"}}}`,
			"spec.resources.limits[cpu]: Invalid value: exceeds the limit of 10000 quantities",
		},
		"many arguments": {"App", `{"args":` + many(bounds.MaxItems+1, `"a"`) + `}`, "spec.args: Invalid value: must have at most 2000 items"},
		"many labels": {
			"App", `{"labels":{` + strings.Repeat(`"a":"b",`, bounds.MaxItems) + `"c":"d"}}`, "spec.labels: Invalid value: must have at most 2000 entries",
		},
		"many variables": {"App", `{"envs":` + many(2001, `{}`) + `}`, "spec.envs: Invalid value: must have at most 2000 items"},
		"a deep patch": {
			"App", `{"podTemplatePatch":{"x":` + deep(5000) + `}}`,
			"spec.podTemplatePatch: Invalid value: must be nested at most 100 levels deep",
		},
		"a deep unknown field": {"App", `{"x":` + deep(9000) + `}`, "spec.x: Invalid value: must be nested at most 100 levels deep"},
	} {
		t.Run(name, func(t *testing.T) {
			err := decodeSpec(t, c.kind, c.spec)
			if err == nil {
				t.Fatal("no error")
			}
			if diff := cmp.Diff(c.want, err.Error()); diff != "" {
				t.Errorf("error (-want +got):\n%s", diff)
			}
		})
	}
}

// TestDecodeAllowsTexts checks that what looks like a hostile number is allowed where it is a text.
func TestDecodeAllowsTexts(t *testing.T) {
	for _, spec := range []string{
		`{"envs":[{"name":"A","value":"1e-100000000"}],"args":["1e100000000"],"command":["` + strings.Repeat("9", 10_000) + `"]}`,
		`{"podAnnotations":{"1e100000000":"1e100000000"}}`,
		`{"podTemplatePatch":{"spec":{"containers":[{"name":"a","env":[{"name":"A","value":"1e100000000"}]}]}}}`,
		`{"podTemplatePatch":{"spec":{"$setElementOrder/containers":[{"name":"a"}],"volumes":[{"$patch":"replace"}]}}}`,
		`{"unknown":{"limits":{"cpu":"1e100000000"}}}`,
		`{}`,
	} {
		if err := decodeSpec(t, "App", spec); err != nil {
			t.Errorf("%.60s: %v", spec, err)
		}
	}
}

// TestDecodeCostsLittle counts the memory that hostile specs take to refuse: no more than a few times their length.
func TestDecodeCostsLittle(t *testing.T) {
	quantities := `{"resources":{"limits":{` + strings.TrimSuffix(strings.Repeat(`"x.y/z":"1e-100000000",`, 20_000), ",") + `}}}`
	for name, spec := range map[string]string{
		"a small exponent": `{"resources":{"limits":{"x.y/z":"1e-100000000"}}}`,
		"many exponents":   quantities,
		"many containers":  `{"containers":[` + strings.TrimSuffix(strings.Repeat(`{"name":"a"},`, 15_000), ",") + `]}`,
		"a long patch":     `{"podTemplatePatch":{"spec":{"containers":[` + strings.TrimSuffix(strings.Repeat(`{"name":"a"},`, 15_000), ",") + `]}}}`,
		"a long number":    `{"replicas":` + strings.Repeat("9", 400_000) + `}`,
	} {
		raw := Spec{json: []byte(spec)}
		var err error
		cost := allocated(func() { err = raw.decodeInto(&appv1.AppSpec{}) })
		if err == nil || cost > 64<<10+8*uint64(len(spec)) {
			t.Errorf("%s of %d bytes takes %d bytes: %v", name, len(spec), cost, err)
		}
	}
}

// allocated returns how many bytes a function allocates.
func allocated(f func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

// FuzzWalk has the walker go through anything: it must neither panic nor go on for ever, and find nothing malformed in JSON.
func FuzzWalk(f *testing.F) {
	for _, seed := range []string{plainSpec, `{"a":[1,{"b":"\""}]}`, `{`, `[]]`, `"`, `{"a"`, `{"envs":[`, ``, `}`, `{"resources":{"limits":{"cpu":`, `{"replicas"}`} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		for _, typ := range kinds {
			for _, check := range []func([]byte, reflect.Type, string) error{bounds.Check, bounds.Explain} {
				err := check(data, typ, "spec")
				if err != nil && json.Valid(data) && strings.Contains(err.Error(), "must be JSON") {
					t.Errorf("%q: %v", data, err)
				}
			}
		}
	})
}

// TestPausedIsReadOfAnySpec checks that a paused resource stays paused when the rest of its spec cannot be decoded.
func TestPausedIsReadOfAnySpec(t *testing.T) {
	for spec, want := range map[string]bool{
		`{"paused": true, "rollingUpdate": 99999999999}`: true,
		`{"rollingUpdate": 99999999999}`:                 false,
		`{"paused": "yes", "replicas": "x"}`:             false,
		`[]`:                                             false,
	} {
		app := &App{}
		if err := json.Unmarshal([]byte(`{"spec": `+spec+`}`), app); err != nil {
			t.Fatal(err)
		}
		typed, err := app.Decode()
		if err == nil || typed.Spec.Paused != want || typed.Spec.Replicas != nil {
			t.Errorf("%s: %+v, %v", spec, typed.Spec, err)
		}
	}
}
