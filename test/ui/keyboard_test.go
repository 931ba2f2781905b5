package ui

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/chromedp/chromedp/kb"
)

// describe describes an element for a message. The text is empty without an element: a document that is being loaded has no active element.
const describe = `(e => e ? [e.tagName.toLowerCase(), e.id || e.name, (e.textContent || "").trim().slice(0, 40)].filter(s => s).join(" ") : "")`

// reachable returns what is wrong unless Tab leads to all that can be used on a page, in the order in which it is read, and shows
// where it is.
func reachable(b *tab) []string {
	b.t.Helper()
	wanted := value[[]string](b, `[...document.querySelectorAll("a[href], button, input, select, textarea, summary, [tabindex='0']")].filter(
		e => !e.disabled && e.type !== "hidden" && e.checkVisibility()).map(`+describe+`)`)
	if id := value[string](b, `document.querySelector("[autofocus]")?.id ?? ""`); id != "" {
		b.focused(id)
		for range wanted { // From there to the end of the page, whose beginning comes next.
			if b.keys(kb.Tab); value[bool](b, "document.activeElement === document.body") {
				break
			}
		}
	}
	var met, wrong []string
	for range len(wanted) + 1 {
		b.keys(kb.Tab)
		at := value[string](b, `document.activeElement === document.body ? "" : `+describe+`(document.activeElement)`)
		if at == "" {
			break
		}
		met = append(met, at)
		if outline := value[string](b, `(s => s.outlineStyle + " " + s.outlineWidth)(getComputedStyle(document.activeElement))`); outline != "solid 3px" {
			wrong = append(wrong, fmt.Sprintf("The outline of %s is %s while it has the focus.", at, outline))
		}
	}
	if !slices.Equal(met, wanted) {
		wrong = append(wrong, fmt.Sprintf("Tab leads to\n%q, want\n%q", met, wanted))
	}
	return wrong
}

// press presses Tab until the element with this text has the focus.
func (b *tab) press(text string) {
	b.t.Helper()
	for range 50 {
		b.keys(kb.Tab)
		if strings.Contains(value[string](b, describe+"(document.activeElement)"), text) {
			return
		}
	}
	b.t.Fatalf("Tab does not lead to %q", text)
}

// TestKeyboard has a rollout that fails, and finds the cause by the keyboard alone.
func TestKeyboard(t *testing.T) {
	t.Parallel()
	config, ns := planner(t)
	populate(t, ns)
	b, c := newTab(t), open(t, config, "-n", ns)
	b.login(c)
	b.press("filter")
	b.keys("imagepull\r")
	b.without([]string{ns + "/cart"}, ns+"/stalled")
	b.press(ns + "/stalled")
	b.keys(kb.Enter)
	b.until("What is wrong", "cannot be pulled", "What to do")
	b.press("The message, and the way to it")
	b.keys(kb.Enter)
	b.until("root cause", badImage)
	b.press("Roll back …")
	b.keys(kb.Enter)
	b.until("Roll back to ", ": App "+ns+"/stalled", "restart")
	b.press("Back, without a change")
	b.keys(kb.Enter)
	b.until("What is wrong")
	b.press("application centre")
	b.keys(kb.Enter)
	b.until(ns+"/cart", ns+"/search", ns+"/scaled", ns+"/office")
	b.allow(http.StatusUnauthorized)
	b.press("Log out")
	b.keys(kb.Enter)
	b.until("The code that kubectl happ ui has printed")
	b.visit(c.base+"app/"+ns+"/stalled", http.StatusUnauthorized)
	b.focused("code")
	b.keys(c.code() + "\r")
	b.until(ns+"/stalled", "What is wrong") // The login leads on to where it was asked for.
}
