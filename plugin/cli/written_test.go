package cli

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"path"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"

	appv1 "huolala.cn/app-operator/api/v1"
)

// roundTripper answers requests without a network, so that a test has a clock of its own.
type roundTripper func(*http.Request) (*http.Response, error)

// RoundTrip implements http.RoundTripper.
func (answer roundTripper) RoundTrip(q *http.Request) (*http.Response, error) { return answer(q) }

// serveTrip answers a request by a server.
func (f *fakeServer) serveTrip(q *http.Request) (*http.Response, error) {
	if q.Body == nil {
		q.Body = http.NoBody
	}
	recorder := httptest.NewRecorder()
	f.ServeHTTP(recorder, q)
	return recorder.Result(), nil
}

// runWith runs the plug-in with what answers its requests, and returns its error.
func (f *fakeServer) runWith(ctx context.Context, t *testing.T, trip roundTripper, args ...string) (out, said string, err error) {
	t.Helper()
	var stdout, stderr strings.Builder
	r := &root{Program: f.program(t, &stdout, &stderr, args...), flags: genericclioptions.NewConfigFlags(true)}
	r.flags.WrapConfigFn = func(config *rest.Config) *rest.Config {
		config.Transport = trip
		return config
	}
	cmd := r.rootCommand() //nolint:contextcheck // cobra hands each command the context of ExecuteContext.
	cmd.SetArgs(r.Args)
	err = cmd.ExecuteContext(ctx)
	return stdout.String(), stderr.String(), err
}

// readyAgain is the App of stalled once it is ready.
func readyAgain(version string) *appv1.App {
	app := stalled(version)
	app.Status.Conditions = []metav1.Condition{
		{Type: appv1.ConditionReady, Status: metav1.ConditionTrue, Reason: appv1.ReasonReady},
		{Type: appv1.ConditionApplied, Status: metav1.ConditionTrue, Reason: appv1.ReasonApplied},
	}
	return app
}

// progressing is the App of stalled while its rollout goes on.
func progressing(version string) *appv1.App {
	app := stalled(version)
	app.Status.Conditions = []metav1.Condition{{Type: appv1.ConditionReady, Status: metav1.ConditionUnknown, Reason: appv1.ReasonProgressing}}
	return app
}

// waitsOnStalled are the commands with --wait that do not change the generation of a resource, and what the stalled App has before each.
var waitsOnStalled = map[string]struct {
	args   []string
	before func(*appv1.App)
	// same is true if the command does not change the App.
	same bool
}{
	"restart": {[]string{"restart", "web"}, func(*appv1.App) {}, true},
	"unhold": {[]string{"unhold", "web"}, func(app *appv1.App) {
		app.Annotations = map[string]string{appv1.AnnotationHold: "web-1"}
	}, false},
	"promote": {[]string{"promote", "web", "--force"}, func(app *appv1.App) {
		app.Status.Canary = &appv1.CanaryStatus{Name: "web-canary", UID: "2", Pods: 1}
	}, false},
	"refresh": {[]string{"refresh", "web"}, func(*appv1.App) {}, false},
}

// stalledServer is a server with the App web in a state before a command, and in states from one read to the next after it; the last one stays.
func stalledServer(t *testing.T, before *appv1.App, after ...*appv1.App) *fakeServer {
	t.Helper()
	d := &appsv1.Deployment{ObjectMeta: objectMeta("web")}
	d.OwnerReferences = []metav1.OwnerReference{{UID: before.UID, Controller: ptr.To(true)}}
	f := newFakeServer(t, map[string]runtime.Object{"deployments/web": d})
	done := false
	f.answer = func(q *http.Request, _ string) runtime.Object {
		if q.Method == http.MethodPatch && q.URL.Query().Get("dryRun") == "" {
			done = true
			if path.Base(path.Dir(q.URL.Path)) == "apps" {
				return after[0]
			}
		}
		switch now := after[0]; {
		case path.Base(q.URL.Path) != "web" || path.Base(path.Dir(q.URL.Path)) != "apps":
			return nil
		case !done:
			return before
		default:
			if len(after) > 1 {
				after = after[1:]
			}
			return now
		}
	}
	return f
}

// TestWaitOnStalled has all commands whose change of a stalled App is no change of its generation wait for it: the status of before does not count, unless
// it stays for staleFor.
func TestWaitOnStalled(t *testing.T) {
	for command, c := range waitsOnStalled {
		version := "8"
		if c.same {
			version = "7"
		}
		for name, e := range map[string]struct {
			after       []*appv1.App
			said        string
			least, most time.Duration
		}{
			"it comes up":         {[]*appv1.App{stalled(version), readyAgain("9")}, "", 0, 3 * time.Second},
			"it comes up later":   {append(slices.Repeat([]*appv1.App{stalled(version)}, 10), readyAgain("9")), "", 0, staleFor},
			"it stalls once more": {[]*appv1.App{stalled(version), stalled("9")}, "web is stalled: no progress; see: ", 0, 3 * time.Second},
			"it stays stalled":    {[]*appv1.App{stalled(version)}, "web is stalled: no progress; see: ", staleFor, staleFor + 3*time.Second},
		} {
			t.Run(command+", "+name, func(t *testing.T) {
				before := stalled("7")
				c.before(before)
				f := stalledServer(t, before, e.after...)
				synctest.Test(t, func(t *testing.T) {
					began := time.Now()
					out, said, err := f.runWith(t.Context(), t, f.serveTrip, append(c.args, "--yes", "--wait")...)
					var failed *exit
					if errors.As(err, &failed) != (e.said != "") || failed != nil && (failed.code != 1 || !strings.Contains(failed.text, e.said)) || failed == nil && err != nil {
						t.Errorf("%v\n%s%s", err, out, said)
					}
					if took := time.Since(began); took < e.least || took > e.most {
						t.Errorf("it took %s, want %s to %s", took, e.least, e.most)
					}
				})
			})
		}
	}
}

// TestRestartWithoutLists restarts a ready App whose Deployment cannot be listed: the condition Ready of before the restart does not count, unless it stays
// for staleFor.
func TestRestartWithoutLists(t *testing.T) {
	refused := status(apierrors.NewForbidden(appsv1.Resource("deployments"), "", nil))
	fails := status(apierrors.NewInternalError(errors.New("not now")))
	rolls, done := &appsv1.DeploymentList{Items: make([]appsv1.Deployment, 1)}, &appsv1.DeploymentList{Items: make([]appsv1.Deployment, 1)}
	for _, list := range []*appsv1.DeploymentList{rolls, done} {
		list.Items[0].ObjectMeta = objectMeta("web")
		list.Items[0].OwnerReferences = []metav1.OwnerReference{{UID: "1", Controller: ptr.To(true)}}
	}
	done.Items[0].Status = appsv1.DeploymentStatus{ObservedGeneration: 2, Replicas: 1, UpdatedReplicas: 1, AvailableReplicas: 1, ReadyReplicas: 1}
	old := readyAgain("7")
	for name, c := range map[string]struct {
		after       []*appv1.App
		lists       []runtime.Object // From one wait to the next; the last one stays.
		least, most time.Duration
	}{
		"the status follows":  {append(slices.Repeat([]*appv1.App{old}, 5), progressing("8"), progressing("8"), readyAgain("9")), []runtime.Object{refused}, 7 * time.Second, 9 * time.Second},
		"the status stays":    {[]*appv1.App{old}, []runtime.Object{refused}, staleFor, staleFor + 3*time.Second},
		"one list fails":      {[]*appv1.App{old}, []runtime.Object{fails, rolls, rolls, done}, 3 * time.Second, 5 * time.Second},
		"all can be listed":   {[]*appv1.App{old}, []runtime.Object{done}, 0, time.Second},
		"it rolls for longer": {[]*appv1.App{old}, append(slices.Repeat([]runtime.Object{rolls}, 30), done), 30 * time.Second, 32 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			f := stalledServer(t, old, c.after...)
			app := f.answer
			f.answer = func(q *http.Request, body string) runtime.Object {
				if path.Base(q.URL.Path) != "deployments" {
					return app(q, body)
				}
				now := c.lists[0]
				if len(c.lists) > 1 {
					c.lists = c.lists[1:]
				}
				return now
			}
			synctest.Test(t, func(t *testing.T) {
				began := time.Now()
				out, said, err := f.runWith(t.Context(), t, f.serveTrip, "restart", "web", "--yes", "--wait")
				if took := time.Since(began); err != nil || took < c.least || took > c.most {
					t.Errorf("%v after %s, want %s to %s\n%s%s", err, took, c.least, c.most, out, said)
				}
			})
		})
	}
}

// TestWaitWithoutChange has commands that change nothing wait for a stalled App: its status is the present one.
func TestWaitWithoutChange(t *testing.T) {
	for _, args := range [][]string{{"unhold", "web", "--yes"}, {"resume", "web"}} {
		f := stalledServer(t, stalled("7"), stalled("7"))
		synctest.Test(t, func(t *testing.T) {
			began := time.Now()
			out, said, err := f.runWith(t.Context(), t, f.serveTrip, append(args, "--wait")...)
			if err == nil || !strings.Contains(err.Error(), "web is stalled") || time.Since(began) > time.Second || len(f.writes) > 0 {
				t.Errorf("%q: %v after %s, writes %q\n%s%s", args, err, time.Since(began), f.writes, out, said)
			}
		})
	}
}

// TestWaitsAreKnown has no command with --wait that is neither tested with a stalled App nor known to change the spec.
func TestWaitsAreKnown(t *testing.T) {
	r := &root{flags: genericclioptions.NewConfigFlags(true)}
	for _, cmd := range r.rootCommand().Commands() {
		if cmd.Flags().Lookup("wait") == nil || slices.Contains([]string{"rollback", "resume"}, cmd.Name()) {
			continue
		}
		if _, known := waitsOnStalled[cmd.Name()]; !known {
			t.Errorf("%s has --wait", cmd.Name())
		}
	}
}
