package webhooks

import (
	"context"
	"maps"
	"reflect"
	"slices"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	appv1 "huolala.cn/app-operator/api/v1"
	"huolala.cn/app-operator/api/v1/validation"
	"huolala.cn/app-operator/internal/children"
	"huolala.cn/app-operator/resource"
)

// validator rejects a resource that breaks a rule, and warns of a resource that will not work as intended.
type validator[T client.Object] struct {
	*validators
	kind string
	// spec returns the spec of a resource.
	spec func(T) any
	// empty returns an empty stored resource.
	empty func() storedResource[T]
	// review checks a resource by itself, and builds its workloads.
	review func(ctx context.Context, who *asker, obj T) review
	// neighbours warns of other objects, by the reviews of the new and of the old resource; old is nil for a new resource. It may be nil.
	neighbours func(ctx context.Context, who *asker, obj, old T, now, before *review) []string
}

// review is the result of the check of a resource by itself.
type review struct {
	// errors reject the resource; warnings do not.
	errors   field.ErrorList
	warnings []string
	// pending are the errors that the resource has with the present AppDefaults alone. Other AppDefaults may come in the same sync, so these
	// errors are warnings.
	pending field.ErrorList
	// specs are the specs of the resource's workloads, workloads the workloads that are built of the specs, and children the objects of the workloads.
	specs     []resource.Spec
	workloads []*resource.Workload
	children  []child
	// objects are the planned objects of a resource that has no workload objects.
	objects []resource.Object
	// with has the fields of an App or ModelBox with the present defaults, nil for other kinds.
	with *validation.Effective
	// paused is true where nothing is written for now.
	paused bool
}

// plannedObjects returns the objects that the plan of a creation has.
func (r *review) plannedObjects() []resource.Object {
	if r.objects != nil {
		return r.objects
	}
	var planned []resource.Object
	for _, w := range r.workloads {
		planned = append(planned, w.Objects()...)
	}
	return planned
}

// child is an object of a resource, the field with the object's name, and the object's workload.
type child struct {
	name     *field.Path
	object   client.Object
	workload *resource.Workload
}

// isSame reports whether two children are one and the same object.
func (c child) isSame(other child) bool {
	return reflect.TypeOf(c.object) == reflect.TypeOf(other.object) && c.object.GetName() == other.object.GetName()
}

// ValidateCreate looks at a new resource.
func (v *validator[T]) ValidateCreate(ctx context.Context, obj T) (admission.Warnings, error) {
	var none T
	return v.validateSpec(ctx, v.askerOf(ctx, obj, nil), obj, none, func() review { return review{} })
}

// ValidateUpdate looks at a change. What leaves the spec as it was passes: a resource that was once stored can
// always be labelled, annotated and let go of, whatever the rules are by now.
func (v *validator[T]) ValidateUpdate(ctx context.Context, old, obj T) (admission.Warnings, error) {
	switch {
	case obj.GetDeletionTimestamp() != nil:
		return nil, nil
	case equality.Semantic.DeepEqual(v.spec(old), v.spec(obj)):
		if maps.Equal(old.GetAnnotations(), obj.GetAnnotations()) {
			return nil, nil
		}
		who := v.askerOf(ctx, obj, old)
		found := v.review(ctx, who, obj)
		return slices.Concat(validation.AnnotationWarnings(obj), canarySteps(obj, old), v.warnAdoptions(ctx, who, obj, &found)), nil
	}
	who := v.askerOf(ctx, obj, old)
	return v.validateSpec(ctx, who, obj, old, sync.OnceValue(func() review { return v.review(ctx, who, old) }))
}

// validateSpec checks a resource with a new spec. previous returns the review of the previous spec: the errors that this spec has too only warn,
// and its children are not read again, as they exist already, or the status has the obstacle. A computation ends within bounds, and does not
// begin for a request whose client has left.
func (v *validator[T]) validateSpec(ctx context.Context, who *asker, obj, old T, previous func() review) (admission.Warnings, error) {
	if ctx.Err() != nil {
		return admission.Warnings{messageNotReviewed}, nil //nolint:nilerr // A warning says so.
	}
	found := v.review(ctx, who, obj)
	if len(found.errors) > 0 && (tooMany(found.errors) || len(without(found.errors, previous().errors)) > 0) {
		return nil, apierrors.NewInvalid(appv1.GroupVersion.WithKind(v.kind).GroupKind(), obj.GetName(), validation.List(slices.Concat(found.errors, found.pending)))
	}
	if before := previous(); len(found.pending) > 0 && keepsPods(&found, &before) {
		found.pending = without(found.pending, before.pending)
	}
	found.warnings = slices.Concat(warnOf(found.errors, messageInvalidBefore), warnOf(found.pending, messagePending), found.warnings)
	if ctx.Err() != nil {
		return found.warnings, nil //nolint:nilerr // Nobody waits for the rest.
	}
	before := previous()
	wanted := slices.DeleteFunc(slices.Clone(found.children), func(c child) bool { return slices.ContainsFunc(before.children, c.isSame) })
	said := slices.Concat(found.warnings, v.warnTaken(ctx, who, obj, wanted), v.warnAdoptions(ctx, who, obj, &found))
	if v.neighbours != nil {
		said = append(said, v.neighbours(ctx, who, obj, old, &found, &before)...)
	}
	return append(said, v.podSecurity(ctx, who, obj.GetNamespace(), found.workloads)...), nil
}

// tooMany reports whether a spec has so many errors that its workloads are not built.
func tooMany(errs field.ErrorList) bool { return len(errs) > validation.MaxErrors }

// reviewServed reviews a resource that is one Deployment with auxiliary objects, all of the resource's name. container is the name of the main container
// of a spec that states none, and warn returns the warnings of the resource's kind.
func (s *validators) reviewServed(
	ctx context.Context, who *asker, obj client.Object, spec resource.Spec, container string, warn func(*validation.Effective) []string,
) review {
	seen := s.newOptions(ctx, who, obj.GetNamespace(), spec)
	defaulted := spec.WithDefaults(seen.Inputs.Defaults)
	with := &validation.Effective{Workload: defaulted.Workload(), Serving: defaulted.Serving(), Unknown: seen.Sizes == nil}
	errs := s.addDisabled(spec.Serving(), spec.Release(), spec.Validate())
	if tooMany(errs) {
		if with.Unknown {
			cured := spec.WithDefaults(withCuringDefaults(seen, spec, container).Inputs.Defaults)
			return crowdedReview(with, errs, s.addDisabled(cured.Serving(), cured.Release(), cured.Validate()))
		}
		if tooMany(defaulted.Validate()) {
			return review{errors: errs, with: with}
		}
	}
	built := buildWithDefaults(seen, spec, container, func(with resource.BuildOptions) (*resource.Workload, field.ErrorList) {
		if with.Inputs.Defaults != "" {
			return s.buildServed(spec, with)
		}
		w, wrong := spec.Build(with) // The errors of the stated fields are known.
		return w, slices.Concat(errs, wrong)
	})
	said := warn(with)
	if !with.Unknown {
		said = append(said, s.contentWarnings(spec.Serving(), built.workload)...)
	}
	if built.unchecked {
		said = append(said, messageDefaultsUnknown)
	}
	return review{
		with:   with,
		errors: built.errors, pending: built.pending, warnings: said,
		specs: []resource.Spec{spec}, workloads: []*resource.Workload{built.workload},
		children: calledBy(field.NewPath("metadata", "name"), field.NewPath("spec"), built.workload, standardObjects(built.workload)...),
	}
}

// crowdedReview reviews a spec with so many errors that no workload is built, while the AppDefaults are not known. cured are the errors that the spec
// has with AppDefaults made for it.
func crowdedReview(with *validation.Effective, errs, cured field.ErrorList) review {
	if tooMany(cured) {
		return review{errors: errs, with: with}
	}
	return review{errors: without(errs, without(errs, cured)), warnings: []string{messageDefaultsUnknown}, with: with}
}

// buildServed builds the workload of a spec with the defaults of the inputs, and returns the errors of the spec with these defaults.
func (s *validators) buildServed(spec resource.Spec, seen resource.BuildOptions) (*resource.Workload, field.ErrorList) {
	with := spec.WithDefaults(seen.Inputs.Defaults)
	errs := s.addDisabled(with.Serving(), with.Release(), with.Validate())
	w, wrong := spec.Build(seen)
	return w, append(errs, wrong...)
}

// calledBy returns objects of a workload as children with the field of their name. That field is name, but spec.service.name for a Service
// that the spec names.
func calledBy(name, spec *field.Path, w *resource.Workload, objects ...client.Object) []child {
	var children []child
	for _, object := range objects {
		at := name
		if _, service := object.(*corev1.Service); service && w.ServiceName != w.Name && object.GetName() == w.ServiceName {
			at = spec.Child("service", "name")
		}
		children = append(children, child{at, object, w})
	}
	return children
}

// standardObjects returns the objects of a workload except for kinds that the cluster may lack: reading such an object from the cache would start a
// watch of its kind.
func standardObjects(w *resource.Workload) []client.Object {
	var objects []client.Object
	for _, obj := range w.Objects() {
		if !children.TypeOf(obj).Custom {
			objects = append(objects, obj)
		}
	}
	return objects
}
