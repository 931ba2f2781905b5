package cli

import (
	"context"
	"errors"
	"io"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"huolala.cn/app-operator/api/client/clientset/versioned"
	"huolala.cn/app-operator/plugin/view"
)

// silentServer is an API server that does not answer. It notes how long the first read waits for it, 0 for one that waits for ever, and ends the wait.
type silentServer struct {
	within time.Duration
	end    context.CancelFunc
}

// RoundTrip implements http.RoundTripper.
func (s *silentServer) RoundTrip(q *http.Request) (*http.Response, error) {
	defer s.end()
	if until, ok := q.Context().Deadline(); ok {
		s.within = time.Until(until)
	}
	return nil, errors.New("no answer")
}

// TestReadsOfWaitsEnd has all that waits read from an API server that does not answer: no read waits for ever.
func TestReadsOfWaitsEnd(t *testing.T) {
	kind, _ := view.KindOf("App")
	named := target{kind, namespaceOfTests, "web"}
	long := waitOptions{until: "ready", timeout: 10 * time.Minute}
	for name, wait := range map[string]func(context.Context, *root, *clients) error{
		"wait": func(ctx context.Context, r *root, c *clients) error { return r.waitFor(ctx, c, named, long) },
		"adopt": func(ctx context.Context, r *root, c *clients) error {
			return r.untilAdopted(ctx, c, named, &view.Resource{}, time.Minute)
		},
		"refresh": func(ctx context.Context, r *root, c *clients) error {
			return r.waitRefreshed(ctx, c, &written{target: named, version: "6"}, false)
		},
		"run": func(ctx context.Context, r *root, c *clients) error {
			_, err := (&runFollower{root: r, c: c, job: &batchv1.Job{ObjectMeta: objectMeta("web-run-x")}}).readState(ctx, time.Minute)
			return err
		},
	} {
		ctx, end := context.WithCancel(t.Context())
		server := &silentServer{end: end}
		config := &rest.Config{Host: "http://cluster.example", Transport: server, QPS: -1}
		app, err := versioned.NewForConfig(config)
		kube, err2 := kubernetes.NewForConfig(config)
		other, err3 := dynamic.NewForConfig(config)
		if err := errors.Join(err, err2, err3); err != nil {
			t.Fatal(err)
		}
		r := &root{Program: Program{Out: io.Discard, Err: io.Discard, Getenv: func(string) string { return "" }}, color: "auto"}
		err = wait(ctx, r, &clients{app: app, kube: kube, dynamic: other})
		if err == nil || server.within <= 0 || server.within > readWithin {
			t.Errorf("%s: a read may take %s, want at most %s: %v", name, server.within, readWithin, err)
		}
	}
}

// TestFollowedReadsEnd has a view with -w read again from an API server that hangs: it says so, and goes on once the API server answers.
func TestFollowedReadsEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		reads, notes := 0, 0
		again := &retrier{print: func(string) { notes++ }}
		text, err := redraw(t.Context(), again, func(ctx context.Context) (string, error) {
			if reads++; reads < 3 {
				<-ctx.Done()
				return "", ctx.Err()
			}
			return "drawn", nil
		})
		if err != nil || text != "drawn" || notes != 1 {
			t.Errorf("after %d reads: %q, %v, noted %d times", reads, text, err, notes)
		}
	})
}

// TestBoundRead has waits of several lengths: a read ends with the wait, and the last one still has a time.
func TestBoundRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for name, c := range map[string]struct {
			left, want time.Duration
		}{
			"long":             {time.Hour, readWithin},
			"as long as":       {readWithin, readWithin},
			"shorter":          {readWithin - time.Second, readWithin - time.Second},
			"the last read":    {lastRead - time.Second, lastRead},
			"over":             {-time.Second, lastRead},
			"without an end":   {0, readWithin},
			"the last at once": {lastRead, lastRead},
		} {
			again := &retrier{until: time.Now().Add(c.left)}
			if c.left == 0 {
				again.until = time.Time{}
			}
			ctx, end := again.boundRead(t.Context())
			until, _ := ctx.Deadline()
			end()
			if got := time.Until(until); got != c.want {
				t.Errorf("%s: a read may take %s, want %s", name, got, c.want)
			}
		}
	})
}
