package apply

import (
	"fmt"
	"maps"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	smd "sigs.k8s.io/structured-merge-diff/v6/schema"
	"sigs.k8s.io/structured-merge-diff/v6/value"
)

// shape is a type as server-side apply sees it.
type shape struct {
	*smd.Schema
	root smd.TypeRef
}

// shape returns that of a kind.
func (e *Engine) shape(gvk schema.GroupVersionKind) (shape, error) {
	if known, ok := e.shapes.Load(gvk); ok {
		return known.(shape), nil //nolint:forcetypeassert // Nothing else is stored.
	}
	empty := &unstructured.Unstructured{}
	empty.SetGroupVersionKind(gvk)
	typed, err := e.converter.ObjectToTyped(empty)
	if err != nil {
		return shape{}, fmt.Errorf("schema of %s: %w", gvk, err)
	}
	s := shape{typed.Schema(), typed.TypeRef()}
	e.shapes.Store(gvk, s)
	return s, nil
}

// holds tells whether an apply of a literal's fields would leave the live object, which is of the same kind, as it is. It
// looks at nothing but these fields, and is done in a fraction of the time that it takes to merge the two and to compare.
// In return it says no where it does not know, as for a list in which others have items beside ours.
func (s shape) holds(fields map[string]any, live client.Object) bool {
	actual, err := value.NewValueReflect(live)
	if err != nil {
		return false
	}
	wanted := maps.Clone(fields)
	for _, unsaid := range []string{"apiVersion", "kind"} {
		delete(wanted, unsaid) // An answer of the API server does not say them.
	}
	return s.contains(s.root, actual, wanted)
}

func fieldType(m *smd.Map, name string) smd.TypeRef {
	if field, ok := m.FindField(name); ok {
		return field.Type
	}
	return m.ElementType
}

// contains tells whether a value of a type states all that is wanted, in the form that the conversion to unstructured gives.
func (s shape) contains(ref smd.TypeRef, live value.Value, wanted any) bool {
	atom, ok := s.Resolve(ref)
	if !ok || live.IsNull() || wanted == nil {
		return false
	}
	switch wanted := wanted.(type) {
	case map[string]any:
		return atom.Map != nil && live.IsMap() && s.containsMap(atom.Map, live, wanted)
	case []any:
		return atom.List != nil && live.IsList() && s.containsList(atom.List, live, wanted)
	}
	return atom.Scalar != nil && value.Equals(live, value.NewValueInterface(wanted))
}

func (s shape) containsMap(m *smd.Map, live value.Value, wanted map[string]any) bool {
	if m.ElementRelationship == smd.Atomic {
		return value.Equals(live, value.NewValueInterface(wanted))
	}
	stated := live.AsMap()
	for name, item := range wanted {
		if found, ok := stated.Get(name); !ok || !s.contains(fieldType(m, name), found, item) {
			return false
		}
	}
	return true
}

func (s shape) containsList(l *smd.List, live value.Value, wanted []any) bool {
	if l.ElementRelationship == smd.Atomic {
		return value.Equals(live, value.NewValueInterface(wanted))
	}
	stated := live.AsList()
	if stated.Length() != len(wanted) {
		return false
	}
	for i, item := range wanted {
		for _, key := range l.Keys {
			// A key that is not stated has a default, by which the item could be another.
			if fields, _ := item.(map[string]any); fields[key] == nil {
				return false
			}
		}
		if !s.contains(l.ElementType, stated.At(i), item) {
			return false
		}
	}
	return true
}
