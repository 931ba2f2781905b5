package cli

import (
	"bytes"
	"context"
	"net/http"
	"path"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	appv1 "huolala.cn/app-operator/api/v1"
)

// TestWatchGoesOn has reads of each view that is followed fail: after the first drawing, errors that may pass are noted once, and the next read is tried.
// Any other error ends it, as does one of the first read.
func TestWatchGoesOn(t *testing.T) {
	t.Parallel()
	gone := apierrors.NewNotFound(schema.GroupResource{Resource: "apps"}, "web")
	for name, args := range map[string][]string{"list": {"list", "-w"}, "tree": {"tree", "web", "-w"}, "why": {"why", "web", "-w"}} {
		for what, c := range map[string]struct {
			answers []*apierrors.StatusError // nil for the App; the last one stays.
			reads   int
			noted   int
			drawn   bool
		}{
			"once":      {[]*apierrors.StatusError{nil, unavailable, nil, gone}, 4, 1, true},
			"twice":     {[]*apierrors.StatusError{nil, unavailable, apierrors.NewTooManyRequests("later", 0), gone}, 4, 1, true},
			"two times": {[]*apierrors.StatusError{nil, unavailable, nil, unavailable, gone}, 5, 2, true},
			"a right":   {[]*apierrors.StatusError{nil, forbidden}, 2, 0, true},
			"at once":   {[]*apierrors.StatusError{unavailable}, 1, 0, false},
		} {
			t.Run(name+", "+what, func(t *testing.T) {
				t.Parallel()
				var mu sync.Mutex
				reads, answers := 0, c.answers
				f := newFakeServer(t, nil)
				f.answer = func(q *http.Request, _ string) runtime.Object {
					mu.Lock()
					defer mu.Unlock()
					last := path.Base(q.URL.Path)
					switch {
					case last != "apps" && last != "web":
						if name == "list" { // A list fails if no kind can be listed.
							return status(forbidden)
						}
						return nil
					case answers[0] != nil:
						reads++
						failed := answers[0]
						answers = answers[min(1, len(answers)-1):]
						return status(failed)
					}
					reads++
					answers = answers[1:]
					app := appv1.App{ObjectMeta: objectMeta("web")}
					if last == "apps" {
						return &appv1.AppList{Items: []appv1.App{app}}
					}
					return &app
				}
				code, out, said := f.run(t, args...)
				if noted := strings.Count(said, " cannot be read, and is tried again: "); code != 1 || reads != c.reads || noted != c.noted || strings.Contains(out, "web") != c.drawn {
					t.Errorf("exit status %d after %d reads, noted %d times\n%s%s", code, reads, noted, out, said)
				}
			})
		}
	}
}

// interrupting is an output that ends a context as Ctrl-C does, once it has a text.
type interrupting struct {
	mu   sync.Mutex
	text bytes.Buffer
	at   string
	end  context.CancelFunc
}

// Write implements io.Writer.
func (w *interrupting) Write(text []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.text.Write(text)
	if strings.Contains(w.text.String(), w.at) {
		w.end()
	}
	return len(text), nil
}

// TestExitStatusAfterInterrupt interrupts commands at their first words: 0 is the exit status of those that end in no other way, and 130 that of all
// others.
func TestExitStatusAfterInterrupt(t *testing.T) {
	t.Parallel()
	rolling := &appv1.App{ObjectMeta: objectMeta("web")}
	answers := map[string]runtime.Object{"apps": &appv1.AppList{Items: []appv1.App{*rolling}}}
	waiting := func(t *testing.T) *fakeServer { t.Helper(); return answering(t, rolling, answers) }
	following := func(t *testing.T) *fakeServer {
		t.Helper()
		f := serverOfLogs(t)
		f.follow = true
		return f
	}
	silent := func(t *testing.T) *fakeServer { // Its log has no answer before the first line.
		t.Helper()
		f := serverOfLogs(t)
		answer := f.answer
		f.answer = func(q *http.Request, body string) runtime.Object {
			if q.URL.Query().Get("follow") == "true" {
				<-q.Context().Done()
			}
			return answer(q, body)
		}
		return f
	}
	for name, c := range map[string]struct {
		server func(*testing.T) *fakeServer
		args   []string
		at     string
		code   int
	}{
		"list -w":                       {waiting, []string{"list", "-w"}, "web", 0},
		"tree -w":                       {waiting, []string{"tree", "web", "-w"}, "web", 0},
		"why -w":                        {waiting, []string{"why", "web", "-w"}, "web", 0},
		"logs -f":                       {following, []string{"logs", "pod/web-1-b", "-f"}, "serves", 0},
		"logs -f of a silent container": {silent, []string{"logs", "pod/web-1-b", "-f"}, "==> Pod web-1-b", 0},
		"ui":                            {waiting, []string{"ui", "--no-browser"}, "Code, good once", 0},
		"wait":                          {waiting, []string{"wait", "web"}, "web", 130},
		"refresh":                       {waiting, []string{"refresh", "web", "--yes", "--wait"}, "refreshed", 130},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx, end := context.WithCancel(t.Context())
			defer end()
			out, said := &interrupting{at: c.at, end: end}, &bytes.Buffer{}
			code := Run(ctx, c.server(t).program(t, out, said, c.args...))
			if code != c.code || ctx.Err() == nil || said.Len() > 0 {
				t.Errorf("exit status %d, want %d\n%s%s", code, c.code, out.text.String(), said)
			}
		})
	}
}

// discoveryPath matches the paths of the version of the cluster, and of the kinds of a group.
var discoveryPath = regexp.MustCompile(`^/(version|api/v1|apis/[^/]+/[^/]+)$`)

// TestInterruptOfHangingServer has the API server hang at each request of a command: the first Ctrl-C ends the command.
func TestInterruptOfHangingServer(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{{"check"}, {"report", "web"}, {"import", "--all"}, {"eject", "web"}} {
		// hangs returns the exit status of the command if the server hangs at a path, and the paths of all requests.
		hangs := func(at string) (code int, all []string, there bool) {
			ctx, end := context.WithCancel(t.Context())
			defer end()
			var mu sync.Mutex
			var paths []string
			reached := false
			f := newFakeServer(t, map[string]runtime.Object{"apps/web": &appv1.App{ObjectMeta: objectMeta("web")}})
			without := withoutRights()
			f.answer = func(q *http.Request, body string) runtime.Object {
				mu.Lock()
				paths, reached = append(paths, q.URL.Path), reached || q.URL.Path == at
				mu.Unlock()
				if q.URL.Path == at {
					end()
					<-q.Context().Done() // The client has left.
				}
				return without(q, body)
			}
			code = Run(ctx, f.program(t, &bytes.Buffer{}, &bytes.Buffer{}, args...))
			mu.Lock()
			defer mu.Unlock()
			return code, slices.Clone(paths), reached
		}
		_, paths, _ := hangs("")
		slices.Sort(paths)
		discovery := 0
		for _, at := range slices.Compact(paths) {
			if discoveryPath.MatchString(at) {
				discovery++
			}
			if code, _, reached := hangs(at); code != 130 || !reached {
				t.Errorf("%v: exit status %d after a Ctrl-C at %s", args, code, at)
			}
		}
		if discovery == 0 {
			t.Errorf("%v: no request asks for the kinds or the version: %q", args, paths)
		}
	}
}
