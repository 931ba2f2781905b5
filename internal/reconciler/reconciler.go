// Package reconciler is the one skeleton of every controller: it gets the resource, runs the kind's own steps, writes
// the status once if it differs, sends at most one event, and decides whether and when to come back. It is the only
// place that writes a status. It knows none of our kinds.
package reconciler

import (
	"context"
	"errors"
	"time"

	corev1 "k8s.io/api/core/v1"
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
	// CommonStatus is the part of the status that the skeleton writes.
	CommonStatus() *appv1.CommonStatus
}

// ReasonAndMessage is the reason and the message of a condition.
type ReasonAndMessage struct{ Reason, Message string }

// InForce is the spec that the children have.
type InForce int

const (
	// Present is the present spec.
	Present InForce = iota
	// Held is an earlier spec that the user wants in force: nothing more happens once its pods are ready.
	Held
	// RolledBack is an earlier spec that is in force because the present one failed: nothing more happens until the user acts.
	RolledBack
	// Earlier is an earlier spec for another reason, although nothing went wrong.
	Earlier
)

// Pause says what spec.paused does.
type Pause int

const (
	// NotPaused is a resource whose children are written.
	NotPaused Pause = iota
	// Paused is a resource whose children are not written. All children are as the spec means them.
	Paused
	// Pending is a paused resource where a change of the children is held back.
	Pending
)

// Trouble is what is in the way of auxiliary objects, nothing if its reason is empty.
type Trouble struct {
	ReasonAndMessage
	// Retry, if set, is a failure that is tried again with back-off.
	Retry error
}

// Report is what a kind's steps found. What they could not do they return as an error next to it.
type Report struct {
	// Pods is the health of the pods: the Ready condition, as far as pods decide it.
	Pods health.Verdict
	// InForce is the spec that is in force. Why has the reason and the message where that is not the present one.
	InForce InForce
	Why     ReasonAndMessage
	// Pause says what spec.paused does. PendingKey names the changes that are held back, and the state of the rollouts that these
	// would change: the effect of the changes is the same while the key is.
	Pause      Pause
	PendingKey string
	// Note, where its reason is set, says in what way the spec that is in force is not in force to the letter.
	Note ReasonAndMessage
	// Auxiliary is the trouble of objects that the pods do not need: the spec is not in force as a whole, and Ready is about the pods
	// nevertheless.
	Auxiliary Trouble
	// Conditions are the kind's own conditions. A condition without a status is removed.
	Conditions []metav1.Condition
	// RetryAfter, if set, is when to reconcile again although nothing was seen to change.
	RetryAfter time.Duration
	// Event is what to report in an event.
	Event Event
}

// AddCondition adds a condition of the kind.
func (r *Report) AddCondition(c metav1.Condition) { r.Conditions = append(r.Conditions, c) }

// RemoveCondition has a condition of the kind removed.
func (r *Report) RemoveCondition(kind string) { r.AddCondition(metav1.Condition{Type: kind}) }

// SetConditions sets the kind's own conditions in a status.
func (r *Report) SetConditions(conditions *[]metav1.Condition) {
	for _, c := range r.Conditions {
		if c.Status == "" {
			meta.RemoveStatusCondition(conditions, c.Type)
			continue
		}
		meta.SetStatusCondition(conditions, c)
	}
}

// Stored is a custom resource as the API server stores it.
type Stored[T Resource] interface {
	client.Object
	// Decode returns the typed resource. With an error, which says what is wrong with the spec, it has no spec.
	Decode() (T, error)
}

// Steps is what a kind does: observe, apply, and say how it stands. It may set fields of obj's status, and nothing else
// of obj. undecodable, if not nil, says why obj has no spec.
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
	// OnDeleted, if set, is called when a resource no longer exists.
	OnDeleted func(types.NamespacedName)

	written paces
}

// Reconcile implements reconcile.Reconciler.
func (r *Reconciler[T]) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	stored := r.New()
	if err := Get(ctx, r.Client, req.NamespacedName, stored); err != nil {
		if apierrors.IsNotFound(err) {
			r.forget(req.NamespacedName)
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
		ctrl.LoggerFrom(ctx).V(1).Info("Retrying with the current state", "cause", err.Error())
		// Not RequeueAfter: the queue's back-off is wanted, in case the view does not catch up soon.
		return reconcile.Result{Requeue: true}, nil
	}
	var postponed *PostponedError
	if errors.As(err, &postponed) {
		return reconcile.Result{RequeueAfter: postponed.After}, nil
	}
	summarize(obj, &report, err)
	wait, patchErr := r.patchStatus(ctx, before, obj, report.Event.Reason != "")
	switch {
	case patchErr == nil && wait == 0:
		r.emitEvent(before, obj, &report)
		r.observeSettled(before, obj)
	case report.Event.Changes != "":
		// The next reconcile finds the children changed and has nothing to tell of them, so this one does, although the status
		// is not written. What the status says is told once it is.
		r.send(obj, corev1.EventTypeNormal, report.Event.Action, report.Event.Changes)
	}
	res, err := result(err, patchErr, MinRequeue(wait, report.RetryAfter))
	if err == nil && report.Auxiliary.Retry != nil {
		return reconcile.Result{}, report.Auxiliary.Retry
	}
	return res, err
}

func (r *Reconciler[T]) forget(name types.NamespacedName) {
	r.written.forget(name)
	if r.OnDeleted != nil {
		r.OnDeleted(name)
	}
}

// result decides whether and when to come back. A StalledError and a WaitingError are no failures: what ends them is
// watched, or they say when to look again.
func result(err, patchErr error, wait time.Duration) (reconcile.Result, error) {
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

// maxNote is the length in bytes that the API allows an event's note (k8s.io/api/events/v1).
const maxNote = 1024

// maxAction is the length in bytes that the API allows an event's action.
const maxAction = 128
