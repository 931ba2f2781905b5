package controllers

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appv1 "huolala.cn/app-operator/api/v1"
	"huolala.cn/app-operator/internal/reconciler"
	"huolala.cn/app-operator/internal/stored"
	"huolala.cn/app-operator/internal/workload"
)

// reportPending states in the status what waits, and computes it again only if that can have changed: a new operator does so once.
func (s *Deps) reportPending(ctx context.Context, k *kind, obj reconciler.Resource, report *reconciler.Report) {
	status, name := obj.CommonStatus(), pendingKey{manager: k.manager, owner: client.ObjectKeyFromObject(obj)}
	switch {
	case report.Pause == reconciler.NotPaused && isPaused(obj):
		return // The steps failed before they had compared anything, at a read for example: the status is as true as before.
	case report.Pause != reconciler.Pending:
		status.Pending = nil
		s.Pending.forget(name)
		return
	}
	cause := pendingCause(obj, report)
	if left, ok := s.Pending.remaining(name, cause, s.Clock.Now()); ok && len(status.Pending) > 0 {
		report.RetryAfter = reconciler.MinRequeue(report.RetryAfter, left)
		return
	}
	bounded, cancel := context.WithTimeout(ctx, pendingTimeout)
	defer cancel()
	run, err := s.dryRun(bounded, k, obj)
	if err != nil {
		s.retryPending(status, report)
		return
	}
	made := s.planOf(bounded, k, obj, &run)
	if run.hasFailed() || made.Incomplete {
		s.retryPending(status, report)
		return
	}
	made.Paused = false // The status has it.
	status.Pending = append([]string{made.Summary()}, made.Lines(maxPending-1, maxPendingLine)...)
	counts := run.counts()
	report.RetryAfter = reconciler.MinRequeue(report.RetryAfter, counts)
	s.Pending.set(name, cause, s.Clock.Now(), counts)
}

// retryPending has no plan in the status, and the plan computed again later.
func (s *Deps) retryPending(status *appv1.CommonStatus, report *reconciler.Report) {
	status.Pending = nil
	report.RetryAfter = reconciler.MinRequeue(report.RetryAfter, workload.Unwatched)
}

// hasFailed reports whether a request of the dry run has failed, so that its plan lacks objects. A request that the API server forbids is an
// obstacle that the plan has.
func (d *dryRun) hasFailed() bool {
	var stalled *reconciler.StalledError
	var waiting *reconciler.WaitingError
	if d.err == nil || errors.As(d.err, &stalled) || errors.As(d.err, &waiting) {
		return false
	}
	reason, _ := reconciler.ReasonAndMessageOf(d.err)
	return reason != appv1.ReasonForbidden
}

// counts returns for how long the plan of the dry run counts, 0 for until an event: an obstacle may end without one.
func (d *dryRun) counts() time.Duration {
	errs := []error{d.err}
	for _, found := range d.journal.Changed() {
		errs = append(errs, found.Err)
	}
	var counts time.Duration
	for _, err := range errs {
		var stalled *reconciler.StalledError
		var waiting *reconciler.WaitingError
		switch {
		case err == nil:
		case errors.As(err, &stalled):
			counts = reconciler.MinRequeue(counts, stalled.RetryAfter)
		case errors.As(err, &waiting):
			counts = reconciler.MinRequeue(counts, waiting.RetryAfter)
		default:
			counts = reconciler.MinRequeue(counts, workload.Unwatched)
		}
	}
	return counts
}

// pendingCause returns a sum of the sources of a plan of a paused resource: its generation, the annotations that the operator reads, and the changes
// that are held back.
func pendingCause(obj client.Object, report *reconciler.Report) [sha256.Size]byte {
	cause := fmt.Sprintf("%s %d %q", obj.GetUID(), obj.GetGeneration(), report.PendingKey)
	for _, name := range stored.ReadAnnotations() {
		cause += fmt.Sprintf(" %q", obj.GetAnnotations()[name])
	}
	return sha256.Sum256([]byte(cause))
}

// pendingKey is the key of a custom resource by the field manager of its kind.
type pendingKey struct {
	manager string
	owner   types.NamespacedName
}

// pendingPlans has the causes of the plans in the statuses.
type pendingPlans struct {
	mu    sync.Mutex
	plans map[pendingKey]pendingPlan
}

// pendingPlan is the cause of one plan, and the time until which the plan counts, zero for no end.
type pendingPlan struct {
	cause [sha256.Size]byte
	until time.Time
}

func newPendingPlans() *pendingPlans {
	return &pendingPlans{plans: map[pendingKey]pendingPlan{}}
}

// remaining reports whether there is a plan of this cause that counts, and returns for how long it does, 0 for no end.
func (p *pendingPlans) remaining(key pendingKey, cause [sha256.Size]byte, now time.Time) (left time.Duration, ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	known, ok := p.plans[key]
	switch {
	case !ok || known.cause != cause:
		return 0, false
	case known.until.IsZero():
		return 0, true
	}
	left = known.until.Sub(now)
	return left, left > 0
}

// set keeps the cause of a plan that counts for a time, 0 for no end.
func (p *pendingPlans) set(key pendingKey, cause [sha256.Size]byte, now time.Time, counts time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	made := pendingPlan{cause: cause}
	if counts > 0 {
		made.until = now.Add(counts)
	}
	p.plans[key] = made
}

func (p *pendingPlans) forget(key pendingKey) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.plans, key)
}
