package cli

import (
	"errors"
	"io"
	"net/http"
	"os/signal"
	"strings"
	"syscall"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
)

// passTime lets time pass, which is that of a synctest bubble.
func passTime(wait time.Duration) { time.Sleep(wait) } //nolint:forbidigo // It is the time of synctest.

// slowReader waits before each read.
type slowReader struct {
	io.Reader
	wait time.Duration
}

// Read implements io.Reader.
func (r slowReader) Read(into []byte) (int, error) {
	passTime(r.wait)
	return r.Reader.Read(into)
}

// openedFor answers a request for a log with one that breaks off after a time, without a line.
func openedFor(wait time.Duration) roundTripper {
	return func(q *http.Request) (*http.Response, error) {
		body := io.NopCloser(slowReader{iotest.ErrReader(syscall.ECONNRESET), wait})
		return &http.Response{StatusCode: http.StatusOK, Header: http.Header{}, Body: body, Request: q}, nil
	}
}

// brokenAfter breaks a request off after a time, without an answer.
func brokenAfter(wait time.Duration) roundTripper {
	return func(*http.Request) (*http.Response, error) {
		passTime(wait)
		return nil, syscall.ECONNRESET
	}
}

// answeredAfter answers a request for a log with an error after a time.
func answeredAfter(wait time.Duration, code int) roundTripper {
	return func(q *http.Request) (*http.Response, error) {
		passTime(wait)
		body := io.NopCloser(strings.NewReader("no log"))
		return &http.Response{StatusCode: code, Header: http.Header{"Content-Type": {"text/plain"}}, Body: body, Request: q}, nil
	}
}

// TestRunOfSilentCommand has a silent command whose log breaks off again and again, and then ends. It is followed for as long as the log can be followed, and
// otherwise for answerWithin.
func TestRunOfSilentCommand(t *testing.T) {
	const never = 1 << 20
	_, stop := signal.NotifyContext(t.Context(), syscall.SIGHUP) // What waits for signals begins here, outside of the bubbles.
	stop()
	for name, c := range map[string]struct {
		log         roundTripper
		times       int
		said        string
		least, most time.Duration
	}{
		"reset each minute":          {openedFor(time.Minute), 6, "", 6 * time.Minute, 7 * time.Minute},
		"reset before an answer":     {brokenAfter(time.Minute), 6, "", 6 * time.Minute, 7 * time.Minute},
		"a timeout of a proxy":       {answeredAfter(time.Minute, http.StatusGatewayTimeout), 6, "", 6 * time.Minute, 7 * time.Minute},
		"reset at once, for a while": {openedFor(0), 60, "", time.Minute, 2 * time.Minute},
		"reset at once":              {openedFor(0), never, "connection reset by peer. The Job stays; follow it: ", answerWithin, answerWithin + 5*time.Second},
		"never opened":               {brokenAfter(0), never, "connection reset by peer. The Job stays; follow it: ", answerWithin, answerWithin + 5*time.Second},
		"refused after a while": {
			answeredAfter(10*time.Second, http.StatusInternalServerError), never, "The Job stays; follow it: ", answerWithin, answerWithin + 15*time.Second,
		},
		"a lost right": {answeredAfter(0, http.StatusForbidden), never, "you may not get the log of pod", 0, time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			s := newRunServer(t, runningStatus())
			requests := 0
			trip := func(q *http.Request) (*http.Response, error) {
				if !strings.HasSuffix(q.URL.Path, "/log") {
					return s.serveTrip(q)
				}
				if requests++; requests <= c.times {
					return c.log(q)
				}
				s.logs[podOfRun], s.pods = "2026-01-01T00:00:00Z done\n", []corev1.PodStatus{endedStatus(0, "Completed")}
				return s.serveTrip(q)
			}
			synctest.Test(t, func(t *testing.T) {
				began := time.Now()
				out, said, err := s.runWith(t.Context(), t, trip, "run", "web", "--", "migrate")
				if (err == nil) != (c.said == "") || err != nil && !strings.Contains(err.Error(), c.said) || (out == "done\n") != (err == nil) || s.deleted() {
					t.Errorf("%v after %d requests\n%s%s", err, requests, out, said)
				}
				if took := time.Since(began); took < c.least || took > c.most {
					t.Errorf("it took %s, want %s to %s", took, c.least, c.most)
				}
			})
		})
	}
}

// TestRunEndsWithItsOutput has an output that cannot be written: the log is not requested again.
func TestRunEndsWithItsOutput(t *testing.T) {
	for name, run := range map[string]func(*runFollower) error{
		"the log": func(f *runFollower) error { return f.printLog(t.Context(), podOfRun) },
		"the run": func(f *runFollower) error { return f.untilPipeBreaks(t.Context()) },
	} {
		s := newRunServer(t, runningStatus())
		requests := 0
		answer := s.answer
		s.answer = func(q *http.Request, body string) runtime.Object {
			if strings.HasSuffix(q.URL.Path, "/log") {
				requests++
			}
			return answer(q, body)
		}
		s.logs[podOfRun] = "2026-01-01T00:00:00Z a line\n"
		f := s.follower(t, nil, &output{to: &fullDisk{}})
		f.tty = false
		if err := run(f); !errors.Is(err, syscall.ENOSPC) || !strings.Contains(err.Error(), "write the output") || requests != 1 {
			t.Errorf("%s: %v after %d requests", name, err, requests)
		}
	}
}

// TestIsFollowed has the ends of a log that was followed, and others.
func TestIsFollowed(t *testing.T) {
	for _, c := range []struct {
		err   error
		after time.Duration
		want  bool
	}{
		{io.ErrUnexpectedEOF, followedAfter, true}, {io.ErrUnexpectedEOF, followedAfter - 1, false}, {apierrors.NewTimeoutError("slow", 0), time.Minute, true},
		{unavailable, time.Minute, true}, {forbidden, time.Minute, false}, {apierrors.NewInternalError(io.EOF), time.Minute, false},
	} {
		if got := isFollowed(c.err, c.after); got != c.want {
			t.Errorf("%v after %s: %t", c.err, c.after, got)
		}
	}
}
