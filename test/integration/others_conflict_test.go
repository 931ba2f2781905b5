package integration

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appv1 "huolala.cn/app-operator/api/v1"
	"huolala.cn/app-operator/test/harness"
)

// storm is how often another client edits an object, one edit right after the other.
const storm = 100

// TestForeignFieldsSurvive edits the same objects outside our fields, again and again, while the App changes too. Nobody may undo
// what the other one does.
func TestForeignFieldsSurvive(t *testing.T) {
	t.Parallel()
	ns, m := plane.Shared(t)
	app := newApp(ns, "web")
	d, s := createInPlace(t, app)
	m.Idle(t)
	m.Requests.Reset()

	const changes = 5
	for i := range storm {
		for _, child := range []client.Object{d, s} {
			editWithRetry(t, child, func() { child.GetAnnotations()[fmt.Sprintf("theirs-%d", i)] = "x" })
		}
		if i%(storm/changes) == 0 {
			plane.Read(t, app)
			plane.Change(t, app, func() {
				app.Spec.Image = fmt.Sprintf("nginx:%d", i)
				app.Spec.Ports[0].Port = int32(8000 + i)
			})
		}
	}
	plane.Stands(t, app, progressing...)
	m.Idle(t)
	writes := m.Requests.Writes()
	// Each change is of both children, so one of them is tried by a dry run before anything is written.
	if writes["patch deployments"] > 2*changes || writes["patch services"] > changes {
		t.Errorf("more writes than changes: %v", writes)
	}
	d, s = readChildren(t, app)
	if containerOf(d).Image != app.Spec.Image || s.Spec.Ports[0].Port != app.Spec.Ports[0].Port {
		t.Errorf("the last change is not there: %s, %v", containerOf(d).Image, s.Spec.Ports)
	}
	for _, child := range []client.Object{d, s} {
		for i := range storm {
			if child.GetAnnotations()[fmt.Sprintf("theirs-%d", i)] != "x" {
				t.Errorf("edit %d of %T is lost", i, child)
			}
		}
	}
}

// fight is a field of ours that another client keeps changing.
type fight struct {
	child client.Object
	// field is how a message names it.
	field string
	// spoil changes it, to another value each time; spoiled reports whether it is changed.
	spoil   func(i int)
	spoiled func() bool
}

func fightsOver(app *appv1.App, d *appsv1.Deployment, s *corev1.Service) map[string]*fight {
	return map[string]*fight{
		"Deployment": {d, `.spec.template.spec.containers[name="web"].image`,
			func(i int) { containerOf(d).Image = fmt.Sprintf("intruder:%d", i) },
			func() bool { return containerOf(d).Image != app.Spec.Image }},
		"Service": {s, ".spec.selector",
			func(i int) { s.Spec.Selector["intruder"] = fmt.Sprint(i) },
			func() bool { return len(s.Spec.Selector) > 1 }},
	}
}

// TestStormWithin edits a field of ours, again and again. After a few repairs the operator must say who does it and
// pause, longer each time, and yet win in the end.
func TestStormWithin(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{"Deployment", "Service"} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			ns := plane.Namespace(t)
			clk := clocktesting.NewFakePassiveClock(time.Now())
			m := plane.Start(t, ns, harness.WithClock(clk))
			app := newApp(ns, "web")
			d, s := createInPlace(t, app)
			f := fightsOver(app, d, s)[kind]
			m.Idle(t)
			m.Requests.Reset()
			repairs := func() int { return m.Requests.Writes()["patch "+strings.ToLower(kind)+"s"] }
			// later lets time pass, and touches the App: what would wake the manager runs on the real clock.
			later := func(pause time.Duration, want int) {
				t.Helper()
				clk.SetTime(clk.Now().Add(pause))
				setAnnotation(t, app, "time", clk.Now().String())
				m.Idle(t)
				if n := repairs(); n != want {
					t.Errorf("%d repairs, want %d", n, want)
				}
			}

			for i := range storm {
				editWithRetry(t, f.child, func() { f.spoil(i) })
			}
			harness.Eventually(t, func() error {
				editWithRetry(t, f.child, func() { f.spoil(storm + repairs()) })
				plane.Read(t, app)
				if !meta.IsStatusConditionTrue(app.Status.Conditions, "Stalled") {
					return errors.New("the App is not stalled")
				}
				return nil
			})
			plane.Stands(t, app, "Ready=False/FieldConflict", "Reconciling=False/FieldConflict", "Stalled=True/FieldConflict")
			harness.Says(t, app, "Stalled", `"intruder" keeps changing `+f.field, kind+" web", "repaired it 5 times")
			later(0, 5)
			later(9*time.Second, 5)
			later(time.Second, 6)
			// Each pause is twice as long as the one before.
			for i, pause := range []time.Duration{20 * time.Second, 40 * time.Second} {
				editWithRetry(t, f.child, func() { f.spoil(i) })
				later(pause-time.Second, 6+i)
				later(time.Second, 7+i)
			}
			// The storm has ended: the last repair holds.
			plane.Stands(t, app, progressing...)
			if plane.Read(t, f.child); f.spoiled() {
				t.Errorf("%s is not repaired", f.field)
			}
			later(5*time.Minute, 8)
			editWithRetry(t, f.child, func() { f.spoil(0) })
			later(0, 9)
		})
	}
}

// TestStormAndSpec changes the spec in the middle of a fight. What the user asks for is not held back.
func TestStormAndSpec(t *testing.T) {
	t.Parallel()
	ns := plane.Namespace(t)
	m := plane.Start(t, ns, harness.WithClock(clocktesting.NewFakePassiveClock(time.Now())))
	app := newApp(ns, "web")
	d, s := createInPlace(t, app)
	f := fightsOver(app, d, s)["Deployment"]
	harness.Eventually(t, func() error {
		editWithRetry(t, f.child, func() { f.spoil(len(m.Requests.All())) })
		plane.Read(t, app)
		if !meta.IsStatusConditionTrue(app.Status.Conditions, "Stalled") {
			return errors.New("the App is not stalled")
		}
		return nil
	})
	plane.Change(t, app, func() { app.Spec.Image, app.Spec.Ports[0].Port = "nginx:1.17", 9090 })
	awaitImage(t, d, "nginx:1.17")
	plane.Until(t, s, func() error {
		if s.Spec.Ports[0].Port != 9090 {
			return errors.New("the Service is not changed")
		}
		return nil
	})
	plane.Stands(t, app, progressing...)
}
