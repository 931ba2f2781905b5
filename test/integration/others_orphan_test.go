package integration

import (
	"errors"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"huolala.cn/app-operator/test/harness"
)

// TestOrphaningIsSeenLate deletes an App with its children left alone, and shows the manager what the garbage collector
// does to them before the deletion itself. To put the reference back would have the Deployment deleted after the App.
func TestOrphaningIsSeenLate(t *testing.T) {
	t.Parallel()
	ns := plane.Namespace(t)
	var apps harness.Gate
	m := plane.Start(t, ns, harness.WithFault(apps.Before("apps")))
	t.Cleanup(apps.Open)
	app := newApp(ns, "web")
	d, s := createInPlace(t, app)
	plane.Read(t, app)
	plane.Change(t, app, func() { controllerutil.AddFinalizer(app, "example.com/held-by-the-test") })
	m.Idle(t)
	m.Requests.Reset()

	apps.Close()
	plane.Delete(t, app, client.PropagationPolicy(metav1.DeletePropagationOrphan))
	orphans := []client.Object{d, s}
	for _, child := range orphans {
		plane.Read(t, child)
		plane.Change(t, child, func() { child.SetOwnerReferences(nil) })
	}
	harness.Eventually(t, func() error {
		if counts := m.Requests.Counts(); counts["get apps"]+counts["patch deployments"]+counts["patch services"] == 0 {
			return errors.New("the manager has not acted on the removal of the references")
		}
		return nil
	})
	left := func(when string) {
		t.Helper()
		for _, child := range orphans {
			plane.Read(t, child)
			if owners := child.GetOwnerReferences(); len(owners) > 0 {
				t.Errorf("%s, %T has the owners %v: it would go with the App", when, child, owners)
			}
		}
		if writes := m.Requests.Writes(); len(writes) > 0 {
			t.Errorf("%s, the manager has written: %v", when, writes)
		}
	}
	left("before the manager sees the deletion")
	apps.Open()
	m.Idle(t)
	left("after it has seen it")

	plane.Read(t, app)
	plane.Change(t, app, func() { app.SetFinalizers(nil) })
	plane.Gone(t, app)
	m.Idle(t)
	left("after the App has gone")
}
