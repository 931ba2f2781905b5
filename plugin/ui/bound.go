package ui

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"runtime/debug"
	"strings"
	"time"

	"huolala.cn/app-operator/plugin/view"
)

// answerTime is how long a page waits for the API server. After that the page shows the known state, or the reason why it is empty.
const answerTime = 8 * time.Second

// actionTime is how long the answer to a form waits for the API server: an action may be a chain of requests. The rest of responseTime is for the page
// that shows the result.
const actionTime = responseTime - 2*answerTime

// readTime is how long a read of a resource may take. A connection that hangs is noticed by no other means where it has no keep-alive.
const readTime = 30 * time.Second

// boundedReader is a reader whose reads of resources end after readTime.
type boundedReader struct{ Reader }

// ReadSnapshot implements Reader.
func (r boundedReader) ReadSnapshot(ctx context.Context, kind view.Kind, namespace, name string) (*view.Snapshot, error) {
	bounded, cancel := context.WithTimeout(ctx, readTime)
	defer cancel()
	return r.Reader.ReadSnapshot(bounded, kind, namespace, name)
}

// readResource reads the resource of a topic. In the meantime, the pages hear whether the API server answers: the read may hang because it does not.
func (h *hub) readResource(ctx context.Context, f *followed) (read *view.Snapshot, err error) {
	kind, _ := view.KindOf(f.Kind)
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer h.options.recoverRead(f.Topic, &err)
		read, err = h.options.Reader.ReadSnapshot(ctx, kind, f.Namespace, f.Name)
	}()
	changed := false
	for {
		select {
		case <-done:
			if changed { // It may have changed after it was read.
				signalNews(f.dirty)
			}
			return read, err
		case <-f.dirty:
			changed = true
			f.noteState(f.feed.State())
		}
	}
}

// errDefect is the error for a resource that a page cannot show, by a defect of the program.
var errDefect = errors.New("a defect of happ: its output has the place in the program; please report it")

// recoverRead makes an error of a panic of a read, and logs the panic: a resource that one page cannot show must not end the pages of all others.
func (o *Options) recoverRead(of Topic, err *error) {
	if cause := recover(); cause != nil {
		fmt.Fprintf(o.Log, "panic while %s %s of namespace %s is read: %v\n%s", of.Kind, of.Name, of.Namespace, cause, debug.Stack())
		*err = errDefect
	}
}

// noteState has the pages of a topic show how the cluster is followed, with the content that they show already.
func (f *followed) noteState(state State) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if state.Away.IsZero() {
		state.Away = f.failing
	}
	if state.Away.Equal(f.latest.state.Away) {
		return
	}
	f.latest.state = state
	for taken := range f.seats {
		signalNews(taken.news)
	}
}

// The texts of a page when the API server does not answer.
const (
	messageNoAnswer   = "the API server has not answered within %s; load the page again"
	messageKnownSince = "The API server has not answered within %s. What you see was read at %s."
)

// boundPage limits the time in which a page is read, or a form is answered. A stream of events has no limit.
func (s *Server) boundPage(r route) http.HandlerFunc {
	if strings.HasSuffix(r.path, "events") {
		return r.handle
	}
	return func(w http.ResponseWriter, req *http.Request) {
		within := s.options.Wait
		if r.method == http.MethodPost {
			within = s.options.ActionWait
		}
		ctx, cancel := context.WithTimeout(req.Context(), within)
		defer cancel()
		r.handle(w, req.WithContext(ctx))
	}
}

// isUnanswered reports whether a page was not read because the API server does not answer, or not in the time of a page.
func isUnanswered(r *http.Request, err error) bool {
	return errors.Is(err, errAway) || err != nil && errors.Is(context.Cause(r.Context()), context.DeadlineExceeded)
}

// readPage returns the state of a topic for a page. If the API server does not answer, readPage returns the state that another page read last, and
// a problem with the time of that read.
func (s *Server) readPage(r *http.Request, topic Topic) (found content, problem string, err error) {
	found, err = s.current(r.Context(), topic)
	if !isUnanswered(r, err) {
		return found, "", err
	}
	if known := s.hub.knownContent(topic); known.list != nil || known.snapshot != nil {
		return known, fmt.Sprintf(messageKnownSince, s.options.Wait, s.options.clockTime(known.at)), nil
	}
	return content{}, "", fmt.Errorf(messageNoAnswer, s.options.Wait)
}

// readTopic reads the state of a topic from the cluster.
func (s *Server) readTopic(ctx context.Context, topic Topic) (content, error) {
	found := content{at: s.options.Now()}
	var err error
	if topic.Name == "" {
		found.list, err = s.options.Reader.ListResources(ctx)
	} else {
		kind, _ := view.KindOf(topic.Kind)
		found.snapshot, err = s.options.Reader.ReadSnapshot(ctx, kind, topic.Namespace, topic.Name)
	}
	return found, err
}

// knownContent returns the state of a topic that a page shows, or showed a short time ago.
func (h *hub) knownContent(topic Topic) content {
	h.mu.Lock()
	f := h.topics[topic]
	h.mu.Unlock()
	if f == nil {
		return content{}
	}
	return f.latestContent()
}
