package harness

import (
	"context"
	"errors"
	"math"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
)

const (
	// soonest and latest are the pauses between two tries of a condition: the first, and the longest that they grow to.
	soonest, latest = 40 * time.Millisecond, 300 * time.Millisecond
	// Patience is how long a condition may take. It is long, as machines are slow at times; a test that passes does not
	// wait for it.
	Patience = 6 * time.Minute
	// quiet is how long a manager sends nothing before it counts as idle.
	quiet = 1500 * time.Millisecond
)

// Eventually tries check until it returns nil, and fails the test with its last error if it does not in time.
func Eventually(t testing.TB, check func() error) {
	t.Helper()
	last := errors.New("never tried")
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), Patience) // Cleanups wait, too.
	defer cancel()
	pauses := wait.Backoff{Duration: soonest, Factor: 1.6, Cap: latest, Steps: math.MaxInt32}
	err := pauses.DelayFunc().Until(ctx, true, true, func(context.Context) (bool, error) {
		last = check()
		return last == nil, nil
	})
	if err != nil {
		t.Fatalf("after %s: %v", Patience, last)
	}
}

// Idle waits until the manager has seen what a test wrote before, and has then sent nothing for a while.
func (m *Manager) Idle(t testing.TB) {
	t.Helper()
	m.awaitCache(t)
	m.Requests.AwaitQuiet(t)
}
