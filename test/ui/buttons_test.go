package ui

import (
	"errors"
	"fmt"
	"net/http"
	"reflect"
	"strings"
	"testing"

	"github.com/chromedp/chromedp/kb"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/utils/ptr"

	appv1 "huolala.cn/app-operator/api/v1"
	"huolala.cn/app-operator/test/fixture"
	"huolala.cn/app-operator/test/harness"
)

const (
	otherImage = "nginx:1.27"
	crashImage = "crashloopbackoff.test/identity:1"
)

// reports returns an error unless a condition of the latest generation has a reason.
func reports(r harness.Resource, reason string) error {
	for _, c := range r.CommonStatus().Conditions {
		if c.Reason == reason && c.ObservedGeneration == r.GetGeneration() {
			return nil
		}
	}
	return fmt.Errorf("%s does not report %s: %+v", r.GetName(), reason, r.CommonStatus().Conditions)
}

// situation is a resource that the test brings into a state, and how the state is recognized.
type situation struct {
	resource harness.Resource
	// enter changes the resource once it is ready; nil for a resource that is created in its state.
	enter func()
	in    func() error
}

// newSituations returns what makes a resource of a name for each state in which a user looks at a resource.
func newSituations(ns string) map[string]func(name string) situation {
	of := func(enter func(*appv1.App), in func(*appv1.App) error) func(string) situation {
		return func(name string) situation {
			app := fixture.NewApp(ns, name)
			app.Spec.Replicas, app.Spec.ProgressDeadlineSeconds = ptr.To[int32](2), ptr.To[int32](600)
			if strings.HasPrefix(name, "stalled") || strings.HasPrefix(name, "rolled-back") {
				app.Spec.ProgressDeadlineSeconds = ptr.To[int32](2)
			}
			if strings.HasPrefix(name, "rolled-back") {
				app.Spec.Rollback = "OnStall"
			}
			return situation{resource: app, enter: func() { enter(app) }, in: func() error { return in(app) }}
		}
	}
	image := func(name string) func(*appv1.App) { return func(app *appv1.App) { app.Spec.Image = name } }
	reporting := func(reason string) func(*appv1.App) error {
		return func(app *appv1.App) error { return reports(app, reason) }
	}
	task := func(suspended, paused bool, reason string) func(string) situation {
		return func(name string) situation {
			task := &appv1.Task{ObjectMeta: fixture.Meta(ns, name)}
			task.Spec.Image, task.Spec.Schedule, task.Spec.Suspended, task.Spec.Paused = otherImage, fixture.Schedule, suspended, paused
			return situation{resource: task, in: func() error { return reports(task, reason) }}
		}
	}
	return map[string]func(string) situation{
		"task": task(false, false, appv1.ReasonNoRun), "suspended": task(true, false, appv1.ReasonSuspended), "paused-task": task(true, true, appv1.ReasonPaused),
		"ready": of(image(otherImage), func(app *appv1.App) error { return standing(app, appv1.ReasonReady) }),
		"held": of(func(app *appv1.App) {
			app.Spec.Image, app.Annotations = badImage, map[string]string{appv1.AnnotationHold: appv1.HoldLastGood}
		}, reporting(appv1.ReasonHeld)),
		"rolled-back": of(image(badImage), reporting(appv1.ReasonRolledBack)),
		"waiting": func(name string) situation {
			office := fixture.NewCloudManager(ns, name)
			office.Spec.Identity.Deployment.Image = crashImage
			office.Spec.DB.StatefulSet.Name, office.Spec.Identity.Deployment.Name, office.Spec.Front.Deployment.Name = name+"-db", name+"-identity", name+"-front"
			return situation{resource: office, in: func() error { return reports(office, appv1.ReasonDependencyNotReady) }}
		},
		"paused": of(func(app *appv1.App) { app.Spec.Paused, app.Spec.Image = true, otherImage }, func(app *appv1.App) error {
			if len(app.Status.Pending) == 0 {
				return errors.New("nothing is pending")
			}
			return standing(app, appv1.ReasonPaused)
		}),
		"stalled": of(image(badImage), func(app *appv1.App) error {
			if !meta.IsStatusConditionTrue(app.Status.Conditions, appv1.ConditionStalled) {
				return errors.New("it is not stalled")
			}
			return nil
		}),
		"reconciling": of(image(badImage), reporting(appv1.ReasonImagePullBackOff)),
		"canary": of(func(app *appv1.App) { app.Spec.Canary, app.Spec.Image = &appv1.CanarySpec{}, otherImage }, func(app *appv1.App) error {
			if !meta.IsStatusConditionTrue(app.Status.Conditions, appv1.ConditionCanaryReady) {
				return errors.New("the pods of the canary are not ready")
			}
			return reports(app, appv1.ReasonCanary)
		}),
		"crashing": of(image(crashImage), reporting(appv1.ReasonCrashLoopBackOff)),
		"zero":     of(func(app *appv1.App) { app.Spec.Replicas = ptr.To[int32](0) }, reporting(appv1.ReasonScaledToZero)),
	}
}

// leastActions is how many actions the page of a resource has at least, by state; without a history, four.
var leastActions = map[string]int{"ready": 5, "held": 4, "rolled-back": 4, "waiting": 2, "paused": 4, "stalled": 5, "reconciling": 5, "canary": 6, "crashing": 5, "zero": 4, "task": 2, "suspended": 2, "paused-task": 1}

// TestButtons presses each action that the page of a resource offers, in each state, with the operator as it is. No button is disabled,
// and each press leads back to the resource. Each action has a resource of its own.
func TestButtons(t *testing.T) {
	t.Parallel()
	config, ns := planner(t)
	c, first := open(t, config, "-n", ns), newTab(t)
	first.login(c)
	for state, newSituation := range newSituations(ns) {
		t.Run(state, func(t *testing.T) {
			t.Parallel()
			b := first.another(t)
			b.allow(http.StatusConflict)
			for i, left := 0, 1; left > 0; i++ {
				s := newSituation(fmt.Sprintf("%s-%d", state, i))
				page := s.enterState(t, c)
				b.visit(page, http.StatusOK)
				if n := value[int](b, `document.querySelectorAll("#actions button:disabled").length`); n > 0 {
					t.Fatalf("%d buttons are disabled:\n%s", n, b.text())
				}
				var actions []string
				harness.Eventually(t, func() error { // The page follows the ReplicaSets.
					if actions = value[[]string](b, offered); len(actions) < leastActions[state] {
						return fmt.Errorf("only %d actions are offered: %q", len(actions), actions)
					}
					return nil
				})
				if left = len(actions) - i - 1; left >= 0 {
					b.visit(actions[i], http.StatusOK)
					press(b, actions[i], page)
				}
			}
		})
	}
}

// enterState creates the resource, brings it into its state and returns the address of its page.
func (s *situation) enterState(t *testing.T, c *centre) string {
	t.Helper()
	plane.Create(t, s.resource)
	if s.enter != nil {
		plane.Until(t, s.resource, func() error {
			if app, ok := s.resource.(*appv1.App); ok && app.Status.LastGood == nil { // A hold and a rollback need the last good revision.
				return errors.New("the history has no last good revision")
			}
			return standing(s.resource, appv1.ReasonReady)
		})
		plane.Change(t, s.resource, s.enter)
	}
	plane.Until(t, s.resource, s.in)
	kind := strings.ToLower(reflect.TypeOf(s.resource).Elem().Name())
	return c.base + kind + "/" + s.resource.GetNamespace() + "/" + s.resource.GetName()
}

// offered is a script that returns the addresses of all actions of the page, and of the first way back of the history.
const offered = `[...document.querySelectorAll("#actions a:not([href*='/plan?'])")].map(a => a.href).concat(
	[...document.querySelectorAll("#actions form")].map(f => f.action + "?" + new URLSearchParams(new FormData(f))),
	[...document.querySelectorAll("#happened a[href*='/rollback?']")].slice(0, 1).map(a => a.href))`

// press presses the button of a plan until the page of the resource is there. Where the resource has changed meanwhile, the plan is
// another one and has a button, too.
func press(b *tab, action, page string) {
	b.t.Helper()
	harness.Eventually(b.t, func() error {
		at := value[string](b, `document.readyState === "complete" ? location.href : ""`)
		if at == page {
			return nil
		}
		button := value[string](b, `(e => !e ? "missing" : e.disabled ? "disabled" : (e.focus(), "pressed"))(document.querySelector("main section form button"))`)
		if button == "pressed" {
			b.keys(kb.Enter)
		}
		return fmt.Errorf("%s: the button is %s at %s:\n%s", action, button, at, b.text())
	})
}
