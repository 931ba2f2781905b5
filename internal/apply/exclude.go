package apply

import (
	"reflect"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
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
// other members of one-ofs, see oneOfs; items of lists that repeat what must be unique; limits below our requests; and
// copies of our containers. It looks at nothing but what the literal states.
func (s shape) exclusionsOf(wanted, live client.Object) []fieldpath.Path {
	stated, found := reflect.Indirect(reflect.ValueOf(wanted)), reflect.Indirect(reflect.ValueOf(live))
	atom, ok := s.Resolve(s.root)
	if !ok || atom.Map == nil || stated.Kind() != reflect.Struct || stated.Type() != found.Type() {
		return nil
	}
	w := &excluder{shape: s}
	w.visitStruct(atom.Map, stated, found, fieldpath.Path{})
	return append(w.paths, duplicateContainers(wanted, live)...)
}

// excluder walks through a literal and a live object.
type excluder struct {
	shape
	paths []fieldpath.Path
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
		item := field.GetFrom(wanted)
		if field.CanOmit(item) || len(at) == 0 && (field.JsonName == "status" || field.JsonName == "metadata") {
			continue
		}
		w.visitValue(fieldType(m, field.JsonName), item, field.GetFrom(live), append(at, fieldpath.PathElement{FieldName: &field.JsonName}))
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

// conflictingMembers returns the fields of a live struct that cannot stand next to what is wanted, by the names that lead to them.
func conflictingMembers(wanted, live reflect.Value) [][]string {
	var found [][]string
	for _, rule := range rulesOf(wanted.Type()) {
		for _, name := range rule.violatedBy(wanted, live) {
			found = append(found, []string{name})
		}
	}
	if wanted.Type() == reflect.TypeFor[corev1.ResourceRequirements]() {
		stated, lives := resourcesOf(wanted), resourcesOf(live)
		found = append(found, quantitiesBeyond("limits", lives.Limits, stated.Limits, stated.Requests, -1)...)
		found = append(found, quantitiesBeyond("requests", lives.Requests, stated.Requests, stated.Limits, 1)...)
	}
	return found
}

func resourcesOf(v reflect.Value) corev1.ResourceRequirements {
	resources, _ := v.Interface().(corev1.ResourceRequirements)
	return resources
}

// quantitiesBeyond returns the quantities of others that are less, or more, than the ones of ours that bound them.
func quantitiesBeyond(field string, live, stated, bounds corev1.ResourceList, sign int) [][]string {
	var found [][]string
	for name, quantity := range live {
		_, ours := stated[name]
		bound, bounded := bounds[name]
		if !ours && bounded && quantity.Cmp(bound) == sign {
			found = append(found, []string{field, string(name)})
		}
	}
	return found
}

// podSpec returns the pods' spec of an object, nil if it has none.
func podSpec(obj client.Object) *corev1.PodSpec {
	switch obj := obj.(type) {
	case *appsv1.Deployment:
		return &obj.Spec.Template.Spec
	case *appsv1.StatefulSet:
		return &obj.Spec.Template.Spec
	}
	return nil
}

// duplicateContainers returns the live containers that are ours under another name, as a rename by hand or a copy leaves them: without
// this rule they would run next to ours. A container that the literal does not name is a twin if
//
//   - it runs the same as one of ours in the same list, be it as stated or as it lives: an image of the same repository, the
//     same command and arguments, each variable that ours states with the same value, and each port that ours states; or
//   - it has the name of one of ours in the other list, which the API server does not allow.
//
// Every other container stays: an injected sidecar has another image, and a worker of the same image another command, other
// arguments or other variables.
func duplicateContainers(wanted, live client.Object) []fieldpath.Path {
	stated, found := podSpec(wanted), podSpec(live)
	if stated == nil || found == nil {
		return nil
	}
	var paths []fieldpath.Path
	for _, list := range []struct {
		name                string
		ours, theirs, other []corev1.Container
	}{
		{"containers", stated.Containers, found.Containers, stated.InitContainers},
		{"initContainers", stated.InitContainers, found.InitContainers, stated.Containers},
	} {
		for i := range list.theirs {
			c := &list.theirs[i]
			if containerOf(list.ours, c.Name) == nil && (containerOf(list.other, c.Name) != nil || isCopyOfOurs(c, list.ours, list.theirs)) {
				paths = append(paths, fieldpath.MakePathOrDie("spec", "template", "spec", list.name, fieldpath.KeyByFields("name", c.Name)))
			}
		}
	}
	return paths
}

func containerOf(list []corev1.Container, name string) *corev1.Container {
	if i := slices.IndexFunc(list, func(c corev1.Container) bool { return c.Name == name }); i >= 0 {
		return &list[i]
	}
	return nil
}

// isCopyOfOurs reports whether a container runs the same as one of ours.
func isCopyOfOurs(c *corev1.Container, ours, live []corev1.Container) bool {
	for i := range ours {
		was := containerOf(live, ours[i].Name)
		if runsSame(c, &ours[i]) || was != nil && runsSame(c, was) {
			return true
		}
	}
	return false
}

func runsSame(c, ours *corev1.Container) bool {
	if imageRepository(c.Image) != imageRepository(ours.Image) || !slices.Equal(c.Command, ours.Command) || !slices.Equal(c.Args, ours.Args) {
		return false
	}
	for _, want := range ours.Env {
		if !slices.ContainsFunc(c.Env, func(has corev1.EnvVar) bool {
			return has.Name == want.Name && has.Value == want.Value && (has.ValueFrom == nil) == (want.ValueFrom == nil)
		}) {
			return false
		}
	}
	for _, want := range ours.Ports {
		if !slices.ContainsFunc(c.Ports, func(has corev1.ContainerPort) bool { return has.ContainerPort == want.ContainerPort }) {
			return false
		}
	}
	return true
}

// imageRepository returns an image's name without tag and digest.
func imageRepository(image string) string {
	image, _, _ = strings.Cut(image, "@")
	if i := strings.LastIndex(image, ":"); i > strings.LastIndex(image, "/") {
		image = image[:i]
	}
	return image
}

// pathsBelow reports whether a path is one of the roots, or leads to something below one.
func pathsBelow(path fieldpath.Path, roots []fieldpath.Path) bool {
	return slices.ContainsFunc(roots, func(root fieldpath.Path) bool {
		return len(path) >= len(root) && path[:len(root)].Equals(root)
	})
}

// allBelow returns what of the fields is below the roots.
func allBelow(fields *fieldpath.Set, roots []fieldpath.Path) *fieldpath.Set {
	found := &fieldpath.Set{}
	if len(roots) == 0 {
		return found
	}
	for path := range fields.All() {
		if pathsBelow(path, roots) {
			found.Insert(path.Copy())
		}
	}
	return found
}
