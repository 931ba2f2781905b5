package apply

import (
	"maps"
	"reflect"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"

	appv1 "huolala.cn/app-operator/api/v1"
	"huolala.cn/app-operator/internal/children"
	"huolala.cn/app-operator/internal/fields/fieldtest"
)

// defaultLabels are the labels that the operator sets to defaults.
var defaultLabels = []string{appv1.LabelComponent, appv1.LabelInstance, appv1.LabelName}

// labelled returns an object of a type with labels.
func labelled(t *testing.T, row *children.Type, labels map[string]string) client.Object {
	t.Helper()
	obj := row.Object.DeepCopyObject().(client.Object)
	gvk, err := apiutil.GVKForObject(obj, kinds())
	if err != nil {
		t.Fatal(err)
	}
	obj.GetObjectKind().SetGroupVersionKind(gvk)
	obj.SetName("web")
	obj.SetNamespace("default")
	obj.SetLabels(maps.Clone(labels))
	return obj
}

// TestAdoptionKeepsLabels takes over an object of each type, with each of the labels set by others, by the operator, or missing, and
// each of them stated by the owner or not. What is then applied again is the same.
func TestAdoptionKeepsLabels(t *testing.T) {
	theirs := fieldtest.Entry("kubectl", updateOp, "", `{"f:metadata":{"f:labels":{"f:app.kubernetes.io/component":{},"f:app.kubernetes.io/instance":{},"f:app.kubernetes.io/name":{}}}}`)
	former := theirs
	former.Manager, former.Operation = "app-operator/another", apply
	for _, row := range children.Types {
		if !row.Role.Has(children.RoleChild) {
			continue
		}
		for _, key := range defaultLabels {
			for name, c := range map[string]struct {
				value   string
				manager metav1.ManagedFieldsEntry
				stated  bool // For every object.
				alone   bool // For this object.
				kept    bool
			}{
				"set by others":                         {"theirs", theirs, false, false, true},
				"set by others, stated":                 {"theirs", theirs, true, false, false},
				"set by others, stated for this object": {"theirs", theirs, false, true, false},
				"set by others to the same":             {"ours", theirs, false, false, true},
				"missing":                               {"", theirs, false, false, false},
				"set by the operator of another":        {"theirs", former, false, false, false},
				"set by nobody who is known any more":   {"theirs", fieldtest.Entry("kubectl", updateOp, "", `{}`), false, false, true},
			} {
				want := map[string]string{appv1.LabelManagedBy: appv1.ManagedBy}
				for _, label := range defaultLabels {
					want[label] = "ours"
				}
				desired := labelled(t, &row, want)
				desired.SetOwnerReferences(controlledBy(owner))
				live := labelled(t, &row, map[string]string{"team": "a"})
				if c.value != "" {
					live.GetLabels()[key] = c.value
				}
				live.SetManagedFields([]metav1.ManagedFieldsEntry{c.manager})
				req := request(nil)
				req.Policy.Adopt, req.Policy.DefaultLabels = true, slices.Clone(defaultLabels)
				if c.stated {
					req.Policy.DefaultLabels = slices.DeleteFunc(req.Policy.DefaultLabels, func(label string) bool { return label == key })
				}
				child := Object{Desired: desired, Live: live}
				if c.alone {
					child.StatedLabels = map[string]string{key: "ours"}
				}
				p := objectPlan{subject: subject{object: &child, gvk: desired.GetObjectKind().GroupVersionKind(), self: "App.web"}, claim: ClaimTakenOver}
				if err := p.keepLabels(req, live); err != nil {
					t.Fatal(err)
				}
				if c.kept {
					delete(want, key)
				}
				if !maps.Equal(want, p.wanted.GetLabels()) {
					t.Errorf("%T, %s, %s: %v is applied, want %v", row.Object, key, name, p.wanted.GetLabels(), want)
				}
				if record := p.wanted.GetAnnotations()[appv1.AnnotationKeptLabels]; c.kept != (record == key+"=ours") || !c.kept && record != "" {
					t.Errorf("%T, %s, %s: the record is %q", row.Object, key, name, record)
				}
				sameAgain(t, &p, req, live, row.Object)
			}
		}
	}
}

// sameAgain checks that the object which an adoption leaves gives the same object to apply, also once others have changed what was kept.
func sameAgain(t *testing.T, p *objectPlan, req *Request, live client.Object, of client.Object) {
	t.Helper()
	adopted := live.DeepCopyObject().(client.Object)
	adopted.SetAnnotations(p.wanted.GetAnnotations())
	all := maps.Clone(live.GetLabels())
	maps.Copy(all, p.wanted.GetLabels())
	owned := ""
	for key := range p.wanted.GetLabels() {
		owned += `"f:` + key + `":{},`
	}
	adopted.SetManagedFields([]metav1.ManagedFieldsEntry{fieldtest.Entry("app-operator/app", apply, "", `{"f:metadata":{"f:labels":{`+owned[:len(owned)-1]+`}}}`)})
	for _, edit := range []func(){func() {}, func() {
		for key := range labelRecord(adopted) {
			all[key] = "edited"
		}
	}} {
		edit()
		adopted.SetLabels(all)
		later := objectPlan{subject: subject{object: &Object{Desired: p.object.Desired, Live: adopted}, gvk: p.gvk, self: p.self}}
		if err := later.stateWanted(req, recordedLabels(req, p.object, adopted)); err != nil {
			t.Fatal(err)
		}
		if later.sum != p.sum || !reflect.DeepEqual(later.wanted, p.wanted) {
			t.Errorf("%T: a later reconcile applies %v, not %v", of, later.wanted, p.wanted)
		}
	}
}

// TestRecordOfLabels reads records of kept labels that others have written.
func TestRecordOfLabels(t *testing.T) {
	desired := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{appv1.LabelName: "web", appv1.LabelManagedBy: appv1.ManagedBy}}}
	owned := fieldtest.Entry("app-operator/app", apply, "", `{"f:metadata":{"f:labels":{"f:app.kubernetes.io/name":{}}}}`)
	others := fieldtest.Entry("kubectl", updateOp, "", `{"f:metadata":{"f:labels":{"f:app.kubernetes.io/name":{}}}}`)
	for name, c := range map[string]struct {
		record  string
		labels  map[string]string
		manager metav1.ManagedFieldsEntry
		want    []string
	}{
		"none":                    {"", map[string]string{appv1.LabelName: "a"}, others, nil},
		"a label":                 {appv1.LabelName + "=web", map[string]string{appv1.LabelName: "a"}, others, []string{appv1.LabelName}},
		"a label of the operator": {appv1.LabelName + "=web", map[string]string{appv1.LabelName: "a"}, owned, nil},
		"a label that is gone":    {appv1.LabelName + "=web", nil, others, nil},
		"a label that its owner has removed": {
			appv1.LabelName + "=web", nil, fieldtest.Entry("app-operator/app", apply, "", `{"f:metadata":{"f:annotations":{"f:app.huolala.cn/kept-labels":{}}}}`), []string{appv1.LabelName},
		},
		"a label that is no default": {appv1.LabelManagedBy + "=x", map[string]string{appv1.LabelManagedBy: "a"}, others, nil},
		"no record":                  {",=,x,,", map[string]string{appv1.LabelName: "a"}, others, nil},
	} {
		live := &corev1.Service{ObjectMeta: metav1.ObjectMeta{
			Labels: c.labels, Annotations: map[string]string{appv1.AnnotationKeptLabels: c.record}, ManagedFields: []metav1.ManagedFieldsEntry{c.manager},
		}}
		req := &Request{Policy: Policy{DefaultLabels: defaultLabels}, Manager: "app-operator/app"}
		if got := recordedLabels(req, &Object{Desired: desired}, live); !slices.Equal(got, c.want) {
			t.Errorf("%s: %q are kept, want %q", name, got, c.want)
		}
	}
	kept := &corev1.Service{ObjectMeta: metav1.ObjectMeta{
		Labels:      map[string]string{appv1.LabelInstance: "main", appv1.LabelName: "n"},
		Annotations: map[string]string{appv1.AnnotationKeptLabels: appv1.LabelInstance + "=web"},
	}}
	if got := OperatorLabel(kept, appv1.LabelInstance) + " " + OperatorLabel(kept, appv1.LabelName); got != "web n" {
		t.Errorf("the operator's labels are %q", got)
	}
}
