package cli

import (
	"errors"
	"net/http"
	"path"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"

	appv1 "huolala.cn/app-operator/api/v1"
)

// TestWaitForDeletion waits for the end of an App: it is deleted once it is gone, or once another App has its name.
func TestWaitForDeletion(t *testing.T) {
	gone := status(apierrors.NewNotFound(appv1.GroupVersion.WithResource("apps").GroupResource(), "web"))
	again := readyAgain("9")
	again.UID = "2"
	leaves := leaving()
	for name, c := range map[string]struct {
		states []runtime.Object // From one read to the next; the last one stays.
		code   int
		most   time.Duration
	}{
		"gone":                      {[]runtime.Object{leaves, leaves, gone}, 0, 5 * time.Second},
		"created again":             {[]runtime.Object{leaves, leaves, again}, 0, 5 * time.Second},
		"created and deleted again": {[]runtime.Object{readyAgain("7"), leaves, again, again}, 0, 5 * time.Second},
		"it stays":                  {[]runtime.Object{readyAgain("7"), leaves}, exitTimeout, time.Minute + 5*time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			f, states := newFakeServer(t, nil), slices.Clone(c.states)
			f.answer = func(q *http.Request, _ string) runtime.Object {
				if path.Base(q.URL.Path) != "web" {
					return nil
				}
				now := states[0]
				if len(states) > 1 {
					states = states[1:]
				}
				return now
			}
			synctest.Test(t, func(t *testing.T) {
				began := time.Now()
				out, said, err := f.runWith(t.Context(), t, f.serveTrip, "wait", "web", "--for", "deleted", "--timeout", "1m")
				var failed *exit
				if errors.As(err, &failed) != (c.code != 0) || failed != nil && failed.code != c.code || strings.Contains(out, "App shop/web is deleted\n") != (c.code == 0) {
					t.Errorf("%v\n%s%s", err, out, said)
				}
				if took := time.Since(began); took > c.most {
					t.Errorf("it took %s, want at most %s", took, c.most)
				}
			})
		})
	}
}
