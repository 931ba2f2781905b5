package ui

import (
	"fmt"
	"maps"
	"net/http"
	"slices"
	"testing"

	"huolala.cn/app-operator/test/fixture"
)

const (
	// maxWeight is how many bytes a page has at most with all that the browser loads for it.
	maxWeight = 110 << 10
	// maxHeight is how many pixels the page of an App whose rollout has failed has at most in a window of 1280 pixels.
	maxHeight = 1000
)

// seen is a script that returns how many resources the window shows as a whole without scrolling.
const seen = `[...document.querySelectorAll("#rows > :not(.group)")].filter(e => e.getBoundingClientRect().bottom <= innerHeight).length`

// withoutScripts are the pages that are also looked at without scripts: one of each template.
var withoutScripts = []string{"list", "wall", "failed", "plan"}

// weight is a script that returns how many bytes the browser has loaded.
const weight = `performance.getEntries().reduce((sum, e) => sum + (e.transferSize ?? 0), 0)`

// TestLook looks at a shop with resources in all states: how much of it a window shows, how far the way back is, and how much the browser loads.
// Each page keeps the rules of accessibility in wide and narrow windows, light and dark, with and without scripts. No other test runs at that time:
// the list has the resources of all namespaces.
func TestLook(t *testing.T) {
	need(t)
	stage(t)
	c, b := open(t, nameContext(t, "dev"), "-A"), newTab(t)
	b.login(c)
	t.Run("Size", func(t *testing.T) { measureLook(t, b.another(t), c) })
	t.Run("Command", func(t *testing.T) { lookAtCommands(t, b.another(t), c) })
	t.Run("Tasks", func(t *testing.T) { lookAtTasks(t, b.another(t), c) })
	t.Run("Hold", func(t *testing.T) { lookAtHold(t, b.another(t), c) })
	pages := map[string]string{
		"list": "", "wall": "?view=wall", "failed": "app/shop/checkout", "paused": "app/shop/coupons", "held": "app/shop/basket", "canary": "app/shop/offers",
		"rolling": "app/shop/fleet", "outage": "app/legacy/wiki", "tiers": "cloudmanager/media/office", "plan": "app/shop/checkout/rollback?value=2",
		"united": "uniteddeployment/legacy/erp", "zero": "app/pay/batch", "waiting": "app/media/thumbs", "empty": "?filter=none-of-it",
		"command": "app/shop/shipping", "failed command": "app/shop/orders", "logs": "app/shop/recommend/logs",
		"task": "task/shop/cart-report", "failed run": "task/shop/cleanup", "suspended": "task/shop/newsletter", "running": "task/search/reindex",
	}
	t.Run("Printed", func(t *testing.T) { lookAtPrints(t, b.another(t), c, pages) })
	t.Run("Gray", func(t *testing.T) { lookInGray(t, b.another(t), c, pages) })
	chosen := chooseWindows(t, pages)
	for _, window := range windows {
		t.Run(window.String(), func(t *testing.T) {
			axe, b := axe(t), b.another(t)
			b.view(window.width, 800, 1)
			b.theme(window.theme)
			for _, name := range chosen[window] {
				b.scripts(window.scripts)
				b.visit(c.base+pages[name], http.StatusOK)
				b.scripts(true) // The checks are a script.
				for _, wrong := range append(audit(b, axe), fits(b)...) {
					t.Errorf("%s: %s", name, wrong)
				}
			}
		})
	}
}

// window is one way to look at a page.
type window struct {
	width   int64
	theme   string
	scripts bool
}

// String implements fmt.Stringer.
func (w window) String() string { return fmt.Sprintf("%d/%s/scripts=%t", w.width, w.theme, w.scripts) }

// windows are all ways to look at a page.
var windows = []window{
	{1280, "light", true}, {1280, "dark", true}, {390, "light", true}, {390, "dark", true},
	{1280, "light", false}, {1280, "dark", false}, {390, "light", false}, {390, "dark", false},
}

// chooseWindows returns the names of the pages to look at in each window: each page in one of those with scripts, in the long form in all, and those
// of withoutScripts in the others as well, as the server renders the same.
func chooseWindows(t *testing.T, pages map[string]string) map[window][]string {
	t.Helper()
	chosen := map[window][]string{}
	for _, scripts := range []bool{true, false} {
		turns := fixture.Turns(t, slices.DeleteFunc(slices.Clone(windows), func(w window) bool { return w.scripts != scripts })...)
		for _, name := range slices.Sorted(maps.Keys(pages)) {
			if !scripts && !slices.Contains(withoutScripts, name) {
				continue
			}
			for _, w := range turns() {
				chosen[w] = append(chosen[w], name)
			}
		}
	}
	return chosen
}

// measureLook checks the numbers of the pages.
func measureLook(t *testing.T, b *tab, c *centre) {
	t.Helper()
	for _, window := range []struct {
		page          string
		width, height int64
		rows          int
	}{{"", 1280, 800, 17}, {"?view=wall", 1920, 1080, 27}, {"", 390, 844, 10}} {
		b.view(window.width, window.height, 1)
		b.visit(c.base+window.page, http.StatusOK)
		rows := value[int](b, seen)
		t.Logf("%d resources at %dx%d", rows, window.width, window.height)
		if rows < window.rows {
			t.Errorf("a window of %dx%d shows %d resources, want %d at least", window.width, window.height, rows, window.rows)
		}
	}
	b.view(1280, 800, 1)
	for _, page := range []string{"", "?view=wall", "app/shop/checkout", "app/shop/fleet"} {
		b.visit(c.base+page, http.StatusOK)
		bytes, height := value[int](b, weight), value[int](b, `document.documentElement.scrollHeight`)
		t.Logf("%q: %d bytes, %d pixels", page, bytes, height)
		if bytes > maxWeight {
			t.Errorf("%q takes %d bytes, want at most %d", page, bytes, maxWeight)
		}
		if page == "app/shop/checkout" && height > maxHeight {
			t.Errorf("%q is %d pixels high, want at most %d", page, height, maxHeight)
		}
	}
	for _, size := range [][2]int64{{1280, 800}, {390, 844}} {
		b.view(size[0], size[1], 1)
		b.visit(c.base+"app/shop/checkout", http.StatusOK)
		if bottom := value[float64](b, `document.querySelector("#lead a.first").getBoundingClientRect().bottom`); bottom > float64(size[1]) {
			t.Errorf("at %d pixels, the way back ends at %.0f", size[0], bottom)
		}
	}
	checkRed(t, b, c)
}

// checkRed checks that red is for trouble: a rollout, a hold, a pause and a canary have none on their pages.
func checkRed(t *testing.T, b *tab, c *centre) {
	t.Helper()
	for _, name := range []string{"fleet", "basket", "coupons", "offers"} {
		b.visit(c.base+"app/shop/"+name, http.StatusOK)
		if found := value[[]string](b, `[...document.querySelectorAll("main .bad")].map(e => e.outerHTML)`); len(found) > 0 {
			t.Errorf("%s has red parts: %q", name, found)
		}
	}
}

// lookAtCommands checks that a rollout that waits for its command shows the command, and the pods that are to come.
func lookAtCommands(t *testing.T, b *tab, c *centre) {
	t.Helper()
	for name, words := range map[string][]string{
		"shipping": {"Before the rollout", "Job shipping-", "shipping:1.5.0", "running, for", "pods of 1.5.0", "wait for the command"},
		"orders":   {"Before the rollout", "Job orders-", "failed, BackoffLimitExceeded", "exit code 1", "pods of 2.2.0", "do not start: the command has failed", "succeeded"},
	} {
		b.visit(c.base+"app/shop/"+name, http.StatusOK)
		b.until(words...)
	}
}

// lookAtTasks checks that the page of a Task has its schedule and its runs, in the states that a user looks at.
func lookAtTasks(t *testing.T, b *tab, c *centre) {
	t.Helper()
	for page, words := range map[string][]string{
		"shop/cart-report": {"Ready", fixture.Schedule + " Asia/Shanghai", "as App cart", "Next run", "1.8.2", "Runs", "cart-report-again", "succeeded"},
		"shop/cleanup":     {"Failing", "RunFailed", "Job cleanup-again failed", "start a run by hand: kubectl create job cleanup-again-2 --from=cronjob/cleanup", "Runs", "exit code 1"},
		"shop/newsletter":  {"Suspended", "no run starts until it is resumed", "Resume", "No run has started yet."},
		"search/reindex":   {"Running", "Job reindex-again runs", "Runs", "running"},
	} {
		b.visit(c.base+"task/"+page, http.StatusOK)
		b.until(words...)
	}
	b.visit(c.base+"?filter=kind:task", http.StatusOK)
	b.until("cleanup", "RunFailed", "newsletter", "Suspended", "reindex", "Running", "cart-report", "next run at")
}

// lookAtHold checks that no way back leads to the revision that a hold keeps from running, nor to the one that was rolled back.
func lookAtHold(t *testing.T, b *tab, c *centre) {
	t.Helper()
	for _, name := range []string{"basket", "inventory"} {
		b.visit(c.base+"app/shop/"+name, http.StatusOK)
		b.until("What has happened", "of the present spec")
		if links := value[[]string](b, `[...document.querySelectorAll("#happened .then a")].map(e => e.ariaLabel)`); len(links) > 0 {
			t.Errorf("%s offers %q", name, links)
		}
	}
}
