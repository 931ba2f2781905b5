package fields

import (
	"reflect"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
	smd "sigs.k8s.io/structured-merge-diff/v6/schema"
	"sigs.k8s.io/structured-merge-diff/v6/value"
)

// uniqueFields are fields that no two items of one list may have in common, besides the list's keys, by the items' type.
// A port that is renumbered by hand becomes an item next to ours, with the same name.
var uniqueFields = map[reflect.Type]string{reflect.TypeFor[corev1.ContainerPort](): "name"}

// exclusionsOf returns what of a live object cannot stand next to what a literal of its type states, regardless of its owner: the
// other members of one-ofs, see oneOfs; items of lists that repeat what must be unique; limits below our requests; rules in a direction that
// our NetworkPolicy closes; copies of our containers; and the rest of a struct that the literal leaves out, see essentials.
func (s shape) exclusionsOf(manager string, wanted, live client.Object) []fieldpath.Path {
	stated, found := reflect.Indirect(reflect.ValueOf(wanted)), reflect.Indirect(reflect.ValueOf(live))
	atom, ok := s.Resolve(s.root)
	if !ok || atom.Map == nil || stated.Kind() != reflect.Struct || stated.Type() != found.Type() {
		return nil
	}
	w := &excluder{shape: s, owners: newOwners(live, manager)}
	if LeavesTemplate(wanted) {
		w.owners = func() owners { return owners{&fieldpath.Set{}, &fieldpath.Set{}} } // All of the template stays.
	}
	w.visitStruct(atom.Map, stated, found, fieldpath.Path{})
	return append(w.paths, duplicateContainers(wanted, live)...)
}

// excluder walks through a literal and a live object.
type excluder struct {
	shape
	owners func() owners
	paths  []fieldpath.Path
}

func (w *excluder) addPath(at fieldpath.Path, names ...string) {
	path := at.Copy()
	for _, name := range names {
		path = append(path, fieldpath.PathElement{FieldName: &name})
	}
	w.paths = append(w.paths, path)
}

func (w *excluder) visitValue(ref smd.TypeRef, wanted, live reflect.Value, at fieldpath.Path) {
	atom, ok := w.Resolve(ref)
	if !ok || isNull(wanted) || isNull(live) {
		return
	}
	wanted, live = reflect.Indirect(wanted), reflect.Indirect(live)
	switch {
	case atom.Scalar != nil || value.TypeReflectEntryOf(wanted.Type()).CanConvertToUnstructured():
	case atom.Map != nil && wanted.Kind() == reflect.Struct:
		w.visitStruct(atom.Map, wanted, live, at)
	case atom.List != nil && wanted.Kind() == reflect.Slice && atom.List.ElementRelationship == smd.Associative && len(atom.Keys) > 0:
		w.visitList(atom.List, wanted, live, at)
	}
}

func (w *excluder) visitStruct(m *smd.Map, wanted, live reflect.Value, at fieldpath.Path) {
	if m.ElementRelationship == smd.Atomic {
		return // It is replaced as a whole.
	}
	for _, names := range conflictingMembers(wanted, live) {
		w.addPath(at, names...)
	}
	for _, field := range value.TypeReflectEntryOf(wanted.Type()).OrderedFields() {
		if len(at) == 0 && (field.JsonName == "status" || field.JsonName == "metadata") {
			continue
		}
		ref, item, element := fieldType(m, field.JsonName), field.GetFrom(wanted), fieldpath.PathElement{FieldName: &field.JsonName}
		if field.CanOmit(item) {
			w.visitLeftOut(ref, field.GetFrom(live), append(at, element))
			continue
		}
		w.visitValue(ref, item, field.GetFrom(live), append(at, element))
	}
}

func (w *excluder) visitList(l *smd.List, wanted, live reflect.Value, at fieldpath.Path) {
	ours := map[string]reflect.Value{}
	for i := range wanted.Len() {
		if key, ok := w.keyOf(l, wanted.Index(i)); ok {
			ours[key.String()] = wanted.Index(i)
		}
	}
	unique := uniqueFields[live.Type().Elem()]
	for i := range live.Len() {
		item := live.Index(i)
		key, ok := w.keyOf(l, item)
		if !ok {
			continue
		}
		path := append(slices.Clip(at), key)
		if stated, ok := ours[key.String()]; ok {
			w.visitValue(l.ElementType, stated, item, path)
		} else if unique != "" && repeatsValue(unique, item, ours) {
			w.addPath(path)
		}
	}
}

// repeatsValue reports whether an item has the same value in a field as one of ours.
func repeatsValue(name string, item reflect.Value, ours map[string]reflect.Value) bool {
	field := value.TypeReflectEntryOf(item.Type()).Fields()[name]
	is := field.GetFrom(item).String()
	for _, of := range ours {
		if is != "" && field.GetFrom(of).String() == is {
			return true
		}
	}
	return false
}

// keyOf returns the element of a path that leads to an item of a list. A key that is not stated has the schema's default.
func (s shape) keyOf(l *smd.List, item reflect.Value) (fieldpath.PathElement, bool) {
	item = reflect.Indirect(item)
	if item.Kind() != reflect.Struct {
		return fieldpath.PathElement{}, false
	}
	atom, ok := s.Resolve(l.ElementType)
	if !ok || atom.Map == nil {
		return fieldpath.PathElement{}, false
	}
	var key value.FieldList
	fields := value.TypeReflectEntryOf(item.Type()).Fields()
	for _, name := range l.Keys {
		field, ok := fields[name]
		if !ok {
			return fieldpath.PathElement{}, false
		}
		found := field.GetFrom(item)
		switch {
		case field.CanOmit(found):
			declared, ok := atom.FindField(name)
			if !ok || declared.Default == nil {
				return fieldpath.PathElement{}, false
			}
			key = append(key, value.Field{Name: name, Value: value.NewValueInterface(declared.Default)})
		case found.Kind() == reflect.String:
			key = append(key, value.Field{Name: name, Value: value.NewValueInterface(found.String())})
		case found.CanInt():
			key = append(key, value.Field{Name: name, Value: value.NewValueInterface(found.Int())})
		default:
			return fieldpath.PathElement{}, false
		}
	}
	key.Sort()
	return fieldpath.PathElement{Key: &key}, true
}
