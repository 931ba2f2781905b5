package ui

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"huolala.cn/app-operator/plugin/view"
)

// answerTime is how long a page waits for the API server. After that the page shows the known state, or the reason why it is empty.
const answerTime = 8 * time.Second

// The texts of a page when the API server does not answer.
const (
	messageNoAnswer   = "the API server has not answered within %s; load the page again"
	messageKnownSince = "The API server has not answered within %s. What you see was read at %s."
)

// boundPage limits the time in which a page is read. A stream of events has no limit.
func (s *Server) boundPage(r route) http.HandlerFunc {
	if r.method != http.MethodGet || strings.HasSuffix(r.path, "events") {
		return r.handle
	}
	return func(w http.ResponseWriter, req *http.Request) {
		ctx, cancel := context.WithTimeout(req.Context(), s.options.Wait)
		defer cancel()
		r.handle(w, req.WithContext(ctx))
	}
}

// unanswered reports whether a page was not read because the API server does not answer, or not in the time of a page.
func unanswered(r *http.Request, err error) bool {
	return errors.Is(err, errAway) || err != nil && errors.Is(context.Cause(r.Context()), context.DeadlineExceeded)
}

// readList returns all resources. If the API server does not answer, readList returns the resources that another page read last, and a
// problem with the time of that read.
func (s *Server) readList(r *http.Request) (list *view.List, problem string, err error) {
	list, err = s.reader.List(r.Context())
	if !unanswered(r, err) {
		return list, "", err
	}
	if known := s.hub.known(Topic{}); known.list != nil {
		return known.list, s.knownSince(known.at), nil
	}
	return nil, "", fmt.Errorf(messageNoAnswer, s.options.Wait)
}

// readSnapshot returns a resource with the objects below it; without an answer, the last known state, as readList does.
func (s *Server) readSnapshot(r *http.Request, kind view.Kind, namespace, name string) (found *view.Snapshot, problem string, err error) {
	found, err = s.reader.Snapshot(r.Context(), kind, namespace, name)
	if !unanswered(r, err) {
		return found, "", err
	}
	if known := s.hub.known(Topic{Kind: kind.Name, Namespace: namespace, Name: name}); known.snapshot != nil {
		return known.snapshot, s.knownSince(known.at), nil
	}
	return nil, "", fmt.Errorf(messageNoAnswer, s.options.Wait)
}

func (s *Server) knownSince(at time.Time) string {
	return fmt.Sprintf(messageKnownSince, s.options.Wait, at.Format(time.TimeOnly))
}

// known returns the state of a topic that a page shows, or showed a short time ago.
func (h *hub) known(topic Topic) content {
	h.mu.Lock()
	f := h.topics[topic]
	h.mu.Unlock()
	if f == nil {
		return content{}
	}
	return f.content()
}
