package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

type thing struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`

	Spec   spec   `json:"spec"`
	Status status `json:"status"`
}

type spec struct {
	shared                      `json:",inline"`
	corev1.LocalObjectReference `json:",inline"`

	Probe *corev1.Probe             `json:"probe,omitempty"`
	Tiers map[string]tier           `json:"tiers,omitempty"`
	Limit corev1.ResourceList       `json:"limit,omitempty"`
	Any   any                       `json:"any,omitempty"`
	Named map[string]*corev1.EnvVar `json:"named,omitempty"`
}

type shared struct {
	Envs []corev1.EnvVar `json:"envs,omitempty"`
	Port []port          `json:"ports,omitempty"`
}

type tier struct {
	Image string `json:"image"`
}

type port struct {
	Number int32 `json:"number"`
}

type status struct {
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// node makes a schema with a text and, under key, what lies below.
func node(key string, below any) map[string]any {
	n := map[string]any{"description": "text"}
	if key != "" {
		n[key] = below
	}
	return n
}

func leaf() map[string]any { return node("", nil) }

type props = map[string]any

func thingSchema() map[string]any {
	env := func() map[string]any { return node("properties", props{"name": leaf(), "valueFrom": leaf()}) }
	return node("properties", props{
		"apiVersion": leaf(),
		"kind":       leaf(),
		"metadata":   map[string]any{"type": "object"},
		"spec": node("properties", props{
			"name":  leaf(),
			"envs":  node("items", env()),
			"ports": node("items", node("properties", props{"number": leaf()})),
			"probe": node("properties", props{
				"httpGet": node("properties", props{"path": leaf(), "httpHeaders": node("items", leaf())}),
			}),
			"tiers": node("additionalProperties", node("properties", props{"image": leaf()})),
			"limit": node("additionalProperties", leaf()),
			"any":   node("properties", props{"deep": node("items", leaf())}),
			"named": node("additionalProperties", env()),
		}),
		"status": node("properties", props{
			"conditions": node("items", node("properties", props{"type": leaf()})),
		}),
	})
}

// texts lists the paths that still have one.
func texts(v any, path string) []string {
	var found []string
	m := object(v)
	if _, ok := m["description"]; ok {
		found = append(found, path)
	}
	for name, p := range object(m["properties"]) {
		found = append(found, texts(p, path+"."+name)...)
	}
	for _, key := range []string{"items", "additionalProperties"} {
		if below, ok := m[key]; ok {
			found = append(found, texts(below, path+"/")...)
		}
	}
	return found
}

func TestTrimKeepsOurTextsOnly(t *testing.T) {
	root := thingSchema()
	if err := trim(root, reflect.TypeFor[thing](), ""); err != nil {
		t.Fatal(err)
	}
	got := map[string]bool{}
	for _, path := range texts(root, "") {
		got[path] = true
	}
	want := []string{
		"", ".apiVersion", ".kind", ".spec", ".status", ".status.conditions",
		".spec.envs", ".spec.ports", ".spec.ports/", ".spec.ports/.number", ".spec.probe",
		".spec.tiers", ".spec.tiers/", ".spec.tiers/.image", ".spec.limit", ".spec.any", ".spec.named",
	}
	for _, path := range want {
		if !got[path] {
			t.Errorf("%q lost its text", path)
		}
		delete(got, path)
	}
	for path := range got {
		t.Errorf("%q kept a foreign text", path)
	}
}

// TestTrimRemovesDefaultsOfWhatIsRefused tells a rule that refuses a field from one that only speaks of it.
func TestTrimRemovesDefaultsOfWhatIsRefused(t *testing.T) {
	number := func() map[string]any {
		return map[string]any{"properties": props{"number": map[string]any{"default": 1}}}
	}
	for rule, want := range map[string]bool{
		"!has(self.number)":                    false,
		"!has(self.number) || self.number > 0": true,
		"!has(self.other)":                     true,
		"has(self.number)":                     true,
	} {
		root := number()
		root["x-kubernetes-validations"] = []any{map[string]any{"rule": rule}}
		if err := trim(root, reflect.TypeFor[port](), "Port"); err != nil {
			t.Fatal(err)
		}
		if _, kept := object(object(root["properties"])["number"])["default"]; kept != want {
			t.Errorf("rule %q: default kept %t, want %t", rule, kept, want)
		}
	}
}

// TestTrimRemovesWhatTheAPIAssumes: a list is atomic unless it says otherwise.
func TestTrimRemovesWhatTheAPIAssumes(t *testing.T) {
	for kind, kept := range map[string]bool{"atomic": false, "map": true, "set": true} {
		list := node("items", node("", nil))
		list["x-kubernetes-list-type"] = kind
		if err := trim(list, reflect.TypeFor[[]string](), "list"); err != nil {
			t.Fatal(err)
		}
		if _, found := list["x-kubernetes-list-type"]; found != kept {
			t.Errorf("%s: kept is %v, want %v", kind, found, kept)
		}
	}
}

func TestTrimRefusesWhatItDoesNotKnow(t *testing.T) {
	for name, tc := range map[string]struct {
		schema map[string]any
		typ    reflect.Type
		want   string
	}{
		"a property that no field has": {
			node("properties", props{"spec": node("properties", props{"gone": leaf()})}), reflect.TypeFor[thing](), "Thing.spec.gone is no field",
		},
		"properties of a string": {
			node("properties", props{"x": leaf()}), reflect.TypeFor[string](), "Thing has properties",
		},
	} {
		err := trim(tc.schema, tc.typ, "Thing")
		if err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: got %v, want %q", name, err, tc.want)
		}
	}
}

// definition writes one for Thing whose spec has a text of the given length.
func definition(t *testing.T, length int) string {
	t.Helper()
	root := node("properties", props{"spec": map[string]any{
		"description": strings.Repeat("x", length),
		"properties":  props{"ports": map[string]any{"maxItems": json.Number("9007199254740993")}},
	}})
	crd := map[string]any{"spec": map[string]any{
		"group":    "example.com",
		"names":    map[string]any{"kind": "Thing"},
		"versions": []any{map[string]any{"name": "v1", "schema": map[string]any{"openAPIV3Schema": root}}},
	}}
	content, err := render(crd)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "things.yaml")
	if err := os.WriteFile(file, content, 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

func things(gvk schema.GroupVersionKind) (reflect.Type, error) {
	if gvk != (schema.GroupVersionKind{Group: "example.com", Version: "v1", Kind: "Thing"}) {
		return nil, fmt.Errorf("unexpected %s", gvk)
	}
	return reflect.TypeFor[thing](), nil
}

func TestFinishIsStable(t *testing.T) {
	from := definition(t, 10)
	to := filepath.Join(t.TempDir(), "out.yaml")
	if err := finish(from, to, things, t.Output()); err != nil {
		t.Fatal(err)
	}
	first, err := os.ReadFile(to)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.HasPrefix(string(first), "---\n") || !strings.Contains(string(first), "maxItems: 9007199254740993\n") {
		t.Errorf("a header or a number is not as it was:\n%s", first)
	}
	again := filepath.Join(t.TempDir(), "again.yaml")
	if err := finish(to, again, things, t.Output()); err != nil {
		t.Fatal(err)
	}
	second, err := os.ReadFile(again)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(first, second) {
		t.Errorf("a second pass changed:\n%s\ninto:\n%s", first, second)
	}
}

func TestFinishHoldsTheBudget(t *testing.T) {
	to := filepath.Join(t.TempDir(), "out.yaml")
	err := finish(definition(t, budget), to, things, t.Output())
	if err == nil || !strings.Contains(err.Error(), "over the budget") {
		t.Errorf("got %v, want an error about the budget", err)
	}
	if _, err := os.Stat(to); !os.IsNotExist(err) {
		t.Error("a definition over the budget was written")
	}
}
