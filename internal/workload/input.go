package workload

import (
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appv1 "huolala.cn/app-operator/api/v1"
	"huolala.cn/app-operator/api/v1/validation"
	"huolala.cn/app-operator/internal/content"
	"huolala.cn/app-operator/internal/reconciler"
	"huolala.cn/app-operator/resource"
)

// Input is the input of the reconcile of one workload. The kind makes it once, and nothing writes to it afterwards.
type Input struct {
	// Owner is the custom resource, Kind its kind, and Name the name of the workload object.
	Owner client.Object
	Kind  resource.Kind
	Name  string
	// Tier is the component of a CloudManager, empty for other kinds.
	Tier resource.Tier
	// Spec is the spec of the workload, and Errs its errors, both with Defaults. Undecodable is the reason why the spec cannot be decoded, nil otherwise;
	// with a reason, Spec is empty.
	Spec        resource.Spec
	Errs        field.ErrorList
	Undecodable error
	// Defaults are the defaults that Spec, Errs and Around have, and disabled the features that are switched off.
	Defaults resource.DefaultsRecord
	disabled []string
	// Around is the valid part of the spec's fields for auxiliary objects, nil for a kind without such fields.
	Around *appv1.ServingSpec
	// wave is the wave in which the workload takes the present defaults now, the zero value for none. awaitsWave is true where a wave brings
	// them later.
	wave       resource.Wave
	awaitsWave bool
	// MustWait is true where the spec of a tier may not be applied yet, for a reason that package tiers reports. Paused is true where the user
	// wants no write.
	MustWait, Paused bool
	// Before is the status as the last reconcile has reported it. Existed is true for a workload whose objects existed whatever Before has.
	Before  Status
	Existed bool
	// KeepsRendering is true where the status keeps the rendering of a workload object that is missing.
	KeepsRendering bool
	// Former are the objects of a tier's earlier names, which stay until the tier replaces them.
	Former []client.Object
}

// Status is the part of a custom resource's status about one workload. All but Workload are empty for a kind without these fields.
type Status struct {
	Workload appv1.WorkloadStatus
	Serving  appv1.ServingStatus
	History  appv1.HistoryStatus
	Release  appv1.ReleaseStatus
	Defaults appv1.DefaultsStatus
}

// NewServedInput returns the input of a resource whose kind has auxiliary objects. Of these, blocks that are disabled are errors of the
// spec, and blocks that are valid by themselves are applied in spite of other errors.
func NewServedInput(k resource.Kind, owner client.Object, spec resource.Spec, paused bool, undecodable error, disabled []string, before Status) *Input {
	at := field.NewPath("spec")
	errs := append(spec.Validate(), validation.DisabledFeatures(spec.Serving(), disabled, at)...)
	errs = append(errs, validation.DisabledReleases(spec.Release(), disabled, at)...)
	return &Input{
		Owner: owner, Kind: k, Name: owner.GetName(), Spec: spec, Errs: errs, Undecodable: undecodable,
		Around: validation.ValidServing(spec.Serving(), errs, at), Paused: paused, Before: before, disabled: disabled,
	}
}

// withDefaults returns the input with other defaults.
func (in *Input) withDefaults(record resource.DefaultsRecord) *Input {
	if record == in.Defaults || !in.Kind.Serves || in.Undecodable != nil {
		return in
	}
	made := NewServedInput(in.Kind, in.Owner, in.Spec.WithDefaults(record), in.Paused, nil, in.disabled, in.Before)
	with := *in
	with.Spec, with.Errs, with.Around, with.Defaults = made.Spec, made.Errs, made.Around, record
	return &with
}

// isValid reports whether the spec can be decoded and breaks no rule.
func (in *Input) isValid() bool { return in.Undecodable == nil && len(in.Errs) == 0 }

// fieldManager returns the field manager of the workload's objects.
func (in *Input) fieldManager() string { return in.Kind.FieldManager() }

// isDatabase reports whether the workload keeps data: its workload object is a StatefulSet.
func (in *Input) isDatabase() bool { return in.Tier == resource.TierDatabase }

// objectKind returns the kind of the workload object.
func (in *Input) objectKind() string {
	if in.isDatabase() {
		return "StatefulSet"
	}
	return "Deployment"
}

// Key returns the key of the workload in the memory of the operator.
func (in *Input) Key() Key {
	return Key{Manager: in.fieldManager(), Owner: client.ObjectKeyFromObject(in.Owner), Workload: in.Name}
}

// contentOwner returns the key of the resource in the watch of content.
func (in *Input) contentOwner() content.Owner {
	return content.Owner{Kind: in.Kind.Name, NamespacedName: client.ObjectKeyFromObject(in.Owner)}
}

// followsContent reports whether the pods are replaced when the content changes that they use.
func (in *Input) followsContent() bool {
	return in.Kind.Serves && in.Around != nil && in.Around.ConfigRollout == appv1.ConfigRolloutOnChange
}

// wantsAutoscaler reports whether the spec asks for an autoscaler.
func (in *Input) wantsAutoscaler() bool { return in.Around != nil && in.Around.Autoscaling != nil }

// adoptsObjects reports whether the owner takes over objects without a controller.
func (in *Input) adoptsObjects() bool {
	return in.Owner.GetAnnotations()[appv1.AnnotationAdopt] == "true" || in.adoptsWithoutRestart()
}

// adoptsWithoutRestart reports whether the owner adopts a Deployment without stating the pod template. Kinds without a history do not
// have that value of the annotation.
func (in *Input) adoptsWithoutRestart() bool {
	return in.Kind.Holds && in.Owner.GetAnnotations()[appv1.AnnotationAdopt] == appv1.AdoptWithoutRestart
}

// mayOwn reports whether an object with the name of an object of the owner may be the owner's, or become it: it has no controller,
// and it is to be adopted or was applied by the operator and has lost its owner reference since. The engine decides.
func (in *Input) mayOwn(obj client.Object) bool {
	_, applied := obj.GetAnnotations()[appv1.AnnotationLastAppliedHash]
	return metav1.GetControllerOf(obj) == nil && (applied || in.adoptsObjects())
}

// tutorialRecord returns the record of the spec that the operator of a tutorial left on an App, and whether there is one.
func (in *Input) tutorialRecord() (record string, ok bool) {
	if in.Kind.Name == resource.KindApp.Name {
		record, ok = in.Owner.GetAnnotations()[appv1.AnnotationTutorialSpec]
	}
	return record, ok
}

// existedBefore reports whether the owner was reconciled before, so that a missing child may have existed.
func (in *Input) existedBefore() bool {
	owner, ok := in.Owner.(reconciler.Resource)
	return in.Existed || ok && owner.CommonStatus().ObservedGeneration > 0 && (in.Tier == "" || in.Before.Workload.Rendering != 0)
}

// isNewSpec reports whether the status is about an earlier generation of the owner.
func (in *Input) isNewSpec() bool {
	owner, ok := in.Owner.(reconciler.Resource)
	return ok && owner.CommonStatus().ObservedGeneration < owner.GetGeneration()
}

// HadWorkload reports whether, by the status, there was a workload object before.
func (in *Input) HadWorkload() bool {
	return in.Before.Workload.Selector != "" || in.Before.Workload.Rendering != 0
}

// overriddenMessage returns the message of the condition Applied about fields that are not kept, from the owner's status, which only the
// operator writes.
func (in *Input) overriddenMessage() string {
	owner, ok := in.Owner.(reconciler.Resource)
	if !ok {
		return ""
	}
	c := meta.FindStatusCondition(owner.CommonStatus().Conditions, appv1.ConditionApplied)
	if c == nil || c.Reason != appv1.ReasonOverridden {
		return ""
	}
	return c.Message
}
