package ui

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/chromedp/cdproto/audits"
	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"

	"huolala.cn/app-operator/test/harness"
)

// tab is a tab of the browser. Whatever the browser complains of in it fails the test.
type tab struct {
	t   testing.TB
	ctx context.Context
	// close closes the tab.
	close context.CancelFunc

	mu         sync.Mutex
	complaints []string
	// allowed are texts of complaints that a test expects, whenever they come.
	allowed []string
}

// newTab opens a tab without any cookies.
func newTab(t testing.TB) *tab {
	t.Helper()
	need(t)
	return openTab(t, chromedp.WithNewBrowserContext())
}

// another opens a tab with the cookies of this one, for as long as a test.
func (b *tab) another(t testing.TB) *tab {
	t.Helper()
	return openTab(t, chromedp.WithExistingBrowserContext(chromedp.FromContext(b.ctx).BrowserContextID))
}

func openTab(t testing.TB, option chromedp.ContextOption) *tab {
	t.Helper()
	ctx, cancel := chromedp.NewContext(browser, option)
	b := &tab{t: t, ctx: ctx, close: cancel}
	b.allow(http.StatusBadGateway) // The API server of a busy machine has not answered in time; visit checks each status.
	t.Cleanup(func() {
		cancel()
		for _, complaint := range b.complained() {
			t.Errorf("the browser complains: %s", complaint)
		}
	})
	if err := chromedp.Listen(ctx, b.note); err != nil {
		t.Fatal(err)
	}
	b.must(chromedp.Func(func(ctx context.Context, target *chromedp.Target) error {
		_, err := cdp.Call(ctx, target, audits.Enable, cdp.Empty{})
		return err
	}))
	return b
}

// note notes what no page may do: write to the console, fail, open a dialog, or break the content security policy.
func (b *tab) note(event any) {
	complaint := ""
	switch event := event.(type) {
	case *runtime.EventConsoleAPICalled:
		complaint = fmt.Sprintf("console %s", event.Type)
		for _, arg := range event.Args {
			complaint += fmt.Sprintf(" %s%s", arg.Value, arg.Description)
		}
	case *runtime.EventExceptionThrown:
		complaint = "exception: " + event.ExceptionDetails.Text
		if thrown := event.ExceptionDetails.Exception; thrown != nil {
			complaint += " " + thrown.Description
		}
	case *log.EventEntryAdded:
		complaint = fmt.Sprintf("log, %s of %s: %s", event.Entry.Level, event.Entry.Source, event.Entry.Text)
	case *page.EventJavascriptDialogOpening:
		complaint = "dialog: " + event.Message
		go func() {
			_, _ = chromedp.Call(b.ctx, page.HandleJavaScriptDialog, page.HandleJavaScriptDialogParams{})
		}()
	case *audits.EventIssueAdded:
		details, _ := json.Marshal(event.Issue.Details)
		complaint = fmt.Sprintf("issue %s: %s", event.Issue.Code, details)
	}
	if complaint != "" {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.complaints = append(b.complaints, complaint)
	}
}

// complained returns what the browser complains of, and is not allowed.
func (b *tab) complained() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(b.complaints), func(complaint string) bool {
		return slices.ContainsFunc(b.allowed, func(text string) bool { return strings.Contains(complaint, text) })
	})
}

// allow allows the complaint about answers with a status. It comes some time after the answer.
func (b *tab) allow(status int64) { b.allowText(fmt.Sprintf("responded with a status of %d", status)) }

// allowText allows the complaints that have a text in them, whenever they come.
func (b *tab) allowText(text string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.allowed = append(b.allowed, text)
}

// forgive drops the complaints so far that have a text in them, and returns how many there were.
func (b *tab) forgive(text string) int {
	b.mu.Lock()
	defer b.mu.Unlock()
	before := len(b.complaints)
	b.complaints = slices.DeleteFunc(b.complaints, func(complaint string) bool { return strings.Contains(complaint, text) })
	return before - len(b.complaints)
}

// try runs steps, and gives up after a while.
func (b *tab) try(steps ...chromedp.Action[chromedp.Void]) error {
	ctx, cancel := context.WithTimeout(b.ctx, harness.Patience)
	defer cancel()
	return chromedp.Do(ctx, steps...)
}

// must runs steps. An error fails the test.
func (b *tab) must(steps ...chromedp.Action[chromedp.Void]) {
	b.t.Helper()
	if err := b.try(steps...); err != nil {
		b.t.Fatal(err)
	}
}

// visit opens a page, whose answer has to have a status. Each status of an error is in the browser's log. A page that the API server has not answered in
// its time, as on a busy machine, asks its reader to load it again, and is.
func (b *tab) visit(address string, status int64) {
	b.t.Helper()
	if status >= 400 {
		b.allow(status)
	}
	ctx, cancel := context.WithTimeout(b.ctx, harness.Patience)
	defer cancel()
	for {
		answer, err := chromedp.RunResponse(ctx, chromedp.Navigate(address))
		switch {
		case err != nil:
			b.t.Fatalf("%s: %v", address, err)
		case answer.Status == http.StatusBadGateway && status == http.StatusOK:
			b.t.Logf("%s: the API server has not answered in time", address)
		case answer.Status != status:
			b.t.Fatalf("%s: status %d, want %d", address, answer.Status, status)
		default:
			return
		}
	}
}

// value runs a script in the page and returns its value.
func value[T any](b *tab, script string) T {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, harness.Patience)
	defer cancel()
	v, err := chromedp.Run(ctx, chromedp.Evaluate[T](script, chromedp.EvalAwaitPromise))
	if err != nil {
		b.t.Fatalf("%s: %v", script, err)
	}
	return v
}

// text is what is read on the page.
func (b *tab) text() string {
	b.t.Helper()
	return value[string](b, `document.body?.innerText ?? ""`)
}

// until waits until the page has all of the words.
func (b *tab) until(words ...string) {
	b.t.Helper()
	b.poll(words, nil)
}

// without waits until the page has some words, and none of the others.
func (b *tab) without(others []string, words ...string) {
	b.t.Helper()
	b.poll(words, others)
}

// poll looks at the page again and again. It may be changing: a failed look is one more reason to look again.
func (b *tab) poll(words, others []string) {
	b.t.Helper()
	harness.Eventually(b.t, func() error {
		ctx, cancel := context.WithTimeout(b.ctx, harness.Patience)
		defer cancel()
		text, err := chromedp.Run(ctx, chromedp.Evaluate[string](`document.readyState === "complete" ? document.body.innerText : ""`))
		if err != nil {
			return err
		}
		for _, word := range words {
			if !strings.Contains(text, word) {
				return fmt.Errorf("no %q in:\n%s", word, text)
			}
		}
		for _, word := range others {
			if strings.Contains(text, word) {
				return fmt.Errorf("%q is still in:\n%s", word, text)
			}
		}
		return nil
	})
}

// keys presses keys, one after the other.
func (b *tab) keys(keys string) {
	b.t.Helper()
	b.must(chromedp.KeyEvent(keys))
}

// focused waits until the element with this ID has the focus.
func (b *tab) focused(id string) {
	b.t.Helper()
	harness.Eventually(b.t, func() error {
		if at := value[string](b, "document.activeElement.id"); at != id {
			return fmt.Errorf("the focus is on %q, want %q", at, id)
		}
		return nil
	})
}

// view sets the size of the page in CSS pixels, and how many pixels of the screen each of them has.
func (b *tab) view(width, height int64, scale float64) {
	b.t.Helper()
	b.must(chromedp.EmulateViewport(width, height, chromedp.EmulateScale(scale)))
}

// theme has the user prefer a theme, light or dark.
func (b *tab) theme(name string) {
	b.t.Helper()
	b.media("", name)
}

// media shows the page on a medium, print or, if empty, the screen, to a user who prefers a theme.
func (b *tab) media(name, theme string) {
	b.t.Helper()
	params := emulation.SetEmulatedMediaParams{Media: name, Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: theme}}}
	if _, err := chromedp.Call(b.ctx, emulation.SetEmulatedMedia, params); err != nil {
		b.t.Fatal(err)
	}
}

// withoutScript switches scripts off in the tab.
func (b *tab) withoutScript() {
	b.t.Helper()
	b.scripts(false)
}

// scripts switches scripts off or on again. A page that was opened without scripts stays as it is once they are on.
func (b *tab) scripts(on bool) {
	b.t.Helper()
	if _, err := chromedp.Call(b.ctx, emulation.SetScriptExecutionDisabled, emulation.SetScriptExecutionDisabledParams{Value: !on}); err != nil {
		b.t.Fatal(err)
	}
}

// login enters a code on the page of the login, by the keyboard alone.
func (b *tab) login(c *centre) {
	b.t.Helper()
	b.t.Cleanup(b.close) // Before the centre ends, or its last page could look for it.
	b.visit(c.base, 401)
	b.focused("code")
	b.keys(c.code() + "\r")
	b.until("Applications")
}
