package workload

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appv1 "huolala.cn/app-operator/api/v1"
	"huolala.cn/app-operator/internal/apply"
	"huolala.cn/app-operator/internal/children"
	"huolala.cn/app-operator/internal/claim"
	"huolala.cn/app-operator/internal/reconciler"
	"huolala.cn/app-operator/resource"
)

// With app.huolala.cn/adopt: without-restart, an App or ModelBox takes over a Deployment and does not state its pod template, so that
// the adoption cannot restart a pod. That the template is kept is in the record of the inputs, and lasts until the spec changes or a
// refresh requests another template. During that time, the operator owns nothing of the template, and repairs nothing there.

// recoverKept reports whether the live pod template is kept since an adoption, and returns the history with that fact even if other writers
// have changed the records: the operator's requests own no field of a kept template. A record of the spec that another writer has changed
// proves no change of the spec, so that it restarts no pod.
func (c decider) recoverKept(h resource.Provenance, refresh string) (kept resource.Provenance, isKept bool) {
	in, live := c.in, c.seen.Object
	if !in.Kind.Holds || live == nil || !h.Exists || !h.Ours {
		return h, false
	}
	recorded, err := resource.DecodeInputs(h.Inputs)
	owned := children.OwnsAnnotation(live, in.fieldManager(), appv1.AnnotationLastAppliedInputs)
	if err == nil && owned && !recorded.Kept {
		return h, false
	}
	applies := children.Applies(live, in.fieldManager())
	if apply.OwnsTemplate(live, in.fieldManager()) || !applies && (err != nil || !recorded.Kept) {
		return h, false
	}
	if err != nil || applies && !owned {
		inputs := c.seen.today
		inputs.Refresh, inputs.Kept = refresh, true
		h.Inputs = inputs.Encode()
	}
	if applies && !children.OwnsAnnotation(live, in.fieldManager(), appv1.AnnotationLastAppliedSpec) {
		h.SpecChanged = false
	}
	return h, true
}

// keepsTemplate reports whether the adoption of a live Deployment leaves its pod template as it is. A Deployment with
// the same recorded spec and a matching template is taken over in full.
func (c decider) keepsTemplate(h resource.Provenance, w *resource.Workload) (bool, error) {
	keeps := c.in.adoptsWithoutRestart() || c.in.adoptsObjects() && c.in.canarySpec() != nil // The change of the adoption runs in a canary first.
	if !keeps || c.seen.Object == nil || c.seen.isOwned(c.in.Owner) {
		return false, nil
	}
	if !h.Exists || !h.Ours || h.SpecChanged || !apply.OwnsTemplate(c.seen.Object, c.in.fieldManager()) {
		return true, nil
	}
	same, err := c.compare.Matches(templateOnly(w.Template), templateOnly(c.seen.podTemplate()))
	return !same, err
}

// replacesAdopted reports whether the pod template that was kept by an adoption is to be replaced, which a canary tries first.
func (c decider) replacesAdopted() bool {
	return c.in.canarySpec() != nil && c.in.adoptsObjects() && !c.in.adoptsWithoutRestart() && c.seen.isOwned(c.in.Owner)
}

// keepLiveTemplate returns the workload with the live pod template that the operator leaves as it is, or an error if the adoption of the Deployment, without
// a restart or with a canary first, would lead to ports that its pods do not have. Of a Deployment that is not the owner's, the cache does not have the template.
func (r *Reconciler) keepLiveTemplate(ctx context.Context, in *Input, w *resource.Workload, seen *Observed) (*resource.Workload, error) {
	live := seen.Deployment()
	if live == nil || !w.NamesTemplate() || metav1.GetControllerOf(live) != nil && !seen.isOwned(in.Owner) {
		return w, nil
	}
	switch unread := len(live.Spec.Template.Spec.Containers) == 0; {
	case unread && in.Paused:
		return w, nil
	case unread:
		whole := &appsv1.Deployment{}
		switch err := r.Live.Get(ctx, client.ObjectKeyFromObject(live), whole); {
		case apierrors.IsNotFound(err):
			return nil, fmt.Errorf("%w: %w", reconciler.ErrStale, err)
		case err != nil:
			return nil, fmt.Errorf("read Deployment %s: %w", live.Name, err)
		}
		live = whole
	}
	kept := w.WithKeptTemplate(&live.Spec.Template)
	undeclared := kept.UndeclaredPorts()
	// A Deployment that has lost its owner since its adoption, as by a restore, is returned. The record of another kind is about the ports of that kind.
	recorded, err := inputsOf(live)
	returned := err == nil && recorded.Kept && !children.AppliedByOther(live, in.fieldManager())
	if len(undeclared) == 0 || in.Paused || returned || seen.isOwned(in.Owner) {
		return kept, nil
	}
	return nil, &reconciler.StalledError{
		Reason: appv1.ReasonAdoptionRestarts, RetryAfter: Unwatched,
		Message: fmt.Sprintf(messageKeptPorts, live.Name, strings.Join(undeclared, ", ")) + messageNothingChanged,
	}
}

// refuseRestart returns an error if the adoption of a Service would lead it to other pods. Of a Service that is not the owner's, the
// cache does not have the selector.
func (r *Reconciler) refuseRestart(ctx context.Context, in *Input, w *resource.Workload, seen *Observed, req *apply.Request) error {
	if in.Paused || !in.adoptsWithoutRestart() || seen.Object == nil || seen.Service == nil || len(w.Ports) == 0 ||
		metav1.GetControllerOf(seen.Service) != nil {
		return nil
	}
	var live corev1.Service
	switch err := r.Live.Get(ctx, client.ObjectKeyFromObject(seen.Service), &live); {
	case apierrors.IsNotFound(err):
		return fmt.Errorf("%w: %w", reconciler.ErrStale, err)
	case err != nil:
		return fmt.Errorf("read Service %s: %w", seen.Service.Name, err)
	}
	if maps.Equal(live.Spec.Selector, w.Selector) {
		return nil
	}
	stalled := &reconciler.StalledError{
		Reason: appv1.ReasonAdoptionRestarts, RetryAfter: Unwatched,
		Message: fmt.Sprintf(messageServiceSelects,
			live.Name, claim.SelectorText(live.Spec.Selector), seen.Object.GetName(), claim.SelectorText(w.Selector)),
	}
	var serves *reconciler.StalledError
	for i := range req.Objects {
		err := r.Engine.CheckServes(ctx, req, &req.Objects[i], &live)
		switch {
		case errors.As(err, &serves):
			stalled.Message = serves.Message + messageNothingChanged
		case err != nil:
			return err
		}
	}
	return stalled
}

// nameRestart gives the immutable-field error of an adoption without restart the reason AdoptionRestarts.
func nameRestart(in *Input, err error, adopts bool) error {
	var stalled *reconciler.StalledError
	if !adopts || !in.adoptsWithoutRestart() || !errors.As(err, &stalled) || stalled.Reason != appv1.ReasonImmutableField {
		return err
	}
	return &reconciler.StalledError{
		Reason: appv1.ReasonAdoptionRestarts, Message: stalled.Message + messageNothingAdopted, RetryAfter: stalled.RetryAfter,
	}
}
