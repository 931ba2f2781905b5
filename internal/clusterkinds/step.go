package clusterkinds

import (
	"context"
	"slices"
	"time"
)

// served reports whether the API server serves a kind.
type served func(*kind) bool

// discoverDue handles the kinds that are due, and returns the time until the next kind is due, 0 if none is scheduled.
func (k *Kinds) discoverDue(ctx context.Context) time.Duration {
	if asked := k.dueKinds(ctx); len(asked) > 0 {
		k.askFor(ctx, asked)
		k.followHidden(ctx, asked)
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	var next time.Duration
	for _, s := range k.kinds {
		k.scheduleDiscovery(s)
		for _, at := range []time.Time{s.due, k.retryAt(s)} {
			if !at.IsZero() {
				if wait := max(at.Sub(k.now()), time.Millisecond); next == 0 || wait < next {
					next = wait
				}
			}
		}
	}
	return next
}

// dueKinds returns the kinds that the API server is to be asked for, none if none is due: one request answers for all that are scheduled or missing.
func (k *Kinds) dueKinds(ctx context.Context) []*kind {
	k.mu.Lock()
	defer k.mu.Unlock()
	var asked []*kind
	due := false
	for _, s := range k.kinds {
		k.dropWaiters(s)
		k.retryRefused(ctx, s)
		k.scheduleDiscovery(s)
		if !s.due.IsZero() || s.row.Custom && s.phase == missing && s.definition.state != absent {
			asked = append(asked, s)
		}
		due = due || !s.due.IsZero() && !k.now().Before(s.due)
	}
	if !due {
		return nil
	}
	return asked
}

// askFor sends one discovery request and updates the kinds by the answer. Built-in kinds count as served. Without an answer, the scheduled kinds
// are asked for again.
func (k *Kinds) askFor(ctx context.Context, asked []*kind) {
	var serves served
	var err error
	if slices.ContainsFunc(asked, func(s *kind) bool { return s.row.Custom }) {
		serves, err = k.ask(ctx)
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.asked = k.now()
	for _, s := range asked {
		scheduled := !s.due.IsZero()
		s.due = time.Time{}
		switch {
		case s.definition.state == absent:
		case !s.row.Custom:
			k.beginWatch(ctx, s)
		case err != nil && !scheduled:
		case err != nil:
			s.log.Info("Cannot ask the API server what it serves", "error", err.Error())
			k.askLater(s)
		case serves(s):
			k.beginWatch(ctx, s)
		case s.definition.state == present && s.phase == unknown && s.pause < missingAfter:
			k.askLater(s) // A busy API server announces a kind later than it has stored the definition.
		default:
			k.endWatch(s, missing)
			if s.definition.state == present && s.pause < k.opts.LookAgain { // It is not served yet, or not in this version.
				k.askLater(s)
			}
		}
	}
}

// scheduleDiscovery sets the time of the next discovery for a missing kind that resources wait for, if no definition announces the kind.
func (k *Kinds) scheduleDiscovery(s *kind) {
	if s.definition.state == absent {
		s.due = time.Time{}
		return
	}
	if s.phase == missing && len(s.waiting) > 0 && s.due.IsZero() {
		s.due = k.asked.Add(k.opts.LookAgain)
	}
}

// dropWaiters forgets the resources that have not called Check for a time.
func (k *Kinds) dropWaiters(s *kind) {
	for w, at := range s.waiting {
		if k.now().Sub(at) > 3*k.opts.LookAgain {
			delete(s.waiting, w)
		}
	}
}

// retryAt returns when to retry a list of a forbidden kind, zero if no resource waits for it, or the next list is under way.
func (k *Kinds) retryAt(s *kind) time.Time {
	if s.phase != forbidden || s.objects != nil || len(s.waiting) == 0 {
		return time.Time{}
	}
	return s.refused.Add(k.opts.LookAgain)
}

func (k *Kinds) retryRefused(ctx context.Context, s *kind) {
	if at := k.retryAt(s); !at.IsZero() && !k.now().Before(at) {
		k.beginWatch(ctx, s)
	}
}

// beginWatch begins to watch the objects of a kind, unless they are watched already.
func (k *Kinds) beginWatch(ctx context.Context, s *kind) {
	if s.objects != nil {
		return
	}
	was := s.phase
	objects, err := k.watch(ctx, s)
	if err != nil {
		s.log.Error(err, "Cannot watch an optional kind")
		k.askLater(s)
		return
	}
	s.objects = objects
	if was != forbidden { // Until it is known better, its right is still missing.
		k.enterPhase(s, syncing)
	}
}

// endWatch stops watching the objects of a kind, and has those be reconciled that had one.
func (k *Kinds) endWatch(s *kind, p phase) {
	gone := s.objects
	s.objects = nil
	was := s.phase
	k.enterPhase(s, p)
	if gone == nil {
		return
	}
	if was == watched {
		gone.tellOwners(k.subscribers, s.row)
	}
	gone.stop()
}

// askLater has the API server be asked for a kind after the next pause.
func (k *Kinds) askLater(s *kind) {
	s.due, s.pause = k.now().Add(s.pause), min(2*s.pause, k.opts.LookAgain)
}

// doubtKind schedules a discovery for a served kind that the API server does not know in other requests. When the pauses between discoveries
// reach Options.LookAgain, the kind counts as missing.
func (k *Kinds) doubtKind(s *kind) {
	switch {
	case !s.due.IsZero() || s.phase == missing:
	case s.pause >= k.opts.LookAgain:
		k.endWatch(s, missing)
	default:
		k.askLater(s)
	}
	k.wakeLoop()
}

// noteSynced records that all objects of a kind are in the cache, and starts the events to the controllers.
func (k *Kinds) noteSynced(s *kind, o *objects) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if s.objects != o {
		return
	}
	s.pause = firstPause
	k.enterPhase(s, watched)
	for _, sub := range k.subscribers {
		if err := sub.startEvents(o.informer, s.row); err != nil {
			s.log.Error(err, "Cannot be told of the objects of an optional kind")
		}
	}
}

// noteRefused notes that the API server does not let the objects of a kind be listed.
func (k *Kinds) noteRefused(s *kind, o *objects, words string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if s.objects != o {
		return
	}
	s.refusal, s.refused = words, k.now()
	k.endWatch(s, forbidden)
	k.wakeLoop()
}

// noteUnknown notes that the API server does not know the resource of a kind.
func (k *Kinds) noteUnknown(s *kind, o *objects) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if s.objects != o {
		return
	}
	k.endWatch(s, unknown)
	k.doubtKind(s)
}
