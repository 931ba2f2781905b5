// Package reconciler is the one skeleton of every controller: it gets the resource, runs the kind's own steps, writes
// the status once if it differs, sends at most one event, and decides whether and when to come back. It is the only
// place that writes a status. It knows none of our kinds.
package reconciler

import (
	"context"
	"errors"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	appv1 "huolala.cn/app-operator/api/v1"
	"huolala.cn/app-operator/internal/health"
)

// Resource is a custom resource of any kind.
type Resource interface {
	client.Object
	// CommonStatus returns the part of the status that the Reconciler writes.
	CommonStatus() *appv1.CommonStatus
}

// ReasonAndMessage is the reason and the message of a condition.
type ReasonAndMessage struct{ Reason, Message string }

// InForce identifies the spec that the children match.
type InForce int

const (
	// Present is the current spec.
	Present InForce = iota
	// Held is an earlier spec that the user requested: the operator does nothing more once its pods are ready.
	Held
	// RolledBack is an earlier spec after a failed rollout of the current spec: the operator does nothing more until the user
	// acts.
	RolledBack
	// Earlier is an earlier spec for another reason, without a failure.
	Earlier
	// Canary is an earlier spec, while a few further pods run the current spec and wait for its promotion.
	Canary
)

// Pause is the effect of spec.paused.
type Pause int

const (
	// NotPaused is for a resource without spec.paused.
	NotPaused Pause = iota
	// Paused is for a paused resource whose children match the spec.
	Paused
	// Pending is for a paused resource with pending changes of its children.
	Pending
)

// Trouble is a problem of auxiliary objects; an empty reason means none.
type Trouble struct {
	ReasonAndMessage
	// Retry, if set, is an error that is retried with back-off.
	Retry error
}

// Report is the result of a kind's steps. The steps return failures as an error in addition.
type Report struct {
	// Pods is the health of the pods, the base of the Ready condition.
	Pods health.Verdict
	// InForce is the spec in force. Why is the reason and the message if that is not the current spec.
	InForce InForce
	Why     ReasonAndMessage
	// Pause is the effect of spec.paused. PendingKey identifies the pending changes and the state of the affected rollouts: the
	// same key means the same effect of the changes.
	Pause      Pause
	PendingKey string
	// Note, if its reason is set, describes deviations from the spec in force.
	Note ReasonAndMessage
	// Auxiliary is the problem of objects that the pods do not need: Applied is False, and Ready depends on the pods alone.
	Auxiliary Trouble
	// Conditions are the kind's own conditions. A condition without a status is removed.
	Conditions []metav1.Condition
	// RetryAfter, if set, is the time until the next reconcile without a watch event.
	RetryAfter time.Duration
	// Event is the content of the event.
	Event Event
	// ExactNumbers is true if the numbers in a message count, such as a number in the name of a Job: a message that differs in numbers alone
	// replaces the message before.
	ExactNumbers bool
}

// AddCondition adds a condition of the kind.
func (r *Report) AddCondition(c metav1.Condition) { r.Conditions = append(r.Conditions, c) }

// RemoveCondition removes a condition of the kind.
func (r *Report) RemoveCondition(kind string) { r.AddCondition(metav1.Condition{Type: kind}) }

// SetConditions sets the kind's own conditions in a status.
func (r *Report) SetConditions(conditions *[]metav1.Condition) {
	for _, c := range r.Conditions {
		if c.Status == "" {
			meta.RemoveStatusCondition(conditions, c.Type)
			continue
		}
		c.Message = steadyMessage(*conditions, &c, false)
		meta.SetStatusCondition(conditions, c)
	}
}

// Stored is a custom resource as the API server stores it.
type Stored[T Resource] interface {
	client.Object
	// Decode returns the typed resource. If the spec cannot be decoded, Decode returns a resource without a spec, and an error
	// with the cause.
	Decode() (T, error)
}

// Steps observes, applies and reports for one kind. It may set fields of obj's status, and no other field of obj. undecodable, if
// not nil, is the cause why obj has no spec.
type Steps[T Resource] func(ctx context.Context, obj T, undecodable error) (Report, error)

// Reconciler runs the steps of one kind.
type Reconciler[T Resource] struct {
	// Client reads from the cache and writes the status.
	Client client.Client
	// Recorder sends the events.
	Recorder events.EventRecorder
	// Kind is the resource's kind, for metrics.
	Kind string
	// Clock is for limiting how often the status is written.
	Clock clock.PassiveClock
	// New returns an empty resource.
	New func() Stored[T]
	// Steps is the kind's own part.
	Steps Steps[T]
	// OnReport, if set, adds to the report, and to the status of a resource that can be decoded, before the status is written. err is the error of
	// the steps.
	OnReport func(ctx context.Context, obj T, report *Report, err error)
	// OnDeleted, if set, is called when a resource no longer exists.
	OnDeleted func(types.NamespacedName)

	written paces
}

// Reconcile implements reconcile.Reconciler.
func (r *Reconciler[T]) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	stored := r.New()
	if err := Get(ctx, r.Client, req.NamespacedName, stored); err != nil {
		if apierrors.IsNotFound(err) {
			r.forgetDeleted(req.NamespacedName)
			return reconcile.Result{}, nil
		}
		return reconcile.Result{}, err
	}
	if stored.GetDeletionTimestamp() != nil {
		// The garbage collector deletes what the resource controls.
		return reconcile.Result{}, nil
	}

	obj, undecodable := stored.Decode()
	before, ok := obj.DeepCopyObject().(T)
	if !ok {
		return reconcile.Result{}, errors.New("the copy has another type")
	}
	report, err := r.Steps(ctx, obj, undecodable)
	if errors.Is(err, ErrStale) {
		r.emitWrites(obj, &report.Event)
		ctrl.LoggerFrom(ctx).V(1).Info("Retrying with the current state", "cause", err.Error())
		// Not RequeueAfter: the queue's back-off is wanted, in case the view does not catch up soon.
		return reconcile.Result{Requeue: true}, nil
	}
	if r.OnReport != nil && undecodable == nil {
		r.OnReport(ctx, obj, &report, err)
	}
	var postponed *PostponedError
	if errors.As(err, &postponed) {
		return reconcile.Result{RequeueAfter: postponed.After}, nil
	}
	setStatusConditions(obj, &report, err)
	stampTransitions(obj.CommonStatus().Conditions, before.CommonStatus().Conditions, r.Clock.Now())
	wait, patchErr := r.patchStatus(ctx, before, obj, report.Event.Reason != "")
	if patchErr == nil && wait == 0 {
		r.emitEvent(before, obj, &report)
		r.observeSettled(before, obj)
	} else {
		r.emitWrites(obj, &report.Event)
	}
	res, err := reconcileResult(err, patchErr, MinRequeue(wait, report.RetryAfter))
	if err == nil && report.Auxiliary.Retry != nil {
		return reconcile.Result{}, report.Auxiliary.Retry
	}
	return res, err
}

func (r *Reconciler[T]) forgetDeleted(name types.NamespacedName) {
	r.written.forgetResource(name)
	if r.OnDeleted != nil {
		r.OnDeleted(name)
	}
}

// reconcileResult decides whether and when to come back. A StalledError and a WaitingError are no failures: what ends them is
// watched, or they say when to look again.
func reconcileResult(err, patchErr error, wait time.Duration) (reconcile.Result, error) {
	var stalled *StalledError
	var waiting *WaitingError
	switch {
	case errors.As(err, &stalled):
		err, wait = nil, MinRequeue(wait, stalled.RetryAfter)
	case errors.As(err, &waiting):
		err, wait = nil, MinRequeue(wait, waiting.RetryAfter)
	}
	if apierrors.IsNotFound(patchErr) {
		patchErr = nil // The resource was deleted in the meantime.
	}
	if err := errors.Join(err, patchErr); err != nil {
		return reconcile.Result{}, err
	}
	return reconcile.Result{RequeueAfter: wait}, nil
}

// MinRequeue returns the smaller of two delays; 0 means none.
func MinRequeue(a, b time.Duration) time.Duration {
	if a == 0 || (b != 0 && b < a) {
		return b
	}
	return a
}

// maxAction is the length in bytes that the API allows an event's action.
const maxAction = 128
