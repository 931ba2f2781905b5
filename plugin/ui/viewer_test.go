package ui

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	appv1 "huolala.cn/app-operator/api/v1"
	"huolala.cn/app-operator/plugin/view"
)

// viewerOf returns a viewer of a cluster, for the host apps.example.com.
func viewerOf(t *testing.T, c cluster) *Server {
	t.Helper()
	guard := func(l net.Listener, handler http.Handler) (*http.Server, net.Listener) {
		return &http.Server{Handler: handler, ReadHeaderTimeout: time.Minute}, l
	}
	s, err := Listen(t.Context(), Options{
		Reader: c, Follower: c, Namespaces: "all namespaces", Viewer: &Viewer{Hosts: []string{"apps.example.com", "Apps.Internal"}, Guard: guard},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.listener.Close() })
	return s
}

// ask sends a request to a viewer, and returns the answer.
func ask(t *testing.T, s *Server, method, host, path string, header http.Header) *httptest.ResponseRecorder {
	t.Helper()
	r := httptest.NewRequestWithContext(t.Context(), method, "http://"+host+path, strings.NewReader("a=b"))
	r.Header = header
	if header == nil {
		r.Header = http.Header{"Content-Type": {"application/x-www-form-urlencoded"}}
	}
	if strings.HasSuffix(path, "/events") { // Its answer has no end: the browser leaves.
		ctx, leave := context.WithCancel(r.Context())
		leave()
		r = r.WithContext(ctx)
	}
	w := httptest.NewRecorder()
	s.handler.ServeHTTP(w, r)
	return w
}

// TestViewerAnswers sends requests of all methods to all paths of a viewer, and to those that only other pages have, for its hosts and for others.
func TestViewerAnswers(t *testing.T) {
	t.Parallel()
	s := viewerOf(t, newFake())
	paths := map[string]int{
		"/": 200, "/?view=wall": 200, "/app/shop/cart": 200, "/events": 200, "/app/shop/cart/events": 200, "/style.css": 200, "/happ.js": 200, "/idiomorph.js": 200,
		"/app/shop/cart/pause": 404, "/app/shop/cart/rollback?value=1": 404, "/plan": 404, "/login": 404, "/logout": 404, "/pod/shop/cart": 404, "/api/v1/secrets": 404,
	}
	hosts := map[string]bool{
		"apps.example.com": true, "APPS.example.com": true, "apps.example.com:8443": true, "apps.internal": true,
		"evil.example": false, "127.0.0.1:" + s.port: false, "localhost": false, "apps.example.com.evil.example": false, "[::1]:80": false,
	}
	methods := []string{"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "PROPFIND"}
	for path, status := range paths {
		for host, known := range hosts {
			for _, method := range methods {
				want := status
				switch {
				case !known:
					want = http.StatusMisdirectedRequest
				case method != http.MethodGet && method != http.MethodHead:
					want = http.StatusMethodNotAllowed
				}
				answer := ask(t, s, method, host, path, nil)
				if answer.Code != want {
					t.Errorf("%s %s of %s: %d, want %d", method, path, host, answer.Code, want)
				}
				if answer.Header().Get("Content-Security-Policy") != policy || answer.Header().Get("Set-Cookie") != "" {
					t.Errorf("%s %s of %s: headers %v", method, path, host, answer.Header())
				}
				if text := answer.Body.String(); strings.Contains(text, "post") && status == http.StatusOK && !strings.HasSuffix(path, ".js") {
					t.Errorf("%s %s has a form that changes something:\n%s", method, path, text)
				}
			}
		}
	}
}

// TestViewerShares has many readers open the list and a resource at once: each is followed once, and the resource is read once for all of
// them.
func TestViewerShares(t *testing.T) {
	t.Parallel()
	m := newMoving(3)
	s := viewerOf(t, m)
	done := make(chan int)
	for i := range 100 {
		path := []string{"/", "/app/shop/cart"}[i%2]
		go func() { done <- ask(t, s, http.MethodGet, "apps.example.com", path, nil).Code }()
	}
	for range 100 {
		if status := <-done; status != http.StatusOK {
			t.Errorf("status %d", status)
		}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.feeds != 2 || m.reads != 1 {
		t.Errorf("%d topics are followed, and the resource is read %d times", m.feeds, m.reads)
	}
}

// TestViewerIsNew shows a resource that changed although nothing watches that part of it: a page is no older than viewerAge.
func TestViewerIsNew(t *testing.T) {
	t.Parallel()
	m := newMoving(1)
	s := viewerOf(t, m)
	now := time.Now()
	s.options.Now = func() time.Time { m.mu.Lock(); defer m.mu.Unlock(); return now }
	read := func() int {
		if status := ask(t, s, http.MethodGet, "apps.example.com", "/app/shop/cart", nil).Code; status != http.StatusOK {
			t.Fatalf("status %d", status)
		}
		m.mu.Lock()
		defer m.mu.Unlock()
		return m.reads
	}
	if first, second := read(), read(); first != 1 || second != 1 {
		t.Errorf("the resource is read %d and %d times", first, second)
	}
	m.mu.Lock()
	now = now.Add(viewerAge)
	m.mu.Unlock()
	if third := read(); third != 2 {
		t.Errorf("after a time, the resource is read %d times", third)
	}
}

// TestViewerAway lets the API server go away: pages show what was known, and since when, and a page of what was not known says so.
func TestViewerAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMoving(1)
		m.over = make(chan struct{}, 10)
		s := viewerOf(t, m)
		defer s.end()
		open := func(path string) (int, string) {
			answer := ask(t, s, http.MethodGet, "apps.example.com", path, nil)
			return answer.Code, answer.Body.String()
		}
		for _, path := range []string{"/", "/app/shop/cart"} {
			if status, text := open(path); status != http.StatusOK || strings.Contains(text, "has not answered") {
				t.Fatalf("%s: status %d\n%s", path, status, text)
			}
		}
		m.change(func() { m.state.Away = time.Now() })
		<-time.After(2 * pauseResource)
		for path, want := range map[string]string{"/": "app-000", "/app/shop/cart": "cart", "/app/shop/other": "load the page again"} {
			status, text := open(path)
			if known := path != "/app/shop/other"; known != (status == http.StatusOK) || !strings.Contains(text, "has not answered within") || !strings.Contains(text, want) {
				t.Errorf("%s: status %d\n%s", path, status, text)
			}
		}
	})
}

// TestPagesHaveTheTimeOfTheirState opens pages while the API server has been silent for a while and nothing has noticed it: a page names the time of
// the state that it shows, and not the present.
func TestPagesHaveTheTimeOfTheirState(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMoving(1)
		m.over = make(chan struct{}, 10)
		heard := time.Now().Add(-time.Second).In(time.FixedZone("of the pod", 3600))
		m.state.Heard = heard
		s := viewerOf(t, m)
		defer s.end()
		open := func(path string) string {
			answer := ask(t, s, http.MethodGet, "apps.example.com", path, nil)
			if answer.Code != http.StatusOK {
				t.Fatalf("%s: status %d\n%s", path, answer.Code, answer.Body)
			}
			return answer.Body.String()
		}
		read := time.Now()
		for path, of := range map[string]time.Time{"/": heard, "/?view=wall": heard, "/app/shop/cart": read} {
			if text, want := open(path), "as of "+of.UTC().Format(time.TimeOnly)+" UTC<"; !strings.Contains(text, want) {
				t.Errorf("%s lacks %q:\n%s", path, want, text)
			}
		}
		<-time.After(viewerAge - time.Second)
		for path, of := range map[string]time.Time{"/": heard, "/app/shop/cart": read} {
			if text, want := open(path), "as of "+of.UTC().Format(time.TimeOnly)+" UTC<"; !strings.Contains(text, want) {
				t.Errorf("%s, later, lacks %q:\n%s", path, want, text)
			}
		}
		m.change(func() { m.state.Away = heard })
		<-time.After(2 * pauseResource)
		if text, want := open("/"), "What you see was read at "+heard.UTC().Format(time.TimeOnly)+" UTC."; !strings.Contains(text, want) {
			t.Errorf("the list of an API server that is away lacks %q:\n%s", want, text)
		}
	})
}

// TestClockTime has a time as a page of a user's own machine shows it, and as that of a viewer does, whose readers are in other zones.
func TestClockTime(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 1, 2, 12, 3, 4, 0, time.FixedZone("here", 3600))
	for want, o := range map[string]Options{"12:03:04": {}, "11:03:04 UTC": {Viewer: &Viewer{}}} {
		if got := o.clockTime(at); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

// TestViewerRate has a reader open thousands of resources, each for a short time: they are read at a limited rate, and the list is answered at once.
func TestViewerRate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMoving(1)
		m.over = make(chan struct{}, 10000)
		s := viewerOf(t, m)
		defer s.end()
		began := time.Now()
		for i := range 3000 {
			go func() {
				ctx, cancel := context.WithTimeout(t.Context(), answerTime)
				defer cancel()
				_, _ = s.hub.currentContent(ctx, appTopic(i))
			}()
		}
		synctest.Wait()
		if found, err := s.hub.currentContent(t.Context(), Topic{}); err != nil || found.list == nil || !time.Now().Equal(began) {
			t.Errorf("the list takes %s: %v", time.Since(began), err)
		}
		<-time.After(time.Minute)
		m.mu.Lock()
		defer m.mu.Unlock()
		if most := viewerBurst + viewerReads*int(answerTime/time.Second); m.reads > most || m.feeds > most+1 || m.reads < viewerBurst/2 {
			t.Errorf("%d reads and %d topics, want at most %d", m.reads, m.feeds, most)
		}
	})
}

// TestViewerLingers has a resource change while nobody looks at it: it is not read then, and the next page has the present state at once.
func TestViewerLingers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMoving(1)
		m.over = make(chan struct{}, 10)
		s := viewerOf(t, m)
		defer s.end()
		open := func() string { return askAs(t, s, "jo", "/app/shop/cart").Body.String() }
		if text := open(); strings.Contains(text, "changed-meanwhile") {
			t.Fatal(text)
		}
		changed := *m.snapshot
		changed.Resource.Image = "nginx:changed-meanwhile"
		<-time.After(2 * pauseResource)
		m.change(func() { m.snapshot = &changed })
		<-time.After(2 * pauseResource)
		reads := m.reads
		if text := open(); !strings.Contains(text, "changed-meanwhile") || reads != 1 {
			t.Errorf("%d reads; the page is\n%s", reads, text)
		}
	})
}

// TestViewerRows asks for more rows than a list of a viewer has.
func TestViewerRows(t *testing.T) {
	t.Parallel()
	s := viewerOf(t, newMoving(viewerRows+50))
	for rows, want := range map[string]string{
		"": fmt.Sprintf("%d more: use the filter, or <a", viewerRows+50-moreRows), "400": "50 more: use the filter.</p>", "100000": "50 more: use the filter.</p>",
	} {
		text := ask(t, s, http.MethodGet, "apps.example.com", "/?rows="+rows, nil).Body.String()
		if !strings.Contains(text, want) || strings.Count(text, "<tr id=\"app/") > viewerRows {
			t.Errorf("with %q rows, there is no %q, or %d rows", rows, want, strings.Count(text, "<tr id=\"app/"))
		}
	}
}

// TestViewerWithoutRights says which account lacks rights.
func TestViewerWithoutRights(t *testing.T) {
	t.Parallel()
	s := viewerOf(t, &unlisted{newFake()})
	answer := ask(t, s, http.MethodGet, "apps.example.com", "/", nil)
	if text := answer.Body.String(); answer.Code != http.StatusBadGateway || !strings.Contains(text, messageViewerRights) || !strings.Contains(text, "in all namespaces") {
		t.Errorf("%d: %s", answer.Code, answer.Body)
	}
}

// TestLostKinds takes the right to list all kinds away while the list is open: the page has the reason in place of the rows, and stays connected. It
// has the rows again once they are listed.
func TestLostKinds(t *testing.T) {
	t.Parallel()
	m := newMoving(3)
	s := listen(t, m)
	run(t, s)
	secret, _ := s.sessions.startSession(s.NewCode(), "")
	page := followPage(t, s, secret, "events")
	rowsAre := func(n int) func() bool {
		return func() bool { return len(page.rows) == n && page.last == "order" }
	}
	page.until(rowsAre(3))
	m.change(func() { m.err = fmt.Errorf("%w: you may not list them in shop", ErrNoKind) })
	page.until(func() bool { return strings.Contains(page.shown["problem"], ErrNoKind.Error()) && len(page.rows) == 0 })
	if !page.state.Connected || page.state.Text != "" || !strings.Contains(page.shown["problem"], "you may not list them in shop") {
		t.Errorf("the state is %+v; %s", page.state, page.shown["problem"])
	}
	m.change(func() { m.err = nil })
	page.until(rowsAre(3))
	if strings.Contains(page.shown["problem"], ErrNoKind.Error()) {
		t.Error(page.shown["problem"])
	}
}

// unlisted is a cluster whose resources may not be listed.
type unlisted struct{ *fake }

// FollowTopic implements Follower.
func (u *unlisted) FollowTopic(context.Context, Topic, func()) Feed { return nothingListed{} }

// nothingListed is a feed without rights.
type nothingListed struct{}

// State implements Feed.
func (nothingListed) State() State { return State{Begun: true} }

// ListResources implements Feed.
func (nothingListed) ListResources() (*view.List, error) {
	return nil, fmt.Errorf("%w: you may not list them in all namespaces", ErrNoKind)
}

// secrets are words that no page of a viewer has.
var secrets = []string{"hunter2-of-a-variable", "info-of-a-variable", "last words of a container", "argument-of-a-command", "value-in-an-event"}

// TestViewerHides has values in all places of an App and its pods. No page and no stream of a viewer has one of them.
func TestViewerHides(t *testing.T) {
	t.Parallel()
	app := &appv1.App{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "cart", UID: "app"}}
	app.Spec.Image, app.Spec.Args = "nginx:1.16.1", []string{"--token=" + secrets[3]}
	app.Spec.Envs = []corev1.EnvVar{{Name: "PLAIN", Value: secrets[1]}, {Name: "DB_PASSWORD", Value: secrets[0]}, {Name: "SEEN", Value: secrets[4]}}
	r, _ := view.ResourceOf(app)
	pod := corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "cart-1", Labels: map[string]string{"app": "cart"}}}
	pod.Spec.Containers = []corev1.Container{{Name: "cart", Env: app.Spec.Envs}}
	ended := &corev1.ContainerStateTerminated{ExitCode: 1, Message: secrets[2]}
	pod.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "cart", State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{
		Reason: "CreateContainerError", Message: "no such file: " + secrets[3],
	}}, LastTerminationState: corev1.ContainerState{Terminated: ended}}}
	event := corev1.Event{Reason: "Unhealthy", Message: "probe failed with " + secrets[4], LastTimestamp: metav1.Now()}
	c := newFake()
	c.snapshot = &view.Snapshot{Resource: r, Now: time.Now(), Pods: []corev1.Pod{pod}, Events: []corev1.Event{event}}
	s := viewerOf(t, c)
	texts := []string{ask(t, s, http.MethodGet, "apps.example.com", "/app/shop/cart", nil).Body.String()}
	found, err := s.hub.currentContent(t.Context(), Topic{Kind: "App", Namespace: "shop", Name: "cart"})
	if err != nil {
		t.Fatal(err)
	}
	data := map[string]any{}
	kind, _ := view.KindOf("app")
	s.addResource(httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", nil), data, kind, found.snapshot, nil)
	fragments, err := fragmentsOf(resourceFragments, data)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range fragments {
		texts = append(texts, f.HTML)
	}
	for _, text := range texts {
		for _, secret := range secrets {
			if strings.Contains(text, secret) {
				t.Errorf("%q is in\n%s", secret, text)
			}
		}
	}
	if !slices.ContainsFunc(texts, func(text string) bool { return strings.Contains(text, "probe failed with •••") }) {
		t.Error("the event is not shown")
	}
	if ended.Message == "" {
		t.Error("the pod itself has changed")
	}
}
