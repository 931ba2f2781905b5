package view

import (
	"reflect"
	"time"
)

// Bytes returns about how many bytes of memory the snapshot takes, with all that it refers to. What several objects refer to counts once.
func (s *Snapshot) Bytes() int {
	return int(reflect.TypeFor[Snapshot]().Size()) + sizeBelow(reflect.ValueOf(s).Elem(), map[reference]bool{})
}

// reference is an object that a pointer or a map refers to.
type reference struct {
	of reflect.Type
	at uintptr
}

// mapEntry is what an entry of a map takes about, apart from its key and its value.
const mapEntry = 16

// sizeBelow returns about how many bytes a value refers to, without the size of the value itself.
func sizeBelow(v reflect.Value, counted map[reference]bool) int {
	n := 0
	switch v.Kind() {
	case reflect.String:
		n = v.Len()
	case reflect.Interface:
		if !v.IsNil() {
			n = int(v.Elem().Type().Size()) + sizeBelow(v.Elem(), counted)
		}
	case reflect.Pointer, reflect.Map:
		to := reference{v.Type(), v.Pointer()}
		if v.IsNil() || counted[to] || v.Type() == reflect.TypeFor[*time.Location]() {
			return 0
		}
		counted[to] = true
		if v.Kind() == reflect.Pointer {
			return int(v.Elem().Type().Size()) + sizeBelow(v.Elem(), counted)
		}
		entry := mapEntry + int(v.Type().Key().Size()+v.Type().Elem().Size())
		for all := v.MapRange(); all.Next(); {
			n += entry + sizeBelow(all.Key(), counted) + sizeBelow(all.Value(), counted)
		}
	case reflect.Slice, reflect.Array:
		if v.Kind() == reflect.Slice {
			n = v.Cap() * int(v.Type().Elem().Size())
		}
		if isFlat(v.Type().Elem().Kind()) {
			return n
		}
		for i := range v.Len() {
			n += sizeBelow(v.Index(i), counted)
		}
	case reflect.Struct:
		for i := range v.NumField() {
			n += sizeBelow(v.Field(i), counted)
		}
	default: // A number refers to nothing, and a function to what the program has.
	}
	return n
}

// isFlat reports whether values of a kind refer to nothing.
func isFlat(kind reflect.Kind) bool { return kind >= reflect.Bool && kind <= reflect.Complex128 }
