package integration

import (
	"fmt"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appv1 "huolala.cn/app-operator/api/v1"
	"huolala.cn/app-operator/resource"
	"huolala.cn/app-operator/test/harness"
	"huolala.cn/app-operator/test/play"
)

// createGood creates an App that is to be rolled back, and has it be ready.
func createGood(t testing.TB, app *appv1.App) (*appsv1.Deployment, *appsv1.ReplicaSet) {
	t.Helper()
	app.Spec.Rollback = appv1.RollbackOnStall
	d, _ := createInPlace(t, app)
	set := makeReplicaSet(t, d, "a")
	awaitLastGood(t, app, d, set.Name)
	return d, set
}

// rolledBack are the conditions of an App that is rolled back.
var rolledBack = []string{"Applied=False/RolledBack", "Ready=False/RolledBack", "Reconciling=False", "Stalled=True/RolledBack"}

// TestRollbackWithoutEstimate rolls back a spec whose ReplicaSet exists. The Deployment's controller has measured no progress, and never says
// that the rollout has stalled.
func TestRollbackWithoutEstimate(t *testing.T) {
	t.Parallel()
	ns, _ := plane.Shared(t)
	app := newApp(ns, "web")
	app.Spec.ProgressDeadlineSeconds = ptr.To[int32](3)
	d, good := createGood(t, app)
	j := harness.Follow[*appsv1.Deployment](t, plane, &appsv1.DeploymentList{}, ns)
	setImage(t, app, "nginx:2")
	awaitImage(t, d, "nginx:2")
	setRollingOut(t, d, corev1.ConditionTrue, "NewReplicaSetAvailable")
	awaitImage(t, d, "nginx:1.16.1")
	var times []time.Time
	for before, after := range j.Changes(t, d) {
		if before.Spec.Template.Spec.Containers[0].Image != after.Spec.Template.Spec.Containers[0].Image {
			times = append(times, writtenAt(after))
		}
	}
	if len(times) != 2 || times[1].Sub(times[0]) < 2*time.Second { // Times of managed fields are in whole seconds.
		t.Errorf("the image has changed at %v, want twice, and back after 3s", times)
	}
	awaitRestoredPods(t, d, good)
	plane.Stands(t, app, rolledBack...)
	harness.Says(t, app, "Stalled", "image nginx:2 did not come up: ProgressDeadlineExceeded: ", "no progress for 3 s")
}

// writtenAt returns when the spec of a Deployment was written last, by the API server's clock.
func writtenAt(d *appsv1.Deployment) (last time.Time) {
	for _, entry := range d.ManagedFields {
		if entry.Subresource == "" && entry.Time != nil && entry.Time.After(last) {
			last = entry.Time.Time
		}
	}
	return last
}

// TestNoRollbackOfContent has the rollout of a ConfigMap's change stall: the message names the ConfigMap.
func TestNoRollbackOfContent(t *testing.T) {
	t.Parallel()
	ns, m := plane.Shared(t)
	app, config := newFollower(ns, "web"), newConfigMap(ns, "settings", map[string]string{"level": "1"})
	app.Spec.Rollback = appv1.RollbackOnStall
	plane.Create(t, config, app)
	d := deployment(app)
	plane.Until(t, d, func() error {
		if in, err := resource.DecodeInputs(d.Annotations[appv1.AnnotationLastAppliedInputs]); err != nil || len(in.Config.Objects) == 0 {
			return fmt.Errorf("the inputs have no content: %w", err)
		}
		return nil
	})
	awaitLastGood(t, app, d, makeReplicaSet(t, d, "a").Name)
	setData(t, config, "level", "2")
	sum := awaitConfigSum(t, d, "")
	timeOutRollout(t, d)
	plane.Stands(t, app, "Ready=False/ProgressDeadlineExceeded", "Stalled=True/ProgressDeadlineExceeded")
	harness.Says(t, app, "Ready", "the spec is that of the last good ReplicaSet web-a. Only the content of ConfigMap settings has changed")
	m.Idle(t)
	if plane.Read(t, d); d.Spec.Template.Annotations[appv1.AnnotationConfig] != sum {
		t.Error("the content was rolled back")
	}
}

// TestNoRollbackOfFix has a fix change the image and the replicas of a rollout that has timed out: the Deployment's controller observes that before it makes a
// ReplicaSet, and the condition is still about the bad image. The fix is no rollout that has stalled, until its own condition says so.
func TestNoRollbackOfFix(t *testing.T) {
	t.Parallel()
	ns, m := plane.Shared(t)
	app := newApp(ns, "web")
	d, _ := createGood(t, app)
	setImage(t, app, "nginx:2")
	awaitImage(t, d, "nginx:2")
	timedOut := metav1.NewTime(writtenAt(d).Add(-time.Second)) // The test does not wait for a later second.
	timeOut := func() {
		plane.Read(t, d)
		plane.ChangeStatus(t, d, func() {
			play.SetTimedOut(d)
			d.Status.Conditions[0].LastUpdateTime = timedOut
		})
	}
	plane.Read(t, app)
	plane.Change(t, app, func() { app.Spec.Image, app.Spec.Replicas = "nginx:3", ptr.To[int32](3) })
	awaitImage(t, d, "nginx:3")
	timeOut()
	plane.Stands(t, app, "Applied=True", "Ready=False/Progressing", "Reconciling=True", "Stalled=False")
	m.Idle(t)
	if plane.Read(t, d); d.Spec.Template.Spec.Containers[0].Image != "nginx:3" {
		t.Errorf("the fix was taken back to %s", d.Spec.Template.Spec.Containers[0].Image)
	}
	timedOut = metav1.NewTime(writtenAt(d).Add(time.Minute))
	timeOut()
	awaitImage(t, d, "nginx:1.16.1")
}

// TestRollbackOverUpgrade has a release with a newer rendering take over what an older one has rolled back, of a spec whose record is
// kept, and of one that is too long for that: no pod is replaced.
func TestRollbackOverUpgrade(t *testing.T) {
	t.Parallel()
	for name, size := range map[string]int{"short": 10, "long": 20 << 10} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ns := plane.Namespace(t)
			m := plane.Start(t, ns)
			app := newApp(ns, "web")
			app.Spec.Args = []string{strings.Repeat("x", size)}
			d, good := createGood(t, app)
			setImage(t, app, "nginx:2")
			awaitImage(t, d, "nginx:2")
			timeOutRollout(t, d)
			awaitRestoredPods(t, d, good)
			plane.Stands(t, app, rolledBack...)
			m.Idle(t)
			m.Stop(t)
			was := readWhole(t, d)
			m = plane.Start(t, ns, harness.WithRendering(harness.NextRendering))
			m.Idle(t)
			checkUntouched(t, d, was)
			plane.Stands(t, app, rolledBack...)
			if got := m.Requests.Counts()["get replicasets"]; got > 0 {
				t.Errorf("the newer release has read %d ReplicaSets", got)
			}
		})
	}
}

// TestPlanOfRollback plans changes of an App that is rolled back.
func TestPlanOfRollback(t *testing.T) {
	t.Parallel()
	ns := plane.Namespace(t)
	m := startGuarded(t, ns)
	app := newApp(ns, "web")
	d, good := createGood(t, app)
	setImage(t, app, "nginx:2")
	awaitImage(t, d, "nginx:2")
	timeOutRollout(t, d)
	awaitRestoredPods(t, d, good)
	plane.Stands(t, app, rolledBack...)
	m.Idle(t)
	person := newUser(t)
	for what, c := range map[string]struct {
		change func(*appv1.App)
		warned bool
	}{
		"the same":         {func(*appv1.App) {}, true},
		"a label":          {func(app *appv1.App) { app.Labels = map[string]string{"sync": "1"} }, true},
		"another spec":     {func(app *appv1.App) { app.Spec.Image = "nginx:1.30" }, false},
		"one more attempt": {func(app *appv1.App) { app.Annotations = map[string]string{appv1.AnnotationRefresh: "1"} }, false},
	} {
		plane.Read(t, app)
		c.change(app)
		if err := person.Update(t.Context(), app, client.DryRunAll); err != nil {
			t.Fatal(err)
		}
		said := strings.Join(person.warnings(), "; ")
		if warned := holdsAll(said, "spec: is rolled back", "image nginx:2 did not come up", "Change the spec"); warned != c.warned {
			t.Errorf("%s: the warnings are %q", what, said)
		}
	}
	for what, c := range map[string]struct {
		change func(*appv1.App)
		lines  []string
		stays  bool
	}{
		"another image": {func(app *appv1.App) { app.Spec.Image = "nginx:3" }, []string{"image: nginx:1.16.1 -> nginx:3"}, false},
		"a refresh":     {func(app *appv1.App) { app.Annotations = map[string]string{appv1.AnnotationRefresh: "1"} }, []string{"image: nginx:1.16.1 -> nginx:2"}, false},
		"no rollback":   {func(app *appv1.App) { app.Spec.Rollback = "" }, []string{"image: nginx:1.16.1 -> nginx:2"}, false},
		"a budget":      {func(app *appv1.App) { app.Spec.DisruptionBudget = &appv1.DisruptionBudgetSpec{} }, []string{"PodDisruptionBudget web: created", "RolledBack: image nginx:2"}, true},
	} {
		plane.Read(t, app)
		wanted := app.DeepCopy()
		c.change(wanted)
		made := askPlan(t, plane.Client, wanted)
		said := strings.Join(made.Lines(100, 400), "\n")
		if !holdsAll(said, c.lines...) || (made.Problem != nil && made.Problem.Reason == appv1.ReasonRolledBack) != c.stays {
			t.Errorf("%s: the plan says:\n%s", what, said)
		}
	}
}
