package ui

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"huolala.cn/app-operator/test/harness"
)

// spoiled is a page that each of the checks has to complain of.
const spoiled = `<!DOCTYPE html><html><body style="line-height: 20px"><div style="width: 2000px; color: #ccc; background: #fff">pale</div><div hidden>later</div>
<table><tr><td class="state" style="width: 1px">✓ Ready</td></tr></table>
<a href="#" style="outline: none">a</a><button tabindex="2">b</button><img src="data:,"></body></html>`

// TestChecks lets all checks find something.
func TestChecks(t *testing.T) {
	t.Parallel()
	b := newTab(t)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		if r.URL.Path == "/script" {
			w.Header().Set("Content-Security-Policy", "script-src 'none'")
			fmt.Fprint(w, "<title>x</title><script>alert(1)</script>")
			return
		}
		if r.URL.Path == "/dialog" {
			fmt.Fprint(w, "<title>x</title><script>setTimeout(() => { alert('hello'); console.error('console'); null.x }, 0)</script>")
			return
		}
		fmt.Fprint(w, spoiled)
	}))
	t.Cleanup(server.Close)
	b.visit(server.URL, http.StatusOK)
	for name, check := range map[string]func(*tab) []string{"fits": fits, "readable": readable, "reachable": reachable} {
		if len(check(b)) == 0 {
			t.Errorf("%s finds nothing", name)
		}
	}
	if found := strings.Join(fits(b), "\n"); !strings.Contains(found, "2000") || !strings.Contains(found, "more than one line") {
		t.Errorf("fits finds\n%s", found)
	}
	for path, wanted := range map[string][]string{
		"/script": {"violates the following Content Security Policy"}, "/dialog": {"dialog: hello", "console error", "exception: Uncaught TypeError"},
	} {
		b.visit(server.URL+path, http.StatusOK)
		for _, text := range wanted {
			harness.Eventually(t, func() error {
				if b.forgive(text) == 0 {
					return fmt.Errorf("%s: no complaint has %q: %q", path, text, b.complained())
				}
				return nil
			})
		}
	}
	b.forgive("") // All others.
	axe := axe(t)
	b.visit(server.URL, http.StatusOK)
	found := strings.Join(audit(b, axe), "\n")
	for _, rule := range []string{"color-contrast", "document-title", "html-has-lang", "image-alt"} {
		if !strings.Contains(found, rule) {
			t.Errorf("axe says nothing of %s:\n%s", rule, found)
		}
	}
	b.forgive("")
}
