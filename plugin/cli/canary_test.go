package cli

import (
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"

	"huolala.cn/app-operator/api/client/clientset/versioned"
	appv1 "huolala.cn/app-operator/api/v1"
	"huolala.cn/app-operator/plugin/ui"
	"huolala.cn/app-operator/plugin/view"
)

// TestCheckCanary checks which canaries can be promoted and removed, and what a refusal names.
func TestCheckCanary(t *testing.T) {
	kind, known := view.KindOf("App")
	if !known {
		t.Fatal("there is no kind App")
	}
	running := func(change ...func(*view.Resource)) view.Resource {
		r, _ := view.ResourceOf(&appv1.App{ObjectMeta: objectMeta("web")})
		r.Canary = &appv1.CanaryStatus{Name: "web-canary", UID: "1", Pods: 2, Ready: 2}
		r.Status.Conditions = []metav1.Condition{{Type: appv1.ConditionCanaryReady, Status: metav1.ConditionTrue}}
		for _, each := range change {
			each(&r)
		}
		return r
	}
	paused := func(r *view.Resource) { r.Paused = true }
	pending := func(r *view.Resource) { r.Paused, r.Status.Pending = true, []string{"1 change waits"} }
	for name, c := range map[string]struct {
		now             view.Resource
		promote, remove string
	}{
		"it is ready":              {running(), "", ""},
		"there is none":            {running(func(r *view.Resource) { r.Canary = nil }), "no canary that waits", "no canary that waits"},
		"it is not ready":          {running(func(r *view.Resource) { r.Canary.Ready, r.Status.Conditions = 1, nil }), "1 of 2 pods", ""},
		"paused":                   {running(paused), "", ""},
		"paused, and changed then": {running(pending), "1 change waits. Resume it by \"kubectl happ resume web", ""},
	} {
		t.Run(name, func(t *testing.T) {
			for step, want := range map[*canaryStep]string{{needsReady: true}: c.promote, {}: c.remove} {
				err := checkCanary(&c.now, target{kind: kind, namespace: "shop", name: "web"}, step)
				if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
					t.Errorf("ready needed: %t: %v, want %q", step.needsReady, err, want)
				}
			}
		})
	}
}

// TestPagesPromoteAsTheCommand has the pages carry out a promotion or removal: they refuse the canaries that the commands refuse.
func TestPagesPromoteAsTheCommand(t *testing.T) {
	kind, _ := view.KindOf("App")
	const uid = "1"
	for name, c := range map[string]struct {
		change          func(*appv1.App)
		value           string
		promote, remove string
	}{
		"it is ready":  {func(*appv1.App) {}, uid, "", ""},
		"it is not":    {func(app *appv1.App) { app.Status.Canary.Ready, app.Status.Conditions = 1, nil }, uid, "1 of 2 pods", ""},
		"another one":  {func(*appv1.App) {}, "2", "is another one meanwhile", "is another one meanwhile"},
		"none":         {func(app *appv1.App) { app.Status.Canary = nil }, uid, "has no canary that waits", "has no canary that waits"},
		"paused":       {func(app *appv1.App) { app.Spec.Paused = true }, uid, "", ""},
		"other change": {func(app *appv1.App) { app.Spec.Paused, app.Status.Pending = true, []string{"1 change waits"} }, uid, "promote web --force -n shop", ""},
	} {
		for do, want := range map[string]string{ui.Promote: c.promote, ui.Abort: c.remove} {
			app := &appv1.App{ObjectMeta: objectMeta("web")}
			app.Status.Canary = &appv1.CanaryStatus{Name: "web-canary", UID: uid, Pods: 2, Ready: 2}
			app.Status.Conditions = []metav1.Condition{{Type: appv1.ConditionCanaryReady, Status: metav1.ConditionTrue}}
			c.change(app)
			f := newFakeServer(t, map[string]runtime.Object{"apps/web": app})
			client, err := versioned.NewForConfig(&rest.Config{Host: f.url})
			if err != nil {
				t.Fatal(err)
			}
			a, act := &actor{clients: &clients{app: client}}, ui.Action{Kind: kind, Namespace: namespaceOfTests, Name: "web", Do: do, Value: c.value}
			err = a.PerformAction(t.Context(), act, app.ResourceVersion)
			if (err == nil) != (want == "") || err != nil && (!strings.Contains(err.Error(), want) || !apierrors.IsBadRequest(err)) || (len(f.writes) > 0) != (err == nil) {
				t.Errorf("%s, %s: %v, want %q; writes %q", name, do, err, want, f.writes)
			}
			if want == "" {
				continue
			}
			if _, err := a.ProposeAction(t.Context(), act); err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%s, the plan of %s: %v, want %q", name, do, err, want)
			}
		}
	}
}
