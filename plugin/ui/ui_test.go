package ui

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	appv1 "huolala.cn/app-operator/api/v1"
	"huolala.cn/app-operator/plugin/view"
)

// fake is a cluster with one resource.
type fake struct {
	snapshot *view.Snapshot
	err      error
}

func (f *fake) ListResources(context.Context) (*view.List, error) {
	if f.err != nil {
		return nil, f.err
	}
	return view.RowsOf([]view.Resource{f.snapshot.Resource}, f.snapshot.Missing), nil
}

func (f *fake) ReadSnapshot(context.Context, view.Kind, string, string) (*view.Snapshot, error) {
	return f.snapshot, f.err
}

// still is a feed in which nothing changes.
type still struct{ *fake }

func (still) State() State { return State{Begun: true} }

func (s still) ListResources() (*view.List, error) { return s.fake.ListResources(context.Background()) }

// FollowTopic implements Follower.
func (f *fake) FollowTopic(context.Context, Topic, func()) Feed { return still{f} }

// newFake returns a cluster with an App.
func newFake() *fake {
	app := &appv1.App{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "cart"}}
	app.Spec.Image = "nginx:1.16.1"
	r, _ := view.ResourceOf(app)
	return &fake{snapshot: &view.Snapshot{Resource: r, Now: time.Now()}}
}

// acted notes what was done.
type acted struct {
	done    []string
	err     error
	allowed error
	// blocked is what is in the way of each action.
	blocked string
}

func (a *acted) CheckAllowed(context.Context, view.Kind, string) error { return a.allowed }

func (a *acted) ProposeAction(_ context.Context, act Action) (*Proposal, error) {
	return &Proposal{Version: "7", Blocked: a.blocked, Text: "plan of " + act.Do + " " + act.Name + " " + act.Value + evil, Pods: 2}, nil
}

func (a *acted) PerformAction(_ context.Context, act Action, version string) error {
	if a.err == nil {
		a.done = append(a.done, act.Do+" "+act.Namespace+"/"+act.Name+" "+act.Value+" "+version)
	}
	return a.err
}

func (a *acted) PlanText(_ context.Context, text string) (*Proposal, error) {
	if a.err != nil {
		return nil, a.err
	}
	return &Proposal{Text: "plan of " + text + evil, Pods: 1}, nil
}

// cluster is what a server reads and follows.
type cluster interface {
	Reader
	Follower
}

func listen(t *testing.T, reader cluster) *Server {
	t.Helper()
	return listenWith(t, reader, &acted{})
}

// evilLogs are a log and the absence of one, with markup in all texts.
var evilLogs = []Log{
	{LogSource: view.LogSource{Pod: evil, Container: evil, Others: []string{evil}, State: evil}, Text: evil},
	{LogSource: view.LogSource{Pod: evil, Container: evil, None: evil}},
}

func listenWith(t *testing.T, reader cluster, actor Actor) *Server {
	t.Helper()
	s, err := Listen(t.Context(), Options{Reader: reader, Follower: reader, Actor: actor, Logs: &logged{logs: evilLogs}, Context: "kind-dev", Namespaces: "namespace shop"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.listener.Close() })
	return s
}

// request is what a browser, or something else, sends.
type request struct {
	host, origin, site, cookie, token, method, contentType string
	form                                                   url.Values
}

func (q request) send(s *Server, path string) *httptest.ResponseRecorder {
	form := url.Values{"token": {q.token}}
	for name, values := range q.form {
		form[name] = values
	}
	r := httptest.NewRequest(q.method, "http://"+q.host+path, strings.NewReader(form.Encode()))
	if strings.HasSuffix(path, "/events") { // Its answer has no end: the browser leaves.
		ctx, leave := context.WithCancel(r.Context())
		leave()
		r = r.WithContext(ctx)
	}
	for name, value := range map[string]string{"Origin": q.origin, "Sec-Fetch-Site": q.site, "Content-Type": q.contentType} {
		if value != "" {
			r.Header.Set(name, value)
		}
	}
	if q.cookie != "" {
		r.AddCookie(&http.Cookie{Name: s.cookieName(), Value: q.cookie})
	}
	w := httptest.NewRecorder()
	s.handler.ServeHTTP(w, r)
	return w
}

// address returns a path that a route serves.
func address(s *Server, r route) string {
	return "/" + s.id + "/" + strings.NewReplacer("{$}", "", "{kind}", "app", "{namespace}", "shop", "{name}", "cart", "{action}", "pause").Replace(r.path)
}

// want is the status by the rules of the server: the host, the form, the session, the origin and the token, in this order.
func want(q request, r route, s *Server, secret string) int {
	write := q.method == http.MethodPost
	switch {
	case q.host != "127.0.0.1:"+s.port && q.host != "localhost:"+s.port:
		return http.StatusMisdirectedRequest
	case write && q.contentType != "application/x-www-form-urlencoded":
		return http.StatusUnsupportedMediaType
	case r.open && write:
		return http.StatusForbidden // The code is missing.
	case r.path == "login" && q.cookie == secret:
		return http.StatusSeeOther
	case r.open:
		return http.StatusOK
	case q.cookie != secret:
		return http.StatusUnauthorized
	case write && (q.site == "cross-site" || q.site == "" && q.origin == "http://evil.example"):
		return http.StatusForbidden
	case write && q.token != formToken(secret):
		return http.StatusForbidden
	case write && strings.HasSuffix(r.path, "{action}"):
		return http.StatusBadRequest // The version is missing.
	case write && r.path == "plan":
		return http.StatusOK
	case write:
		return http.StatusSeeOther
	}
	return http.StatusOK
}

// TestEveryRoute sends to every route each combination of what decides on a request.
func TestEveryRoute(t *testing.T) {
	t.Parallel()
	s := listen(t, newFake())
	var now time.Time
	s.sessions.now = func() time.Time { return now }
	statuses := map[int]int{}
	for _, r := range s.routes {
		for _, host := range []string{"127.0.0.1:" + s.port, "localhost:" + s.port, "evil.example", "127.0.0.1", "127.0.0.1:1"} {
			for _, origin := range []string{"", "http://" + host, "http://evil.example"} {
				for _, site := range []string{"", "same-origin", "none", "cross-site"} {
					for _, cookie := range []string{"", "wrong", "right"} {
						for _, token := range []string{"", "wrong", "right"} {
							for _, contentType := range []string{"application/x-www-form-urlencoded", "text/plain", "application/json", ""} {
								now = now.Add(24 * time.Hour) // Every session is over.
								secret, ok := s.sessions.startSession(s.NewCode(), "")
								if !ok {
									t.Fatal("no login")
								}
								q := request{host: host, origin: origin, site: site, cookie: cookie, token: token, method: r.method, contentType: contentType}
								if cookie == "right" {
									q.cookie = secret
								}
								if token == "right" {
									q.token = formToken(secret)
								}
								answer := q.send(s, address(s, r))
								statuses[answer.Code]++
								if wanted := want(q, r, s, secret); answer.Code != wanted {
									t.Fatalf("%s %s with %+v: %d, want %d", r.method, r.path, q, answer.Code, wanted)
								}
								if answer.Header().Get("Content-Security-Policy") != policy || answer.Header().Get("Cache-Control") != "no-store" {
									t.Fatalf("%s %s: headers %v", r.method, r.path, answer.Header())
								}
							}
						}
					}
				}
			}
		}
	}
	if done := s.options.Actor.(*acted).done; len(done) > 0 {
		t.Errorf("without a version, these were done: %v", done)
	}
	for _, status := range []int{200, 303, 400, 401, 403, 415, 421} {
		if statuses[status] == 0 {
			t.Errorf("no answer has the status %d", status)
		}
	}
}

// TestLogin checks that a code is good once, and for 10 minutes, and that a session ends.
func TestLogin(t *testing.T) {
	t.Parallel()
	s := listen(t, newFake())
	now := time.Now()
	s.sessions.now = func() time.Time { return now }
	post := func(path, code, cookie string, more url.Values) *httptest.ResponseRecorder {
		form := url.Values{"code": {code}, "to": {"app/shop/cart"}}
		for name, values := range more {
			form[name] = values
		}
		// A browser sends this from a file.
		q := request{
			host: "127.0.0.1:" + s.port, origin: "null", site: "cross-site", method: http.MethodPost, cookie: cookie,
			contentType: "application/x-www-form-urlencoded", form: form,
		}
		return q.send(s, "/"+s.id+"/"+path)
	}
	late := s.NewCode()
	now = now.Add(codeLife)
	if got := post("login", late, "", nil).Code; got != http.StatusForbidden {
		t.Errorf("a code that is too old: %d", got)
	}
	code := s.NewCode()
	answer := post("login", code, "", nil)
	cookie, err := http.ParseSetCookie(answer.Header().Get("Set-Cookie"))
	if answer.Code != http.StatusOK || err != nil {
		t.Fatalf("login: %d, %v", answer.Code, err)
	}
	if !cookie.HttpOnly || cookie.SameSite != http.SameSiteStrictMode || cookie.Path != "/"+s.id+"/" {
		t.Errorf("cookie %v", cookie)
	}
	if text := answer.Body.String(); !strings.Contains(text, "/"+s.id+"/app/shop/cart") || strings.Contains(text, cookie.Value) || strings.Contains(text, code) {
		t.Errorf("the answer to the login is\n%s", text)
	}
	if got := post("login", code, "", nil).Code; got != http.StatusForbidden {
		t.Errorf("the same code again: %d", got)
	}
	page := request{host: "localhost:" + s.port, method: http.MethodGet, cookie: cookie.Value}
	if got := page.send(s, "/"+s.id+"/").Code; got != http.StatusOK {
		t.Errorf("the list: %d", got)
	}
	now = now.Add(sessionLife)
	if got := page.send(s, "/"+s.id+"/").Code; got != http.StatusUnauthorized {
		t.Errorf("the list after 12 hours: %d", got)
	}
	if got := post("login", s.NewCode(), "", url.Values{"more": {strings.Repeat("x", maxBody)}}).Code; got != http.StatusBadRequest {
		t.Errorf("a form that is too large: %d", got)
	}
}

// TestLimit has others send wrong codes, and one session too many forms: neither is in the way of another session, or of a login.
func TestLimit(t *testing.T) {
	t.Parallel()
	s := listen(t, newFake())
	now := time.Now()
	s.sessions.now = func() time.Time { return now }
	login := func(code string) int {
		q := request{host: "127.0.0.1:" + s.port, method: http.MethodPost, contentType: "application/x-www-form-urlencoded", form: url.Values{"code": {code}}}
		return q.send(s, outside+"login").Code
	}
	for range 10 * maxWrites {
		if got := login("wrong"); got != http.StatusForbidden {
			t.Fatalf("a wrong code: %d", got)
		}
	}
	if got := login(s.NewCode()); got != http.StatusOK {
		t.Errorf("a right code after wrong ones: %d", got)
	}
	first, _ := s.sessions.startSession(s.NewCode(), "")
	second, _ := s.sessions.startSession(s.NewCode(), "")
	pause := func(secret, token string) int {
		q := request{
			host: "127.0.0.1:" + s.port, site: "same-origin", method: http.MethodPost, cookie: secret, token: token,
			contentType: "application/x-www-form-urlencoded", form: url.Values{},
		}
		return q.send(s, "/"+s.id+"/app/shop/cart/pause").Code
	}
	for range 10 * maxWrites {
		if got := pause(first, "wrong"); got != http.StatusForbidden {
			t.Fatalf("a form of another page: %d", got)
		}
	}
	for i := range maxWrites + 1 {
		want := http.StatusBadRequest // It has no version.
		if i == maxWrites {
			want = http.StatusTooManyRequests
		}
		if got := pause(first, formToken(first)); got != want {
			t.Errorf("form %d: %d, want %d", i+1, got, want)
		}
	}
	if got := pause(second, formToken(second)); got != http.StatusBadRequest {
		t.Errorf("a form of another session: %d", got)
	}
	now = now.Add(time.Second)
	if got := pause(first, formToken(first)); got != http.StatusBadRequest {
		t.Errorf("a second later: %d", got)
	}
}

// TestElsewhere checks the paths that no route serves. Without a session, none of them tells the folder, in which a cookie is sent.
func TestElsewhere(t *testing.T) {
	t.Parallel()
	s := listen(t, newFake())
	for path, wanted := range map[string]int{
		"/": 401, "/api/v1/secrets": 401, "/" + s.id + "/nothing": 404, "/" + randomHex(16) + "/app/shop/cart": 401, "/style.css": 200,
	} {
		q := request{host: "127.0.0.1:" + s.port, method: http.MethodGet}
		answer := q.send(s, path)
		if answer.Code != wanted {
			t.Errorf("%s: %d, want %d", path, answer.Code, wanted)
		}
		text := answer.Body.String()
		if told := text + fmt.Sprint(answer.Header()); strings.Contains(told, s.id) {
			t.Errorf("%s tells the folder: %s", path, told)
		}
		if to := `name="to" value="app/shop/cart"`; strings.Contains(path, "shop") && !strings.Contains(text, to) {
			t.Errorf("%s lacks %s:\n%s", path, to, text)
		}
	}
	for code, wanted := range map[string]int{"wrong": 403, s.NewCode(): 200} {
		q := request{
			host: "127.0.0.1:" + s.port, method: http.MethodPost, contentType: "application/x-www-form-urlencoded",
			form: url.Values{"code": {code}, "to": {"app/shop/cart"}},
		}
		answer := q.send(s, outside+"login")
		leads := strings.Contains(answer.Body.String(), "/"+s.id+"/app/shop/cart") && strings.Contains(answer.Header().Get("Set-Cookie"), "Path=/"+s.id+"/")
		if answer.Code != wanted || leads != (wanted == 200) || !leads && strings.Contains(answer.Body.String(), s.id) {
			t.Errorf("a login from elsewhere: %d %v\n%s", answer.Code, answer.Header(), answer.Body)
		}
	}
}

// evil is a text that runs as a script where it is not escaped.
const evil = `"><img src=x onerror=alert(1)>`

// poison sets every text of a value. A slice that is empty gets an item.
func poison(v reflect.Value, depth int) {
	if depth > 12 {
		return
	}
	switch v.Kind() {
	case reflect.String:
		v.SetString(evil)
	case reflect.Pointer:
		if v.IsNil() {
			v.Set(reflect.New(v.Type().Elem()))
		}
		poison(v.Elem(), depth+1)
	case reflect.Slice:
		if v.Type().Elem().Kind() != reflect.Uint8 {
			v.Set(reflect.MakeSlice(v.Type(), 1, 1))
			poison(v.Index(0), depth+1)
		}
	case reflect.Struct:
		for i := range v.NumField() {
			if field := v.Field(i); field.CanSet() && v.Type() != reflect.TypeFor[metav1.Time]() {
				poison(field, depth+1)
			}
		}
	}
}

// TestEscaped checks that no text of the cluster gets into a page as markup.
func TestEscaped(t *testing.T) {
	t.Parallel()
	f := newFake()
	for _, list := range []any{&f.snapshot.Deployments, &f.snapshot.Pods, &f.snapshot.ReplicaSets, &f.snapshot.Services, &f.snapshot.Events, &f.snapshot.Missing} {
		poison(reflect.ValueOf(list).Elem(), 0)
	}
	app := &appv1.App{}
	poison(reflect.ValueOf(&app.ObjectMeta).Elem(), 0)
	poison(reflect.ValueOf(&app.Status).Elem(), 0)
	app.Spec.Image = evil
	app.DeletionTimestamp, app.Namespace, app.Name = nil, evil, evil
	f.snapshot.Resource, _ = view.ResourceOf(app)
	s := listen(t, f)
	secret, _ := s.sessions.startSession(s.NewCode(), "")
	for _, r := range s.routes {
		if r.method != http.MethodGet || strings.HasSuffix(r.path, "events") { // See TestEscapedStream.
			continue
		}
		q := request{host: "127.0.0.1:" + s.port, method: r.method, cookie: secret}
		text := q.send(s, address(s, r)+"?to="+url.QueryEscape(evil)+"&of=app/shop/cart&filter="+url.QueryEscape("img")).Body.String()
		if strings.Contains(text, "<img") || strings.Contains(text, secret) {
			t.Errorf("%s has markup of the cluster, or the session's secret:\n%s", r.path, text)
		}
		if !r.open && !strings.Contains(text, "&lt;img") {
			t.Errorf("%s has nothing of the cluster:\n%s", r.path, text)
		}
	}
}

// TestMasked checks that values which may be secret are not on the page.
func TestMasked(t *testing.T) {
	t.Parallel()
	app := &appv1.App{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "cart"}}
	app.Spec.Image = "nginx"
	app.Spec.Envs = append(app.Spec.Envs, envs("DB_PASSWORD", "hidden-value"), envs("COLOR", "green"))
	app.Spec.Args = []string{"--token=hidden-value"}
	f := newFake()
	f.snapshot.Resource, _ = view.ResourceOf(app)
	s := listen(t, f)
	secret, _ := s.sessions.startSession(s.NewCode(), "")
	q := request{host: "127.0.0.1:" + s.port, method: http.MethodGet, cookie: secret}
	text := q.send(s, "/"+s.id+"/app/shop/cart").Body.String()
	if strings.Contains(text, "hidden-value") || !strings.Contains(text, "green") {
		t.Errorf("the page is\n%s", text)
	}
}

func envs(name, value string) corev1.EnvVar { return corev1.EnvVar{Name: name, Value: value} }

// TestFilter suits rows by words of any column, and by the whole of a named one.
func TestFilter(t *testing.T) {
	t.Parallel()
	row := &view.Row{
		Kind: "App", Namespace: "shop", Name: "cart", State: view.StateStalled, Reason: "ImagePullBackOff", Pods: view.PodCount{Wanted: 2}, Message: "0 of 2 pods are ready: see http://wiki/a",
	}
	for filter, want := range map[string]bool{
		"": true, "CART": true, "shop/cart": true, "app imagepull": true, "app billing": false, "ready": true,
		"state:ready": false, "state:stalled": true, "state:Stalled cart": true, "state:stall": false, "state:stalled billing": false,
		"kind:app": true, "kind:ap": false, "namespace:shop": true, "namespace:sho": false, "name:cart": true, "name:ca": false,
		"reason:imagepullbackoff": true, "group:needs-you": true, "group:ready": false, "pods:none": true, "pods:some": false, "http://wiki/a": true, "other:cart": false,
	} {
		if got := matchesFilter(row, filter); got != want {
			t.Errorf("%q: %t, want %t", filter, got, want)
		}
	}
}

// TestPieces keeps the flags of commands in one piece, and loses no part of a text.
func TestPieces(t *testing.T) {
	for text, flags := range map[string][]string{
		"": nil, "no command": nil, "a well-known state, 5 - 3, -1": nil, "kubectl create job x --from=cronjob/x -n shop.": {"--from=cronjob/x", "-n"},
		"--all": {"--all"}, "<b> -x": {"-x"},
	} {
		var got []string
		whole := ""
		for _, p := range piecesOf(text) {
			whole += p.Text
			if p.Flag {
				got = append(got, p.Text)
			}
		}
		if whole != text || !slices.Equal(got, flags) {
			t.Errorf("%q has the flags %q and the text %q", text, got, whole)
		}
	}
	if html, err := executeTemplate("words", "see <b> --to=<i>"); err != nil || html != `see &lt;b&gt; <span class="flag">--to=&lt;i&gt;</span>` {
		t.Errorf("%s, %v", html, err)
	}
}
