package integration

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	appv1 "huolala.cn/app-operator/api/v1"
	"huolala.cn/app-operator/test/harness"
)

// TestElection runs two managers for one namespace. One works and the other does nothing, until the first is stopped.
func TestElection(t *testing.T) {
	t.Parallel()
	ns := plane.Namespace(t)
	lease := harness.WithElection(ns)
	leader := plane.Start(t, ns, lease)
	awaitClosed(t, leader.Elected())
	follower := plane.Start(t, ns, lease)
	createInPlace(t, newApp(ns, "first"))
	checkRequests(t, follower, "the follower", map[string]int{})

	leader.Stop(t)
	leader.Requests.Reset()
	stopped := time.Now()
	app := newApp(ns, "second")
	plane.Create(t, app)
	awaitClosed(t, follower.Elected())
	plane.Stands(t, app, progressing...)
	// A lease that is not given up runs longer than anything here is waited for.
	t.Logf("the follower worked after %s", time.Since(stopped).Round(10*time.Millisecond))
	readChildren(t, app)
	if writes := leader.Requests.Writes(); len(writes) > 0 {
		t.Errorf("the leader has written after its end: %v", writes)
	}
}

// TestReadiness holds back one of the caches. The manager must be alive, and not ready before it has seen all.
func TestReadiness(t *testing.T) {
	t.Parallel()
	for _, resource := range []string{"apps", "deployments", "services", "pods", "horizontalpodautoscalers"} {
		t.Run(resource, func(t *testing.T) {
			t.Parallel()
			ns, address := plane.Namespace(t), harness.FreeAddress(t)
			held, release := make(chan struct{}), make(chan struct{})
			hold := sync.OnceFunc(func() { close(held) })
			m := plane.Launch(t, ns, harness.WithProbes(address), harness.WithFault(
				func(q harness.Request, send func() (*http.Response, error)) (*http.Response, error) {
					if q.Resource == resource {
						hold()
						select {
						case <-release:
						case <-t.Context().Done():
						}
					}
					return send()
				}))
			awaitClosed(t, held)
			m.Idle(t) // All else is there.
			awaitProbe(t, address, "healthz", http.StatusOK)
			awaitProbe(t, address, "readyz", http.StatusInternalServerError)
			close(release)
			awaitProbe(t, address, "readyz", http.StatusOK)
		})
	}
}

// TestNamespaces runs a manager for two namespaces of three.
func TestNamespaces(t *testing.T) {
	t.Parallel()
	one, two, other := plane.Namespace(t), plane.Namespace(t), plane.Namespace(t)
	m := plane.Start(t, one, harness.WithNamespaces(two))
	left := newApp(other, "web")
	plane.Create(t, left)
	for _, ns := range []string{one, two} {
		app := newApp(ns, "web")
		d, s := createInPlace(t, app)
		plane.Change(t, s, func() { s.Spec.Selector["x"] = "y" }, intruder)
		plane.Until(t, s, func() error { return diffOf(1, len(s.Spec.Selector)) })
		plane.Delete(t, d)
		uid := d.UID
		plane.Until(t, d, func() error {
			if d.UID == uid {
				return fmt.Errorf("the Deployment is still there")
			}
			return nil
		})
	}
	m.Idle(t)
	plane.Read(t, left)
	if left.Status.ObservedGeneration > 0 {
		t.Errorf("an App elsewhere has a status: %+v", left.Status)
	}
	plane.Absent(t, deployment(left))
	for _, q := range m.Requests.All() {
		if strings.Contains(q.Path, "/namespaces/"+other+"/") {
			t.Errorf("a request to another namespace: %s", q)
		}
	}
}

// TestStopInTheMiddle stops a manager that has much to do. It must end in good order, and another one finish its work.
func TestStopInTheMiddle(t *testing.T) {
	t.Parallel()
	ns := plane.Namespace(t)
	m := plane.Start(t, ns)
	const apps = 30
	forEachNumber(t, apps, func(i int) { plane.Create(t, newApp(ns, fmt.Sprintf("app-%d", i))) })
	m.Stop(t)
	m.Requests.Reset()

	plane.Start(t, ns)
	forEachNumber(t, apps, func(i int) {
		app := newApp(ns, fmt.Sprintf("app-%d", i))
		plane.Stands(t, app, progressing...)
		readChildren(t, app)
	})
	if writes := m.Requests.Writes(); len(writes) > 0 {
		t.Errorf("a manager has written after its end: %v", writes)
	}
}

// TestDeletedApp deletes an App that a finalizer holds back. Its children are the garbage collector's: nothing is made
// or changed any more.
func TestDeletedApp(t *testing.T) {
	t.Parallel()
	ns, m := plane.Shared(t)
	app := newApp(ns, "web")
	app.Finalizers = []string{"test.example.com/hold"}
	d, s := createInPlace(t, app)
	m.Idle(t)
	m.Requests.Reset()

	plane.Delete(t, app)
	plane.Read(t, app)
	if app.DeletionTimestamp == nil {
		t.Fatal("the App is not being deleted")
	}
	m.Idle(t) // Until its cache has the deletion, a manager repairs.
	plane.Delete(t, d)
	plane.Change(t, s, func() { s.Spec.Selector["x"] = "y" }, intruder)
	plane.Change(t, app, func() {
		app.Spec.Image = "nginx:1.17"
		app.Annotations = map[string]string{appv1.AnnotationRefresh: "1"}
	})
	checkRequests(t, m, "an App on its way out", map[string]int{})
	plane.Absent(t, d)
	if plane.Read(t, s); s.Spec.Selector["x"] != "y" {
		t.Error("the Service was repaired")
	}

	plane.Read(t, app)
	plane.Change(t, app, func() { app.Finalizers = nil })
	plane.Gone(t, app)
	checkRequests(t, m, "an App that is gone", map[string]int{})
}
