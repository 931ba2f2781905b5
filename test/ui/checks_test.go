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

// spoiledPrint is a page whose print each of the checks of prints has to complain of, and whose marks are told by color alone.
const spoiledPrint = `<!DOCTYPE html><html><body><main><pre style="overflow: hidden; width: 50px">a line that is too long</pre><details><summary>more</summary><p>folded</p></details>
<p style="width: 2000px">wide</p><button>Press</button><p style="color: #fff">pale</p><b class="bad">✓ fine</b><b class="good">1</b><table class="rows"><tr><td class="name">x</td><td class="cause" style="width: 50px"><span class="one" style="-webkit-line-clamp: 1"><b style="overflow-wrap: anywhere">ImagePullBackOff</b></span></td></tr></table></main></body></html>`

// TestChecksOfPrints lets the checks of prints and of colors find something.
func TestChecksOfPrints(t *testing.T) {
	t.Parallel()
	b := newTab(t)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		fmt.Fprint(w, spoiledPrint)
	}))
	t.Cleanup(server.Close)
	b.media("print", "light")
	b.visit(server.URL, http.StatusOK)
	found := strings.Join(append(value[[]string](b, cut), value[[]string](b, pale)...), "\n")
	for _, want := range []string{"It is cut: <pre", "It is folded: <details", "It ends outside of the paper: <p", "It is squeezed: <td class=\"name", "It is squeezed: <td class=\"cause", "It has a line at most: <span", "A word is broken: <b", "It cannot be pressed on paper: <button", ">pale</p>"} {
		if !strings.Contains(found, want) {
			t.Errorf("no %q in\n%s", want, found)
		}
	}
	b.theme("light")
	if marks := fmt.Sprint(grayProblems(b)); !strings.Contains(marks, `"✓ fine" has the color of bad`) || !strings.Contains(marks, `"1" is told by its color alone`) {
		t.Errorf("the marks are %s", marks)
	}
	if colorfulness(t, b) > 8 {
		t.Error("a page without colors is colorful")
	}
	value[string](b, `document.body.style.background = "#80ff80"`)
	if colorfulness(t, b) < 100 {
		t.Error("a green page has no color")
	}
}

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
