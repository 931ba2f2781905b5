package ui

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"huolala.cn/app-operator/plugin/view"
)

// Follower follows the cluster as the user.
type Follower interface {
	// FollowTopic follows what the page of a topic shows until the context ends. It calls changed after each change of it, and of the
	// feed's State.
	FollowTopic(ctx context.Context, topic Topic, changed func()) Feed
}

// Topic is the subject of a page: a resource, or the list of all resources if it has no name.
type Topic struct {
	// Kind is the name of a kind.
	Kind, Namespace, Name string
}

// Feed is a topic that is followed.
type Feed interface {
	// State is how the cluster is followed at the moment.
	State() State
	// ListResources returns all resources, nil while they are not known yet, and ErrNoKind if none of their kinds can be listed. It sends no request. A topic
	// of one resource has none.
	ListResources() (*view.List, error)
}

// ErrNoKind is the error for a list without a kind that can be listed.
var ErrNoKind = errors.New("none of the kinds can be listed")

// State is how the cluster is followed.
type State struct {
	// Begun is true once all that there is was listed, or could not be.
	Begun bool
	// Heard is the time of the cluster's last answer, zero before the first one. Away is since when the cluster does not answer, zero while
	// it does.
	Heard, Away time.Time
	// Polled are the kinds that are listed every 10 seconds, each with the reason why it is not watched.
	Polled []view.Missing
}

// connection returns how a page is connected in a state.
func (s State) connection() connection {
	if !s.Away.IsZero() {
		since := s.Away.UTC().Truncate(time.Second)
		return connection{Since: &since, Text: "No connection to the cluster since " + since.Format(time.TimeOnly) + " UTC. What you see is of then."}
	}
	if len(s.Polled) == 0 {
		return connection{Connected: true}
	}
	var kinds []string
	for _, p := range s.Polled {
		kinds = append(kinds, p.Kinds+" ("+p.Why+")")
	}
	return connection{Connected: true, Text: "Read every 10 seconds: " + strings.Join(kinds, ", ") + "."}
}

const (
	// maxStreams is how many pages are followed at once.
	maxStreams = 32
	// maxTabs is how many of them a browser has. It opens no more than six connections to a host, and needs some for the pages.
	maxTabs = 4
	// linger is how long a topic is followed after its last page was closed: the next page may be of the same topic.
	linger = 30 * time.Second
	// pauseList and pauseResource are the minimum times between two reads of a topic. The list is in memory, a resource takes requests.
	pauseList, pauseResource = 200 * time.Millisecond, time.Second
	// pauseProblem is the time until a failed read of a resource is repeated, pauseRefused the same for a read that is forbidden.
	pauseProblem, pauseRefused = 5 * time.Second, 10 * time.Second
)

// hub shares the topics among the open pages: each is followed and read once, however many pages show it.
type hub struct {
	ctx     context.Context //nolint:containedctx // A topic outlives the request that has begun it.
	options *Options
	limits  hubLimits

	mu     sync.Mutex
	topics map[Topic]*followed
	// opened is how many pages were opened so far.
	opened int
	// streams are the streams of all pages, the oldest first.
	streams []*seat
	// rendering is held while a stream of a viewer is rendered, so that all of them together use one processor.
	rendering sync.Mutex
}

// hubLimits are the limits of a hub: how many pages are followed at once, how many of a browser or of a reader, and how many resources, and how
// many bytes of them are kept, 0 for any number; and the rate of reads. Without a rate, reads have none.
type hubLimits struct {
	streams, tabs, topics, bytes int
	reads                        *rate
}

// seat is the place of an open page.
type seat struct {
	// session identifies the browser or the reader, empty where nothing identifies it.
	session string
	*followed
	// news has a value while the page has not received the latest state: one value for any number of changes.
	news chan struct{}
	// ousted is closed when a newer page takes the place.
	ousted chan struct{}
}

// content is the last read state of a topic.
type content struct {
	state    State
	list     *view.List
	snapshot *view.Snapshot
	err      error
	// at is the time that the state is of: of a resource when it was read, of the list, which is in memory, when the cluster answered last. stale
	// is true if the resource has changed since then, and is read again.
	at    time.Time
	stale bool
}

// isKnown reports whether there is something to show.
func (c *content) isKnown() bool { return c.list != nil || c.snapshot != nil || c.err != nil }

// followed is a topic with open pages, or one whose last page was closed a short time ago.
type followed struct {
	Topic
	feed  Feed
	dirty chan struct{}
	end   context.CancelFunc
	// over ends a topic without pages, left is when its last page was closed. The hub's mutex guards both.
	over *time.Timer
	left time.Time
	// opened is the number of the page that was opened last, bytes the size of the state that is kept. The hub's mutex guards them, too.
	opened, bytes int

	mu     sync.Mutex
	latest content
	// failing is the time since when reads of a resource fail although the API server answers the watches, zero while reads succeed.
	failing time.Time
	seats   map[*seat]bool
	// missed is true if a resource has changed while no page showed it. The next page has it read.
	missed bool
}

// signalNews signals news. A signal that is not received yet makes another unnecessary.
func signalNews(news chan struct{}) {
	select {
	case news <- struct{}{}:
	default:
	}
}

// openStream has a page of a browser show a topic, in the place of an older one if its browser or all of them have many. It returns errTooMany if all have
// few.
func (h *hub) openStream(ctx context.Context, session string, topic Topic) (*seat, error) {
	if err := h.awaitAdmission(ctx, session, topic); err != nil {
		return nil, err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	oldest, ok := h.placeFor(session)
	if !ok {
		return nil, errTooMany
	}
	taken := h.takeSeat(session, topic) //nolint:contextcheck // The topic outlives the request.
	if taken == nil {
		return nil, errTooMany
	}
	h.oustStream(oldest)
	h.streams = append(h.streams, taken)
	return taken, nil
}

// openVisit has a page of a browser show a topic once, without a stream. It returns errTooMany if too many topics are followed.
func (h *hub) openVisit(ctx context.Context, session string, topic Topic) (*seat, error) {
	if err := h.awaitAdmission(ctx, session, topic); err != nil {
		return nil, err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	taken := h.takeSeat(session, topic) //nolint:contextcheck // The topic outlives the request.
	if taken == nil {
		return nil, errTooMany
	}
	return taken, nil
}

// awaitAdmission waits until a topic may be followed that is not followed yet.
func (h *hub) awaitAdmission(ctx context.Context, session string, topic Topic) error {
	h.mu.Lock()
	isFollowed := h.topics[topic] != nil
	h.mu.Unlock()
	if isFollowed {
		return nil
	}
	return h.limits.reads.awaitTurn(ctx, topic, session)
}

// takeSeat returns a new seat of a topic, nil if too many topics are followed. The caller holds the lock.
func (h *hub) takeSeat(session string, topic Topic) *seat {
	f, isNew := h.followTopic(session, topic)
	if f == nil {
		return nil
	}
	h.opened++
	f.opened = h.opened
	taken := &seat{session: session, followed: f, news: make(chan struct{}, 1), ousted: make(chan struct{})}
	h.limits.reads.addReader(topic, session)
	f.mu.Lock()
	defer f.mu.Unlock()
	f.seats[taken] = true
	if isNew || f.missed { // Only now: a read without a seat is none, and the next one has a pause before it.
		signalNews(f.dirty)
	}
	signalNews(taken.news)
	return taken
}

// followTopic begins to follow a topic, if it is not followed yet, and reports whether it has. It returns nil if there is no room for
// another one of the reader. The caller holds the lock, and has a new topic read.
func (h *hub) followTopic(session string, topic Topic) (f *followed, isNew bool) {
	f = h.topics[topic]
	if isNew = f == nil; isNew {
		if topic.Name != "" && !h.makeRoom(session) {
			return nil, false
		}
		ctx, end := context.WithCancel(h.ctx)
		f = &followed{Topic: topic, dirty: make(chan struct{}, 1), end: end, seats: map[*seat]bool{}}
		f.feed = h.options.Follower.FollowTopic(ctx, topic, func() { signalNews(f.dirty) })
		h.topics[topic] = f
		go h.readChanges(ctx, f)
	}
	if f.over != nil {
		f.over.Stop()
		f.over = nil
	}
	return f, isNew
}

// closeStream ends a page.
func (h *hub) closeStream(s *seat) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.removeStream(s)
}

// removeStream removes a page, if it was not removed yet. The caller holds the lock.
func (h *hub) removeStream(s *seat) {
	at := slices.Index(h.streams, s)
	if at < 0 {
		return
	}
	h.streams = slices.Delete(h.streams, at, at+1)
	h.leaveTopic(s)
}

// closeVisit ends a visit.
func (h *hub) closeVisit(s *seat) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.leaveTopic(s)
}

// leaveTopic removes a seat from its topic. After the last one the topic ends a short time later, unless another page opens. The caller holds
// the lock.
func (h *hub) leaveTopic(s *seat) {
	f := s.followed
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.seats, s)
	if len(f.seats) > 0 || h.topics[f.Topic] != f {
		return
	}
	var over *time.Timer
	over = time.AfterFunc(linger, func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		if f.over == over {
			delete(h.topics, f.Topic)
			f.end()
		}
	})
	f.over, f.left = over, time.Now()
}

// readChanges reads a topic after each change until the context ends, not too often, and wakes its pages.
func (h *hub) readChanges(ctx context.Context, f *followed) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-f.dirty:
		}
		pause := h.readOnce(ctx, f)
		select {
		case <-ctx.Done():
			return
		case <-time.After(pause):
		}
	}
}

// readOnce reads a topic and returns the least time until the next look.
func (h *hub) readOnce(ctx context.Context, f *followed) (pause time.Duration) {
	pause = pauseList
	next := content{state: f.feed.State(), at: h.options.Now()}
	reads := next.state.Begun && next.state.Away.IsZero()
	switch {
	case f.Name == "":
		next.list, next.err = f.feed.ListResources()
	case reads:
		readers := f.beginRead(next.state)
		if len(readers) == 0 {
			return pause
		}
		pause = pauseResource
		if h.limits.reads.awaitTurn(ctx, f.Topic, readers...) != nil {
			return pause // The topic is over.
		}
		next.snapshot, next.err = h.readResource(ctx, f)
		next.state = f.feed.State()
		if !h.makeBytes(f, next.snapshot, next.err) {
			return pause // The topic is over.
		}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.missed = f.missed && !reads
	failed := next.err != nil && !apierrors.IsNotFound(next.err) && !apierrors.IsForbidden(next.err) && !errors.Is(next.err, ErrNoKind)
	switch {
	case !failed && (reads || f.Name == ""):
		f.failing = time.Time{}
		if apierrors.IsForbidden(next.err) { // No event follows when the right is granted.
			pause = pauseRefused
			signalNews(f.dirty)
		}
	case failed:
		pause = pauseProblem
		signalNews(f.dirty)
		if f.failing.IsZero() {
			f.failing = time.Now()
		}
	}
	if next.state.Away.IsZero() {
		next.state.Away = f.failing
	}
	if failed || !next.isKnown() {
		// The previous content stays, or the content that the page was opened with.
		next.list, next.snapshot, next.err, next.at = f.latest.list, f.latest.snapshot, f.latest.err, f.latest.at
	}
	f.latest = next
	for taken := range f.seats {
		signalNews(taken.news)
	}
	return pause
}

// beginRead returns the readers that a read of a resource is for. Without readers, the next one has it read.
func (f *followed) beginRead(state State) []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	readers := f.seatedReaders()
	if len(readers) == 0 {
		f.missed, f.latest.state, f.failing = true, state, time.Time{}
	}
	return readers
}

// latestContent returns the last read state of the topic.
func (f *followed) latestContent() content {
	f.mu.Lock()
	defer f.mu.Unlock()
	latest := f.latest
	latest.stale = f.missed
	if heard := f.feed.State().Heard; f.Name == "" && !heard.IsZero() {
		latest.at = heard
	}
	return latest
}
