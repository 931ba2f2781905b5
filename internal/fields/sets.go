package fields

import (
	"slices"

	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
	"sigs.k8s.io/structured-merge-diff/v6/value"
)

// IsBelow reports whether a path is one of the roots, or leads to something below one.
func IsBelow(path fieldpath.Path, roots []fieldpath.Path) bool {
	return slices.ContainsFunc(roots, func(root fieldpath.Path) bool {
		return len(path) >= len(root) && path[:len(root)].Equals(root)
	})
}

// SelectBelow returns what of the fields is below the roots.
func SelectBelow(fields *fieldpath.Set, roots []fieldpath.Path) *fieldpath.Set {
	found := &fieldpath.Set{}
	if len(roots) == 0 {
		return found
	}
	for path := range fields.All() {
		if IsBelow(path, roots) {
			found.Insert(path.Copy())
		}
	}
	return found
}

// ValueAt returns the value at a path of an object, nil if there is none.
func ValueAt(found any, path fieldpath.Path) any {
	for _, element := range path {
		switch {
		case element.FieldName != nil:
			parts, _ := found.(map[string]any)
			found = parts[*element.FieldName]
		case element.Key != nil:
			items, _ := found.([]any)
			i := slices.IndexFunc(items, func(item any) bool { return hasKey(item, *element.Key) })
			if i < 0 {
				return nil
			}
			found = items[i]
		default:
			return nil
		}
	}
	return found
}

// hasKey reports whether an item of a list has all values of a key.
func hasKey(item any, key value.FieldList) bool {
	parts, _ := item.(map[string]any)
	return !slices.ContainsFunc(key, func(field value.Field) bool {
		return !value.Equals(value.NewValueInterface(parts[field.Name]), field.Value)
	})
}
