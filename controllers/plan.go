package controllers

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"huolala.cn/app-operator/api/plan"
	appv1 "huolala.cn/app-operator/api/v1"
	"huolala.cn/app-operator/internal/apply"
	"huolala.cn/app-operator/internal/children"
	"huolala.cn/app-operator/internal/reconciler"
	"huolala.cn/app-operator/internal/workload"
	"huolala.cn/app-operator/resource"
)

// A plan is computed by the steps that reconcile a resource, with an engine that writes nothing. So the plan has the changes of a reconcile,
// whatever a reconcile does.

// Planner computes the effect of a change of a custom resource.
type Planner struct {
	deps  Deps
	kinds map[string]*kind
}

func newPlanner(s *Deps) *Planner {
	p := &Planner{deps: *s, kinds: map[string]*kind{}}
	for _, k := range allKinds() {
		p.kinds[k.Name] = &k
	}
	return p
}

// planFunc are the steps of a kind.
type planFunc func(context.Context, client.Object) (reconciler.Report, error)

// planSteps returns the steps of a kind as a planFunc.
func planSteps[T reconciler.Resource](steps reconciler.Steps[T]) planFunc {
	return func(ctx context.Context, obj client.Object) (reconciler.Report, error) {
		typed, ok := obj.(T)
		if !ok {
			return reconciler.Report{}, fmt.Errorf("%T is of another kind", obj)
		}
		return steps(ctx, typed, nil)
	}
}

// Plan returns the changes that a reconcile of the resource would make if the resource were not paused. Plan writes nothing.
func (p *Planner) Plan(ctx context.Context, kindName string, obj client.Object) (*plan.Plan, error) {
	k, ok := p.kinds[kindName]
	if !ok {
		return nil, fmt.Errorf("no kind %s", kindName)
	}
	return p.deps.planKind(ctx, k, obj)
}

// Apart reports whether the objects of a type are in a cache of their own, and not in the cache of the manager.
func (p *Planner) Apart(obj client.Object) bool { return p.deps.watched.isApart(children.TypeOf(obj)) }

// Adoptions returns the outcome for each object that a reconcile of the resource would take over if the resource were not paused, and the
// obstacles to objects. A StalledError prevents all adoptions that are missing. Adoptions writes nothing.
func (p *Planner) Adoptions(ctx context.Context, kindName string, obj client.Object) ([]apply.Outcome, error) {
	k, ok := p.kinds[kindName]
	if !ok {
		return nil, fmt.Errorf("no kind %s", kindName)
	}
	run, err := p.deps.dryRun(ctx, k, obj)
	if err != nil {
		return nil, err
	}
	return run.journal.Adoptions(), run.err
}

// Present returns the defaults and the sizes that count for the resources of a namespace, by the cache.
func (p *Planner) Present(ctx context.Context, namespace string) (resource.PresentDefaults, error) {
	return p.deps.defaults.Present(ctx, namespace)
}

// PresentWith is Present with another spec of the AppDefaults of the namespace.
func (p *Planner) PresentWith(ctx context.Context, namespace string, spec *appv1.AppDefaultsSpec) (resource.PresentDefaults, error) {
	return p.deps.defaults.presentWith(ctx, namespace, namespace, spec)
}

// Obstacle returns why an object of a kind that the cluster may lack, or that the manager may not list, cannot be created; nil if nothing
// is known to be in its way.
func (p *Planner) Obstacle(ctx context.Context, obj client.Object) error {
	return p.deps.ClusterKinds.Look(ctx, obj, obj.GetNamespace())
}

// planKind is Plan for a row of the table of kinds.
func (s *Deps) planKind(ctx context.Context, k *kind, obj client.Object) (*plan.Plan, error) {
	run, err := s.dryRun(ctx, k, obj)
	if err != nil {
		return nil, err
	}
	return s.planOf(ctx, k, obj, &run), nil
}

// planOf returns the plan of a dry run.
func (s *Deps) planOf(ctx context.Context, k *kind, obj client.Object, run *dryRun) *plan.Plan {
	made := &plan.Plan{
		Version: plan.Version, Kind: k.Name, Namespace: obj.GetNamespace(), Name: obj.GetName(), Paused: run.paused, Objects: []plan.Object{},
	}
	for _, found := range run.journal.Changed() {
		object := newPlanObject(&found)
		s.planCanary(ctx, &found, &object)
		if object.Pods != nil && object.Pods.Replaced {
			object.Pods.Kept = s.keptPods(ctx, obj, &found)
		}
		made.Objects = append(made.Objects, object)
		made.Incomplete = made.Incomplete || object.Unasked
	}
	report := &run.report
	switch {
	case run.err != nil && (ctx.Err() != nil || errors.Is(run.err, reconciler.ErrStale)):
		made.Incomplete = true
	case run.err != nil:
		reason, message := reconciler.ReasonAndMessageOf(run.err)
		made.Problem = &plan.Problem{Reason: reason, Message: message}
	case report.InForce == reconciler.Canary: // The objects say so.
	case report.InForce != reconciler.Present:
		made.Problem = &plan.Problem{Reason: report.Why.Reason, Message: report.Why.Message}
	}
	return made
}

// dryRun is the result of the steps of a kind that write nothing. journal has the outcomes of objects, err is the error of the steps, and
// paused is true if the resource is paused.
type dryRun struct {
	journal *workload.Journal
	report  reconciler.Report
	err     error
	paused  bool
}

// dryRun carries out the steps of a kind for a resource as if the resource were not paused. It writes nothing.
func (s *Deps) dryRun(ctx context.Context, k *kind, obj client.Object) (dryRun, error) {
	copied, ok := obj.DeepCopyObject().(client.Object)
	if !ok {
		return dryRun{}, fmt.Errorf("%T is no API object", obj)
	}
	paused := resumeResource(copied)
	dry := *s
	dry.Client, dry.Engine = apply.ReadOnly(s.Client), s.Engine.ReadOnly()
	dry.Records, dry.Content = s.Records.Foresee(), s.Content.Foresee()
	dry.Mode, dry.Journal, dry.PodCauses = apply.DryRun, &workload.Journal{}, nil
	held, release := s.answers.Hold(ctx)
	defer release()
	report, err := k.plan(&dry)(held, copied)
	return dryRun{journal: dry.Journal, report: report, err: err, paused: paused}, nil
}

// pausedField returns the field spec.paused of a resource; ok is false for a kind without the field.
func pausedField(obj client.Object) (paused reflect.Value, ok bool) {
	spec := reflect.Indirect(reflect.ValueOf(obj)).FieldByName("Spec")
	if !spec.IsValid() {
		return reflect.Value{}, false
	}
	paused = spec.FieldByName("Paused")
	return paused, paused.IsValid()
}

// isPaused reports whether a resource is paused.
func isPaused(obj client.Object) bool {
	paused, ok := pausedField(obj)
	return ok && paused.Bool()
}

// resumeResource has a resource not be paused, and reports whether it was.
func resumeResource(obj client.Object) bool {
	if !isPaused(obj) {
		return false
	}
	paused, _ := pausedField(obj)
	paused.SetBool(false)
	return true
}

// newPlanObject returns the planned change of one object.
func newPlanObject(found *apply.Outcome) plan.Object {
	o := plan.Object{
		Kind: found.Kind, Name: found.Name, Action: planActions[found.Action], TakenOver: found.TakenOver && found.Action != apply.Created,
		Unasked: found.Unasked,
	}
	if found.Err != nil {
		reason, message := reconciler.ReasonAndMessageOf(found.Err)
		o.Action, o.Problem = plan.Blocked, &plan.Problem{Reason: reason, Message: message}
		return o
	}
	for _, d := range found.Differences {
		o.Fields = append(o.Fields, plan.Field{Path: d.Path, Change: plan.FieldChange(d.How), From: d.From, To: d.To})
	}
	if !o.Unasked {
		o.Pods = newPlanPods(found)
		o.Rendering, o.Size, o.Defaults = inputSteps(found)
	}
	return o
}

// planCanary adds to the Deployment of a canary the number of stable pods, which a promotion replaces.
func (s *Deps) planCanary(ctx context.Context, found *apply.Outcome, object *plan.Object) {
	desired := found.Object.Desired
	if desired == nil || desired.GetLabels()[appv1.LabelCanary] == "" || object.Problem != nil {
		return
	}
	if object.Pods == nil { // None of its pods runs.
		object.Pods = &plan.Pods{}
	}
	object.Pods.Canary, object.Pods.Replaced, object.Pods.Missing = true, false, 0
	if object.Action == plan.Deleted || object.Action == plan.Changed {
		return
	}
	if canary, ok := desired.(*appsv1.Deployment); ok {
		object.Pods.Wanted = ptr.Deref(canary.Spec.Replicas, 1)
	}
	object.Pods.Running = 0
	stable := &appsv1.Deployment{}
	key := client.ObjectKey{Namespace: desired.GetNamespace(), Name: desired.GetLabels()[appv1.LabelCanary]}
	if err := s.Client.Get(ctx, key, stable, client.DisableReadYourWritesConsistency); err == nil {
		object.Pods.Running = ptr.Deref(stable.Spec.Replicas, 1)
	}
}

// planActions are what a plan calls the engine's actions. What would be repaired changes.
var planActions = map[apply.Action]plan.Action{
	apply.Created: plan.Created, apply.Configured: plan.Changed, apply.Repaired: plan.Changed, apply.Deleted: plan.Deleted,
	apply.Replaced: plan.Recreated, apply.Scaled: plan.Scaled,
}

// newPlanPods returns the planned change of the pods of an object, nil for an object without pods.
func newPlanPods(found *apply.Outcome) *plan.Pods {
	pods := &plan.Pods{}
	switch before := found.Before.(type) {
	case *appsv1.Deployment:
		pods.Running = before.Status.Replicas
		if found.Action == apply.Scaled { // The key of the plan is the wanted number: the present one follows later.
			pods.Running = ptr.Deref(before.Spec.Replicas, 1)
		}
	case *appsv1.StatefulSet:
		pods.Running = before.Status.Replicas
	}
	switch after := found.After.(type) {
	case nil:
		if pods.Running == 0 {
			return nil
		}
		if found.Action != apply.Deleted {
			pods.Wanted = pods.Running
		}
	case *appsv1.Deployment:
		pods.Wanted, pods.Missing = ptr.Deref(after.Spec.Replicas, 1), missingPods(after)
		if before, ok := found.Before.(*appsv1.Deployment); ok && found.Action != apply.Scaled {
			pods.Replaced = !after.Spec.Paused && pods.Running > 0 && pods.Wanted > 0 &&
				!equality.Semantic.DeepEqual(before.Spec.Template, after.Spec.Template)
		}
	case *appsv1.StatefulSet:
		pods.Wanted, pods.Missing = ptr.Deref(after.Spec.Replicas, 1), 1
		if before, ok := found.Before.(*appsv1.StatefulSet); ok {
			pods.Replaced = after.Spec.UpdateStrategy.Type != appsv1.OnDeleteStatefulSetStrategyType && pods.Running > 0 && pods.Wanted > 0 &&
				!equality.Semantic.DeepEqual(before.Spec.Template, after.Spec.Template)
		}
	default:
		return nil
	}
	if !pods.Replaced {
		pods.Missing = 0
	}
	return pods
}

// maxPlanSets is how many ReplicaSets a plan reads. A Deployment in a rollout has pods of two, rarely of more.
const maxPlanSets = 4

// keptPods returns how many pods of a Deployment have the planned template already: pods of an earlier revision, during a rollout that is
// taken back. Pods whose ReplicaSet cannot be read count as replaced.
func (s *Deps) keptPods(ctx context.Context, owner client.Object, found *apply.Outcome) int32 {
	before, ok := found.Before.(*appsv1.Deployment)
	after, changed := found.After.(*appsv1.Deployment)
	if !ok || !changed || before.Spec.Selector == nil || before.Status.Replicas == before.Status.UpdatedReplicas && before.Status.ObservedGeneration >= before.Generation {
		return 0 // All of them run the present template.
	}
	pods, err := workload.ListPods(ctx, s.Client, owner, before.Name, before.Spec.Selector.MatchLabels)
	if err != nil {
		return 0
	}
	running := map[string]int32{}
	for i := range pods {
		set := metav1.GetControllerOf(&pods[i])
		if set != nil && set.Kind == "ReplicaSet" && pods[i].DeletionTimestamp == nil {
			running[set.Name]++
		}
	}
	var kept int32
	for _, name := range slices.Sorted(maps.Keys(running))[:min(len(running), maxPlanSets)] {
		var set appsv1.ReplicaSet
		if err := s.Live.Get(ctx, client.ObjectKey{Namespace: before.Namespace, Name: name}, &set); err != nil || !metav1.IsControlledBy(&set, before) {
			continue
		}
		if equality.Semantic.DeepEqual(workload.TemplateOf(&set), &after.Spec.Template) {
			kept += running[name]
		}
	}
	return kept
}

// missingPods is how many pods of a Deployment may be missing while they are replaced, as its controller counts
// (k8s.io/kubernetes/pkg/controller/deployment/util).
func missingPods(d *appsv1.Deployment) int32 {
	wanted := ptr.Deref(d.Spec.Replicas, 1)
	update := d.Spec.Strategy.RollingUpdate
	if d.Spec.Strategy.Type == appsv1.RecreateDeploymentStrategyType || update == nil {
		return wanted
	}
	none := intstr.FromInt32(0)
	missing, err := intstr.GetScaledValueFromIntOrPercent(ptr.To(ptr.Deref(update.MaxUnavailable, none)), int(wanted), false)
	if err != nil {
		return wanted
	}
	surge, err := intstr.GetScaledValueFromIntOrPercent(ptr.To(ptr.Deref(update.MaxSurge, none)), int(wanted), true)
	if err == nil && missing == 0 && surge == 0 {
		missing = 1
	}
	return min(int32(missing), wanted) //nolint:gosec // It is at most as much as is wanted.
}

// inputSteps returns the inputs of the pods that would change although no spec states them: the rendering, the meaning of a size, and the
// defaults.
func inputSteps(found *apply.Outcome) (rendering, size *plan.Step, defaults bool) {
	if found.Before == nil || found.After == nil || found.TakenOver {
		return nil, nil, false
	}
	was, err := resource.DecodeInputs(found.Before.GetAnnotations()[appv1.AnnotationLastAppliedInputs])
	if err != nil {
		return nil, nil, false
	}
	is, err := resource.DecodeInputs(found.After.GetAnnotations()[appv1.AnnotationLastAppliedInputs])
	if err != nil {
		return nil, nil, false
	}
	if was.Rendering != is.Rendering {
		rendering = &plan.Step{From: strconv.Itoa(int(was.Rendering)), To: strconv.Itoa(int(is.Rendering))}
	}
	if was.Size.Name == is.Size.Name && !was.Size.Equal(is.Size) { // Another name is what the spec states.
		size = &plan.Step{From: was.Size.String(), To: is.Size.String()}
	}
	return rendering, size, !was.Defaults.Equal(is.Defaults)
}

const (
	// maxPending is how many lines status.pending has, maxPendingLine how long one is.
	maxPending     = 20
	maxPendingLine = 240
	// pendingTimeout limits how long a plan for a status may take.
	pendingTimeout = 10 * time.Second
)
