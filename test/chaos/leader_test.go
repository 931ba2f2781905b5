package chaos

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"

	"huolala.cn/app-operator/test/harness"
)

// terms are the times of an election: that of main.go, and one that does not make the test wait for long.
var terms = map[string][]string{
	"lease 15 s": nil,
	"lease 5 s": {
		"--leader-elect-lease-duration=5s", "--leader-elect-renew-deadline=4s", "--leader-elect-retry-period=500ms",
	},
}

// replica is one of several managers.
type replica struct {
	process *harness.Process
	proxy   *harness.Proxy
}

func (r *replica) ended() bool {
	select {
	case <-r.process.Ended():
		return true
	default:
		return false
	}
}

// TestLeader kills the leader of two managers, freezes it for longer than its lease, or cuts it off from its lease alone,
// while there is much to do. There is never more than one that writes: not even a leader that wakes up with its hands full.
func TestLeader(t *testing.T) {
	t.Parallel()
	// One after the other: there is one lease.
	for _, name := range []string{"lease 5 s", "lease 15 s"} {
		if runs := map[string]int{"lease 5 s": of(1, 10), "lease 15 s": of(0, 1)}[name]; runs > 0 {
			t.Run(name, func(t *testing.T) { hand(t, name, runs) })
		}
	}
}

// hand hands over from leader to leader.
func hand(t *testing.T, name string, runs int) {
	ns := plane.Namespace(t)
	spawn := func() *replica {
		x := plane.Proxy(t, nil)
		flags := append([]string{"--leader-elect", "--leader-election-namespace=" + harness.SystemNamespace}, terms[name]...)
		r := &replica{proxy: x, process: harness.Spawn(t, program, x.Config(), ns, flags...)}
		r.process.Ready(t)
		return r
	}
	replicas := []*replica{spawn(), spawn()}
	stop := keepBusy(t, ns, of(4, 24))
	for _, way := range []struct {
		name   string
		signal syscall.Signal
	}{{"leader killed", syscall.SIGKILL}, {"leader frozen", syscall.SIGSTOP}} {
		var took []time.Duration
		for range runs {
			for i, r := range replicas {
				if r.ended() { // On a slow machine one may fail to renew its lease.
					replicas[i] = spawn()
				}
			}
			leader, other := leads(t, replicas)
			leader.process.Signal(t, way.signal)
			began := time.Now()
			var first time.Time
			harness.Eventually(t, func() (err error) {
				if first, err = firstWrite(other.proxy.Requests.All(), began); err != nil && other.ended() {
					t.Fatal("the other manager has ended, too")
				}
				return err
			})
			took = append(took, first.Sub(began))
			thawed := first
			if way.signal == syscall.SIGSTOP {
				pause(t, 500*time.Millisecond) // The other one does what the first has still in hand.
				leader.process.Signal(t, syscall.SIGCONT)
				thawed = time.Now()
			}
			ends(t, leader)
			alone(t, leader, began, thawed, first)
			replicas = []*replica{other, spawn()}
		}
		results.add(t, way.name+", "+name, runs, took, "until the other one's first write; the old one wrote nothing more")
	}
	stop()
}

// leads returns the manager that has renewed the lease last, and the other one.
func leads(t *testing.T, replicas []*replica) (leader, other *replica) {
	t.Helper()
	renewed := func(r *replica) (last time.Time) {
		for _, q := range r.proxy.Requests.All() {
			if q.Resource == "leases" && q.Verb == "update" && q.Code == http.StatusOK {
				last = q.Sent
			}
		}
		return last
	}
	harness.Eventually(t, func() error {
		slices.SortFunc(replicas, func(a, b *replica) int { return renewed(b).Compare(renewed(a)) })
		leader, other = replicas[0], replicas[1]
		if since := time.Since(renewed(leader)); since > 2*time.Second {
			return fmt.Errorf("no lease was renewed for %s", since)
		}
		_, err := firstWrite(leader.proxy.Requests.All(), time.Time{})
		return err
	})
	return leader, other
}

// firstWrite returns when a manager first wrote something after a time.
func firstWrite(requests []harness.Request, after time.Time) (first time.Time, err error) {
	for _, q := range requests { // In the order of their answers.
		if q.Write() && q.Sent.After(after) && (first.IsZero() || q.Sent.Before(first)) {
			first = q.Sent
		}
	}
	if first.IsZero() {
		return first, errors.New("it has written nothing")
	}
	return first, nil
}

// ends waits until a manager has ended, as one must that was killed or has lost its lease.
func ends(t *testing.T, r *replica) {
	t.Helper()
	select {
	case <-r.process.Ended():
	case <-time.After(harness.Patience):
		t.Fatal("a leader that has lost its lease goes on")
	}
	if code := r.process.ExitCode(); code == 0 {
		t.Error("it ended as if all were well")
	}
}

// alone fails the test if a former leader has written anything at the time of its successor. What a process had sent when it
// was stopped may arrive a moment later.
func alone(t *testing.T, former *replica, stopped, thawed, successor time.Time) {
	t.Helper()
	for _, q := range former.proxy.Requests.All() {
		if !q.Write() || q.Sent.Before(stopped) {
			continue
		}
		if q.Sent.After(thawed) || q.Sent.After(successor) {
			t.Errorf("two writers: %s, %s after the leader was stopped, %s after its successor's first write",
				q, q.Sent.Sub(stopped), q.Sent.Sub(successor))
		}
	}
}

// keepBusy edits n Apps again and again until it is told to stop.
func keepBusy(t *testing.T, ns string, n int) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	var group sync.WaitGroup
	for i := range n {
		app := newApp(objectMeta(ns, fmt.Sprintf("busy-%d", i)))
		plane.Create(t, app)
		group.Go(func() {
			for n := 1; ctx.Err() == nil; n++ {
				s := &script{plane: plane}
				sub := &subject{kind: &kinds[0], meta: objectMeta(ns, app.GetName())}
				// Labels of the children: no pods need be made for it.
				_ = s.take(ctx, sub, step{do: edit, n: n, edit: kinds[0].edits[4]})
				select {
				case <-ctx.Done():
				case <-time.After(200 * time.Millisecond):
				}
			}
		})
	}
	return func() {
		cancel()
		group.Wait()
	}
}
