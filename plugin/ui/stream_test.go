package ui

import (
	"bufio"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	appv1 "huolala.cn/app-operator/api/v1"
	"huolala.cn/app-operator/plugin/view"
)

// moving is a cluster that changes.
type moving struct {
	mu       sync.Mutex
	rows     []view.Row
	snapshot *view.Snapshot
	err      error
	state    State
	// reads is how many times a resource was read, feeds how many topics were followed.
	reads, feeds int
	changed      []func()
	// over has a value for each topic that is followed no longer.
	over chan struct{}
}

// newMoving returns a cluster with so many Apps.
func newMoving(apps int) *moving {
	m := &moving{snapshot: newFake().snapshot, state: State{Begun: true}, over: make(chan struct{}, maxStreams)}
	for i := range apps {
		m.rows = append(m.rows, view.Row{Kind: "App", Namespace: "shop", Name: fmt.Sprintf("app-%03d", i), State: view.StateReady, Reason: "Ready"})
	}
	return m
}

// change changes the cluster, and tells of it.
func (m *moving) change(apply func()) {
	m.mu.Lock()
	defer m.mu.Unlock()
	apply()
	for _, changed := range m.changed {
		changed()
	}
}

func (m *moving) ListResources(context.Context) (*view.List, error) { return m.list() }

func (m *moving) list() (*view.List, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return view.ListOf(slices.Clone(m.rows), nil), m.err
}

func (m *moving) ReadSnapshot(context.Context, view.Kind, string, string) (*view.Snapshot, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.reads++
	return m.snapshot, m.err
}

func (m *moving) FollowTopic(ctx context.Context, _ Topic, changed func()) Feed {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.feeds++
	m.changed = append(m.changed, changed)
	context.AfterFunc(ctx, func() { m.over <- struct{}{} })
	return movingFeed{m}
}

// movingFeed is the feed of a cluster that changes.
type movingFeed struct{ m *moving }

func (f movingFeed) ListResources() (*view.List, error) { return f.m.list() }

func (f movingFeed) State() State {
	f.m.mu.Lock()
	defer f.m.mu.Unlock()
	return f.m.state
}

// follower is a browser's side of a stream: what the page shows.
type follower struct {
	t      *testing.T
	close  func()
	events chan event
	// shown has the fragments of the page, rows the order of its rows without the headings.
	shown map[string]string
	rows  []string
	state connection
	// last is the name of the last event.
	last string
}

type event struct{ name, data string }

// run serves until the test ends.
func run(t *testing.T, s *Server) (end func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- s.Serve(ctx) }()
	end = sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(end)
	return end
}

// get sends a request over the network.
func get(ctx context.Context, t *testing.T, s *Server, secret, path string) *http.Response {
	t.Helper()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, s.URL()+path, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	r.AddCookie(&http.Cookie{Name: s.cookieName(), Value: secret})
	answer, err := (&http.Client{Transport: &http.Transport{DisableKeepAlives: true}}).Do(r)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = answer.Body.Close() })
	return answer
}

// followPage opens a stream.
func followPage(t *testing.T, s *Server, secret, path string) *follower {
	t.Helper()
	ctx, leave := context.WithCancel(t.Context())
	answer := get(ctx, t, s, secret, path) //nolint:bodyclose // The end of the test closes it.
	if kind := answer.Header.Get("Content-Type"); answer.StatusCode != http.StatusOK || kind != "text/event-stream" {
		t.Fatalf("%s: %d %s", path, answer.StatusCode, kind)
	}
	f := &follower{t: t, close: leave, events: make(chan event), shown: map[string]string{}}
	go func() {
		defer close(f.events)
		var e event
		lines := bufio.NewScanner(answer.Body)
		lines.Buffer(nil, 1<<20)
		for lines.Scan() {
			if name, found := strings.CutPrefix(lines.Text(), "event: "); found {
				e.name = name
			}
			if data, found := strings.CutPrefix(lines.Text(), "data: "); found {
				e.data = data
			}
			if lines.Text() == "" && e.name != "" {
				select {
				case f.events <- e:
				case <-ctx.Done():
					return
				}
				e = event{}
			}
		}
	}()
	return f
}

// next takes an event, as the program of the page does. It returns false at the end of the stream.
func (f *follower) next() bool {
	f.t.Helper()
	e, ok := <-f.events
	if !ok {
		return false
	}
	var data struct {
		ID, HTML, In string
		IDs          []string
		connection
	}
	if err := json.Unmarshal([]byte(e.data), &data); err != nil {
		f.t.Fatalf("%s %s: %v", e.name, e.data, err)
	}
	switch e.name {
	case "fragment":
		if _, found := f.shown[data.ID]; !found && data.In == rows && !isHeading(data.ID) {
			f.rows = append(f.rows, data.ID)
		}
		f.shown[data.ID] = data.HTML
	case "gone":
		if _, found := f.shown[data.ID]; !found {
			f.t.Errorf("%s is gone, and was not there", data.ID)
		}
		delete(f.shown, data.ID)
		f.rows = slices.DeleteFunc(f.rows, func(id string) bool { return id == data.ID })
	case "order":
		f.rows = slices.DeleteFunc(data.IDs, isHeading)
	case "state":
		f.state = data.connection
	}
	f.last = e.name
	return true
}

// isHeading reports whether a row is the heading of a group.
func isHeading(id string) bool { return strings.HasPrefix(id, "group/") }

// until takes events until a condition holds.
func (f *follower) until(holds func() bool) {
	f.t.Helper()
	for !holds() {
		if !f.next() {
			f.t.Fatalf("the stream has ended; the page shows %q", f.shown)
		}
	}
}

func login(t *testing.T, s *Server) (secret string) {
	t.Helper()
	secret, ok := s.sessions.startSession(s.NewCode(), "")
	if !ok {
		t.Fatal("no login")
	}
	return secret
}

// TestStream follows the list: the whole of it first, and then what differs.
func TestStream(t *testing.T) {
	t.Parallel()
	m := newMoving(3)
	s := listen(t, m)
	end := run(t, s)
	f := followPage(t, s, login(t, s), "events?filter=app-0")
	f.until(func() bool { return len(f.rows) == 3 && f.last == "order" })
	if want := []string{"app/shop/app-000", "app/shop/app-001", "app/shop/app-002"}; !slices.Equal(f.rows, want) {
		t.Errorf("the rows are %q, want %q", f.rows, want)
	}
	before := f.shown["app/shop/app-000"]
	m.change(func() { m.rows[2].State, m.rows[2].Message = view.StateStalled, "no image" })
	f.until(func() bool { return f.rows[0] == "app/shop/app-002" })
	if text := f.shown["app/shop/app-002"]; !strings.Contains(text, "no image") || !strings.Contains(f.shown["counts"], "<b>1</b> ▲ needs you") {
		t.Errorf("the page shows %q", f.shown)
	}
	if f.shown["app/shop/app-000"] != before {
		t.Error("a row that has not changed is another one")
	}
	m.change(func() {
		m.rows = append(m.rows[1:], view.Row{Kind: "App", Namespace: "shop", Name: "other", State: view.StateReady})
	})
	f.until(func() bool { _, found := f.shown["app/shop/app-000"]; return !found })
	if want := []string{"app/shop/app-002", "app/shop/app-001"}; !slices.Equal(f.rows, want) {
		t.Errorf("the rows are %q, want %q, without what the filter leaves out", f.rows, want)
	}
	since := time.Date(2026, 1, 2, 12, 3, 4, 0, time.Local)
	m.change(func() { m.state.Away = since })
	f.until(func() bool { return !f.state.Connected })
	// A browser has the words with the time in its zone. One that has loaded its program from an earlier server needs the text.
	if want := "No connection to the cluster since " + since.UTC().Format(time.TimeOnly) + " UTC. What you see is of then."; f.state.Text != want || !f.state.Since.Equal(since) {
		t.Errorf("the state is %+v", f.state)
	}
	m.change(func() {
		m.state = State{Begun: true, Polled: []view.Missing{{Kinds: "Apps", Why: "you may not watch them in shop"}}}
	})
	f.until(func() bool { return f.state.Connected })
	if f.state.Text != "Read every 10 seconds: Apps (you may not watch them in shop)." || f.state.Since != nil {
		t.Errorf("the state is %+v", f.state)
	}
	go end()
	f.until(func() bool { return f.last == "end" })
	if f.next() {
		t.Errorf("after the end comes %s", f.last)
	}
}

// TestResourceStream follows a resource that goes away and comes back.
func TestResourceStream(t *testing.T) {
	t.Parallel()
	m := newMoving(0)
	m.state.Begun = false
	s := listen(t, m)
	run(t, s)
	f := followPage(t, s, login(t, s), "app/shop/cart/events")
	if reads := m.count(&m.reads); reads > 0 {
		t.Errorf("%d reads before the watches have begun", reads)
	}
	m.change(func() { m.state.Away = time.Now() }) // No page is live before anything has answered.
	f.until(func() bool { return f.last == "state" })
	if f.state.Connected {
		t.Error("the page is live although nothing has answered")
	}
	m.change(func() { m.state.Begun, m.state.Away = true, time.Time{} })
	f.until(func() bool { return len(f.shown) == len(resourceFragments) })
	if !strings.Contains(f.shown["spec"], "nginx:1.16.1") {
		t.Errorf("the page shows %q", f.shown)
	}
	m.change(func() { m.err = errors.New("no answer") })
	m.change(func() { m.state.Away = time.Now() })
	f.until(func() bool { return !f.state.Connected })
	if f.shown["problem"] != `<div id="problem"></div>` || !strings.Contains(f.shown["spec"], "nginx:1.16.1") {
		t.Errorf("without the cluster, the page shows %q", f.shown)
	}
	m.change(func() {
		m.state.Away = time.Time{}
		m.err = apierrors.NewNotFound(schema.GroupResource{Resource: "apps"}, "cart")
	})
	f.until(func() bool {
		return strings.Contains(f.shown["problem"], "not found") && f.shown["spec"] == `<div id="spec"></div>`
	})
	m.change(func() { m.err = nil })
	f.until(func() bool { return strings.Contains(f.shown["spec"], "nginx:1.16.1") })
}

// TestResourceStreamBeginsBlind opens the stream of a resource while this cannot be read, which nothing else has told yet. The page keeps
// what it was opened with, says that it is not live, and goes on once the resource can be read.
func TestResourceStreamBeginsBlind(t *testing.T) {
	t.Parallel()
	m := newMoving(0)
	m.err = errors.New("no answer")
	s := listen(t, m)
	run(t, s)
	f := followPage(t, s, login(t, s), "app/shop/cart/events")
	f.until(func() bool { return f.last == "state" && !f.state.Connected })
	if len(f.shown) > 0 || f.state.Since == nil {
		t.Errorf("the page shows %q, and is not connected since %v", f.shown, f.state.Since)
	}
	m.change(func() { m.err = nil })
	f.until(func() bool { return f.state.Connected && strings.Contains(f.shown["spec"], "nginx:1.16.1") })
}

// TestAges follows a resource that nothing changes: its page, and one that is opened later, have the ages of their time.
func TestAges(t *testing.T) {
	t.Parallel()
	m := newMoving(0)
	changed := time.Now()
	app := &appv1.App{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "cart", Generation: 1}}
	app.Spec.Image = "nginx:1"
	app.Status.ObservedGeneration = 1
	app.ManagedFields = []metav1.ManagedFieldsEntry{{
		Manager: "kubectl", Operation: "Update", Time: &metav1.Time{Time: changed}, FieldsV1: metav1.NewFieldsV1(`{"f:spec":{"f:image":{}}}`),
	}}
	r, _ := view.ResourceOf(app)
	m.snapshot = &view.Snapshot{Resource: r, Now: changed}
	s := listen(t, m)
	var later atomic.Int64
	s.options.Now = func() time.Time { return changed.Add(time.Duration(later.Load())) }
	run(t, s)
	secret := login(t, s)
	for _, age := range []time.Duration{40 * time.Second, 50 * time.Minute} {
		later.Store(int64(age))
		f := followPage(t, s, secret, "app/shop/cart/events")
		f.until(func() bool { return len(f.shown) == len(resourceFragments) })
		if want := "changed " + map[bool]string{true: "40 s", false: "50 min"}[age < time.Minute] + " ago by kubectl"; !strings.Contains(f.shown["why"], want) {
			t.Errorf("after %s, the page has no %q:\n%s", age, want, f.shown["why"])
		}
	}
	if reads := m.count(&m.reads); reads != 1 {
		t.Errorf("the resource was read %d times", reads)
	}
}

// takeSeat has a browser join a topic.
func takeSeat(t *testing.T, s *Server, topic Topic) *seat {
	t.Helper()
	taken, err := s.hub.openStream(t.Context(), "a browser", topic)
	if err != nil {
		t.Fatal(err)
	}
	return taken
}

// TestSlowPage changes a list many times while a page takes nothing. What it takes then is the latest, and no more than a page.
func TestSlowPage(t *testing.T) {
	t.Parallel()
	m := newMoving(100)
	s := listen(t, m)
	out := &stream{sent: map[string][sha256.Size]byte{}}
	out.render = func(c *content) ([]fragment, []string, error) {
		data := map[string]any{}
		s.addList(data, choice{rows: moreRows}, c.list, nil)
		all, err := fragmentsOf(listFragments, data)
		return all, nil, err
	}
	at := takeSeat(t, s, Topic{})
	for i := range 1000 {
		m.change(func() { m.rows[i%100].Message = fmt.Sprint("change ", i) })
		if waiting := len(at.news); waiting > 1 {
			t.Fatalf("%d words wait", waiting)
		}
	}
	all := []int{}
	for range 3 {
		list, _ := m.list()
		text, err := out.nextEvents(content{list: list, state: State{Begun: true}})
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, len(text))
	}
	if all[0] == 0 || all[1] != 0 || all[2] != 0 {
		t.Errorf("the updates have %v bytes, want nothing after the first", all)
	}
}

// TestStreams opens many pages: a browser keeps those that it has opened last, and all browsers together have so many. A browser with several ones
// leaves room to others.
func TestStreams(t *testing.T) {
	t.Parallel()
	m := newMoving(1)
	s := listen(t, m)
	run(t, s)
	var pages []*follower
	secret := login(t, s)
	for range maxTabs + 1 {
		f := followPage(t, s, secret, "events")
		f.until(func() bool { return f.last == "order" })
		pages = append(pages, f)
	}
	pages[0].until(func() bool { return pages[0].last == "pause" })
	if pages[0].next() {
		t.Errorf("after the pause comes %s", pages[0].last)
	}
	for i := range maxStreams - 1 {
		if _, err := s.hub.openStream(t.Context(), fmt.Sprint("browser ", i), Topic{}); err != nil {
			t.Fatalf("no stream after %d of other browsers", i)
		}
	}
	last := pages[maxTabs]
	answer := get(t.Context(), t, s, login(t, s), "events") //nolint:bodyclose // The end of the test closes it.
	if answer.StatusCode != http.StatusServiceUnavailable {
		t.Errorf("one stream too many: %d", answer.StatusCode)
	}
	if feeds := m.count(&m.feeds); feeds != 1 {
		t.Errorf("the list is followed %d times", feeds)
	}
	s.sessions.endSession(secret)
	m.change(func() { m.rows[0].Message = "news" })
	for last.next() {
		if strings.Contains(fmt.Sprint(last.shown), "news") {
			t.Fatal("a page is told after the logout")
		}
	}
}

// TestLinger closes the last page of a topic: it is followed for a while, and then no longer.
func TestLinger(t *testing.T) {
	t.Parallel()
	m := newMoving(1)
	s := listen(t, m)
	first := takeSeat(t, s, Topic{})
	s.hub.closeStream(first)
	s.hub.closeStream(first) // Once more changes nothing.
	second := takeSeat(t, s, Topic{})
	if feeds := m.count(&m.feeds); feeds != 1 || second.followed != first.followed || second.over != nil {
		t.Errorf("%d feeds, over %v", feeds, second.over)
	}
	s.hub.closeStream(second)
	second.over.Reset(0)
	<-m.over
	if third := takeSeat(t, s, Topic{}); third.followed == first.followed {
		t.Error("a topic that has ended is followed")
	}
}

// count returns one of the counters.
func (m *moving) count(counter *int) int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return *counter
}

// TestEscapedStream checks that no text of the cluster gets into a fragment as markup.
func TestEscapedStream(t *testing.T) {
	t.Parallel()
	m := newMoving(0)
	for _, list := range []any{
		&m.snapshot.Deployments, &m.snapshot.Pods, &m.snapshot.ReplicaSets, &m.snapshot.Services, &m.snapshot.Events, &m.snapshot.Missing,
	} {
		poison(reflect.ValueOf(list).Elem(), 0)
	}
	app := &appv1.App{}
	poison(reflect.ValueOf(&app.ObjectMeta).Elem(), 0)
	poison(reflect.ValueOf(&app.Status).Elem(), 0)
	app.Spec.Image, app.DeletionTimestamp = evil, nil
	m.snapshot.Resource, _ = view.ResourceOf(app)
	m.rows = []view.Row{view.RowOf(&m.snapshot.Resource)}
	m.state.Polled = []view.Missing{{Kinds: evil, Why: evil}}
	s := listen(t, m)
	run(t, s)
	secret := login(t, s)
	streams := 0
	for _, r := range s.routes {
		if !strings.HasSuffix(r.path, "events") {
			continue
		}
		streams++
		f := followPage(t, s, secret, strings.TrimPrefix(address(s, r), "/"+s.id+"/"))
		count := len(resourceFragments)
		if r.path == "events" {
			count = len(listFragments) + 2
		}
		f.until(func() bool { return len(f.shown) == count })
		f.close()
		for id, text := range f.shown {
			if strings.Contains(text, "<img") || strings.Contains(text, secret) {
				t.Errorf("%s: %s has markup of the cluster, or the session's secret:\n%s", r.path, id, text)
			}
		}
		if !strings.Contains(fmt.Sprint(f.shown), "&lt;img") {
			t.Errorf("%s has nothing of the cluster: %q", r.path, f.shown)
		}
	}
	if streams != 2 {
		t.Errorf("%d streams", streams)
	}
}

// TestFragments checks that a page has each of its fragments once, under the ID by which a stream replaces it.
func TestFragments(t *testing.T) {
	t.Parallel()
	s := listen(t, newFake())
	secret := login(t, s)
	for path, names := range map[string][]string{"": append([]string{rows, "app/shop/cart"}, listFragments...), "app/shop/cart": resourceFragments} {
		text := visit(s, secret, path, nil).Body.String()
		for _, name := range names {
			if n := strings.Count(text, ` id="`+name+`"`); n != 1 {
				t.Errorf("the page %q has %d elements with the ID %s:\n%s", path, n, name, text)
			}
		}
		if !strings.Contains(text, "happ.js") || !strings.Contains(text, `data-events="/`+s.id+"/"+path) {
			t.Errorf("the page %q has no program, or no stream:\n%s", path, text)
		}
	}
}

// TestVendored compares the program of others with the published one.
func TestVendored(t *testing.T) {
	t.Parallel()
	text, err := assets.ReadFile("assets/vendor/idiomorph.js")
	if err != nil {
		t.Fatal(err)
	}
	const published = "e1e2c7dbd606233d302bac48074fd1307c15609b77ea485c18f1b13d6be67c14"
	if sum := sha256.Sum256(text); hex.EncodeToString(sum[:]) != published {
		t.Errorf("idiomorph.js is not that of idiomorph 0.8.0")
	}
	own, err := assets.ReadFile("assets/happ.js")
	if lines := strings.Count(string(own), "\n"); err != nil || lines > 500 {
		t.Errorf("happ.js has %d lines, want at most 500: %v", lines, err)
	}
}
