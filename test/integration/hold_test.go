package integration

import (
	"fmt"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	appv1 "huolala.cn/app-operator/api/v1"
	"huolala.cn/app-operator/test/harness"
)

// TestHoldWithoutThePort holds a revision whose Service lacks the port that the Ingress leads to. The Ingress stays, and the condition says
// that requests fail, for as long as that is so.
func TestHoldWithoutThePort(t *testing.T) {
	t.Parallel()
	ns, m := plane.Shared(t)
	app := newServed(ns, "web", "ingress")
	app.Spec.Ingress.Port = ptr.To(intstr.FromInt32(8080))
	createInPlace(t, app)
	m.Idle(t)
	makeEarlierGood(t, app)
	setAnnotation(t, app, appv1.AnnotationHold, appv1.HoldLastGood)
	plane.Stands(t, app, "Applied=False/Held", "Exposed=False/Held")
	harness.Says(t, app, "Exposed", "Ingress web has no backend", "port of spec.ingress", "Correct the spec")
	checkLeadsTo(t, ns, "web")
	m.Idle(t)
	m.Requests.Reset()
	setAnnotation(t, app, "example.com/look", "again")
	checkRequests(t, m, "another look", map[string]int{})

	plane.Read(t, app)
	plane.Change(t, app, func() { app.Spec.Ingress.Port = nil })
	plane.Stands(t, app, "Applied=False/Held", "Exposed=Unknown/"+appv1.ReasonNoAddress)
	setAnnotation(t, app, appv1.AnnotationHold, "")
	plane.Stands(t, app, "Applied=True/Applied", "Exposed=Unknown/"+appv1.ReasonNoAddress)
}

// TestLastGoodWhilePaused edits the Deployment of a paused App by hand: what runs then is not taken for a good revision of the spec.
func TestLastGoodWhilePaused(t *testing.T) {
	t.Parallel()
	ns, m := plane.Shared(t)
	app := newApp(ns, "web")
	d, _ := createInPlace(t, app)
	makeReplicaSet(t, d, "a")
	awaitLastGood(t, app, d, "web-a")
	setPaused(t, app, true)
	plane.Stands(t, app, "Reconciling=False/Paused")
	plane.Read(t, d)
	plane.Change(t, d, func() { containerOf(d).Image = "other/image" })
	makeReplicaSet(t, d, "hand")
	plane.Until(t, app, func() error {
		if app.Status.ReplicaSet != "web-hand" {
			completeRollout(t, d) // Its pod may be seen later than its figures.
			return fmt.Errorf("the status has ReplicaSet %s", app.Status.ReplicaSet)
		}
		return nil
	})
	m.Idle(t)
	plane.Read(t, app)
	if good := app.Status.LastGood; good.ReplicaSet != "web-a" {
		t.Errorf("the last good ReplicaSet is %s", good.ReplicaSet)
	}
}

// TestPlanOfHold plans a hold, and a change of the spec while it is in force.
func TestPlanOfHold(t *testing.T) {
	t.Parallel()
	ns := plane.Namespace(t)
	m := startGuarded(t, ns)
	app := newApp(ns, "web")
	d, _ := createInPlace(t, app)
	makeReplicaSet(t, d, "a")
	plane.Stands(t, app, "Ready=True")
	setImage(t, app, "nginx:2")
	awaitImage(t, d, "nginx:2")
	completeRollout(t, d)
	plane.Stands(t, app, "Ready=True")
	m.Idle(t)
	expect := func(what string, wanted *appv1.App, lines ...string) {
		t.Helper()
		made := askPlan(t, plane.Client, wanted)
		said := strings.Join(made.Lines(100, 400), "\n")
		if !holdsAll(said, lines...) || made.Problem == nil || made.Problem.Reason != appv1.ReasonHeld {
			t.Errorf("%s: the plan says:\n%s", what, said)
		}
	}
	plane.Read(t, app)
	wanted := app.DeepCopy()
	wanted.Annotations = map[string]string{appv1.AnnotationHold: "web-a"}
	m.Requests.Reset()
	expect("a hold", wanted, "Deployment web: changed, 2 pods are replaced", "image: nginx:2 -> nginx:1.16.1", "Held: ReplicaSet web-a (nginx:1.16.1) is held")
	if got := m.Requests.Stored(); len(got) > 0 {
		t.Errorf("the plan has written %v", got)
	}
	setAnnotation(t, app, appv1.AnnotationHold, "web-a")
	awaitImage(t, d, "nginx:1.16.1")
	m.Idle(t)
	plane.Read(t, app)
	wanted = app.DeepCopy()
	wanted.Spec.Image = "nginx:3"
	expect("another image", wanted, "Held: ReplicaSet web-a")
	if made := askPlan(t, plane.Client, wanted); len(made.Objects) > 0 {
		t.Errorf("while it is held, a change changes %v", plannedNames(made))
	}
}

func holdsAll(message string, parts ...string) bool {
	for _, part := range parts {
		if !strings.Contains(message, part) {
			return false
		}
	}
	return true
}
