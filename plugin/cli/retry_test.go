package cli

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net/http"
	"path"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"

	"huolala.cn/app-operator/api/client/clientset/versioned"
	appv1 "huolala.cn/app-operator/api/v1"
	"huolala.cn/app-operator/plugin/view"
)

var (
	unavailable = apierrors.NewServiceUnavailable("it starts")
	forbidden   = apierrors.NewForbidden(schema.GroupResource{Resource: "apps"}, "web", errors.New("no right"))
)

// TestTransient has the errors after which the same request may succeed, and others.
func TestTransient(t *testing.T) {
	for _, c := range []struct {
		err  error
		want bool
	}{
		{nil, false}, {forbidden, false}, {apierrors.NewNotFound(schema.GroupResource{}, "web"), false}, {apierrors.NewUnauthorized("no"), false},
		{inWords(forbidden, "get", "App web", "shop"), false}, {fmt.Errorf("get: %w", &tls.CertificateVerificationError{}), false},
		{errors.New("connection refused"), true}, {context.DeadlineExceeded, true}, {unavailable, true}, {inWords(unavailable, "get", "App web", "shop"), true},
		{apierrors.NewTooManyRequests("later", 0), true}, {apierrors.NewInternalError(errors.New("etcd")), true}, {apierrors.NewTimeoutError("slow", 0), true},
	} {
		if got := isTransient(c.err); got != c.want {
			t.Errorf("%v: %t", c.err, got)
		}
	}
}

// failingFirst has the first reads of a resource answered with an error, and returns the number of reads.
func failingFirst(f *fakeServer, resource string, times int, with *apierrors.StatusError) *int {
	reads, answer := new(int), f.answer
	f.answer = func(q *http.Request, body string) runtime.Object {
		if q.Method == http.MethodGet && path.Base(path.Dir(q.URL.Path)) == resource {
			if *reads++; *reads <= times {
				return status(with)
			}
		}
		if answer == nil {
			return nil
		}
		return answer(q, body)
	}
	return reads
}

// leaving is an App that is being deleted.
func leaving() *appv1.App {
	app := &appv1.App{ObjectMeta: objectMeta("web")}
	app.DeletionTimestamp = ptr.To(metav1.Now())
	return app
}

// stalled is an App in a version whose rollout makes no progress.
func stalled(version string) *appv1.App {
	app := &appv1.App{ObjectMeta: objectMeta("web")}
	app.ResourceVersion, app.Status.ObservedGeneration = version, app.Generation
	app.Status.Conditions = []metav1.Condition{
		{Type: appv1.ConditionStalled, Status: metav1.ConditionTrue, Reason: appv1.ReasonProgressDeadlineExceeded, Message: "no progress"},
		{Type: appv1.ConditionReady, Status: metav1.ConditionFalse, Reason: appv1.ReasonProgressDeadlineExceeded, Message: "no progress"},
	}
	return app
}

// TestWaitGoesOn waits while the API server does not answer, and says so once. It ends with the time limit, and at once with an answer that no time
// changes.
func TestWaitGoesOn(t *testing.T) {
	const never = 1 << 20
	for name, c := range map[string]struct {
		times, code, most int
		with              *apierrors.StatusError
		args              []string
		want              string
	}{
		"it comes back":     {2, 1, 3, unavailable, nil, "is being deleted"},
		"too many requests": {1, 1, 2, apierrors.NewTooManyRequests("later", 0), nil, "is being deleted"},
		"the limit":         {never, exitTimeout, 2, unavailable, []string{"--timeout", "1s"}, "web is not known to be ready after 1s: get App web in shop: it starts"},
		"no time":           {never, exitTimeout, 1, unavailable, []string{"--timeout", "0"}, "it starts"},
		"a right":           {never, exitError, 1, forbidden, nil, "you may not get App web"},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFakeServer(t, map[string]runtime.Object{"apps/web": leaving()})
			reads := failingFirst(f, "apps", c.times, c.with)
			code, out, said := f.run(t, append([]string{"wait", "web"}, c.args...)...)
			if code != c.code || !strings.Contains(said, c.want) || *reads > c.most {
				t.Errorf("exit status %d after %d reads\n%s%s", code, *reads, out, said)
			}
			if noted := strings.Count(out, "web cannot be read, and is tried again: "); (noted == 1) != (c.most > 1) {
				t.Errorf("it is noted %d times:\n%s", noted, out)
			}
		})
	}
}

// TestOtherWaitsGoOn has the waits for an adoption and for a refresh lose the API server for a moment, and for longer than they wait. The status of the
// App is of after the refresh.
func TestOtherWaitsGoOn(t *testing.T) {
	kind, _ := view.KindOf("App")
	named := target{kind, namespaceOfTests, "web"}
	for name, c := range map[string]struct {
		times int
		app   *appv1.App
		wait  func(*root, *clients) error
		want  string
		noted int
	}{
		"an adoption": {1, leaving(), func(r *root, c *clients) error {
			return r.untilAdopted(t.Context(), c, named, &view.Resource{}, time.Minute)
		}, "takes over nothing", 1},
		"an adoption, too late": {100, leaving(), func(r *root, c *clients) error { return r.untilAdopted(t.Context(), c, named, &view.Resource{}, 0) },
			"web has not taken over its objects after 0s: get App web in shop: it starts. The annotation", 0},
		"a refresh": {1, stalled("7"), func(r *root, c *clients) error {
			return r.waitRefreshed(t.Context(), c, &written{target: named, version: "6"}, false)
		}, "is stalled", 1},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFakeServer(t, map[string]runtime.Object{"apps/web": c.app})
			failingFirst(f, "apps", c.times, unavailable)
			s := &runServer{fakeServer: f}
			follower := s.follower(t, nil, &bytes.Buffer{})
			var said bytes.Buffer
			follower.Err = &said
			err := c.wait(follower.root, follower.c)
			if err == nil || !strings.Contains(err.Error(), c.want) || strings.Count(said.String(), "is tried again") != c.noted {
				t.Errorf("%v\n%s", err, said.String())
			}
		})
	}
}

// TestRunSurvivesLostServer reads the state of a Job while the API server fails: it waits for it up to a limit, and not at all after a refusal.
func TestRunSurvivesLostServer(t *testing.T) {
	for name, c := range map[string]struct {
		times  int
		with   *apierrors.StatusError
		within time.Duration
		reads  int
		want   string
	}{
		"longer than some tries": {6, unavailable, time.Minute, 7, ""},
		"too long":               {100, unavailable, time.Second, 2, "it starts"},
		"a refusal":              {100, forbidden, time.Minute, 1, "you may not get Job web-run-x"},
	} {
		t.Run(name, func(t *testing.T) {
			s := newRunServer(t, endedStatus(0, ""))
			reads := failingFirst(s.fakeServer, "jobs", c.times, c.with)
			run, err := s.follower(t, nil, &bytes.Buffer{}).readState(t.Context(), c.within)
			if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) || err == nil && run.ExitCode == nil || *reads > c.reads {
				t.Errorf("%+v, %v after %d reads", run, err, *reads)
			}
		})
	}
}

// TestRunKeepsUnreadJob starts a command whose state cannot be read: it may run, so the Job stays, however short the time to start is.
func TestRunKeepsUnreadJob(t *testing.T) {
	for name, c := range map[string]struct {
		times, code int
		with        *apierrors.StatusError
		want        string
	}{
		"a right":  {100, 1, forbidden, "The Job stays; follow it: kubectl logs -f job/web-run-"},
		"a moment": {1, 0, unavailable, "cannot be read, and is tried again: "},
	} {
		t.Run(name, func(t *testing.T) {
			s := newRunServer(t, endedStatus(0, ""))
			failingFirst(s.fakeServer, "jobs", c.times, c.with)
			code, out, said := s.run(t, "run", "web", "--timeout", "0s", "--", "migrate")
			if code != c.code || !strings.Contains(said, c.want) || s.deleted() {
				t.Errorf("exit status %d, deleted: %t\n%s%s", code, s.deleted(), out, said)
			}
		})
	}
}

// TestRunWithInputDeletesUnreadJob starts a command with an input whose state cannot be read: nothing gives it the input, so the Job is deleted.
func TestRunWithInputDeletesUnreadJob(t *testing.T) {
	s := newRunServer(t, endedStatus(0, ""))
	failingFirst(s.fakeServer, "jobs", 100, forbidden)
	code, out, said := s.run(t, "run", "web", "-i", "--timeout", "0s", "--", "cat")
	if code != 1 || !s.deleted() {
		t.Errorf("exit status %d, deleted: %t\n%s%s", code, s.deleted(), out, said)
	}
}

// TestNoServerIsTransient reads a resource of an API server that is not there.
func TestNoServerIsTransient(t *testing.T) {
	client, err := versioned.NewForConfig(&rest.Config{Host: "http://127.0.0.1:1"})
	if err != nil {
		t.Fatal(err)
	}
	kind, _ := view.KindOf("App")
	_, err = (&clients{app: client}).clientOf(kind, namespaceOfTests).getResource(t.Context(), "web")
	if !isTransient(inWords(err, "get", "App web", namespaceOfTests)) {
		t.Errorf("%v is not transient", err)
	}
}
