package workload

import (
	"fmt"
	"slices"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appv1 "huolala.cn/app-operator/api/v1"
	"huolala.cn/app-operator/test/harness"
)

// replicaSetNames returns the names of the ReplicaSets of a namespace.
func replicaSetNames(t *testing.T, ns string) []string {
	t.Helper()
	var sets appsv1.ReplicaSetList
	if err := plane.Client.List(t.Context(), &sets, client.InNamespace(ns)); err != nil {
		t.Fatal(err)
	}
	var names []string
	for i := range sets.Items {
		names = append(names, sets.Items[i].Name)
	}
	slices.Sort(names)
	return names
}

// samePods waits until the pods are those of before, and no others.
func samePods(t *testing.T, ns string, before []types.UID) {
	t.Helper()
	harness.Eventually(t, func() error {
		if now := uids(t, ns); !slices.Equal(before, now) {
			return fmt.Errorf("of %d pods %d are left, and there are %d", len(before), shared(before, now), len(now))
		}
		return nil
	})
}

// holdApp sets the annotation that holds an App, or removes it.
func holdApp(t *testing.T, app *appv1.App, value string) {
	t.Helper()
	plane.Read(t, app)
	plane.Change(t, app, func() {
		if app.Annotations = map[string]string{appv1.AnnotationHold: value}; value == "" {
			app.Annotations = nil
		}
	})
}

// staysAsItIs applies an App again and again, as a tool does that applies a repository, and starts another manager: neither this nor that one
// changes anything. It returns the manager that runs.
func staysAsItIs(t *testing.T, m *harness.Manager, app *appv1.App, times int) *harness.Manager {
	t.Helper()
	// What the Deployment's controller still writes of the pods changes the App's status.
	settled(t, app.Namespace, app.Name)
	m.Idle(t)
	m.Requests.Reset()
	for i := range times {
		plane.Read(t, app)
		plane.Change(t, app, func() { app.Labels = map[string]string{"sync": fmt.Sprint(i)} })
	}
	m.Idle(t)
	if got := m.Requests.Counts(); len(got) > 0 {
		t.Errorf("while an earlier spec is in force, the manager sends %v", got)
	}
	m = plane.RestartAtRest(t, m, app.Namespace)
	if m.Requests.Counts()["get replicasets"] > 0 {
		t.Errorf("the next manager sends %v", m.Requests.Counts())
	}
	return m
}

// TestHold goes back from an image that does not come up: the pods that run go on, and no ReplicaSet is made. Then the spec counts again.
// What the manager sends meanwhile, and after a restart, is in the story of a hold (test/play).
func TestHold(t *testing.T) {
	t.Parallel()
	ns, m := plane.Shared(t)
	app := newApp(ns)
	plane.Create(t, app)
	ready(t, app)
	plane.Until(t, app, func() error {
		if good := app.Status.LastGood; good == nil || good.ReplicaSet != app.Status.ReplicaSet || good.Since.IsZero() {
			return fmt.Errorf("the history is %+v", app.Status.HistoryStatus)
		}
		return nil
	})
	good, pods := app.Status.LastGood.ReplicaSet, uids(t, ns)
	if got := replicaSetNames(t, ns); !slices.Equal(got, []string{good}) {
		t.Fatalf("the last good one is %s, and there are %q", good, got)
	}
	plane.Change(t, app, func() { app.Spec.Image = "crashloopbackoff.test/x:1" })
	plane.Stands(t, app, "Ready=False/CrashLoopBackOff")
	if plane.Read(t, app); app.Status.LastGood.ReplicaSet != good {
		t.Errorf("one that does not come up is the last good one: %+v", app.Status.LastGood)
	}
	sets := replicaSetNames(t, ns)
	holdApp(t, app, appv1.HoldLastGood)
	held := []string{"Applied=False/Held", "Ready=False/Held", "Reconciling=False/Held", "Stalled=False"}
	plane.Stands(t, app, held...)
	harness.Says(t, app, "Ready", "ReplicaSet "+good+" (")
	samePods(t, ns, pods)
	if got := replicaSetNames(t, ns); !slices.Equal(got, sets) || len(sets) != 2 {
		t.Errorf("there are the ReplicaSets %q, and were %q", got, sets)
	}
	plane.Read(t, app)
	plane.Change(t, app, func() { app.Spec.Image = "nginx:1.17.0" })
	m.Idle(t)
	samePods(t, ns, pods)
	holdApp(t, app, "")
	ready(t, app)
	plane.Until(t, app, func() error {
		if now := app.Status.LastGood; now.ReplicaSet == good || now.Image != "nginx:1.17.0" {
			return fmt.Errorf("the last good one is %+v", now)
		}
		return nil
	})
	holdApp(t, app, good)
	plane.Stands(t, app, held...)
	d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "web"}}
	plane.Read(t, d)
	if got := replicaSetNames(t, ns); len(got) != 3 || d.Spec.Template.Spec.Containers[0].Image != "nginx:1.16.1" {
		t.Errorf("the image is %s, and there are %q", d.Spec.Template.Spec.Containers[0].Image, got)
	}
}
