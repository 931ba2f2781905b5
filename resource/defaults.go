package resource

import (
	"cmp"
	"maps"
	"reflect"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	appv1 "huolala.cn/app-operator/api/v1"
)

// PresentDefaults are the defaults and the sizes that count for the resources of a namespace now.
type PresentDefaults struct {
	// Fields are the defaults of all AppDefaults that count; nil if no AppDefaults exists.
	Fields *appv1.Defaults
	// WhenStated has the defaults of the blocks that a resource states.
	WhenStated appv1.WhenStated
	// Sizes are the built-in sizes, with the sizes that AppDefaults define.
	Sizes Sizes
	// Unknown is the namespace of AppDefaults that count and are not known, as they are invalid and no valid spec of them is known. A
	// workload then keeps what it has. It is empty if all are known.
	Unknown string
}

// LayerDefaults returns the defaults of several AppDefaults. A later one takes precedence. A nil one is left out.
func LayerDefaults(layers ...*appv1.AppDefaultsSpec) PresentDefaults {
	made := PresentDefaults{Sizes: BuiltInSizes()}
	for _, layer := range layers {
		if layer == nil {
			continue
		}
		made.Fields = MergeDefaults(cmp.Or(made.Fields, &appv1.Defaults{}), &layer.Defaults)
		made.WhenStated = MergeWhenStated(&made.WhenStated, &layer.WhenStated)
		for name, amounts := range layer.Sizes {
			made.Sizes[name] = Amounts{Requests: resourceList(amounts.Requests), Limits: resourceList(amounts.Limits)}
		}
	}
	return made
}

// mergeRule says how two values of a field become one value.
type mergeRule int

const (
	// mergeWhole takes the nearer value as a whole.
	mergeWhole mergeRule = iota
	// mergeByKey adds the entries of maps; the entry of the nearer map takes precedence.
	mergeByKey
	// mergeByName adds the items of lists. The items of the farther list come first; an item of the nearer list with the same name
	// takes the place of an item of the farther list.
	mergeByName
)

// mergeRules are the rules of the fields that are not taken as a whole, by JSON name.
var mergeRules = map[string]mergeRule{
	"labels": mergeByKey, "annotations": mergeByKey, "workloadLabels": mergeByKey, "workloadAnnotations": mergeByKey,
	"podLabels": mergeByKey, "podAnnotations": mergeByKey, "nodeSelector": mergeByKey,
	"envs": mergeByName, "volumes": mergeByName, "volumeMounts": mergeByName, "imagePullSecrets": mergeByName,
	"initContainers": mergeByName, "containers": mergeByName,
}

// DefaultsGroups are groups of fields that exclude or need each other. The fields of a group count as one field: the nearest layer that states one
// of them switches off the others of farther layers. serviceAccountName is a field of resources alone.
var DefaultsGroups = [][]string{
	{"size", "resources"},
	{"strategy", "rollingUpdate", "maxSurge", "maxUnavailable"},
	{"dnsPolicy", "dnsConfig"},
	{"serviceAccount", "serviceAccountName"},
}

// defaultsField is what a merge knows of a field.
type defaultsField struct {
	index int
	name  string
	rule  mergeRule
	// group are the indexes of the fields that count as one with the field, at least its own.
	group []int
	// around is true for a field of an auxiliary object, which is no part of the identity of the pods.
	around bool
}

// defaultsFields are all fields of appv1.Defaults.
var defaultsFields = newDefaultsFields()

func newDefaultsFields() []defaultsField {
	names := appv1.DefaultsFields()
	fields := make([]defaultsField, 0, len(names))
	for i, name := range names {
		f := defaultsField{index: i, name: name, rule: mergeRules[name], group: []int{i}}
		_, f.around = reflect.TypeFor[appv1.ServingSpec]().FieldByName(reflect.TypeFor[appv1.Defaults]().Field(i).Name)
		for _, group := range DefaultsGroups {
			if !slices.Contains(group, name) {
				continue
			}
			f.group = nil
			for _, member := range group {
				if j := slices.Index(names, member); j >= 0 {
					f.group = append(f.group, j)
				}
			}
		}
		fields = append(fields, f)
	}
	return fields
}

// MergeDefaults returns the defaults of two layers. The nearer layer takes precedence. The result shares values with both.
func MergeDefaults(far, near *appv1.Defaults) *appv1.Defaults {
	merged := *near
	into, from, over := reflect.ValueOf(&merged).Elem(), reflect.ValueOf(far).Elem(), reflect.ValueOf(near).Elem()
	for i := range defaultsFields {
		f := &defaultsFields[i]
		switch f.rule {
		case mergeByKey:
			into.Field(f.index).Set(mergeMaps(from.Field(f.index), over.Field(f.index)))
		case mergeByName:
			into.Field(f.index).Set(mergeLists(from.Field(f.index), over.Field(f.index)))
		case mergeWhole:
			if !f.isStated(over) {
				into.Field(f.index).Set(from.Field(f.index))
			}
		}
		if isUnset(into.Field(f.index)) {
			into.Field(f.index).SetZero()
		}
	}
	return &merged
}

// isStated reports whether a layer states the field, or another field of its group.
func (f *defaultsField) isStated(layer reflect.Value) bool {
	return slices.ContainsFunc(f.group, func(i int) bool { return !isUnset(layer.Field(i)) })
}

// isUnset reports whether a value has no effect as a field of a spec: a spec that is recorded does not have such a field.
func isUnset(v reflect.Value) bool {
	switch v.Kind() {
	case reflect.Map, reflect.Slice:
		return v.Len() == 0
	case reflect.Struct:
		for i := range v.NumField() {
			if !isUnset(v.Field(i)) {
				return false
			}
		}
		return true
	default:
		return v.IsZero()
	}
}

// mergeMaps returns the entries of two maps of texts.
func mergeMaps(far, near reflect.Value) reflect.Value {
	if far.Len() == 0 {
		return near
	}
	all := map[string]string{}
	for _, part := range []reflect.Value{far, near} {
		for iter := part.MapRange(); iter.Next(); {
			all[iter.Key().String()] = iter.Value().String()
		}
	}
	return reflect.ValueOf(all)
}

// mergeLists returns the items of two lists of structs with names.
func mergeLists(far, near reflect.Value) reflect.Value {
	rest := withoutNames(far, near)
	if rest.Len() == 0 {
		return near
	}
	return reflect.AppendSlice(rest, near)
}

// withoutNames returns the items of a list whose name no item of another list has, in a list of their own.
func withoutNames(list, others reflect.Value) reflect.Value {
	taken := map[string]bool{}
	for i := range others.Len() {
		taken[itemName(others.Index(i))] = true
	}
	rest := reflect.MakeSlice(list.Type(), 0, list.Len())
	for i := range list.Len() {
		if !taken[itemName(list.Index(i))] {
			rest = reflect.Append(rest, list.Index(i))
		}
	}
	return rest
}

// itemName returns what identifies an item in its list: for a mount the path in the container, for all others the name.
func itemName(item reflect.Value) string {
	if mount, ok := item.Interface().(corev1.VolumeMount); ok {
		return mount.MountPath
	}
	return item.FieldByName("Name").String()
}

// takeDefaults returns the defaults that a resource takes, and of the fields that it does without those that the defaults have. Fields of
// auxiliary objects are taken whether or not the resource states them: a change of these fields is no change of the pods, and takes no
// other defaults.
func takeDefaults(d *appv1.Defaults, workload *appv1.WorkloadSpec, serving *appv1.ServingSpec, without []string) (taken *appv1.Defaults, left []string) {
	taken = d.DeepCopy()
	into, stated := reflect.ValueOf(taken).Elem(), reflect.ValueOf(statedFields(workload, serving)).Elem()
	for i := range defaultsFields {
		f := &defaultsFields[i]
		value := into.Field(f.index)
		switch {
		case isUnset(value):
			value.SetZero()
		case f.around:
		case slices.Contains(without, f.name):
			left = append(left, f.name)
			value.SetZero()
		case f.rule == mergeByKey:
			value.Set(reflect.ValueOf(withoutKeys(value, stated.Field(f.index))))
		case f.rule == mergeByName:
			value.Set(withoutNames(value, stated.Field(f.index)))
		case f.isStated(stated):
			value.SetZero()
		}
	}
	return taken, left
}

// withoutKeys returns the entries of a map whose key another map lacks.
func withoutKeys(all, others reflect.Value) map[string]string {
	rest := map[string]string{}
	for iter := all.MapRange(); iter.Next(); {
		if !others.MapIndex(iter.Key()).IsValid() {
			rest[iter.Key().String()] = iter.Value().String()
		}
	}
	return rest
}

// statedFields returns the fields of a resource as the nearest layer of defaults. A Service with nothing but a name states nothing that
// defaults could state.
func statedFields(workload *appv1.WorkloadSpec, serving *appv1.ServingSpec) *appv1.Defaults {
	stated := appv1.NewDefaults(workload, serving)
	stated.Service.Name = ""
	return stated
}

// withDefaults returns the fields of a resource with defaults. It does not change the arguments. Fields in without do not count.
func withDefaults(d *appv1.Defaults, workload *appv1.WorkloadSpec, serving *appv1.ServingSpec, without []string) (appv1.WorkloadSpec, appv1.ServingSpec) {
	far := *d
	value := reflect.ValueOf(&far).Elem()
	for i := range defaultsFields {
		if f := &defaultsFields[i]; slices.Contains(without, f.name) {
			value.Field(f.index).SetZero()
		}
	}
	if workload.ServiceAccountName != "" {
		far.ServiceAccount = nil
	}
	w, s := *workload, *serving
	MergeDefaults(&far, statedFields(workload, serving)).SetDefaults(&w, &s)
	w.Service.Name = workload.Service.Name
	return w, s
}

// SizeNames returns the names of the sizes, with commas between them.
func (s Sizes) SizeNames() string {
	names := make([]string, 0, len(s)+1)
	for _, name := range slices.Sorted(maps.Keys(s)) {
		names = append(names, string(name))
	}
	return strings.Join(append(names, string(appv1.SizeCustom)), ", ")
}
