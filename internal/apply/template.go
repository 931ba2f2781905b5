package apply

import (
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
)

// A Deployment that is wanted without a container states no pod template: what is applied has no such field, so that no request can
// change the one that lives. Server-side apply removes what a manager owned and no longer states, so our manager must own nothing of
// the template before that. Once the template is stated again, it is taken over as that of a foreign object is.

var templateRoot = []fieldpath.Path{fieldpath.MakePathOrDie("spec", "template")}

// leavesTemplate reports whether a wanted object is a Deployment that states no pod template.
func leavesTemplate(wanted client.Object) bool {
	d, ok := wanted.(*appsv1.Deployment)
	return ok && len(d.Spec.Template.Spec.Containers) == 0
}

// removeTemplate removes the empty pod template from a literal that states none.
func removeTemplate(obj client.Object, fields map[string]any) {
	if leavesTemplate(obj) {
		unstructured.RemoveNestedField(fields, "spec", "template")
	}
}

// OwnsTemplate reports whether the manager's apply requests own anything of the pod template of a live object. As OwnsAnnotation, it
// looks for the name in the text of the managed fields; no other field of a Deployment has it.
func OwnsTemplate(live client.Object, manager string) bool {
	return ownsNamed(live, manager, `"f:template"`)
}

// movesTemplate reports whether the pod template of a Deployment of ours becomes that of our manager, or ceases to be.
func (p *plan) movesTemplate(req *Request) bool {
	if _, ok := p.wanted.(*appsv1.Deployment); !ok || !ownsAny(p.child.Live, req.Manager) {
		return false
	}
	return leavesTemplate(p.wanted) == OwnsTemplate(p.child.Live, req.Manager)
}

// leaveTemplate hands what our manager owns of a pod template that is not stated to HandoverManager, and returns the entries of the
// managed fields with that.
func (p *plan) leaveTemplate(t *transfer, ours *metav1.ManagedFieldsEntry, entries []metav1.ManagedFieldsEntry) ([]metav1.ManagedFieldsEntry, error) {
	if !leavesTemplate(p.wanted) {
		return entries, nil
	}
	left := allBelow(t.ours, templateRoot)
	if left.Empty() {
		return entries, nil
	}
	t.ours, t.theirs = t.ours.Difference(left), t.theirs.Union(left)
	heir := metav1.ManagedFieldsEntry{
		Manager: HandoverManager, Operation: metav1.ManagedFieldsOperationApply, APIVersion: ours.APIVersion, FieldsType: "FieldsV1",
	}
	at := slices.IndexFunc(entries, func(entry metav1.ManagedFieldsEntry) bool {
		return ofApply(entry, HandoverManager) && entry.APIVersion == ours.APIVersion
	})
	if at >= 0 {
		heir = entries[at]
		if has := managedSet(heir); has != nil {
			left = left.Union(has)
		}
		entries = slices.Delete(entries, at, at+1)
	}
	if err := setManaged(&heir, left); err != nil {
		return nil, err
	}
	return append(entries, heir), nil
}

// inheritedTemplate returns what HandoverManager owns of a pod template that is stated again.
func (p *plan) inheritedTemplate(entry metav1.ManagedFieldsEntry, set *fieldpath.Set) *fieldpath.Set {
	if entry.Manager != HandoverManager || leavesTemplate(p.wanted) {
		return &fieldpath.Set{}
	}
	return allBelow(set, templateRoot)
}
