package controllers

import (
	"cmp"
	"context"
	"fmt"
	"reflect"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"huolala.cn/app-operator/api/plan"
	appv1 "huolala.cn/app-operator/api/v1"
	"huolala.cn/app-operator/api/v1/validation"
	"huolala.cn/app-operator/internal/message"
	"huolala.cn/app-operator/internal/stored"
	"huolala.cn/app-operator/resource"
)

// maxPlannedApps is how many resources a plan of AppDefaults looks at.
const maxPlannedApps = 1000

// defaultsPlan is a plan of AppDefaults that is being made.
type defaultsPlan struct {
	*plan.Defaults
	deps *Deps
	// of is the namespace of the AppDefaults, spec their new spec, and present the defaults by namespace.
	of      string
	spec    *appv1.AppDefaultsSpec
	present map[string]*resource.PresentDefaults
}

// PlanDefaults returns what AppDefaults of a namespace would change if every resource took them at once. It reads the cache alone, and looks
// at the first resources until the context ends.
func (p *Planner) PlanDefaults(ctx context.Context, namespace string, spec *appv1.AppDefaultsSpec) (*plan.Defaults, error) {
	made := defaultsPlan{
		Defaults: &plan.Defaults{Added: map[string]int{}, Changed: map[string]int{}, Removed: map[string]int{}}, deps: &p.deps, of: namespace, spec: spec,
		present: map[string]*resource.PresentDefaults{},
	}
	_, rollout, err := p.deps.defaults.rolloutWith(ctx, namespace, spec)
	if err != nil {
		return nil, err
	}
	made.InWaves = rollout.IsWaves()
	for _, k := range allKinds() {
		if !k.Serves {
			continue
		}
		list := k.list()
		// The list is not changed.
		if err := p.deps.Client.List(ctx, list, p.deps.defaults.scopeOf(namespace), client.UnsafeDisableDeepCopy); err != nil {
			return nil, fmt.Errorf("list %s: %w", k.Plural, err)
		}
		items, err := meta.ExtractList(list)
		if err != nil {
			return nil, fmt.Errorf("list %s: %w", k.Plural, err)
		}
		made.Apps += len(items)
		for _, item := range items {
			if made.Looked < maxPlannedApps && ctx.Err() == nil {
				made.Looked += oneIf(made.addEffects(ctx, item))
			}
		}
	}
	return made.Defaults, nil
}

// addEffects adds the effects on one resource. It reports whether the resource could be looked at.
func (p *defaultsPlan) addEffects(ctx context.Context, item runtime.Object) bool {
	spec, obj := decodeServed(item)
	if spec == nil {
		return false
	}
	present := p.present[obj.GetNamespace()]
	if present == nil {
		read, err := p.deps.defaults.presentWith(ctx, obj.GetNamespace(), p.of, p.spec)
		if err != nil {
			return false
		}
		present = &read
		p.present[obj.GetNamespace()] = present
	}
	live := &appsv1.Deployment{}
	err := p.deps.Client.Get(ctx, client.ObjectKeyFromObject(obj), live, client.DisableReadYourWritesConsistency)
	if client.IgnoreNotFound(err) != nil {
		return false
	}
	live = cmp.Or(ownDeployment(live, obj), &appsv1.Deployment{}) // The pods of another one belong to others.
	used, err := resource.DecodeInputs(live.Annotations[appv1.AnnotationLastAppliedInputs])
	if err != nil {
		used = p.deps.Today
	}
	next := used
	next.Defaults, next.Kept = resource.TakeDefaults(present, spec), false
	with := spec.WithDefaults(next.Defaults)
	next.Size = present.Sizes.Resolve(with.Workload().Size)
	next.ServiceAccount = resource.AccountName(with.Serving(), obj.GetName())
	before, _ := spec.Build(resource.BuildOptions{Inputs: used, Unrecorded: true})
	after, errs := spec.Build(resource.BuildOptions{Inputs: next, Sizes: present.Sizes, Unrecorded: true})
	errs = slices.Concat(with.Validate(), validation.DisabledFeatures(with.Serving(), p.deps.Disabled, field.NewPath("spec")), errs)
	if len(errs) > 0 {
		p.addInvalid(obj, errs)
		return true
	}
	p.addChange(before, after, live.Status.Replicas)
	return true
}

// addInvalid adds a resource that would be invalid.
func (p *defaultsPlan) addInvalid(obj client.Object, errs field.ErrorList) {
	p.Invalid++
	if len(p.Examples) < plan.MaxExamples {
		p.Examples = append(p.Examples, fmt.Sprintf("%s/%s: %s", obj.GetNamespace(), obj.GetName(), message.Quote(validation.List(errs[:1])[0].Error())))
	}
}

// addChange adds what differs between two workloads of a resource with a number of pods.
func (p *defaultsPlan) addChange(before, after *resource.Workload, pods int32) {
	if !equality.Semantic.DeepEqual(before.Template, after.Template) {
		p.Templates++
		p.Pods += int(pods)
	}
	was, is := before.Objects(), after.Objects()
	for _, obj := range is {
		kind := obj.GetObjectKind().GroupVersionKind().Kind
		switch at := slices.IndexFunc(was, sameObject(obj)); {
		case at < 0:
			p.Added[kind]++
		case kind != "Deployment" && !equality.Semantic.DeepEqual(was[at], obj):
			p.Changed[kind]++
		}
	}
	for _, obj := range was {
		if !slices.ContainsFunc(is, sameObject(obj)) {
			p.Removed[obj.GetObjectKind().GroupVersionKind().Kind]++
		}
	}
}

// sameObject returns a function that reports whether an object has the type and the name of another.
func sameObject(obj resource.Object) func(resource.Object) bool {
	return func(other resource.Object) bool {
		return reflect.TypeOf(obj) == reflect.TypeOf(other) && obj.GetName() == other.GetName()
	}
}

// decodeServed decodes a stored resource whose kind takes defaults, nil for a resource that cannot be decoded.
func decodeServed(item runtime.Object) (resource.Spec, client.Object) {
	switch found := item.(type) {
	case *stored.App:
		if app, err := found.Decode(); err == nil {
			return resource.AppSpec(app), app
		}
	case *stored.ModelBox:
		if box, err := found.Decode(); err == nil {
			return resource.ModelBoxSpec(box), box
		}
	}
	return nil, nil
}
