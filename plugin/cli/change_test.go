package cli

import (
	"net/http"
	"path"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/utils/ptr"

	appv1 "huolala.cn/app-operator/api/v1"
)

// TestBeingDeleted runs each command about a resource on one that is being deleted: those that change it or wait for it refuse at once, and change
// nothing. Those that read it show it.
func TestBeingDeleted(t *testing.T) {
	refuse := map[string][]string{
		"plan": {"plan", "web", "--set", "replicas=2"}, "plan --to": {"plan", "web", "--to", "1"}, "rollback": {"rollback", "web", "--yes"},
		"adopt": {"adopt", "web", "--yes"}, "hold": {"hold", "web", "--yes"}, "unhold": {"unhold", "web"}, "promote": {"promote", "web", "--yes"}, "abort": {"abort", "web", "--yes"}, "pause": {"pause", "web"},
		"resume": {"resume", "web"}, "suspend": {"suspend", "task/report"}, "refresh": {"refresh", "web", "--yes"}, "restart": {"restart", "web", "--yes"},
		"run":   {"run", "web", "--", "date"},
		"eject": {"eject", "web", "--delete", "--yes"}, "wait": {"wait", "web"}, "wait --for synced": {"wait", "web", "--for", "synced"},
		"wait --fail never": {"wait", "web", "--fail", "never"},
	}
	shown := map[string][]string{
		"list": {"list"}, "tree": {"tree", "web"}, "why": {"why", "web"}, "history": {"history", "web"}, "logs": {"logs", "web"}, "report": {"report", "web"},
	}
	without := []string{"version", "check", "completion", "import", "ui"} // No argument of theirs is a resource.
	r := &root{flags: genericclioptions.NewConfigFlags(true)}
	for _, cmd := range r.rootCommand().Commands() {
		if shown[cmd.Name()] == nil && refuse[cmd.Name()] == nil && !slices.Contains(without, cmd.Name()) {
			t.Errorf("%s is not tried", cmd.Name())
		}
	}
	app := &appv1.App{ObjectMeta: objectMeta("web")}
	app.UID, app.DeletionTimestamp, app.Finalizers = "app", ptr.To(metav1.Now()), []string{"example.com/a"}
	app.Status.ObservedGeneration = app.Generation
	app.Status.Conditions = []metav1.Condition{
		{Type: appv1.ConditionReady, Status: metav1.ConditionTrue, Reason: appv1.ReasonReady},
		{Type: appv1.ConditionApplied, Status: metav1.ConditionTrue, Reason: appv1.ReasonApplied},
	}
	task := &appv1.Task{ObjectMeta: objectMeta("report")}
	task.DeletionTimestamp, task.Finalizers = app.DeletionTimestamp, app.Finalizers
	f := serverOfLogs(t)
	f.objects["apps/web"], f.objects["tasks/report"] = app, task
	below := f.answer
	f.answer = func(q *http.Request, body string) runtime.Object {
		if path.Base(q.URL.Path) == "apps" {
			return &appv1.AppList{Items: []appv1.App{*app}}
		}
		return below(q, body)
	}
	for name, args := range refuse {
		code, out, said := f.run(t, args...)
		if code == 0 || !strings.Contains(said, "is being deleted") || strings.Contains(said, "--yes") {
			t.Errorf("%s: exit status %d\n%s%s", name, code, out, said)
		}
	}
	for name, args := range shown {
		if code, out, said := f.run(t, args...); code != 0 || out == "" {
			t.Errorf("%s: exit status %d\n%s%s", name, code, out, said)
		}
	}
	if code, _, said := f.run(t, "wait", "web", "--for", "deleted", "--timeout", "1ms"); code != exitTimeout {
		t.Errorf("wait --for deleted: exit status %d\n%s", code, said)
	}
	if len(f.writes) > 0 {
		t.Errorf("it writes %q", f.writes)
	}
}

// TestEffectThatWaits says of a change that it takes effect later, and refuses one that never does.
func TestEffectThatWaits(t *testing.T) {
	const good = "web-5d"
	for name, c := range map[string]struct {
		paused         bool
		held, lastGood string
		args           []string
		want           string
		refused        bool
	}{
		"refresh":                        {args: []string{"refresh", "web", "--yes"}, want: "App shop/web refreshed\n"},
		"refresh of a paused one":        {paused: true, args: []string{"refresh", "web", "--yes"}, want: "refreshed; it is paused, so this takes effect once it is resumed"},
		"refresh of a held one":          {held: good, args: []string{"refresh", "web", "--yes"}, want: `refreshed; it is held at web-5d, so this takes effect after "kubectl happ unhold web -n shop"`},
		"hold":                           {lastGood: good, args: []string{"hold", "web", "--yes"}, want: "held at last-good, ReplicaSet web-5d\n"},
		"hold of a paused one":           {paused: true, lastGood: good, args: []string{"hold", "web", "--yes"}, want: "held at last-good, ReplicaSet web-5d; it is paused, so this"},
		"unhold of a paused one":         {paused: true, held: good, args: []string{"unhold", "web", "--yes"}, want: "no longer held; it is paused, so this"},
		"hold without a good one":        {args: []string{"hold", "web", "--yes"}, want: "has no last-good revision yet", refused: true},
		"hold without a good one, asked": {args: []string{"hold", "web"}, want: "has no last-good revision yet", refused: true},
		"hold again":                     {held: "last-good", args: []string{"hold", "web", "--yes"}, want: "held at last-good already"},
	} {
		app := &appv1.App{ObjectMeta: objectMeta("web")}
		app.Spec.Paused = c.paused
		if c.held != "" {
			app.Annotations = map[string]string{appv1.AnnotationHold: c.held}
		}
		if c.lastGood != "" {
			app.Status.LastGood = &appv1.GoodRevision{ReplicaSet: c.lastGood}
		}
		f := newFakeServer(t, map[string]runtime.Object{"apps/web": app})
		code, out, said := f.run(t, c.args...)
		wrote := slices.ContainsFunc(f.writes, func(w string) bool { return strings.HasPrefix(w, "PATCH ") })
		if (code != 0) != c.refused || !strings.Contains(out+said, c.want) || wrote == (c.refused || strings.Contains(c.want, "already")) {
			t.Errorf("%s: exit status %d, %q, writes %q", name, code, out+said, f.writes)
		}
	}
}
