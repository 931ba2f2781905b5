package bounds

import (
	"encoding/json"
	"reflect"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// form is the JSON form of a Go type.
type form int

const (
	anything form = iota
	object
	dictionary
	sequence
	text
	boolean
	integer
	quantity
	intOrString
	// patch is a pod template, or a part of a pod template, that is decoded later.
	patch
)

// shape describes the JSON of a Go type.
type shape struct {
	form form
	// plain is true if the value needs no limit except for its depth.
	plain bool
	// fields are the shapes of an object's fields by JSON name.
	fields map[string]*shape
	// elem is the shape of the elements of a dictionary or a sequence, or of a patch's pod template.
	elem *shape
	// most is the maximum number of elements, 0 for no limit.
	most int
	// goType is the Go type; see walker.scalar.
	goType reflect.Type
}

var (
	unmarshaler = reflect.TypeFor[json.Unmarshaler]()

	shapesMu sync.RWMutex
	shapes   = map[reflect.Type]*shape{}
)

// shapeOf returns the shape of a type.
func shapeOf(t reflect.Type) *shape {
	shapesMu.RLock()
	s := shapes[t]
	shapesMu.RUnlock()
	if s != nil {
		return s
	}
	shapesMu.Lock()
	defer shapesMu.Unlock()
	return compile(t)
}

// compile returns the shape of a type, and stores it with the shapes of all nested types. The caller must hold shapesMu.
func compile(t reflect.Type) *shape {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if s := shapes[t]; s != nil {
		return s
	}
	s := &shape{goType: t}
	shapes[t] = s
	switch t {
	case reflect.TypeFor[resource.Quantity]():
		s.form = quantity
		return s
	case reflect.TypeFor[intstr.IntOrString]():
		s.form = intOrString
		return s
	case reflect.TypeFor[runtime.RawExtension]():
		s.form, s.elem = patch, compile(reflect.TypeFor[corev1.PodTemplateSpec]())
		return s
	}
	if reflect.PointerTo(t).Implements(unmarshaler) {
		s.plain = true
		return s
	}
	switch t.Kind() {
	case reflect.Struct:
		s.form, s.fields = object, map[string]*shape{}
		s.plain = addFields(s.fields, t)
	case reflect.Map:
		s.form, s.elem, s.most = dictionary, compile(t.Elem()), MaxItems
	case reflect.Slice, reflect.Array:
		s.compileSequence(t)
	case reflect.String:
		s.form, s.plain = text, true
	case reflect.Bool:
		s.form, s.plain = boolean, true
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		s.form, s.plain = integer, true
	default:
		s.plain = true
	}
	return s
}

func (s *shape) compileSequence(t reflect.Type) {
	if t.Elem().Kind() == reflect.Uint8 {
		s.plain = true // A byte slice is a base64 text.
		return
	}
	s.form, s.elem, s.most = sequence, compile(t.Elem()), MaxItems
}

// addFields adds the shapes of a struct's fields, and reports whether all fields are plain.
func addFields(fields map[string]*shape, t reflect.Type) (plain bool) {
	plain = true
	for field := range t.Fields() {
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		switch {
		case name == "-" || !field.IsExported() && !field.Anonymous:
			continue
		case field.Anonymous && name == "":
			embedded := field.Type
			for embedded.Kind() == reflect.Pointer {
				embedded = embedded.Elem()
			}
			plain = addFields(fields, embedded) && plain
			continue
		case name == "":
			name = field.Name
		}
		s := compile(field.Type)
		if most, ok := mostOf[name]; ok && s.form == sequence {
			limited := *s
			limited.most = most
			s = &limited
		}
		fields[name] = s
		plain = plain && s.plain
	}
	return plain
}
