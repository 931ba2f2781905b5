package main

import (
	"encoding/json"
	"reflect"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"

	appv1 "huolala.cn/app-operator/api/v1"
)

// bounded is what is bounded in these tests. Each field is one whose Go type takes less than its JSON type.
type bounded struct {
	Port     intstr.IntOrString    `json:"port"`
	Target   intstr.IntOrString    `json:"target"`
	Quantity resource.Quantity     `json:"quantity"`
	Small    int32                 `json:"small"`
	Narrow   *int32                `json:"narrow"`
	Large    int64                 `json:"large"`
	Time     metav1.Time           `json:"time"`
	Any      *runtime.RawExtension `json:"podTemplatePatch"`
}

func TestBoundStatesWhatTheGoTypeTakes(t *testing.T) {
	anyOf := []any{map[string]any{"type": "integer"}, map[string]any{"type": "string"}}
	number := func(text string) json.Number { return json.Number(text) }
	root := map[string]any{"properties": props{
		"port": map[string]any{"anyOf": anyOf, "x-kubernetes-int-or-string": true, "maxLength": number("15")},
		"target": map[string]any{"anyOf": anyOf, "type": "integer", "x-kubernetes-int-or-string": true, "maxLength": number("15"),
			"minimum": number("1"), "maximum": number("65535")},
		"quantity":         map[string]any{"anyOf": anyOf, "x-kubernetes-int-or-string": true, "pattern": "controller-gen's"},
		"small":            map[string]any{"type": "integer", "format": "int32"},
		"narrow":           map[string]any{"type": "integer", "format": "int32", "minimum": number("0"), "maximum": number("4294967296")},
		"large":            map[string]any{"type": "integer", "format": "int64"},
		"time":             map[string]any{"type": "string", "format": "date-time"},
		"podTemplatePatch": map[string]any{"type": "object", "x-kubernetes-preserve-unknown-fields": true},
	}}
	if err := trim(root, reflect.TypeFor[bounded](), "Thing.spec"); err != nil {
		t.Fatal(err)
	}
	got := object(root["properties"])
	if object(object(got["podTemplatePatch"])["properties"])["spec"] == nil {
		t.Error("nothing of the pod template is bounded")
	}
	delete(got, "podTemplatePatch")
	want := props{
		"port": map[string]any{"x-kubernetes-int-or-string": true, "maxLength": number("15"),
			"minimum": number("-2147483648"), "maximum": number("2147483647")},
		"target": map[string]any{"x-kubernetes-int-or-string": true, "maxLength": number("15"),
			"minimum": number("1"), "maximum": number("65535")},
		"quantity": map[string]any{"x-kubernetes-int-or-string": true, "maxLength": number("64"), "pattern": appv1.QuantityPattern},
		"small":    map[string]any{"type": "integer", "minimum": number("-2147483648"), "maximum": number("2147483647")},
		"narrow":   map[string]any{"type": "integer", "minimum": number("0"), "maximum": number("2147483647")},
		"large":    map[string]any{"type": "integer"},
		"time":     map[string]any{"type": "string", "pattern": timePattern},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("schema (-want +got):\n%s", diff)
	}
}

// TestBoundRefusesWhatItDoesNotKnow checks that a field of a new kind of type fails the generation and is not left without bounds.
func TestBoundRefusesWhatItDoesNotKnow(t *testing.T) {
	for name, c := range map[string]struct {
		node map[string]any
		typ  reflect.Type
		want string
	}{
		"a type that reads its JSON itself": {map[string]any{}, reflect.TypeFor[metav1.Duration](), "does not know what JSON"},
		"a small integer":                   {map[string]any{}, reflect.TypeFor[uint16](), "is uint16"},
		"a fraction":                        {map[string]any{}, reflect.TypeFor[float64](), "is float64"},
		"bytes":                             {map[string]any{}, reflect.TypeFor[[]byte](), "is bytes"},
		"a text with a format":              {map[string]any{"format": "ipv4"}, reflect.TypeFor[string](), "has the format ipv4"},
		"any object, of some fields":        {map[string]any{}, reflect.TypeFor[runtime.RawExtension](), "takes any object"},
	} {
		if err := trim(c.node, c.typ, "Thing.spec.x"); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v, want %q", name, err, c.want)
		}
	}
}

// TestListsWithoutDefaults checks what becomes of lists whose items are told apart by a field with a default.
func TestListsWithoutDefaults(t *testing.T) {
	list := func(keys []any, items map[string]any) map[string]any {
		return map[string]any{"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": keys, "items": items}
	}
	ports := list([]any{"containerPort", "protocol"}, map[string]any{"required": []any{"containerPort"}, "properties": props{
		"containerPort": map[string]any{}, "protocol": map[string]any{"default": "TCP"}}})
	secrets := list([]any{"name"}, map[string]any{"properties": props{"name": map[string]any{"default": ""}}})
	if err := trim(ports, reflect.TypeFor[[]corev1.ContainerPort](), "Thing.spec.ports"); err != nil {
		t.Fatal(err)
	}
	if err := trim(secrets, reflect.TypeFor[[]corev1.LocalObjectReference](), "Thing.spec.secrets"); err != nil {
		t.Fatal(err)
	}
	if ports["x-kubernetes-list-type"] != nil || ports["x-kubernetes-list-map-keys"] != nil {
		t.Error("the ports are not atomic")
	}
	rules, _ := ports["x-kubernetes-validations"].([]any)
	const want = "self.all(p, self.exists_one(q, q.containerPort == p.containerPort && " +
		"(has(q.protocol) ? q.protocol : 'TCP') == (has(p.protocol) ? p.protocol : 'TCP')))"
	if len(rules) != 1 || object(rules[0])["rule"] != want {
		t.Errorf("the rules are %v, want %s", rules, want)
	}
	for name, field := range map[string]map[string]any{
		"protocol": object(object(object(ports["items"])["properties"])["protocol"]),
		"name":     object(object(object(secrets["items"])["properties"])["name"]),
	} {
		if _, stated := field["default"]; stated {
			t.Errorf("%s has a default", name)
		}
	}
	if diff := cmp.Diff([]any{"name"}, object(secrets["items"])["required"]); diff != "" || secrets["x-kubernetes-list-type"] != "map" {
		t.Errorf("the name of a Secret is not a required key: %s", diff)
	}
	nothing := list([]any{"name"}, map[string]any{"properties": props{"name": map[string]any{}}})
	if err := trim(nothing, reflect.TypeFor[[]corev1.LocalObjectReference](), "Thing.spec.x"); err == nil {
		t.Error("a key that is neither required nor has a default passes")
	}
}

// TestListsAreLimited checks that a list of objects gets a limit, and keeps one that is narrower.
func TestListsAreLimited(t *testing.T) {
	for path, want := range map[string]any{"Thing.spec.x": json.Number("2000"), "Thing.status.x": nil} {
		list := map[string]any{"type": "array", "items": map[string]any{}}
		if err := trim(list, reflect.TypeFor[[]corev1.EnvVar](), path); err != nil || list["maxItems"] != want {
			t.Errorf("%s: maxItems is %v, want %v: %v", path, list["maxItems"], want, err)
		}
	}
	narrow := map[string]any{"type": "array", "maxItems": json.Number("7"), "items": map[string]any{}}
	if err := trim(narrow, reflect.TypeFor[[]corev1.EnvVar](), "x"); err != nil || narrow["maxItems"] != json.Number("7") {
		t.Errorf("maxItems is %v, want 7: %v", narrow["maxItems"], err)
	}
}

// TestRemovedSourcesAreFieldsOfAVolume keeps the list of what is removed from a name that Kubernetes does not have.
func TestRemovedSourcesAreFieldsOfAVolume(t *testing.T) {
	known := fields(reflect.TypeFor[corev1.Volume]())
	for _, name := range removedSources {
		if known[name].typ == nil {
			t.Errorf("a volume has no source %s", name)
		}
	}
}

// TestPatchesMayHaveNulls checks each value of a patch that the schema describes, except for the items of a list: the API server removes a null
// that may not be there, and with it the removal of a field.
func TestPatchesMayHaveNulls(t *testing.T) {
	visited := 0
	var visit func(node map[string]any, path string, item bool)
	visit = func(node map[string]any, path string, item bool) {
		visited++
		if may := node["nullable"] == true; may == item {
			t.Errorf("%s may be null: %t, want %t", path, may, !item)
		}
		for name, property := range object(node["properties"]) {
			visit(object(property), path+"."+name, false)
		}
		if values := object(node["additionalProperties"]); values != nil {
			visit(values, path+"{}", false)
		}
		if items := object(node["items"]); items != nil {
			visit(items, path+listItem, true)
		}
	}
	for name, property := range templateProperties() {
		visit(object(property), name, false)
	}
	if visited < 10 {
		t.Errorf("only %d values were visited", visited)
	}
}

// TestPatchesOfQuantities checks the directives of a strategic merge patch, which are values of a map of quantities, and numbers that take long to read.
func TestPatchesOfQuantities(t *testing.T) {
	pattern := regexp.MustCompile(patchQuantity)
	for text, want := range map[string]bool{
		"replace": true, "delete": true, "merge": true, "1Gi": true, "500m": true, "1e3": true, "1E-123": true,
		"1e100000": false, "1e-100000": false, "replace1e100000": false, "1e100000replace": false,
	} {
		if got := pattern.MatchString(text); got != want {
			t.Errorf("%q: %t, want %t", text, got, want)
		}
	}
}
