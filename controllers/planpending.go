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
	known, ok := s.Pending.get(name)
	if len(status.Pending) > 0 && ok && known == cause {
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
	failed, counts := run.obstacle()
	if failed || made.Incomplete {
		s.retryPending(status, report)
		return
	}
	made.Paused = false // The status has it.
	status.Pending = append([]string{made.Summary()}, made.Lines(maxPending-1, maxPendingLine)...)
	if counts > 0 {
		report.RetryAfter = reconciler.MinRequeue(report.RetryAfter, counts)
		s.Pending.forget(name)
		return
	}
	s.Pending.set(name, cause)
}

// retryPending has no plan in the status, and the plan computed again later.
func (s *Deps) retryPending(status *appv1.CommonStatus, report *reconciler.Report) {
	status.Pending = nil
	report.RetryAfter = reconciler.MinRequeue(report.RetryAfter, workload.Unwatched)
}

// obstacle returns whether a request of a dry run has failed, so that its plan lacks objects, and for how long the plan counts where an obstacle is
// not watched, 0 for until an event.
func (d *dryRun) obstacle() (failed bool, counts time.Duration) {
	errs := []error{d.err}
	for _, found := range d.journal.Changed() {
		errs = append(errs, found.Err)
	}
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
			reason, _ := reconciler.ReasonAndMessageOf(err)
			failed = failed || reason != appv1.ReasonForbidden
			counts = reconciler.MinRequeue(counts, workload.Unwatched)
		}
	}
	return failed, counts
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
	mu     sync.Mutex
	causes map[pendingKey][sha256.Size]byte
}

func newPendingPlans() *pendingPlans {
	return &pendingPlans{causes: map[pendingKey][sha256.Size]byte{}}
}

func (p *pendingPlans) get(key pendingKey) ([sha256.Size]byte, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	cause, ok := p.causes[key]
	return cause, ok
}

func (p *pendingPlans) set(key pendingKey, cause [sha256.Size]byte) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.causes[key] = cause
}

func (p *pendingPlans) forget(key pendingKey) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.causes, key)
}
