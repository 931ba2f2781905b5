package integration

import (
	"errors"
	"fmt"
	"testing"

	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// TestPaused does to a paused App what would make the operator write, and then resumes it.
func TestPaused(t *testing.T) {
	t.Parallel()
	ns, m := plane.Shared(t)
	app := newApp(ns, "web")
	d, s := createInPlace(t, app)
	setPaused(t, app, true)
	plane.Stands(t, app, "Applied=True/Applied", "Reconciling=False/Paused", "Stalled=False")
	m.Idle(t)
	m.Requests.Reset()

	plane.Read(t, app)
	plane.Change(t, app, func() { app.Spec.Image, app.Spec.Ports = "nginx:1.17", nil })
	plane.Change(t, d, func() { containerOf(d).Image = "other/image" })
	plane.Delete(t, s)
	plane.Stands(t, app, "Ready=Unknown/Paused", "Applied=False/Paused", "Reconciling=False/Paused")
	plane.Read(t, d)
	was := d.Spec.DeepCopy()

	// The status stays live.
	completeRollout(t, d)
	plane.Stands(t, app, "Ready=Unknown/Paused", "Applied=False/Paused", "Reconciling=False/Paused", "Stalled=False")
	plane.Until(t, app, func() error {
		if app.Status.Ready != "2/2" || app.Status.Endpoint != "" {
			return fmt.Errorf("status is %+v", app.Status)
		}
		return nil
	})
	plane.ChangeStatus(t, d, func() { d.Status.ReadyReplicas, d.Status.AvailableReplicas = 1, 1 })
	plane.Stands(t, app, "Ready=Unknown/Paused", "Reconciling=False/Paused")
	plane.Until(t, app, func() error {
		if app.Status.Ready != "1/2" || app.Status.AvailableReplicas != 1 {
			return errors.New("the figures are " + app.Status.Ready)
		}
		return nil
	})
	m.Idle(t)
	writes := m.Requests.Stored()
	delete(writes, "patch apps/status")
	if len(writes) > 0 {
		t.Errorf("writes while paused: %v", writes)
	}
	plane.Read(t, d)
	if err := diffOf(was, &d.Spec); err != nil {
		t.Errorf("Deployment %v", err)
	}
	plane.Absent(t, s)

	setPaused(t, app, false)
	plane.Stands(t, app, progressing...)
	awaitImage(t, d, "nginx:1.17")
	plane.Absent(t, s)
}

// TestCreatedPaused creates Apps paused, one of them next to a foreign object.
func TestCreatedPaused(t *testing.T) {
	t.Parallel()
	ns, m := plane.Shared(t)
	app := newApp(ns, "web")
	app.Spec.Paused = true
	plane.Create(t, app)
	plane.Stands(t, app, "Ready=Unknown/Paused", "Applied=False/Paused", "Reconciling=False/Paused", "Stalled=False")
	m.Idle(t)
	for _, child := range []client.Object{deployment(app), service(app)} {
		plane.Absent(t, child)
	}
	if app.Status.Ready != "0/2" {
		t.Errorf("status is %+v", app.Status)
	}
	setPaused(t, app, false)
	plane.Stands(t, app, progressing...)
	readChildren(t, app)

	// Removing the last pod of a paused App is up to the user's hands as well.
	setPaused(t, app, true)
	plane.Stands(t, app, "Reconciling=False/Paused")
	d := deployment(app)
	plane.Read(t, d)
	plane.Change(t, d, func() { d.Spec.Replicas = ptr.To[int32](0) })
	completeRollout(t, d)
	plane.Until(t, app, func() error {
		if app.Status.Ready != "0/0" {
			return errors.New("the figures are " + app.Status.Ready)
		}
		return nil
	})
}
