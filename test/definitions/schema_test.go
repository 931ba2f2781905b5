package definitions

import (
	"encoding/json"
	"fmt"
	"math"
	"math/rand"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	crdvalidation "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/validation"
	schemavalidation "k8s.io/apiextensions-apiserver/pkg/apiserver/validation"
	"k8s.io/apimachinery/pkg/api/resource"
	apiruntime "k8s.io/apimachinery/pkg/runtime"
	kubejson "k8s.io/apimachinery/pkg/util/json"

	appv1 "huolala.cn/app-operator/api/v1"
	"huolala.cn/app-operator/test/fixture"
)

// TestDefinitionsAreAccepted checks the definitions as the API server does, the cost of their rules included.
func TestDefinitionsAreAccepted(t *testing.T) {
	for _, crd := range definitions(t) {
		apiextensionsv1.SetDefaults_CustomResourceDefinition(&crd)
		apiextensionsv1.SetDefaults_CustomResourceDefinitionSpec(&crd.Spec)
		crd.Status.StoredVersions = []string{crd.Spec.Versions[0].Name}
		internal := &apiextensions.CustomResourceDefinition{}
		if err := apiextensionsv1.Convert_v1_CustomResourceDefinition_To_apiextensions_CustomResourceDefinition(&crd, internal, nil); err != nil {
			t.Fatal(err)
		}
		for _, err := range crdvalidation.ValidateCustomResourceDefinition(t.Context(), internal) {
			t.Errorf("%s: %v", crd.Name, err)
		}
	}
}

// place is a node of a schema, and where it is.
type place struct {
	// path are the names of the fields; "[]" is an item of a list, "{}" a value of a map.
	path   []string
	schema *apiextensionsv1.JSONSchemaProps
}

func (p place) String() string { return strings.Join(p.path, ".") }

// in reports whether the place is below a name.
func (p place) in(name string) bool { return slices.Contains(p.path, name) }

// holding returns an object of the kind with the value at the place, and nothing else.
func (p place) holding(value any) any {
	for _, name := range slices.Backward(p.path) {
		switch name {
		case "[]":
			value = []any{value}
		case "{}":
			value = map[string]any{"key": value}
		default:
			value = map[string]any{name: value}
		}
	}
	return value
}

// places lists each node below one.
func places(at place) []place {
	list := []place{at}
	step := func(name string, below *apiextensionsv1.JSONSchemaProps) {
		list = append(list, places(place{append(slices.Clone(at.path), name), below})...)
	}
	for name, below := range at.schema.Properties {
		if len(at.path) > 0 || name != "metadata" {
			step(name, &below)
		}
	}
	if at.schema.Items != nil {
		step("[]", at.schema.Items.Schema)
	}
	if at.schema.AdditionalProperties != nil && at.schema.AdditionalProperties.Schema != nil {
		step("{}", at.schema.AdditionalProperties.Schema)
	}
	return list
}

// eachPlace calls do with each node of each definition.
func eachPlace(t *testing.T, do func(kind string, at place)) {
	t.Helper()
	for _, crd := range definitions(t) {
		for _, version := range crd.Spec.Versions {
			for _, at := range places(place{nil, version.Schema.OpenAPIV3Schema}) {
				do(crd.Spec.Names.Kind, at)
			}
		}
	}
}

// TestNoDefaultInsideAList checks what keeps "kubectl apply" of an unchanged file from a change: apply replaces a list as a
// whole, without the defaults that the API server has filled in.
func TestNoDefaultInsideAList(t *testing.T) {
	eachPlace(t, func(kind string, at place) {
		if at.in("[]") && at.schema.Default != nil {
			t.Errorf("%s: %s has the default %s", kind, at, at.schema.Default.Raw)
		}
	})
}

// TestListsOfObjectsAreLimited checks that no list that a user writes can have any number of objects.
func TestListsOfObjectsAreLimited(t *testing.T) {
	eachPlace(t, func(kind string, at place) {
		items := at.schema.Items
		if items != nil && len(items.Schema.Properties) > 0 && !at.in("status") && at.schema.MaxItems == nil {
			t.Errorf("%s: %s has no maxItems", kind, at)
		}
	})
}

// TestRulesTestQuantitiesFirst checks that a rule never hands quantity() what takes minutes to read: it is evaluated on a value
// that does not match the pattern of its schema, too.
func TestRulesTestQuantitiesFirst(t *testing.T) {
	found := 0
	eachPlace(t, func(kind string, at place) {
		for _, rule := range at.schema.XValidations {
			call := strings.Index(rule.Rule, "quantity(")
			if call < 0 {
				continue
			}
			found++
			if test := strings.Index(rule.Rule, ".matches('"+appv1.QuantityPattern+"')"); test < 0 || test > call {
				t.Errorf("%s: %s calls quantity() in %q and does not test QuantityPattern before", kind, at, rule.Rule)
			}
		}
	})
	if found == 0 {
		t.Error("no rule calls quantity(); the test does not find them")
	}
}

// TestQuantityPattern compares the pattern with what Kubernetes reads as a quantity: but for the length of the exponent, the two
// are the same.
func TestQuantityPattern(t *testing.T) {
	pattern := regexp.MustCompile(appv1.QuantityPattern)
	for _, text := range []string{"1e1000", "1e-20000000", "1e1.5", "1E+0001", "", "e3", ".", "+", "1 ", "0x1", "1KI", "1k\n"} {
		if pattern.MatchString(text) {
			t.Errorf("%q matches", text)
		}
	}
	for suffix := range strings.SplitSeq(" ,Ki,Mi,Gi,Ti,Pi,Ei,n,u,m,k,M,G,T,P,E,e3,E3,e-3,E+3,e999", ",") {
		for _, digits := range []string{"1", "0", "1.5", "1.", ".5", "-1", "+1", "007", strings.Repeat("9", 40)} {
			if text := digits + strings.TrimSpace(suffix); !pattern.MatchString(text) {
				t.Errorf("%q does not match", text)
			}
		}
	}
	random := rand.New(rand.NewSource(1))
	// Kubernetes reads "m" as 0, which no schema of a quantity has ever taken.
	digits := regexp.MustCompile(`^[-+]?[.]?[0-9]`)
	const letters = "0123456789..--++eEKMGTPEimnuk "
	for range 200_000 {
		text := make([]byte, random.Intn(6))
		for i := range text {
			text[i] = letters[random.Intn(len(letters))]
		}
		_, err := resource.ParseQuantity(string(text))
		if got := pattern.Match(text); got != (err == nil && digits.Match(text)) {
			t.Errorf("%q matches: %t, but reading it says %v", text, got, err)
		}
	}
}

// attempts are values that some Go type might not take.
func attempts(schema *apiextensionsv1.JSONSchemaProps) []any {
	values := []any{
		nil, true, 0.5, 1e300, -1e300, 9007199254740993.0, map[string]any{}, []any{}, map[string]any{"key": "x"}, []any{"x"}, []any{nil},
		"", "x", "1", "-1", "99999999999", "99999999999%", "100%", "1e1.5", "1e-20000000", "1e999", "1e-999", "1e1000", "-1E+999",
		".5", "1.", "+.1Ki", strings.Repeat("9", 64), "." + strings.Repeat("1", 63), strings.Repeat("9", 60) + "e999", "2026-01-02T03:04:05Z",
		"2026-01-02t03:04:05z", "2026-02-30T03:04:05Z", "2026-01-02T24:00:00Z", "2026-01-02T03:04:60Z", "2026-01-02T03:04:05+99:99",
		"2026-01-02T03:04:05.123456789+01:30", "2026-01-02T03:04:05.1234567890Z", "2026-01-02 03:04:05Z", "0000-00-00T00:00:00Z", "1h", "=", "eA==",
		"\x00", "\u2028\U0001F600", `"`,
	}
	for _, n := range []int64{0, math.MinInt32, math.MaxInt32, math.MaxUint32, math.MinInt64 + 1, math.MaxInt64 - 1, 1 << 53} {
		values = append(values, n-1, n, n+1)
	}
	for _, limit := range []*float64{schema.Minimum, schema.Maximum} {
		if limit != nil {
			values = append(values, int64(*limit)-1, int64(*limit), int64(*limit)+1)
		}
	}
	if most := schema.MaxLength; most != nil {
		for _, text := range []string{"9", "x", "\U0001F600"} {
			values = append(values, strings.Repeat(text, int(*most)), strings.Repeat(text, int(*most)+1))
		}
	}
	for _, value := range schema.Enum {
		var v any
		if kubejson.Unmarshal(value.Raw, &v) == nil {
			values = append(values, v)
		}
	}
	return values
}

// admits returns a function that reports whether a schema admits a value.
func admits(t *testing.T, schema *apiextensionsv1.JSONSchemaProps) func(any) bool {
	t.Helper()
	internal := &apiextensions.JSONSchemaProps{}
	if err := apiextensionsv1.Convert_v1_JSONSchemaProps_To_apiextensions_JSONSchemaProps(schema, internal, nil); err != nil {
		t.Fatal(err)
	}
	validator, _, err := schemavalidation.NewSchemaValidator(internal)
	if err != nil {
		t.Fatal(err)
	}
	return func(value any) bool { return len(schemavalidation.ValidateCustomResource(nil, value, validator)) == 0 }
}

// newObject returns an empty object of a kind.
func newObject(t *testing.T, kind string) apiruntime.Object {
	t.Helper()
	for _, k := range fixture.Kinds {
		if k.Name == kind {
			return k.New()
		}
	}
	if kind == "AppDefaults" { // It is no kind of workloads.
		return &appv1.AppDefaults{}
	}
	t.Fatalf("the test does not know the kind %s", kind)
	return nil
}

// maxDecodeBytes is how much memory decoding one object may take, and maxDecodeRatio how much time: so many times that of an
// ordinary App, which takes about 30 µs.
const maxDecodeBytes, maxDecodeRatio = 1 << 20, 350

// decodeTime is the shortest of many times that it takes to read JSON into an object: another process can take time in each, and what is
// in the JSON takes time in all of them.
// A time that is short enough ends the tries.
func decodeTime(data []byte, empty func() any, enough time.Duration) (shortest time.Duration) {
	for try := range 25 {
		obj, begin := empty(), time.Now()
		_ = json.Unmarshal(data, obj)
		if took := time.Since(begin); try == 0 || took < shortest {
			shortest = took
		}
		if shortest <= enough {
			break
		}
	}
	return shortest
}

// maxDecodeTime is how long decoding one object may take on this machine, with the race detector or without it.
var maxDecodeTime = sync.OnceValue(func() time.Duration {
	port := corev1.ContainerPort{Name: "http", ContainerPort: 8080}
	app := appv1.App{Spec: appv1.AppSpec{WorkloadSpec: appv1.WorkloadSpec{Image: "nginx:1.25"}}}
	app.Spec.Containers = []corev1.Container{{Name: "proxy", Image: "envoy:1.30", Ports: []corev1.ContainerPort{port}}}
	for i := range 20 {
		app.Spec.Envs = append(app.Spec.Envs, corev1.EnvVar{Name: fmt.Sprint("VARIABLE_", i), Value: strings.Repeat("value ", 5)})
	}
	data, err := json.Marshal(app)
	if err != nil {
		panic(err)
	}
	return maxDecodeRatio * decodeTime(data, func() any { return &appv1.App{} }, 0)
})

// decode reads an object, and says what is wrong with how that goes: an error, or more time or memory than an object may take.
func decode(t *testing.T, kind string, obj any) error {
	t.Helper()
	data, err := json.Marshal(obj)
	if err != nil {
		t.Fatal(err)
	}
	limit := maxDecodeTime()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	begin := time.Now()
	if err := json.Unmarshal(data, newObject(t, kind)); err != nil {
		return err
	}
	took := time.Since(begin)
	runtime.ReadMemStats(&after)
	if took > limit {
		took = decodeTime(data, func() any { return newObject(t, kind) }, limit)
	}
	if used := after.TotalAlloc - before.TotalAlloc; took > limit || used > maxDecodeBytes {
		return fmt.Errorf("takes %v and %d bytes", took, used)
	}
	return nil
}

// readPatch reads the pod template patch of a value at a place in it, within ten times the time that an object may take. That it
// cannot be read is no fault: the operator says so of that object alone.
func readPatch(t *testing.T, at place, value any) {
	t.Helper()
	from := slices.Index(at.path, "podTemplatePatch")
	data, err := json.Marshal(place{path: at.path[from+1:]}.holding(value))
	if err != nil {
		t.Fatal(err)
	}
	limit := 10 * maxDecodeTime()
	if took := decodeTime(data, func() any { return &corev1.PodTemplateSpec{} }, limit); took > limit {
		t.Errorf("%s takes %v to read %.40q", at, took, data)
	}
}

// TestWhatTheSchemaAdmitsDecodes tries values at each field of each kind. What the schema of the field admits, by itself and
// without any rule, its Go type has to read, in no time.
func TestWhatTheSchemaAdmitsDecodes(t *testing.T) {
	tried, admitted := 0, 0
	eachPlace(t, func(kind string, at place) {
		if len(at.path) == 0 || at.in("front") { // front is of the same type as identity.
			return
		}
		admit := admits(t, at.schema)
		for _, value := range attempts(at.schema) {
			tried++
			if !admit(value) {
				continue
			}
			admitted++
			if at.in("podTemplatePatch") {
				readPatch(t, at, value)
			}
			if err := decode(t, kind, at.holding(value)); err != nil {
				t.Errorf("%s: the schema admits %.60q at %s: %v", kind, fmt.Sprint(value), at, err)
			}
		}
	})
	t.Logf("%d values tried, %d admitted", tried, admitted)
	if admitted < 10_000 {
		t.Errorf("only %d of %d values are admitted; the test does not find the fields", admitted, tried)
	}
}

// generator makes random values that a schema admits.
type generator struct {
	*rand.Rand
	t      *testing.T
	values map[*apiextensionsv1.JSONSchemaProps][]any
}

// value returns a value for a schema. depth keeps an object from growing without end.
func (g *generator) value(schema *apiextensionsv1.JSONSchemaProps, depth int) any {
	switch {
	case schema.Items != nil:
		list := make([]any, g.Intn(3))
		for i := range list {
			list[i] = g.value(schema.Items.Schema, depth+1)
		}
		return list
	case len(schema.Properties) > 0:
		obj := map[string]any{}
		for name, below := range schema.Properties {
			if slices.Contains(schema.Required, name) || g.Intn(3+depth) < 2 {
				obj[name] = g.value(g.node(schema, name, below), depth+1)
			}
		}
		return obj
	case schema.AdditionalProperties != nil && schema.AdditionalProperties.Schema != nil:
		obj := map[string]any{}
		for i := range g.Intn(3) {
			obj[fmt.Sprintf("key%d", i)] = g.value(schema.AdditionalProperties.Schema, depth+1)
		}
		return obj
	}
	if g.values[schema] == nil {
		admit := admits(g.t, schema)
		g.values[schema] = slices.DeleteFunc(attempts(schema), func(v any) bool { return !admit(v) })
	}
	if len(g.values[schema]) == 0 {
		return nil
	}
	return g.values[schema][g.Intn(len(g.values[schema]))]
}

// node keeps a property of a schema under one address, by which its values are found again.
func (g *generator) node(schema *apiextensionsv1.JSONSchemaProps, name string, below apiextensionsv1.JSONSchemaProps) *apiextensionsv1.JSONSchemaProps {
	if nodes[schema] == nil {
		nodes[schema] = map[string]*apiextensionsv1.JSONSchemaProps{}
	}
	if nodes[schema][name] == nil {
		nodes[schema][name] = &below
	}
	return nodes[schema][name]
}

var nodes = map[*apiextensionsv1.JSONSchemaProps]map[string]*apiextensionsv1.JSONSchemaProps{}

// TestRandomObjectsDecode makes objects of random values, and reads those that the schema admits as a whole.
func TestRandomObjectsDecode(t *testing.T) {
	for _, crd := range definitions(t) {
		schema := crd.Spec.Versions[0].Schema.OpenAPIV3Schema
		admit := admits(t, schema)
		delete(schema.Properties, "metadata")
		g := &generator{rand.New(rand.NewSource(1)), t, map[*apiextensionsv1.JSONSchemaProps][]any{}}
		admitted := 0
		for range 200 {
			obj := g.value(schema, 0)
			if !admit(obj) {
				continue
			}
			admitted++
			if err := decode(t, crd.Spec.Names.Kind, obj); err != nil {
				text, _ := json.Marshal(obj)
				t.Errorf("%s: %v: %.2000s", crd.Spec.Names.Kind, err, text)
			}
		}
		t.Logf("%s: %d objects", crd.Spec.Names.Kind, admitted)
		if admitted < 20 {
			t.Errorf("%s: only %d random objects are admitted", crd.Spec.Names.Kind, admitted)
		}
	}
}
