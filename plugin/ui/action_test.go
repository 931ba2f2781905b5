package ui

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/ptr"

	appv1 "huolala.cn/app-operator/api/v1"
	"huolala.cn/app-operator/plugin/view"
)

// visit sends a request with a session, and a form if there is one.
func visit(s *Server, secret, path string, form url.Values) *httptest.ResponseRecorder {
	q := request{host: "127.0.0.1:" + s.port, site: "same-origin", method: http.MethodGet, cookie: secret, form: form}
	if form != nil {
		q.method, q.contentType, q.token = http.MethodPost, "application/x-www-form-urlencoded", formToken(secret)
	}
	return q.send(s, "/"+s.id+"/"+path)
}

// TestActions shows the plan of each action, and does what was proposed: once, with its value and the version of the plan.
func TestActions(t *testing.T) {
	t.Parallel()
	values := map[string]string{Scale: "3", Hold: "cart-1", Rollback: "2", Promote: "1", Abort: "1"}
	for do := range verbs {
		if do == Suspend { // See TestOffersOfTasks.
			continue
		}
		actor := &acted{}
		s := listenWith(t, newFake(), actor)
		secret, _ := s.sessions.startSession(s.NewCode(), "")
		verb := actionLabel(do, values[do], "")
		path := "app/shop/cart/" + do
		page := visit(s, secret, path+"?value="+values[do], nil)
		if text := page.Body.String(); page.Code != http.StatusOK || !strings.Contains(text, "plan of "+do+" cart "+values[do]) ||
			!strings.Contains(text, "2 pods restart") || !strings.Contains(text, `<button class="first">`+verb+"</button>") || !strings.Contains(text, `name="version" value="7"`) {
			t.Errorf("%s: %d\n%s", do, page.Code, text)
		}
		if len(actor.done) > 0 {
			t.Errorf("%s: the page has done %v", do, actor.done)
		}
		answer := visit(s, secret, path, url.Values{"value": {values[do]}, "version": {"7"}})
		if answer.Code != http.StatusSeeOther || answer.Header().Get("Location") != "/"+s.id+"/app/shop/cart" {
			t.Errorf("%s: %d %v", do, answer.Code, answer.Header())
		}
		said := fmt.Sprintf(noteDone, verb)
		if text := visit(s, secret, "app/shop/cart", nil).Body.String(); !strings.Contains(text, said) {
			t.Errorf("%s: the page does not report it:\n%s", do, text)
		}
		if text := visit(s, secret, "app/shop/cart", nil).Body.String(); strings.Contains(text, said) {
			t.Errorf("%s: the page reports it twice", do)
		}
		if want := []string{do + " shop/cart " + values[do] + " 7"}; !slices.Equal(actor.done, want) {
			t.Errorf("%s: done is %q, want %q", do, actor.done, want)
		}
	}
}

// TestRefusedActions has actions that cannot be done, or are not known to be done: the page says which, and why, and shows the plan of now where there is one.
func TestRefusedActions(t *testing.T) {
	t.Parallel()
	forbidden := apierrors.NewForbidden(schema.GroupResource{Group: "app.huolala.cn", Resource: "apps"}, "cart", errors.New("no right"))
	for name, c := range map[string]struct {
		path   string
		form   url.Values
		err    error
		status int
		says   string
	}{
		"changed, says": {"app/shop/cart/pause", url.Values{"version": {"6"}}, ErrChanged, http.StatusConflict, "nothing was done. This is the plan of now.</p>"},
		"changed":       {"app/shop/cart/pause", url.Values{"version": {"6"}}, ErrChanged, http.StatusConflict, "plan of pause"},
		"forbidden":     {"app/shop/cart/pause", url.Values{"version": {"7"}}, forbidden, http.StatusForbidden, "alert\">Nothing was done: "},
		"partial":       {"app/shop/cart/restart", url.Values{"version": {"7"}}, fmt.Errorf("%w: it broke", ErrPartial), http.StatusBadGateway, "alert\">only a part was done: it broke</p>"},
		"unclear": {
			"app/shop/cart/pause", url.Values{"version": {"7"}}, fmt.Errorf("%w: it broke", ErrUnclear), http.StatusBadGateway,
			"alert\">It is not known whether this was done: the API server has not answered as expected: it broke. This is the plan of now.</p>",
		},
		"unread":         {"app/shop/cart/pause", url.Values{"version": {"7"}}, errors.New("no answer"), http.StatusBadGateway, "alert\">Nothing was done: no answer</p>"},
		"no version":     {"app/shop/cart/pause", url.Values{}, nil, http.StatusBadRequest, "plan of pause"},
		"no such":        {"app/shop/cart/delete", url.Values{"version": {"7"}}, nil, http.StatusNotFound, "no such page"},
		"no such kind":   {"secret/shop/cart/pause", url.Values{"version": {"7"}}, nil, http.StatusNotFound, "no such page"},
		"scale to what":  {"app/shop/cart/scale", url.Values{"version": {"7"}, "value": {"many"}}, nil, http.StatusBadRequest, "must be a whole number"},
		"scale below":    {"app/shop/cart/scale", url.Values{"version": {"7"}, "value": {"-1"}}, nil, http.StatusBadRequest, "must be a whole number"},
		"scale as typed": {"app/shop/cart/scale", url.Values{"version": {"7"}, "value": {"+5"}}, nil, http.StatusBadRequest, "must be a whole number"},
		"scale by eight": {"app/shop/cart/scale", url.Values{"version": {"7"}, "value": {"007"}}, nil, http.StatusBadRequest, "must be a whole number"},
		"back to what":   {"app/shop/cart/rollback", url.Values{"version": {"7"}, "value": {"x"}}, nil, http.StatusBadRequest, "Choose a revision"},
		"hold what":      {"app/shop/cart/hold", url.Values{"version": {"7"}}, nil, http.StatusBadRequest, "Choose a revision"},
	} {
		actor := &acted{err: c.err}
		s := listenWith(t, newFake(), actor)
		secret, _ := s.sessions.startSession(s.NewCode(), "")
		answer := visit(s, secret, c.path, c.form)
		if text := answer.Body.String(); answer.Code != c.status || !strings.Contains(text, c.says) {
			t.Errorf("%s: %d, want %d\n%s", name, answer.Code, c.status, text)
		}
		if len(actor.done) > 0 {
			t.Errorf("%s: done is %v", name, actor.done)
		}
	}
}

// TestActionsOfKinds asks for each action of each kind: those that a kind does not have are not there, by any address.
func TestActionsOfKinds(t *testing.T) {
	t.Parallel()
	values := map[string]string{Scale: "3", Hold: "cart-1", Rollback: "2", Promote: "7", Abort: "7"}
	lacks := map[string][]string{
		"app": {Suspend}, "modelbox": {Suspend}, "uniteddeployment": {Suspend, Hold, Unhold, Promote, Abort},
		"cloudmanager": {Suspend, Hold, Unhold, Scale, Rollback, Promote, Abort}, "task": {Refresh, Restart, Hold, Unhold, Scale, Rollback, Promote, Abort},
	}
	for kind, lacking := range lacks {
		for do := range verbs {
			actor := &acted{}
			s := listenWith(t, newFake(), actor)
			secret, _ := s.sessions.startSession(s.NewCode(), "")
			path := kind + "/shop/cart/" + do
			page := visit(s, secret, path+"?value="+values[do], nil)
			visit(s, secret, path, url.Values{"value": {values[do]}, "version": {"7"}})
			want := http.StatusOK
			if slices.Contains(lacking, do) {
				want = http.StatusNotFound
			}
			if page.Code != want || (len(actor.done) > 0) != (want == http.StatusOK) {
				t.Errorf("%s: %d, want %d; done is %v", path, page.Code, want, actor.done)
			}
		}
	}
}

// TestOffers checks which actions the page of a resource offers, and that without the right it offers none and says so.
func TestOffers(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		change       func(*appv1.App)
		offered, not []string
	}{
		"plain":  {func(*appv1.App) {}, []string{"cart/pause", "cart/scale"}, []string{"cart/resume", "cart/unhold", "cart/refresh", "cart/hold"}},
		"good":   {func(app *appv1.App) { app.Status.LastGood = &appv1.GoodRevision{ReplicaSet: "cart-1"} }, []string{"cart/hold"}, []string{"cart/unhold"}},
		"paused": {func(app *appv1.App) { app.Spec.Paused = true }, []string{"cart/resume"}, []string{"cart/pause"}},
		"held":   {func(app *appv1.App) { app.Annotations = map[string]string{appv1.AnnotationHold: "cart-1"} }, []string{"cart/unhold"}, []string{"cart/hold"}},
		"canary": {
			func(app *appv1.App) { app.Status.Canary, app.Status.Conditions = canaryOf(2) },
			[]string{"cart/promote", "cart/abort"}, nil,
		},
		"a canary with a pod that is not ready": {
			func(app *appv1.App) { app.Status.Canary, app.Status.Conditions = canaryOf(1) },
			[]string{"cart/abort"}, []string{"cart/promote"},
		},
		"a canary with another change": {func(app *appv1.App) {
			app.Status.Canary, app.Status.Conditions = canaryOf(2)
			app.Spec.Paused, app.Status.Pending = true, []string{"Deployment cart: image"}
		}, []string{"cart/abort", "cart/resume"}, []string{"cart/promote"}},
		"restart":              {func(*appv1.App) {}, []string{"cart/restart"}, nil},
		"without a Deployment": {func(app *appv1.App) { app.UID = "none" }, []string{"cart/pause"}, []string{"cart/restart"}},
		"scaled": {
			func(app *appv1.App) { app.Spec.Autoscaling = &appv1.AutoscalingSpec{MaxReplicas: 3} }, []string{"cart/restart"}, []string{"cart/scale"},
		},
		"kept": {func(app *appv1.App) {
			app.Status.Conditions = []metav1.Condition{{Type: appv1.ConditionApplied, Status: metav1.ConditionTrue, Reason: appv1.ReasonTemplateKept}}
		}, []string{"cart/refresh"}, nil},
		"outdated": {func(app *appv1.App) { app.Status.Rendering, app.Status.LatestRendering = 1, 2 }, []string{"cart/refresh"}, nil},
	} {
		f := newFake()
		app := &appv1.App{}
		app.Namespace, app.Name = "shop", "cart"
		c.change(app)
		if app.UID == "" {
			f.snapshot.Deployments = []appsv1.Deployment{{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "cart"}}}
		}
		f.snapshot.Resource, _ = view.ResourceOf(app)
		for _, allowed := range []bool{true, false} {
			actor := &acted{}
			if !allowed {
				actor.allowed = errors.New("you may not patch apps in shop")
			}
			s := listenWith(t, f, actor)
			secret, _ := s.sessions.startSession(s.NewCode(), "")
			text := visit(s, secret, "app/shop/cart", nil).Body.String()
			for _, link := range c.offered {
				if leadsTo(text, link) != allowed {
					t.Errorf("%s, allowed %t: %s\n%s", name, allowed, link, text)
				}
			}
			for _, link := range c.not {
				if leadsTo(text, link) {
					t.Errorf("%s offers %s", name, link)
				}
			}
			if strings.Contains(text, "you may not patch") == allowed || strings.Contains(text, `<button disabled aria-describedby="not-allowed">`) == allowed {
				t.Errorf("%s, allowed %t:\n%s", name, allowed, text)
			}
			checkDisabled(t, name, text)
		}
		s := listenWith(t, f, nil)
		secret, _ := s.sessions.startSession(s.NewCode(), "")
		if text := visit(s, secret, "app/shop/cart", nil).Body.String(); strings.Contains(text, `class="button`) {
			t.Errorf("%s: the page that only reads offers actions", name)
		}
		if answer := visit(s, secret, "app/shop/cart/pause", url.Values{"version": {"7"}}); answer.Code != http.StatusNotFound {
			t.Errorf("%s: the server that only reads answers %d", name, answer.Code)
		}
	}
}

// canaryOf returns a canary with 2 pods, some of them ready, and the condition about that.
func canaryOf(ready int32) (*appv1.CanaryStatus, []metav1.Condition) {
	c := metav1.Condition{Type: appv1.ConditionCanaryReady, Status: metav1.ConditionTrue}
	if ready < 2 {
		c.Status = metav1.ConditionFalse
	}
	return &appv1.CanaryStatus{Name: "cart-canary", UID: "7", Pods: 2, Ready: ready}, []metav1.Condition{c}
}

// leadsTo reports whether a page has a link to an action.
func leadsTo(text, action string) bool {
	return strings.Contains(text, action+`"`) || strings.Contains(text, action+"?")
}

// checkDisabled fails the test unless each disabled button has an element that says why.
func checkDisabled(t *testing.T, name, text string) {
	t.Helper()
	for _, button := range regexp.MustCompile(`<button disabled[^>]*>`).FindAllString(text, -1) {
		_, id, _ := strings.Cut(button, `aria-describedby="`)
		id, _, _ = strings.Cut(id, `"`)
		_, said, found := strings.Cut(text, ` id="`+id+`"`)
		_, said, _ = strings.Cut(said, ">")
		if id == "" || !found || strings.HasPrefix(said, "<") {
			t.Errorf("%s: %s does not say why in\n%s", name, button, text)
		}
	}
}

// TestDisabledSaysWhy looks at buttons that cannot be pressed: of what is being deleted, without a good revision, and with an obstacle.
func TestDisabledSaysWhy(t *testing.T) {
	t.Parallel()
	f, actor := newFake(), &acted{blocked: "RevisionNotFound: there is none"}
	app := &appv1.App{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "cart", DeletionTimestamp: ptr.To(metav1.Now())}}
	f.snapshot.Resource, _ = view.ResourceOf(app)
	s := listenWith(t, f, actor)
	secret, _ := s.sessions.startSession(s.NewCode(), "")
	text := visit(s, secret, "app/shop/cart", nil).Body.String()
	if n := strings.Count(text, "<button disabled"); n < 4 || strings.Count(text, whyDeleting) != n {
		t.Errorf("%d disabled buttons:\n%s", n, text)
	}
	checkDisabled(t, "deleting", text)
	text = visit(s, secret, "app/shop/cart/pause", nil).Body.String()
	if !strings.Contains(text, "<button disabled") || !strings.Contains(text, actor.blocked) {
		t.Errorf("with an obstacle:\n%s", text)
	}
	checkDisabled(t, "obstacle", text)
}

// TestScaleOfTheSpec checks that the number of pods that is asked for first is that of the spec, and the live one where there is none.
func TestScaleOfTheSpec(t *testing.T) {
	t.Parallel()
	for want, stated := range map[string]*int32{"4": ptr.To[int32](4), "2": nil, "0": ptr.To[int32](0)} {
		app := &appv1.App{}
		app.Spec.Replicas, app.Status.Ready = stated, "1/2"
		r, _ := view.ResourceOf(app)
		kind, _ := view.KindOf("app")
		all := offersOf(kind, &view.Snapshot{Resource: r})
		if last := all[len(all)-1]; last.Do != Scale || last.Value != want {
			t.Errorf("the offer is %+v, want %s pods", last, want)
		}
	}
}

// slowActor takes a second for each action, and notes those that it has carried out. The first ones fail.
type slowActor struct {
	acted
	mu       sync.Mutex
	failures int
}

// PerformAction implements Actor.
func (a *slowActor) PerformAction(ctx context.Context, act Action, version string) error {
	select {
	case <-ctx.Done():
		return fmt.Errorf("%w: %w", ErrUnclear, ctx.Err())
	case <-time.After(time.Second):
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.failures > 0 {
		a.failures--
		return errors.New("no answer")
	}
	return a.acted.PerformAction(ctx, act, version)
}

// TestFormSentTwice sends the form of an action again, after a time: while it is carried out, and a short time after it was, nothing is done a second time, and
// both lead back to the resource. A form that has failed, another one, and one that comes later are carried out.
func TestFormSentTwice(t *testing.T) {
	form := func(value, version string) url.Values { return url.Values{"value": {value}, "version": {version}} }
	for name, c := range map[string]struct {
		second   url.Values
		path     string
		after    time.Duration
		failures int
		// leaves is true if the browser does not wait for the first answer.
		leaves bool
		done   int
		status []int
	}{
		"a double click":               {form("3", "7"), "scale", time.Second / 2, 0, false, 1, []int{303, 303}},
		"the browser leaves the first": {form("3", "7"), "scale", time.Second / 2, 0, true, 1, []int{303, 303}},
		"a moment later":               {form("3", "7"), "scale", 2 * time.Second, 0, false, 1, []int{303, 303}},
		"later":                        {form("3", "7"), "scale", 2*time.Second + repeatTime, 0, false, 2, []int{303, 303}},
		"another value":                {form("4", "7"), "scale", time.Second / 2, 0, false, 2, []int{303, 303}},
		"another version":              {form("3", "8"), "scale", time.Second / 2, 0, false, 2, []int{303, 303}},
		"another action":               {form("3", "7"), "restart", time.Second / 2, 0, false, 2, []int{303, 303}},
		"while it fails":               {form("3", "7"), "scale", time.Second / 2, 1, false, 0, []int{502, 502}},
		"after it has failed":          {form("3", "7"), "scale", 2 * time.Second, 1, false, 1, []int{502, 303}},
	} {
		synctest.Test(t, func(t *testing.T) {
			actor := &slowActor{failures: c.failures}
			s := listenWith(t, newFake(), actor)
			defer s.end()
			secret := login(t, s)
			send := func(ctx context.Context, path string, form url.Values) int {
				form.Set("token", formToken(secret))
				r := httptest.NewRequestWithContext(ctx, http.MethodPost, "http://127.0.0.1:"+s.port+"/"+s.id+"/app/shop/cart/"+path, strings.NewReader(form.Encode()))
				r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
				r.AddCookie(&http.Cookie{Name: s.cookieName(), Value: secret})
				w := httptest.NewRecorder()
				s.handler.ServeHTTP(w, r)
				return w.Code
			}
			ctx, leave := context.WithCancel(t.Context())
			defer leave()
			first := make(chan int)
			go func() { first <- send(ctx, "scale", form("3", "7")) }()
			got := make([]int, 2)
			second := make(chan int)
			go func() {
				<-time.After(c.after)
				if c.leaves {
					leave()
				}
				second <- send(t.Context(), c.path, c.second)
			}()
			got[0], got[1] = <-first, <-second
			if !slices.Equal(got, c.status) || len(actor.done) != c.done {
				t.Errorf("%s: the answers are %v, want %v; done is %q, want %d", name, got, c.status, actor.done, c.done)
			}
		})
	}
}
