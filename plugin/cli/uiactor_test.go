package cli

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"path"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"

	"huolala.cn/app-operator/api/plan"
	appv1 "huolala.cn/app-operator/api/v1"
	"huolala.cn/app-operator/plugin/ui"
	"huolala.cn/app-operator/plugin/view"
)

// TestUnclearActions has writes of the pages fail: only after an answer that refuses it, an action is known not to be done. A failed read or dry run does
// nothing.
func TestUnclearActions(t *testing.T) {
	t.Parallel()
	kind, _ := view.KindOf("App")
	apps := schema.GroupResource{Resource: "apps"}
	write := func(q *http.Request) bool { return q.Method == http.MethodPatch && q.URL.Query().Get("dryRun") == "" }
	dryRun := func(q *http.Request) bool { return q.Method == http.MethodPatch && q.URL.Query().Get("dryRun") != "" }
	read := func(q *http.Request) bool { return q.Method == http.MethodGet && path.Base(q.URL.Path) == "web" }
	for name, c := range map[string]struct {
		at     func(*http.Request) bool
		answer *apierrors.StatusError // nil if the connection ends.
		want   error
	}{
		"no answer":   {write, nil, ui.ErrUnclear},
		"unavailable": {write, unavailable, ui.ErrUnclear},
		"internal":    {write, apierrors.NewInternalError(errors.New("etcd")), ui.ErrUnclear},
		"too slow":    {write, apierrors.NewTimeoutError("slow", 0), ui.ErrUnclear},
		"forbidden":   {write, forbidden, nil},
		"invalid":     {write, apierrors.NewBadRequest("no"), nil},
		"no read":     {read, unavailable, nil},
		"no dry run":  {dryRun, unavailable, nil},
		"a conflict":  {write, apierrors.NewConflict(apps, "web", errors.New("changed")), ui.ErrChanged},
	} {
		for _, do := range []string{ui.Pause, ui.Refresh, ui.Restart} {
			if do != ui.Restart && name == "no dry run" || do == ui.Restart && name == "a conflict" { // A pause has no dry run, and a restart is tried again.
				continue
			}
			d := &appsv1.Deployment{ObjectMeta: objectMeta("web")}
			d.OwnerReferences = []metav1.OwnerReference{{UID: "1", Controller: ptr.To(true)}}
			f := newFakeServer(t, map[string]runtime.Object{"apps/web": &appv1.App{ObjectMeta: objectMeta("web")}, "deployments/web": d})
			f.answer = func(q *http.Request, _ string) runtime.Object {
				switch {
				case !c.at(q):
					return nil
				case c.answer == nil:
					panic(http.ErrAbortHandler)
				}
				return status(c.answer)
			}
			a := &actor{clients: f.clients(t)}
			err := a.PerformAction(t.Context(), ui.Action{Kind: kind, Namespace: namespaceOfTests, Name: "web", Do: do}, "7")
			if err == nil || errors.Is(err, ui.ErrUnclear) != errors.Is(c.want, ui.ErrUnclear) || c.want != nil && !errors.Is(err, c.want) || errors.Is(err, ui.ErrPartial) {
				t.Errorf("%s, %s: %v, want %v", name, do, err, c.want)
			}
			if c.want == nil && c.answer != nil && !strings.Contains(err.Error(), c.answer.ErrStatus.Message) {
				t.Errorf("%s, %s: %v does not say why", name, do, err)
			}
		}
	}
}

// TestProposedRestarts has plans of an action and of a text that the operator has answered in part, or that end at a tier that waits: the pages get the reason
// why it is not known how many pods restart, and the number of those of a canary.
func TestProposedRestarts(t *testing.T) {
	t.Parallel()
	kind, _ := view.KindOf("App")
	canary := plan.Object{Kind: "Deployment", Name: "web-canary", Action: plan.Created, Pods: &plan.Pods{Canary: true, Running: 4, Wanted: 1}}
	for name, c := range map[string]struct {
		plan     plan.Plan
		unknown  string
		promoted int
		paused   int
	}{
		"complete":     {plan: plan.Plan{}},
		"incomplete":   {plan: plan.Plan{Incomplete: true}, unknown: "not all was answered in time"},
		"a tier waits": {plan: plan.Plan{Problem: &plan.Problem{Reason: appv1.ReasonDependencyNotReady, Message: "db"}}, unknown: "DependencyNotReady: db"},
		"a canary":     {plan: plan.Plan{Objects: []plan.Object{canary}}, promoted: 4},
		"paused":       {plan: plan.Plan{Paused: true, Objects: []plan.Object{canary}}, promoted: 4, paused: 1},
	} {
		f := newFakeServer(t, map[string]runtime.Object{"apps/web": &appv1.App{ObjectMeta: objectMeta("web")}})
		f.answer = func(q *http.Request, _ string) runtime.Object {
			if q.Method != http.MethodPatch {
				return nil
			}
			return answeredPlan(t, &c.plan)
		}
		a := &actor{clients: f.clients(t)}
		byAction, err := a.ProposeAction(t.Context(), ui.Action{Kind: kind, Namespace: namespaceOfTests, Name: "web", Do: ui.Pause})
		if err != nil {
			t.Fatal(err)
		}
		byText, err := a.PlanText(t.Context(), "apiVersion: app.huolala.cn/v1\nkind: App\nmetadata: {name: web}\nspec: {image: nginx}\n")
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range []*ui.Proposal{byAction, byText} {
			if p.Unknown != c.unknown || p.Promoted != c.promoted || p.Paused != c.paused || p.Pods != 0 {
				t.Errorf("%s: %+v", name, p)
			}
		}
	}
}

// reviewed answers the reviews of rights, and notes how long each may take at most.
type reviewed struct {
	allowed bool
	err     error
	within  []time.Duration
}

// RoundTrip implements http.RoundTripper.
func (r *reviewed) RoundTrip(q *http.Request) (*http.Response, error) {
	until, ok := q.Context().Deadline()
	if !ok {
		return nil, errors.New("there is no deadline")
	}
	r.within = append(r.within, time.Until(until))
	if r.err != nil {
		return nil, r.err
	}
	w := httptest.NewRecorder()
	w.Header().Set("Content-Type", "application/json")
	review := authorizationv1.SelfSubjectAccessReview{Status: authorizationv1.SubjectAccessReviewStatus{Allowed: r.allowed}}
	_ = json.NewEncoder(w).Encode(review)
	return w.Result(), nil
}

// TestRightsOfSilentServer has a page ask for the rights of the user while the API server does not answer: the page waits for a short time, once for several
// pages, and what was known stays.
func TestRightsOfSilentServer(t *testing.T) {
	kind, _ := view.KindOf("App")
	for name, c := range map[string]struct {
		known   bool // The API server has answered before.
		allowed bool
	}{
		"never answered": {}, "allowed": {true, true}, "not allowed": {true, false},
	} {
		transport := &reviewed{allowed: c.allowed}
		client, err := kubernetes.NewForConfig(&rest.Config{Host: "http://cluster.example", Transport: transport})
		if err != nil {
			t.Fatal(err)
		}
		a := &actor{clients: &clients{kube: client}, rights: map[string]knownRight{}}
		check := func() error { return a.CheckAllowed(t.Context(), kind, namespaceOfTests) }
		if c.known {
			_ = check()
			for key, known := range a.rights {
				known.until = time.Time{}
				a.rights[key] = known
			}
		}
		transport.err, transport.within = context.DeadlineExceeded, nil
		for range 3 {
			if err := check(); (err != nil) != (c.known && !c.allowed) {
				t.Errorf("%s: %v", name, err)
			}
		}
		if len(transport.within) != 1 || transport.within[0] > rightsTime {
			t.Errorf("%s: the requests may take %v, want one of at most %s", name, transport.within, rightsTime)
		}
	}
}
