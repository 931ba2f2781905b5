package view

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
)

// maxShown is the maximum length in bytes of a value in a difference.
const maxShown = 80

// compareTrees adds the fields in which two values differ in JSON. A field that an App adds by default is an addition.
func (v *verifying) compareTrees(object, path string, was, is any) {
	before, err := DecodeFields(was)
	after, problem := DecodeFields(is)
	if err != nil || problem != nil {
		return
	}
	v.compareValues(object, path, before, after)
}

// compareValues compares two values of JSON, and descends as long as both are objects, or lists of items with names.
func (v *verifying) compareValues(object, path string, was, is any) {
	if reflect.DeepEqual(was, is) || emptyValue(was) && emptyValue(is) {
		return
	}
	if emptyValue(was) && addedByDefault(path) {
		v.Additions = append(v.Additions, Difference{Object: object, Field: path})
		return
	}
	before, isObject := was.(map[string]any)
	after, isToo := is.(map[string]any)
	if !isObject || !isToo {
		if before, after, ok := namedItems(was, is); ok {
			v.compareMembers(object, path, before, after, func(key string) string { return "[" + key + "]" })
			return
		}
		d := Difference{Object: object, Field: path}
		if !strings.Contains(path, ".env[") && !strings.HasSuffix(path, ".env") {
			d.Was, d.Is = showValue(was), showValue(is)
		}
		v.Differences = append(v.Differences, d)
		return
	}
	v.compareMembers(object, path, before, after, func(key string) string { return "." + key })
}

func (v *verifying) compareMembers(object, path string, before, after map[string]any, at func(key string) string) {
	keys := maps.Clone(before)
	maps.Copy(keys, after)
	for _, key := range slices.Sorted(maps.Keys(keys)) {
		v.compareValues(object, path+at(key), before[key], after[key])
	}
}

// addedByDefault reports whether the operator adds a field of the pods by default where a Deployment has none.
func addedByDefault(path string) bool {
	return path == "spec.template.spec.topologySpreadConstraints" || strings.Contains(path, ".ports[") || strings.HasSuffix(path, ".ports")
}

// emptyValue reports whether a value is as good as absent.
func emptyValue(value any) bool {
	switch value := value.(type) {
	case nil:
		return true
	case map[string]any:
		for _, member := range value {
			if !emptyValue(member) {
				return false
			}
		}
		return true
	case []any:
		return len(value) == 0
	}
	return value == "" || value == false || value == json.Number("0")
}

// namedItems returns the items of two lists by what identifies an item, and whether all items have that. A list whose order differs, or that
// has an item twice, is compared as a whole.
func namedItems(was, is any) (before, after map[string]any, ok bool) {
	a, isList := was.([]any)
	b, isToo := is.([]any)
	if !isList && was != nil || !isToo && is != nil {
		return nil, nil, false
	}
	before, order, ok := itemsByKey(a)
	after, orderAfter, okToo := itemsByKey(b)
	if !ok || !okToo {
		return nil, nil, false
	}
	// Items that both lists have are in the same order.
	inBoth := func(keys []string, other map[string]any) []string {
		return slices.DeleteFunc(slices.Clone(keys), func(key string) bool { _, has := other[key]; return !has })
	}
	return before, after, slices.Equal(inBoth(order, after), inBoth(orderAfter, before))
}

func itemsByKey(items []any) (found map[string]any, order []string, ok bool) {
	found = map[string]any{}
	for _, item := range items {
		object, isObject := item.(map[string]any)
		if !isObject {
			return nil, nil, false
		}
		key := ""
		for _, name := range []string{"containerPort", "port", "mountPath", "name", "topologyKey"} {
			if value, has := object[name]; has {
				key = fmt.Sprint(value)
				if protocol, has := object["protocol"]; has {
					key += fmt.Sprint("/", protocol)
				}
				break
			}
		}
		if _, twice := found[key]; key == "" || twice {
			return nil, nil, false
		}
		found[key] = object
		order = append(order, key)
	}
	return found, order, true
}

// showValue returns a value in short.
func showValue(value any) string {
	if number, ok := value.(json.Number); ok {
		return number.String()
	}
	if emptyValue(value) {
		return ""
	}
	if text, ok := value.(string); ok {
		return text
	}
	data, err := json.Marshal(value)
	if err != nil || len(data) > maxShown {
		return "other values"
	}
	return string(data)
}
