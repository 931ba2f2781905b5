package fields

import (
	"reflect"
	"slices"

	"sigs.k8s.io/controller-runtime/pkg/client"
	smd "sigs.k8s.io/structured-merge-diff/v6/schema"
	"sigs.k8s.io/structured-merge-diff/v6/value"
)

// shape is a type as server-side apply sees it.
type shape struct {
	*smd.Schema
	root smd.TypeRef
}

// matchesLive reports whether an apply of a literal would leave the live object, which is of the same type, as it is. It looks at
// nothing but what the literal states, and is done in a fraction of the time that it takes to merge the two and to compare.
// In return it is false where matchesLive cannot decide, as for a list in which others have items in addition to ours.
func (s shape) matchesLive(wanted, live client.Object) bool {
	stated, found := reflect.Indirect(reflect.ValueOf(wanted)), reflect.Indirect(reflect.ValueOf(live))
	atom, ok := s.Resolve(s.root)
	if !ok || atom.Map == nil || stated.Kind() != reflect.Struct || stated.Type() != found.Type() {
		return false
	}
	// An answer of the API server has no kind, and the status is not ours.
	return s.containsStruct(atom.Map, stated, found, "apiVersion", "kind", "status")
}

func fieldType(m *smd.Map, name string) smd.TypeRef {
	if field, ok := m.FindField(name); ok {
		return field.Type
	}
	return m.ElementType
}

// containsValue reports whether a live value of a type states all that is wanted. The two are of one Go type.
func (s shape) containsValue(ref smd.TypeRef, wanted, live reflect.Value) bool {
	atom, ok := s.Resolve(ref)
	if !ok || isNull(wanted) || isNull(live) {
		return false
	}
	wanted, live = reflect.Indirect(wanted), reflect.Indirect(live)
	switch {
	case atom.Scalar != nil:
		return wanted.Comparable() && wanted.Equal(live) || equalValues(wanted, live)
	case value.TypeReflectEntryOf(wanted.Type()).CanConvertToUnstructured():
		return false // Its encoding differs from the encoding of its Go type.
	case atom.Map != nil && wanted.Kind() == reflect.Struct:
		return s.containsStruct(atom.Map, wanted, live)
	case atom.Map != nil && wanted.Kind() == reflect.Map:
		return s.containsMap(atom.Map, wanted, live)
	case atom.List != nil && wanted.Kind() == reflect.Slice:
		return s.containsList(atom.List, wanted, live)
	}
	return false
}

// isNull reports whether a value is none.
func isNull(v reflect.Value) bool {
	switch v.Kind() {
	case reflect.Pointer, reflect.Map, reflect.Slice, reflect.Interface:
		return v.IsNil()
	}
	return false
}

// equalValues reports whether two values of one Go type are the same to the API server.
func equalValues(a, b reflect.Value) bool {
	x, y := toInterface(a), toInterface(b)
	if reflect.DeepEqual(x, y) {
		return true
	}
	// Two ways to write the same may differ for Go: quantities do, and empty and absent values.
	formA, errA := value.NewValueReflect(x)
	formB, errB := value.NewValueReflect(y)
	return errA == nil && errB == nil && value.Equals(formA, formB)
}

// toInterface returns a value for those who take any, without a copy if it can be had by its address.
func toInterface(v reflect.Value) any {
	if v.CanAddr() {
		v = v.Addr()
	}
	return v.Interface()
}

func (s shape) containsStruct(m *smd.Map, wanted, live reflect.Value, unsaid ...string) bool {
	if m.ElementRelationship == smd.Atomic {
		return equalValues(wanted, live)
	}
	for _, field := range value.TypeReflectEntryOf(wanted.Type()).OrderedFields() {
		item := field.GetFrom(wanted)
		if field.CanOmit(item) || slices.Contains(unsaid, field.JsonName) {
			continue
		}
		if !s.containsValue(fieldType(m, field.JsonName), item, field.GetFrom(live)) {
			return false
		}
	}
	return len(conflictingMembers(wanted, live)) == 0
}

func (s shape) containsMap(m *smd.Map, wanted, live reflect.Value) bool {
	if m.ElementRelationship == smd.Atomic {
		return equalValues(wanted, live)
	}
	for items := wanted.MapRange(); items.Next(); {
		found := live.MapIndex(items.Key())
		if !found.IsValid() || !s.containsValue(m.ElementType, items.Value(), found) {
			return false
		}
	}
	return true
}

func (s shape) containsList(l *smd.List, wanted, live reflect.Value) bool {
	if l.ElementRelationship == smd.Atomic {
		return equalValues(wanted, live)
	}
	if live.Len() != wanted.Len() {
		return false
	}
	for i := range wanted.Len() {
		item := wanted.Index(i)
		// A key that is not stated has a default, by which the item could be another.
		if !statesAllKeys(item, l.Keys) || !s.containsValue(l.ElementType, item, live.Index(i)) {
			return false
		}
	}
	return true
}

// statesAllKeys reports whether an item of a list states all keys of it.
func statesAllKeys(item reflect.Value, keys []string) bool {
	for _, key := range keys {
		field, ok := value.TypeReflectEntryOf(item.Type()).Fields()[key]
		if !ok {
			return false
		}
		if found := field.GetFrom(item); field.CanOmit(found) || isNull(found) {
			return false
		}
	}
	return true
}
