package main

import (
	"fmt"
	"reflect"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"

	appv1 "huolala.cn/app-operator/api/v1"
)

// module is where our own types live; a type from anywhere else is foreign.
const module = "huolala.cn/app-operator/"

// trimCRD removes the foreign texts, the defaults of rejected fields and of fields in lists, and values that the API assumes anyway, from
// the schema of every version, and rejects values that the Go types cannot decode.
func trimCRD(crd map[string]any, types func(schema.GroupVersionKind) (reflect.Type, error)) error {
	spec := object(crd["spec"])
	gvk := schema.GroupVersionKind{Group: str(spec["group"]), Kind: str(object(spec["names"])["kind"])}
	versions, _ := spec["versions"].([]any)
	if len(versions) == 0 {
		return fmt.Errorf("%s has no versions", gvk.GroupKind())
	}
	for _, v := range versions {
		version := object(v)
		gvk.Version = str(version["name"])
		t, err := types(gvk)
		if err != nil {
			return err
		}
		root := object(object(version["schema"])["openAPIV3Schema"])
		if err := trim(root, t, gvk.Kind); err != nil {
			return err
		}
	}
	return nil
}

// trim walks a schema together with the type that it describes. The schema's own text is the business of
// the field that has the type: here it is only about what lies below.
func trim(node map[string]any, t reflect.Type, path string) error {
	t = value(t)
	if t.Kind() == reflect.Interface {
		strip(node)
		return nil
	}
	if done, err := bound(node, t, path); done || err != nil {
		return err
	}
	withoutAtomicMap(node, path)
	if node["x-kubernetes-list-type"] == "atomic" {
		// What a list is anyway: the API's default, and a twentieth of the bytes.
		delete(node, "x-kubernetes-list-type")
	}
	if items := object(node["items"]); items != nil && hasElem(t) {
		boundList(node, t.Elem(), path)
		if err := settleKeys(node, path); err != nil {
			return err
		}
		item := listItem
		if _, merged := node["x-kubernetes-list-type"]; !merged {
			item = atomicItem
		}
		return trimElem(items, t.Elem(), path+item)
	}
	if values := object(node["additionalProperties"]); values != nil && t.Kind() == reflect.Map {
		return trimElem(values, t.Elem(), path+"{}")
	}
	properties := object(node["properties"])
	if properties == nil {
		return nil
	}
	if t.Kind() != reflect.Struct {
		return fmt.Errorf("%s has properties, but its type %s is no struct", path, t)
	}
	withoutRefused(node, properties)
	withoutRemovedSources(properties, t)
	known := fields(t)
	for name, p := range properties {
		property, f := object(p), known[name]
		if f.typ == nil {
			return fmt.Errorf("%s.%s is no field of %s", path, name, t)
		}
		if !f.ours || repeatsTexts(path, f) {
			delete(property, "description")
		}
		withoutListDefaults(property, path)
		if err := trim(property, f.typ, path+"."+name); err != nil {
			return err
		}
	}
	return nil
}

// withoutRefused removes the default of each property that a rule refuses: the API server would fill
// it in and then refuse it.
func withoutRefused(node, properties map[string]any) {
	rules, _ := node["x-kubernetes-validations"].([]any)
	for _, r := range rules {
		if name, ok := strings.CutPrefix(str(object(r)["rule"]), "!has(self."); ok {
			delete(object(properties[strings.TrimSuffix(name, ")")]), "default")
		}
	}
}

// trimElem is trim for an element of a list or map: it has no field, so its text is its type's.
func trimElem(node map[string]any, elem reflect.Type, path string) error {
	if !ours(value(elem)) {
		delete(node, "description")
	}
	return trim(node, elem, path)
}

// strip removes every text below, where there are no types to go by.
func strip(node map[string]any) {
	for _, key := range []string{"items", "additionalProperties"} {
		if below := object(node[key]); below != nil {
			delete(below, "description")
			strip(below)
		}
	}
	for _, p := range object(node["properties"]) {
		delete(object(p), "description")
		strip(object(p))
	}
}

// field is a property's Go side.
type field struct {
	typ reflect.Type
	// ours: the struct that declares it is, so it was us who wrote its text.
	ours bool
	// workload: it is one of appv1.WorkloadSpec.
	workload bool
}

// repeatedTiers are where a definition has a workload again: its fields have their texts in the front tier alone, as thrice
// they are a sixth of the budget.
var repeatedTiers = []string{"CloudManager.spec.identity.deployment", "CloudManager.spec.db.statefulSet"}

// repeatsTexts reports whether a field at the path is of a workload that the definition has before.
func repeatsTexts(path string, f field) bool {
	for _, tier := range repeatedTiers {
		below, in := strings.CutPrefix(path, tier)
		if in && (below == "" && f.workload || strings.HasPrefix(below, ".") && !strings.HasPrefix(below, ".storage")) {
			return true
		}
	}
	return false
}

// fields returns the fields of a struct by their JSON names, including the fields of inlined structs.
func fields(t reflect.Type) map[string]field {
	known := map[string]field{}
	for i := range t.NumField() {
		f := t.Field(i)
		name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		switch {
		case name == "-" || !f.IsExported() && !f.Anonymous:
		case name == "" && (f.Anonymous || options == "inline") && value(f.Type).Kind() == reflect.Struct:
			for inner, g := range fields(value(f.Type)) {
				// apiVersion and kind are in every kind: their texts stay. By Go's rule an outer field hides an inner field.
				g.ours = g.ours || value(f.Type).Name() == "TypeMeta"
				g.workload = g.workload || value(f.Type) == reflect.TypeFor[appv1.WorkloadSpec]()
				if _, hidden := known[inner]; !hidden {
					known[inner] = g
				}
			}
		default:
			if name == "" {
				name = f.Name
			}
			known[name] = field{typ: f.Type, ours: ours(t)}
		}
	}
	return known
}

// ours reports whether we wrote the type. A type without a name (a list, a map, a basic one) has no
// text of its own, so it hides none of ours.
func ours(t reflect.Type) bool {
	return t.PkgPath() == "" || strings.HasPrefix(t.PkgPath()+"/", module)
}

// value is what a pointer points to, or the type itself.
func value(t reflect.Type) reflect.Type {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	return t
}

func hasElem(t reflect.Type) bool {
	return t.Kind() == reflect.Slice || t.Kind() == reflect.Array
}

func object(v any) map[string]any {
	m, _ := v.(map[string]any)
	return m
}

func str(v any) string {
	s, _ := v.(string)
	return s
}
