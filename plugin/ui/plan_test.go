package ui

import (
	"errors"
	"net/http"
	"net/url"
	"strings"
	"testing"

	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	appv1 "huolala.cn/app-operator/api/v1"
	"huolala.cn/app-operator/plugin/view"
)

// TestPlanPage shows the plan of a text, which stays in the form, or what is wrong with it. Nothing is done.
func TestPlanPage(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		err    error
		status int
		says   []string
	}{
		"plan":  {nil, http.StatusOK, []string{"plan of kind: App\nspec: {}", "<strong>1 pod restarts.</strong>", "Nothing has changed"}},
		"wrong": {errors.New("no such field"), http.StatusBadGateway, []string{"no such field"}},
	} {
		actor := &acted{err: c.err}
		s := listenWith(t, newFake(), actor)
		secret, _ := s.sessions.startSession(s.NewCode(), "")
		page := visit(s, secret, "plan", url.Values{"text": {"kind: App\r\nspec: {}"}})
		text := page.Body.String()
		for _, wanted := range append(c.says, "autocomplete=\"off\">\nkind: App\nspec: {}</textarea>") {
			if page.Code != c.status || !strings.Contains(text, wanted) {
				t.Errorf("%s: %d, want %d and %q\n%s", name, page.Code, c.status, wanted, text)
			}
		}
		if len(actor.done) > 0 {
			t.Errorf("%s: done is %v", name, actor.done)
		}
	}
}

// TestRestartSentence has the sentence of a plan about the pods that restart, for all that is known of them.
func TestRestartSentence(t *testing.T) {
	t.Parallel()
	for want, p := range map[string]Proposal{
		"No pod restarts.": {},
		"1 pod restarts.":  {Pods: 1},
		"2 pods restart.":  {Pods: 2},
		"No pod restarts until the canary is promoted: then 1 pod restarts.":                      {Promoted: 1},
		"No pod restarts until the canary is promoted: then 4 pods restart.":                      {Promoted: 4},
		"2 pods restart, and 4 once the canary is promoted.":                                      {Pods: 2, Promoted: 4},
		"It is not known how many pods restart: not all was answered in time.":                    {Unknown: "not all was answered in time"},
		"It is not known how many pods restart, at least 2: not all was answered in time.":        {Unknown: "not all was answered in time", Pods: 2, Promoted: 1},
		"2 pods restart once it is resumed.":                                                      {Pods: 2, Paused: 1},
		"2 pods restart once they are resumed.":                                                   {Pods: 2, Paused: 2},
		"2 pods restart once they are resumed, and 4 once the canary is promoted.":                {Pods: 2, Promoted: 4, Paused: 2},
		"No pod restarts until it is resumed and the canary is promoted: then 4 pods restart.":    {Promoted: 4, Paused: 1},
		"It is not known how many pods restart once it is resumed, at least 2: no answer.":        {Unknown: "no answer", Pods: 2, Paused: 1},
		"No pod restarts while something is in the way.":                                          {Unknown: "Forbidden: no right", Blocked: "Forbidden: no right", Pods: 2, Paused: 1},
		"It is not known how many pods restart: DependencyNotReady: &lt;b&gt;db&lt;/b&gt; waits.": {Unknown: "DependencyNotReady: <b>db</b> waits"},
	} {
		text, err := executeTemplate("restarts", &p)
		if want = "<strong>" + want + "</strong>"; err != nil || text != want {
			t.Errorf("%q, want %q: %v", text, want, err)
		}
	}
}

// TestPlanDraft begins with the text of a resource, unless something in it is hidden.
func TestPlanDraft(t *testing.T) {
	t.Parallel()
	app, hidden := &appv1.App{}, &appv1.App{}
	app.Spec.Image, hidden.Spec.Image = "nginx:1", "nginx:1"
	hidden.Spec.Envs = append(hidden.Spec.Envs, envs("DB_PASSWORD", "hidden-value"))
	for name, c := range map[string]struct {
		app    *appv1.App
		of     string
		err    error
		status int
		says   string
	}{
		"nothing":     {app, "", nil, http.StatusOK, "autocomplete=\"off\">\n</textarea>"},
		"a resource":  {app, "app/shop/cart", nil, http.StatusOK, "apiVersion: app.huolala.cn/v1\nkind: App\nmetadata:\n  name: cart\n  namespace: shop\nspec:\n  image: nginx:1\n"},
		"hidden":      {hidden, "app/shop/cart", nil, http.StatusOK, "values that are hidden"},
		"no path":     {app, "app/shop", nil, http.StatusBadRequest, "is no KIND/NAMESPACE/NAME"},
		"no kind":     {app, "secret/shop/cart", nil, http.StatusBadRequest, "is no KIND/NAMESPACE/NAME"},
		"not at hand": {app, "app/shop/cart", errors.New("no answer"), http.StatusBadGateway, "no answer"},
	} {
		f := newFake()
		c.app.Namespace, c.app.Name = "shop", "cart"
		f.snapshot.Resource, _ = view.ResourceOf(c.app)
		f.err = c.err
		s := listen(t, f)
		secret, _ := s.sessions.startSession(s.NewCode(), "")
		page := visit(s, secret, "plan?"+url.Values{"of": {c.of}}.Encode(), nil)
		if text := page.Body.String(); page.Code != c.status || !strings.Contains(text, c.says) || strings.Contains(text, "hidden-value") {
			t.Errorf("%s: %d, want %d and %q\n%s", name, page.Code, c.status, c.says, text)
		}
	}
}

// TestPlanOnlyWithActions has no page for plans where nothing may be changed: a plan is a dry run of a change.
func TestPlanOnlyWithActions(t *testing.T) {
	t.Parallel()
	s := listenWith(t, newFake(), nil)
	secret, _ := s.sessions.startSession(s.NewCode(), "")
	if page := visit(s, secret, "plan", nil); page.Code != http.StatusNotFound {
		t.Errorf("%d", page.Code)
	}
	for _, path := range []string{"", "app/shop/cart"} {
		if text := visit(s, secret, path, nil).Body.String(); strings.Contains(text, "/plan") {
			t.Errorf("%q leads to plans:\n%s", path, text)
		}
	}
}

// TestSpecKeepsEmptyLists has a list in the spec that allows nothing, and which a list that is left out would not be.
func TestSpecKeepsEmptyLists(t *testing.T) {
	t.Parallel()
	app := &appv1.App{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "cart"}}
	app.Spec.Image, app.Spec.NetworkPolicy = "nginx", &appv1.NetworkPolicySpec{Ingress: []networkingv1.NetworkPolicyIngressRule{}}
	f := newFake()
	f.snapshot.Resource, _ = view.ResourceOf(app)
	s := listen(t, f)
	secret, _ := s.sessions.startSession(s.NewCode(), "")
	for _, path := range []string{"app/shop/cart", "plan?of=app/shop/cart"} {
		if text := visit(s, secret, path, nil).Body.String(); !strings.Contains(text, "ingress: []\n") || strings.Contains(text, "values that are hidden") {
			t.Errorf("%s:\n%s", path, text)
		}
	}
}

// TestSpecKeepsNumbers has a number in the spec that a floating-point number would change.
func TestSpecKeepsNumbers(t *testing.T) {
	t.Parallel()
	app := &appv1.App{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "cart"}}
	app.Spec.Image, app.Spec.TerminationGracePeriodSeconds = "nginx", ptr.To[int64](1<<53+1)
	f := newFake()
	f.snapshot.Resource, _ = view.ResourceOf(app)
	s := listen(t, f)
	secret, _ := s.sessions.startSession(s.NewCode(), "")
	for _, path := range []string{"app/shop/cart", "plan?of=app/shop/cart"} {
		if text := visit(s, secret, path, nil).Body.String(); !strings.Contains(text, "terminationGracePeriodSeconds: 9007199254740993\n") {
			t.Errorf("%s:\n%s", path, text)
		}
	}
}
