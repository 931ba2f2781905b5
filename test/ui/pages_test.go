package ui

import (
	"testing"
)

// TestPages looks at all pages in each of their states. No page may write to the console, or break the content security policy.
func TestPages(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	t.Run("Wide", func(t *testing.T) {
		t.Parallel()
		s.visit(t, func(b *tab) { b.view(1280, 800, 1) }, fits)
	})
	t.Run("Narrow", func(t *testing.T) {
		t.Parallel()
		s.visit(t, func(b *tab) { b.view(360, 740, 2) }, fits)
	})
	t.Run("Zoomed", func(t *testing.T) { // A window of 1280 pixels at 200 %.
		t.Parallel()
		s.visit(t, func(b *tab) { b.view(640, 400, 2) }, fits)
	})
	for _, theme := range []string{"light", "dark"} {
		t.Run("Accessible/"+theme, func(t *testing.T) {
			t.Parallel()
			axe := axe(t)
			s.visit(t, func(b *tab) { b.theme(theme) }, func(b *tab) []string { return audit(b, axe) })
		})
	}
	t.Run("Keyboard", func(t *testing.T) {
		t.Parallel()
		s.visit(t, nil, reachable)
	})
	t.Run("WithoutScript", func(t *testing.T) {
		t.Parallel()
		s.visit(t, (*tab).withoutScript, readable)
	})
}

// fits returns what is wider than the window, if the page scrolls to the side, and states that are cut by the end of a line.
func fits(b *tab) []string {
	b.t.Helper()
	return value[[]string](b, `(() => {
		const root = document.documentElement;
		const line = parseFloat(getComputedStyle(document.body).lineHeight);
		const text = document.createRange();
		const cut = [...document.querySelectorAll(".state, td.since, td.pods, button, .button")].filter(e => {
			text.selectNodeContents(e);
			return text.getBoundingClientRect().height > 1.5 * line;
		}).map(e => "It takes more than one line: " + e.outerHTML);
		if (root.scrollWidth <= root.clientWidth) return cut;
		return cut.concat("The page has " + root.scrollWidth + " pixels, the window " + root.clientWidth,
			[...document.querySelectorAll("body *")].filter(e => e.getBoundingClientRect().right > root.clientWidth).map(
				e => e.outerHTML.slice(0, 200)));
	})()`)
}

// readable returns what a page lacks that is to be read without scripts.
func readable(b *tab) []string {
	b.t.Helper()
	return value[[]string](b, `["title", "main", "main h1"].filter(s => !document.querySelector(s)?.textContent.trim()).map(s => "There is no " + s).concat(
		[...document.querySelectorAll("[hidden], dialog[open], [aria-busy=true]")].map(e => "It waits for a script: " + e.outerHTML.slice(0, 200)))`)
}
