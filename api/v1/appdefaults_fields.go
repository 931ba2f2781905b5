package v1

import (
	"reflect"
	"slices"
	"strings"
)

// DefaultsFields returns the names of the fields of Defaults, in their order.
func DefaultsFields() []string { return jsonNames(reflect.TypeFor[Defaults]()) }

// WhenStatedBlocks returns the names of the blocks of WhenStated, in their order.
func WhenStatedBlocks() []string { return jsonNames(reflect.TypeFor[WhenStated]()) }

// OptOuts returns the names that WithoutDefaultsSpec can have: each field of Defaults, and each block of WhenStated.
func OptOuts() []string {
	names := DefaultsFields()
	for _, block := range WhenStatedBlocks() {
		if !slices.Contains(names, block) {
			names = append(names, block)
		}
	}
	return names
}

// jsonNames returns the names of the fields of a struct in JSON.
func jsonNames(t reflect.Type) []string {
	names := make([]string, 0, t.NumField())
	for field := range t.Fields() {
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		names = append(names, name)
	}
	return names
}

// Specs returns the defaults as the fields of an App with the same names. They share maps, lists and pointers with d.
func (d *Defaults) Specs() (WorkloadSpec, ServingSpec) {
	var workload WorkloadSpec
	var serving ServingSpec
	copyFields(reflect.ValueOf(&workload).Elem(), reflect.ValueOf(d).Elem())
	copyFields(reflect.ValueOf(&serving).Elem(), reflect.ValueOf(d).Elem())
	return workload, serving
}

// NewDefaults returns the fields of an App that Defaults have. They share maps, lists and pointers with the arguments.
func NewDefaults(workload *WorkloadSpec, serving *ServingSpec) *Defaults {
	d := &Defaults{}
	for _, from := range []any{workload, serving} {
		copyFields(reflect.ValueOf(d).Elem(), reflect.ValueOf(from).Elem())
	}
	return d
}

// SetDefaults sets the fields of an App that Defaults have. The App shares maps, lists and pointers with d.
func (d *Defaults) SetDefaults(workload *WorkloadSpec, serving *ServingSpec) {
	for _, to := range []any{workload, serving} {
		copyFields(reflect.ValueOf(to).Elem(), reflect.ValueOf(d).Elem())
	}
}

// copyFields sets the fields of a struct that another struct has by the same name. Defaults, which is one of the two structs, has the names;
// the other struct has the fields itself or in an embedded struct.
func copyFields(to, from reflect.Value) {
	for field := range reflect.TypeFor[Defaults]().Fields() {
		target, value := to.FieldByName(field.Name), from.FieldByName(field.Name)
		if target.IsValid() && value.IsValid() {
			target.Set(value)
		}
	}
}
