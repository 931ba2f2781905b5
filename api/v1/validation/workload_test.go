package validation

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"

	appv1 "huolala.cn/app-operator/api/v1"
)

// TestApp has every rule, kept and broken. What is wanted is the type of each error and the path to the field.
func TestApp(t *testing.T) {
	for name, c := range map[string]struct {
		spec string
		want []string
	}{
		"the smallest": {`{image: a}`, nil},
		"all is right": {`{
			image: a,
			envs: [{name: A, value: a}, {name: B}, {name: C, valueFrom: {fieldRef: {fieldPath: metadata.name}}}],
			envFrom: [{configMapRef: {name: a}}, {prefix: P_, secretRef: {name: a}}],
			resources: {limits: {cpu: 1, memory: 1Gi, example.com/gpu: 1}, requests: {cpu: 1000m, memory: 1Mi, example.com/gpu: 1}},
			ports: [{port: 1, nodePort: 30000}, {port: 1, protocol: UDP, nodePort: 30000}, {port: 2}, {port: 3}]}`, nil},

		"a negative limit":             {`{resources: {limits: {cpu: -1}}}`, []string{"FieldValueInvalid spec.resources.limits[cpu]"}},
		"a negative request":           {`{resources: {requests: {memory: -1m}}}`, []string{"FieldValueInvalid spec.resources.requests[memory]"}},
		"a request above the limit":    {`{resources: {limits: {cpu: 1}, requests: {cpu: 1001m}}}`, []string{"FieldValueInvalid spec.resources.requests[cpu]"}},
		"a request below the limit":    {`{resources: {limits: {cpu: 1}, requests: {cpu: 999m}}}`, nil},
		"a request without a limit":    {`{resources: {requests: {cpu: 1, memory: 1Gi, ephemeral-storage: 1Gi}}}`, nil},
		"a limit without a request":    {`{resources: {limits: {example.com/gpu: 1}}}`, nil},
		"a device without a limit":     {`{resources: {requests: {example.com/gpu: 1}}}`, []string{"FieldValueRequired spec.resources.limits[example.com/gpu]"}},
		"a device below its limit":     {`{resources: {limits: {example.com/gpu: 2}, requests: {example.com/gpu: 1}}}`, []string{"FieldValueInvalid spec.resources.requests[example.com/gpu]"}},
		"huge pages below their limit": {`{resources: {limits: {cpu: 1, hugepages-2Mi: 4Mi}, requests: {hugepages-2Mi: 2Mi}}}`, []string{"FieldValueInvalid spec.resources.requests[hugepages-2Mi]"}},
		"several, in the order of names": {`{resources: {limits: {memory: -1, cpu: -1}, requests: {a/z: 1, a/a: 1}}}`, []string{
			"FieldValueInvalid spec.resources.limits[cpu]", "FieldValueInvalid spec.resources.limits[memory]",
			"FieldValueRequired spec.resources.limits[a/a]", "FieldValueRequired spec.resources.limits[a/z]",
		}},

		"a variable's name":       {`{envs: [{name: a.b-c 1}, {name: "A=B"}]}`, []string{"FieldValueInvalid spec.envs[1].name"}},
		"a variable without name": {`{envs: [{name: ""}]}`, []string{"FieldValueInvalid spec.envs[0].name"}},
		"value and source":        {`{envs: [{name: A, value: a, valueFrom: {fieldRef: {fieldPath: metadata.name}}}]}`, []string{"FieldValueForbidden spec.envs[0].valueFrom"}},
		"no source":               {`{envs: [{name: A, valueFrom: {}}]}`, []string{"FieldValueInvalid spec.envs[0].valueFrom"}},
		"two sources": {`{envs: [{name: A, valueFrom: {fieldRef: {fieldPath: metadata.name}, secretKeyRef: {name: a, key: a}}}]}`,
			[]string{"FieldValueInvalid spec.envs[0].valueFrom"}},
		"each source alone": {`{envs: [
			{name: A, valueFrom: {fieldRef: {fieldPath: spec.nodeName}}}, {name: B, valueFrom: {resourceFieldRef: {resource: limits.cpu}}},
			{name: C, valueFrom: {configMapKeyRef: {name: a, key: a}}}, {name: D, valueFrom: {secretKeyRef: {name: a, key: a}}}]}`, nil},
		"a file, without its volume": {`{envs: [{name: E, valueFrom: {fileKeyRef: {volumeName: a, path: a, key: a}}}]}`,
			[]string{"FieldValueInvalid spec.envs[0].valueFrom.fileKeyRef.volumeName"}},

		"nothing to take from":   {`{envFrom: [{configMapRef: {name: a}}, {prefix: P_}]}`, []string{"FieldValueInvalid spec.envFrom[1]"}},
		"two to take from":       {`{envFrom: [{configMapRef: {name: a}, secretRef: {name: a}}]}`, []string{"FieldValueInvalid spec.envFrom[0]"}},
		"ConfigMap without name": {`{envFrom: [{configMapRef: {}}]}`, []string{"FieldValueRequired spec.envFrom[0].configMapRef.name"}},
		"Secret without name":    {`{envFrom: [{secretRef: {optional: true}}]}`, []string{"FieldValueRequired spec.envFrom[0].secretRef.name"}},

		"a node port twice": {`{ports: [{port: 1, protocol: TCP, nodePort: 30000}, {port: 2, protocol: TCP, nodePort: 30000}]}`, []string{"FieldValueDuplicate spec.ports[1].nodePort"}},

		"faults of several fields": {`{envs: [{name: "="}], envFrom: [{}], resources: {limits: {cpu: -1}}}`, []string{
			"FieldValueInvalid spec.resources.limits[cpu]", "FieldValueInvalid spec.envs[0].name", "FieldValueInvalid spec.envFrom[0]",
		}},
	} {
		t.Run(name, func(t *testing.T) {
			var app appv1.App
			if err := yaml.UnmarshalStrict([]byte(strings.ReplaceAll("{spec: "+c.spec+"}", "\t", " ")), &app); err != nil {
				t.Fatal(err)
			}
			before := app.DeepCopy()
			var got []string
			for _, err := range App(&app) {
				got = append(got, string(err.Type)+" "+err.Field)
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("errors (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(before, &app); diff != "" {
				t.Errorf("the App was changed (-before +after):\n%s", diff)
			}
		})
	}
}

// TestValuesAreNotRepeated checks that the value of a variable, which may be a password, is in no error: errors end in
// conditions, events and logs.
func TestValuesAreNotRepeated(t *testing.T) {
	var app appv1.App
	if err := yaml.UnmarshalStrict([]byte(`{spec: {envs: [{name: "A=", value: hunter2, valueFrom: {}}]}}`), &app); err != nil {
		t.Fatal(err)
	}
	errs := App(&app)
	if len(errs) != 3 || strings.Contains(errs.ToAggregate().Error(), "hunter2") {
		t.Errorf("errors are %v, want three without the value", errs)
	}
}

// TestContainerName has the two names of a ModelBox's main container, and what other containers may be called then.
func TestContainerName(t *testing.T) {
	for name, c := range map[string]struct {
		spec string
		want []string
	}{
		"the field":                        {`{containerName: a, image: a}`, nil},
		"its alias":                        {`{name: a, image: a}`, nil},
		"both, the same":                   {`{name: a, containerName: a, image: a}`, nil},
		"both, different":                  {`{name: b, containerName: a, image: a}`, []string{"FieldValueInvalid spec.containerName"}},
		"the field, and the alias default": {`{name: box, containerName: a, image: a}`, nil},
		"a sidecar of the same name":       {`{containerName: a, image: a, containers: [{name: a, image: a}]}`, []string{"FieldValueInvalid spec.containers[0].name"}},
		"a sidecar of the resource's name": {`{containerName: a, image: a, containers: [{name: box, image: a}]}`, nil},
	} {
		t.Run(name, func(t *testing.T) {
			box := &appv1.ModelBox{}
			box.Name = "box"
			if err := yaml.UnmarshalStrict([]byte("{spec: "+c.spec+"}"), box); err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, err := range ModelBox(box) {
				got = append(got, string(err.Type)+" "+err.Field)
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("errors (-want +got):\n%s", diff)
			}
		})
	}
}
