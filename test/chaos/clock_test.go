package chaos

import (
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	appv1 "huolala.cn/app-operator/api/v1"
	"huolala.cn/app-operator/test/harness"
)

// setClock is a clock that goes, and that a user sets.
type setClock struct{ by atomic.Int64 }

// Now implements clock.PassiveClock.
func (c *setClock) Now() time.Time { return time.Now().Add(time.Duration(c.by.Load())) }

// Since implements clock.PassiveClock.
func (c *setClock) Since(t time.Time) time.Duration { return c.Now().Sub(t) }

// TestClockJump sets the manager's clock forward and back by a day while it works. Nothing waits for a time that was, and
// nothing is done twice.
func TestClockJump(t *testing.T) {
	t.Parallel()
	ns := plane.Namespace(t)
	clk := &setClock{}
	m := plane.Start(t, ns, harness.WithClock(clk))
	app := newApp(objectMeta(ns, "web")).(*appv1.App)
	plane.Create(t, app)
	plane.Stands(t, app, "Ready=True", "Reconciling=False")
	var took []time.Duration
	jumps := []time.Duration{24 * time.Hour, -48 * time.Hour, time.Hour, -time.Hour}[:of(2, 4)]
	edits := of(2, 4)
	for _, jump := range jumps {
		m.Idle(t)
		m.Requests.Reset()
		clk.by.Add(int64(jump))
		began := time.Now()
		want := int32(0)
		for edit := range edits {
			want = int32(2 + edit%2)
			plane.Read(t, app)
			plane.Change(t, app, func() {
				app.Spec.Replicas = &want
				roll(&app.Spec.WorkloadSpec, edit)
			})
			plane.Stands(t, app, "Ready=True", "Reconciling=False")
		}
		plane.Until(t, app, func() error {
			if app.Status.ReadyReplicas != want || app.Status.Replicas != want {
				return fmt.Errorf("%d of %d pods are ready, want %d", app.Status.ReadyReplicas, app.Status.Replicas, want)
			}
			return nil
		})
		took = append(took, time.Since(began))
		m.Idle(t)
		if n := m.Requests.Writes()["patch deployments"]; n > edits {
			t.Errorf("%d writes of the Deployment for %d edits after the clock was set by %s", n, edits, jump)
		}
	}
	results.add(t, "clock set forward and back", len(took), took, "for %d edits and their rollouts", edits)
}
