package workload

import (
	"slices"

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

// builtSpec has the inputs that follow from the history of a workload object, the workload that the spec means with these inputs, and the
// errors of the spec.
type builtSpec struct {
	inputs   resource.BuildInputs
	workload *resource.Workload
	errs     field.ErrorList
	// liveChanged is true if the spec differs from the record on the live object of the operator's. specChanged is the same for the
	// object that has the inputs: the live object, or the canary of the present spec, which inCanary is true for.
	liveChanged, specChanged, inCanary bool
	// isToday is true if the inputs are the inputs of a new workload.
	isToday bool
	// content is the decision on the content that the pods use, the zero value where it is not followed.
	content contentDecision
}

// optionsFor returns the build options for inputs. The auxiliary objects are those of the present spec, with the defaults of the inputs.
func (c decider) optionsFor(inputs resource.BuildInputs) resource.BuildOptions {
	return c.seen.buildOptions(inputs, c.in.withDefaults(inputs.Defaults).Around)
}

// buildWorkload builds the workload of the present spec, and returns the errors of the spec.
func (c decider) buildWorkload(inputs resource.BuildInputs) (*resource.Workload, field.ErrorList) {
	in := c.in.withDefaults(inputs.Defaults)
	w, wrong := in.Spec.Build(c.seen.buildOptions(inputs, in.Around))
	errs := slices.Concat(in.Errs, wrong)
	if len(errs) == 0 || inputs.Defaults == "" {
		return w, errs
	}
	plain := inputs
	plain.Defaults = ""
	if _, own := c.buildWorkload(plain); len(own) == 0 {
		errs = resource.ExplainDefaults(errs)
	}
	return w, errs
}

// sizeWith returns the size that the present spec names together with defaults, by its present definition.
func (c decider) sizeWith(record string) resource.ResolvedSize {
	with := c.in
	if recorded, err := resource.DecodeInputs(record); err == nil {
		with = c.in.withDefaults(recorded.Defaults)
	}
	return c.seen.sizes.Resolve(with.Spec.Workload().Size)
}

// accountWith returns the account that the operator creates for the pods of the present spec together with recorded defaults.
func (c decider) accountWith(record string) string {
	recorded, err := resource.DecodeInputs(record)
	if err != nil { // The pods have no defaults.
		recorded = resource.BuildInputs{}
	}
	return c.accountOf(recorded.Defaults)
}

// accountOf returns the account that the operator creates for the pods of the present spec together with defaults.
func (c decider) accountOf(defaults resource.DefaultsRecord) string {
	return resource.AccountName(c.in.withDefaults(defaults).Around, c.in.Name)
}

// rebuildChosen returns chosen inputs with other inputs, and with the workload that the spec means with these.
func (c decider) rebuildChosen(chosen *builtSpec, inputs resource.BuildInputs) *builtSpec {
	next := *chosen
	next.inputs = inputs
	next.workload, next.errs = c.buildWorkload(inputs)
	if chosen.isToday {
		next.errs = append(next.errs, c.unknownDefaults()...)
	}
	return &next
}

// chooseInputs chooses the inputs by the history of the live workload object.
func (c decider) chooseInputs() (*builtSpec, error) {
	history, refresh := c.liveProvenance(), c.in.Owner.GetAnnotations()[appv1.AnnotationRefresh]
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
	chosen := &builtSpec{liveChanged: history.Ours && history.SpecChanged}
	if canary, ok := c.canaryHistory(); ok {
		history, chosen.inCanary = canary, true
	}
	chosen.specChanged = history.Ours && history.SpecChanged
	inputs, isToday := resource.ChooseInputs(history, refresh, c.seen.today, c.sizeWith(history.Inputs), c.accountWith(history.Inputs))
	inputs, joins := c.takeWave(inputs, chosen.specChanged)
	if isToday && !joins {
		inputs.Wave = c.waveToKeep(history, &inputs)
	}
	chosen.isToday = isToday || joins
	inputs.Kept = inputs.Kept && !c.replacesAdopted()
	first := c.rebuildChosen(chosen, inputs)
	keeps, err := c.keepsTemplate(history, first.workload)
	if err != nil || !keeps || inputs.Kept {
		return first, err
	}
	inputs.Kept = true
	return c.rebuildChosen(chosen, inputs), nil
}

// liveProvenance returns the provenance of the live workload object: who applied it, from which inputs and which spec.
func (c decider) liveProvenance() resource.Provenance {
	in, live := c.in, c.seen.Object
	switch {
	case live == nil:
		lost := c.seen.lostInputs()
		return resource.Provenance{Exists: lost != "", Ours: lost != "", Inputs: lost}
	case !c.seen.isOwned(in.Owner) && children.AppliedByOther(live, in.fieldManager()):
		// The records are about a spec and pods of another kind. An adoption replaces the pods, as it replaces foreign ones.
		return resource.Provenance{}
	}
	// Another writer may have removed each mark. For a resource without a workload so far, field ownership alone proves nothing.
	_, applied := live.GetAnnotations()[appv1.AnnotationLastAppliedHash]
	ours := applied || live.GetLabels()[appv1.LabelManagedBy] == appv1.ManagedBy || in.Before.Workload.Rendering > 0 && children.Applies(live, in.fieldManager())
	orphaned := ours && (metav1.GetControllerOf(live) == nil || in.adoptsObjects())
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
	if inputs, err := resource.DecodeInputs(h.Inputs); err == nil && h.Exists && h.Ours && c.knowsDefaults(&inputs) {
		// The only parts around the pods that shape them.
		h.SpecChanged = h.SpecChanged || in.reshapesPods(&inputs)
	}
	return h
}

// reshapesPods reports whether parts of the spec that are no part of the identity of the pods change the pods nevertheless: the account that
// the operator creates, and the defaults that the resource does without.
func (in *Input) reshapesPods(recorded *resource.BuildInputs) bool {
	with := in.withDefaults(recorded.Defaults)
	return recorded.ServiceAccount != resource.AccountName(with.Around, in.Name) || recorded.Defaults.OptsOut(in.Spec.Without())
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
	defaults, reliable, err := c.reliableDefaults(&recorded, func(in resource.BuildInputs) (*resource.Workload, error) {
		built, _ := c.buildWorkload(in)
		return built, nil
	})
	switch {
	case err != nil:
		return h, resource.ResolvedSize{}, err
	case !reliable && !h.SpecChanged:
		h.Inputs = ""
		return h, resource.ResolvedSize{}, nil
	case reliable:
		recorded.Defaults = defaults
		h.Inputs = recorded.Encode()
	}
	owned := children.OwnsAnnotation(live, c.in.fieldManager(), appv1.AnnotationLastAppliedInputs)
	if owned && (recorded.Size.Name == "" || h.SpecChanged) {
		return h, recorded.Size, nil
	}
	if !owned && children.Applies(live, c.in.fieldManager()) {
		// The record was edited by hand, perhaps together with the pod template.
		h.Inputs = ""
		return h, resource.ResolvedSize{}, nil
	}
	workload, _ := c.buildWorkload(recorded)
	template := c.seen.podTemplate()
	checked := resource.ReliableInputs(recorded, owned, &template, workload.Template.Spec.Containers[0].Name)
	if !owned {
		h.Inputs = ""
		return h, checked.Size, nil
	}
	holds, err := c.compare.RecordHolds(c.in.fieldManager(), templateOnly(workload.Template), templateOnly(template), live)
	if err == nil && !holds {
		checked.Size = resource.ResolvedSize{}
	}
	h.Inputs = checked.Encode()
	return h, checked.Size, err
}

// recoverInputs returns the history with the inputs of a workload object that the operator applied and whose record of inputs is lost: the
// inputs of the newest rendering that makes the live pod template, if any rendering does. While AppDefaults count, a template that none makes
// is kept. A size has no part in that: its definition may have
// changed since, and ChooseInputs adds what the spec names.
func (c decider) recoverInputs(h resource.Provenance, refresh string, size resource.ResolvedSize) (resource.Provenance, error) {
	if !h.Exists || !h.Ours || c.seen.Object == nil {
		return h, nil
	}
	if _, err := resource.DecodeInputs(h.Inputs); err == nil {
		return h, nil
	}
	live, most := c.seen.podTemplate(), -1
	// Not from today's on: an older release may have to keep a newer rendering.
	for _, inputs := range c.candidateInputs() {
		inputs.Refresh, inputs.Config = refresh, resource.ConfigOf(&live)
		if account := c.accountOf(inputs.Defaults); account == live.Spec.ServiceAccountName {
			inputs.ServiceAccount = account
		}
		workload, _ := c.buildWorkload(inputs)
		holds, err := c.compare.Matches(templateOnly(workload.Template), templateOnly(live))
		if err == nil && holds && c.mayHaveDefaults() { // A template without the defaults of before states less, and matches.
			holds, err = c.compare.StatesTemplate(c.in.fieldManager(), templateOnly(workload.Template), c.seen.Object)
		}
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
	if most < 0 && c.mayHaveDefaults() { // Former defaults may have made the pod template: it is kept.
		kept := c.seen.today
		kept.Refresh, kept.Kept = refresh, true
		h.Inputs = kept.Encode()
	}
	return h, nil
}

// mayHaveDefaults reports whether defaults may have made a live pod template whose record of inputs is lost: AppDefaults count now, or the status
// has defaults, as it does for pods that were built with any.
func (c decider) mayHaveDefaults() bool {
	return c.seen.today.Defaults != "" || c.seen.unknown != "" || c.in.Before.Defaults.Defaults != nil
}

// candidateInputs returns the inputs that may have made a live pod template: each rendering without defaults, and with the present ones.
func (c decider) candidateInputs() []resource.BuildInputs {
	var all []resource.BuildInputs
	for _, n := range resource.Renderings() {
		all = append(all, resource.BuildInputs{Rendering: n})
		if defaults := c.seen.today.Defaults; defaults != "" {
			all = append(all, resource.BuildInputs{Rendering: n, Defaults: defaults})
		}
	}
	return all
}

// templateOnly returns an object that states nothing but a pod template, of whatever kind that is.
func templateOnly(template corev1.PodTemplateSpec) *appsv1.Deployment {
	return &appsv1.Deployment{
		TypeMeta: metav1.TypeMeta{APIVersion: appsv1.SchemeGroupVersion.String(), Kind: "Deployment"},
		Spec:     appsv1.DeploymentSpec{Template: template},
	}
}

// inputsOf returns the recorded inputs of a live workload object.
func inputsOf(live client.Object) (resource.BuildInputs, error) {
	return resource.DecodeInputs(live.GetAnnotations()[appv1.AnnotationLastAppliedInputs])
}

// recordOf returns the record of the spec on a live workload object, empty if there is none.
func recordOf(live client.Object) string {
	return live.GetAnnotations()[appv1.AnnotationLastAppliedSpec]
}
