package controllers

import (
	"context"
	"errors"
	"fmt"
	"maps"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appv1 "huolala.cn/app-operator/api/v1"
	"huolala.cn/app-operator/internal/apply"
	"huolala.cn/app-operator/internal/claim"
	"huolala.cn/app-operator/internal/reconciler"
	"huolala.cn/app-operator/resource"
)

// With app.huolala.cn/adopt: without-restart, an App or ModelBox takes over a Deployment and does not state its pod template, so that
// the adoption cannot restart a pod. That the template is kept is in the record of the inputs, and lasts until the spec changes or a
// refresh requests another template. During that time, the operator owns nothing of the template, and repairs nothing there.

// adopts reports whether the owner takes over objects that nothing controls.
func (d *target) adopts() bool {
	return d.owner.GetAnnotations()[appv1.AnnotationAdopt] == "true" || d.adoptsWithoutRestart()
}

// adoptsWithoutRestart reports whether the owner does so without stating the pod template. Kinds without a history do not know that.
func (d *target) adoptsWithoutRestart() bool {
	return d.history != nil && d.owner.GetAnnotations()[appv1.AnnotationAdopt] == appv1.AdoptWithoutRestart
}

// recoverKept reports whether the live pod template is kept since an adoption, and returns the history with that fact even if other writers
// have changed the records: the operator's requests own no field of a kept template. A record of the spec that another writer has changed
// proves no change of the spec, so that it restarts no pod.
func (c decider) recoverKept(h resource.Provenance, refresh string) (kept resource.Provenance, isKept bool) {
	d, live := c.d, c.seen.object
	if d.history == nil || live == nil || !h.Exists || !h.Ours {
		return h, false
	}
	recorded, err := resource.DecodeInputs(h.Inputs)
	owned := apply.OwnsAnnotation(live, d.manager, appv1.AnnotationLastAppliedInputs)
	if err == nil && owned && !recorded.Kept {
		return h, false
	}
	applies := apply.Applies(live, d.manager)
	if apply.OwnsTemplate(live, d.manager) || !applies && (err != nil || !recorded.Kept) {
		return h, false
	}
	if err != nil || applies && !owned {
		in := c.seen.today
		in.Refresh, in.Kept = refresh, true
		h.Inputs = in.Encode()
	}
	if applies && !apply.OwnsAnnotation(live, d.manager, appv1.AnnotationLastAppliedSpec) {
		h.SpecChanged = false
	}
	return h, true
}

// keepsTemplate reports whether the adoption of a live Deployment leaves its pod template as it is. A Deployment that the operator
// has applied for the same spec, and that has all that the workload states, needs nothing of that: it is restored to the App that
// it was left by.
func (c decider) keepsTemplate(h resource.Provenance, w *resource.Workload) (bool, error) {
	keeps := c.d.adoptsWithoutRestart() || c.d.adopts() && c.d.canarySpec() != nil // The change of the adoption runs in a canary first.
	if !keeps || c.seen.object == nil || c.seen.isOwned(c.d.owner) {
		return false, nil
	}
	if !h.Exists || !h.Ours || h.SpecChanged || !apply.OwnsTemplate(c.seen.object, c.d.manager) {
		return true, nil
	}
	same, err := c.compare.Matches(templateOnly(w.Template), templateOnly(c.seen.template()))
	return !same, err
}

// replacesAdopted reports whether the pod template that was kept by an adoption is to be replaced, which a canary tries first.
func (c decider) replacesAdopted() bool {
	return c.d.canarySpec() != nil && c.d.adopts() && !c.d.adoptsWithoutRestart() && c.seen.isOwned(c.d.owner)
}

// refuseRestart returns an error if the adoption of a Service would lead it to other pods. Of a Service that is not the owner's, the
// cache does not have the selector.
func (s *Deps) refuseRestart(ctx context.Context, d *target, w *resource.Workload, seen *observed, req *apply.Request) error {
	if d.paused || !d.adoptsWithoutRestart() || seen.object == nil || seen.service == nil || len(w.Ports) == 0 ||
		metav1.GetControllerOf(seen.service) != nil {
		return nil
	}
	var live corev1.Service
	switch err := s.Live.Get(ctx, client.ObjectKeyFromObject(seen.service), &live); {
	case apierrors.IsNotFound(err):
		return fmt.Errorf("%w: %w", reconciler.ErrStale, err)
	case err != nil:
		return fmt.Errorf("read Service %s: %w", seen.service.Name, err)
	}
	if maps.Equal(live.Spec.Selector, w.Selector) {
		return nil
	}
	stalled := &reconciler.StalledError{
		Reason: appv1.ReasonAdoptionRestarts, RetryAfter: unwatched,
		Message: fmt.Sprintf(messageServiceSelects,
			live.Name, claim.SelectorText(live.Spec.Selector), seen.object.GetName(), claim.SelectorText(w.Selector)),
	}
	var serves *reconciler.StalledError
	for i := range req.Objects {
		err := s.Engine.CheckServes(ctx, req, &req.Objects[i], &live)
		switch {
		case errors.As(err, &serves):
			stalled.Message = serves.Message + messageNothingChanged
		case err != nil:
			return err
		}
	}
	return stalled
}

// nameRestart has an error of an adoption say that it is one which would restart the pods, if a field is in the way that cannot be
// changed.
func (d *target) nameRestart(err error, adopts bool) error {
	var stalled *reconciler.StalledError
	if !adopts || !d.adoptsWithoutRestart() || !errors.As(err, &stalled) || stalled.Reason != appv1.ReasonImmutableField {
		return err
	}
	return &reconciler.StalledError{
		Reason: appv1.ReasonAdoptionRestarts, Message: stalled.Message + messageNothingAdopted, RetryAfter: stalled.RetryAfter,
	}
}

// reportKept adds to the report that the pod template is kept since an adoption.
func (d *target) reportKept(live *appsv1.Deployment, report *reconciler.Report) {
	if d.history == nil || live == nil || !metav1.IsControlledBy(live, d.owner) {
		return
	}
	in, err := resource.DecodeInputs(live.Annotations[appv1.AnnotationLastAppliedInputs])
	if err != nil || !in.Kept {
		return
	}
	report.Pods.Message += messagePodsKept
	if report.Note.Reason == "" {
		report.Note = reconciler.ReasonAndMessage{
			Reason: appv1.ReasonTemplateKept, Message: fmt.Sprintf(messageTemplateKept, live.Name),
		}
	}
}
