package resource

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/yaml"

	appv1 "huolala.cn/app-operator/api/v1"
)

// changedBase is the spec that each record of TestAppSpecChanged is compared with.
const changedBase = `
replicas: 2
image: nginx:1.16.1
imagePullPolicy: IfNotPresent
command: [a, b]
envs: [{name: A, value: a}, {name: B, valueFrom: {fieldRef: {fieldPath: metadata.name}}}]
resources: {limits: {cpu: "1", memory: 1Gi}, requests: {cpu: 100m}}
ports: [{protocol: TCP, port: 80, targetPort: 80}, {name: dns, protocol: UDP, port: 53, targetPort: dns}]
`

func TestAppSpecChanged(t *testing.T) {
	for name, c := range map[string]struct {
		record string // YAML in place of JSON, which it includes.
		want   bool
	}{
		"the same": {changedBase, false},
		"replicas": {`{replicas: 9}`, false},
		// YAML has no order of keys that its reader could keep, so this one is JSON.
		"order of keys":           {`{"resources":{"requests":{"cpu":"100m"},"limits":{"memory":"1Gi","cpu":"1"}}}`, false},
		"spelling of a quantity":  {`{resources: {limits: {cpu: 1000m, memory: 1024Mi}, requests: {cpu: "0.1"}}}`, false},
		"number for a quantity":   {`{resources: {limits: {cpu: 1, memory: 1Gi}, requests: {cpu: 100m}}}`, false},
		"unit of a quantity":      {`{resources: {limits: {cpu: "1", memory: 1073741824}, requests: {cpu: 100m}}}`, true},
		"another quantity":        {`{resources: {limits: {cpu: "2", memory: 1Gi}, requests: {cpu: 100m}}}`, true},
		"image":                   {`{image: nginx:1.17}`, true},
		"pull policy":             {`{imagePullPolicy: Always}`, true},
		"argument":                {`{command: [a, c]}`, true},
		"argument more":           {`{args: [a]}`, true},
		"order of arguments":      {`{command: [b, a]}`, true},
		"value of a variable":     {`{envs: [{name: A, value: b}, {name: B, valueFrom: {fieldRef: {fieldPath: metadata.name}}}]}`, true},
		"order of variables":      {`{envs: [{name: B, valueFrom: {fieldRef: {fieldPath: metadata.name}}}, {name: A, value: a}]}`, true},
		"one variable less":       {`{envs: [{name: A, value: a}]}`, true},
		"pull policy left out":    {`{imagePullPolicy: null}`, false},
		"protocol left out":       {`{ports: [{port: 80, targetPort: 80}, {name: dns, protocol: UDP, port: 53, targetPort: dns}]}`, false},
		"target left out":         {`{ports: [{protocol: TCP, port: 80}, {name: dns, protocol: UDP, port: 53, targetPort: dns}]}`, false},
		"target 0":                {`{ports: [{protocol: TCP, port: 80, targetPort: 0}, {name: dns, protocol: UDP, port: 53, targetPort: dns}]}`, false},
		"another target":          {`{ports: [{protocol: TCP, port: 80}, {name: dns, protocol: UDP, port: 53}]}`, true},
		"name of a port":          {`{ports: [{port: 80}, {name: dns-udp, protocol: UDP, port: 53, targetPort: dns}]}`, true},
		"empty for left out":      {`{args: [], envFrom: []}`, false},
		"a field that is unknown": {`{later: 1}`, false},
	} {
		t.Run(name, func(t *testing.T) {
			var spec appv1.AppSpec
			if err := yaml.UnmarshalStrict([]byte(changedBase), &spec); err != nil {
				t.Fatal(err)
			}
			got, err := appChanged(&spec, over(t, changedBase, c.record))
			if err != nil || got != c.want {
				t.Errorf("changed is %t, %v; want %t", got, err, c.want)
			}
		})
	}
}

// over returns the JSON of one YAML text with the fields of another in place of its own.
func over(t *testing.T, base, fields string) string {
	t.Helper()
	merged := map[string]json.RawMessage{}
	for _, text := range []string{base, fields} {
		data, err := yaml.YAMLToJSON([]byte(text))
		if err != nil {
			t.Fatal(err)
		}
		if text[0] == '{' && text[1] == '"' {
			data = []byte(text) // JSON already, with an order of its own.
		}
		if err := json.Unmarshal(data, &merged); err != nil {
			t.Fatal(err)
		}
	}
	data, err := json.Marshal(merged)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// TestSpecIsItsOwnRecord checks spellings of nothing: a spec that differs from its own record would take every newer
// rendering at once, and restart with each upgrade of the operator.
func TestSpecIsItsOwnRecord(t *testing.T) {
	for _, text := range []string{
		`{"image":"a"}`,
		`{"image":"a","resources":{}}`,
		`{"image":"a","resources":{"limits":{}}}`,
		`{"image":"a","resources":{"limits":{},"requests":{}}}`,
		`{"image":"a","resources":{"claims":[]}}`,
		`{"image":"a","command":[],"args":[],"envs":[],"envFrom":[],"ports":[]}`,
		`{"image":"a","envs":[{"name":"A","valueFrom":{"resourceFieldRef":{"resource":"limits.cpu"}}}]}`,
		`{"image":"a","ports":[{"port":1,"targetPort":""}]}`,
		`{"image":"a","resources":{"limits":{"cpu":"0.0001","memory":"1e3"}}}`,
	} {
		var spec appv1.AppSpec
		if err := json.Unmarshal([]byte(text), &spec); err != nil {
			t.Fatal(err)
		}
		record, _ := recordOf(&spec)
		if changed, err := appChanged(&spec, record); changed || err != nil {
			t.Errorf("%s differs from its own record %s: %t, %v", text, record, changed, err)
		}
		if changed, err := appChanged(&spec, hashSpec(identityMeta(&spec, appWorkload))); changed || err != nil {
			t.Errorf("%s differs from its own hash: %t, %v", text, changed, err)
		}
	}
}

// TestHashKnowsWhatCounts checks that the record of a long spec ignores what AppSpecChanged ignores.
func TestHashKnowsWhatCounts(t *testing.T) {
	spec := specOf(t, 300_000, padding)
	record, whole := recordOf(spec)
	if whole {
		t.Fatal("the spec is not long enough")
	}
	spec.Replicas = ptr.To[int32](7)
	if again, _ := recordOf(spec); again != record {
		t.Error("another number of pods gives another record")
	}
	spec.ImagePullPolicy = "IfNotPresent"
	if again, _ := recordOf(spec); again != record {
		t.Error("a default that is stated gives another record")
	}
}

// recordOf returns the record of an App's spec, and whether it holds the spec itself.
func recordOf(spec *appv1.AppSpec) (record string, whole bool) {
	return EncodeSpec(spec, identityOf(spec, appWorkload), spec.Annotations)
}

// appBytes returns the JSON of all objects of an App.
func appBytes(t testing.TB, app *appv1.App, seen BuildOptions) string {
	t.Helper()
	data, err := json.Marshal(built(t)(App(app, seen)).Objects())
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// TestBuildersArePure checks that building changes nothing that it was given, and always gives the same.
func TestBuildersArePure(t *testing.T) {
	for name, path := range cases(t, "app") {
		t.Run(name, func(t *testing.T) {
			var app appv1.App
			c := readCase(t, path, &app)
			app.Labels = map[string]string{"a": "b"}
			seen := c.observed()
			before := app.DeepCopy()
			first := appBytes(t, &app, seen)
			times := 100
			if c.Padding > 0 {
				times = 3 // Compressing takes its time.
			}
			for range times {
				if again := appBytes(t, &app, seen); again != first {
					t.Fatalf("built again (-first +again):\n%s", cmp.Diff(first, again))
				}
			}
			if diff := cmp.Diff(before, &app); diff != "" {
				t.Errorf("the App was changed (-before +after):\n%s", diff)
			}
			if diff := cmp.Diff(c.observed(), seen); diff != "" {
				t.Errorf("what was observed was changed (-before +after):\n%s", diff)
			}
		})
	}
}

// TestObjectsOutliveTheSelector checks that the live object's selector, which is in a cache, is not changed by way of
// the labels that are made from it.
func TestObjectsOutliveTheSelector(t *testing.T) {
	selector := map[string]string{"app.example.com/v1": "web"}
	app := &appv1.App{}
	app.Name = "web"
	d := buildDeployment(built(t)(App(app, BuildOptions{Selector: selector, Inputs: BuildInputs{Rendering: RenderingLatest}})))
	if len(selector) != 1 {
		t.Errorf("the selector has become %v", selector)
	}
	for key, value := range selector {
		if d.Spec.Template.Labels[key] != value {
			t.Errorf("pods lack the label %s=%s that selects them", key, value)
		}
	}
}

// appChanged reports whether the spec of an App differs from a record.
func appChanged(spec *appv1.AppSpec, record string) (bool, error) {
	return AppSpec(&appv1.App{Spec: *spec}).Changed(record, ScopePods)
}
