package ui

import (
	"bytes"
	"fmt"
	"image"
	_ "image/png" // The format of pictures of the screen.
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"
)

// paper is the width in CSS pixels of a page of A4 between the margins of a print.
const paper = 718

// cut is a script that returns the parts of a page with text that does not show: parts that would have to be scrolled, ends of lines that are left
// out, parts that are folded, and parts that are outside of the paper.
const cut = `(() => {
	const unseen = e => e.closest(".unseen") || !e.checkVisibility();
	const clips = e => {
		const style = getComputedStyle(e);
		return (style.overflowX !== "visible" && e.scrollWidth > e.clientWidth + 1 || style.overflowY !== "visible" && e.scrollHeight > e.clientHeight + 1)
			&& e.clientWidth > 0 && style.display !== "inline";
	};
	const all = [...document.querySelectorAll("main *")];
	const folded = all.filter(e => e.tagName === "DETAILS" && [...e.children].slice(1).some(
		c => c.textContent.trim() && getComputedStyle(c).display !== "none" && !c.checkVisibility()));
	const shown = all.filter(e => !unseen(e));
	return folded.map(e => "It is folded: " + e.outerHTML.slice(0, 120)).concat(
		shown.filter(clips).map(e => "It is cut: " + e.outerHTML.slice(0, 200)),
		shown.filter(e => e.getBoundingClientRect().right > innerWidth + 1).map(e => "It ends outside of the paper: " + e.outerHTML.slice(0, 200)),
		shown.filter(e => e.matches(".rows .name") && e.clientWidth < 120).map(e => "It is squeezed: " + e.outerHTML.slice(0, 200)),
		shown.filter(e => e.matches(".rows .cause") && e.clientWidth < 200).map(e => "It is squeezed: " + e.outerHTML.slice(0, 200)),
		shown.filter(e => e.matches(".rows .cause .one") && getComputedStyle(e).webkitLineClamp !== "none").map(e => "It has a line at most: " + e.outerHTML.slice(0, 200)),
		shown.filter(e => e.matches(".rows .cause b") && e.getClientRects().length > 1).map(e => "A word is broken: " + e.outerHTML.slice(0, 200)),
		shown.filter(e => /^(BUTTON|INPUT|SELECT)$/.test(e.tagName)).map(e => "It cannot be pressed on paper: " + e.outerHTML.slice(0, 200)));
})()`

// pale is a script that returns the texts of a page that are too light for white paper.
const pale = `[...document.querySelectorAll("main *")].filter(e => e.checkVisibility() && [...e.childNodes].some(n => n.nodeType === 3 && n.data.trim())).filter(e => {
	const style = getComputedStyle(e);
	const exact = style.printColorAdjust === "exact" || e.closest(".state")?.matches(".bad");
	const [r, g, b] = style.color.match(/[\d.]+/g).map(Number);
	return !exact && 0.2126 * r + 0.7152 * g + 0.0722 * b > 140;
}).map(e => getComputedStyle(e).color + ": " + e.outerHTML.slice(0, 120))`

// printedStates is a script that returns the words of the states that a print has.
const printedStates = `[...document.querySelectorAll(".state .word")].filter(e => e.checkVisibility() && e.offsetWidth > 1).map(e => e.innerText).join(" ")`

// lookAtPrints checks that nothing is cut or too light in a print, whichever theme the user prefers, and that a page is printed at all.
func lookAtPrints(t *testing.T, b *tab, c *centre, pages map[string]string) {
	t.Helper()
	for _, theme := range []string{"light", "dark"} {
		b.media("print", theme)
		b.view(paper, 1000, 1)
		for name, at := range pages {
			b.visit(c.base+at, http.StatusOK)
			if theme == "dark" { // A theme that is chosen counts as one that is preferred.
				value[string](b, `document.documentElement.dataset.theme = "dark"`)
			}
			for _, wrong := range slices.Concat(value[[]string](b, cut), value[[]string](b, pale)) {
				t.Errorf("%s, %s: %s", name, theme, wrong)
			}
			if words := value[string](b, printedStates); name == "list" && !strings.Contains(words, "Paused") {
				t.Errorf("%s, %s: the print has the states %q", name, theme, words)
			}
		}
	}
	b.visit(c.base+"app/shop/checkout", http.StatusOK)
	printed, err := chromedp.Call(b.ctx, page.PrintToPDF, page.PrintToPDFParams{})
	if err != nil {
		t.Fatal(err)
	}
	if sheets := bytes.Count(printed.Data, []byte("/Type /Page\n")); sheets < 1 || sheets > 4 {
		t.Errorf("the page of an App takes %d sheets", sheets)
	}
}

// colored is a script that returns the visible texts that have the color of a mark, as class and text.
const colored = `[...document.querySelectorAll("main :is(.good, .bad, .fail, .busy, .hold)")].filter(e => e.checkVisibility() && e.innerText?.trim()).map(e => [
	["good", "bad", "fail", "busy", "hold"].find(c => e.classList.contains(c)), e.innerText.trim()])`

// signs are the shapes of the marks.
var signs = map[string]string{"good": "✓", "bad": "✗", "fail": "▲", "busy": "◐", "hold": "‖"}

// lookInGray checks that a user who sees no colors can tell the marks apart: the screen has no color then, and each text that has the color of a mark
// has the shape of the mark, too, and of no other, or says the same in words.
func lookInGray(t *testing.T, b *tab, c *centre, pages map[string]string) {
	t.Helper()
	params := emulation.SetEmulatedVisionDeficiencyParams{Type: "achromatopsia"}
	if _, err := chromedp.Call(b.ctx, emulation.SetEmulatedVisionDeficiency, params); err != nil {
		t.Fatal(err)
	}
	for _, width := range []int64{1280, 390} {
		b.view(width, 844, 1)
		for name, at := range pages {
			b.visit(c.base+at, http.StatusOK)
			for _, wrong := range grayProblems(b) {
				t.Errorf("%s at %d pixels: %s", name, width, wrong)
			}
		}
		if most := colorfulness(t, b); most > 8 {
			t.Errorf("the picture in gray has a pixel whose parts differ by %d", most)
		}
	}
}

// grayProblems returns the texts of a page that a user who sees no colors takes for another mark, or for none.
func grayProblems(b *tab) (wrong []string) {
	b.t.Helper()
	for _, found := range value[[][2]string](b, colored) {
		mark, text := found[0], found[1]
		shapes := 0
		for other, sign := range signs {
			if other != mark && strings.HasPrefix(text, sign) {
				wrong = append(wrong, fmt.Sprintf("%q has the color of %s", text, mark))
			}
			if strings.Contains(text, sign) {
				shapes++
			}
		}
		if len([]rune(text)) < 3 && shapes == 0 {
			wrong = append(wrong, fmt.Sprintf("%q is told by its color alone", text))
		}
	}
	return wrong
}

// colorfulness returns by how much the red, green and blue of a pixel differ at most.
func colorfulness(t *testing.T, b *tab) int {
	t.Helper()
	picture, err := chromedp.Run(b.ctx, chromedp.CaptureScreenshot())
	if err != nil {
		t.Fatal(err)
	}
	decodedPicture, _, err := image.Decode(bytes.NewReader(picture))
	if err != nil {
		t.Fatal(fmt.Errorf("the picture: %w", err))
	}
	most := 0
	for y := range decodedPicture.Bounds().Dy() {
		for x := range decodedPicture.Bounds().Dx() {
			r, g, blue, _ := decodedPicture.At(x, y).RGBA()
			most = max(most, int(max(r, g, blue)>>8)-int(min(r, g, blue)>>8))
		}
	}
	return most
}
