package apply

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
	"sigs.k8s.io/structured-merge-diff/v6/typed"

	appv1 "huolala.cn/app-operator/api/v1"
)

// maxFields limits how many fields the line of a change names.
const maxFields = 5

// records are the annotations by which the operator remembers. They change with what they are a record of.
var records = []string{appv1.AnnotationLastAppliedHash, appv1.AnnotationLastAppliedInputs, appv1.AnnotationLastAppliedSpec}

var templatePath = fieldpath.MakePathOrDie("spec", "template")

// comparableObject returns what of an object counts for what a change says: neither its status nor what every write changes.
func (e *Engine) comparableObject(obj client.Object) (*typed.TypedValue, error) {
	fields, err := literalValue(obj)
	if err != nil {
		return nil, err
	}
	s := obj.GetObjectKind().GroupVersionKind()
	if s.Empty() {
		if s, err = e.client.GroupVersionKindFor(obj); err != nil {
			return nil, fmt.Errorf("live object: %w", err)
		}
	}
	fields["apiVersion"], fields["kind"] = s.GroupVersion().String(), s.Kind
	meta, _, _ := unstructured.NestedMap(fields, "metadata")
	kept := map[string]any{}
	for _, name := range []string{"labels", "annotations", "ownerReferences", "finalizers"} {
		if value, ok := meta[name]; ok {
			kept[name] = value
		}
	}
	if annotations, ok := kept["annotations"].(map[string]any); ok {
		for _, name := range records {
			delete(annotations, name)
		}
		if len(annotations) == 0 {
			delete(kept, "annotations")
		}
	}
	fields["metadata"] = kept
	value, err := e.converter.ObjectToTyped(&unstructured.Unstructured{Object: fields}, typed.AllowDuplicates)
	if err != nil {
		return nil, fmt.Errorf("live object: %w", err)
	}
	return value, nil
}

// ownershipFields is how a change names who owns the fields of an object, where nothing else differs.
const ownershipFields = "metadata.managedFields"

// describeDifference states in a change which fields differ between two states of an object. It names at least one: the records are
// named in a repair, as another writer has changed them, and where nothing else differs.
func (e *Engine) describeDifference(change *Change, manager string, before, after client.Object) error {
	was, err := e.comparableObject(before)
	if err != nil {
		return err
	}
	is, err := e.comparableObject(after)
	if err != nil {
		return err
	}
	diff, err := was.Compare(is)
	if err != nil {
		return fmt.Errorf("compare: %w", err)
	}
	main := mainContainer(after)
	// What another manager alone owns afterwards was written between the two states, by itself.
	changed := diff.Added.Union(diff.Modified).Difference(ownedByOthers(after, manager)).Union(diff.Removed)
	if changed.Empty() {
		reorderedLists(was.AsValue().Unstructured(), is.AsValue().Unstructured(), nil, func(list fieldpath.Path) {
			change.Fields = append(change.Fields, "the order of "+shortPath(list, main))
		})
	}
	change.Fields = append(change.Fields, shortPaths(changed, main)...)
	if change.Action == Repaired || len(change.Fields) == 0 {
		change.Fields = append(change.Fields, changedRecords(before, after)...)
	}
	if len(change.Fields) == 0 {
		change.Fields = []string{ownershipFields}
	}
	change.TemplateChanged = !allBelow(changed, []fieldpath.Path{templatePath}).Empty()
	change.Removed = shortPaths(diff.Removed, main)
	return nil
}

// ownedByOthers returns the fields of an object that other managers own and the manager does not.
func ownedByOthers(obj client.Object, manager string) *fieldpath.Set {
	ours, others := &fieldpath.Set{}, &fieldpath.Set{}
	for _, entry := range obj.GetManagedFields() {
		set := managedSet(entry)
		switch {
		case set == nil:
		case entry.Manager == manager:
			ours = ours.Union(set)
		default:
			others = others.Union(set)
		}
	}
	return others.Difference(ours)
}

// changedRecords says in words which of the records differ between two states of an object.
func changedRecords(before, after client.Object) []string {
	var changed []string
	for _, name := range records {
		was, had := before.GetAnnotations()[name]
		if is, has := after.GetAnnotations()[name]; was != is || had != has {
			changed = append(changed, name)
		}
	}
	switch len(changed) {
	case 0:
		return nil
	case 1:
		return []string{"its record annotation " + changed[0]}
	}
	return []string{"its record annotations"}
}

// reorderedLists calls found with the path of each list that has the same items in another order.
func reorderedLists(was, is any, at fieldpath.Path, found func(fieldpath.Path)) {
	switch was := was.(type) {
	case map[string]any:
		fields, _ := is.(map[string]any)
		for _, name := range slices.Sorted(maps.Keys(was)) {
			reorderedLists(was[name], fields[name], append(slices.Clip(at), fieldpath.PathElement{FieldName: &name}), found)
		}
	case []any:
		items, _ := is.([]any)
		for i := range min(len(was), len(items)) {
			if itemName(was[i]) != itemName(items[i]) {
				found(at)
				return
			}
			reorderedLists(was[i], items[i], append(slices.Clip(at), fieldpath.KeyElementByFields("name", itemName(was[i]))), found)
		}
	}
}

// itemName is what tells an item of a list from others: its name, or all of it.
func itemName(item any) string {
	if fields, ok := item.(map[string]any); ok {
		if name, ok := fields["name"].(string); ok {
			return name
		}
	}
	return fmt.Sprint(item)
}

// mainContainer is the name of the first container of an object's pods, empty if it has none.
func mainContainer(obj client.Object) string {
	if spec := podSpec(obj); spec != nil && len(spec.Containers) > 0 {
		return spec.Containers[0].Name
	}
	return ""
}

// cutFields returns the first fields of a list.
func cutFields(fields []string, most int) []string {
	if len(fields) > most {
		return append(slices.Clone(fields[:most]), "...")
	}
	return fields
}

// shortPaths returns how a message names fields: those of the main container without the way to it, items of lists by their
// keys, and nothing that another one is a part.
func shortPaths(set *fieldpath.Set, main string) []string {
	var paths []string
	var items []fieldpath.Path // They come or go as a whole.
	for path := range set.All() {
		if path[len(path)-1].Key != nil {
			items = append(items, path.Copy())
		}
	}
	for path := range set.All() {
		if pathsBelow(path[:len(path)-1], items) {
			continue
		}
		if name := shortPath(path, main); name != "" {
			paths = append(paths, name)
		}
	}
	slices.Sort(paths)
	paths = slices.Compact(paths)
	var kept []string
	for _, path := range paths {
		if last := len(kept) - 1; last >= 0 && (strings.HasPrefix(path, kept[last]+".") || strings.HasPrefix(path, kept[last]+"[")) {
			continue
		}
		kept = append(kept, path)
	}
	return kept
}

// maxDepth limits how deep below a container, or another struct, a field is named.
const maxDepth = 2

// shortPath returns how a message names one field. A value that is part of a path, as in a set, is left out.
func shortPath(path fieldpath.Path, main string) string {
	elements, start := slices.Clone(path), ""
	if name, ok := metadataPath(elements); ok {
		return name
	}
	switch rest, ours := elementsBelow(elements, "spec", "template", "spec"), fieldpath.KeyByFields("name", main); {
	case rest != nil:
		elements = rest
		if len(rest) > 2 && rest[0].FieldName != nil && *rest[0].FieldName == "containers" && rest[1].Key != nil && rest[1].Key.Equals(*ours) {
			elements = rest[2:]
		}
	case elementsBelow(elements, "spec", "template") != nil:
		elements, start = elementsBelow(elements, "spec", "template"), "template."
	case elementsBelow(elements, "spec") != nil:
		elements = elementsBelow(elements, "spec")
	}
	return start + joinElements(elements)
}

// metadataPath returns how a message names a field of the metadata of an object, or of a pod template: a label or an annotation
// by its key, and owner references together, as a UID tells nobody anything. The name of a map that has keys is empty.
func metadataPath(path fieldpath.Path) (name string, ok bool) {
	start := "metadata"
	rest := elementsBelow(path, "metadata")
	if rest == nil {
		start, rest = "template.metadata", elementsBelow(path, "spec", "template", "metadata")
	}
	if rest == nil || rest[0].FieldName == nil {
		return "", false
	}
	switch field := *rest[0].FieldName; field {
	case "labels", "annotations":
		if len(rest) == 1 || rest[1].FieldName == nil {
			return "", true
		}
		return fmt.Sprintf("%s.%s[%s]", start, field, *rest[1].FieldName), true
	default:
		return start + "." + field, true
	}
}

// elementsBelow returns the elements after those with the names, nil if there are none, or the path begins otherwise.
func elementsBelow(elements fieldpath.Path, names ...string) fieldpath.Path {
	if len(elements) <= len(names) {
		return nil
	}
	for i, name := range names {
		if elements[i].FieldName == nil || *elements[i].FieldName != name {
			return nil
		}
	}
	return elements[len(names):]
}

// joinElements writes the elements of a path, down to maxDepth.
func joinElements(elements fieldpath.Path) string {
	var b strings.Builder
	names, keys := 0, 0
	for _, element := range elements {
		switch {
		case element.FieldName != nil && names >= maxDepth && keys == 0, element.FieldName != nil && keys > 0 && names > maxDepth:
			return b.String()
		case element.FieldName != nil:
			if b.Len() > 0 {
				b.WriteString(".")
			}
			b.WriteString(*element.FieldName)
			names++
		case element.Key != nil:
			var values []string
			for _, field := range *element.Key {
				values = append(values, fmt.Sprint(field.Value.Unstructured()))
			}
			b.WriteString("[" + strings.Join(values, "/") + "]")
			if strings.HasPrefix(b.String(), "env[") {
				return b.String()
			}
			keys++
		default:
			return b.String()
		}
	}
	return b.String()
}

// fieldManagers names the managers that own any of the fields and are not ours.
func fieldManagers(live client.Object, ours string, diff *fieldpath.Set) string {
	var names []string
	for _, entry := range live.GetManagedFields() {
		set := managedSet(entry)
		if set == nil || ofApply(entry, ours) || slices.Contains(names, entry.Manager) {
			continue
		}
		if entry.Operation == metav1.ManagedFieldsOperationUpdate && entry.Subresource == "status" {
			continue
		}
		if !set.Intersection(diff).Empty() {
			names = append(names, entry.Manager)
		}
	}
	slices.Sort(names)
	return strings.Join(names, ", ")
}
