package ui

import (
	"errors"
	"fmt"
	"net/http"
	"reflect"
	"strings"
	"testing"

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
	// enter changes the resource, once it was ready; begins is true for one that is created in its state.
	enter  func()
	begins bool
	in     func() error
	// least is how many actions the page offers at least.
	least int
}

// situations returns the states in which a user looks at a resource.
func situations(ns string) map[string]*situation {
	app := func(name string) *appv1.App {
		a := fixture.NewApp(ns, name)
		a.Spec.Replicas = ptr.To[int32](2)
		return a
	}
	ready, held, back, paused, stalled, busy := app("ready"), app("held"), app("back"), app("paused"), app("stalled"), app("busy")
	back.Spec.Rollback, back.Spec.ProgressDeadlineSeconds = appv1.RollbackOnStall, ptr.To[int32](2)
	stalled.Spec.ProgressDeadlineSeconds = ptr.To[int32](2)
	office := fixture.NewCloudManager(ns, "office")
	office.Spec.Identity.Deployment.Image = crashImage
	return map[string]*situation{
		"ready": {resource: ready, enter: func() { ready.Spec.Image = otherImage }, least: 5, in: func() error {
			return standing(ready, appv1.ReasonReady)
		}},
		"held": {resource: held, least: 5, enter: func() {
			held.Spec.Image, held.Annotations = badImage, map[string]string{appv1.AnnotationHold: appv1.HoldLastGood}
		}, in: func() error { return reports(held, appv1.ReasonHeld) }},
		"rolled back": {resource: back, least: 5, enter: func() { back.Spec.Image = badImage }, in: func() error {
			return reports(back, appv1.ReasonRolledBack)
		}},
		"waiting for a dependency": {resource: office, begins: true, least: 2, in: func() error {
			return reports(office, appv1.ReasonDependencyNotReady)
		}},
		"paused": {resource: paused, enter: func() { paused.Spec.Paused, paused.Spec.Image = true, otherImage }, least: 4, in: func() error {
			if len(paused.Status.Pending) == 0 {
				return errors.New("nothing is pending")
			}
			return standing(paused, appv1.ReasonPaused)
		}},
		"stalled": {resource: stalled, enter: func() { stalled.Spec.Image = badImage }, least: 5, in: func() error {
			if !meta.IsStatusConditionTrue(stalled.Status.Conditions, appv1.ConditionStalled) {
				return errors.New("it is not stalled")
			}
			return nil
		}},
		"reconciling": {resource: busy, enter: func() { busy.Spec.Image = badImage }, least: 5, in: func() error {
			return standing(busy, "ImagePullBackOff")
		}},
	}
}

// TestButtons presses each action that the page of a resource offers, in each state, with the operator as it is. No button is disabled,
// and each press leads back to the resource.
func TestButtons(t *testing.T) {
	t.Parallel()
	config, ns := planner(t)
	c, first := open(t, config, "-n", ns), newTab(t)
	first.login(c)
	for name, s := range situations(ns) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			plane.Create(t, s.resource)
			if !s.begins {
				plane.Until(t, s.resource, func() error { return standing(s.resource, appv1.ReasonReady) })
				plane.Change(t, s.resource, s.enter)
			}
			plane.Until(t, s.resource, s.in)
			pressAll(t, first.another(t), c, s)
		})
	}
}

// offered is a script that returns the addresses of all actions of the page, and of the first way back of the history.
const offered = `[...document.querySelectorAll("#actions form")].map(f => f.action + "?" + new URLSearchParams(new FormData(f)))
	.concat([...document.querySelectorAll("#history a[href*='/rollback?']")].slice(0, 1).map(a => a.href))`

// pressAll presses each action of a resource, and brings the resource back into its state after each.
func pressAll(t *testing.T, b *tab, c *centre, s *situation) {
	t.Helper()
	kind, _, _ := strings.Cut(strings.ToLower(reflect.TypeOf(s.resource).Elem().Name()), "/")
	page := c.base + kind + "/" + s.resource.GetNamespace() + "/" + s.resource.GetName()
	saved, annotations := reflect.ValueOf(s.resource.DeepCopyObject()).Elem().FieldByName("Spec"), s.resource.GetAnnotations()
	b.allow(http.StatusConflict)
	b.visit(page, http.StatusOK)
	if n := value[int](b, `document.querySelectorAll("#actions button:disabled").length`); n > 0 {
		t.Errorf("%d buttons are disabled:\n%s", n, b.text())
	}
	actions := value[[]string](b, offered)
	if len(actions) < s.least {
		t.Errorf("only %d actions are offered: %q", len(actions), actions)
	}
	for _, action := range actions {
		b.visit(action, http.StatusOK)
		press(b, action, page)
		plane.Change(t, s.resource, func() {
			reflect.ValueOf(s.resource).Elem().FieldByName("Spec").Set(saved)
			s.resource.SetAnnotations(annotations)
		})
		plane.Until(t, s.resource, s.in)
	}
}

// press presses the button of a plan until the page of the resource is there. Where the resource has changed meanwhile, the plan is
// another one and has a button, too.
func press(b *tab, action, page string) {
	b.t.Helper()
	harness.Eventually(b.t, func() error {
		at := value[string](b, `document.readyState === "complete" ? location.href : ""`)
		if at == page {
			return nil
		}
		button := value[string](b, `(e => !e ? "missing" : e.disabled ? "disabled" : (e.click(), "pressed"))(document.querySelector("main section form button"))`)
		return fmt.Errorf("%s: the button is %s at %s:\n%s", action, button, at, b.text())
	})
}
