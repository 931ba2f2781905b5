package ui

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"

	"huolala.cn/app-operator/plugin/view"
)

// Viewer are the settings of pages that many readers share, by a proxy that has their login. They see what the server's own account may
// read, and change nothing.
type Viewer struct {
	// Hosts are the names that readers have in the addresses of the pages, without a port. A request for another host is refused.
	Hosts []string
	// Guard returns a server of a handler, and the listener to serve in place of another one, within limits on connections and time.
	Guard func(l net.Listener, handler http.Handler) (*http.Server, net.Listener)
}

// The limits of the pages of a viewer. They are for the memory of its process, and for the requests that it sends to the API server.
const (
	// viewerStreams is how many pages are followed at once, viewerTabs how many of a reader whom the proxy names.
	viewerStreams, viewerTabs = 128, 16
	// viewerTopics is how many resources are followed at once.
	viewerTopics = 64
	// viewerBytes is how much memory the resources take that are followed.
	viewerBytes = 48 << 20
	// viewerRequests is how many requests of a reader whom the proxy names are answered at once, viewerUnnamed how many of all others. A page that is
	// followed is a request. The proxy has 256 connections, see guard.Viewer.
	viewerRequests, viewerUnnamed = 48, 192
	// viewerRows is how many rows a list has at most.
	viewerRows = 400
	// viewerReads is how many resources a second are read, viewerBurst how many at once after a quiet time. A read takes up to 13 requests, and the
	// watches of a resource that nobody followed before about as many.
	viewerReads, viewerBurst = 10, 20
	// viewerAtOnce is how many resources are read at once: a read takes several times the memory of its objects.
	viewerAtOnce = 2
	// viewerReadTime is how long such a read may take: others wait for its place, and no page waits longer than answerTime.
	viewerReadTime = 5 * time.Second
	// viewerAge is how old a resource on a page may be. The watched parts are newer.
	viewerAge = 10 * time.Second
	// headerUser is the header in which the proxy names a reader.
	headerUser = "X-Forwarded-User"
)

// The texts of a viewer.
const (
	messageHost     = "This server does not answer for this host. Its flag --host has the names that it answers for."
	messageReadOnly = "The pages of a viewer change nothing: only GET and HEAD are answered."
	messageTooMany  = "too many resources are looked at, or too large ones; load the page again in a minute"
	messageBusy     = "Too many requests of yours are in work: close some pages, and load this one again."
	// messageViewerRights is the end of a problem that the rights of the viewer's account solve.
	messageViewerRights = "; docs/security.md has the rights that the account of the viewer needs"
)

// errTooMany is the error for a resource beyond viewerTopics or viewerBytes, errAway the error while the API server does not answer.
var errTooMany, errAway = errors.New(messageTooMany), errors.New("the API server does not answer")

// readerKey is the key of the name of a viewer's reader in the context of a request.
type readerKey struct{}

// readerIn returns the name of the reader whose request a context is of, empty where the proxy names nobody.
func readerIn(ctx context.Context) string {
	name, _ := ctx.Value(readerKey{}).(string)
	return name
}

// inWork counts the requests that are answered, by the names of their readers.
type inWork struct {
	mu       sync.Mutex
	requests map[string]int
}

// beginRequest counts a request of a reader, unless as many are in work as a reader may have. It returns whether the request is counted.
func (w *inWork) beginRequest(reader string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	most := viewerRequests
	if reader == "" {
		most = viewerUnnamed
	}
	if w.requests[reader] >= most {
		return false
	}
	w.requests[reader]++
	return true
}

// endRequest ends a counted request.
func (w *inWork) endRequest(reader string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.requests[reader]--; w.requests[reader] == 0 {
		delete(w.requests, reader)
	}
}

// forViewer returns the handler of a viewer: for its hosts, for requests that read, and within the share of a reader.
func (s *Server) forViewer(next http.Handler) http.Handler {
	hosts := map[string]bool{}
	for _, host := range s.options.Viewer.Hosts {
		hosts[strings.ToLower(host)] = true
	}
	work := inWork{requests: map[string]int{}}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		host := strings.Trim(r.Host, "[]")
		if name, _, err := net.SplitHostPort(r.Host); err == nil {
			host = name
		}
		switch {
		case !hosts[strings.ToLower(host)]:
			http.Error(w, messageHost, http.StatusMisdirectedRequest)
		case r.Method != http.MethodGet && r.Method != http.MethodHead:
			w.Header().Set("Allow", "GET, HEAD")
			http.Error(w, messageReadOnly, http.StatusMethodNotAllowed)
		case !work.beginRequest(r.Header.Get(headerUser)):
			w.Header().Set("Retry-After", "5")
			http.Error(w, messageBusy, http.StatusTooManyRequests)
		default:
			reader := r.Header.Get(headerUser)
			defer work.endRequest(reader)
			_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(writeTime)) // A stream sets its own.
			next.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), readerKey{}, reader)))
		}
	})
}

// publicReader reads for the public, no more than viewerAtOnce resources at once.
type publicReader struct {
	Reader
	places chan struct{}
}

// newPublicReader returns a reader for the public of a reader.
func newPublicReader(of Reader) publicReader {
	return publicReader{of, make(chan struct{}, viewerAtOnce)}
}

// ReadSnapshot implements Reader.
func (r publicReader) ReadSnapshot(ctx context.Context, kind view.Kind, namespace, name string) (*view.Snapshot, error) {
	select {
	case r.places <- struct{}{}:
		defer func() { <-r.places }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	bounded, cancel := context.WithTimeout(ctx, viewerReadTime)
	defer cancel()
	found, err := r.Reader.ReadSnapshot(bounded, kind, namespace, name)
	if err != nil {
		return nil, err
	}
	return found.PublicCopy(), nil
}

// currentContent returns the state of a topic for a page of a viewer, from what these pages share, so that no number of readers sends more requests than
// one. It begins to follow the topic if no page does, and waits until its state is known.
func (h *hub) currentContent(ctx context.Context, topic Topic) (content, error) {
	asked, woken := h.options.Now(), false
	taken, err := h.openVisit(ctx, readerIn(ctx), topic)
	if err != nil {
		return content{}, err
	}
	defer h.closeVisit(taken)
	for {
		found := taken.latestContent()
		switch {
		case !found.state.Away.IsZero():
			return found, errAway
		case found.isKnown() && !found.stale && (topic.Name == "" || found.err != nil || asked.Sub(found.at) < viewerAge):
			return found, found.err
		case found.isKnown() && !woken:
			woken = true
			signalNews(taken.dirty)
		}
		select {
		case <-ctx.Done():
			return content{}, fmt.Errorf("the state is not known yet: %w", ctx.Err())
		case <-taken.ousted:
			return content{}, errTooMany
		case <-taken.news:
		}
	}
}
