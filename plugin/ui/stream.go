package ui

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"net/http"
	"reflect"
	"slices"
	"time"

	"huolala.cn/app-operator/plugin/view"
)

const (
	// beat is the time between two comments of a stream, by which either side notices that the other one is gone. With each comment the
	// ages on the page are updated.
	beat = 15 * time.Second
	// writeTime is how long a tab may take nothing. The browser opens the stream of a tab that is there once more.
	writeTime = time.Minute
	// maxRate is how many bytes a second a stream has at most, seen over some seconds.
	maxRate = 40 << 10
)

// fragment is a part of a page that changes as a whole.
type fragment struct {
	ID   string `json:"id"`
	HTML string `json:"html"`
	// In is the ID of the element that it is added to if the page does not have it.
	In string `json:"in,omitempty"`
}

// gone is a fragment that the page no longer has.
type gone struct {
	ID string `json:"id"`
}

// order is the order of all children of an element. It has no others.
type order struct {
	ID  string   `json:"id"`
	IDs []string `json:"ids"`
}

// connection is how a page is connected with the cluster.
type connection struct {
	Connected bool `json:"connected"`
	// Since is since when there is no connection. The program of the page has the words for it, with the time in the zone of the reader.
	Since *time.Time `json:"since,omitempty"`
	// Text is the message on a connection that is lost, or by which something is not watched, empty otherwise. The program of a page that was opened before
	// an upgrade of the server shows it also for a lost connection.
	Text string `json:"text"`
}

// The fragments of the pages, by the names of their templates, which are their IDs.
var (
	listFragments     = []string{"problem", "counts", "menus", "missing", "rest"}
	resourceFragments = []string{"problem", "lead", "facts", "why", "pods", "way", "rollout", "happened", "tree", "spec"}
)

// rows is the ID of the element with the rows of the list.
const rows = "rows"

// renderer renders the fragments of a page from its content, and returns the order of the rows.
type renderer func(c *content) ([]fragment, []string, error)

// executeTemplate renders a template.
func executeTemplate(name string, data any) (string, error) {
	var text bytes.Buffer
	err := pages.ExecuteTemplate(&text, name, data)
	return text.String(), err
}

// fragmentsOf renders the fragments of a page.
func fragmentsOf(names []string, data map[string]any) ([]fragment, error) {
	var all []fragment
	for _, name := range names {
		text, err := executeTemplate(name, data)
		if err != nil {
			return nil, err
		}
		all = append(all, fragment{ID: name, HTML: text})
	}
	return all, nil
}

// listEvents follows the list.
func (s *Server) listEvents(w http.ResponseWriter, r *http.Request) {
	chosen := s.requestedChoice(r)
	form := "row"
	if chosen.wall {
		form = "tile"
	}
	s.serveStream(w, r, Topic{}, func(c *content) ([]fragment, []string, error) {
		data := s.commonData(r)
		s.addList(data, chosen, c.list, c.err)
		all, err := fragmentsOf(listFragments, data)
		items, _ := data["Items"].([]item)
		ids := []string{}
		for i := range items {
			if err != nil {
				break
			}
			row := fragment{ID: items[i].ID(), In: rows}
			row.HTML, err = executeTemplate(form, &items[i])
			all, ids = append(all, row), append(ids, row.ID)
		}
		return all, ids, err
	})
}

// resourceEvents follows a resource.
func (s *Server) resourceEvents(w http.ResponseWriter, r *http.Request) {
	kind, known := view.KindOf(r.PathValue("kind"))
	if !known {
		s.noPage(w, r)
		return
	}
	topic := Topic{Kind: kind.Name, Namespace: r.PathValue("namespace"), Name: r.PathValue("name")}
	if !s.canExist(topic.Namespace, topic.Name) {
		s.noPage(w, r)
		return
	}
	s.serveStream(w, r, topic, func(c *content) ([]fragment, []string, error) {
		data := s.commonData(r)
		found := c.snapshot
		if found != nil { // Its time is the time of the read, and ages need the present time.
			now := *found
			now.Now = s.options.Now()
			found = &now
		}
		data["Kind"], data["Namespace"], data["Name"] = kind.Name, topic.Namespace, topic.Name
		s.addResource(r, data, kind, found, c.err)
		all, err := fragmentsOf(resourceFragments, data)
		return all, nil, err
	})
}

// serveStream sends changes to a page, until the page is closed or its session ends.
func (s *Server) serveStream(w http.ResponseWriter, r *http.Request, topic Topic, render renderer) {
	seat, err := s.hub.openStream(r.Context(), s.readerOf(r), topic)
	if err != nil {
		http.Error(w, "Too many pages are open.", http.StatusServiceUnavailable)
		return
	}
	defer s.hub.closeStream(seat)
	control := http.NewResponseController(w)
	_ = control.SetReadDeadline(time.Time{})
	w.Header().Set("Content-Type", "text/event-stream")
	w.WriteHeader(http.StatusOK)
	out := &stream{render: render, sent: map[string][sha256.Size]byte{}}
	send := func(text []byte) bool {
		if _, ok := s.sessionSecret(r); !ok && s.options.Viewer == nil {
			return false
		}
		_ = control.SetWriteDeadline(time.Now().Add(writeTime))
		_, err := w.Write(text)
		return err == nil && control.Flush() == nil
	}
	ticker := time.NewTicker(beat)
	defer ticker.Stop()
	for more := send([]byte("retry: 2000\n\n")); more; {
		select {
		case <-r.Context().Done():
			return
		case <-s.hub.ctx.Done():
			if s.options.Viewer == nil { // The pages of a viewer wait for the next viewer.
				send([]byte("event: end\ndata: {}\n\n"))
			}
			return
		case <-seat.ousted:
			send([]byte("event: pause\ndata: {}\n\n"))
			return
		case <-ticker.C: // Ages grow, although nothing changes.
			text, err := s.hub.renderUpdate(out, seat)
			if err != nil {
				return
			}
			more = send(append(text, ": here\n\n"...))
		case <-seat.news:
			first := len(out.sent) == 0
			text, err := s.hub.sendUpdate(out, seat, send)
			if err != nil {
				return
			}
			if first {
				continue
			}
			// The pause is proportional to the length of the text.
			select {
			case <-r.Context().Done():
			case <-s.hub.ctx.Done():
			case <-seat.ousted:
			case <-time.After(time.Duration(len(text)) * time.Second / maxRate):
			}
		}
	}
}

// errLeft is the error of a stream whose page takes nothing any longer.
var errLeft = errors.New("the page is gone")

// sendUpdate sends the events that bring a page to the present state of its topic, and returns those about the content. First, it sends how the page is
// connected: the content may take a request to render.
func (h *hub) sendUpdate(out *stream, taken *seat, send func([]byte) bool) ([]byte, error) {
	text, err := out.stateEvent(taken.latestContent())
	if err == nil && len(text) > 0 && !send(text) {
		err = errLeft
	}
	if err != nil {
		return nil, err
	}
	text, err = h.renderUpdate(out, taken)
	if err == nil && len(text) > 0 && !send(text) {
		err = errLeft
	}
	return text, err
}

// renderUpdate returns the events that bring a page to the present state of its topic.
func (h *hub) renderUpdate(out *stream, taken *seat) ([]byte, error) {
	if h.options.Viewer != nil {
		h.rendering.Lock()
		defer h.rendering.Unlock()
	}
	return out.nextEvents(taken.latestContent())
}

// stream is the state that a page has received: a checksum of each fragment, and no text. Nothing is queued for a slow page, because each
// update is the difference between the received state and the present state.
type stream struct {
	render renderer
	sent   map[string][sha256.Size]byte
	order  []string
	state  *connection
}

// stateEvent returns the event with the connection of the page, empty if the page has received it.
func (s *stream) stateEvent(c content) ([]byte, error) {
	var text bytes.Buffer
	now := c.state.connection()
	switch {
	case s.state == nil && now.Connected && !c.isKnown(): // Nothing has answered yet: the page is as it was opened.
		return nil, nil
	case s.state != nil && reflect.DeepEqual(now, *s.state):
		return nil, nil
	}
	s.state = &now
	err := writeEvent(&text, "state", now)
	return text.Bytes(), err
}

// nextEvents returns the events that bring a page from the received state to the present state.
func (s *stream) nextEvents(c content) ([]byte, error) {
	state, err := s.stateEvent(c)
	if err != nil || !c.isKnown() {
		return state, err
	}
	text := bytes.NewBuffer(state)
	fragments, ids, err := s.render(&c)
	if err != nil {
		return nil, err
	}
	first := len(s.sent) == 0
	left := map[string]bool{}
	for id := range s.sent {
		left[id] = true
	}
	for _, f := range fragments {
		delete(left, f.ID)
		sum := sha256.Sum256([]byte(f.HTML))
		if s.sent[f.ID] == sum {
			continue
		}
		s.sent[f.ID] = sum
		if err := writeEvent(text, "fragment", f); err != nil {
			return nil, err
		}
	}
	for id := range left {
		delete(s.sent, id)
		if err := writeEvent(text, "gone", gone{id}); err != nil {
			return nil, err
		}
	}
	s.order = slices.DeleteFunc(s.order, func(id string) bool { return left[id] })
	if ids != nil && (first || !slices.Equal(ids, s.order)) {
		err = writeEvent(text, "order", order{rows, ids})
	}
	s.order = ids
	return text.Bytes(), err
}

// writeEvent writes an event. JSON has no line breaks, and no page parses it as markup: the template of a fragment has escaped its values.
func writeEvent(text *bytes.Buffer, event string, data any) error {
	_, _ = text.WriteString("event: " + event + "\ndata: ")
	e := json.NewEncoder(text) // It ends with a line break.
	e.SetEscapeHTML(false)
	err := e.Encode(data)
	_ = text.WriteByte('\n')
	return err
}
