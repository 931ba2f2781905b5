package ui

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"testing"

	"github.com/chromedp/chromedp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appv1 "huolala.cn/app-operator/api/v1"
	"huolala.cn/app-operator/test/fixture"
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
	furnish(t)
	c, b := open(t, nameContext(t, "dev"), "-A"), newTab(t)
	b.theme("light")
	b.view(1120, 800, 1)
	b.login(c)
	take := func(name string) {
		t.Helper()
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
	scroll := func(heading string) {
		t.Helper()
		value[bool](b, fmt.Sprintf(`(e => { e.parentElement.scrollIntoView(); scrollBy(0, -16); return true })([...document.querySelectorAll("h2")].find(e => e.textContent.trim() === %q))`, heading))
	}
	b.visit(c.base, http.StatusOK)
	b.live()
	b.view(1120, 560, 1)
	take("list")
	b.theme("dark")
	take("dark")
	b.view(360, 740, 2)
	take("narrow")
	b.theme("light")
	b.view(1120, 620, 1)
	b.visit(c.base+"app/shop/cart", http.StatusOK)
	b.live()
	take("resource")
	b.view(1120, 460, 1)
	scroll("History")
	take("history")
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

// furnish makes what is in the pictures: two namespaces of a shop, in which one rollout has stalled.
func furnish(t testing.TB) {
	t.Helper()
	for _, name := range []string{"shop", "search"} {
		plane.Create(t, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}})
	}
	plane.Start(t, "shop", harness.WithNamespaces("search"))
	app := func(name string, replicas int32) *appv1.App {
		a := fixture.NewApp("shop", name)
		a.Spec.Replicas, a.Spec.Image = ptr.To(replicas), "registry.example/"+name+":1.4.0"
		a.Spec.ProgressDeadlineSeconds = ptr.To[int32](20)
		return a
	}
	cart, mailer := app("cart", 6), app("mailer", 1)
	suggest := fixture.NewModelBox("search", "suggest")
	suggest.Spec.Image = "registry.example/suggest:2.0.1"
	plane.Create(t, fixture.NewDeployment("search", "crawler"))
	settle(t, appv1.ReasonReady, cart, mailer, app("checkout", 3), app("payments", 2), suggest,
		fixture.NewUnitedDeployment("search", "crawler", "crawler"), fixture.NewCloudManager("shop", "accounts"))
	plane.Change(t, mailer, func() { mailer.Spec.Paused = true })
	for _, change := range []struct {
		reason string
		apply  func()
	}{
		{appv1.ReasonReady, func() { cart.Spec.Image = "registry.example/cart:1.4.1" }},
		{appv1.ReasonReady, func() {
			cart.Spec.Resources.Limits = corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("500Mi")}
			cart.Spec.Envs = []corev1.EnvVar{{Name: "TZ", Value: "Asia/Shanghai"}}
		}},
		{appv1.ReasonImagePullBackOff, func() { cart.Spec.Image = "imagepullbackoff.test/cart:1.5.0" }},
	} {
		plane.Change(t, cart, change.apply, client.FieldOwner("kubectl"))
		plane.Until(t, cart, func() error { return standing(cart, change.reason) })
	}
	plane.Stands(t, cart, "Stalled=True")
}
