package integration

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	appv1 "huolala.cn/app-operator/api/v1"
	"huolala.cn/app-operator/test/fixture"
)

// TestBudgets counts every request of an App's life against the table in the design.
func TestBudgets(t *testing.T) {
	t.Parallel()
	ns, m := plane.Shared(t)
	m.Idle(t)
	app := newApp(ns, "web")
	d, s := deployment(app), service(app)

	for _, step := range []struct {
		what string
		do   func()
		want map[string]int
	}{
		{"create", func() { plane.Create(t, app) },
			map[string]int{"patch deployments": 1, "patch services": 1, "patch apps/status": 1, "create events": 1}},
		{"pods become available", func() { completeRollout(t, d) },
			map[string]int{"patch apps/status": 1}},
		{"change the image", func() { setImage(t, app, "nginx:1.17") },
			map[string]int{"patch deployments": 1, "patch apps/status": 1, "create events": 1}},
		{"scale", func() { plane.Change(t, app, func() { app.Spec.Replicas = ptr.To[int32](3) }) },
			map[string]int{"patch deployments": 1, "patch apps/status": 1, "create events": 1}},
		// Of a spec that changes both objects, nothing is written unless the API server takes all of it: one of the requests is
		// a dry run.
		{"change the port", func() { plane.Read(t, app); plane.Change(t, app, func() { app.Spec.Ports[0].Port = 9090 }) },
			map[string]int{"patch deployments": 2, "patch services": 1, "patch apps/status": 1, "create events": 1}},
		{"drift of the Service", func() { plane.Read(t, s); plane.Change(t, s, func() { s.Spec.Selector["x"] = "y" }) },
			map[string]int{"patch services": 1, "create events": 1}},
		{"another owner's label on the Service", func() { plane.Change(t, s, func() { s.Labels["x"] = "y" }) },
			map[string]int{}},
		{"drift of the Deployment", func() {
			plane.Read(t, d)
			plane.Change(t, d, func() { d.Spec.Template.Spec.Containers[0].Image = "x" })
		},
			map[string]int{"patch deployments": 1, "create events": 1}},
		{"a label on the App", func() { plane.Read(t, app); plane.Change(t, app, func() { app.Labels = map[string]string{"x": "y"} }) },
			map[string]int{}},
		{"pause", func() { setPaused(t, app, true) },
			map[string]int{"patch apps/status": 1}},
		{"resume", func() { setPaused(t, app, false) },
			map[string]int{"patch apps/status": 1}},
		{"remove the ports", func() { plane.Read(t, app); plane.Change(t, app, func() { app.Spec.Ports = nil }) },
			map[string]int{"patch deployments": 1, "delete services": 1, "patch apps/status": 1, "create events": 1}},
		{"nothing", func() {}, map[string]int{}},
		{"delete", func() { plane.Delete(t, app) }, map[string]int{}},
	} {
		m.Requests.Reset()
		step.do()
		checkRequests(t, m, step.what, step.want)
	}
}

// TestModelBoxBudgets counts the requests of a ModelBox's life: they are those of an App.
func TestModelBoxBudgets(t *testing.T) {
	t.Parallel()
	ns, m := plane.Shared(t)
	m.Idle(t)
	box := &appv1.ModelBox{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "box"}, Spec: appv1.ModelBoxSpec{
		WorkloadSpec: appv1.WorkloadSpec{Image: "nginx:1.7.9", Ports: []appv1.Port{{Port: 80}}},
	}}
	app := &appv1.App{ObjectMeta: box.ObjectMeta} // Its children have the same names.

	for _, step := range []struct {
		what string
		do   func()
		want map[string]int
	}{
		{"create", func() { plane.Create(t, box) },
			map[string]int{"patch deployments": 1, "patch services": 1, "patch modelboxes/status": 1, "create events": 1}},
		{"pods become available", func() { completeRollout(t, deployment(app)) },
			map[string]int{"patch modelboxes/status": 1}},
		{"change the image", func() { plane.Read(t, box); plane.Change(t, box, func() { box.Spec.Image = "nginx:1.8" }) },
			map[string]int{"patch deployments": 1, "patch modelboxes/status": 1, "create events": 1}},
		// The record of the spec is on the Deployment, so that this changes both objects: one of the requests is a dry run.
		{"change the type of the Service", func() {
			plane.Read(t, box)
			plane.Change(t, box, func() { box.Spec.Service.Type = corev1.ServiceTypeClusterIP })
		},
			map[string]int{"patch deployments": 2, "patch services": 1, "patch modelboxes/status": 1, "create events": 1}},
		// A child that was there is recreated only after its owner was read from the API server.
		{"deletion of the Service", func() { plane.Delete(t, service(app)) },
			map[string]int{"get modelboxes": 1, "patch services": 1, "create events": 1}},
		{"nothing", func() {}, map[string]int{}},
		{"delete", func() { plane.Delete(t, box) }, map[string]int{}},
	} {
		m.Requests.Reset()
		step.do()
		checkRequests(t, m, step.what, step.want)
	}
}

// TestUnitedDeploymentBudgets counts every request of a UnitedDeployment's life, over a Deployment of another owner's.
func TestUnitedDeploymentBudgets(t *testing.T) {
	t.Parallel()
	ns, m := plane.Shared(t)
	m.Idle(t)
	ud, d := newUnited(ns, "holder", "site"), newHandMade(ns, "site")
	younger := newUnited(ns, "younger", "site")
	hpa := newAutoscaler(d, "apps/v1", "Deployment")

	for _, step := range []struct {
		what string
		do   func()
		want map[string]int
	}{
		{"create", func() { plane.Create(t, ud) },
			map[string]int{"patch uniteddeployments/status": 1}},
		{"the Deployment appears", func() { plane.Create(t, d) },
			map[string]int{"patch deployments/scale": 1, "patch uniteddeployments/status": 1, "create events": 1}},
		{"pods become available", func() { completeRollout(t, d) },
			map[string]int{"patch uniteddeployments/status": 1}},
		{"scale", func() { setReplicas(t, ud, 4) },
			map[string]int{"patch deployments/scale": 1, "patch uniteddeployments/status": 1, "create events": 1}},
		{"pods become available again", func() { completeRollout(t, d) },
			map[string]int{"patch uniteddeployments/status": 1}},
		{"drift", func() { scaleTo(t, d, 9) },
			map[string]int{"patch deployments/scale": 1, "patch uniteddeployments/status": 1, "create events": 1}},
		{"drift repaired", func() { completeRollout(t, d) },
			map[string]int{"patch uniteddeployments/status": 1}},
		{"another owner's label on the Deployment", func() { plane.Read(t, d); plane.Change(t, d, func() { d.Labels["x"] = "y" }) },
			map[string]int{}},
		{"a label on the UnitedDeployment", func() { plane.Read(t, ud); plane.Change(t, ud, func() { ud.Labels = map[string]string{"x": "y"} }) },
			map[string]int{}},
		{"a younger one", func() { awaitNextSecond(t, ud); plane.Create(t, younger) },
			map[string]int{"patch uniteddeployments/status": 1, "create events": 1}},
		{"the younger one goes", func() { plane.Delete(t, younger) },
			map[string]int{}},
		{"an autoscaler", func() { plane.Create(t, hpa) },
			map[string]int{"patch uniteddeployments/status": 1, "create events": 1}},
		{"the autoscaler goes", func() { plane.Delete(t, hpa) },
			map[string]int{"patch uniteddeployments/status": 1, "create events": 1}},
		{"pause", func() { setPaused(t, ud, true) },
			map[string]int{"patch uniteddeployments/status": 1}},
		{"resume", func() { setPaused(t, ud, false) },
			map[string]int{"patch uniteddeployments/status": 1}},
		{"nothing", func() {}, map[string]int{}},
		{"delete", func() { plane.Delete(t, ud) }, map[string]int{}},
		{"create with a template", func() { plane.Create(t, newTemplate(ns, "own", "own")) },
			map[string]int{"patch deployments": 1, "patch services": 1, "patch uniteddeployments/status": 1, "create events": 1}},
	} {
		m.Requests.Reset()
		step.do()
		checkRequests(t, m, step.what, step.want)
	}
}

// TestCloudManagerBudgets counts every request of a CloudManager's life.
func TestCloudManagerBudgets(t *testing.T) {
	t.Parallel()
	ns := plane.Namespace(t)
	m := plane.Start(t, ns)
	m.Idle(t)
	cm := newCloudManager(ns)
	front, s := namedDeployment(ns, "front"), namedService(ns, "front")
	change := func(mutate func()) func() {
		return func() { plane.Read(t, cm); plane.Change(t, cm, mutate) }
	}

	for _, step := range []struct {
		what string
		do   func()
		want map[string]int
	}{
		{"create, until it is ready", func() { bringUpTiers(t, cm) },
			map[string]int{"get secrets": 1, "patch secrets": 1, "patch statefulsets": 1, "patch services": 3, "patch deployments": 2,
				"patch cloudmanagers/status": 4, "create events": 4}},
		{"change the image of front", change(func() { cm.Spec.Front.Deployment.Image = "nginx:1.21" }),
			// One look at the Secret for each generation of the spec.
			map[string]int{"get secrets": 1, "patch deployments": 1, "patch cloudmanagers/status": 1, "create events": 1}},
		{"its pods become available", func() { completeRollout(t, front) },
			map[string]int{"patch cloudmanagers/status": 1}},
		{"change the image of the database", change(func() { cm.Spec.DB.StatefulSet.Image = "mariadb:10.6" }),
			map[string]int{"get secrets": 1, "patch statefulsets": 1, "patch cloudmanagers/status": 1, "create events": 1}},
		{"its pods become available", func() { setReadyPods(t, namedStatefulSet(ns, "db"), 1) },
			map[string]int{"patch cloudmanagers/status": 1}},
		{"drift of a Service", func() { plane.Read(t, s); plane.Change(t, s, func() { s.Spec.Selector["x"] = "y" }) },
			map[string]int{"patch services": 1, "create events": 1}},
		{"another owner's label on the StatefulSet", func() {
			set := namedStatefulSet(ns, "db")
			plane.Read(t, set)
			plane.Change(t, set, func() { set.Labels["x"] = "y" })
		}, map[string]int{}},
		{"a label on the CloudManager", change(func() { cm.Labels = map[string]string{"x": "y"} }), map[string]int{}},
		{"pause", func() { setPaused(t, cm, true) },
			map[string]int{"patch cloudmanagers/status": 1}},
		// Nobody watches Secrets: that of the database is looked at once for each generation of the spec.
		{"resume", func() { setPaused(t, cm, false) },
			map[string]int{"get secrets": 1, "patch cloudmanagers/status": 1}},
		{"nothing", func() {}, map[string]int{}},
		{"restart", func() {
			m.Stop(t)
			m = plane.Start(t, ns)
		}, map[string]int{}},
		{"delete", func() { plane.Delete(t, cm) }, map[string]int{}},
	} {
		m.Requests.Reset()
		step.do()
		checkRequests(t, m, step.what, step.want)
	}
}

// TestRestart starts a manager over many settled Apps: it must write nothing, and what it reads must not depend on their
// number.
func TestRestart(t *testing.T) {
	t.Parallel()
	most := fixture.Of(60, 200)
	few, many := countRestartReads(t, 20), countRestartReads(t, most)
	if few != many {
		t.Errorf("a restart sends %d reads for 20 Apps and %d for %d", few, many, most)
	}
	if few == 0 {
		t.Error("a restart sends no reads: they are not counted")
	}
}

// countRestartReads settles a number of Apps, starts another manager over them, and returns how many reads that has sent.
func countRestartReads(t *testing.T, apps int) int {
	t.Helper()
	ns := plane.Namespace(t)
	m := plane.Start(t, ns)
	forEachNumber(t, apps, func(i int) {
		plane.Create(t, newApp(ns, fmt.Sprintf("app-%d", i)))
	})
	forEachNumber(t, apps, func(i int) {
		app := newApp(ns, fmt.Sprintf("app-%d", i))
		plane.Stands(t, app, progressing...)
		completeRollout(t, deployment(app))
		plane.Stands(t, app, "Ready=True")
	})
	m.Idle(t)
	m.Stop(t)

	m = plane.Start(t, ns)
	checkRequests(t, m, fmt.Sprintf("restart over %d Apps", apps), map[string]int{})
	return m.Requests.Reads()
}
