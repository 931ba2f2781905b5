package cli

import (
	"net/http"
	"path"
	"slices"
	"strings"
	"sync"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/ptr"

	appv1 "huolala.cn/app-operator/api/v1"
)

// TestRefreshTakesKeptTemplates has the resources that refresh --all refreshes: outdated ones, and those with the pod template of before an
// adoption. The list names the latter.
func TestRefreshTakesKeptTemplates(t *testing.T) {
	apps := &appv1.AppList{TypeMeta: metav1.TypeMeta{APIVersion: appv1.GroupVersion.String(), Kind: "AppList"}}
	objects := map[string]runtime.Object{}
	for name, applied := range map[string]string{"kept": appv1.ReasonTemplateKept, "plain": "Applied", "outdated": "Applied"} {
		app := appv1.App{ObjectMeta: objectMeta(name)}
		app.Status.Conditions = []metav1.Condition{
			{Type: appv1.ConditionReady, Status: metav1.ConditionTrue, Reason: appv1.ReasonReady, Message: "all is well"},
			{Type: appv1.ConditionApplied, Status: metav1.ConditionTrue, Reason: applied},
		}
		if name == "outdated" {
			app.Status.LatestRendering = 2
		}
		apps.Items = append(apps.Items, app)
		objects["apps/"+name] = &app
	}
	f := newFakeServer(t, objects)
	f.answer = func(q *http.Request, _ string) runtime.Object {
		if strings.HasSuffix(q.URL.Path, "/namespaces/"+namespaceOfTests+"/apps") {
			return apps
		}
		return nil
	}
	code, out, said := f.run(t, "refresh", "--all", "--yes")
	if code != 0 || len(f.writes) != 2 || !strings.Contains(out, "shop/kept refreshed") || !strings.Contains(out, "shop/outdated refreshed") {
		t.Errorf("exit status %d, %s%s, writes %q", code, out, said, f.writes)
	}
	_, out, _ = f.run(t, "list")
	for line := range strings.Lines(out) {
		if strings.Contains(line, "App/kept") != strings.Contains(line, "TemplateKept") {
			t.Errorf("list: %q", line)
		}
	}
}

// TestRefreshOfStalled refreshes an App that is stalled, and waits. The App has the status of before in the version of the refresh: it counts as failed only
// once the operator has looked at it again.
func TestRefreshOfStalled(t *testing.T) {
	t.Parallel()
	ready := stalled("9")
	ready.Status.Conditions = []metav1.Condition{
		{Type: appv1.ConditionReady, Status: metav1.ConditionTrue, Reason: appv1.ReasonReady},
		{Type: appv1.ConditionApplied, Status: metav1.ConditionTrue, Reason: appv1.ReasonApplied},
	}
	for name, c := range map[string]struct {
		after *appv1.App
		code  int
		said  string
	}{
		"it comes up":          {ready, 0, ""},
		"it stalls once more":  {stalled("9"), 1, "web is stalled: no progress"},
		"it is deleted by now": {leaving(), 1, "is being deleted"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var mu sync.Mutex
			states := []*appv1.App{stalled("7")}
			f := newFakeServer(t, nil)
			f.answer = func(q *http.Request, _ string) runtime.Object {
				mu.Lock()
				defer mu.Unlock()
				switch {
				case path.Base(q.URL.Path) != "web":
					return nil
				case q.Method == http.MethodPatch:
					states = []*appv1.App{stalled("8"), stalled("8"), c.after} // The wait and what follows it would each see the status of before.
					return stalled("8")
				}
				now := states[0]
				if len(states) > 1 {
					states = states[1:]
				}
				return now
			}
			code, out, said := f.run(t, "refresh", "web", "--yes", "--wait")
			if code != c.code || !strings.Contains(said, c.said) || !strings.Contains(out, "web refreshed\n") || len(states) > 1 {
				t.Errorf("exit status %d\n%s%s", code, out, said)
			}
		})
	}
}

// TestRefreshLeavesOut has resources that change between the list of --all and their refresh: those that are gone or are being deleted are left out with a
// warning. Another error, and an error of a resource that is named, ends the command, and says how many are left.
func TestRefreshLeavesOut(t *testing.T) {
	t.Parallel()
	named := func(name string, change func(*appv1.App)) *appv1.App {
		app := &appv1.App{ObjectMeta: objectMeta(name)}
		app.Status.LatestRendering = 2
		app.Status.Conditions = []metav1.Condition{{Type: appv1.ConditionReady, Status: metav1.ConditionTrue, Reason: appv1.ReasonReady}}
		change(app)
		return app
	}
	all := &appv1.AppList{}
	for _, name := range []string{"a", "b", "c"} {
		all.Items = append(all.Items, *named(name, func(*appv1.App) {}))
	}
	refused := apierrors.NewForbidden(appv1.GroupVersion.WithResource("apps").GroupResource(), "b", nil)
	for name, c := range map[string]struct {
		args      []string
		second    runtime.Object // The answer to a read of b, nil for a resource that is gone.
		code      int
		refreshed []string
		said      string
	}{
		"gone":            {[]string{"--all"}, nil, 0, []string{"a", "c"}, "Warning: not refreshed: there is no App b in shop"},
		"deleted":         {[]string{"--all"}, named("b", func(a *appv1.App) { a.DeletionTimestamp = ptr.To(metav1.Now()) }), 0, []string{"a", "c"}, "Warning: not refreshed: App shop/b is being deleted"},
		"forbidden":       {[]string{"--all"}, status(refused), 1, []string{"a"}, "; 2 of 3 were not refreshed"},
		"gone, in a wave": {[]string{"--all", "--wave", "1"}, nil, 0, []string{"a", "c"}, "Warning: not refreshed: there is no App b"},
		"a canary, in a wave": {[]string{"--all", "--wave", "1"}, named("b", func(a *appv1.App) {
			a.Status.ObservedGeneration = a.Generation
			a.Status.Conditions = []metav1.Condition{{Type: appv1.ConditionReady, Status: metav1.ConditionUnknown, Reason: appv1.ReasonCanary}, {Type: appv1.ConditionCanaryReady, Status: metav1.ConditionTrue, Reason: appv1.ReasonReady}}
			a.Status.Canary = &appv1.CanaryStatus{Name: "b-canary"}
		}), 0, []string{"a", "b", "c"}, ""},
		"gone, and named": {[]string{"a", "b", "c"}, nil, 1, []string{"a"}, "there is no App b in shop: apps \"b\" not found; 2 of 3 were not refreshed"},
		"the only one":    {[]string{"b"}, nil, 1, nil, "there is no App b in shop: apps \"b\" not found\n"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var mu sync.Mutex
			refreshed := map[string]bool{}
			f := newFakeServer(t, nil)
			f.answer = func(q *http.Request, _ string) runtime.Object {
				mu.Lock()
				defer mu.Unlock()
				switch last := path.Base(q.URL.Path); last {
				case "apps":
					return all
				case "a", "c":
					refreshed[last] = refreshed[last] || q.Method == http.MethodPatch
					return named(last, func(app *appv1.App) {
						if refreshed[last] {
							app.ResourceVersion, app.Status.LatestRendering, app.Status.ObservedGeneration = "8", 0, app.Generation
							app.Status.Conditions = append(app.Status.Conditions, metav1.Condition{Type: appv1.ConditionApplied, Status: metav1.ConditionTrue, Reason: appv1.ReasonApplied})
						}
					})
				case "b":
					app, ok := c.second.(*appv1.App)
					if !ok {
						return c.second
					}
					app = app.DeepCopy()
					if refreshed[last] && q.Method != http.MethodPatch {
						app.ResourceVersion = "8"
					}
					refreshed[last] = refreshed[last] || q.Method == http.MethodPatch
					return app
				}
				return nil
			}
			code, out, said := f.run(t, slices.Concat([]string{"refresh", "--yes"}, c.args)...)
			var done []string
			for _, name := range []string{"a", "b", "c"} {
				if strings.Contains(out, "App shop/"+name+" refreshed\n") {
					done = append(done, name)
				}
			}
			if code != c.code || !slices.Equal(done, c.refreshed) || !strings.Contains(said, c.said) {
				t.Errorf("exit status %d, refreshed are %q\n%s%s", code, done, out, said)
			}
		})
	}
}
