package ui

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/chromedp/chromedp/kb"

	appv1 "huolala.cn/app-operator/api/v1"
	"huolala.cn/app-operator/test/fixture"
	"huolala.cn/app-operator/test/harness"
)

// stamp leaves a mark in the page that a reload removes.
func (b *tab) stamp() {
	b.t.Helper()
	value[bool](b, "globalThis.stamp = true")
}

// stamped fails the test if the page was loaded again since stamp.
func (b *tab) stamped() {
	b.t.Helper()
	if !value[bool](b, "globalThis.stamp === true") {
		b.t.Error("the page was loaded again")
	}
}

// live waits until the page is followed.
func (b *tab) live() {
	b.t.Helper()
	b.until("● live")
}

// TestLive changes the cluster while the list is open. The page shows it without a reload, and the focus, the filter and what is typed in
// it stay.
func TestLive(t *testing.T) {
	t.Parallel()
	config, ns := administrator(t)
	cart, billing := fixture.NewApp(ns, "cart"), fixture.NewApp(ns, "billing")
	settle(t, appv1.ReasonReady, cart, billing)
	b, c := newTab(t), open(t, config, "-n", ns)
	b.login(c)
	b.visit(c.base+"?filter=cart", http.StatusOK)
	b.live()
	b.stamp()
	value[bool](b, `(document.getElementById("filter").value = "typed", true)`)
	b.press(ns + "/cart")
	plane.Change(t, cart, func() { cart.Spec.Image = badImage })
	b.without([]string{ns + "/billing"}, "Failing", "ImagePullBackOff")
	plane.Change(t, cart, func() { cart.Spec.Paused = true })
	b.until("Paused")
	if at := value[string](b, describe+"(document.activeElement)"); !strings.Contains(at, ns+"/cart") {
		t.Errorf("the focus is on %q", at)
	}
	if typed := value[string](b, `document.getElementById("filter").value`); typed != "typed" {
		t.Errorf("the filter has %q", typed)
	}
	settle(t, appv1.ReasonReady, fixture.NewApp(ns, "cart2"))
	b.without([]string{ns + "/billing"}, ns+"/cart2")
	order := func(wanted ...string) {
		t.Helper()
		harness.Eventually(t, func() error {
			found := value[[]string](b, `[...document.querySelectorAll("#rows tr:not(.group)")].map(e => e.id.split("/").pop())`)
			if fmt.Sprint(found) != fmt.Sprint(wanted) {
				return fmt.Errorf("the rows are %q, want %q", found, wanted)
			}
			return nil
		})
	}
	order("cart", "cart2")
	plane.Change(t, cart, func() { cart.Spec.Paused, cart.Spec.Image = false, fixture.Image })
	b.without([]string{"Paused"}, "3 ✓ ready")
	plane.Delete(t, cart)
	order("cart2")
	b.stamped()
}

// TestLiveResource changes an App while its page is open. What the user has closed stays closed, and what was typed stays.
func TestLiveResource(t *testing.T) {
	t.Parallel()
	config, ns := planner(t)
	cart := fixture.NewApp(ns, "cart")
	settle(t, appv1.ReasonReady, cart)
	b, c := newTab(t), open(t, config, "-n", ns)
	b.login(c)
	b.visit(c.base+"app/"+ns+"/cart", http.StatusOK)
	b.live()
	b.stamp()
	b.press("summary Spec")
	b.keys(kb.Enter)
	b.press("scale")
	b.keys("7")
	plane.Change(t, cart, func() { cart.Spec.Image = badImage })
	b.until("What is wrong", "cannot be pulled", "Revision 2", "Roll back …")
	if !value[bool](b, `document.querySelector("#spec details").open`) {
		t.Error("the spec has closed by itself")
	}
	if typed := value[string](b, `document.activeElement.value`); typed != "7" {
		t.Errorf("the field with the focus has %q", typed)
	}
	if spec := value[string](b, `document.querySelector("#spec").textContent`); !strings.Contains(spec, badImage) {
		t.Errorf("the spec is\n%s", spec)
	}
	plane.Delete(t, cart)
	b.without([]string{"What is wrong"}, "there is no App cart")
	b.stamped()
}

// setVisibility has the page see that its tab is hidden, or visible.
func (b *tab) setVisibility(state string) {
	b.t.Helper()
	value[bool](b, fmt.Sprintf(`Object.defineProperty(document, "visibilityState", {value: %q, configurable: true}),
		document.dispatchEvent(new Event("visibilitychange"))`, state))
}

// TestLiveAway lets the API server go away and come back while pages are open. They say since when, keep what they have, and then go on. So does a page
// whose tab is hidden in the meantime.
func TestLiveAway(t *testing.T) {
	t.Parallel()
	_, ns := administrator(t)
	cart := fixture.NewApp(ns, "cart")
	settle(t, appv1.ReasonReady, cart)
	g, config := newGate(t)
	list, c := newTab(t), open(t, harness.WriteKubeconfig(t, config), "-n", ns)
	list.login(c)
	list.live()
	resource := list.another(t)
	resource.visit(c.base+"app/"+ns+"/cart", http.StatusOK)
	resource.live()
	list.stamp()
	resource.stamp()
	g.shut()
	list.until("No connection to the cluster since", "What you see is of then", ns+"/cart")
	resource.until("No connection to the cluster since", "What you see is of then", "App "+ns+"/cart")
	plane.Change(t, cart, func() { cart.Spec.Image = badImage })
	plane.Until(t, cart, func() error { return standing(cart, "ImagePullBackOff") })
	list.setVisibility("hidden")
	list.until("‖ as of", "No connection to the cluster since", "What you see is of then", ns+"/cart")
	if !value[bool](list, `(([shown, since]) => shown === since)([...document.querySelector("header").innerText.matchAll(/as of ([0-9:]+)/g), ...document.querySelector("#connection").innerText.matchAll(/since ([0-9:]+)/g)].map(found => found[1]))`) {
		t.Errorf("the page is as of another time than that of its last answer:\n%s", list.text())
	}
	list.setVisibility("visible")
	g.unshut()
	list.without([]string{"No connection"}, "● live", "ImagePullBackOff")
	resource.without([]string{"No connection"}, "● live", "What is wrong", "cannot be pulled")
	list.stamped()
	resource.stamped()
}

// TestHidden hides a tab. Its stream is closed some time later, and opened again when the tab is seen.
func TestHidden(t *testing.T) {
	t.Parallel()
	config, ns := administrator(t)
	settle(t, appv1.ReasonReady, fixture.NewApp(ns, "cart"))
	b := newTab(t)
	b.login(open(t, config, "-n", ns))
	b.live()
	b.stamp()
	b.setVisibility("hidden")
	b.without([]string{"● live"}, "‖ as of")
	settle(t, appv1.ReasonReady, fixture.NewApp(ns, "billing"))
	if strings.Contains(b.text(), "billing") {
		t.Error("a hidden tab is followed")
	}
	b.setVisibility("visible")
	b.until("● live", ns+"/billing")
	b.stamped()
}

// TestManyTabs opens more tabs than a browser has connections to a host. All show their pages, and the last ones are followed.
func TestManyTabs(t *testing.T) {
	t.Parallel()
	config, ns := administrator(t)
	settle(t, appv1.ReasonReady, fixture.NewApp(ns, "cart"))
	first, c := newTab(t), open(t, config, "-n", ns)
	first.login(c)
	first.live()
	tabs := []*tab{first}
	for range 7 {
		b := first.another(t)
		b.visit(c.base, http.StatusOK)
		b.live()
		tabs = append(tabs, b)
	}
	first.without([]string{"● live"}, "‖ as of")
	settle(t, appv1.ReasonReady, fixture.NewApp(ns, "billing"))
	tabs[len(tabs)-1].until(ns + "/billing")
	value[bool](first, `dispatchEvent(new Event("focus"))`)
	first.until("● live", ns+"/billing")
}

// TestKeys goes to a row, and back to the list, by the keys of the program.
func TestKeys(t *testing.T) {
	t.Parallel()
	config, ns := administrator(t)
	settle(t, appv1.ReasonReady, fixture.NewApp(ns, "cart"), fixture.NewApp(ns, "billing"))
	b := newTab(t)
	b.login(open(t, config, "-n", ns))
	b.live()
	b.keys("?")
	b.until("Go to the filter")
	b.keys(kb.Escape)
	b.without([]string{"Go to the filter"})
	b.keys("/")
	b.focused("filter")
	b.keys("jj")
	if typed := value[string](b, `document.getElementById("filter").value`); typed != "jj" {
		t.Errorf("the filter has %q", typed)
	}
	b.keys(kb.Backspace + kb.Backspace)
	b.until(ns+"/cart", ns+"/billing")
	b.keys(kb.Escape + "jjjk" + kb.Enter)
	b.until(ns+"/billing", "All objects as a tree")
	for key, section := range map[string]string{"t": "tree", "h": "happened", "y": "spec"} {
		value[bool](b, `document.querySelectorAll("details").forEach(e => { e.open = false }), true`)
		b.keys(key)
		if at := value[string](b, `document.activeElement.closest("#tree, #happened, #spec")?.id ?? ""`); at != section {
			t.Errorf("%q leads to %q, want %q", key, at, section)
		}
		if shut := value[bool](b, `document.activeElement.closest("details:not([open])") !== null`); shut {
			t.Errorf("%q leads to a section that is not open", key)
		}
	}
	b.keys("gl")
	b.until("Applications", ns+"/cart")
}

// TestFilterAsTyped types a filter: the list follows it, and so do the changes of the cluster and the address.
func TestFilterAsTyped(t *testing.T) {
	t.Parallel()
	config, ns := administrator(t)
	cart := fixture.NewApp(ns, "cart")
	settle(t, appv1.ReasonReady, cart, fixture.NewApp(ns, "billing"))
	b := newTab(t)
	b.login(open(t, config, "-n", ns))
	b.live()
	b.stamp()
	b.keys("/")
	b.focused("filter")
	b.keys("cart")
	b.without([]string{ns + "/billing"}, ns+"/cart", "● live")
	settle(t, appv1.ReasonReady, fixture.NewApp(ns, "cart2"), fixture.NewApp(ns, "billing2"))
	b.without([]string{ns + "/billing"}, ns+"/cart", ns+"/cart2")
	b.focused("filter")
	if query := value[string](b, "location.search"); query != "?filter=cart" {
		t.Errorf("the address has %q", query)
	}
	for range "cart" {
		b.keys(kb.Backspace)
	}
	b.until(ns+"/billing", ns+"/billing2", ns+"/cart2")
	b.stamped()
	plane.Change(t, cart, func() { cart.Spec.Paused = true })
	b.until("1 ‖ on hold")
	b.press("1 ‖ on hold")
	b.keys(kb.Enter)
	b.without([]string{ns + "/billing", ns + "/cart2"}, ns+"/cart")
	if query := value[string](b, "location.search"); query != "?filter=group%3Aon-hold" {
		t.Errorf("the address has %q", query)
	}
}

// TestTheme chooses a theme, which stays for the next page, and goes back to the browser's.
func TestTheme(t *testing.T) {
	t.Parallel()
	config, ns := administrator(t)
	settle(t, appv1.ReasonReady, fixture.NewApp(ns, "cart"))
	b, c := newTab(t), open(t, config, "-n", ns)
	b.theme("light")
	b.login(c)
	b.until("Theme: auto")
	color := func() string { return value[string](b, "getComputedStyle(document.body).backgroundColor") }
	light := color()
	b.press("Theme")
	b.keys(kb.Enter + kb.Enter)
	b.until("Theme: dark")
	if color() == light {
		t.Error("the dark theme is the light one")
	}
	b.visit(c.base+"app/"+ns+"/cart", http.StatusOK)
	b.until("Theme: dark")
	if color() == light {
		t.Error("the next page has another theme")
	}
	b.press("Theme")
	b.keys(kb.Enter)
	b.until("Theme: auto")
	if color() != light {
		t.Error("the theme is not that of the browser")
	}
}
