package chaos

import (
	"syscall"
	"testing"
	"time"

	"huolala.cn/app-operator/test/fixture"
	"huolala.cn/app-operator/test/harness"
)

// TestKilled kills the manager at random points, while many users make, edit and delete resources of all kinds. In the end
// all is as it is where the same users had a manager that nobody kills.
func TestKilled(t *testing.T) {
	t.Parallel()
	n, kills := of(fixture.Of(12, 24), 200), of(fixture.Of(4, 8), 100)
	calm := newScript(plane, plane.Namespace(t), n, true)
	rough := newScript(plane, plane.Namespace(t), n, true)
	seenCalm, seenRough := calm.watch(t), rough.watch(t)
	undying := harness.Spawn(t, program, plane.ManagerConfig(), calm.namespace)
	calm.start(t.Context())
	rough.start(t.Context())
	took, last := rough.kill(t, kills)

	want := calm.undisturbed(t)
	rough.finish(t)
	rough.withoutOrphans(t)
	rough.comesTo(t, want)
	sameTemplates(t, seenCalm.templates(t), seenRough.templates(t))
	for _, p := range []*harness.Process{undying, last} {
		p.Signal(t, syscall.SIGKILL)
		<-p.Ended()
	}
	rough.rests(t)
	results.add(t, "manager killed under load", kills, took, "%d resources, %d steps; %d objects alike", n, rough.total, len(want))
}

// kill runs managers and kills them, spread over all of the script. Some have not even filled their caches by then. It
// returns how long it took each time until a successor was ready, and the last one, which is alive.
func (s *script) kill(t *testing.T, kills int) (took []time.Duration, last *harness.Process) {
	t.Helper()
	r := chance(2)
	var killed time.Time
	for i := range kills {
		p := harness.Spawn(t, program, s.plane.ManagerConfig(), s.namespace)
		if r.IntN(4) == 0 {
			pause(t, time.Duration(r.Int64N(int64(time.Second))))
		} else {
			p.Ready(t)
			if !killed.IsZero() {
				took = append(took, time.Since(killed))
			}
			killed = time.Time{}
			s.reach(t, i, kills)
			pause(t, time.Duration(r.Int64N(int64(300*time.Millisecond))))
		}
		p.Signal(t, syscall.SIGKILL)
		if killed.IsZero() {
			killed = time.Now()
		}
		<-p.Ended()
	}
	last = harness.Spawn(t, program, s.plane.ManagerConfig(), s.namespace)
	last.Ready(t)
	return append(took, time.Since(killed)), last
}

// reach waits until this part of the script's steps is taken.
func (s *script) reach(t testing.TB, part, of int) {
	t.Helper()
	for int(s.done.Load())*of < s.total*part {
		select {
		case <-s.ended:
			t.Fatalf("the script ended early: %v", s.err)
		default:
			pause(t, 5*time.Millisecond)
		}
	}
}

// pause lets a random moment come. No test waits for a state by it.
func pause(t testing.TB, d time.Duration) {
	t.Helper()
	select {
	case <-time.After(d):
	case <-t.Context().Done():
		t.Fatal("the test was ended")
	}
}
