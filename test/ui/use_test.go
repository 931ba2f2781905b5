package ui

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
	"k8s.io/utils/ptr"

	appv1 "huolala.cn/app-operator/api/v1"
	"huolala.cn/app-operator/test/fixture"
	"huolala.cn/app-operator/test/harness"
)

// TestOpen has the application centre open a browser by itself, which is then logged in without a code in an argument.
func TestOpen(t *testing.T) {
	t.Parallel()
	config, ns := administrator(t)
	settle(t, appv1.ReasonReady, fixture.NewApp(ns, "cart"))
	tools, told := t.TempDir(), filepath.Join(t.TempDir(), "told")
	opener := "#!/bin/sh\necho \"$@\" > " + told + ".new && mv " + told + ".new " + told + "\n"
	if err := os.WriteFile(filepath.Join(tools, "xdg-open"), []byte(opener), 0o700); err != nil {
		t.Fatal(err)
	}
	b := newTab(t)
	c := launch(t, []string{"PATH=" + tools + ":" + os.Getenv("PATH")}, config, "-n", ns)
	var file string
	harness.Eventually(t, func() error {
		text, err := os.ReadFile(told)
		file = strings.TrimSpace(string(text))
		return err
	})
	if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o600 {
		t.Fatalf("the file that sends the code: %v, %v", info, err)
	}
	b.must(chromedp.Navigate("file://" + file))
	b.until("Applications", ns+"/cart")
	if at := value[string](b, "location.href"); at != c.base {
		t.Errorf("the browser is at %s, want %s", at, c.base)
	}
	// The code is used up, so the file leads nowhere for anyone else.
	other := newTab(t)
	other.allow(http.StatusForbidden)
	other.must(chromedp.Navigate("file://" + file))
	other.until("The code is wrong, or was used")
}

// TestAway lets the API server go away and come back. The page says so, and shows everything again.
func TestAway(t *testing.T) {
	t.Parallel()
	_, ns := administrator(t)
	settle(t, appv1.ReasonReady, fixture.NewApp(ns, "cart"))
	g, config := newGate(t)
	b, c := newTab(t), open(t, harness.WriteKubeconfig(t, config), "-n", ns)
	b.login(c)
	b.until(ns + "/cart")
	g.shut()
	b.visit(c.base, http.StatusBadGateway)
	if text := b.text(); strings.Contains(text, "No resources found") {
		t.Errorf("without the API server, the page is\n%s", text)
	}
	harness.Eventually(t, func() error { // The stream may know less than the page for a moment, and shows what it knows until it has noticed.
		if problem := value[string](b, `document.querySelector("[role=alert]")?.innerText ?? ""`); problem == "" {
			return fmt.Errorf("the page has no alert:\n%s", b.text())
		}
		return nil
	})
	b.visit(c.base+"app/"+ns+"/cart", http.StatusBadGateway)
	g.unshut()
	b.visit(c.base, http.StatusOK)
	b.until(ns + "/cart")
}

// TestFollow changes the cluster. Without scripts, a page that is to follow it reloads, and keeps the filter.
func TestFollow(t *testing.T) {
	t.Parallel()
	config, ns := administrator(t)
	settle(t, appv1.ReasonReady, fixture.NewApp(ns, "cart"), fixture.NewApp(ns, "billing"))
	b := newTab(t)
	b.withoutScript()
	b.login(open(t, config, "-n", ns))
	b.press("filter")
	b.keys("cart\r")
	b.without([]string{ns + "/billing"}, ns+"/cart")
	b.press("reload every 10 s")
	b.keys(kb.Enter)
	settle(t, appv1.ReasonReady, fixture.NewApp(ns, "cart2"))
	b.without([]string{ns + "/billing"}, ns+"/cart", ns+"/cart2")
}

// TestNamespaces shows one namespace, or all of them.
func TestNamespaces(t *testing.T) {
	t.Parallel()
	config, ns := administrator(t)
	other, _ := plane.Shared(t)
	settle(t, appv1.ReasonReady, fixture.NewApp(ns, "cart"), fixture.NewApp(other, "billing"))
	b := newTab(t)
	b.login(open(t, config, "-n", ns))
	b.until("namespace "+ns, ns+"/cart")
	if text := b.text(); strings.Contains(text, other) {
		t.Errorf("another namespace is on the page:\n%s", text)
	}
	all := newTab(t)
	all.login(open(t, config, "-A"))
	all.until("all namespaces", ns+"/cart", other+"/billing")
	all.press("filter")
	all.keys(other + "\r")
	all.without([]string{ns + "/cart"}, other+"/billing")
}

// TestHostile has an App whose texts run as scripts wherever they get into a page as markup. A tab complains of each that runs.
func TestHostile(t *testing.T) {
	t.Parallel()
	config, ns := administrator(t)
	hostile := newHostile(ns)
	settle(t, appv1.ReasonReady, hostile)
	plane.Create(t, hostileEvent(hostile))
	b, c := newTab(t), open(t, config, "-n", ns)
	b.login(c)
	b.visit(c.base+"app/"+ns+"/hostile", http.StatusOK)
	value[bool](b, `document.querySelectorAll("details").forEach(e => { e.open = true }), true`)
	if n := strings.Count(b.text(), "<script>alert(2)"); n < 3 { // An argument, a variable, an event.
		t.Errorf("%d hostile texts on the page:\n%s", n, b.text())
	}
	if n := value[int](b, `document.querySelectorAll("img, svg[onload], script:not([src])").length`); n > 0 {
		t.Errorf("%d elements on the page are of the cluster's texts", n)
	}
}

// TestScale scales an App by its page: the plan first, then the button, then the page of the App with its new number of pods.
func TestScale(t *testing.T) {
	t.Parallel()
	config, ns := planner(t)
	app := fixture.NewApp(ns, "cart")
	settle(t, appv1.ReasonReady, app)
	b, c := newTab(t), open(t, config, "-n", ns)
	b.login(c)
	b.visit(c.base+"app/"+ns+"/cart", http.StatusOK)
	b.press("scale") // Its text is selected.
	b.keys("3\r")
	b.until("Scale to 3: App "+ns+"/cart", "No pod restarts.")
	plane.Read(t, app)
	if n := ptr.Deref(app.Spec.Replicas, 1); n == 3 {
		t.Fatal("the plan has scaled the App")
	}
	b.press("Scale")
	b.keys(kb.Enter)
	b.until("Done: Scale to 3.", "What has happened")
	plane.Read(t, app)
	if n := ptr.Deref(app.Spec.Replicas, 1); n != 3 {
		t.Errorf("the App has %d replicas", n)
	}
}

// TestPlan goes from the page of an App to the plan of a change of its text, with the keyboard alone.
func TestPlan(t *testing.T) {
	t.Parallel()
	config, ns := planner(t)
	app := fixture.NewApp(ns, "cart")
	settle(t, appv1.ReasonReady, app)
	b, c := newTab(t), open(t, config, "-n", ns)
	b.login(c)
	b.visit(c.base+"app/"+ns+"/cart", http.StatusOK)
	b.press("Plan a change …")
	b.keys(kb.Enter)
	b.until("Plan of a change")
	b.press("textarea text")
	value[bool](b, `document.activeElement.select(), true`)
	b.keys("apiVersion: app.huolala.cn/v1\rkind: App\rmetadata: {name: cart}\rspec: {image: 'nginx:9'}")
	b.press("Show the plan")
	b.keys(kb.Enter)
	b.until("nginx:9", "pods restart.", "Nothing has changed")
	if text := value[string](b, `document.getElementById("text").value`); !strings.Contains(text, "spec: {image: 'nginx:9'}") {
		t.Errorf("the text of the form is %q", text)
	}
	image := app.Spec.Image
	if plane.Read(t, app); app.Spec.Image != image {
		t.Errorf("the plan has changed the image to %s", app.Spec.Image)
	}
}

// TestMenus limits the list to a kind by its menu, which stays open while the list changes.
func TestMenus(t *testing.T) {
	t.Parallel()
	config, ns := administrator(t)
	settle(t, appv1.ReasonReady, fixture.NewApp(ns, "cart"), fixture.NewModelBox(ns, "search"))
	b := newTab(t)
	b.login(open(t, config, "-n", ns))
	b.live()
	b.press("kind: all")
	b.keys(kb.Enter)
	settle(t, appv1.ReasonReady, fixture.NewApp(ns, "billing"))
	b.until(ns+"/billing", ns+"/search")
	if open := value[bool](b, `document.getElementById("menu-kind").open`); !open {
		t.Error("the menu is closed")
	}
	b.press("ModelBox")
	b.keys(kb.Enter)
	b.without([]string{ns + "/cart", ns + "/billing"}, ns+"/search", "kind: ModelBox")
}
