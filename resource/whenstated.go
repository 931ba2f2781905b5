package resource

import (
	"reflect"
	"slices"

	appv1 "huolala.cn/app-operator/api/v1"
	rules "huolala.cn/app-operator/api/v1/validation"
)

// MergeWhenStated returns the defaults of blocks of two layers. The nearer layer takes precedence, field by field; maps are merged by key. A block
// without a field is left out. The result shares values with both.
func MergeWhenStated(far, near *appv1.WhenStated) appv1.WhenStated {
	var made appv1.WhenStated
	into := reflect.ValueOf(&made).Elem()
	for i := range into.NumField() {
		block := fillBlock(reflect.ValueOf(far).Elem().Field(i), reflect.ValueOf(near).Elem().Field(i))
		if !block.IsNil() && !isUnset(block.Elem()) {
			into.Field(i).Set(block)
		}
	}
	return made
}

// fillBlocks sets the unset fields of the blocks that a resource states. Blocks named in without stay as they are. The blocks are copied before
// they are changed.
func fillBlocks(d *appv1.WhenStated, serving *appv1.ServingSpec, without []string) {
	blocks := reflect.ValueOf(d).Elem()
	for i, name := range appv1.WhenStatedBlocks() {
		if slices.Contains(without, name) {
			continue
		}
		stated := reflect.ValueOf(serving).Elem().FieldByName(blocks.Type().Field(i).Name)
		if stated.IsNil() || blocks.Field(i).IsNil() {
			continue
		}
		stated.Set(fillBlock(blocks.Field(i), stated))
	}
}

// resolveIngressClass has an Ingress with defaults have one class, which the field and the former annotation can state: the API server creates none
// with two. A stated field takes precedence over an annotation of the defaults, and any annotation over a field of the defaults. The Ingress is
// copied before it is changed.
func resolveIngressClass(statedWorkload *appv1.WorkloadSpec, stated *appv1.ServingSpec, workload *appv1.WorkloadSpec, serving *appv1.ServingSpec) {
	if serving.Ingress == nil || serving.Ingress.ClassName == nil {
		return
	}
	class, ok := rules.FormerIngressClass(serving.Ingress, workload)
	if !ok || class == *serving.Ingress.ClassName {
		return
	}
	_, own := rules.FormerIngressClass(stated.Ingress, statedWorkload)
	one := *serving.Ingress
	switch {
	case stated.Ingress == nil || stated.Ingress.ClassName == nil:
		one.ClassName = nil
	case own: // Both are the user's.
		return
	default:
		one.Annotations = mergedMaps(one.Annotations, map[string]string{rules.AnnotationIngressClass: *one.ClassName})
	}
	serving.Ingress = &one
}

// fillBlock returns the nearer of two blocks with the fields that only the farther block has. A block is a pointer to a struct; the nearer block has
// all fields of the farther block by their names. If one is nil, fillBlock returns the other.
func fillBlock(far, near reflect.Value) reflect.Value {
	switch {
	case far.IsNil():
		return near
	case near.IsNil():
		return far
	}
	made := reflect.New(near.Type().Elem())
	made.Elem().Set(near.Elem())
	for i := range far.Elem().NumField() {
		value, into := far.Elem().Field(i), made.Elem().FieldByName(far.Type().Elem().Field(i).Name)
		switch {
		case value.Kind() == reflect.Map:
			into.Set(mergeMaps(value, into))
		case isUnset(into):
			into.Set(value)
		}
		if isUnset(into) {
			into.SetZero()
		}
	}
	return made
}
