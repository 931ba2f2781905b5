package apply

import (
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"

	"huolala.cn/app-operator/internal/fields"
)

// A Deployment that is wanted without a container states no pod template: the applied object has no such field, so that no request can
// change the live one. Server-side apply removes fields that a manager owned and no longer states, so our manager must own nothing of
// the template before that. A template that is stated again is taken over, as the template of a foreign object is.

var templateRoot = []fieldpath.Path{fieldpath.MakePathOrDie("spec", "template")}

// OwnsTemplate reports whether the manager's apply requests own anything of the pod template of a live object. As OwnsAnnotation, it
// looks for the name in the text of the managed fields; no other field of a Deployment has it.
func OwnsTemplate(live client.Object, manager string) bool {
	return fields.OwnsName(live, manager, `"f:template"`)
}

// movesTemplate reports whether the pod template of a Deployment of ours becomes the template of our manager, or ceases to be.
func (p *objectPlan) movesTemplate(req *Request) bool {
	if _, ok := p.wanted.(*appsv1.Deployment); !ok || !fields.OwnsAny(p.live, req.Manager) {
		return false
	}
	return fields.LeavesTemplate(p.wanted) == OwnsTemplate(p.live, req.Manager)
}

// leaveTemplate hands what our manager owns of a pod template that is not stated to HandoverManager, and returns the entries of the
// managed fields with that.
func (p *objectPlan) leaveTemplate(t *transfer, ours *metav1.ManagedFieldsEntry, entries []metav1.ManagedFieldsEntry) ([]metav1.ManagedFieldsEntry, error) {
	if !fields.LeavesTemplate(p.wanted) {
		return entries, nil
	}
	left := fields.SelectBelow(t.ours, templateRoot)
	if left.Empty() {
		return entries, nil
	}
	t.ours, t.theirs = t.ours.Difference(left), t.theirs.Union(left)
	heir := metav1.ManagedFieldsEntry{
		Manager: HandoverManager, Operation: metav1.ManagedFieldsOperationApply, APIVersion: ours.APIVersion, FieldsType: "FieldsV1",
	}
	at := slices.IndexFunc(entries, func(entry metav1.ManagedFieldsEntry) bool {
		return fields.IsApplyOf(entry, HandoverManager) && entry.APIVersion == ours.APIVersion
	})
	if at >= 0 {
		heir = entries[at]
		if has := fields.DecodeManaged(heir); has != nil {
			left = left.Union(has)
		}
		entries = slices.Delete(entries, at, at+1)
	}
	if err := fields.EncodeManaged(&heir, left); err != nil {
		return nil, err
	}
	return append(entries, heir), nil
}

// inheritedTemplate returns what HandoverManager owns of a pod template that is stated again.
func (p *objectPlan) inheritedTemplate(entry metav1.ManagedFieldsEntry, set *fieldpath.Set) *fieldpath.Set {
	if entry.Manager != HandoverManager || fields.LeavesTemplate(p.wanted) {
		return &fieldpath.Set{}
	}
	return fields.SelectBelow(set, templateRoot)
}
