package describe

import (
	"fmt"
	"slices"
	"strings"

	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"

	"huolala.cn/app-operator/internal/fields"
)

// ShortPaths returns the names of fields for messages: fields of the main container without the path to it, items of lists by their
// keys, and nothing that another one is a part.
func ShortPaths(set *fieldpath.Set, main string) []string {
	var paths []string
	var items []fieldpath.Path // They come or go as a whole.
	for path := range set.All() {
		if path[len(path)-1].Key != nil {
			items = append(items, path.Copy())
		}
	}
	for path := range set.All() {
		if fields.IsBelow(path[:len(path)-1], items) {
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
	elements, start := podPath(slices.Clone(path)), ""
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

// podPath returns the path of a field of the pod template of a CronJob as it is in a Deployment, and another path as it is.
func podPath(path fieldpath.Path) fieldpath.Path {
	if rest := elementsBelow(path, "spec", "jobTemplate", "spec", "template"); rest != nil {
		return append(fieldpath.MakePathOrDie("spec", "template"), rest...)
	}
	return path
}

// longPath returns the name of a field for plans: the whole path below the spec. A private field has the name of its private
// part, a variable its own name. The name is empty for a map with keys: its entries have names.
func longPath(path fieldpath.Path) string {
	path = podPath(path)
	if name, ok := metadataPath(path); ok {
		return name
	}
	elements := path
	start := ""
	switch {
	case elementsBelow(path, "spec", "template", "spec") != nil:
		elements, start = elementsBelow(path, "spec", "template", "spec"), "template"
	case elementsBelow(path, "spec", "template") != nil:
		elements, start = elementsBelow(path, "spec", "template"), "template"
	case elementsBelow(path, "spec") != nil:
		elements = elementsBelow(path, "spec")
	}
	var b strings.Builder
	b.WriteString(start)
	private := false
	for _, element := range elements {
		switch {
		case element.FieldName != nil:
			if private {
				return b.String()
			}
			if b.Len() > 0 {
				b.WriteString(".")
			}
			b.WriteString(*element.FieldName)
			private = private || privateNames.MatchString(*element.FieldName)
		case element.Key != nil:
			var values []string
			for _, field := range *element.Key {
				values = append(values, fmt.Sprint(field.Value.Unstructured()))
			}
			b.WriteString("[" + strings.Join(values, "/") + "]")
		default:
			return b.String() // A value that is a part of the path is left out.
		}
	}
	return b.String()
}

// metadataPath returns how a message names a field of the metadata of an object, or of a pod template: a label or an annotation
// by its key, and owner references together, as a UID means nothing to a reader. The name of a map that has keys is empty.
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
