package fairqueue

import (
	"cmp"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/controller/priorityqueue"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// model is the least that a queue knows: which requests are to be processed, and which ones workers have.
type model struct {
	wanted  map[reconcile.Request]wanted
	running map[reconcile.Request]bool
	// working is true once a worker has asked for a request, and gone are the requests of a stand-by whose resources are gone.
	working bool
	gone    map[reconcile.Request]bool
	// turns counts, for each namespace and lane, how many requests workers have got since it could have had one of that lane.
	turns map[waiter]int
}

// wanted is from when on, and in which lane, a request is to be processed.
type wanted struct {
	due  time.Time
	lane lane
}

// waiter is a namespace with requests of a lane.
type waiter struct {
	namespace string
	lane      lane
}

// could reports whether a worker could have a request: it is time, and no worker has it.
func (m *model) could(request reconcile.Request) bool {
	w, known := m.wanted[request]
	return known && !w.due.After(time.Now()) && !m.running[request]
}

// add notes that a request is to be processed after a delay. A namespace whose last request of a lane is raised to the other one no
// longer waits in the first one.
func (m *model) add(request reconcile.Request, in lane, after time.Duration) {
	due := time.Now().Add(after)
	if !m.working {
		in = background
		if m.gone[request] {
			delete(m.wanted, request)
			return
		}
	}
	if before, known := m.wanted[request]; known {
		if before.due.Before(due) {
			due = before.due
		}
		in = min(in, before.lane)
	}
	m.wanted[request] = wanted{due, in}
	waiting := m.waiters()
	maps.DeleteFunc(m.turns, func(w waiter, _ int) bool { return !waiting[w] })
}

// waiters returns the namespaces with requests that a worker could have, for each lane.
func (m *model) waiters() map[waiter]bool {
	found := map[waiter]bool{}
	for request, w := range m.wanted {
		if m.could(request) {
			found[waiter{request.Namespace, w.lane}] = true
		}
	}
	return found
}

// longest returns how many turns a namespace waits at most for its own, where so many namespaces wait: each other one goes first once.
// A turn of the background comes after three urgent ones at most.
func longest(in lane, namespaces int) int {
	if in == urgent {
		return namespaces + (namespaces+urgentInARow-1)/urgentInARow
	}
	return namespaces * (urgentInARow + 1)
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

// namespaces returns the namespaces with requests that a worker could have.
func (m *model) namespaces() map[string]bool {
	found := map[string]bool{}
	for w := range m.waiters() {
		found[w.namespace] = true
	}
	return found
}

// TestModel does random things with a queue. Each request is processed, none by two workers at once, no namespace has more workers than it
// may, and a namespace that may have a worker gets one once each of the others has had its turn. FAIRQUEUE_SEEDS is the number of runs.
func TestModel(t *testing.T) {
	runs, err := strconv.Atoi(cmp.Or(os.Getenv("FAIRQUEUE_SEEDS"), "50"))
	if err != nil {
		t.Fatal(err)
	}
	for range runs {
		seed := rand.Uint64()
		synctest.Test(t, func(t *testing.T) {
			chance := rand.New(rand.NewPCG(seed, 1))
			workers := 1 + chance.IntN(12)
			gone := map[reconcile.Request]bool{}
			s := &session{
				t: t, seed: seed, chance: chance, workers: workers, all: workers + spareWorkers(workers), namespaces: 1 + chance.IntN(8),
				q: newStandBy(t, "", workers, func(request reconcile.Request) bool { return !gone[request] }),
				model: model{
					wanted: map[reconcile.Request]wanted{}, running: map[reconcile.Request]bool{}, gone: gone, turns: map[waiter]int{},
				},
			}
			for range chance.IntN(200) {
				s.stepOfStandBy()
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

// someRequest returns a random request.
func (s *session) someRequest() reconcile.Request {
	return of(fmt.Sprint("n", min(s.chance.IntN(s.namespaces), s.chance.IntN(s.namespaces))), s.chance.IntN(20))
}

// stepOfStandBy does one random thing while no worker asks for a request.
func (s *session) stepOfStandBy() {
	request := s.someRequest()
	var after time.Duration
	switch s.chance.IntN(4) {
	case 0:
		s.gone[request] = !s.gone[request] // Which has an event.
	case 1:
		after = time.Duration(1+s.chance.IntN(5)) * time.Second
	case 2:
		<-time.After(time.Second)
	}
	s.add(request, urgent, after)
	s.q.AddAfter(request, after)
	synctest.Wait()
}

// step does one random thing.
func (s *session) step() {
	request := s.someRequest()
	opts := priorityqueue.AddOpts{}
	if s.chance.IntN(2) == 0 {
		opts.Priority = ptr.To(handler.LowPriority)
	}
	switch s.chance.IntN(10) {
	case 0:
		opts.After = time.Duration(1+s.chance.IntN(5)) * time.Second
		s.add(request, laneOf(ptr.Deref(opts.Priority, 0)), opts.After)
		s.q.AddWithOpts(opts, request)
	case 1, 2, 3:
		s.add(request, laneOf(ptr.Deref(opts.Priority, 0)), 0)
		s.q.AddWithOpts(opts, request)
	case 4:
		<-time.After(time.Second)
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
	s.working = true
	waiters, waiting := s.waiters(), s.model.namespaces()
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
	s.countTurns(request, waiters, mayHave)
	delete(s.wanted, request)
	s.running[request] = true
}

// countTurns counts a turn of a request that a worker has got for all that waited for it.
func (s *session) countTurns(request reconcile.Request, waiters map[waiter]bool, mayHave func(namespace string) bool) {
	maps.DeleteFunc(s.turns, func(w waiter, _ int) bool { return !waiters[w] || !mayHave(w.namespace) })
	for w := range waiters {
		if !mayHave(w.namespace) {
			continue
		}
		if s.turns[w]++; s.turns[w] > longest(w.lane, s.namespaces) {
			s.failf("namespace %s has waited for %d turns of lane %d", w.namespace, s.turns[w], w.lane)
		}
	}
	delete(s.turns, waiter{request.Namespace, s.wanted[request].lane})
}

// finish has one of the workers be done.
func (s *session) finish() {
	running := slices.SortedFunc(maps.Keys(s.running), func(a, b reconcile.Request) int { return cmp.Compare(a.String(), b.String()) })
	if len(running) == 0 {
		return
	}
	request := running[s.chance.IntN(len(running))]
	delete(s.running, request)
	s.q.Done(request)
}

// drain has all requests processed. Nothing is left then.
func (s *session) drain() {
	<-time.After(time.Minute)
	synctest.Wait()
	for range 10_000 {
		if len(s.wanted) == 0 && len(s.running) == 0 {
			break
		}
		s.take()
		s.finish()
	}
	if len(s.wanted) > 0 || s.q.get() != "" {
		s.failf("requests are lost: %v", s.wanted)
	}
	s.q.wantEmpty(s.t)
}
