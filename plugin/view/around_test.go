package view

import (
	"reflect"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/util/validation/field"

	appv1 "huolala.cn/app-operator/api/v1"
	"huolala.cn/app-operator/api/v1/validation"
	"huolala.cn/app-operator/internal/children"
)

// fieldNamed returns a spec with one field stated, by its name in JSON.
func fieldNamed(t *testing.T, name string) *appv1.ServingSpec {
	t.Helper()
	spec := &appv1.ServingSpec{}
	value := reflect.ValueOf(spec).Elem()
	for i := range value.NumField() {
		if tag, _, _ := strings.Cut(value.Type().Field(i).Tag.Get("json"), ","); tag == name {
			value.Field(i).Set(reflect.New(value.Field(i).Type().Elem()))
			return spec
		}
	}
	t.Fatalf("the spec has no field %s", name)
	return nil
}

// TestAroundTypes compares the table with that of the engine: a type that is missing here would be applied, and neither shown nor
// ejected.
func TestAroundTypes(t *testing.T) {
	left := slices.Clone(AroundTypes)
	for i := range children.Types {
		row := &children.Types[i]
		if len(row.Features) == 0 || row.Role.Has(children.RoleJob) || row.Scheduled {
			continue // It has a place of its own in a tree.
		}
		kind := reflect.TypeOf(row.Object).Elem().Name()
		at := slices.IndexFunc(left, func(a AroundType) bool { return a.Kind == kind })
		if at < 0 {
			t.Errorf("%s is not shown", kind)
			continue
		}
		found := left[at]
		left = slices.Delete(left, at, at+1)
		if !found.Asked(fieldNamed(t, row.Features[0])) || found.Asked(&appv1.ServingSpec{}) {
			t.Errorf("%s is not what spec.%s asks for", kind, row.Features[0])
		}
		if found.First != row.Prerequisite {
			t.Errorf("%s is applied before the first pod: %t; it is ejected before: %t", kind, row.Prerequisite, found.First)
		}
		if len(validation.DisabledFeatures(fieldNamed(t, row.Features[0]), []string{row.Features[0]}, field.NewPath("spec"))) == 0 {
			t.Errorf("spec.%s cannot be switched off", row.Features[0])
		}
		if !strings.HasPrefix(strings.ToLower(found.Kinds), found.Resource.Resource) {
			t.Errorf("the resource of %s is %s", found.Kinds, found.Resource.Resource)
		}
	}
	for _, found := range left {
		t.Errorf("the operator makes no %s", found.Kind)
	}
}
