// Package heap estimates how much memory a value takes.
package heap

import (
	"reflect"
	"sync"
)

// Size returns about how many bytes of the heap a value takes, with all that it leads to. What several parts lead to counts for each of
// them, so that no sharing hides what a value costs.
func Size(value any) int {
	v := reflect.ValueOf(value)
	if !v.IsValid() {
		return 0
	}
	return int(v.Type().Size()) + indirectSize(v) //nolint:gosec // No type is that large.
}

// mapEntry is about what a map takes for an entry next to key and value, mapHeader what it takes for itself.
const (
	mapEntry  = 8
	mapHeader = 48
)

// indirectSize returns what a value leads to, without the value itself.
func indirectSize(v reflect.Value) int {
	if isFlat(v.Type()) {
		return 0
	}
	size := 0
	switch v.Kind() {
	case reflect.String:
		return v.Len()
	case reflect.Pointer, reflect.Interface:
		if !v.IsNil() {
			size = int(v.Elem().Type().Size()) + indirectSize(v.Elem()) //nolint:gosec // See Size.
		}
	case reflect.Slice:
		element := v.Type().Elem()
		size = v.Cap() * int(element.Size()) //nolint:gosec // See Size.
		if !isFlat(element) {
			for i := range v.Len() {
				size += indirectSize(v.Index(i))
			}
		}
	case reflect.Array:
		for i := range v.Len() {
			size += indirectSize(v.Index(i))
		}
	case reflect.Map:
		size = indirectMapSize(v)
	case reflect.Struct:
		for i := range v.NumField() {
			size += indirectSize(v.Field(i))
		}
	default:
	}
	return size
}

func indirectMapSize(v reflect.Value) int {
	if v.IsNil() {
		return 0
	}
	entry := int(v.Type().Key().Size()+v.Type().Elem().Size()) + mapEntry //nolint:gosec // See Size.
	size := mapHeader + v.Len()*entry
	for entries := v.MapRange(); entries.Next(); {
		size += indirectSize(entries.Key()) + indirectSize(entries.Value())
	}
	return size
}

// flat remembers by type whether its values lead to nothing.
var flat sync.Map

// isFlat reports whether the values of a type lead to nothing. What a time leads to, its zone, is shared by all.
func isFlat(t reflect.Type) bool {
	switch t.Kind() {
	case reflect.String, reflect.Pointer, reflect.Interface, reflect.Slice, reflect.Map, reflect.Chan, reflect.Func, reflect.UnsafePointer:
		return false
	case reflect.Struct, reflect.Array:
	default:
		return true
	}
	if known, ok := flat.Load(t); ok {
		return known.(bool) //nolint:forcetypeassert // Nothing else is stored.
	}
	is := t.PkgPath() == "time" && t.Name() == "Time"
	if !is && t.Kind() == reflect.Array {
		is = isFlat(t.Elem())
	} else if !is {
		is = true
		for i := range t.NumField() {
			is = is && isFlat(t.Field(i).Type)
		}
	}
	flat.Store(t, is)
	return is
}
