package apply

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"

	appv1 "huolala.cn/app-operator/api/v1"

	"huolala.cn/app-operator/internal/children"
)

// Observe returns what the owner controls and the manager has applied for it, as far as the cache holds its type. The objects are
// those of the cache, read only; objects that are kept there in part are read from the API server. An object that a user has created as a copy of a child, or has given to the owner, is not
// among them.
func (e *Engine) Observe(ctx context.Context, owner client.Object, manager string) (children.Inventory, error) {
	var found children.Inventory
	for i := range children.Types {
		row := &children.Types[i]
		if !row.Role.Has(children.RoleChild) || !row.Watched(e.disabled) {
			continue
		}
		list, err := e.newList(row)
		if err != nil {
			return nil, err
		}
		// An object that this process has written and the cache does not have yet is wanted, and a deleted one is not found again: a
		// list does not wait for either.
		if err := e.client.List(ctx, list, client.InNamespace(owner.GetNamespace()), client.UnsafeDisableDeepCopy,
			client.MatchingFields{children.IndexOwner: string(owner.GetUID())}); err != nil {
			return nil, fmt.Errorf("list children: %w", err)
		}
		from := len(found)
		if err := meta.EachListItem(list, func(item runtime.Object) error {
			if obj, ok := item.(client.Object); ok && appliedFor(obj, owner, manager) {
				found = append(found, obj)
			}
			return nil
		}); err != nil {
			return nil, fmt.Errorf("list children: %w", err)
		}
		slices.SortFunc(found[from:], func(a, b client.Object) int { return strings.Compare(a.GetName(), b.GetName()) })
	}
	if !slices.ContainsFunc(found, children.IsPartial) {
		return found, nil
	}
	// Most children have the owner's name, and most of those with another are not wanted: their identity is enough to delete them.
	slices.SortStableFunc(found, func(a, b client.Object) int { return nameRank(b, owner) - nameRank(a, owner) })
	whole, err := children.ReadWhole(ctx, e.live, found)
	whole = slices.DeleteFunc(whole, func(obj client.Object) bool {
		return !metav1.IsControlledBy(obj, owner) || !appliedFor(obj, owner, manager)
	})
	slices.SortStableFunc(whole, func(a, b client.Object) int {
		return cmp.Or(cmp.Compare(typeOrder(a), typeOrder(b)), cmp.Compare(a.GetName(), b.GetName()))
	})
	return whole, err
}

// typeOrder returns the number of the row of an object's type.
func typeOrder(obj client.Object) int {
	row := children.TypeOf(obj)
	return slices.IndexFunc(children.Types, func(t children.Type) bool { return t.Object == row.Object })
}

// nameRank returns 1 for an object with the name of its owner, 0 for any other.
func nameRank(obj, owner client.Object) int {
	if obj.GetName() == owner.GetName() {
		return 1
	}
	return 0
}

// appliedFor reports whether the manager has applied an object, and for the owner: a copy has no field owner of ours, and the
// child of another resource has its name in a label. The labels and annotations may be gone; then the manager still owns the reference
// to the owner.
func appliedFor(obj, owner client.Object, manager string) bool {
	return children.OwnsAnnotation(obj, manager, appv1.AnnotationLastAppliedHash) && OperatorLabel(obj, appv1.LabelInstance) == owner.GetName() ||
		children.OwnsReference(obj, manager, owner.GetUID())
}

// newList returns an empty list of a type's objects.
func (e *Engine) newList(row *children.Type) (client.ObjectList, error) {
	gvk, err := apiutil.GVKForObject(row.Object, e.client.Scheme())
	if err != nil {
		return nil, fmt.Errorf("type %T: %w", row.Object, err)
	}
	gvk.Kind += "List"
	obj, err := e.client.Scheme().New(gvk)
	if err != nil {
		return nil, fmt.Errorf("type %T: %w", row.Object, err)
	}
	list, ok := obj.(client.ObjectList)
	if !ok {
		return nil, fmt.Errorf("%T is not a list", obj)
	}
	return list, nil
}
