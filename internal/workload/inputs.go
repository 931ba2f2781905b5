package workload

import (
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appv1 "huolala.cn/app-operator/api/v1"
	"huolala.cn/app-operator/internal/children"
	"huolala.cn/app-operator/resource"
)

// The inputs of a workload are what shapes its pods apart from its spec. They are recorded on the workload object, where other
// writers can change or remove the record; this file finds out what of the record counts.

// chosenInputs has the inputs that follow from the history of a workload object, the workload that the spec means with these inputs, and the
// errors of the spec.
type chosenInputs struct {
	inputs   resource.Inputs
	workload *resource.Workload
	errs     field.ErrorList
	// liveChanged is true if the spec differs from the record on the live object of the operator's. specChanged is the same for the
	// object that has the inputs: the live object, or the canary of the present spec, which inCanary is true for.
	liveChanged, specChanged, inCanary bool
}

// build builds the workload of the present spec, and returns the errors of the spec.
func (c decider) build(inputs resource.Inputs) (*resource.Workload, field.ErrorList) {
	w, wrong := c.in.Spec.Build(c.seen.options(inputs, c.in.Around))
	if len(wrong) == 0 {
		return w, c.in.Errs
	}
	return w, append(c.in.Errs[:len(c.in.Errs):len(c.in.Errs)], wrong...)
}

// rebuild returns chosen inputs with other inputs, and with the workload that the spec means with these.
func (c decider) rebuild(chosen *chosenInputs, inputs resource.Inputs) *chosenInputs {
	next := *chosen
	next.inputs = inputs
	next.workload, next.errs = c.build(inputs)
	return &next
}

// chooseInputs chooses the inputs by the history of the live workload object.
func (c decider) chooseInputs() (*chosenInputs, error) {
	history, refresh := c.historyOf(), c.in.Owner.GetAnnotations()[appv1.AnnotationRefresh]
	if kept, isKept := c.recoverKept(history, refresh); isKept {
		history = kept
	} else {
		checked, size, err := c.checkInputs(history)
		if err != nil {
			return nil, err
		}
		if history, err = c.recoverInputs(checked, refresh, size); err != nil {
			return nil, err
		}
	}
	chosen := &chosenInputs{liveChanged: history.Ours && history.SpecChanged}
	if canary, ok := c.canaryHistory(); ok {
		history, chosen.inCanary = canary, true
	}
	chosen.specChanged = history.Ours && history.SpecChanged
	inputs := resource.ChooseInputs(history, refresh, c.seen.today)
	inputs.Kept = inputs.Kept && !c.replacesAdopted()
	first := c.rebuild(chosen, inputs)
	keeps, err := c.keepsTemplate(history, first.workload)
	if err != nil || !keeps || inputs.Kept {
		return first, err
	}
	inputs.Kept = true
	return c.rebuild(chosen, inputs), nil
}

// historyOf returns the provenance of the live workload object: who applied it, from which inputs and which spec.
func (c decider) historyOf() resource.Provenance {
	in, live := c.in, c.seen.Object
	if live == nil {
		lost := c.seen.lostInputs()
		return resource.Provenance{Exists: lost != "", Ours: lost != "", Inputs: lost}
	}
	// Another writer may have removed each mark. For a resource without a workload so far, field ownership alone proves nothing.
	_, applied := live.GetAnnotations()[appv1.AnnotationLastAppliedHash]
	ours := applied || live.GetLabels()[appv1.LabelManagedBy] == appv1.ManagedBy || in.Before.Workload.Rendering > 0 && children.Applies(live, in.manager())
	orphaned := ours && (metav1.GetControllerOf(live) == nil || in.adopts())
	h := resource.Provenance{
		Exists: metav1.IsControlledBy(live, in.Owner) || orphaned,
		Ours:   ours,
		Inputs: live.GetAnnotations()[appv1.AnnotationLastAppliedInputs],
	}
	record, recorded := live.GetAnnotations()[appv1.AnnotationLastAppliedSpec]
	if !h.Ours {
		record, recorded = in.tutorialRecord()
	}
	if h.Exists && recorded {
		changed, err := in.Spec.Changed(record, resource.ScopePods)
		h.SpecChanged = err == nil && changed
	}
	if inputs, err := resource.DecodeInputs(h.Inputs); err == nil && h.Exists && h.Ours {
		// The only part around the pods that shapes them.
		h.SpecChanged = h.SpecChanged || inputs.ServiceAccount != resource.AccountName(in.Around, in.Name)
	}
	return h
}

// checkInputs returns the history without the unreliable parts of the recorded inputs, since other writers may have changed the
// object: all of it where another writer has written the record, and a size that is not what the pod template has. It also returns
// the size that is reliable nevertheless.
func (c decider) checkInputs(h resource.Provenance) (resource.Provenance, resource.ResolvedSize, error) {
	live := c.seen.Object
	recorded, err := resource.DecodeInputs(h.Inputs)
	if err != nil || !h.Exists || !h.Ours || live == nil {
		return h, resource.ResolvedSize{}, nil //nolint:nilerr // What cannot be read is recovered as if there were none.
	}
	owned := children.OwnsAnnotation(live, c.in.manager(), appv1.AnnotationLastAppliedInputs)
	if owned && (recorded.Size.Name == "" || h.SpecChanged) {
		return h, recorded.Size, nil
	}
	if !owned && children.Applies(live, c.in.manager()) {
		// The record was edited by hand, perhaps together with the pod template.
		h.Inputs = ""
		return h, resource.ResolvedSize{}, nil
	}
	workload, _ := c.build(recorded)
	template := c.seen.template()
	believed, rendering := resource.BelievableInputs(recorded, owned, &template, workload.Template.Spec.Containers[0].Name)
	if !rendering {
		h.Inputs = ""
		return h, believed.Size, nil
	}
	holds, err := c.compare.RecordHolds(c.in.manager(), templateOnly(workload.Template), templateOnly(template), live)
	if err == nil && !holds {
		believed.Size = resource.ResolvedSize{}
	}
	h.Inputs = believed.Encode()
	return h, believed.Size, err
}

// recoverInputs returns the history with the inputs of a workload object that the operator applied and whose record of inputs is lost: the
// inputs of the newest rendering that makes the live pod template, if any rendering does. A size has no part in that: its definition may have
// changed since, and ChooseInputs adds what the spec names.
func (c decider) recoverInputs(h resource.Provenance, refresh string, size resource.ResolvedSize) (resource.Provenance, error) {
	if !h.Exists || !h.Ours || c.seen.Object == nil {
		return h, nil
	}
	if _, err := resource.DecodeInputs(h.Inputs); err == nil {
		return h, nil
	}
	account, live := "", c.seen.template()
	if live.Spec.ServiceAccountName == c.seen.today.ServiceAccount {
		account = c.seen.today.ServiceAccount
	}
	most := -1
	// Not from today's on: an older release may have to keep a newer rendering.
	for _, n := range resource.Renderings() {
		inputs := resource.Inputs{
			Rendering: n, Refresh: refresh, ServiceAccount: account, Config: resource.ConfigOf(&live),
		}
		workload, _ := c.build(inputs)
		holds, err := c.compare.Matches(templateOnly(workload.Template), templateOnly(live))
		if err != nil {
			return h, err
		}
		// The template of one rendering may be a subset of another's, and both match. The rendering that states the most fields
		// made the live template.
		if stated := resource.TemplateSize(&workload.Template); holds && stated > most {
			inputs.Size = size
			h.Inputs, most = inputs.Encode(), stated
		}
	}
	return h, nil
}

// templateOnly returns an object that states nothing but a pod template, of whatever kind that is.
func templateOnly(template corev1.PodTemplateSpec) *appsv1.Deployment {
	return &appsv1.Deployment{
		TypeMeta: metav1.TypeMeta{APIVersion: appsv1.SchemeGroupVersion.String(), Kind: "Deployment"},
		Spec:     appsv1.DeploymentSpec{Template: template},
	}
}

// recordOf returns the record of the spec on a live workload object, empty if there is none.
func recordOf(live client.Object) string {
	return live.GetAnnotations()[appv1.AnnotationLastAppliedSpec]
}
