package apply

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
	"sigs.k8s.io/structured-merge-diff/v6/typed"
	"sigs.k8s.io/structured-merge-diff/v6/value"

	appv1 "huolala.cn/app-operator/api/v1"
	"huolala.cn/app-operator/internal/message"
	"huolala.cn/app-operator/internal/reconciler"
)

// serverFields are the paths that a typed literal has and an apply request must not state. They are removed by name:
// dropping whatever is empty would drop an "emptyDir: {}" as well.
var serverFields = [][]string{
	{"status"},
	{"metadata", "managedFields"},
	{"metadata", "creationTimestamp"},
	{"spec", "template", "metadata", "creationTimestamp"},
}

// claimTemplates is a list that server-side apply takes as one unit, though the API server adds to its items: to each it
// adds itemFields, or not, as the encoding has it, so they count neither in what is wanted nor in what lives. A builder
// states all else that has a default: volumeMode.
var (
	claimTemplates = []string{"spec", "volumeClaimTemplates"}
	itemFields     = []string{"apiVersion", "kind", "status"}
)

// replicasPath is the field that an autoscaler may own. It does not count for the hash: that a user scales an object
// is no change of what is wanted.
var replicasPath = fieldpath.MakePathOrDie("spec", "replicas")

// dataPath is where a Secret has its values. Their names count for the hash, the values do not: it stands in an
// annotation, and would give a weak password away.
var dataPath = fieldpath.MakePathOrDie("data")

// literalValue returns the fields that a typed literal states.
func literalValue(obj client.Object) (map[string]any, error) {
	fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(obj)
	if err != nil {
		return nil, fmt.Errorf("convert %T: %w", obj, err)
	}
	for _, path := range serverFields {
		unstructured.RemoveNestedField(fields, path...)
	}
	removeTemplate(obj, fields)
	for _, item := range volumeClaimTemplates(fields) {
		template, _ := item.(map[string]any)
		for _, name := range itemFields {
			delete(template, name)
		}
	}
	return fields, nil
}

// volumeClaimTemplates returns the claim templates of a literal.
func volumeClaimTemplates(fields map[string]any) []any {
	// What is no list has none.
	value, _, _ := unstructured.NestedFieldNoCopy(fields, claimTemplates...)
	list, _ := value.([]any)
	return list
}

// hashObject returns the hash of a literal without the number of replicas and the values of a Secret. owner is who applies it,
// if the literal does not say so itself.
func hashObject(obj client.Object, owner types.UID) (string, error) {
	data, err := json.Marshal(hashedPart(obj))
	if err != nil {
		return "", fmt.Errorf("encode %T: %w", obj, err)
	}
	sum := sha256.Sum256(append(data, owner...))
	return hex.EncodeToString(sum[:16]), nil
}

// withAnnotation returns a literal that states one annotation more. All else is shared with the original.
func withAnnotation(obj client.Object, name, text string) (client.Object, error) {
	twin := reflect.New(reflect.TypeOf(obj).Elem())
	twin.Elem().Set(reflect.ValueOf(obj).Elem())
	more, ok := twin.Interface().(client.Object)
	if !ok {
		return nil, fmt.Errorf("%T is no API object", obj)
	}
	annotations := maps.Clone(obj.GetAnnotations())
	if annotations == nil {
		annotations = map[string]string{}
	}
	annotations[name] = text
	more.SetAnnotations(annotations)
	return more, nil
}

// applyBody returns the request body that states the fields, and preconditions in the metadata.
func applyBody(fields map[string]any, preconditions map[string]string) ([]byte, error) {
	for name, value := range preconditions {
		if err := unstructured.SetNestedField(fields, value, "metadata", name); err != nil {
			return nil, fmt.Errorf("set %s: %w", name, err)
		}
	}
	data, err := json.Marshal(fields)
	for name := range preconditions {
		unstructured.RemoveNestedField(fields, "metadata", name)
	}
	if err != nil {
		return nil, fmt.Errorf("encode: %w", err)
	}
	return escapeForYAML(data), nil
}

// escapeForYAML writes as escapes those characters of a JSON text that stand for themselves there and not in YAML, which refuses
// them or takes them for a line break (https://yaml.org/spec/1.1/#id868524): the API server reads an apply request as
// YAML. The other line breaks of Unicode are escaped by Go's encoder.
func escapeForYAML(data []byte) []byte {
	unprintable := func(r rune) bool { return r >= 0x7f && r < 0xa0 || r == 0xfeff || r == 0xfffe || r == 0xffff }
	if !bytes.ContainsFunc(data, unprintable) {
		return data
	}
	var escaped bytes.Buffer
	for _, r := range string(data) {
		if unprintable(r) {
			fmt.Fprintf(&escaped, `\u%04x`, r)
		} else {
			escaped.WriteRune(r)
		}
	}
	return escaped.Bytes()
}

// diffObject returns the fields in which a live object would change if a literal were applied, by the type's own schema:
// atomic lists and maps are compared whole, list-maps by key, all else as a part. It is empty if the literal holds.
func (e *Engine) diffObject(wanted, live client.Object) (*fieldpath.Set, error) {
	s, err := e.shapeOf(wanted.GetObjectKind().GroupVersionKind())
	if err != nil {
		return nil, err
	}
	if s.matchesLive(wanted, live) {
		return &fieldpath.Set{}, nil
	}
	fields, err := literalValue(wanted)
	if err != nil {
		return nil, err
	}
	return e.mergeFields(fields, live)
}

// mergeFields returns the difference by merging the two and comparing the result with the live object.
func (e *Engine) mergeFields(fields map[string]any, live client.Object) (*fieldpath.Set, error) {
	wanted, err := e.toTyped(fields)
	if err != nil {
		return nil, err
	}
	var found runtime.Object = live
	if live.GetObjectKind().GroupVersionKind().Empty() || len(volumeClaimTemplates(fields)) > 0 {
		stated, err := literalValue(live)
		if err != nil {
			return nil, err
		}
		// Other than one of the cache, an object that was read from the API server does not say what it is.
		stated["apiVersion"], stated["kind"] = fields["apiVersion"], fields["kind"]
		found = &unstructured.Unstructured{Object: stated}
	}
	// What lives may hold duplicates that a plain create lets through.
	actual, err := e.converter.ObjectToTyped(found, typed.AllowDuplicates)
	if err != nil {
		return nil, fmt.Errorf("live object: %w", err)
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

// orderPath stands for a difference in nothing but the order of a list.
var orderPath = fieldpath.MakePathOrDie("spec")

// Matches reports whether a live object has all that a literal of its type states.
func (e *Engine) Matches(wanted, live client.Object) (bool, error) {
	diff, err := e.diffObject(wanted, live)
	return err == nil && diff.Empty(), err
}

// unowned are fields that a literal states and nobody owns.
var unowned = fieldpath.NewSet(fieldpath.MakePathOrDie("apiVersion"), fieldpath.MakePathOrDie("kind"),
	fieldpath.MakePathOrDie("metadata", "name"), fieldpath.MakePathOrDie("metadata", "namespace"))

// toTyped returns a literal by its type's schema. One that does not fit it, with an item twice in a list that has keys, is a
// mistake in the spec: the API server would refuse it with an internal error.
func (e *Engine) toTyped(fields map[string]any) (*typed.TypedValue, error) {
	obj := &unstructured.Unstructured{Object: fields}
	value, err := e.converter.ObjectToTyped(obj)
	if err != nil {
		return nil, reconciler.Stalled(appv1.ReasonInvalid, messageCannotApply, obj.GetKind(), obj.GetName(), message.Quote(err.Error()))
	}
	return value, nil
}

// statedFields returns the fields that the literal states and that a manager owns who applies it.
func (e *Engine) statedFields(p *plan) (*fieldpath.Set, error) {
	if err := p.ensureFields(); err != nil {
		return nil, err
	}
	literal, err := e.toTyped(p.fields)
	if err != nil {
		return nil, err
	}
	set, err := literal.ToFieldSet()
	if err != nil {
		return nil, fmt.Errorf("desired object: %w", err)
	}
	return set.Difference(unowned), nil
}

// foreignFields returns what of the fields, which are another manager's, is in the lists and in no item that is stated.
func foreignFields(fields, stated *fieldpath.Set, lists []fieldpath.Path) *fieldpath.Set {
	found := &fieldpath.Set{}
	for path := range fields.RecursiveDifference(stated).All() {
		for _, list := range lists {
			if len(path) > len(list) && path[:len(list)].Equals(list) {
				found.Insert(path.Copy())
			}
		}
	}
	return found
}

// ownsPath reports whether the manager's apply requests own the path.
func ownsPath(live client.Object, manager string, path fieldpath.Path) bool {
	return ownedFields(live, manager).Has(path)
}

// ownsAny reports whether the manager's apply requests own anything.
func ownsAny(live client.Object, manager string) bool {
	return slices.ContainsFunc(live.GetManagedFields(), func(entry metav1.ManagedFieldsEntry) bool {
		return ofApply(entry, manager) && entry.FieldsV1 != nil && len(entry.FieldsV1.GetRawString()) > len("{}")
	})
}

// ofApply reports whether an entry of managedFields is of the manager's apply requests.
func ofApply(entry metav1.ManagedFieldsEntry, manager string) bool {
	return entry.Manager == manager && entry.Operation == metav1.ManagedFieldsOperationApply && entry.Subresource == ""
}

// ownedFields returns the fields that the manager's apply requests own.
func ownedFields(live client.Object, manager string) *fieldpath.Set {
	fields := &fieldpath.Set{}
	for _, entry := range live.GetManagedFields() {
		if !ofApply(entry, manager) {
			continue
		}
		if set := managedSet(entry); set != nil {
			fields = fields.Union(set)
		}
	}
	return fields
}

// droppedByServer reports whether the fields in which a live object differs from what the manager has applied are all the manager's
// still. Any other writer would have become their owner, or left them without one: then it is the API server that did not
// keep them, which drops a field whose feature is switched off, and lets admission change what it likes.
func droppedByServer(diff *fieldpath.Set, live client.Object, manager string) bool {
	return !diff.Empty() && diff.Leaves().Difference(ownedFields(live, manager)).Empty()
}

// managedSet returns the fields of an entry of managedFields, nil for one that cannot be read.
func managedSet(entry metav1.ManagedFieldsEntry) *fieldpath.Set {
	if entry.FieldsV1 == nil {
		return nil
	}
	set := &fieldpath.Set{}
	if err := set.FromJSON(entry.FieldsV1.GetRawReader()); err != nil {
		return nil
	}
	return set
}

// setManaged states the fields of an entry of managedFields.
func setManaged(entry *metav1.ManagedFieldsEntry, set *fieldpath.Set) error {
	data, err := set.ToJSON()
	if err != nil {
		return fmt.Errorf("encode managed fields: %w", err)
	}
	entry.FieldsV1 = metav1.NewFieldsV1(string(data))
	return nil
}
