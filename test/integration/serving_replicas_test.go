package integration

import (
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	appv1 "huolala.cn/app-operator/api/v1"
)

// newUnstated returns an App that does not state a number of pods.
func newUnstated(ns, name string) *appv1.App {
	app := newApp(ns, name)
	app.Spec.Replicas = nil
	return app
}

// checkReplicasStay fails the test if a Deployment has another number of pods once the manager has nothing left to do.
func checkReplicasStay(t testing.TB, d *appsv1.Deployment, want int32) {
	t.Helper()
	if plane.Read(t, d); *d.Spec.Replicas != want {
		t.Errorf("%d replicas, want %d", *d.Spec.Replicas, want)
	}
}

// TestReplicasUnstated has Apps that state no number of pods: a new one has one pod, and a live one keeps the number that
// it has.
func TestReplicasUnstated(t *testing.T) {
	t.Parallel()
	ns, m := plane.Shared(t)
	next := func(app *appv1.App, want string) {
		t.Helper()
		m.Idle(t)
		if err := updateWithRetry(t, plane.Client, app, func() { app.Spec.Image = want }); err != nil {
			t.Fatal(err)
		}
		d := deployment(app)
		plane.Read(t, d)
		awaitImage(t, d, want)
		m.Idle(t)
	}

	t.Run("new, then scaled by hand", func(t *testing.T) {
		app := newUnstated(ns, "fresh")
		d, _ := createInPlace(t, app)
		checkReplicasStay(t, d, 1)
		scaleTo(t, d, 4)
		m.Idle(t)
		checkReplicasStay(t, d, 4)
		next(app, "nginx:1.17")
		checkReplicasStay(t, d, 4)
	})
	t.Run("no longer stated", func(t *testing.T) {
		app := newApp(ns, "stated")
		app.Spec.Replicas = ptr.To[int32](5)
		d, _ := createInPlace(t, app)
		checkReplicasStay(t, d, 5)
		m.Idle(t)
		if err := updateWithRetry(t, plane.Client, app, func() { app.Spec.Replicas = nil }); err != nil {
			t.Fatal(err)
		}
		m.Idle(t)
		checkReplicasStay(t, d, 5)
		next(app, "nginx:1.17")
		checkReplicasStay(t, d, 5)
	})
	t.Run("autoscaler removed", func(t *testing.T) {
		app := newUnstated(ns, "scaled")
		d, _ := createInPlace(t, app)
		h := newAutoscaler(app, "apps/v1", "Deployment")
		plane.Create(t, h)
		scaleTo(t, d, 8)
		next(app, "nginx:1.17")
		if err := plane.Client.Delete(t.Context(), h); err != nil {
			t.Fatal(err)
		}
		m.Idle(t)
		checkReplicasStay(t, d, 8)
		next(app, "nginx:1.18")
		checkReplicasStay(t, d, 8)
	})
	t.Run("adopted", func(t *testing.T) {
		app := newUnstated(ns, "adopted")
		app.Annotations = map[string]string{appv1.AnnotationAdopt: "true"}
		labels := map[string]string{"run": "adopted"}
		d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: app.Name}}
		d.Spec.Replicas, d.Spec.Selector = ptr.To[int32](6), &metav1.LabelSelector{MatchLabels: labels}
		d.Spec.Template = corev1.PodTemplateSpec{
			ObjectMeta: metav1.ObjectMeta{Labels: labels},
			Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "main", Image: "before"}}},
		}
		plane.Create(t, d)
		createInPlace(t, app)
		m.Idle(t)
		checkReplicasStay(t, d, 6)
		next(app, "nginx:1.17")
		checkReplicasStay(t, d, 6)
	})
}
