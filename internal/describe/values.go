package describe

import (
	"regexp"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"

	"huolala.cn/app-operator/internal/fields"

	"huolala.cn/app-operator/internal/secrecy"
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
var privateNames = regexp.MustCompile(`^` + secrecy.PrivateFields + `$`)

// describer describes the fields of one comparison.
type describer struct {
	was, is       any
	ours          bool
	owned, others *fieldpath.Set
	found         []Difference
}

// describeSet describes the fields of one set. Of an added or removed item of a list, the item is named and none of its parts; of
// a struct, its parts are.
func (d *describer) describeSet(set *fieldpath.Set, how FieldChange) {
	var whole []fieldpath.Path
	for path := range set.All() {
		if end := path[len(path)-1]; end.Key != nil || end.Value != nil || isPrivate(path) && !hasBelow(set, path) {
			whole = append(whole, path.Copy())
		}
	}
	for path := range set.All() {
		if fields.IsBelow(path[:len(path)-1], whole) {
			continue
		}
		if end := path[len(path)-1]; end.FieldName != nil && hasBelow(set, path) {
			continue
		}
		from, to := fields.ValueAt(d.was, path), fields.ValueAt(d.is, path)
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

// isPrivate reports whether a field, or a struct around it, is private.
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

// Differences returns the fields in which two states of an object differ, sorted by their paths. Of an object of the owner (ours), the
// values are stated where they may be shown: the earlier value of a field that the manager owned, the later value of a field that the
// manager or nobody owns. The values of a Secret are never shown.
func Differences(c *fields.Comparer, manager string, before, after client.Object, ours bool) ([]Difference, error) {
	compared, err := compareObjects(c, before, after)
	if err != nil {
		return nil, err
	}
	if _, secret := after.(*corev1.Secret); secret {
		ours = false
	}
	diff, others := compared.diff, fields.OwnedByOthers(after, manager)
	d := describer{
		was: compared.before.AsValue().Unstructured(), is: compared.after.AsValue().Unstructured(),
		ours: ours, owned: fields.OwnedBy(before, manager), others: others,
	}
	d.describeSet(diff.Removed, FieldRemoved)
	d.describeSet(diff.Added.Difference(others), FieldAdded)
	d.describeSet(diff.Modified.Difference(others), FieldModified)
	if len(d.found) == 0 {
		compared.visitReordered(func(list fieldpath.Path) {
			d.found = append(d.found, Difference{Path: "the order of " + longPath(list), How: FieldModified})
		})
	}
	if len(d.found) == 0 {
		for _, name := range append(changedRecords(before, after), OwnershipFields)[:1] {
			d.found = append(d.found, Difference{Path: name, How: FieldModified})
		}
	}
	slices.SortStableFunc(d.found, func(a, b Difference) int { return strings.Compare(a.Path, b.Path) })
	return mergeDifferences(d.found), nil
}
