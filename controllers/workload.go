package controllers

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appv1 "huolala.cn/app-operator/api/v1"
	"huolala.cn/app-operator/api/v1/validation"
	"huolala.cn/app-operator/internal/apply"
	"huolala.cn/app-operator/internal/clusterkinds"
	"huolala.cn/app-operator/internal/content"
	"huolala.cn/app-operator/internal/health"
	"huolala.cn/app-operator/internal/reconciler"
	"huolala.cn/app-operator/resource"
)

// Deps is what every controller works with.
type Deps struct {
	// Client reads from the cache and writes.
	Client client.Client
	// Live reads from the API server what is not in the cache, or must not be an old view.
	Live client.Reader
	// ClusterKinds knows which of the kinds are there that a cluster may lack.
	ClusterKinds *clusterkinds.Kinds
	// Engine writes the children.
	Engine *apply.Engine
	// Recorder sends events.
	Recorder events.EventRecorder
	// Clock tells the time.
	Clock clock.PassiveClock
	// RouteGrace is for how long a former Service stays once the Ingress and the HTTPRoute lead to its successor.
	RouteGrace time.Duration
	// Today are the inputs that a new workload is built with, but for its size; see currentInputs.
	Today resource.Inputs
	// Sizes knows what the named sizes stand for.
	Sizes *Sizes
	// Content tells of changes of the ConfigMaps and Secrets that pods use.
	Content *content.Watch
	// Disabled are the features that are switched off.
	Disabled []string
	// watched says which types are watched, and how.
	watched watchSet
	// Records remembers the last applied records of workloads whose spec is invalid.
	Records *lastRecords
	// Pending remembers which state of a paused resource the plan in its status describes.
	Pending *pendingPlans
}

// currentInputs returns the inputs that a workload is built with if it is new.
func (s *Deps) currentInputs(ctx context.Context, spec *appv1.WorkloadSpec) (resource.Inputs, error) {
	in := s.Today
	var err error
	in.Size, err = s.Sizes.resolveSize(ctx, spec.Size)
	return in, err
}

// newSkeleton returns the reconciler of a kind, with its steps.
func newSkeleton[T reconciler.Resource](s *Deps, k *kind, empty func() reconciler.Stored[T], steps reconciler.Steps[T]) *reconciler.Reconciler[T] {
	return &reconciler.Reconciler[T]{
		Kind:     k.Name,
		Client:   s.Client,
		Recorder: s.Recorder,
		Clock:    s.Clock,
		New:      empty,
		Steps:    withPending(s, k, steps),
		OnDeleted: func(name types.NamespacedName) {
			s.Engine.Forget(name, k.manager)
			s.Records.forgetOwner(k.manager, name)
			s.Pending.forgetOwner(k.manager, name)
			s.Content.Forget(content.Owner{Kind: k.Name, NamespacedName: name})
		},
	}
}

// state is what lives of a workload that is one Deployment and one Service.
type state struct {
	deployment *appsv1.Deployment
	service    *corev1.Service
	// serviceName is the name that the Service was looked for by. former is the Service of the workload's own name if the
	// workload's Service has another.
	serviceName string
	former      *corev1.Service
	pods        []corev1.Pod
	// owned is all that the operator has applied for the owner.
	owned apply.Inventory
	// autoscaler is the name of one that targets the Deployment and is not the owner's, ownerAutoscaler of one that targets the
	// custom resource; empty if there is none.
	autoscaler, ownerAutoscaler string
	// scaled is true where an autoscaler targets the Deployment that the spec does not ask for: another one, or a former one of
	// the owner's.
	scaled bool
	// around are the objects around the pods as they were applied.
	around []apply.Child
	// aroundNoted is true once it is known which objects around the pods are to be applied.
	aroundNoted bool
	// routeGrace is for how long a former Service stays yet.
	routeGrace time.Duration
}

// target is one workload that is a Deployment and a Service, as its kind sees it.
type target struct {
	// owner is the custom resource, manager its kind's field owner, name that of both objects.
	owner         client.Object
	manager, name string
	// tier is which of several workloads of the owner this one is, empty if it is the only one.
	tier string
	// gone is true where there was a workload object that cannot be rebuilt.
	gone bool
	// scalable is the owner's kind if the owner's scale subresource is this workload's, empty otherwise.
	scalable string
	// spec is the workload's spec, errs what is wrong with it, status where to report.
	spec   resource.Spec
	errs   field.ErrorList
	status *appv1.WorkloadStatus
	// around is the valid part of the spec's fields for auxiliary objects, and servingStatus where to report; nil for a kind that
	// has no such fields.
	around        *appv1.ServingSpec
	servingStatus *appv1.ServingStatus
	// undecodable is why the spec cannot be decoded, nil if it can; spec is then empty.
	undecodable error
	// tutorial is the record that a tutorial's operator left, nil if there is none.
	tutorial *string
	// foreign is true where the Deployment is reported on although the owner does not control it.
	foreign bool
	// mustWait is true where the spec may not be applied for now, paused where nothing may be written, as that is the user's wish.
	mustWait, paused bool
	// refusal is why the present spec is not applied, nil if nothing is wrong with it.
	refusal error
	// kept is the record of the earlier spec that was applied in the place of the present one, empty if none was.
	kept string
	// history is where to report which ReplicaSets there are; nil for a kind that holds none. heldMessage is set to what is held.
	history     *appv1.HistoryStatus
	heldMessage string
	// pods are those of the live Deployment, and notRolledBack is set to why a rollout that has stalled is not undone.
	pods          []corev1.Pod
	notRolledBack string
	// config is what the resource says of the content that its pods use; nil for a kind that follows none.
	config *configTarget
	// today are the inputs that it is built with if it is new, and specChanged reports whether the spec differs from the record on
	// the live workload object; desiredWorkload sets both.
	today       resource.Inputs
	specChanged bool
}

// provenance is what tells how a live workload object was made.
type provenance struct {
	// object is the workload object, nil if there is none.
	object   client.Object
	selector map[string]string
	template corev1.PodTemplateSpec
	// autoscaled is true where an autoscaler targets the object that the spec does not ask for, otherAutoscaler where it is not
	// the owner's.
	autoscaled, otherAutoscaler bool
	// replicas is the number of pods that the object asks for, nil if there is no object.
	replicas *int32
	// kept is the record of the inputs of an object that is gone and is to be recreated as it was; empty if there is none.
	kept string
}

// reconcileWorkload observes the workload's objects, applies what its spec means, and says how its pods are doing.
func (s *Deps) reconcileWorkload(ctx context.Context, d *target) (reconciler.Report, error) {
	d.checkServing(s.Disabled)
	seen, err := s.observeWorkload(ctx, d)
	if err != nil {
		return reconciler.Report{}, err
	}
	return s.reconcileObserved(ctx, d, seen)
}

// reconcileObserved is reconcileWorkload for a workload that was observed already.
func (s *Deps) reconcileObserved(ctx context.Context, d *target, seen *state) (reconciler.Report, error) {
	d.pods = seen.pods
	if d.config != nil {
		d.config.deployment, d.config.pods = seen.deployment, seen.pods
	}
	return s.executeReconcile(ctx, d, &deploymentObjects{shared: s, target: d, seen: seen})
}

// executeReconcile applies what the workload's spec means, unless it is held back, and says how its pods are doing. If the spec is
// invalid, the last applied one stays in force.
func (s *Deps) executeReconcile(ctx context.Context, d *target, objects workloadObjects) (reconciler.Report, error) {
	report := reconciler.Report{Paused: d.paused}
	if held, err := s.reconcileHold(ctx, d, objects, &report); held {
		objects.reportStatus(&report)
		d.reportHeld(&report, err)
		return report, err
	}
	workload, refusal, err := s.desiredValidWorkload(ctx, d, objects.provenance())
	switch {
	case err != nil:
		return reconciler.Report{}, err
	case refusal != nil:
		d.refusal = refusal
		err = s.keepLastApplied(ctx, d, objects, nil, application{earlier: true}, &report, refusal)
	default:
		if !workload.Recorded {
			report.Event.Warning = objects.recordMessage()
		}
		if d.mustWait {
			err = s.repairHeld(ctx, d, objects, &report)
		} else {
			err = s.applySpec(ctx, d, objects, workload, &report)
		}
		d.noteIgnoredReplicas(objects.autoscaledBy(), objects.kind(), &report)
	}
	objects.reportStatus(&report)
	d.reportNotRolledBack(&report)
	return report, err
}

// desiredValidWorkload returns the workload of the spec, or, of an invalid spec, the reason for which it is refused.
func (s *Deps) desiredValidWorkload(ctx context.Context, d *target, m provenance) (w *resource.Workload, refusal, err error) {
	if d.undecodable != nil {
		return nil, invalidResource(d.undecodable), nil
	}
	w, errs, err := s.desiredWorkload(ctx, d, m)
	return w, invalidSpec(errs), err
}

// desiredWorkload builds the workload with the inputs that its making asks for, and says what is wrong with its spec.
func (s *Deps) desiredWorkload(ctx context.Context, d *target, m provenance) (*resource.Workload, field.ErrorList, error) {
	var err error
	if d.today, err = s.currentInputs(ctx, d.spec.Workload()); err != nil {
		return nil, nil, err
	}
	d.today.ServiceAccount = resource.AccountName(d.around, d.name)
	errs := slices.Clone(d.errs)
	build := func(in resource.Inputs) *resource.Workload {
		w, wrong := d.spec.Build(resource.BuildOptions{
			Selector: m.selector,
			Inputs:   in,
			// An autoscaler takes over from what is there; a new object that states no number would begin with one pod.
			Autoscaled:      m.autoscaled && m.object != nil,
			OtherAutoscaler: m.otherAutoscaler,
			LiveReplicas:    m.replicas,
			Serving:         d.around,
		})
		errs = slices.Concat(d.errs, wrong)
		return w
	}
	history, refresh := d.provenanceOf(m), d.owner.GetAnnotations()[appv1.AnnotationRefresh]
	if !s.recoverKept(d, &history, m, refresh) {
		size, err := s.checkInputs(d, &history, m, build)
		if err != nil {
			return nil, nil, err
		}
		if err := s.recoverInputs(d, &history, m, refresh, size, build); err != nil {
			return nil, nil, err
		}
	}
	d.specChanged = history.Ours && history.SpecChanged
	in := resource.ChooseInputs(history, refresh, d.today)
	workload := build(in)
	if keeps, err := s.keepsTemplate(d, &history, m, workload); err != nil {
		return nil, nil, err
	} else if keeps && !in.Kept {
		in.Kept = true
		workload = build(in)
	}
	if d.config == nil || len(errs) > 0 || workload.TemplateKept { // Content that changes is followed once the template is the resource's.
		return workload, errs, nil
	}
	config, err := s.followContent(ctx, d, workload, in.Config)
	if err == nil && !config.Equal(in.Config) {
		in.Config = config
		workload = build(in)
	}
	return workload, errs, err
}

// observeWorkload reads the objects of a workload from the cache.
func (s *Deps) observeWorkload(ctx context.Context, d *target) (*state, error) {
	key := client.ObjectKey{Namespace: d.owner.GetNamespace(), Name: d.name}
	var seen state
	var err error
	if seen.deployment, err = getOrNil(ctx, s.Client, key, &appsv1.Deployment{}); err != nil {
		return nil, err
	}
	if err := s.observeService(ctx, d, &seen, d.spec.Workload().ServiceName(d.name)); err != nil {
		return nil, err
	}
	if d.tier == "" {
		if seen.owned, err = s.Engine.Observe(ctx, d.owner, d.manager); err != nil {
			return nil, err
		}
	}
	if err := s.observeAutoscalers(ctx, d, key, &seen); err != nil {
		return nil, err
	}
	if d.scalable != "" {
		if seen.ownerAutoscaler, err = s.findAutoscaler(ctx, d.scalable, client.ObjectKeyFromObject(d.owner)); err != nil {
			return nil, err
		}
	}
	if seen.deployment != nil {
		seen.pods, err = s.listPods(ctx, d.owner, seen.selector())
	}
	return &seen, err
}

// observeService reads the Service of a name from the cache, and, if the workload has another name, that one's.
func (s *Deps) observeService(ctx context.Context, d *target, seen *state, name string) error {
	seen.serviceName, seen.former = name, nil
	key := client.ObjectKey{Namespace: d.owner.GetNamespace(), Name: name}
	var err error
	if seen.service, err = getOrNil(ctx, s.Client, key, &corev1.Service{}); err != nil || name == d.name || d.tier != "" {
		return err
	}
	key.Name = d.name
	seen.former, err = getOrNil(ctx, s.Client, key, &corev1.Service{})
	return err
}

// findAutoscaler returns the name of an autoscaler that targets a workload object, empty if there is none.
func (s *Deps) findAutoscaler(ctx context.Context, kind string, key client.ObjectKey) (string, error) {
	scalers, err := s.listAutoscalers(ctx, kind, key)
	first := ""
	for i := range scalers {
		if name := scalers[i].Name; first == "" || name < first {
			first = name
		}
	}
	return first, err
}

// listAutoscalers returns the autoscalers that target a workload object.
func (s *Deps) listAutoscalers(ctx context.Context, kind string, key client.ObjectKey) ([]autoscalingv2.HorizontalPodAutoscaler, error) {
	var scalers autoscalingv2.HorizontalPodAutoscalerList
	if err := s.Client.List(ctx, &scalers, client.InNamespace(key.Namespace),
		client.MatchingFields{indexTarget: apply.ScaledObject{Kind: kind, Name: key.Name}.String()}); err != nil {
		return nil, fmt.Errorf("list autoscalers: %w", err)
	}
	return scalers.Items, nil
}

// listPods returns the pods of an owner's that a selector selects.
func (s *Deps) listPods(ctx context.Context, owner client.Object, selector map[string]string) ([]corev1.Pod, error) {
	var pods corev1.PodList
	// A selector that is kept since an adoption may have the label of the index, and its pods have it with that value.
	instance := cmp.Or(selector[appv1.LabelInstance], owner.GetName())
	if err := s.Client.List(ctx, &pods, client.InNamespace(owner.GetNamespace()),
		client.MatchingFields{indexInstance: instance},
		client.MatchingLabelsSelector{Selector: labels.SelectorFromSet(selector)}); err != nil {
		return nil, fmt.Errorf("list pods: %w", err)
	}
	return pods.Items, nil
}

// getOrNil reads one object from the cache, nil if there is none.
func getOrNil[T client.Object](ctx context.Context, c client.Client, key client.ObjectKey, obj T) (T, error) {
	var none T
	switch err := reconciler.Get(ctx, c, key, obj); {
	case apierrors.IsNotFound(err):
		return none, nil
	case err != nil:
		return none, fmt.Errorf("read %T %s: %w", obj, key, err)
	}
	return obj, nil
}

// invalidResource is the error to report for a spec that cannot be decoded. What lives stays as it is.
func invalidResource(undecodable error) error {
	return reconciler.Stalled(appv1.ReasonInvalid, "%s", undecodable)
}

// invalidSpec is the error to report for a spec that breaks the rules beyond the schema, nil for one that keeps them. The
// live workload stays as it is.
func invalidSpec(errs field.ErrorList) error {
	if len(errs) == 0 {
		return nil
	}
	const most = 5 // A condition's message is limited, and a user fixes one thing at a time.
	said := make([]string, 0, most+1)
	for _, err := range validation.List(errs[:min(len(errs), most)]) {
		said = append(said, err.Error())
	}
	switch more := len(errs) - most; {
	case len(errs) > validation.MaxErrors: // The rules have stopped to look.
		said = append(said, fmt.Sprintf(messageFaultsAndMany, validation.MaxErrors-most))
	case more > 0:
		said = append(said, fmt.Sprintf(messageFaultsAndMore, more))
	}
	return reconciler.Stalled(appv1.ReasonInvalid, "%s", strings.Join(said, "; "))
}

// selector is that of the live Deployment, nil if there is none.
func (o *state) selector() map[string]string {
	if o.deployment == nil || o.deployment.Spec.Selector == nil {
		return nil
	}
	return o.deployment.Spec.Selector.MatchLabels
}

// provenance says how the live Deployment was made.
func (o *state) provenance() provenance {
	if o.deployment == nil {
		return provenance{otherAutoscaler: o.autoscaler != ""}
	}
	return provenance{
		object: o.deployment, selector: o.selector(), template: o.deployment.Spec.Template,
		autoscaled: o.scaled, otherAutoscaler: o.autoscaler != "", replicas: ptr.To(ptr.Deref(o.deployment.Spec.Replicas, 1)),
	}
}

// provenanceOf says how the live workload object was made.
func (d *target) provenanceOf(m provenance) resource.Provenance {
	live := m.object
	if live == nil {
		return resource.Provenance{Exists: m.kept != "", Ours: m.kept != "", Inputs: m.kept}
	}
	// Any of them may have been removed by another writer. That fields are the operator's is not enough for a resource without a
	// workload so far: it takes them over before it applies.
	_, applied := live.GetAnnotations()[appv1.AnnotationLastAppliedHash]
	ours := applied || live.GetLabels()[appv1.LabelManagedBy] == appv1.ManagedBy || d.status.Rendering > 0 && apply.Applies(live, d.manager)
	orphaned := ours && (metav1.GetControllerOf(live) == nil || d.adopts())
	h := resource.Provenance{
		Exists: metav1.IsControlledBy(live, d.owner) || orphaned,
		Ours:   ours,
		Inputs: live.GetAnnotations()[appv1.AnnotationLastAppliedInputs],
	}
	record, recorded := live.GetAnnotations()[appv1.AnnotationLastAppliedSpec]
	if !h.Ours {
		record, recorded = ptr.Deref(d.tutorial, ""), d.tutorial != nil
	}
	if h.Exists && recorded {
		changed, err := d.spec.Changed(record, resource.ScopePods)
		h.SpecChanged = err == nil && changed
	}
	if in, err := resource.DecodeInputs(h.Inputs); err == nil && h.Exists && h.Ours {
		// The only part around the pods that shapes them.
		h.SpecChanged = h.SpecChanged || in.ServiceAccount != resource.AccountName(d.around, d.name)
	}
	return h
}

// checkInputs takes out of the history what cannot be believed of the recorded inputs, as they lie on an object that others
// may write: all of it where another writer has written the record, and a size that is not what the pod template has. It
// returns the size that can be believed nevertheless.
func (s *Deps) checkInputs(d *target, h *resource.Provenance, m provenance, build func(resource.Inputs) *resource.Workload) (resource.ResolvedSize, error) {
	recorded, err := resource.DecodeInputs(h.Inputs)
	if err != nil || !h.Exists || !h.Ours || m.object == nil {
		return resource.ResolvedSize{}, nil //nolint:nilerr // What cannot be read is recovered as if there were none.
	}
	owned := apply.OwnsAnnotation(m.object, d.manager, appv1.AnnotationLastAppliedInputs)
	if owned && (recorded.Size.Name == "" || h.SpecChanged) {
		return recorded.Size, nil
	}
	if !owned && apply.Applies(m.object, d.manager) {
		// The record was edited by hand, perhaps together with what it speaks of.
		h.Inputs = ""
		return resource.ResolvedSize{}, nil
	}
	workload := build(recorded)
	believed, rendering := resource.BelievableInputs(recorded, owned, &m.template, workload.Template.Spec.Containers[0].Name)
	if !rendering {
		h.Inputs = ""
		return believed.Size, nil
	}
	holds, err := s.Engine.RecordHolds(d.manager, templateOnly(workload.Template), templateOnly(m.template), m.object)
	if err == nil && !holds {
		believed.Size = resource.ResolvedSize{}
	}
	h.Inputs = believed.Encode()
	return believed.Size, err
}

// recoverInputs completes the history of a workload object of ours whose record of inputs is lost: they are those of the newest
// rendering that makes the pod template that lives, if any does. A size has no part in that: its definition may have changed
// since, and ChooseInputs adds what the spec names.
func (s *Deps) recoverInputs(d *target, h *resource.Provenance, m provenance, refresh string, size resource.ResolvedSize, build func(resource.Inputs) *resource.Workload) error {
	if !h.Exists || !h.Ours || m.object == nil {
		return nil
	}
	if _, err := resource.DecodeInputs(h.Inputs); err == nil {
		return nil
	}
	account := ""
	if m.template.Spec.ServiceAccountName == d.today.ServiceAccount {
		account = d.today.ServiceAccount
	}
	most := -1
	// Not from today's on: an older release may have to keep a newer rendering.
	for _, n := range resource.Renderings() {
		in := resource.Inputs{
			Rendering: n, Refresh: refresh, ServiceAccount: account, Config: resource.ConfigOf(&m.template),
		}
		template := build(in).Template
		holds, err := s.Engine.Matches(templateOnly(template), templateOnly(m.template))
		if err != nil {
			return err
		}
		// What one rendering states may be a part of what another one does, and hold as well: it was made by that one.
		if stated := resource.TemplateSize(&template); holds && stated > most {
			in.Size = size
			h.Inputs, most = in.Encode(), stated
		}
	}
	return nil
}

// templateOnly returns an object that states nothing but a pod template, of whatever kind that is.
func templateOnly(template corev1.PodTemplateSpec) *appsv1.Deployment {
	return &appsv1.Deployment{
		TypeMeta: metav1.TypeMeta{APIVersion: appsv1.SchemeGroupVersion.String(), Kind: "Deployment"},
		Spec:     appsv1.DeploymentSpec{Template: template},
	}
}

// newApplyRequest asks for the workload's objects. What the operator has applied for the owner and the workload no longer means is
// pruned: at once under the workload's name, and under an earlier name once the pods of the workload are ready.
func (s *Deps) newApplyRequest(ctx context.Context, d *target, w *resource.Workload, seen *state) (*apply.Request, error) {
	req := d.newRequest()
	req.DefaultLabels = w.DefaultLabels
	var wanted []client.Object
	for _, obj := range w.Objects() {
		child, err := s.childOf(ctx, d, obj, seen)
		if err != nil {
			return nil, err
		}
		wanted = append(wanted, obj)
		req.Children = append(req.Children, child)
	}
	former := seen.owned.Without(wanted...)
	for _, service := range []*corev1.Service{seen.service, seen.former} {
		if service != nil { // One that a tutorial's operator created has no mark of ours.
			former = append(former, apply.Inventory{service}.Without(slices.Concat(wanted, former)...)...)
		}
	}
	for _, obj := range former {
		account, ok := obj.(*corev1.ServiceAccount)
		waits := ok && seen.isNamed(account, d.owner) || !d.isReplaced(obj, w, seen)
		if !waits {
			grace := s.remainingGrace(d, w, obj, seen)
			waits, seen.routeGrace = grace > 0, max(seen.routeGrace, grace)
		}
		if !waits || s.Engine.Foresees() { // A plan has what follows, too.
			req.Unwanted = append(req.Unwanted, obj)
		}
	}
	return req, nil
}

// isReplaced reports whether an object that the workload no longer means can go. A Service of another name goes once the one that
// replaces it is there and leads to pods that are ready; where there is to be none, one that leads to the pods goes at once.
func (d *target) isReplaced(obj client.Object, w *resource.Workload, seen *state) bool {
	service, ok := obj.(*corev1.Service)
	if !ok || len(w.Ports) == 0 {
		return obj.GetName() == d.name || ok && maps.Equal(service.Spec.Selector, w.Selector) || seen.isReady(d.owner)
	}
	return seen.service != nil && metav1.IsControlledBy(seen.service, d.owner) && health.Service(seen.service).Ready && seen.isReady(d.owner)
}

// freeNodePorts deletes the Services of former names that have node ports which the workload's Service is to have, and is not
// there yet: the cluster has each once. Without that, a former Service waits for the new one.
func (s *Deps) freeNodePorts(ctx context.Context, d *target, w *resource.Workload, seen *state) (apply.ChangeSet, error) {
	if seen.service != nil || len(w.Ports) == 0 {
		return nil, nil
	}
	wanted := serviceOf(w)
	if wanted == nil {
		return nil, nil
	}
	req := &apply.Request{Owner: d.owner, Manager: d.manager}
	former := slices.Clone(seen.owned)
	if seen.former != nil {
		former = append(former, apply.Inventory{seen.former}.Without(former...)...)
	}
	for _, obj := range former {
		service, ok := obj.(*corev1.Service)
		if ok && slices.ContainsFunc(service.Spec.Ports, func(has corev1.ServicePort) bool {
			return has.NodePort != 0 && slices.ContainsFunc(wanted.Spec.Ports, func(wants corev1.ServicePort) bool {
				return wants.NodePort == has.NodePort && wants.Protocol == has.Protocol
			})
		}) {
			req.Unwanted = append(req.Unwanted, service)
		}
	}
	if len(req.Unwanted) == 0 {
		return nil, nil
	}
	return s.Engine.Apply(ctx, req)
}

// serviceOf returns the Service that leads to a workload's pods, nil if there is to be none.
func serviceOf(w *resource.Workload) *corev1.Service {
	for _, obj := range w.Objects() {
		if service, ok := obj.(*corev1.Service); ok && service.Name == w.ServiceName {
			return service
		}
	}
	return nil
}

// isReady reports whether the pods of the owner's live Deployment are ready, which is no matter of time.
func (o *state) isReady(owner client.Object) bool {
	return o.deployment != nil && metav1.IsControlledBy(o.deployment, owner) && health.Deployment(o.deployment, o.pods, time.Time{}).Ready
}

// liveObject returns the live object that a wanted one is compared with, nil if there is none. Of a type without a field of its
// own in the state it is the one in the inventory.
func (o *state) liveObject(wanted client.Object) client.Object {
	switch wanted.(type) {
	case *appsv1.Deployment:
		if o.deployment != nil {
			return o.deployment
		}
	case *corev1.Service:
		if o.service != nil {
			return o.service
		}
	default:
		for _, live := range o.owned {
			if reflect.TypeOf(live) == reflect.TypeOf(wanted) && live.GetName() == wanted.GetName() {
				return live
			}
		}
	}
	return nil
}

// newRequest asks for children of the owner's.
func (d *target) newRequest(children ...apply.Child) *apply.Request {
	annotations := d.owner.GetAnnotations()
	return &apply.Request{
		Owner:           d.owner,
		Manager:         d.manager,
		Children:        children,
		Adopt:           d.adopts(),
		AcceptOverrides: annotations[appv1.AnnotationAcceptOverrides] == "true",
		Existed:         d.existedBefore(),
		Overridden:      d.overriddenMessage(),
	}
}

// overriddenMessage is what the owner's status, which nobody but the operator writes, says of fields that are not kept.
func (d *target) overriddenMessage() string {
	owner, ok := d.owner.(reconciler.Resource)
	if !ok {
		return ""
	}
	c := meta.FindStatusCondition(owner.CommonStatus().Conditions, appv1.ConditionApplied)
	if c == nil || c.Reason != appv1.ReasonOverridden {
		return ""
	}
	return c.Message
}

// existedBefore reports whether the owner was reconciled before, so that a child that is missing may have been there.
func (d *target) existedBefore() bool {
	owner, ok := d.owner.(reconciler.Resource)
	return ok && owner.CommonStatus().ObservedGeneration > 0 && (d.tier == "" || d.status.Rendering != 0)
}

// hadWorkload reports whether, by the status, there was a workload object before.
func (d *target) hadWorkload() bool { return d.status.Selector != "" || d.status.Rendering != 0 }

// deploymentObjects are the objects of a workload that is a Deployment and a Service.
type deploymentObjects struct {
	shared *Deps
	target *target
	seen   *state
}

func (o *deploymentObjects) provenance() provenance { return o.seen.provenance() }

func (o *deploymentObjects) kind() string { return "Deployment" }

func (o *deploymentObjects) growsVolume(*resource.Workload) bool { return false }

func (o *deploymentObjects) substitute(*resource.Workload) *resource.Workload { return nil }

func (o *deploymentObjects) keptMessage() string { return "" }

func (o *deploymentObjects) recordMessage() string { return messageRecordTooLong }

func (o *deploymentObjects) autoscaledBy() string { return o.seen.autoscaler }

func (o *deploymentObjects) reportStatus(report *reconciler.Report) {
	o.shared.reportStatus(o.target, o.seen, report)
	o.target.reportKept(o.seen.deployment, report)
	o.target.reportServing(o.seen, report)
	o.target.reportContent(report, o.seen.deployment)
	o.target.reportUnstatedReplicas(o.seen)
	o.target.reportHistory(o.shared, report, o.seen.deployment, o.seen.pods)
}

// apply applies the workload, or, while the owner is paused, finds out whether there is anything to apply. What it wrote
// replaces what was observed.
func (o *deploymentObjects) apply(ctx context.Context, w *resource.Workload, how application, report *reconciler.Report) outcome {
	s, d, seen := o.shared, o.target, o.seen
	if w.ServiceName != seen.serviceName {
		if err := s.observeService(ctx, d, seen, w.ServiceName); err != nil {
			return outcome{err: err}
		}
	}
	req, err := s.newApplyRequest(ctx, d, w, seen)
	if err != nil {
		return outcome{err: err}
	}
	req.Whole = how.whole
	if how.earlier {
		req.Unwanted = nil
	}
	if how.alone {
		req.Children = slices.DeleteFunc(req.Children, func(c apply.Child) bool { return c.Independent })
	}
	headless := d.refuseHeadlessChange(s.Client.Scheme(), req, seen.service)
	if err := s.refuseRestart(ctx, d, w, seen, req); err != nil {
		return outcome{err: err}
	}
	switch {
	case d.paused:
		out := outcome{err: reconciler.Aggregate(headless, s.planRequest(req, report))}
		seen.noteAround(req, report)
		return out
	case headless != nil && req.Whole:
		return outcome{err: headless, refused: headless}
	case headless != nil && d.adoptsObject(req):
		return outcome{err: d.nameRestart(headless, true)}
	}
	freed, err := s.freeNodePorts(ctx, d, w, seen)
	if err != nil {
		return outcome{err: err}
	}
	adopts := d.adoptsObject(req)
	changes, err := s.Engine.Apply(ctx, req)
	err = d.nameRestart(err, adopts)
	changes = append(freed, changes...)
	reportChanges(report, changes)
	seen.noteAround(req, report)
	out := outcome{err: reconciler.Aggregate(err, headless), refused: req.Refusal()}
	for _, child := range req.Children {
		switch live := child.Live.(type) {
		case *appsv1.Deployment:
			seen.deployment = live
		case *corev1.Service:
			seen.service = live
		}
		if _, ok := child.Desired.(*appsv1.Deployment); ok {
			out.notWritten = child.NotWritten
		}
	}
	if err == nil && seen.service != nil && slices.ContainsFunc(req.Unwanted, func(obj client.Object) bool {
		return obj.GetUID() == seen.service.UID
	}) {
		seen.service = nil
	}
	return out
}

// planRequest finds out, without a request to the API server, whether there is anything to apply.
func (s *Deps) planRequest(req *apply.Request, report *reconciler.Report) error {
	changes, err := s.Engine.Plan(req)
	if changes.Waits() {
		_, line := changes.Summary()
		report.Pending, report.HeldBack = true, report.HeldBack+line+describeRollouts(req)+"\n"
	}
	return err
}

// describeRollouts says which template each live workload object of a request has, and whether all its pods are of that one.
func describeRollouts(req *apply.Request) string {
	said := ""
	describe := func(generation, observed int64, pods, updated int32) {
		said += fmt.Sprintf("; %d %t", generation, observed == generation && updated == pods)
	}
	for i := range req.Children {
		switch live := req.Children[i].Live.(type) {
		case *appsv1.Deployment:
			describe(live.Generation, live.Status.ObservedGeneration, live.Status.Replicas, live.Status.UpdatedReplicas)
		case *appsv1.StatefulSet:
			describe(live.Generation, live.Status.ObservedGeneration, live.Status.Replicas, live.Status.UpdatedReplicas)
		}
	}
	return said
}

// reportChanges states in the report what was changed, and what the API server did not keep as it was applied.
func reportChanges(report *reconciler.Report, changes apply.ChangeSet) {
	action, line := changes.Summary()
	report.Event.AddChanges(string(action), line)
	if message, retry := changes.Overridden(); message != "" {
		report.AppliedNote = reconciler.ReasonAndMessage{Reason: appv1.ReasonOverridden, Message: message}
		report.RetryAfter = reconciler.MinRequeue(report.RetryAfter, retry)
	}
}

// applyChild returns an object as a child of the engine's. live may be a nil pointer.
func applyChild[T any, P interface {
	*T
	client.Object
}](desired, live P) apply.Child {
	c := apply.Child{Desired: desired}
	if live != nil {
		c.Live = live
	}
	return c
}

// refuseHeadlessChange takes out of the request a Service that would give a headless one an address, and returns the error to
// report of it: to apply a Service that states no address would change nothing, and look as if it had. The live Service is the
// owner's, or one to be adopted.
func (d *target) refuseHeadlessChange(scheme *runtime.Scheme, req *apply.Request, live *corev1.Service) error {
	if live == nil || live.Spec.ClusterIP != corev1.ClusterIPNone {
		return nil
	}
	again := " again"
	if !metav1.IsControlledBy(live, d.owner) {
		if !req.Adopt || apply.Taken(scheme, d.owner, live, live, true) != nil {
			return nil //nolint:nilerr // The engine says so of an object that is not to be adopted.
		}
		again = ""
	}
	i := slices.IndexFunc(req.Children, func(c apply.Child) bool {
		wanted, ok := c.Desired.(*corev1.Service)
		return ok && wanted.Name == live.Name && wanted.Spec.ClusterIP != corev1.ClusterIPNone
	})
	if i < 0 {
		return nil
	}
	req.Children = slices.Delete(req.Children, i, i+1)
	return reconciler.Stalled(appv1.ReasonImmutableField,
		messageServiceHeadless, live.Name, again)
}

// adoptsObject reports whether a request is for an object that lives and that the owner does not control yet. What is retained, and
// a claim, it never controls.
func (d *target) adoptsObject(req *apply.Request) bool {
	return req.Adopt && slices.ContainsFunc(req.Children, func(c apply.Child) bool {
		_, claim := c.Live.(*corev1.PersistentVolumeClaim)
		return c.Live != nil && !claim && !c.Retained && !metav1.IsControlledBy(c.Live, d.owner)
	})
}

// reportStatus states what lives in the status and in the report.
func (s *Deps) reportStatus(d *target, seen *state, report *reconciler.Report) {
	status, owner := d.status, d.owner
	before := *status
	*status = appv1.WorkloadStatus{CommonStatus: before.CommonStatus}
	if seen.service != nil && metav1.IsControlledBy(seen.service, owner) {
		status.Endpoint = resource.Endpoint(seen.service)
	}
	live := seen.deployment
	if live == nil || !d.foreign && !metav1.IsControlledBy(live, owner) {
		if d.gone || d.tier != "" {
			// It tells that the workload object was there.
			status.Selector, status.Rendering = before.Selector, before.Rendering
		}
		status.Ready = fmt.Sprintf("0/%d", ptr.Deref(d.spec.Workload().Replicas, 1))
		report.Reason, report.Message = appv1.ReasonProgressing, fmt.Sprintf(messageNotCreatedYet, "Deployment", d.name)
		seen.reportPrerequisite(report)
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
	reportVerdict(report, health.Deployment(live, seen.pods, s.Clock.Now()), seen.service)
}

// reportVerdict states in the report how the pods are doing, and whether the Service can be reached from where it is to be.
func reportVerdict(report *reconciler.Report, verdict health.Verdict, service *corev1.Service) {
	if verdict.Ready && service != nil {
		if pending := health.Service(service); !pending.Ready {
			verdict = pending
		}
	}
	report.Ready, report.Stalled = verdict.Ready, verdict.Stalled
	report.Reason, report.Message = verdict.Reason, verdict.Message
	report.RetryAfter = reconciler.MinRequeue(report.RetryAfter, verdict.Again)
}

// reportUnstatedReplicas says in a condition of its own that an autoscaler cannot read the scale subresource of the custom
// resource: the API server answers that of one that does not state its replicas with an error.
func (d *target) reportUnstatedReplicas(seen *state) {
	conditions := &d.status.Conditions
	if seen.ownerAutoscaler == "" || d.spec.Workload().Replicas != nil {
		meta.RemoveStatusCondition(conditions, appv1.ConditionReplicasUnstated)
		return
	}
	meta.SetStatusCondition(conditions, metav1.Condition{
		Type: appv1.ConditionReplicasUnstated, Status: metav1.ConditionTrue, Reason: appv1.ConditionReplicasUnstated,
		ObservedGeneration: d.owner.GetGeneration(),
		Message: fmt.Sprintf(messageReplicasUnstated,
			seen.ownerAutoscaler, d.scalable),
	})
}

// noteIgnoredReplicas says that an autoscaler's number of pods counts and not the stated one.
func (d *target) noteIgnoredReplicas(autoscaler, kind string, report *reconciler.Report) {
	if autoscaler == "" || d.spec.Workload().Replicas == nil || report.AppliedNote.Reason != "" {
		return
	}
	report.AppliedNote = reconciler.ReasonAndMessage{
		Reason:  appv1.ReasonReplicasIgnored,
		Message: fmt.Sprintf(messageReplicasIgnored, autoscaler, kind, d.name),
	}
}

// reportInputs states in the status which inputs are in use, and whether there are newer ones.
func (d *target) reportInputs(live client.Object) {
	used, err := resource.DecodeInputs(live.GetAnnotations()[appv1.AnnotationLastAppliedInputs])
	if err != nil {
		return
	}
	if used.Kept {
		return // They shape nothing yet.
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
