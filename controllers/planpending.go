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

	"huolala.cn/app-operator/api/plan"
	appv1 "huolala.cn/app-operator/api/v1"
	"huolala.cn/app-operator/internal/reconciler"
	"huolala.cn/app-operator/internal/stored"
	"huolala.cn/app-operator/internal/workload"
)

// reportPending states in the status what waits, and computes it again only if that can have changed: a new operator does so once. failure is the
// error of the steps.
func (s *Deps) reportPending(ctx context.Context, k *kind, obj reconciler.Resource, report *reconciler.Report, failure error) {
	_, compared := obstacleRetry(failure)
	status, name := obj.CommonStatus(), pendingKey{manager: k.manager, owner: client.ObjectKeyFromObject(obj)}
	switch {
	case isPaused(obj) && (report.Pause == reconciler.NotPaused || !compared):
		// A step failed before all objects were compared, at a read for example: what waits is as true as before.
		report.Pause = max(report.Pause, reconciler.Paused)
		return
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
	var made *plan.Plan
	if err == nil {
		made = s.planOf(bounded, k, obj, &run)
	}
	if made == nil || made.Incomplete || run.hasFailed() {
		status.Pending = nil
		report.RetryAfter = reconciler.MinRequeue(report.RetryAfter, workload.Unwatched)
		return
	}
	made.Paused = false // The status has it.
	status.Pending = append([]string{made.Summary()}, made.Lines(maxPending-1, maxPendingLine)...)
	counts := run.counts()
	report.RetryAfter = reconciler.MinRequeue(report.RetryAfter, counts)
	s.Pending.set(name, cause, s.Clock.Now(), counts)
}

// pausedReport returns the report on a resource that cannot be decoded: its pause alone.
func pausedReport(obj client.Object) reconciler.Report {
	if isPaused(obj) {
		return reconciler.Report{Pause: reconciler.Paused}
	}
	return reconciler.Report{}
}

// obstacleRetry returns the time after which an obstacle is looked at again, 0 for an obstacle whose end is an event. isObstacle is false for a request
// that has failed. A request that the API server forbids meets an obstacle.
func obstacleRetry(err error) (retry time.Duration, isObstacle bool) {
	var stalled *reconciler.StalledError
	var waiting *reconciler.WaitingError
	switch {
	case err == nil:
		return 0, true
	case errors.As(err, &stalled):
		return stalled.RetryAfter, true
	case errors.As(err, &waiting):
		return waiting.RetryAfter, true
	}
	reason, _ := reconciler.ReasonAndMessageOf(err)
	return workload.Unwatched, reason == appv1.ReasonForbidden
}

// hasFailed reports whether a request of the dry run has failed, so that its plan lacks objects.
func (d *dryRun) hasFailed() bool {
	_, isObstacle := obstacleRetry(d.err)
	return !isObstacle
}

// counts returns for how long the plan of the dry run counts, 0 for until an event: an obstacle may end without one.
func (d *dryRun) counts() time.Duration {
	counts, _ := obstacleRetry(d.err)
	for _, found := range d.journal.Changed() {
		retry, _ := obstacleRetry(found.Err)
		counts = reconciler.MinRequeue(counts, retry)
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
