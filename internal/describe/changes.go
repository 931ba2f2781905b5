// Package describe puts differences of objects into words for conditions, events and plans, and removes from the words of the API server
// the values that nobody else may read. It sends no requests.
package describe

import (
	"fmt"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
	"sigs.k8s.io/structured-merge-diff/v6/typed"

	appv1 "huolala.cn/app-operator/api/v1"
	"huolala.cn/app-operator/internal/fields"
)

// records are the annotations with records of the operator. They change with the recorded values.
var records = []string{
	appv1.AnnotationLastAppliedHash, appv1.AnnotationLastAppliedInputs, appv1.AnnotationLastAppliedSpec, appv1.AnnotationScheduleSince,
}

var templatePath = fieldpath.MakePathOrDie("spec", "template")

// comparableObject returns the part of an object that counts for the description of a change: neither its status nor the metadata that
// every write changes.
func comparableObject(c *fields.Comparer, obj client.Object) (*typed.TypedValue, error) {
	stated, err := fields.Literal(obj)
	if err != nil {
		return nil, err
	}
	gvk, err := c.KindOf(obj)
	if err != nil {
		return nil, fmt.Errorf("live object: %w", err)
	}
	meta, _, _ := unstructured.NestedMap(stated, "metadata")
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
	stated["metadata"] = kept
	return c.TypedFields(gvk, stated)
}

// comparison has two states of an object, by the schema of its type, and the fields in which they differ.
type comparison struct {
	before, after *typed.TypedValue
	diff          *typed.Comparison
}

func compareObjects(c *fields.Comparer, before, after client.Object) (comparison, error) {
	was, err := comparableObject(c, before)
	if err != nil {
		return comparison{}, err
	}
	is, err := comparableObject(c, after)
	if err != nil {
		return comparison{}, err
	}
	diff, err := was.Compare(is)
	if err != nil {
		return comparison{}, fmt.Errorf("compare: %w", err)
	}
	return comparison{was, is, diff}, nil
}

// visitReordered calls found with the path of each list whose items are the same in another order.
func (c *comparison) visitReordered(found func(fieldpath.Path)) {
	reorderedLists(c.before.AsValue().Unstructured(), c.after.AsValue().Unstructured(), nil, found)
}

// OwnershipFields is how a change names who owns the fields of an object, where nothing else differs.
const OwnershipFields = "metadata.managedFields"

// Changes has the fields in which two states of an object differ, in short and without values.
type Changes struct {
	// Fields has all fields that changed, Removed the fields that the later state lacks.
	Fields, Removed []string
	// TemplateChanged reports whether the pod template differs, so that the pods are replaced.
	TemplateChanged bool
}

// Compare returns the fields that differ between two states of an object after a write by a field manager. Fields has at least one entry:
// the records if another writer has changed them (repaired), or if nothing else differs.
func Compare(c *fields.Comparer, manager string, before, after client.Object, repaired bool) (Changes, error) {
	compared, err := compareObjects(c, before, after)
	if err != nil {
		return Changes{}, err
	}
	main, diff := MainContainer(after), compared.diff
	// A field that another manager alone owns in the later state was written by that manager, between the two states.
	changed := diff.Added.Union(diff.Modified).Difference(fields.OwnedByOthers(after, manager)).Union(diff.Removed)
	var all []string
	if changed.Empty() {
		compared.visitReordered(func(list fieldpath.Path) { all = append(all, "the order of "+shortPath(list, main)) })
	}
	all = append(all, ShortPaths(changed, main)...)
	if repaired || len(all) == 0 {
		all = append(all, changedRecords(before, after)...)
	}
	if len(all) == 0 {
		all = []string{OwnershipFields}
	}
	return Changes{
		Fields: all, Removed: ShortPaths(diff.Removed, main),
		TemplateChanged: !fields.SelectBelow(changed, []fieldpath.Path{templatePath}).Empty(),
	}, nil
}

// changedRecords returns, in words, the records that differ between two states of an object.
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
		parts, _ := is.(map[string]any)
		for _, name := range slices.Sorted(maps.Keys(was)) {
			reorderedLists(was[name], parts[name], append(slices.Clip(at), fieldpath.PathElement{FieldName: &name}), found)
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

// itemName distinguishes an item of a list from others: its name, or the whole item.
func itemName(item any) string {
	if parts, ok := item.(map[string]any); ok {
		if name, ok := parts["name"].(string); ok {
			return name
		}
	}
	return fmt.Sprint(item)
}

// MainContainer is the name of the first container of an object's pods, empty if it has none.
func MainContainer(obj client.Object) string {
	if spec := fields.PodSpec(obj); spec != nil && len(spec.Containers) > 0 {
		return spec.Containers[0].Name
	}
	return ""
}
