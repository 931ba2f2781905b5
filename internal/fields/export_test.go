package fields

import (
	"reflect"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/managedfields"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
)

// MergeFields is mergeFields for tests.
func (c *Comparer) MergeFields(literal map[string]any, live client.Object) (*fieldpath.Set, error) {
	return c.mergeFields(literal, live)
}

// NewTypeConverter is newTypeConverter for tests.
func NewTypeConverter(scheme *runtime.Scheme) managedfields.TypeConverter {
	return newTypeConverter(scheme)
}

// OneOfRules returns the types that have a rule, without the types of second rules.
func OneOfRules() map[reflect.Type]bool {
	declared := map[reflect.Type]bool{}
	for t := range oneOfs {
		if t != reflect.TypeFor[affinitySpec]() {
			declared[t] = true
		}
	}
	return declared
}

// DuplicateContainers is duplicateContainers for tests.
func DuplicateContainers(wanted, live client.Object) []fieldpath.Path {
	return duplicateContainers(wanted, live)
}

// RequiredFields returns, by the type of a struct, the handlers that the struct may have, each with its required field.
func RequiredFields() map[reflect.Type]map[string]string { return essentials }
