package apply

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
)

// FieldChange is how a field differs.
type FieldChange string

// How a field differs.
const (
	FieldAdded    FieldChange = "Added"
	FieldModified FieldChange = "Modified"
	FieldRemoved  FieldChange = "Removed"
)

// Difference is one field in which two states of an object differ.
type Difference struct {
	// Path names the field.
	Path string
	How  FieldChange
	// From and To are its values, nil where they are not to be shown.
	From, To *string
}

// publicTexts are the names of fields whose texts may be shown. A number or a boolean may be shown of any field, and nothing
// may be shown of a private field; see privateNames. So a field that is in neither list shows its name alone.
var publicTexts = map[string]bool{
	"image": true, "imagePullPolicy": true, "port": true, "targetPort": true, "protocol": true, "type": true,
	"maxSurge": true, "maxUnavailable": true, "minAvailable": true, "externalTrafficPolicy": true, "internalTrafficPolicy": true,
	"sessionAffinity": true, "clusterIP": true, "loadBalancerClass": true, "restartPolicy": true, "dnsPolicy": true,
	"serviceAccountName": true, "priorityClassName": true, "whenDeleted": true, "whenScaled": true, "podManagementPolicy": true,
	"pathType": true, "ingressClassName": true, "unhealthyPodEvictionPolicy": true,
}

// publicParts are the structs all of whose texts may be shown: quantities.
var publicParts = map[string]bool{"resources": true, "requests": true, "limits": true}

// privateNames are the fields below which nothing is shown: users put values there that are nobody else's business.
var privateNames = regexp.MustCompile(`^` + privateFields + `$`)

// describeValues returns the fields in which two states of an object differ, sorted by their paths. Of an object that is ours,
// the values are stated where they may be shown: the one before only of a field that the manager owned, the one after only of
// one that it owns, or that no one does. ours is false for an object that is not the owner's yet.
func (e *Engine) describeValues(manager string, before, after client.Object, ours bool) ([]Difference, error) {
	was, err := e.comparableObject(before)
	if err != nil {
		return nil, err
	}
	is, err := e.comparableObject(after)
	if err != nil {
		return nil, err
	}
	diff, err := was.Compare(is)
	if err != nil {
		return nil, fmt.Errorf("compare: %w", err)
	}
	if _, secret := after.(*corev1.Secret); secret {
		ours = false
	}
	others := ownedByOthers(after, manager)
	d := describer{was: was.AsValue().Unstructured(), is: is.AsValue().Unstructured(), ours: ours, owned: ownedFields(before, manager), others: others}
	d.describe(diff.Removed, FieldRemoved)
	d.describe(diff.Added.Difference(others), FieldAdded)
	d.describe(diff.Modified.Difference(others), FieldModified)
	if len(d.found) == 0 {
		reorderedLists(d.was, d.is, nil, func(list fieldpath.Path) {
			d.found = append(d.found, Difference{Path: "the order of " + longPath(list), How: FieldModified})
		})
	}
	if len(d.found) == 0 {
		for _, name := range append(changedRecords(before, after), ownershipFields)[:1] {
			d.found = append(d.found, Difference{Path: name, How: FieldModified})
		}
	}
	slices.SortStableFunc(d.found, func(a, b Difference) int { return strings.Compare(a.Path, b.Path) })
	return mergeDifferences(d.found), nil
}

// describer describes the fields of one comparison.
type describer struct {
	was, is       any
	ours          bool
	owned, others *fieldpath.Set
	found         []Difference
}

// describe describes the fields of one set. Of an item of a list that comes or goes, the item is named and none of its parts; of
// a struct, its parts are.
func (d *describer) describe(set *fieldpath.Set, how FieldChange) {
	var whole []fieldpath.Path
	for path := range set.All() {
		if end := path[len(path)-1]; end.Key != nil || end.Value != nil || isPrivate(path) && !hasBelow(set, path) {
			whole = append(whole, path.Copy())
		}
	}
	for path := range set.All() {
		if pathsBelow(path[:len(path)-1], whole) {
			continue
		}
		if end := path[len(path)-1]; end.FieldName != nil && hasBelow(set, path) {
			continue
		}
		from, to := valueAt(d.was, path), valueAt(d.is, path)
		name := longPath(path)
		if name == "" {
			continue
		}
		found := Difference{Path: name, How: how}
		if d.ours && !isPrivate(path) {
			if d.owned.Has(path) {
				found.From = shownValue(path, from)
			}
			if !d.others.Has(path) {
				found.To = shownValue(path, to)
			}
		}
		d.found = append(d.found, found)
	}
}

// hasBelow reports whether a set has a field below a path.
func hasBelow(set *fieldpath.Set, path fieldpath.Path) bool {
	below := set
	for _, element := range path {
		below = below.WithPrefix(element)
	}
	return !below.Empty()
}

// isPrivate reports whether a field, or one that it is a part of, is private.
func isPrivate(path fieldpath.Path) bool {
	return slices.ContainsFunc(path, func(element fieldpath.PathElement) bool {
		return element.FieldName != nil && privateNames.MatchString(*element.FieldName)
	})
}

// shownValue returns the value of a field as it may be shown, nil if it may not.
func shownValue(path fieldpath.Path, found any) *string {
	shown := ""
	switch found := found.(type) {
	case bool:
		shown = strconv.FormatBool(found)
	case int64:
		shown = strconv.FormatInt(found, 10)
	case string:
		last := path[len(path)-1]
		public := last.FieldName != nil && publicTexts[*last.FieldName] || slices.ContainsFunc(path, func(element fieldpath.PathElement) bool {
			return element.FieldName != nil && publicParts[*element.FieldName]
		})
		if !public {
			return nil
		}
		shown = found
	default:
		return nil
	}
	return &shown
}

// longPath returns how a plan names a field: all of the way to it, but for the spec. A private field is named by what is private,
// a variable by its name. It is empty for what is named by its parts.
func longPath(path fieldpath.Path) string {
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

// mergeDifferences makes one of differences that have the same path. They are sorted.
func mergeDifferences(found []Difference) []Difference {
	var merged []Difference
	for _, d := range found {
		if last := len(merged) - 1; last >= 0 && merged[last].Path == d.Path {
			merged[last] = Difference{Path: d.Path, How: FieldModified}
			continue
		}
		merged = append(merged, d)
	}
	return merged
}
