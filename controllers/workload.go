package controllers

import (
	"context"
	"fmt"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appv1 "huolala.cn/app-operator/api/v1"
	"huolala.cn/app-operator/internal/apply"
	"huolala.cn/app-operator/internal/health"
	"huolala.cn/app-operator/internal/reconciler"
	"huolala.cn/app-operator/resource"
)

// Shared is what every controller works with.
type Shared struct {
	// Client reads from the cache and writes.
	Client client.Client
	// Live reads from the API server what is not in the cache, or must not be an old view.
	Live client.Reader
	// Engine writes the children.
	Engine *apply.Engine
	// Recorder sends events.
	Recorder events.EventRecorder
	// Clock tells the time.
	Clock clock.PassiveClock
	// Today are the inputs that a new workload is built with, but for its size; see today.
	Today resource.Inputs
	// Sizes knows what the named sizes stand for.
	Sizes *Sizes
}

// today returns the inputs that a workload is built with if it is new.
func (s *Shared) today(ctx context.Context, spec *appv1.WorkloadSpec) (resource.Inputs, error) {
	in := s.Today
	var err error
	in.Size, err = s.Sizes.resolve(ctx, spec.Size)
	return in, err
}

// skeleton returns the reconciler of a kind: its steps, and manager, the field owner of what it applies.
func skeleton[T reconciler.Resource](s *Shared, kind, manager string, empty func() T, steps reconciler.Steps[T]) *reconciler.Reconciler[T] {
	return &reconciler.Reconciler[T]{
		Kind:     kind,
		Client:   s.Client,
		Recorder: s.Recorder,
		Clock:    s.Clock,
		New:      empty,
		Steps:    steps,
		Gone:     func(name types.NamespacedName) { s.Engine.Forget(name, manager) },
	}
}

// observed is what lives of a workload that is one Deployment and one Service.
type observed struct {
	deployment *appsv1.Deployment
	service    *corev1.Service
	pods       []corev1.Pod
	// autoscaler is the name of one that targets the Deployment, empty if there is none.
	autoscaler string
}

// deployed is one workload that is a Deployment and a Service, as its kind sees it.
type deployed struct {
	// owner is the custom resource, manager its kind's field owner, name that of both objects.
	owner         client.Object
	manager, name string
	// spec is the workload's spec, errs what is wrong with it, status where to report.
	spec   *appv1.WorkloadSpec
	errs   field.ErrorList
	status *appv1.WorkloadStatus
	// build builds it.
	build func(resource.Observed) (*resource.Workload, field.ErrorList)
	// changed compares the spec with a record of an earlier one.
	changed func(record string) (bool, error)
	// tutorial is the record that a tutorial's operator left, nil if there is none.
	tutorial *string
	// foreign is true where the Deployment is reported on although the owner does not control it.
	foreign bool
	// held is true where nothing may be written for now.
	held bool
	// today are the inputs that it is built with if it is new; choose sets them.
	today resource.Inputs
}

// making is what tells how a live workload object was made.
type making struct {
	// object is the workload object, nil if there is none.
	object   client.Object
	selector map[string]string
	template corev1.PodTemplateSpec
	// autoscaled is true where an autoscaler targets the object.
	autoscaled bool
	// kept is the record of the inputs of an object that is gone and is to be made anew as it was; empty if there is none.
	kept string
}

// deploy observes the workload's objects, applies what its spec means, and says how its pods are doing.
func (s *Shared) deploy(ctx context.Context, d *deployed) (reconciler.Report, error) {
	seen, err := s.observe(ctx, d)
	if err != nil {
		return reconciler.Report{}, err
	}
	return s.carryOut(ctx, d, seen)
}

// carryOut applies what the workload's spec means, unless it is held back, and says how its pods are doing.
func (s *Shared) carryOut(ctx context.Context, d *deployed, seen *observed) (reconciler.Report, error) {
	workload, errs, err := s.choose(ctx, d, seen.making())
	if err != nil {
		return reconciler.Report{}, err
	}
	var report reconciler.Report
	report.Paused = d.owner.GetAnnotations()[appv1.AnnotationPaused] == "true"
	if err = invalid(errs); err == nil && !report.Paused && !d.held {
		err = s.applyWorkload(ctx, d, workload, seen, &report)
	}
	if !workload.Recorded {
		report.Warning = "the spec is too long for an annotation, only its hash is recorded"
	}
	s.report(d, seen, &report)
	return report, err
}

// choose builds the workload with the inputs that its making asks for, and says what is wrong with its spec.
func (s *Shared) choose(ctx context.Context, d *deployed, m making) (*resource.Workload, field.ErrorList, error) {
	var err error
	if d.today, err = s.today(ctx, d.spec); err != nil {
		return nil, nil, err
	}
	errs := d.errs
	build := func(in resource.Inputs) *resource.Workload {
		w, wrong := d.build(resource.Observed{
			Selector: m.selector,
			Inputs:   in,
			// An autoscaler takes over from what is there; a new object that states no number would begin with one pod.
			Autoscaled: m.autoscaled && m.object != nil,
		})
		errs = slices.Concat(d.errs, wrong)
		return w
	}
	history, refresh := d.history(m), d.owner.GetAnnotations()[appv1.AnnotationRefresh]
	if err := s.recover(&history, m, refresh, build); err != nil {
		return nil, nil, err
	}
	workload := build(resource.ChooseInputs(history, refresh, d.today))
	return workload, errs, nil
}

// observe reads the objects of a workload from the cache.
func (s *Shared) observe(ctx context.Context, d *deployed) (*observed, error) {
	key := client.ObjectKey{Namespace: d.owner.GetNamespace(), Name: d.name}
	var seen observed
	var err error
	if seen.deployment, err = get(ctx, s.Client, key, &appsv1.Deployment{}); err != nil {
		return nil, err
	}
	if seen.service, err = get(ctx, s.Client, key, &corev1.Service{}); err != nil {
		return nil, err
	}
	if seen.autoscaler, err = s.autoscaler(ctx, "Deployment", key); err != nil {
		return nil, err
	}
	if seen.deployment != nil {
		seen.pods, err = s.pods(ctx, d.owner, seen.selector())
	}
	return &seen, err
}

// autoscaler returns the name of an autoscaler that targets a workload object, empty if there is none.
func (s *Shared) autoscaler(ctx context.Context, kind string, key client.ObjectKey) (string, error) {
	var scalers autoscalingv2.HorizontalPodAutoscalerList
	if err := s.Client.List(ctx, &scalers, client.InNamespace(key.Namespace),
		client.MatchingFields{indexTarget: targetKey(kind, key.Name)}); err != nil {
		return "", fmt.Errorf("list autoscalers: %w", err)
	}
	first := ""
	for i := range scalers.Items {
		if name := scalers.Items[i].Name; first == "" || name < first {
			first = name
		}
	}
	return first, nil
}

// pods returns the pods of an owner's that a selector selects.
func (s *Shared) pods(ctx context.Context, owner client.Object, selector map[string]string) ([]corev1.Pod, error) {
	var pods corev1.PodList
	if err := s.Client.List(ctx, &pods, client.InNamespace(owner.GetNamespace()),
		client.MatchingFields{indexInstance: owner.GetName()},
		client.MatchingLabelsSelector{Selector: labels.SelectorFromSet(selector)}); err != nil {
		return nil, fmt.Errorf("list pods: %w", err)
	}
	return pods.Items, nil
}

// get reads one object from the cache, nil if there is none.
func get[T client.Object](ctx context.Context, c client.Client, key client.ObjectKey, obj T) (T, error) {
	var none T
	switch err := reconciler.Get(ctx, c, key, obj); {
	case apierrors.IsNotFound(err):
		return none, nil
	case err != nil:
		return none, fmt.Errorf("read %T %s: %w", obj, key, err)
	}
	return obj, nil
}

// invalid is the error to report for a spec that breaks the rules beyond the schema, nil for one that keeps them. The
// live workload stays as it is.
func invalid(errs field.ErrorList) error {
	if len(errs) == 0 {
		return nil
	}
	const most = 5 // A condition's message is limited, and one person mends one thing at a time.
	said := make([]string, 0, most+1)
	for _, err := range errs[:min(len(errs), most)] {
		said = append(said, err.Error())
	}
	if more := len(errs) - most; more > 0 {
		said = append(said, fmt.Sprintf("and %d more", more))
	}
	return reconciler.Stalled(appv1.ReasonInvalid, "%s", strings.Join(said, "; "))
}

// selector is that of the live Deployment, nil if there is none.
func (o *observed) selector() map[string]string {
	if o.deployment == nil || o.deployment.Spec.Selector == nil {
		return nil
	}
	return o.deployment.Spec.Selector.MatchLabels
}

// making says how the live Deployment was made.
func (o *observed) making() making {
	if o.deployment == nil {
		return making{}
	}
	return making{object: o.deployment, selector: o.selector(), template: o.deployment.Spec.Template, autoscaled: o.autoscaler != ""}
}

// history says how the live workload object was made.
func (d *deployed) history(m making) resource.History {
	live := m.object
	if live == nil {
		return resource.History{Exists: m.kept != "", Ours: m.kept != "", Inputs: m.kept}
	}
	// Either may have been removed by somebody.
	_, applied := live.GetAnnotations()[appv1.AnnotationLastAppliedHash]
	ours := applied || live.GetLabels()[appv1.LabelManagedBy] == appv1.ManagedBy
	adopt := d.owner.GetAnnotations()[appv1.AnnotationAdopt] == "true"
	orphaned := ours && (metav1.GetControllerOf(live) == nil || adopt)
	h := resource.History{
		Exists: metav1.IsControlledBy(live, d.owner) || orphaned,
		Ours:   ours,
		Inputs: live.GetAnnotations()[appv1.AnnotationLastAppliedInputs],
	}
	record, recorded := live.GetAnnotations()[appv1.AnnotationLastAppliedSpec]
	if !h.Ours {
		record, recorded = ptr.Deref(d.tutorial, ""), d.tutorial != nil
	}
	if h.Exists && recorded {
		changed, err := d.changed(record)
		h.SpecChanged = err == nil && changed
	}
	return h
}

// recover completes the history of a workload object of ours whose record of inputs is lost: they are those of the newest
// rendering that makes the pod template that lives, if any does. A size has no part in that: its definition may have changed
// since, and ChooseInputs adds what the spec names.
func (s *Shared) recover(h *resource.History, m making, refresh string, build func(resource.Inputs) *resource.Workload) error {
	if !h.Exists || !h.Ours || m.object == nil {
		return nil
	}
	if _, err := resource.DecodeInputs(h.Inputs); err == nil {
		return nil
	}
	most := -1
	// Not from today's on: an older release may have to keep a newer rendering.
	for n := resource.RenderingLatest; n >= resource.RenderingTutorial; n-- {
		in := resource.Inputs{Rendering: n, Refresh: refresh}
		template := build(in).Template
		holds, err := s.Engine.Holds(bare(template), bare(m.template))
		if err != nil {
			return err
		}
		// What one rendering states may be a part of what another one does, and hold as well: it was made by that one.
		if size := resource.TemplateSize(&template); holds && size > most {
			h.Inputs, most = in.Encode(), size
		}
	}
	return nil
}

// bare returns an object that states nothing but a pod template, of whatever kind that is.
func bare(template corev1.PodTemplateSpec) *appsv1.Deployment {
	return &appsv1.Deployment{
		TypeMeta: metav1.TypeMeta{APIVersion: appsv1.SchemeGroupVersion.String(), Kind: "Deployment"},
		Spec:     appsv1.DeploymentSpec{Template: template},
	}
}

// applyWorkload makes the workload's objects true. What it wrote replaces what was observed.
func (s *Shared) applyWorkload(ctx context.Context, d *deployed, w *resource.Workload, seen *observed, report *reconciler.Report) error {
	req := apply.Request{
		Owner:    d.owner,
		Manager:  d.manager,
		Children: []apply.Child{child(resource.Deployment(w), seen.deployment)},
		Adopt:    d.owner.GetAnnotations()[appv1.AnnotationAdopt] == "true",
	}
	if service := resource.Service(w); service != nil {
		if err := d.headless(service, seen.service); err != nil {
			return err
		}
		req.Children = append(req.Children, child(service, seen.service))
	} else if seen.service != nil {
		req.Unwanted = append(req.Unwanted, seen.service)
	}

	changes, err := s.Engine.Apply(ctx, &req)
	action, line := changes.Summary()
	report.Changed, report.Changes = string(action), line
	for _, child := range req.Children {
		switch live := child.Live.(type) {
		case *appsv1.Deployment:
			seen.deployment = live
		case *corev1.Service:
			seen.service = live
		}
	}
	if err == nil && len(req.Unwanted) > 0 {
		seen.service = nil
	}
	return err
}

// child returns an object as a child of the engine's. live may be a nil pointer.
func child[T any, P interface {
	*T
	client.Object
}](desired, live P) apply.Child {
	c := apply.Child{Desired: desired}
	if live != nil {
		c.Live = live
	}
	return c
}

// headless refuses to give a headless Service of ours an address. To apply a Service that states none would change
// nothing, and look as if it had.
func (d *deployed) headless(wanted, live *corev1.Service) error {
	if live == nil || !metav1.IsControlledBy(live, d.owner) ||
		live.Spec.ClusterIP != corev1.ClusterIPNone || wanted.Spec.ClusterIP == corev1.ClusterIPNone {
		return nil
	}
	return reconciler.Stalled(appv1.ReasonImmutableField,
		"Service %s is headless, and stays as it is: that cannot be changed. Set service.clusterIP to None again, or delete the Service to have it made anew", live.Name)
}

// report states what lives in the status and in the report.
func (s *Shared) report(d *deployed, seen *observed, report *reconciler.Report) {
	status, owner := d.status, d.owner
	common := status.CommonStatus
	*status = appv1.WorkloadStatus{CommonStatus: common}
	if seen.service != nil && metav1.IsControlledBy(seen.service, owner) {
		status.Endpoint = resource.Endpoint(seen.service)
	}
	live := seen.deployment
	if live == nil || !d.foreign && !metav1.IsControlledBy(live, owner) {
		status.Ready = fmt.Sprintf("0/%d", ptr.Deref(d.spec.Replicas, 1))
		report.Reason, report.Message = appv1.ReasonProgressing, "Deployment "+d.name+" does not exist yet"
		return
	}
	status.Ready = fmt.Sprintf("%d/%d", live.Status.ReadyReplicas, ptr.Deref(live.Spec.Replicas, 1))
	status.Replicas = live.Status.Replicas
	status.UpdatedReplicas = live.Status.UpdatedReplicas
	status.ReadyReplicas = live.Status.ReadyReplicas
	status.AvailableReplicas = live.Status.AvailableReplicas
	status.UnavailableReplicas = live.Status.UnavailableReplicas
	status.Selector = metav1.FormatLabelSelector(live.Spec.Selector)
	d.reportInputs(live)
	verdict := health.Deployment(live, seen.pods)
	report.Ready, report.Stalled = verdict.Ready, verdict.Stalled
	report.Reason, report.Message = verdict.Reason, verdict.Message
}

// reportInputs states in the status which inputs are in use, and whether there are newer ones.
func (d *deployed) reportInputs(live client.Object) {
	used, err := resource.DecodeInputs(live.GetAnnotations()[appv1.AnnotationLastAppliedInputs])
	if err != nil {
		return
	}
	d.status.Rendering = used.Rendering
	if used.Rendering < d.today.Rendering {
		d.status.LatestRendering = d.today.Rendering
	}
	d.status.Size = used.Size.String()
	// With another name the spec has changed: that is not held back.
	if used.Size.Name == d.today.Size.Name && !used.Size.Equal(d.today.Size) {
		d.status.LatestSize = d.today.Size.String()
	}
}
