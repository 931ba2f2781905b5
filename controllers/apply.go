package controllers

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appv1 "huolala.cn/app-operator/api/v1"
	"huolala.cn/app-operator/internal/apply"
	"huolala.cn/app-operator/internal/health"
	"huolala.cn/app-operator/internal/reconciler"
	"huolala.cn/app-operator/resource"
)

// newApplyRequest returns the request for the workload's objects. Objects that the operator has applied for the owner, and that the workload no
// longer has, are pruned: at once under the workload's name, and under an earlier name once the pods of the workload are ready.
// routeGrace is for how long a former Service stays yet.
func (s *Deps) newApplyRequest(ctx context.Context, d *target, w *resource.Workload, seen *observed) (req *apply.Request, routeGrace time.Duration, err error) {
	req = d.newRequest()
	req.Policy.DefaultLabels = w.DefaultLabels
	var wanted []client.Object
	for _, obj := range w.Objects() {
		child, err := s.childOf(ctx, d, obj, seen)
		if err != nil {
			return nil, 0, err
		}
		child.StatedLabels = w.StatedLabels(obj)
		wanted = append(wanted, obj)
		req.Objects = append(req.Objects, child)
	}
	former := seen.owned.Without(wanted...)
	for _, service := range []*corev1.Service{seen.service, seen.former} {
		if service != nil { // The Service of a tutorial's operator has no mark of this operator.
			former = append(former, apply.Inventory{service}.Without(slices.Concat(wanted, former)...)...)
		}
	}
	for _, obj := range former {
		if seen.isCanary(obj) {
			continue
		}
		account, ok := obj.(*corev1.ServiceAccount)
		waits := ok && seen.isNamed(account, d.owner) || !d.isReplaced(obj, w, seen)
		if !waits {
			grace := s.remainingGrace(d, w, obj, seen)
			waits, routeGrace = grace > 0, max(routeGrace, grace)
		}
		if !waits || s.Mode == apply.DryRun { // A plan has what follows, too.
			req.Prune = append(req.Prune, obj)
		}
	}
	return req, routeGrace, nil
}

// isReplaced reports whether an object that the workload no longer has can be deleted. A Service of another name is deleted once its
// successor exists and the pods are ready; without a successor, a Service that selects the pods is deleted at once.
func (d *target) isReplaced(obj client.Object, w *resource.Workload, seen *observed) bool {
	service, ok := obj.(*corev1.Service)
	if !ok || len(w.Ports) == 0 {
		return obj.GetName() == d.name || ok && maps.Equal(service.Spec.Selector, w.Selector) || seen.isReady(d.owner)
	}
	return seen.service != nil && metav1.IsControlledBy(seen.service, d.owner) && health.Service(seen.service).Ready && seen.isReady(d.owner)
}

// freeNodePorts deletes the Services of former names that have node ports which the workload's Service is to have, and is not
// there yet: the cluster has each once. Without that, a former Service waits for the new one.
func (s *Deps) freeNodePorts(ctx context.Context, d *target, w *resource.Workload, seen *observed) (apply.ChangeSet, error) {
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
			req.Prune = append(req.Prune, service)
		}
	}
	if len(req.Prune) == 0 {
		return nil, nil
	}
	done, err := s.applyRequest(ctx, req, s.Mode)
	return done.Changes(), err
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

// newRequest returns a request for children of the owner.
func (d *target) newRequest(children ...apply.Object) *apply.Request {
	annotations := d.owner.GetAnnotations()
	return &apply.Request{
		Owner:   d.owner,
		Manager: d.manager,
		Objects: children,
		Policy:  apply.Policy{Adopt: d.adopts(), AcceptOverrides: annotations[appv1.AnnotationAcceptOverrides] == "true"},
		Before:  apply.Before{Existed: d.existedBefore(), Overridden: d.overriddenMessage()},
	}
}

// overriddenMessage returns the message of the condition Applied about fields that are not kept, from the owner's status, which only the
// operator writes.
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

// applied is what came of the applies of one reconcile.
type applied struct {
	// seen is the observation after the last apply.
	seen *observed
	// err is the error of the first apply, and last the error of the last one. refused is why nothing new was written, nil if it was.
	err, last, refused error
	// notWritten is true where the workload object is not as wanted, and was certainly not written.
	notWritten bool
	// changes are what each apply wrote.
	changes []apply.ChangeSet
	// pending is true where a pause holds back a change, and heldBack describes it.
	pending  bool
	heldBack string
	// auxiliary are the auxiliary objects as they were applied, and auxiliaryKnown is true once it is known which are to be applied.
	auxiliary      []apply.Outcome
	auxiliaryKnown bool
	// troubles are the obstacles to auxiliary objects, one for each apply.
	troubles []error
	// routeGrace is for how long a former Service stays yet.
	routeGrace time.Duration
	// secretChecked is true once a database's Secret was found, or made, as it should be.
	secretChecked bool
}

// failApply returns the outcome of an apply that has written nothing.
func failApply(seen *observed, err error) *applied { return &applied{seen: seen, err: err, last: err} }

// isStale reports whether the decision was made on an outdated view.
func (a *applied) isStale() bool { return errors.Is(a.err, reconciler.ErrStale) }

// then returns the outcome of an apply after another one.
func (a *applied) then(b *applied) *applied {
	all := *b
	all.err = a.err
	all.changes = slices.Concat(a.changes, b.changes)
	all.pending, all.heldBack = a.pending || b.pending, a.heldBack+b.heldBack
	all.auxiliary, all.auxiliaryKnown = slices.Concat(a.auxiliary, b.auxiliary), a.auxiliaryKnown || b.auxiliaryKnown
	all.troubles = slices.Concat(a.troubles, b.troubles)
	all.routeGrace = cmp.Or(a.routeGrace, b.routeGrace)
	all.secretChecked = b.secretChecked
	return &all
}

// applyWorkload applies a workload that is a Deployment and a Service.
func (s *Deps) applyWorkload(ctx context.Context, d *target, seen *observed, w *resource.Workload, how application) *applied {
	if w.ServiceName != seen.serviceName {
		var err error
		if seen, err = s.observeService(ctx, d, seen, w.ServiceName); err != nil {
			return failApply(seen, err)
		}
	}
	req, grace, err := s.newApplyRequest(ctx, d, w, seen)
	if err != nil {
		return failApply(seen, err)
	}
	req.Policy.AllOrNothing = how.whole
	if how.earlier {
		req.Prune = nil
	}
	if how.alone {
		req.Objects = slices.DeleteFunc(req.Objects, func(c apply.Object) bool { return c.Independent })
	}
	d.addCanary(req, seen, &how.canary)
	headless := d.refuseHeadlessChange(s.Client.Scheme(), req, seen.service)
	if err := s.refuseRestart(ctx, d, w, seen, req); err != nil {
		return failApply(seen, err)
	}
	switch {
	case d.paused:
		out := s.planRequest(ctx, req, seen, grace)
		out.err = reconciler.Aggregate(headless, out.err)
		out.last = out.err
		return out
	case headless != nil && req.Policy.AllOrNothing:
		return &applied{seen: seen, err: headless, last: headless, refused: headless}
	case headless != nil && d.adoptsObject(req):
		return failApply(seen, d.nameRestart(headless, true))
	}
	freed, err := s.freeNodePorts(ctx, d, w, seen)
	if err != nil {
		return failApply(seen, err)
	}
	adopts := d.adoptsObject(req)
	done, err := s.applyRequest(ctx, req, s.Mode)
	out := newApplied(seen, &done, grace)
	out.changes = []apply.ChangeSet{append(freed, done.Changes()...)}
	if service := out.seen.service; err == nil && service != nil && slices.ContainsFunc(req.Prune, func(obj client.Object) bool {
		return obj.GetUID() == service.UID
	}) {
		out.seen.service = nil // out.seen is a new value, which nobody has yet.
	}
	out.err = reconciler.Aggregate(d.nameRestart(err, adopts), headless)
	out.last = out.err
	return out
}

// addCanary adds to a request what becomes of the canary. A Deployment of others never becomes a canary.
func (d *target) addCanary(req *apply.Request, seen *observed, canary *canaryDecision) {
	if canary.fate == canaryDropped {
		req.Prune = append(req.Prune, seen.canary.object)
	}
	if canary.fate != canaryApplied && canary.fate != canaryReplaced {
		return
	}
	req.Policy.Adopt = false
	for i := range req.Objects {
		if object := &req.Objects[i]; seen.isCanary(object.Desired) {
			object.Replace, object.ReplacePods = canary.fate == canaryReplaced, true
		}
	}
	if canary.alone {
		req.Objects = slices.DeleteFunc(req.Objects, func(o apply.Object) bool { return !o.Prerequisite && !seen.isCanary(o.Desired) })
	}
}

// newApplied returns the outcome of a request as the engine has left it.
func newApplied(seen *observed, done *apply.Outcomes, grace time.Duration) *applied {
	out := &applied{
		seen: seen.after(done.Objects), refused: done.Refusal, auxiliaryKnown: true, routeGrace: grace,
		changes: []apply.ChangeSet{done.Changes()},
	}
	for i := range done.Objects {
		object := &done.Objects[i]
		switch object.Object.Desired.(type) {
		case *appsv1.Deployment, *appsv1.StatefulSet:
			if !seen.isCanary(object.Object.Desired) {
				out.notWritten = object.NotWritten
			}
		}
		if object.Object.Auxiliary {
			out.auxiliary = append(out.auxiliary, *object)
		}
	}
	if trouble := done.Trouble(); trouble != nil {
		out.troubles = []error{trouble}
	}
	return out
}

// planRequest finds out, without a request to the API server, whether there is anything to apply.
func (s *Deps) planRequest(ctx context.Context, req *apply.Request, seen *observed, grace time.Duration) *applied {
	done, err := s.applyRequest(ctx, req, apply.Local)
	out, changes := newApplied(seen, &done, grace), done.Changes()
	out.changes = nil // Nothing is written.
	out.seen, out.err, out.last, out.refused, out.notWritten = seen, err, err, nil, false
	if changes.Waits() {
		_, line := changes.Summary()
		out.pending, out.heldBack = true, line+describeRollouts(req)+"\n"
	}
	return out
}

// describeRollouts returns the template hash of each live workload object of a request, and whether all its pods have that template.
func describeRollouts(req *apply.Request) string {
	said := ""
	describe := func(generation, observed int64, pods, updated int32) {
		said += fmt.Sprintf("; %d %t", generation, observed == generation && updated == pods)
	}
	for i := range req.Objects {
		switch live := req.Objects[i].Live.(type) {
		case *appsv1.Deployment:
			describe(live.Generation, live.Status.ObservedGeneration, live.Status.Replicas, live.Status.UpdatedReplicas)
		case *appsv1.StatefulSet:
			describe(live.Generation, live.Status.ObservedGeneration, live.Status.Replicas, live.Status.UpdatedReplicas)
		}
	}
	return said
}

// applyChild returns an object as a child of the engine's. live may be a nil pointer.
func applyChild[T any, P interface {
	*T
	client.Object
}](desired, live P) apply.Object {
	c := apply.Object{Desired: desired}
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
		if !req.Policy.Adopt || apply.Taken(scheme, d.owner, live, live, true) != nil {
			return nil //nolint:nilerr // The engine returns this error for an object that it does not adopt.
		}
		again = ""
	}
	i := slices.IndexFunc(req.Objects, func(c apply.Object) bool {
		wanted, ok := c.Desired.(*corev1.Service)
		return ok && wanted.Name == live.Name && wanted.Spec.ClusterIP != corev1.ClusterIPNone
	})
	if i < 0 {
		return nil
	}
	req.Objects = slices.Delete(req.Objects, i, i+1)
	return reconciler.Stalled(appv1.ReasonImmutableField,
		messageServiceHeadless, live.Name, again)
}

// adoptsObject reports whether a request is for an object that lives and that the owner does not control yet. What is retained, and
// a claim, it never controls.
func (d *target) adoptsObject(req *apply.Request) bool {
	return req.Policy.Adopt && slices.ContainsFunc(req.Objects, func(c apply.Object) bool {
		_, claim := c.Live.(*corev1.PersistentVolumeClaim)
		return c.Live != nil && !claim && !c.Retained && !metav1.IsControlledBy(c.Live, d.owner)
	})
}
