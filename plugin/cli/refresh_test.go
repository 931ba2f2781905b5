package cli

import (
	"errors"
	"net/http"
	"path"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
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

// TestRefreshRunsCommand refreshes a ready App for which nothing waits. Its command before the rollout runs again, so the status of before does not count, however
// long it stays. The command and the rollout have the time of a wait each. An App without a command has nothing to wait for.
func TestRefreshRunsCommand(t *testing.T) {
	withCommand := func(app *appv1.App) *appv1.App {
		app.Spec.BeforeRollout = &appv1.BeforeRolloutSpec{Command: []string{"/app/migrate"}}
		return app
	}
	waits, failed := withCommand(progressing("9")), withCommand(stalled("10"))
	waits.Status.Conditions[0].Reason = appv1.ReasonBeforeRollout
	for i := range failed.Status.Conditions {
		failed.Status.Conditions[i].Reason = appv1.ReasonBeforeRolloutFailed
	}
	waits.Status.LatestRendering = 2
	job, pod := batchv1.Job{ObjectMeta: objectMeta("web-1")}, corev1.Pod{ObjectMeta: objectMeta("web-1-a")}
	job.UID, job.Labels = "2", map[string]string{appv1.LabelBeforeRollout: "web"}
	job.OwnerReferences = []metav1.OwnerReference{{APIVersion: appv1.GroupVersion.String(), Kind: "App", Name: "web", UID: "1"}}
	pod.OwnerReferences = []metav1.OwnerReference{{Kind: "Job", Name: "web-1", UID: "2", Controller: ptr.To(true)}}
	pod.Status.ContainerStatuses = []corev1.ContainerStatus{{
		Name: "web", Image: "nginx:9", State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "ErrImagePull"}},
	}}
	old, done := withCommand(readyAgain("8")), withCommand(readyAgain("11"))
	starts := waits.DeepCopy() // Its pod starts.
	starts.UID = "3"
	rolls, long := withCommand(progressing("10")), func(app *appv1.App) []*appv1.App { return slices.Repeat([]*appv1.App{app}, 550) }
	for name, c := range map[string]struct {
		after       []*appv1.App
		code        int
		said        string
		least, most time.Duration
	}{
		"the command fails":          {[]*appv1.App{old, old, old, failed}, 1, "web is stalled: no progress", time.Second, 5 * time.Second},
		"the command succeeds":       {[]*appv1.App{old, old, waits, waits, done}, 0, "", 2 * time.Second, 6 * time.Second},
		"its pod has no image":       {[]*appv1.App{old, waits}, 1, `web does not come up: container "web": image "nginx:9" cannot be pulled`, defaultWait.grace, defaultWait.grace + 10*time.Second},
		"it begins late":             {append(slices.Repeat([]*appv1.App{old}, 100), starts, starts, done), 0, "", 100 * time.Second, 106 * time.Second},
		"it never runs":              {[]*appv1.App{old}, exitTimeout, "web has not run its command 2m0s after the refresh: its status is still of before; see: kubectl happ check", 2 * time.Minute, 2*time.Minute + 3*time.Second},
		"all of it takes long":       {slices.Concat([]*appv1.App{old}, long(starts), long(rolls), []*appv1.App{done}), 0, "", 1090 * time.Second, 1110 * time.Second},
		"the command takes too long": {[]*appv1.App{old, starts}, exitTimeout, "web is not ready after 10m0s", defaultWait.timeout, defaultWait.timeout + 10*time.Second},
		"there is no command":        {[]*appv1.App{readyAgain("8")}, 0, "", 0, time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			f := stalledServer(t, readyAgain("7"), c.after...)
			app := f.answer
			f.answer = func(q *http.Request, body string) runtime.Object {
				switch path.Base(q.URL.Path) {
				case "jobs":
					return &batchv1.JobList{Items: []batchv1.Job{job}}
				case "pods":
					return &corev1.PodList{Items: []corev1.Pod{pod}}
				}
				return app(q, body)
			}
			synctest.Test(t, func(t *testing.T) {
				began := time.Now()
				out, said, err := f.runWith(t.Context(), t, f.serveTrip, "refresh", "web", "--yes", "--wait")
				var failed *exit
				if errors.As(err, &failed) != (c.said != "") || failed != nil && (failed.code != c.code || !strings.Contains(failed.text, c.said)) || failed == nil && err != nil {
					t.Errorf("%v\n%s%s", err, out, said)
				}
				if took := time.Since(began); took < c.least || took > c.most {
					t.Errorf("it took %s, want %s to %s", took, c.least, c.most)
				}
			})
		})
	}
}

// TestRefreshPassesCanaries refreshes an App whose command before the rollout runs first, and whose canary then waits for its promotion: a wave does not wait
// for that, and a refresh of the App by its name does.
func TestRefreshPassesCanaries(t *testing.T) {
	at := func(version, reason string, canary *appv1.CanaryStatus, canaryReady metav1.ConditionStatus) *appv1.App {
		app := progressing(version)
		app.Spec.BeforeRollout = &appv1.BeforeRolloutSpec{Command: []string{"/app/migrate"}}
		app.Status.Conditions[0].Reason = reason
		app.Status.LatestRendering, app.Status.Canary = 2, canary
		if canary != nil {
			app.Status.Conditions = append(app.Status.Conditions, metav1.Condition{Type: appv1.ConditionCanaryReady, Status: canaryReady, Reason: appv1.ReasonReady})
		}
		return app
	}
	one := &appv1.CanaryStatus{Name: "web-canary", Pods: 1}
	old, waits := at("8", appv1.ReasonReady, nil, ""), at("9", appv1.ReasonBeforeRollout, nil, "")
	starts, ready := at("10", appv1.ReasonCanary, one, metav1.ConditionUnknown), at("11", appv1.ReasonCanary, one, metav1.ConditionTrue)
	empty := at("10", appv1.ReasonCanary, &appv1.CanaryStatus{Name: "web-canary"}, metav1.ConditionUnknown)
	for name, c := range map[string]struct {
		args        []string
		after       []*appv1.App
		code        int
		least, most time.Duration
	}{
		"it becomes ready":        {[]string{"--all", "--wave", "1"}, []*appv1.App{old, waits, waits, starts, starts, ready}, 0, 3 * time.Second, 10 * time.Second},
		"it has no pods":          {[]string{"--all", "--wait"}, []*appv1.App{old, waits, waits, empty}, 0, 0, 10 * time.Second},
		"the command is not seen": {[]string{"--all", "--wave", "1"}, []*appv1.App{old, starts, ready}, 0, 0, 10 * time.Second},
		"its pods do not come up": {[]string{"--all", "--wave", "1"}, []*appv1.App{old, waits, waits, starts}, exitTimeout, defaultWait.timeout, 2*defaultWait.timeout + 10*time.Second},
		"the App is named":        {[]string{"web", "--wait"}, []*appv1.App{old, waits, waits, ready}, exitTimeout, defaultWait.timeout, 2*defaultWait.timeout + 10*time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			f := stalledServer(t, old, c.after...)
			app := f.answer
			f.answer = func(q *http.Request, body string) runtime.Object {
				if path.Base(q.URL.Path) == "apps" {
					return &appv1.AppList{Items: []appv1.App{*old}}
				}
				return app(q, body)
			}
			synctest.Test(t, func(t *testing.T) {
				began := time.Now()
				out, said, err := f.runWith(t.Context(), t, f.serveTrip, slices.Concat([]string{"refresh", "--yes"}, c.args)...)
				var failed *exit
				if errors.As(err, &failed) != (c.code != 0) || failed != nil && failed.code != c.code || failed == nil && err != nil {
					t.Errorf("%v\n%s%s", err, out, said)
				}
				if left := strings.Contains(out, "web has a canary, which waits for its promotion\n"); left != (c.code == 0) {
					t.Errorf("it is left: %t\n%s", left, out)
				}
				if took := time.Since(began); took < c.least || took > c.most {
					t.Errorf("it took %s, want %s to %s", took, c.least, c.most)
				}
			})
		})
	}
}

// TestRefreshOfNothing refreshes all, but for the reasons of the warnings there is nothing to refresh.
func TestRefreshOfNothing(t *testing.T) {
	outdated := func(change func(*appv1.App)) *appv1.AppList {
		app := readyAgain("7")
		app.Status.LatestRendering = 2
		change(app)
		return &appv1.AppList{Items: []appv1.App{*app}}
	}
	for name, c := range map[string]struct {
		list runtime.Object
		out  string
	}{
		"nothing waits":     {outdated(func(a *appv1.App) { a.Status.LatestRendering = 0 }), "Nothing waits to be refreshed.\n"},
		"it is held":        {outdated(func(a *appv1.App) { a.Annotations = map[string]string{appv1.AnnotationHold: "b-1"} }), "Nothing is refreshed.\n"},
		"it is paused":      {outdated(func(a *appv1.App) { a.Spec.Paused = true }), "Nothing is refreshed.\n"},
		"it is not visible": {status(apierrors.NewForbidden(appv1.GroupVersion.WithResource("apps").GroupResource(), "", nil)), "Nothing is refreshed.\n"},
	} {
		f := newFakeServer(t, nil)
		f.answer = func(q *http.Request, _ string) runtime.Object {
			if path.Base(q.URL.Path) == "apps" {
				return c.list
			}
			return nil
		}
		code, out, said := f.run(t, "refresh", "--all", "--yes")
		if code != 0 || out != c.out || strings.Contains(said, "Warning: not refreshed: ") != (name != "nothing waits") {
			t.Errorf("%s: exit status %d\n%s%s", name, code, out, said)
		}
	}
}

// TestRefreshLeavesOut has resources that change between the list of --all and their refresh: those that are gone, are being deleted, paused or held are left
// out with a warning. Another error, and an error of a resource that is named, ends the command, and says how many are left.
func TestRefreshLeavesOut(t *testing.T) {
	t.Parallel()
	named := func(name string, change func(*appv1.App)) *appv1.App {
		app := &appv1.App{ObjectMeta: objectMeta(name)}
		app.Status.LatestRendering = 2
		app.Status.Conditions = []metav1.Condition{{Type: appv1.ConditionReady, Status: metav1.ConditionTrue, Reason: appv1.ReasonReady}}
		change(app)
		return app
	}
	paused := func(a *appv1.App) { a.Spec.Paused = true }
	held := func(a *appv1.App) { a.Annotations = map[string]string{appv1.AnnotationHold: "b-1"} }
	refused := apierrors.NewForbidden(appv1.GroupVersion.WithResource("apps").GroupResource(), "b", nil)
	for name, c := range map[string]struct {
		args      []string
		second    runtime.Object // The answer to a read of b, nil for a resource that is gone.
		code      int
		refreshed []string
		said      string
		listed    func(*appv1.App) // The state of b in the list, and after changes the state of b once it is refreshed; nil for no change.
		after     func(*appv1.App)
	}{
		"gone":            {[]string{"--all"}, nil, 0, []string{"a", "c"}, "Warning: not refreshed: there is no App b in shop", nil, nil},
		"deleted":         {[]string{"--all"}, named("b", func(a *appv1.App) { a.DeletionTimestamp = ptr.To(metav1.Now()) }), 0, []string{"a", "c"}, "Warning: not refreshed: App shop/b is being deleted", nil, nil},
		"forbidden":       {[]string{"--all"}, status(refused), 1, []string{"a"}, "; 2 of 3 were not refreshed", nil, nil},
		"gone, in a wave": {[]string{"--all", "--wave", "1"}, nil, 0, []string{"a", "c"}, "Warning: not refreshed: there is no App b", nil, nil},
		"a canary, in a wave": {[]string{"--all", "--wave", "1"}, named("b", func(a *appv1.App) {
			a.Status.ObservedGeneration = a.Generation
			a.Status.Conditions = []metav1.Condition{{Type: appv1.ConditionReady, Status: metav1.ConditionUnknown, Reason: appv1.ReasonCanary}, {Type: appv1.ConditionCanaryReady, Status: metav1.ConditionTrue, Reason: appv1.ReasonReady}}
			a.Status.Canary = &appv1.CanaryStatus{Name: "b-canary"}
		}), 0, []string{"a", "b", "c"}, "", nil, nil},
		"gone, and named":        {[]string{"a", "b", "c"}, nil, 1, []string{"a"}, "there is no App b in shop: apps \"b\" not found; 2 of 3 were not refreshed", nil, nil},
		"the only one":           {[]string{"b"}, nil, 1, nil, "there is no App b in shop: apps \"b\" not found\n", nil, nil},
		"paused":                 {[]string{"--all"}, named("b", paused), 0, []string{"a", "c"}, "Warning: not refreshed: App shop/b is paused, so a refresh takes effect later\n", paused, nil},
		"held, in a wave":        {[]string{"--all", "--wave", "1"}, named("b", held), 0, []string{"a", "c"}, "Warning: not refreshed: App shop/b is held at b-1, so a refresh takes effect later\n", held, nil},
		"paused by now":          {[]string{"--all"}, named("b", paused), 0, []string{"a", "c"}, "Warning: not refreshed: App shop/b is paused, so a refresh takes effect later\n", nil, nil},
		"held by now, in a wave": {[]string{"--all", "--wave", "1"}, named("b", held), 0, []string{"a", "c"}, "Warning: not refreshed: App shop/b is held at b-1, so a refresh takes effect later\n", nil, nil},
		"paused while it rolls":  {[]string{"--all", "--wave", "1"}, named("b", func(*appv1.App) {}), 1, []string{"a", "b"}, "App shop/b is paused, so a refresh takes effect later; see: kubectl happ why b -n shop; 1 of 3 were not refreshed\n", nil, paused},
		"held while it rolls":    {[]string{"--all", "--wave", "1"}, named("b", func(*appv1.App) {}), 1, []string{"a", "b"}, "App shop/b is held at b-1, so a refresh takes effect later; see: kubectl happ why b -n shop; 1 of 3 were not refreshed\n", nil, held},
		"held once it is ready": {[]string{"--all", "--wave", "1"}, named("b", func(*appv1.App) {}), 1, []string{"a", "b"}, "App shop/b is held at b-1, so a refresh takes effect later; see: ", nil, func(a *appv1.App) {
			held(a)
			a.Status.LatestRendering, a.Status.ObservedGeneration = 0, a.Generation
		}},
		"held, and named": {[]string{"b", "--wait"}, named("b", held), 1, []string{"b"}, "App shop/b is held at b-1, so a refresh takes effect later; see: ", nil, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var mu sync.Mutex
			refreshed, all := map[string]bool{}, &appv1.AppList{}
			for _, name := range []string{"a", "b", "c"} {
				all.Items = append(all.Items, *named(name, func(*appv1.App) {}))
			}
			if c.listed != nil {
				c.listed(&all.Items[1])
			}
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
						if c.after != nil {
							c.after(app)
						}
					}
					refreshed[last] = refreshed[last] || q.Method == http.MethodPatch
					return app
				}
				return nil
			}
			code, out, said := f.run(t, slices.Concat([]string{"refresh", "--yes"}, c.args)...)
			var done []string
			for _, name := range []string{"a", "b", "c"} {
				if strings.Contains(out, "App shop/"+name+" refreshed") {
					done = append(done, name)
				}
			}
			if code != c.code || !slices.Equal(done, c.refreshed) || !strings.Contains(said, c.said) {
				t.Errorf("exit status %d, refreshed are %q\n%s%s", code, done, out, said)
			}
		})
	}
}
