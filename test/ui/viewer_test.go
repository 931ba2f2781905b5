package ui

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"testing"

	"huolala.cn/app-operator/test/fixture"
	"huolala.cn/app-operator/test/harness"
)

// sharedCentre is a running viewer, for the host localhost.
type sharedCentre struct {
	// base is the address of its first page, process its process ID.
	base    string
	process int
	// stop ends it, as an upgrade does.
	stop func()
}

// openViewer starts a viewer with a kubeconfig. It ends with the test.
func openViewer(t testing.TB, kubeconfig string, args ...string) *sharedCentre {
	t.Helper()
	return openViewerAt(t, strconv.Itoa(harness.FreePort(t)), kubeconfig, args...)
}

// openViewerAt is openViewer on a port.
func openViewerAt(t testing.TB, port, kubeconfig string, args ...string) *sharedCentre {
	t.Helper()
	cmd := exec.CommandContext(context.WithoutCancel(t.Context()), program, append([]string{
		"--kubeconfig", kubeconfig, "ui", "--viewer", "--host", "localhost", "--port", port,
	}, args...)...)
	cmd.Env = append(os.Environ(), "HOME="+t.TempDir())
	cmd.Dir, cmd.Stderr = harness.Root(), os.Stderr
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	v := &sharedCentre{base: "http://localhost:" + port + "/", process: cmd.Process.Pid, stop: sync.OnceFunc(func() {
		_ = cmd.Process.Signal(os.Interrupt)
		_ = cmd.Wait()
	})}
	t.Cleanup(v.stop)
	if _, err := bufio.NewReader(out).ReadString('\n'); err != nil {
		t.Fatalf("the viewer prints nothing: %v", err)
	}
	return v
}

// read reads a page or a stream up to a text.
func (v *sharedCentre) read(ctx context.Context, path, until string) error {
	ctx, cancel := context.WithTimeout(ctx, harness.Patience)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, v.base+path, http.NoBody)
	if err != nil {
		return err
	}
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		return err
	}
	defer func() { _ = answer.Body.Close() }()
	lines := bufio.NewScanner(answer.Body)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		if strings.Contains(lines.Text(), until) {
			return nil
		}
	}
	return errors.Join(fmt.Errorf("%q has no %q: status %d", path, until, answer.StatusCode), lines.Err())
}

// TestViewer opens the pages of a viewer in a browser: they are live and accessible, and nothing on them can be pressed but links, what is folded, the
// filter and the theme.
func TestViewer(t *testing.T) {
	t.Parallel()
	config, ns := administrator(t)
	app := fixture.NewApp(ns, "cart")
	plane.Create(t, app)
	v, b := openViewer(t, config, "-n", ns), newTab(t)
	missing := "app/" + ns + "/none"
	pages := map[string]int64{"": http.StatusOK, "?view=wall": http.StatusOK, "app/" + ns + "/cart": http.StatusOK, missing: http.StatusNotFound}
	for path, status := range pages {
		b.visit(v.base+path, status)
		if path != missing {
			b.live()
		}
		if found := value[[]string](b, `[...document.querySelectorAll("button, form:not([role=search]), .button")].filter(e => e.checkVisibility()).map(e => e.outerHTML)`); len(found) != 1 ||
			!strings.Contains(found[0], "Theme") {
			t.Errorf("%q has the buttons %q", path, found)
		}
	}
	b.visit(v.base, http.StatusOK)
	b.live()
	plane.Read(t, app)
	plane.Change(t, app, func() { app.Spec.Paused = true })
	b.until("Paused")
	b.allowText("net::ERR_") // The browser complains some time after each attempt.
	v.stop()
	b.until("○ not live")
	openViewerAt(t, strings.Trim(strings.TrimPrefix(v.base, "http://localhost:"), "/"), config, "-n", ns)
	b.live() // Nobody reloads a page on a wall.
	t.Run("Accessible", func(t *testing.T) {
		axe := axe(t)
		for path, status := range pages {
			b.visit(v.base+path, status)
			for _, wrong := range append(audit(b, axe), fits(b)...) {
				t.Errorf("%q: %s", path, wrong)
			}
		}
	})
}
