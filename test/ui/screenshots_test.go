package ui

import (
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
	"k8s.io/client-go/tools/clientcmd"

	"huolala.cn/app-operator/test/harness"
)

// maxPicture is how many bytes a picture of the documentation has at most.
const maxPicture = 150 << 10

// TestScreenshots takes the pictures of the documentation: make screenshots writes them.
func TestScreenshots(t *testing.T) {
	folder := os.Getenv("SCREENSHOTS")
	if folder == "" {
		t.Skip("SCREENSHOTS names no folder")
	}
	need(t)
	stage(t)
	c, b := open(t, nameContext(t, "dev"), "-A"), newTab(t)
	b.theme("light")
	b.view(1280, 800, 1)
	b.login(c)
	take := func(name, page string) {
		t.Helper()
		b.visit(c.base+page, http.StatusOK)
		if !strings.Contains(page, "/rollback") {
			b.live()
		}
		harness.Eventually(t, func() error {
			if value[int](b, `document.querySelectorAll(".changed").length`) > 0 {
				return errors.New("a change is marked")
			}
			return nil
		})
		picture, err := chromedp.Run(b.ctx, chromedp.CaptureScreenshot())
		if err != nil {
			t.Fatal(err)
		}
		if len(picture) > maxPicture {
			t.Errorf("%s has %d bytes, want at most %d", name, len(picture), maxPicture)
		}
		if err := os.WriteFile(filepath.Join(folder, "ui-"+name+".png"), picture, 0o644); err != nil { //nolint:gosec // A picture is no secret.
			t.Fatal(err)
		}
	}
	b.view(1280, 530, 1)
	take("list", "")
	b.view(1280, 800, 1)
	take("resource", "app/shop/checkout")
	b.view(1280, 420, 1)
	take("plan", "app/shop/checkout/rollback?value=2")
	b.view(1280, 600, 1)
	take("task", "task/shop/cleanup")
	b.view(1280, 720, 1)
	take("wall", "?view=wall")
	b.theme("dark")
	b.view(1280, 800, 1)
	take("dark", "app/shop/fleet")
	b.view(390, 844, 1)
	b.theme("light")
	take("narrow", "")
}

// nameContext returns the administrator's kubeconfig, whose context has this name.
func nameContext(t testing.TB, name string) string {
	t.Helper()
	path := harness.WriteKubeconfig(t, plane.Config)
	config, err := clientcmd.LoadFromFile(path)
	if err != nil {
		t.Fatal(err)
	}
	config.Contexts[name], config.CurrentContext = config.Contexts[config.CurrentContext], name
	if err := clientcmd.WriteToFile(*config, path); err != nil {
		t.Fatal(err)
	}
	return path
}
