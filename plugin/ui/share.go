package ui

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"huolala.cn/app-operator/plugin/view"
)

// The readers of a hub share its streams, its resources and its reads. A limit that is reached takes from the reader who has most, so a reader who
// takes all that there is leaves a share to each further one. All readers without a name are one reader.

// placeFor returns the stream to end so that a reader can have another one, nil if there is room, and whether there is a place at all. The
// reader's own oldest stream makes room beyond the tabs of a reader, and the oldest one of the reader who has most beyond the streams of all. The
// caller holds the lock.
func (h *hub) placeFor(session string) (oldest *seat, ok bool) {
	held, first := map[string]int{}, map[string]*seat{}
	for _, s := range h.streams {
		held[s.session]++
		first[s.session] = cmp.Or(first[s.session], s)
	}
	if session != "" && held[session] >= h.limits.tabs {
		return first[session], true
	}
	if len(h.streams) < h.limits.streams {
		return nil, true
	}
	from, ok := yieldingReader(held, session)
	return first[from], ok
}

// yieldingReader returns the reader who gives something up so that another one can have one more, and whether there is such a reader: the reader who has
// most, or the other one, who has some already, where the difference is less than two.
func yieldingReader(held map[string]int, to string) (from string, ok bool) {
	from = to
	for name, n := range held {
		if n > held[from] || n == held[from] && from != to && name < from {
			from = name
		}
	}
	if held[from] < held[to]+2 {
		from = to
	}
	return from, held[from] > 0
}

// oustStream ends the stream of a page. The caller holds the lock.
func (h *hub) oustStream(s *seat) {
	if slices.Contains(h.streams, s) {
		close(s.ousted)
		h.removeStream(s)
	}
}

// makeRoom ends a resource if there are as many as there may be, and reports whether there is room for another one of a reader: the one that was
// left first, or else one of the reader who has most. The list takes no room. The caller holds the lock.
func (h *hub) makeRoom(session string) bool {
	var resources []*followed
	for _, f := range h.topics {
		if f.Name != "" {
			resources = append(resources, f)
		}
	}
	if h.limits.topics == 0 || len(resources) < h.limits.topics {
		return true
	}
	yielded := leftFirst(resources)
	if yielded == nil {
		yielded = yieldedFor(session, resources)
	}
	if yielded == nil {
		return false
	}
	h.endTopic(yielded)
	return true
}

// leftFirst returns the resource whose last page was closed first, nil if all have pages.
func leftFirst(resources []*followed) *followed {
	var first *followed
	for _, f := range resources {
		if f.over != nil && (first == nil || f.left.Before(first.left)) {
			first = f
		}
	}
	return first
}

// yieldedFor returns the resource to end so that a reader can have another one, nil if there is none: of the reader who yields, the resource with the
// fewest readers, and among these the resource that was opened first. A reader takes no resource of others for the reader's own.
func yieldedFor(session string, resources []*followed) *followed {
	held, readers := map[string]int{}, map[*followed][]string{}
	for _, f := range resources {
		readers[f] = f.currentReaders()
		for _, reader := range readers[f] {
			held[reader]++
		}
	}
	from, ok := yieldingReader(held, session)
	theirs := slices.DeleteFunc(slices.Clone(resources), func(f *followed) bool {
		return !slices.Contains(readers[f], from) || from == session && len(readers[f]) > 1
	})
	if !ok || len(theirs) == 0 {
		return nil
	}
	return slices.MinFunc(theirs, func(a, b *followed) int {
		return cmp.Or(cmp.Compare(len(readers[a]), len(readers[b])), cmp.Compare(a.opened, b.opened))
	})
}

// makeBytes makes room for the read state of a resource, and reports whether there is room. It ends the resource that was left first, or else a resource
// of the reader who has most, which may be the same resource.
func (h *hub) makeBytes(f *followed, read *view.Snapshot, err error) bool {
	isGone := apierrors.IsNotFound(err) || apierrors.IsForbidden(err) // Its earlier state is not kept.
	if h.limits.bytes == 0 || read == nil && !isGone {
		return true
	}
	size := 0
	if read != nil {
		size = read.Bytes()
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.topics[f.Topic] != f {
		return false
	}
	f.bytes = size
	for {
		var resources []*followed
		sum := 0
		for _, kept := range h.topics {
			if kept.bytes > 0 {
				resources = append(resources, kept)
				sum += kept.bytes
			}
		}
		if sum <= h.limits.bytes {
			return true
		}
		yielded := leftFirst(resources)
		if yielded == nil {
			yielded = heaviestOf(resources)
		}
		h.endTopic(yielded)
		if yielded == f {
			return false
		}
	}
}

// heaviestOf returns the resource to end so that there is room for others: of the reader whose resources have most bytes, the resource with the fewest
// readers, and among these the largest.
func heaviestOf(resources []*followed) *followed {
	held, readers := map[string]int{}, map[*followed][]string{}
	for _, f := range resources {
		readers[f] = f.currentReaders()
		for _, reader := range readers[f] {
			held[reader] += f.bytes
		}
	}
	names := slices.Sorted(maps.Keys(held))
	from := slices.MaxFunc(names, func(a, b string) int { return cmp.Compare(held[a], held[b]) })
	theirs := slices.DeleteFunc(slices.Clone(resources), func(f *followed) bool { return !slices.Contains(readers[f], from) })
	return slices.MinFunc(theirs, func(a, b *followed) int {
		return cmp.Or(cmp.Compare(len(readers[a]), len(readers[b])), cmp.Compare(b.bytes, a.bytes), cmp.Compare(a.opened, b.opened))
	})
}

// endTopic ends a topic with all its pages. The caller holds the lock.
func (h *hub) endTopic(f *followed) {
	if f.over != nil {
		f.over.Stop()
	}
	delete(h.topics, f.Topic)
	f.end()
	f.mu.Lock()
	defer f.mu.Unlock()
	for s := range f.seats {
		close(s.ousted)
	}
	h.streams = slices.DeleteFunc(h.streams, func(s *seat) bool { return s.followed == f })
	clear(f.seats)
}

// currentReaders returns the readers who look at a topic, sorted.
func (f *followed) currentReaders() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.seatedReaders()
}

// seatedReaders returns the readers who look at a topic, sorted. The caller holds the lock of the topic.
func (f *followed) seatedReaders() []string {
	var all []string
	for s := range f.seats {
		all = append(all, s.session)
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// rate lets so many reads begin in a second. Readers whose reads wait take turns. A read that is given up takes nothing of the rate.
type rate struct {
	mu sync.Mutex
	// tokens is how many reads can begin at once.
	tokens int
	// waiting are the reads that wait, the oldest first.
	waiting []*turn
	// taken has the turns of the readers who have had more than the others, now how many each of the others has had.
	taken map[string]int
	now   int
}

// turn is a read that waits.
type turn struct {
	topic Topic
	// readers are those who wait for the read. The one who has had the fewest turns spends a turn on it.
	readers []string
	// begin is closed when the read may begin.
	begin chan struct{}
}

// newRate returns the rate of a viewer until the context ends.
func newRate(ctx context.Context) *rate {
	r := &rate{tokens: viewerBurst, taken: map[string]int{}}
	go func() {
		ticker := time.NewTicker(time.Second / viewerReads)
		defer ticker.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-ticker.C:
				r.releaseRead()
			}
		}
	}()
	return r
}

// releaseRead lets a read begin, now or, up to viewerBurst reads, later.
func (r *rate) releaseRead() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.waiting) == 0 {
		r.tokens = min(viewerBurst, r.tokens+1)
		return
	}
	next, by := 0, r.spenderOf(r.waiting[0])
	for i, t := range r.waiting {
		if reader := r.spenderOf(t); r.turnsOf(reader) < r.turnsOf(by) {
			next, by = i, reader
		}
	}
	r.now = r.turnsOf(by)
	r.taken[by] = r.now + 1
	maps.DeleteFunc(r.taken, func(_ string, n int) bool { return n <= r.now })
	close(r.waiting[next].begin)
	r.dropTurn(next)
}

// turnsOf returns how many turns a reader has had. A reader who is new has had as many as the one who has had the fewest.
func (r *rate) turnsOf(reader string) int { return max(r.now, r.taken[reader]) }

// spenderOf returns the reader who spends a turn on a read.
func (r *rate) spenderOf(t *turn) string {
	return slices.MinFunc(t.readers, func(a, b string) int { return cmp.Compare(r.turnsOf(a), r.turnsOf(b)) })
}

// dropTurn removes a read that waits. Once none waits, all turns are forgotten.
func (r *rate) dropTurn(at int) {
	r.waiting = slices.Delete(r.waiting, at, at+1)
	if len(r.waiting) == 0 {
		r.taken, r.now = map[string]int{}, 0
	}
}

// addReader adds a reader to those who wait for a read of a topic.
func (r *rate) addReader(topic Topic, reader string) {
	if r == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, t := range r.waiting {
		if t.topic == topic && !slices.Contains(t.readers, reader) {
			t.readers = append(t.readers, reader)
		}
	}
}

// awaitTurn waits until a read of a topic for at least one reader may begin. The list is in memory, and a user's own pages have no rate.
func (r *rate) awaitTurn(ctx context.Context, topic Topic, readers ...string) error {
	if r == nil || topic.Name == "" {
		return nil
	}
	mine, waits := r.takeToken(topic, readers)
	if !waits {
		return nil
	}
	select {
	case <-mine.begin:
		return nil
	case <-ctx.Done():
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	at := slices.Index(r.waiting, mine)
	if at < 0 { // Its turn has come in the same moment.
		return nil
	}
	r.dropTurn(at)
	return ctx.Err()
}

// takeToken takes a token, or has the read wait for its turn.
func (r *rate) takeToken(topic Topic, readers []string) (mine *turn, waits bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.tokens > 0 {
		r.tokens--
		return nil, false
	}
	mine = &turn{topic: topic, readers: slices.Clone(readers), begin: make(chan struct{})}
	r.waiting = append(r.waiting, mine)
	return mine, true
}
