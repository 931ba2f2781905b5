package fairqueue

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/controller/priorityqueue"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// model is the least that a queue knows: which requests are to be processed from when on, and which ones workers have.
type model struct {
	wanted  map[reconcile.Request]time.Time
	running map[reconcile.Request]bool
	// turns counts, for each namespace, how many requests of others workers have got since it could have had one.
	turns map[string]int
}

// could reports whether a worker could have a request: it is time, and no worker has it.
func (m *model) could(request reconcile.Request) bool {
	due, wanted := m.wanted[request]
	return wanted && !due.After(time.Now()) && !m.running[request]
}

// add notes that a request is to be processed after a delay.
func (m *model) add(request reconcile.Request, after time.Duration) {
	due := time.Now().Add(after)
	if before, ok := m.wanted[request]; !ok || due.Before(before) {
		m.wanted[request] = due
	}
}

// runningOf returns how many workers a namespace has.
func (m *model) runningOf(namespace string) int {
	n := 0
	for request := range m.running {
		if request.Namespace == namespace {
			n++
		}
	}
	return n
}

// namespaces returns those with requests that a worker could have.
func (m *model) namespaces() map[string]bool {
	found := map[string]bool{}
	for request := range m.wanted {
		if m.could(request) {
			found[request.Namespace] = true
		}
	}
	return found
}

// TestModel does random things with a queue. Each request is processed, none by two workers at once, no namespace has more workers than it
// may, and one that may have a worker gets one within four turns of each of the others.
func TestModel(t *testing.T) {
	for range 50 {
		seed := rand.Uint64()
		synctest.Test(t, func(t *testing.T) {
			chance := rand.New(rand.NewPCG(seed, 1))
			workers := 1 + chance.IntN(12)
			s := &session{
				t: t, seed: seed, chance: chance, q: newQueue(t, workers), workers: workers, all: workers + spare(workers), namespaces: 1 + chance.IntN(8),
				model: model{map[reconcile.Request]time.Time{}, map[reconcile.Request]bool{}, map[string]int{}},
			}
			for range 1000 {
				s.step()
			}
			s.drain()
		})
		if t.Failed() {
			return
		}
	}
}

// session is a run of random steps.
type session struct {
	model
	t                        *testing.T
	seed                     uint64
	chance                   *rand.Rand
	q                        *Queue
	workers, all, namespaces int
}

func (s *session) failf(format string, args ...any) {
	s.t.Helper()
	s.t.Fatalf("seed %d, %d workers: %s", s.seed, s.workers, fmt.Sprintf(format, args...))
}

// step does one random thing.
func (s *session) step() {
	request := of(fmt.Sprint("n", min(s.chance.IntN(s.namespaces), s.chance.IntN(s.namespaces))), s.chance.IntN(20))
	opts := priorityqueue.AddOpts{}
	if s.chance.IntN(2) == 0 {
		opts.Priority = ptr.To(handler.LowPriority)
	}
	switch s.chance.IntN(10) {
	case 0:
		opts.After = time.Duration(1+s.chance.IntN(5)) * time.Second
		s.add(request, opts.After)
		s.q.AddWithOpts(opts, request)
	case 1, 2, 3:
		s.add(request, 0)
		s.q.AddWithOpts(opts, request)
	case 4:
		time.Sleep(time.Second) //nolint:forbidigo // Of the bubble.
	case 5, 6, 7:
		s.take()
	default:
		s.finish()
	}
	synctest.Wait()
}

// take has a worker get a request, if one is free.
func (s *session) take() {
	if len(s.running) == s.all {
		return
	}
	waiting := s.model.namespaces()
	limit := s.workers
	if len(waiting) > 1 {
		limit = max(1, s.workers/2)
	}
	mayHave := func(namespace string) bool { return s.runningOf(namespace) < limit }
	got := s.q.get()
	if got == "" {
		if slices.ContainsFunc(slices.Collect(maps.Keys(waiting)), mayHave) {
			s.failf("a worker waits, and there are requests of %v", waiting)
		}
		return
	}
	var request reconcile.Request
	for known := range s.wanted {
		if known.String() == got {
			request = known
		}
	}
	if !s.could(request) || !mayHave(request.Namespace) {
		s.failf("a worker gets %q: wanted %v, running %v", got, s.wanted, s.running)
	}
	for namespace := range s.turns {
		if !waiting[namespace] || !mayHave(namespace) {
			delete(s.turns, namespace)
		}
	}
	for namespace := range waiting {
		if s.turns[namespace]++; s.turns[namespace] > (urgentInARow+1)*s.namespaces {
			s.failf("namespace %s has waited for %d turns", namespace, s.turns[namespace])
		}
	}
	delete(s.turns, request.Namespace)
	delete(s.wanted, request)
	s.running[request] = true
}

// finish has one of the workers be done.
func (s *session) finish() {
	for request := range s.running {
		delete(s.running, request)
		s.q.Done(request)
		return
	}
}

// drain has all requests processed. Nothing is left then.
func (s *session) drain() {
	time.Sleep(time.Minute) //nolint:forbidigo // Of the bubble.
	synctest.Wait()
	for range 10_000 {
		s.take()
		s.finish()
	}
	if len(s.wanted) > 0 || s.q.get() != "" {
		s.failf("requests are lost: %v", s.wanted)
	}
	s.q.wantEmpty(s.t)
}
