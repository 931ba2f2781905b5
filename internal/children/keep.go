package children

import (
	"context"
	"fmt"
	"reflect"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appv1 "huolala.cn/app-operator/api/v1"
	"huolala.cn/app-operator/internal/claim"
)

// partialAnnotation marks an object in the cache that may be a child of ours and is kept in part: it is read from the API server
// where all of it is needed. On a live object the annotation means nothing: a user who sets it has the object read more often.
const partialAnnotation = "app.huolala.cn/kept-in-part"

// Whole reports whether objects of the type can be kept whole, as child objects are.
func (t *Type) Whole() bool { return t.Role.Has(RoleChild) && t.Scope != ScopeLive }

// Keep changes an object to what the cache keeps of it: all that decisions can need if it is kept whole, and otherwise its identity, and
// of the rest no more than decisions on the objects of others need. That is less than 4 KiB, whatever the object has.
func (t *Type) Keep(obj client.Object, whole bool) {
	if whole && t.Whole() && !IsPartial(obj) {
		if t.Trim != nil {
			t.Trim(obj)
		}
		return
	}
	partial := t.Whole() && claimsOurs(obj)
	value := reflect.ValueOf(obj).Elem()
	to := reflect.New(value.Type())
	kept, ok := to.Interface().(client.Object)
	if !ok {
		return
	}
	kept.GetObjectKind().SetGroupVersionKind(obj.GetObjectKind().GroupVersionKind())
	keepIdentity(obj, kept, partial)
	cut := t.Reduce != nil && t.Reduce(obj, kept)
	if partial || cut {
		setAnnotation(kept, partialAnnotation, "true")
	}
	value.Set(to.Elem())
}

// IsPartial reports whether the cache keeps an object in part that may be a child of ours.
func IsPartial(obj client.Object) bool {
	_, partial := obj.GetAnnotations()[partialAnnotation]
	return partial
}

// claimsOurs reports whether the metadata of an object marks it as an object of the operator, now or earlier. The marks may be forged.
func claimsOurs(obj client.Object) bool {
	if claim.IsManaged(obj) || IsPartial(obj) {
		return true
	}
	annotations := obj.GetAnnotations()
	_, applied := annotations[appv1.AnnotationLastAppliedHash]
	_, retained := annotations[appv1.AnnotationRetainedFor]
	c := metav1.GetControllerOfNoCopy(obj)
	return applied || retained || c != nil && IsOfOurGroup(c)
}

// Fields of an object that is kept in part are cut to these lengths, in bytes. Where Kubernetes has a limit, ours is not below it.
const (
	maxKeptVersion  = 96
	maxKeptKind     = 63
	maxKeptName     = 253
	maxKeptUID      = 64
	maxKeptHash     = 64
	maxKeptManager  = 64
	maxKeptManagers = 3
	maxKeptSelector = 640
	maxKeptLabels   = 384
	maxKeptMessage  = 320
	// maxKeptProgress is for the message of the condition Progressing, which names the newest ReplicaSet. A name that is cut names none.
	maxKeptProgress = 120
	maxKeptClaim    = 3584
)

// keepIdentity copies the metadata that identifies an object and its controller.
func keepIdentity(from, to client.Object, claims bool) {
	to.SetName(from.GetName())
	to.SetNamespace(from.GetNamespace())
	to.SetUID(from.GetUID())
	to.SetResourceVersion(from.GetResourceVersion())
	to.SetGeneration(from.GetGeneration())
	to.SetDeletionTimestamp(from.GetDeletionTimestamp())
	to.SetOwnerReferences(keptOwners(from.GetOwnerReferences(), 1))
	if sum, ok := from.GetAnnotations()[appv1.AnnotationLastAppliedHash]; ok {
		setAnnotation(to, appv1.AnnotationLastAppliedHash, truncateText(sum, maxKeptHash))
	}
	to.SetManagedFields(keptMarks(from, claims))
	if claims {
		to.SetLabels(keptLabels(from.GetLabels(), appv1.LabelManagedBy, appv1.LabelInstance, appv1.LabelComponent))
	}
}

// keptOwners returns a number of owners, the controller first.
func keptOwners(all []metav1.OwnerReference, most int) []metav1.OwnerReference {
	var kept []metav1.OwnerReference
	add := func(ref *metav1.OwnerReference) {
		if len(kept) < most {
			kept = append(kept, metav1.OwnerReference{
				APIVersion: truncateText(ref.APIVersion, maxKeptVersion), Kind: truncateText(ref.Kind, maxKeptKind),
				Name: truncateText(ref.Name, maxKeptName), UID: truncateText(ref.UID, maxKeptUID),
				Controller: ref.Controller, BlockOwnerDeletion: ref.BlockOwnerDeletion,
			})
		}
	}
	controls := func(ref metav1.OwnerReference) bool { return ref.Controller != nil && *ref.Controller }
	controller := slices.IndexFunc(all, controls)
	if controller >= 0 {
		add(&all[controller])
	}
	for i := range all {
		if i != controller {
			add(&all[i])
		}
	}
	return kept
}

// keptMarks returns the marks of the operator's managers; see Marks. Of an object that may be ours they say, too, whether the manager
// owns the hash and the reference to the controller; see Observe of apply.Engine.
func keptMarks(from client.Object, claims bool) []metav1.ManagedFieldsEntry {
	marks := Marks(from.GetManagedFields())
	marks = slices.DeleteFunc(marks, func(entry metav1.ManagedFieldsEntry) bool { return len(entry.Manager) > maxKeptManager })
	slices.SortFunc(marks, func(a, b metav1.ManagedFieldsEntry) int { return compareManagers(&a, &b) })
	marks = slices.CompactFunc(marks, func(a, b metav1.ManagedFieldsEntry) bool { return a.Manager == b.Manager })
	marks = slices.Clone(marks[:min(len(marks), maxKeptManagers)])
	controller := metav1.GetControllerOfNoCopy(from)
	if !claims || controller == nil || !IsOfOurGroup(controller) || len(controller.UID) > maxKeptUID {
		return marks
	}
	for i := range marks {
		fields := ""
		if OwnsAnnotation(from, marks[i].Manager, appv1.AnnotationLastAppliedHash) {
			fields += `"f:annotations":{"f:` + appv1.AnnotationLastAppliedHash + `":{}},`
		}
		if OwnsReference(from, marks[i].Manager, controller.UID) {
			fields += fmt.Sprintf(`"f:ownerReferences":{"k:{\"uid\":\"%s\"}":{}},`, controller.UID)
		}
		if fields != "" {
			marks[i].FieldsType = "FieldsV1"
			marks[i].FieldsV1 = metav1.NewFieldsV1(`{"f:metadata":{` + fields[:len(fields)-1] + `}}`)
		}
	}
	return marks
}

func compareManagers(a, b *metav1.ManagedFieldsEntry) int {
	switch {
	case a.Manager < b.Manager:
		return -1
	case a.Manager > b.Manager:
		return 1
	}
	return 0
}

// keptLabels returns the labels with some keys, as far as they exist. A key of the operator and a value that the API server accepts are short.
func keptLabels(labels map[string]string, keys ...string) map[string]string {
	var kept map[string]string
	for _, key := range keys {
		if value, ok := labels[key]; ok && len(value) <= maxKeptKind {
			if kept == nil {
				kept = map[string]string{}
			}
			kept[key] = value
		}
	}
	return kept
}

func setAnnotation(obj client.Object, key, value string) {
	annotations := obj.GetAnnotations()
	if annotations == nil {
		annotations = map[string]string{}
	}
	annotations[key] = value
	obj.SetAnnotations(annotations)
}

// truncateText cuts a text to a length in bytes.
func truncateText[S ~string](text S, most int) S {
	if len(text) <= most {
		return text
	}
	return S([]byte(text[:most])) // A copy: the text itself is let go.
}

// maxWholeReads is how many objects that are kept in part one reconcile reads for its inventory. An owner has fewer children;
// further objects claim the owner falsely.
const maxWholeReads = 32

// ReadWhole replaces the objects that are kept in part by what the API server has of them, up to a number of reads, from the
// first object on; an object that is gone is left out. The objects keep their order.
func ReadWhole[T client.Object](ctx context.Context, live client.Reader, objects []T) ([]T, error) {
	kept, reads := make([]T, 0, len(objects)), 0
	for _, obj := range objects {
		if !IsPartial(obj) || reads == maxWholeReads {
			kept = append(kept, obj)
			continue
		}
		reads++
		whole, ok := reflect.New(reflect.TypeOf(obj).Elem()).Interface().(T)
		if !ok {
			return nil, fmt.Errorf("%T cannot be read", obj)
		}
		switch err := live.Get(ctx, client.ObjectKeyFromObject(obj), whole); {
		case apierrors.IsNotFound(err):
		case err != nil:
			return nil, fmt.Errorf("read %T %s: %w", obj, obj.GetName(), err)
		default:
			if row := TypeOf(whole); row.Trim != nil {
				row.Trim(whole)
			}
			kept = append(kept, whole)
		}
	}
	return kept, nil
}
