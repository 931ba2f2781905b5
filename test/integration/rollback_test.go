package integration

import (
	"fmt"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appv1 "huolala.cn/app-operator/api/v1"
	"huolala.cn/app-operator/resource"
	"huolala.cn/app-operator/test/harness"
)

// runsWell creates an App that is to be rolled back, and has it be ready.
func runsWell(t testing.TB, app *appv1.App) (*appsv1.Deployment, *appsv1.ReplicaSet) {
	t.Helper()
	app.Spec.Rollback = appv1.RollbackOnStall
	d, _ := start(t, app)
	set := revision(t, d, "a")
	isLastGood(t, app, d, set.Name)
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
	d, good := runsWell(t, app)
	j := harness.Follow[*appsv1.Deployment](t, plane, &appsv1.DeploymentList{}, ns)
	setImage(t, app, "nginx:2")
	image(t, d, "nginx:2")
	halfway(t, d, corev1.ConditionTrue, "NewReplicaSetAvailable")
	image(t, d, "nginx:1.16.1")
	var times []time.Time
	for before, after := range j.Changes(t, d) {
		if before.Spec.Template.Spec.Containers[0].Image != after.Spec.Template.Spec.Containers[0].Image {
			times = append(times, writtenAt(after))
		}
	}
	if len(times) != 2 || times[1].Sub(times[0]) < 2*time.Second { // Times of managed fields are in whole seconds.
		t.Errorf("the image has changed at %v, want twice, and back after 3s", times)
	}
	backAgain(t, d, good)
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

// TestRollbackDoors leaves a rollback by each of the ways that lead out of it.
func TestRollbackDoors(t *testing.T) {
	t.Parallel()
	for name, door := range map[string]struct {
		open func(testing.TB, *appv1.App)
		// image is what runs then; stays is true if that is the last good one.
		image string
		stays []string
	}{
		"another spec": {open: func(t testing.TB, app *appv1.App) { setImage(t, app, "nginx:3") }, image: "nginx:3"},
		"refresh":      {open: func(t testing.TB, app *appv1.App) { annotate(t, app, appv1.AnnotationRefresh, "1") }, image: "nginx:2"},
		"hold": {open: func(t testing.TB, app *appv1.App) { annotate(t, app, appv1.AnnotationHold, appv1.HoldLastGood) }, image: "nginx:1.16.1",
			stays: []string{"Applied=False/Held", "Ready=False/Held", "Reconciling=False/Held", "Stalled=False"}},
		"no rollback": {open: func(t testing.TB, app *appv1.App) {
			plane.Read(t, app)
			plane.Change(t, app, func() { app.Spec.Rollback = "" })
		}, image: "nginx:2"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ns, m := plane.Shared(t)
			app := newApp(ns, "web")
			d, good := runsWell(t, app)
			setImage(t, app, "nginx:2")
			image(t, d, "nginx:2")
			stall(t, d)
			backAgain(t, d, good)
			plane.Stands(t, app, rolledBack...)
			m.Idle(t)
			m.Requests.Reset()
			door.open(t, app)
			counts(t, m, name, map[string]int{"patch deployments": 1, "patch apps/status": 1, "create events": 1})
			image(t, d, door.image)
			if door.stays == nil {
				plane.Stands(t, app, "Applied=True", "Stalled=False")
				if mark := d.Annotations[appv1.AnnotationHeld]; mark != "" {
					t.Errorf("the mark is left: %s", mark)
				}
				stall(t, d)
				if name == "no rollback" {
					plane.Stands(t, app, "Applied=True", "Ready=False/ProgressDeadlineExceeded", "Stalled=True/ProgressDeadlineExceeded")
					return
				}
				backAgain(t, d, good) // Once for each try.
				plane.Stands(t, app, rolledBack...)
				harness.Says(t, app, "Stalled", "image "+door.image+" did not come up")
				if name == "refresh" { // A tool may remove it again.
					was := d.Generation
					annotate(t, app, appv1.AnnotationRefresh, "")
					m.Idle(t)
					if plane.Read(t, d); d.Generation != was {
						t.Error("to remove the annotation has tried the spec again")
					}
				}
				return
			}
			settle(t, d)
			plane.Stands(t, app, door.stays...)
			annotate(t, app, appv1.AnnotationHold, "")
			plane.Stands(t, app, rolledBack...)
			m.Idle(t)
			image(t, d, door.image)
		})
	}
}

// TestNoRollback has rollouts stall that are not to be undone. The status says why, if that is not evident.
func TestNoRollback(t *testing.T) {
	t.Parallel()
	newSpec := func(t testing.TB, app *appv1.App, d *appsv1.Deployment) {
		setImage(t, app, "nginx:2")
		image(t, d, "nginx:2")
	}
	for name, c := range map[string]struct {
		prepare func(*appv1.App)
		change  func(testing.TB, *appv1.App, *appsv1.Deployment)
		// fail is what goes wrong then, if it is not that the rollout stalls.
		fail func(testing.TB, *appsv1.Deployment)
		says string
		// stands are the conditions, if they are others than those of a rollout that has stalled.
		stands []string
		reads  int
		// forget removes the last good one from the status.
		forget bool
	}{
		"Never":            {prepare: func(app *appv1.App) { app.Spec.Rollback = appv1.RollbackNever }, change: newSpec},
		"no last good one": {change: newSpec, forget: true},
		"the last good one is gone": {reads: 1, says: "no rollback, because ReplicaSet web-a does not exist",
			change: func(t testing.TB, app *appv1.App, d *appsv1.Deployment) {
				newSpec(t, app, d)
				set := &appsv1.ReplicaSet{}
				set.Namespace, set.Name = app.Namespace, "web-a"
				plane.Delete(t, set)
			}},
		"the same spec, refreshed": {reads: 1, says: "no rollback, because the spec is that of the last good ReplicaSet web-a",
			change: func(t testing.TB, app *appv1.App, d *appsv1.Deployment) {
				was := d.Annotations[appv1.AnnotationLastAppliedInputs]
				annotate(t, app, appv1.AnnotationRefresh, "1")
				plane.Until(t, d, func() error {
					if d.Annotations[appv1.AnnotationLastAppliedInputs] == was {
						return fmt.Errorf("the inputs are %s", was)
					}
					return nil
				})
			}},
		"paused": {stands: []string{"Reconciling=False/Paused"}, change: func(t testing.TB, app *appv1.App, d *appsv1.Deployment) {
			newSpec(t, app, d)
			plane.Read(t, app)
			plane.Change(t, app, func() { app.Spec.Paused = true })
			plane.Stands(t, app, "Reconciling=False/Paused")
		}},
		"the rollout had ended": {stands: []string{"Ready=False", "Stalled=False"}, change: func(t testing.TB, app *appv1.App, d *appsv1.Deployment) {
			newSpec(t, app, d)
			settle(t, d)
			plane.Stands(t, app, "Ready=True")
		}, fail: func(t testing.TB, d *appsv1.Deployment) {
			plane.Read(t, d)
			plane.ChangeStatus(t, d, func() {
				d.Status.AvailableReplicas, d.Status.ReadyReplicas = 0, 0
				d.Status.Conditions = []appsv1.DeploymentCondition{
					{Type: appsv1.DeploymentProgressing, Status: corev1.ConditionTrue, Reason: "NewReplicaSetAvailable"},
				}
			})
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ns, m := plane.Shared(t)
			app := newApp(ns, "web")
			d, _ := runsWell(t, app)
			if c.prepare != nil {
				plane.Read(t, app)
				plane.Change(t, app, func() { c.prepare(app) })
			}
			c.change(t, app, d)
			m.Idle(t)
			if c.forget {
				plane.Read(t, app)
				plane.ChangeStatus(t, app, func() { app.Status.LastGood = nil })
				m.Idle(t)
			}
			m.Requests.Reset()
			want := c.stands
			if want == nil {
				want = []string{"Applied=True", "Ready=False/ProgressDeadlineExceeded", "Stalled=True/ProgressDeadlineExceeded"}
			}
			if fail := c.fail; fail != nil {
				fail(t, d)
			} else {
				stall(t, d)
			}
			plane.Stands(t, app, want...)
			harness.Says(t, app, "Ready", c.says)
			m.Idle(t)
			if c.says == "" && strings.Contains(harness.Message(app, "Ready"), "rollback") {
				t.Errorf("it says %q", harness.Message(app, "Ready"))
			}
			annotate(t, app, "example.com/look", "again")
			m.Idle(t)
			if got := m.Requests.Counts(); got["get replicasets"] != c.reads || got["patch deployments"] > 0 {
				t.Errorf("it has sent %v, want %d reads of ReplicaSets", got, c.reads)
			}
		})
	}
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
	isLastGood(t, app, d, revision(t, d, "a").Name)
	setData(t, config, "level", "2")
	sum := configSum(t, d, "")
	stall(t, d)
	plane.Stands(t, app, "Ready=False/ProgressDeadlineExceeded", "Stalled=True/ProgressDeadlineExceeded")
	harness.Says(t, app, "Ready", "the spec is that of the last good ReplicaSet web-a. Only the content of ConfigMap settings has changed")
	m.Idle(t)
	if plane.Read(t, d); d.Spec.Template.Annotations[appv1.AnnotationConfig] != sum {
		t.Error("the content was rolled back")
	}
}

// TestRollbackOverUpgrade has a release with a newer rendering take over what an older one has rolled back, of a spec whose record is
// kept, and of one that is too long for that: no pod is replaced.
func TestRollbackOverUpgrade(t *testing.T) {
	t.Parallel()
	for name, size := range map[string]int{"short": 10, "long": 20 << 10} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ns := plane.Namespace(t)
			m := plane.Start(t, ns, harness.WithRendering(resource.RenderingGuardedProbes))
			app := newApp(ns, "web")
			app.Spec.Args = []string{strings.Repeat("x", size)}
			d, good := runsWell(t, app)
			setImage(t, app, "nginx:2")
			image(t, d, "nginx:2")
			stall(t, d)
			backAgain(t, d, good)
			plane.Stands(t, app, rolledBack...)
			m.Idle(t)
			m.Stop(t)
			was := whole(t, d)
			m = plane.Start(t, ns)
			m.Idle(t)
			untouched(t, d, was)
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
	m := guarded(t, ns)
	app := newApp(ns, "web")
	d, good := runsWell(t, app)
	setImage(t, app, "nginx:2")
	image(t, d, "nginx:2")
	stall(t, d)
	backAgain(t, d, good)
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
