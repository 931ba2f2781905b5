// Package fields compares objects by the rules of server-side apply: which fields a wanted object states, in which of them a live object
// differs, which field managers own them, and which fields cannot stay next to the stated ones. It sends no requests.
package fields

import (
	"fmt"
	"sync"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/managedfields"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
	"sigs.k8s.io/structured-merge-diff/v6/typed"
	"sigs.k8s.io/structured-merge-diff/v6/value"

	appv1 "huolala.cn/app-operator/api/v1"
	"huolala.cn/app-operator/internal/message"
	"huolala.cn/app-operator/internal/reconciler"
)

// Comparer compares wanted and live objects by the schemas of their types. NewComparer returns one.
type Comparer struct {
	scheme    *runtime.Scheme
	converter managedfields.TypeConverter
	shapes    sync.Map // GroupVersionKind to shape
}

// NewComparer returns a Comparer for the types of a scheme.
func NewComparer(scheme *runtime.Scheme) *Comparer {
	return &Comparer{scheme: scheme, converter: newTypeConverter(scheme)}
}

// KindOf returns the kind of an object: the kind that the object states, else the kind of its Go type.
func (c *Comparer) KindOf(obj client.Object) (schema.GroupVersionKind, error) {
	if gvk := obj.GetObjectKind().GroupVersionKind(); !gvk.Empty() {
		return gvk, nil
	}
	return apiutil.GVKForObject(obj, c.scheme)
}

// Contains reports whether an apply of a wanted object of a kind would leave the live object unchanged. Contains takes a fraction of the
// time of Diff. It returns false where it cannot decide, as for a list in which others have further items.
func (c *Comparer) Contains(gvk schema.GroupVersionKind, wanted, live client.Object) (bool, error) {
	s, err := c.shapeOf(gvk)
	return err == nil && s.matchesLive(wanted, live), err
}

// Exclusions returns the fields of a live object of a kind that cannot stay next to the fields of the wanted object, regardless of the owner:
// the other members of one-ofs, items of lists that repeat a unique value, limits below our requests, rules in a direction that our
// NetworkPolicy closes, and copies of our containers. It also returns the structs that cannot stay without what the manager alone owns of them, and
// that the wanted object leaves out.
func (c *Comparer) Exclusions(gvk schema.GroupVersionKind, manager string, wanted, live client.Object) ([]fieldpath.Path, error) {
	s, err := c.shapeOf(gvk)
	if err != nil {
		return nil, err
	}
	return s.exclusionsOf(manager, wanted, live), nil
}

// shapeOf returns the shape of a kind.
func (c *Comparer) shapeOf(gvk schema.GroupVersionKind) (shape, error) {
	if known, ok := c.shapes.Load(gvk); ok {
		return known.(shape), nil //nolint:forcetypeassert // Nothing else is stored.
	}
	empty := &unstructured.Unstructured{}
	empty.SetGroupVersionKind(gvk)
	typed, err := c.converter.ObjectToTyped(empty)
	if err != nil {
		return shape{}, fmt.Errorf("schema of %s: %w", gvk, err)
	}
	s := shape{typed.Schema(), typed.TypeRef()}
	c.shapes.Store(gvk, s)
	return s, nil
}

// Diff returns the fields in which a live object would change if a literal were applied, by the type's own schema:
// atomic lists and maps are compared whole, list-maps by key, all else as a part. It is empty if the literal holds.
func (c *Comparer) Diff(wanted, live client.Object) (*fieldpath.Set, error) {
	s, err := c.shapeOf(wanted.GetObjectKind().GroupVersionKind())
	if err != nil {
		return nil, err
	}
	if s.matchesLive(wanted, live) {
		return &fieldpath.Set{}, nil
	}
	fields, err := Literal(wanted)
	if err != nil {
		return nil, err
	}
	return c.mergeFields(fields, live)
}

// mergeFields returns the difference by merging the two and comparing the result with the live object.
func (c *Comparer) mergeFields(fields map[string]any, live client.Object) (*fieldpath.Set, error) {
	wanted, err := c.Typed(fields)
	if err != nil {
		return nil, err
	}
	var found runtime.Object = live
	if live.GetObjectKind().GroupVersionKind().Empty() || len(volumeClaimTemplates(fields)) > 0 {
		stated, err := Literal(live)
		if err != nil {
			return nil, err
		}
		// An object that was read from the API server has no kind, other than an object of the cache.
		stated["apiVersion"], stated["kind"] = fields["apiVersion"], fields["kind"]
		found = &unstructured.Unstructured{Object: stated}
	}
	actual, err := c.typedWithDuplicates(found)
	if err != nil {
		return nil, err
	}
	applied, err := actual.Merge(wanted)
	if err != nil {
		return nil, fmt.Errorf("merge: %w", err)
	}
	diff, err := actual.Compare(applied)
	if err != nil {
		return nil, fmt.Errorf("compare: %w", err)
	}
	changed := diff.Added.Union(diff.Modified).Union(diff.Removed)
	if changed.Empty() && !value.Equals(actual.AsValue(), applied.AsValue()) {
		// The comparison of lists by key leaves out their order, which counts: $(NAME) in a variable's value sees the
		// variables before it alone.
		changed.Insert(orderPath)
	}
	return changed, nil
}

// orderPath represents a difference in nothing but the order of a list.
var orderPath = fieldpath.MakePathOrDie("spec")

// Matches reports whether a live object has all that a literal of its type states.
func (c *Comparer) Matches(wanted, live client.Object) (bool, error) {
	diff, err := c.Diff(wanted, live)
	return err == nil && diff.Empty(), err
}

// RecordHolds reports whether an object that was built from a record is what its carrier was made of: wherever found, a part
// of the carrier, differs from it, the field is not the manager's. It is then another writer's, or was removed by one.
func (c *Comparer) RecordHolds(manager string, built, found, carrier client.Object) (bool, error) {
	diff, err := c.Diff(built, found)
	if err != nil || diff.Empty() {
		return err == nil, err
	}
	return diff.Leaves().Intersection(OwnedBy(carrier, manager)).Empty(), nil
}

// StatesTemplate reports whether an object states every field that the manager owns of the pod template of a carrier: applied in the place
// of the carrier, the object removes none.
func (c *Comparer) StatesTemplate(manager string, built, carrier client.Object) (bool, error) {
	literal, err := Literal(built)
	if err != nil {
		return false, err
	}
	stated, err := c.Stated(literal)
	if err != nil {
		return false, err
	}
	owned := SelectBelow(OwnedBy(carrier, manager), []fieldpath.Path{fieldpath.MakePathOrDie("spec", "template")})
	return owned.Leaves().Difference(stated).Empty(), nil
}

// unowned are fields that a literal states and nobody owns.
var unowned = fieldpath.NewSet(fieldpath.MakePathOrDie("apiVersion"), fieldpath.MakePathOrDie("kind"),
	fieldpath.MakePathOrDie("metadata", "name"), fieldpath.MakePathOrDie("metadata", "namespace"))

// Typed returns a literal by its type's schema. A literal that does not fit the schema, with an item twice in a list that has keys, is a
// mistake in the spec: the API server would refuse it with an internal error.
func (c *Comparer) Typed(fields map[string]any) (*typed.TypedValue, error) {
	obj := &unstructured.Unstructured{Object: fields}
	value, err := c.converter.ObjectToTyped(obj)
	if err != nil {
		return nil, reconciler.Stalled(appv1.ReasonInvalid, messageCannotApply, obj.GetKind(), obj.GetName(), message.Quote(err.Error()))
	}
	return value, nil
}

// typedWithDuplicates returns a live object by its type's schema. The list of a live object may have an item twice: a plain create lets it
// pass.
func (c *Comparer) typedWithDuplicates(live runtime.Object) (*typed.TypedValue, error) {
	value, err := c.converter.ObjectToTyped(live, typed.AllowDuplicates)
	if err != nil {
		return nil, fmt.Errorf("live object: %w", err)
	}
	return value, nil
}

// TypedLive returns a live object of a kind by its type's schema, without the fields that no apply request states.
func (c *Comparer) TypedLive(gvk schema.GroupVersionKind, live client.Object) (*typed.TypedValue, error) {
	stated, err := Literal(live)
	if err != nil {
		return nil, err
	}
	return c.TypedFields(gvk, stated)
}

// TypedFields is TypedLive for the fields of a live object.
func (c *Comparer) TypedFields(gvk schema.GroupVersionKind, live map[string]any) (*typed.TypedValue, error) {
	live["apiVersion"], live["kind"] = gvk.GroupVersion().String(), gvk.Kind
	return c.typedWithDuplicates(&unstructured.Unstructured{Object: live})
}

// Stated returns the fields that a literal states, as a manager owns them after an apply of the literal.
func (c *Comparer) Stated(literal map[string]any) (*fieldpath.Set, error) {
	value, err := c.Typed(literal)
	if err != nil {
		return nil, err
	}
	set, err := value.ToFieldSet()
	if err != nil {
		return nil, fmt.Errorf("desired object: %w", err)
	}
	return set.Difference(unowned), nil
}
