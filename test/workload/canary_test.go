package workload

import (
	"fmt"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appv1 "huolala.cn/app-operator/api/v1"
	"huolala.cn/app-operator/test/harness"
)

// canaryOf reads the Deployment of an App's canary, nil if there is none.
func canaryOf(t *testing.T, app *appv1.App) *appsv1.Deployment {
	t.Helper()
	d := &appsv1.Deployment{}
	err := plane.Client.Get(t.Context(), types.NamespacedName{Namespace: app.Namespace, Name: app.Name + appv1.CanarySuffix}, d)
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// canaryRuns waits until the pods of a canary are ready, all pods of before live, and there are no others.
func canaryRuns(t *testing.T, app *appv1.App, before []types.UID, canary int, image string) {
	t.Helper()
	plane.Until(t, app, func() error {
		is := app.Status.Canary
		if is == nil || is.Image != image || int(is.Ready) != canary || int(is.Pods) != canary {
			return fmt.Errorf("the canary is %+v", is)
		}
		now := uids(t, app.Namespace)
		if shared(before, now) != len(before) || len(now) != len(before)+canary {
			return fmt.Errorf("of %d pods %d are left, and there are %d", len(before), shared(before, now), len(now))
		}
		return nil
	})
}

// newCanaryApp creates an App with a canary and a number of pods, which are ready, and returns the pods.
func newCanaryApp(t *testing.T, ns string, pods int32, canary *appv1.CanarySpec, change ...func(*appv1.App)) (*appv1.App, []types.UID) {
	t.Helper()
	app := newApp(ns)
	app.Spec.Replicas, app.Spec.Canary = &pods, canary
	for _, each := range change {
		each(app)
	}
	plane.Create(t, app)
	ready(t, app)
	plane.Until(t, app, func() error {
		if app.Status.LastGood == nil {
			return fmt.Errorf("the history is %+v", app.Status.HistoryStatus)
		}
		return nil
	})
	return app, uids(t, ns)
}

// step sets an annotation of an App to the UID of its canary.
func step(t *testing.T, app *appv1.App, annotation string) {
	t.Helper()
	plane.Read(t, app)
	uid := string(canaryOf(t, app).UID)
	plane.Change(t, app, func() { metav1.SetMetaDataAnnotation(&app.ObjectMeta, annotation, uid) })
}

// canaryStands waits for the conditions of a canary that waits.
func canaryStands(t *testing.T, app *appv1.App) {
	t.Helper()
	plane.Stands(t, app, "Ready=Unknown/Canary", "Applied=False/Canary", "Stalled=False", "CanaryReady=True/Ready")
}

// TestCanary runs a change in two pods next to ten, then another one, which is aborted, and a third one, which is promoted. No pod of before
// is replaced but by the promotion, and the manager sends nothing while a canary waits, as the next manager does.
func TestCanary(t *testing.T) {
	t.Parallel()
	ns := plane.Namespace(t)
	m := plane.Start(t, ns)
	app, before := newCanaryApp(t, ns, 10, &appv1.CanarySpec{Pods: ptr.To(intstr.FromString("20%"))})
	plane.Change(t, app, func() { app.Spec.Image = "nginx:1.17.0" })
	canaryRuns(t, app, before, 2, "nginx:1.17.0")
	canaryStands(t, app)
	settled(t, ns, app.Name) // As "kubectl rollout status" has it.
	m = staysAsItIs(t, m, app, 10)

	first := canaryOf(t, app).UID
	plane.Read(t, app)
	plane.Change(t, app, func() { app.Spec.Image = "nginx:1.18.0" })
	canaryRuns(t, app, before, 2, "nginx:1.18.0")
	if canaryOf(t, app).UID == first {
		t.Error("another change has the UID of the former one")
	}
	step(t, app, appv1.AnnotationAbort)
	plane.Stands(t, app, "Applied=False/RolledBack", "Ready=False/RolledBack", "Stalled=True/RolledBack")
	samePods(t, ns, before)
	m = staysAsItIs(t, m, app, 3)

	plane.Read(t, app)
	plane.Change(t, app, func() { app.Spec.Image = "nginx:1.19.0" })
	canaryRuns(t, app, before, 2, "nginx:1.19.0")
	canaryStands(t, app)
	step(t, app, appv1.AnnotationPromote)
	ready(t, app)
	harness.Eventually(t, func() error {
		if canary := canaryOf(t, app); canary != nil {
			return fmt.Errorf("the canary is there")
		}
		if now := uids(t, ns); shared(before, now) != 0 || len(now) != 10 {
			return fmt.Errorf("%d of the pods of before are left, and there are %d", shared(before, now), len(now))
		}
		return nil
	})
	ready(t, app)
	before = uids(t, ns)
	plane.Read(t, app)
	plane.Change(t, app, func() { app.Spec.Image = "nginx:1.20.0" })
	canaryRuns(t, app, before, 2, "nginx:1.20.0")
	m.Idle(t)
	canaryStands(t, app)
}

// TestCanaryByItself promotes a canary whose pods stay available, and none whose pods crash.
func TestCanaryByItself(t *testing.T) {
	t.Parallel()
	ns, _ := plane.Shared(t)
	app, before := newCanaryApp(t, ns, 3, &appv1.CanarySpec{Promote: appv1.PromoteAuto, After: "3s"})
	j := harness.Follow[*appsv1.Deployment](t, plane, &appsv1.DeploymentList{}, ns)
	plane.Change(t, app, func() { app.Spec.Image = "crashloopbackoff.test/x:1" })
	plane.Stands(t, app, "Ready=Unknown/Canary", "Applied=False/Canary", "CanaryReady=False/CrashLoopBackOff")
	plane.Read(t, app)
	plane.Change(t, app, func() { app.Spec.Image = "nginx:1.17.0" })
	ready(t, app)
	harness.Eventually(t, func() error {
		if now := uids(t, ns); canaryOf(t, app) != nil || shared(before, now) != 0 || len(now) != 3 {
			return fmt.Errorf("%d of the pods of before are left, and there are %d", shared(before, now), len(now))
		}
		return nil
	})
	for _, d := range j.UpTo(t, deployment(app)) {
		if d.Name == app.Name && d.Spec.Template.Spec.Containers[0].Image == "crashloopbackoff.test/x:1" {
			t.Error("what crashes was rolled out")
		}
	}
}

// TestCanaryThatStalls has no node take the canary: the App is stalled, and with rollbacks the canary is aborted.
func TestCanaryThatStalls(t *testing.T) {
	t.Parallel()
	ns, _ := plane.Shared(t)
	app, before := newCanaryApp(t, ns, 2, &appv1.CanarySpec{}, func(app *appv1.App) { app.Spec.ProgressDeadlineSeconds = ptr.To[int32](5) })
	plane.Change(t, app, func() { app.Spec.NodeSelector = map[string]string{"no": "node"} })
	plane.Stands(t, app, "Applied=False/Canary", "Ready=False/Unschedulable", "Stalled=True/Unschedulable", "CanaryReady=False/Unschedulable")
	plane.Read(t, app)
	plane.Change(t, app, func() { app.Spec.Rollback = appv1.RollbackOnStall })
	plane.Stands(t, app, "Applied=False/RolledBack", "Stalled=True/RolledBack")
	harness.Says(t, app, "Stalled", "Unschedulable")
	samePods(t, ns, before)
}

// TestCanaryAndNumbers changes the number of pods while a canary runs: the pods of before follow, and the canary keeps its number. Stopped and
// started again, it still waits.
func TestCanaryAndNumbers(t *testing.T) {
	t.Parallel()
	ns, _ := plane.Shared(t)
	app, before := newCanaryApp(t, ns, 4, &appv1.CanarySpec{Pods: ptr.To(intstr.FromString("50%"))})
	plane.Change(t, app, func() { app.Spec.Image = "nginx:1.17.0" })
	canaryRuns(t, app, before, 2, "nginx:1.17.0")
	images := func(image string) int {
		n := 0
		for _, pod := range pods(t, ns) {
			if pod.DeletionTimestamp == nil && pod.Spec.Containers[0].Image == image {
				n++
			}
		}
		return n
	}
	for _, n := range []int32{8, 2, 0, 4} {
		plane.Read(t, app)
		plane.Change(t, app, func() { app.Spec.Replicas = &n })
		canary := 2
		if n == 0 {
			canary = 0
		}
		harness.Eventually(t, func() error {
			if old, made := images("nginx:1.16.1"), images("nginx:1.17.0"); old != int(n) || made != canary {
				return fmt.Errorf("at %d, there are %d pods of before and %d of the canary", n, old, made)
			}
			return nil
		})
	}
	plane.Stands(t, app, "Applied=False/Canary")
}

// TestCanaryByHand restarts, undoes and pauses the Deployments by hand while a canary runs: nothing of the change is rolled out.
func TestCanaryByHand(t *testing.T) {
	t.Parallel()
	ns, _ := plane.Shared(t)
	app, before := newCanaryApp(t, ns, 2, &appv1.CanarySpec{})
	plane.Change(t, app, func() { app.Spec.Image = "nginx:1.17.0" })
	canaryRuns(t, app, before, 1, "nginx:1.17.0")
	restarted := func(name string) {
		d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: name}}
		patch := client.RawPatch(types.StrategicMergePatchType,
			[]byte(`{"spec":{"template":{"metadata":{"annotations":{"kubectl.kubernetes.io/restartedAt":"now"}}}}}`))
		if err := plane.Client.Patch(t.Context(), d, patch, client.FieldOwner("kubectl-rollout")); err != nil {
			t.Fatal(err)
		}
	}
	restarted(app.Name + appv1.CanarySuffix)
	canaryRuns(t, app, before, 1, "nginx:1.17.0")
	restarted(app.Name)
	harness.Eventually(t, func() error {
		if now := uids(t, ns); shared(before, now) != 0 || len(now) != 3 {
			return fmt.Errorf("%d of the pods of before are left, and there are %d", shared(before, now), len(now))
		}
		return nil
	})
	if image := read(t, deployment(app)).Spec.Template.Spec.Containers[0].Image; image == "nginx:1.17.0" {
		t.Error("a restart by hand has rolled the change out")
	}
	canaryStands(t, app)
}
