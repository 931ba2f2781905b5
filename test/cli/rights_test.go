package cli

import (
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"

	authorizationv1 "k8s.io/api/authorization/v1"
	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	appv1 "huolala.cn/app-operator/api/v1"
	plugin "huolala.cn/app-operator/plugin/cli"
	"huolala.cn/app-operator/test/fixture"
	"huolala.cn/app-operator/test/harness"
)

// maxRequests is how many requests the reading commands send at most, whatever the size of the cluster is: four of them for what the
// App asks for around its pods.
const maxRequests = 9 + 4 + 2

// commands are the arguments with which each command is tried on the App web. Those that change something are asked for no more
// than what they do first.
var commands = map[string][]string{
	"list": {"list"}, "tree": {"tree", "web"}, "why": {"why", "web"}, "logs": {"logs", "web"}, "report": {"report", "web"}, "wait": {"wait", "web"}, "history": {"history", "web"},
	"plan": {"plan", "web", "--set", "replicas=2"}, "plan -f": {"plan", "-f", "test/cli/testdata/web.yaml"},
	"hold": {"hold", "web", "--yes"}, "unhold": {"unhold", "web", "--yes"}, "promote": {"promote", "web", "--yes", "--force"}, "abort": {"abort", "web", "--yes"},
	"rollback": {"rollback", "web", "--yes", "--wait"}, "pause": {"pause", "web"}, "resume": {"resume", "web"},
	"refresh": {"refresh", "web", "--yes"}, "refresh --all": {"refresh", "--all", "--yes"}, "restart": {"restart", "web", "--yes"},
	"run":    {"run", "web", "--", "date"},
	"import": {"import", "deployment/web"}, "adopt": {"adopt", "web", "--yes"},
	"eject": {"eject", "web"}, "eject --delete": {"eject", "web", "--delete", "--yes"},
}

// TestRights runs each command as a user with exactly the rights that are documented, and then without each of them: a right that
// is needed is named, and for another one there is less to see, which is said.
func TestRights(t *testing.T) {
	t.Parallel()
	for _, n := range plugin.CommandNeeds() {
		if slices.Contains([]string{"ui", "run -i", "suspend"}, n.Command) {
			continue // See TestUIRights, TestRunInput and TestRightsToTasks.
		}
		args, known := commands[n.Command]
		if !known {
			t.Errorf("%s is not tried", n.Command)
			continue
		}
		t.Run(strings.ReplaceAll(n.Command, " ", ""), func(t *testing.T) {
			t.Parallel()
			ns := namespaceFor(t, n.Command)
			prepare(t, fixture.NewApp(ns, "web"), n.Command)
			tryRights(t, ns, &n, args, func(right plugin.Right) bool { return concerns(n.Command, right) })
		})
	}
}

// tryRights runs a command as a user with exactly the rights that are documented, and then without each of them that concerns the command.
func tryRights(t *testing.T, ns string, n *plugin.Need, args []string, concerns func(plugin.Right) bool) {
	t.Helper()
	who := account(t, ns, "user", n.Rights)
	for _, right := range n.Rights {
		if !concerns(right) {
			continue
		}
		u := as(t, plane.ProxyAs(t, who, withLogs(t, who, without(right))).Config(), ns)
		code, out, said := u.try(args...)
		text := out + said
		switch {
		case right.Needed && (code == 0 || !strings.Contains(text, "you may not")):
			t.Errorf("without %s: exit status %d\n%s", right, code, text)
		case !right.Needed && shown(n.Command) && !strings.Contains(text, "you may not list them"):
			t.Errorf("without %s, nothing is said of it:\n%s", right, text)
		case strings.Contains(text, "panic") || strings.Contains(text, "goroutine"):
			t.Errorf("without %s:\n%s", right, text)
		}
	}
	x := plane.ProxyAs(t, who, withLogs(t, who, nil))
	u := as(t, x.Config(), ns)
	code, out, said := u.try(args...)
	if code != 0 || strings.Contains(out+said, "you may not") {
		t.Errorf("exit status %d with all rights\n%s%s", code, out, said)
	}
	if f := x.Requests.Forbidden(); len(f) > 0 {
		t.Errorf("requests beyond the rights: %v", f)
	}
	if sent := len(x.Requests.All()); slices.Contains([]string{"list", "tree", "why", "logs", "history", "wait"}, n.Command) && sent > maxRequests {
		t.Errorf("%d requests, want at most %d: %v", sent, maxRequests, x.Requests.All())
	}
}

// namespaceFor returns a namespace for a command: that of the shared manager, or of one that answers plans.
func namespaceFor(t *testing.T, command string) string {
	t.Helper()
	if strings.HasPrefix(command, "plan") || command == "adopt" {
		return planner(t).namespace
	}
	ns, _ := plane.Shared(t)
	return ns
}

// prepare creates the App so that the command has something to do.
func prepare(t *testing.T, app *appv1.App, command string) {
	t.Helper()
	if command == "import" {
		plane.Create(t, handMade(app.Namespace), handMadeService(app.Namespace))
		return
	}
	if command == "adopt" {
		plane.Create(t, handMade(app.Namespace), handMadeService(app.Namespace), app)
		plane.Stands(t, app, "Applied=False/ResourceExists")
		return
	}
	app.Spec.NetworkPolicy = &appv1.NetworkPolicySpec{Ingress: []networkingv1.NetworkPolicyIngressRule{}}
	app.Spec.ServiceAccount = &appv1.ServiceAccountSpec{}
	app.Spec.HTTPRoute = &appv1.HTTPRouteSpec{ParentRefs: []appv1.ParentRef{{Name: "public"}}}
	app.Spec.PodMonitor = &appv1.PodMonitorSpec{}
	app.Spec.Ports[0].Name = "http"
	plane.Define(t, harness.HTTPRouteDefinition(t))
	plane.Define(t, harness.PodMonitorDefinition())
	plane.Create(t, app)
	plane.Stands(t, app, "Ready=True", "Applied=True")
	migrate := &appv1.BeforeRolloutSpec{Command: []string{"/app/migrate"}}
	switch command {
	case "resume":
		plane.Change(t, app, func() { app.Spec.Paused = true })
	case "unhold":
		plane.Change(t, app, func() { app.Annotations = map[string]string{appv1.AnnotationHold: appv1.HoldLastGood} })
		plane.Until(t, app, func() error { return standing(app, appv1.ReasonHeld) })
	case "promote", "abort":
		plane.Change(t, app, func() {
			app.Spec.Canary, app.Spec.Image, app.Spec.BeforeRollout = &appv1.CanarySpec{}, "nginx:2", migrate
		})
		plane.Until(t, app, func() error { return standing(app, appv1.ReasonCanary) })
		return // Another command would replace the canary.
	case "rollback":
		plane.Change(t, app, func() { app.Spec.Image = "nginx:2" })
		plane.Until(t, app, func() error { return standing(app, appv1.ReasonReady) })
	}
	plane.Change(t, app, func() { app.Spec.BeforeRollout = migrate })
}

// concerns reports whether a command makes use of a right for an App. Nothing waits to be refreshed, and the App is there.
func concerns(command string, right plugin.Right) bool {
	ours := right.Group == appv1.GroupVersion.Group
	if command == "plan -f" && (right.Verb == "create" || !ours) {
		return false
	}
	if command == "eject --delete" && right.Verb == "patch" { // Without it, the App would be gone before the next right.
		return false
	}
	if command == "list" || command == "refresh --all" {
		return right.Verb == "list"
	}
	return (!ours || right.Resource == "apps") && !slices.Contains([]string{"statefulsets", "persistentvolumeclaims", "cronjobs"}, right.Resource)
}

// shown reports whether a command says what it could not list.
func shown(command string) bool {
	return command != "wait" && command != "rollback" && command != "run"
}

// logLine is the log of each container, with the time that only run asks for.
const logLine = "2026-01-01T00:00:00Z a line of its log\n"

// withLogs answers requests for logs, which simulated nodes do not have, as the API server would for a user. All others are left to a fault.
func withLogs(t *testing.T, who types.NamespacedName, others harness.Fault) harness.Fault {
	return func(q harness.Request, send func() (*http.Response, error)) (*http.Response, error) {
		logs := q.Resource == "pods/log"
		ask := func() (*http.Response, error) {
			if !logs {
				return send()
			}
			review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
				User:               "system:serviceaccount:" + who.Namespace + ":" + who.Name,
				ResourceAttributes: &authorizationv1.ResourceAttributes{Namespace: q.Namespace, Verb: q.Verb, Resource: "pods", Subresource: "log", Name: q.Name},
			}}
			if err := plane.Client.Create(t.Context(), review); err != nil || !review.Status.Allowed {
				return harness.Answer(apierrors.NewForbidden(schema.GroupResource{Resource: "pods/log"}, q.Name, err)), nil
			}
			return &http.Response{StatusCode: http.StatusOK, Header: http.Header{}, Body: io.NopCloser(strings.NewReader(logLine))}, nil
		}
		if others == nil {
			return ask()
		}
		return others(q, ask)
	}
}

// without is the fault by which the API server would answer a user who lacks a right.
func without(right plugin.Right) harness.Fault {
	return func(q harness.Request, send func() (*http.Response, error)) (*http.Response, error) {
		if q.Verb == right.Verb && q.Group == right.Group && q.Resource == right.Resource {
			gr := schema.GroupResource{Group: right.Group, Resource: right.Resource}
			return harness.Answer(apierrors.NewForbidden(gr, q.Name, nil)), nil
		}
		return send()
	}
}
