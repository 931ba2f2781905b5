package workload

import (
	"fmt"
	"slices"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appv1 "huolala.cn/app-operator/api/v1"
	"huolala.cn/app-operator/internal/children"
	"huolala.cn/app-operator/resource"
	"huolala.cn/app-operator/test/harness"
)

// collected waits until the garbage collector watches our kinds: it looks for new ones every 30 s, and what is deleted
// before may have to wait for longer. No manager may run in the namespace yet.
func collected(t testing.TB, namespace string) {
	t.Helper()
	app := newApp(namespace)
	app.Name = "canary"
	plane.Create(t, app)
	plane.Delete(t, app, client.PropagationPolicy(metav1.DeletePropagationForeground))
	plane.Gone(t, app) // The collector itself lets it go.
}

// readyApp returns an App that is ready, in a namespace with a manager and the garbage collector.
func readyApp(t testing.TB) (namespace string, m *harness.Manager, app *appv1.App) {
	t.Helper()
	namespace = plane.Namespace(t)
	collected(t, namespace)
	m, app = plane.Start(t, namespace), newApp(namespace)
	plane.Create(t, app)
	ready(t, app)
	return namespace, m, app
}

// asksOnlyFor fails the test if a manager has sent other requests than the named reads.
func asksOnlyFor(t *testing.T, m *harness.Manager, reads ...string) {
	t.Helper()
	counts := m.Requests.Counts()
	for _, read := range reads {
		delete(counts, read)
	}
	if len(counts) != 0 {
		t.Errorf("requests: %v", counts)
	}
}

// TestDelete deletes an App in both ways that take its children along: all goes, and the manager writes nothing.
func TestDelete(t *testing.T) {
	t.Parallel()
	for _, policy := range []metav1.DeletionPropagation{metav1.DeletePropagationBackground, metav1.DeletePropagationForeground} {
		t.Run(string(policy), func(t *testing.T) {
			t.Parallel()
			ns, m, app := readyApp(t)
			m.Idle(t)
			m.Requests.Reset()

			plane.Delete(t, app, client.PropagationPolicy(policy))
			plane.Gone(t, app)
			empty(t, ns)
			m.Idle(t)
			// That a child goes may be seen before the App goes: then the App is read.
			asksOnlyFor(t, m, "get apps")
		})
	}
}

// TestOrphan deletes an App and leaves its children. A new App of its name keeps off them until it is told to adopt them;
// then they are its own, and no pod has noticed.
func TestOrphan(t *testing.T) {
	t.Parallel()
	ns, m, app := readyApp(t)
	before := uids(t, ns)
	m.Idle(t)
	m.Requests.Reset()

	plane.Delete(t, app, client.PropagationPolicy(metav1.DeletePropagationOrphan))
	plane.Gone(t, app)
	m.Idle(t)
	for _, child := range []client.Object{read(t, deployment(app)), read(t, service(app))} {
		if len(child.GetOwnerReferences()) != 0 {
			t.Errorf("%T still has owners: %v", child, child.GetOwnerReferences())
		}
	}
	// That the children have no owner may be seen before the App is being deleted: then the App and the children are read.
	asksOnlyFor(t, m, "get apps", "get deployments", "get services")

	app = newApp(ns)
	plane.Create(t, app)
	plane.Stands(t, app, "Ready=False/ResourceExists", "Reconciling=False", "Stalled=True/ResourceExists")
	harness.Says(t, app, "Ready", "Deployment web", appv1.AnnotationAdopt)
	if d := read(t, deployment(app)); len(d.OwnerReferences) != 0 {
		t.Errorf("the Deployment was taken over without leave: %v", d.OwnerReferences)
	}

	plane.Change(t, app, func() { app.Annotations = map[string]string{appv1.AnnotationAdopt: "true"} })
	ready(t, app)
	for _, child := range []client.Object{read(t, deployment(app)), read(t, service(app))} {
		if !metav1.IsControlledBy(child, app) || len(child.GetOwnerReferences()) != 1 {
			t.Errorf("%T was not adopted: %v", child, child.GetOwnerReferences())
		}
	}
	if !slices.Equal(before, uids(t, ns)) || replicaSets(t, ns) != 1 {
		t.Errorf("pods were restarted: %d of %d are left", shared(before, uids(t, ns)), len(before))
	}
	plane.Delete(t, app)
	empty(t, ns)
}

// TestOrphanOfAnotherKind has a resource adopt what a resource of another kind and of the same content has left behind. The pods restart once, and
// have the defaults of their kind; nothing on the objects is of the former kind.
func TestOrphanOfAnotherKind(t *testing.T) {
	t.Parallel()
	anApp := func(ns string) harness.Resource { return newApp(ns) }
	aModelBox := func(ns string) harness.Resource { return newModelBox(ns) }
	for name, c := range map[string]struct {
		former, next  func(string) harness.Resource
		adopt         string
		probes, stays bool
		addition      string // A patch of a user.
	}{
		"an App by a ModelBox":                                       {anApp, aModelBox, "true", true, false, ""},
		"an App by a ModelBox, without a restart":                    {anApp, aModelBox, appv1.AdoptWithoutRestart, true, true, ""},
		"a ModelBox by an App":                                       {aModelBox, anApp, "true", false, false, ""},
		"a ModelBox by an App, with a user's field in a probe":       {aModelBox, anApp, "true", false, false, slowProbe},
		"a ModelBox by an App, with such a field, without a restart": {aModelBox, anApp, appv1.AdoptWithoutRestart, false, true, slowProbe},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ns := plane.Namespace(t)
			collected(t, ns)
			m, former, next := plane.Start(t, ns), c.former(ns), c.next(ns)
			plane.Create(t, former)
			ready(t, former)
			plane.Delete(t, former, client.PropagationPolicy(metav1.DeletePropagationOrphan))
			plane.Gone(t, former)
			m.Idle(t)
			if c.addition != "" {
				patchByUser(t, deployment(former), c.addition)
				untilAvailable(t, ns, former.GetName())
			}
			before := replicaSets(t, ns)

			next.SetAnnotations(map[string]string{appv1.AnnotationAdopt: c.adopt})
			specOf(next).Replicas = nil // Their number stays.
			plane.Create(t, next)
			if c.stays {
				plane.Stands(t, next, kept...)
				if n := replicaSets(t, ns); n != before {
					t.Errorf("there are %d ReplicaSets: the pods restart", n)
				}
				plane.Change(t, next, func() { next.GetAnnotations()[appv1.AnnotationRefresh] = "1" })
			}
			plane.Stands(t, next, "Applied=True/Applied", "Ready=True/Ready")
			readyPods(t, next, 2)
			checkOwnRendering(t, next, before+1, c.probes)
			plane.Change(t, next, func() { specOf(next).Probes.Disabled = true })
			plane.Until(t, next, func() error {
				if main := read(t, deployment(next)).Spec.Template.Spec.Containers[0]; main.ReadinessProbe != nil || main.LivenessProbe != nil {
					return fmt.Errorf("the probes stay: %v, %v", main.ReadinessProbe, main.LivenessProbe)
				}
				return nil
			})
		})
	}
}

// slowProbe adds a field to the liveness probe that a ModelBox has by default.
const slowProbe = `{"spec":{"template":{"spec":{"containers":[{"name":"web","livenessProbe":{"initialDelaySeconds":30}}]}}}}`

// patchByUser patches a Deployment as kubectl patch does.
func patchByUser(t *testing.T, d *appsv1.Deployment, patch string) {
	t.Helper()
	if err := plane.Client.Patch(t.Context(), d, client.RawPatch(types.StrategicMergePatchType, []byte(patch)), client.FieldOwner("kubectl-patch")); err != nil {
		t.Fatal(err)
	}
}

// checkOwnRendering checks that the pods of a resource have restarted once, with the defaults of its kind, and that nothing on its children is
// of another kind.
func checkOwnRendering(t *testing.T, obj harness.Resource, sets int, probes bool) {
	t.Helper()
	if is := statusOf(obj); is.Rendering != resource.RenderingLatest || is.LatestRendering != 0 {
		t.Errorf("the rendering is %d, pending is %d", is.Rendering, is.LatestRendering)
	}
	main := read(t, deployment(obj)).Spec.Template.Spec.Containers[0]
	if (main.LivenessProbe != nil) != probes || (main.StartupProbe != nil) != probes || main.ReadinessProbe == nil {
		t.Errorf("the probes are %v, %v, %v", main.LivenessProbe, main.StartupProbe, main.ReadinessProbe)
	}
	if n := replicaSets(t, obj.GetNamespace()); n != sets {
		t.Errorf("there are %d ReplicaSets, want %d: the pods restart once", n, sets)
	}
	for _, child := range []client.Object{read(t, deployment(obj)), read(t, service(obj))} {
		if marks := children.Marks(child.GetManagedFields()); len(marks) != 1 || marks[0].Manager != resource.KindOf(obj).FieldManager() {
			t.Errorf("%T has the managers %v", child, marks)
		}
	}
}

// TestDeleteNamespace deletes a namespace with Apps in it: it goes, and the manager, which is asked to recreate what is
// deleted before its App, does not get excited.
func TestDeleteNamespace(t *testing.T) {
	t.Parallel()
	const apps = 5
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "deleted-"}}
	plane.Create(t, ns)
	m := plane.Start(t, ns.Name, harness.WithForbidden()) // Nothing may be created any more.
	for i := range apps {
		app := newApp(ns.Name)
		app.Name = fmt.Sprintf("web-%d", i)
		plane.Create(t, app)
		ready(t, app)
	}
	m.Idle(t)
	m.Requests.Reset()

	plane.Delete(t, ns)
	plane.Gone(t, ns)
	m.Idle(t)
	counts := m.Requests.Counts()
	t.Logf("requests while a namespace of %d Apps was deleted: %v", apps, counts)
	// The children and the pods of an App go before it, and for each of these news there may be an attempt and a status. Tries
	// over and over would be more by now.
	for what, most := range map[string]int{
		"get apps":          12 * apps, // Before what was there is recreated, its owner is read.
		"patch deployments": 6 * apps, "patch services": 6 * apps, "patch apps/status": 8 * apps, "create events": apps,
	} {
		if counts[what] > most {
			t.Errorf("%s: %d times, want at most %d", what, counts[what], most)
		}
		delete(counts, what)
	}
	if len(counts) != 0 {
		t.Errorf("other requests: %v", counts)
	}
}

// TestDeleteAll deletes all that "kubectl get all" shows, the App among it: nothing comes back for good.
func TestDeleteAll(t *testing.T) {
	t.Parallel()
	ns, _, app := readyApp(t)

	newKubectl(t, ns).run("delete", "all", "--all")
	plane.Absent(t, app)
	empty(t, ns)
}

// TestReplace deletes an App and recreates it at once, while its earlier children are still there: they go, and it gets
// its own.
func TestReplace(t *testing.T) {
	t.Parallel()
	ns, _, app := readyApp(t)
	before := uids(t, ns)

	plane.Delete(t, app)
	app = newApp(ns)
	plane.Create(t, app)
	readyPods(t, app, 2)
	if n := shared(before, uids(t, ns)); n != 0 {
		t.Errorf("%d pods of the deleted App are left", n)
	}
	for _, child := range []client.Object{read(t, deployment(app)), read(t, service(app))} {
		if !metav1.IsControlledBy(child, app) {
			t.Errorf("%T is not the new App's: %v", child, child.GetOwnerReferences())
		}
	}
}

// TestDeleteDeployment deletes an App's Deployment in all three ways. It comes back; where its ReplicaSet is left, so are
// the pods.
func TestDeleteDeployment(t *testing.T) {
	t.Parallel()
	for policy, survivors := range map[metav1.DeletionPropagation]int{
		metav1.DeletePropagationBackground: 0, metav1.DeletePropagationForeground: 0, metav1.DeletePropagationOrphan: 2,
	} {
		t.Run(string(policy), func(t *testing.T) {
			t.Parallel()
			ns, _ := plane.Shared(t)
			app := newApp(ns)
			plane.Create(t, app)
			ready(t, app)
			before, old := uids(t, ns), read(t, deployment(app))

			plane.Delete(t, old.DeepCopy(), client.PropagationPolicy(policy))
			d := deployment(app)
			plane.Until(t, d, func() error {
				if d.UID == old.UID {
					return fmt.Errorf("the deleted one is still there")
				}
				return nil
			})
			harness.Eventually(t, func() error {
				if n := shared(before, uids(t, ns)); n != survivors {
					return fmt.Errorf("%d of the earlier pods are left, want %d", n, survivors)
				}
				return nil
			})
			ready(t, app)
			if app.Status.Ready != "2/2" || len(pods(t, ns)) != 2 {
				t.Errorf("ready %s, %d pods", app.Status.Ready, len(pods(t, ns)))
			}
		})
	}
}

// TestDeleteService deletes an App's Service. It is back at once, and the App stays Ready.
func TestDeleteService(t *testing.T) {
	t.Parallel()
	ns, m := plane.Shared(t)
	app := newApp(ns)
	plane.Create(t, app)
	ready(t, app)
	m.Idle(t)
	m.Requests.Reset()
	j := harness.Follow[*appv1.App](t, plane, &appv1.AppList{}, ns)

	old := read(t, service(app))
	plane.Delete(t, old.DeepCopy())
	s := service(app)
	plane.Until(t, s, func() error {
		if s.UID == old.UID {
			return fmt.Errorf("the deleted one is still there")
		}
		return nil
	})
	m.Idle(t)
	ready(t, app)
	for _, state := range j.UpTo(t, app) {
		if !meta.IsStatusConditionTrue(state.Status.Conditions, appv1.ConditionReady) {
			t.Errorf("not Ready meanwhile: %s", harness.Message(state, "Ready"))
		}
	}
	if writes := m.Requests.Writes(); writes["patch services"] != 1 || writes["patch deployments"] != 0 {
		t.Errorf("writes: %v", writes)
	}
}

// TestDeletePod deletes the pods of an App, one and then all. They come back, and the operator
// has nothing to do for that.
func TestDeletePod(t *testing.T) {
	t.Parallel()
	ns, m := plane.Shared(t)
	app := newApp(ns)
	plane.Create(t, app)
	ready(t, app)
	m.Idle(t)
	m.Requests.Reset()

	for _, n := range []int{1, 2} {
		before := pods(t, ns)
		for i := range before[:n] {
			plane.Delete(t, &before[i])
		}
		harness.Eventually(t, func() error {
			for _, pod := range pods(t, ns) {
				if slices.ContainsFunc(before[:n], func(p corev1.Pod) bool { return p.UID == pod.UID }) {
					return fmt.Errorf("pod %s is still there", pod.Name)
				}
			}
			if is := len(pods(t, ns)); is != 2 {
				return fmt.Errorf("%d pods", is)
			}
			return nil
		})
		m.Idle(t)
		ready(t, app)
		if app.Status.Ready != "2/2" {
			t.Errorf("ready %s", app.Status.Ready)
		}
	}
	if n := m.Requests.Counts()["patch deployments"]; n != 0 {
		t.Errorf("the operator wrote the Deployment %d times", n)
	}
}
