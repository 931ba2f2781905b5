package apply

import (
	"maps"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"

	appv1 "huolala.cn/app-operator/api/v1"
	"huolala.cn/app-operator/internal/children"
	"huolala.cn/app-operator/internal/fields"
)

// Selectors of others find an object by its labels: a ServiceMonitor, or a dashboard. So an adoption changes no label that the owner
// does not state. The desired object leaves such a label out, and has a record of it in an annotation, by which each later reconcile
// leaves it out again, whatever becomes of the label.

// stateWanted states the object to apply: the desired object without the kept labels, with the record of these labels and with the hash.
func (p *objectPlan) stateWanted(req *Request, kept []string) error {
	wanted := p.object.Desired
	var err error
	if len(kept) > 0 {
		if wanted, err = withoutLabels(wanted, kept); err != nil {
			return err
		}
	}
	var unnamed types.UID
	if p.object.Retained {
		unnamed = req.Owner.GetUID()
	}
	if p.sum, err = hashObject(wanted, unnamed); err != nil {
		return err
	}
	p.fields = nil
	p.wanted, err = withAnnotation(wanted, appv1.AnnotationLastAppliedHash, p.sum)
	return err
}

// keepLabels leaves out of the applied object the labels that the live object has before its adoption. live may lack its labels: the cache
// does not have the labels of a foreign object.
func (p *objectPlan) keepLabels(req *Request, live client.Object) error {
	if !p.claim.takesOver() || metav1.IsControlledBy(live, req.Owner) {
		return nil
	}
	return p.stateWanted(req, foreignLabels(req, p.object, live))
}

// foreignLabels returns the labels that others have set on a live object, also to the values of the owner's defaults, sorted.
func foreignLabels(req *Request, object *Object, live client.Object) []string {
	var kept []string
	for _, key := range req.Policy.DefaultLabels {
		_, has := live.GetLabels()[key]
		if object.defaultsLabel(key) && has && !appliedLabel(live, key) {
			kept = append(kept, key)
		}
	}
	slices.Sort(kept)
	return kept
}

// defaultsLabel reports whether the object is to have a label that the owner does not state for it.
func (o *Object) defaultsLabel(key string) bool {
	_, sets := o.Desired.GetLabels()[key]
	_, stated := o.StatedLabels[key]
	return sets && !stated
}

// recordedLabels returns the labels of a live object that the record names, and that nothing of the operator's has set, sorted. A label that
// is gone counts if the record is the operator's: its owner has removed it. live may be nil.
func recordedLabels(req *Request, object *Object, live client.Object) []string {
	if live == nil {
		return nil
	}
	record := labelRecord(live)
	if len(record) == 0 {
		return nil
	}
	ours := children.OwnsAnnotation(live, req.Manager, appv1.AnnotationKeptLabels)
	var kept []string
	for _, key := range req.Policy.DefaultLabels {
		_, recorded := record[key]
		_, has := live.GetLabels()[key]
		if recorded && object.defaultsLabel(key) && (has || ours) && !appliedLabel(live, key) {
			kept = append(kept, key)
		}
	}
	slices.Sort(kept)
	return kept
}

// appliedLabel reports whether apply requests of the operator, for a resource of any kind, own a label of a live object.
func appliedLabel(live client.Object, key string) bool {
	path := fieldpath.MakePathOrDie("metadata", "labels", key)
	return slices.ContainsFunc(live.GetManagedFields(), func(entry metav1.ManagedFieldsEntry) bool {
		if !children.IsMark(entry) {
			return false
		}
		set := fields.DecodeManaged(entry)
		return set != nil && set.Has(path)
	})
}

// labelRecord returns the labels that the record on an object names, with the values that the operator would set; nil without one.
func labelRecord(obj client.Object) map[string]string {
	text := obj.GetAnnotations()[appv1.AnnotationKeptLabels]
	if text == "" {
		return nil
	}
	record := map[string]string{}
	for _, part := range strings.Split(text, ",") {
		if key, value, found := strings.Cut(part, "="); found {
			record[key] = value
		}
	}
	return record
}

// KeepsLabel reports whether the record on an object names a label: the object keeps the label of others.
func KeepsLabel(obj client.Object, key string) bool {
	_, kept := labelRecord(obj)[key]
	return kept
}

// OperatorLabel returns the value that the operator sets a label of a child to, also where the child keeps the label of others.
func OperatorLabel(obj client.Object, key string) string {
	if value, kept := labelRecord(obj)[key]; kept {
		return value
	}
	return obj.GetLabels()[key]
}

// withoutLabels returns a literal without some of its labels, which it records. All else is shared with the original.
func withoutLabels(obj client.Object, keys []string) (client.Object, error) {
	rest := maps.Clone(obj.GetLabels())
	record := make([]string, 0, len(keys))
	for _, key := range keys {
		record = append(record, key+"="+rest[key])
		delete(rest, key)
	}
	less, err := withAnnotation(obj, appv1.AnnotationKeptLabels, strings.Join(record, ","))
	if err != nil {
		return nil, err
	}
	less.SetLabels(rest)
	return less, nil
}
