package workload

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/utils/ptr"

	appv1 "huolala.cn/app-operator/api/v1"
	"huolala.cn/app-operator/test/harness"
)

// statusWrites returns how many status writes there were, and how many there may be: one as the rollout begins, one as it ends, and one for
// each begun second between these two, by the clock of the manager. That makes at most four below two seconds, and does not depend on the
// number of pods.
func statusWrites(requests []harness.Request) (writes, most int) {
	var first, last time.Time
	for _, q := range requests {
		if q.Verb != "patch" || q.Resource != "apps/status" {
			continue
		}
		if writes++; writes == 1 || q.Sent.Before(first) {
			first = q.Sent
		}
		if q.Sent.After(last) {
			last = q.Sent
		}
	}
	return writes, 3 + int(last.Sub(first)/time.Second)
}

// TestRollout creates an App and changes its image: the status tells of the way there, and is not written for every
// step of every pod.
func TestRollout(t *testing.T) {
	t.Parallel()
	for _, replicas := range []int32{2, 20} {
		t.Run(fmt.Sprint(replicas), func(t *testing.T) {
			t.Parallel()
			ns, m := plane.Shared(t)
			j := harness.Follow[*appv1.App](t, plane, &appv1.AppList{}, ns)
			app := newApp(ns)
			app.Spec.Replicas = ptr.To(replicas)
			plane.Create(t, app)
			rolled(t, m, j, app, "creation")
			if n := replicaSets(t, ns); n != 1 {
				t.Errorf("%d ReplicaSets after the creation", n)
			}

			before := uids(t, ns)
			plane.Change(t, app, func() { app.Spec.Image = "nginx:1.17.0" })
			rolled(t, m, j, app, "change of the image")
			if n := replicaSets(t, ns); n != 2 {
				t.Errorf("%d ReplicaSets after the change of the image", n)
			}
			if n := shared(before, uids(t, ns)); n != 0 {
				t.Errorf("%d pods survived the change of the image", n)
			}
		})
	}
}

// rolled waits until a rollout is over, and checks what was said and written on the way.
func rolled(t *testing.T, m *harness.Manager, j *harness.Journal[*appv1.App], app *appv1.App, what string) {
	t.Helper()
	generation := app.Generation
	ready(t, app)
	m.Idle(t)
	if want := fmt.Sprintf("%d/%[1]d", *app.Spec.Replicas); read(t, app).Status.Ready != want {
		t.Errorf("%s: ready %s, want %s", what, app.Status.Ready, want)
	}
	t.Logf("%s of %d pods: %v", what, *app.Spec.Replicas, m.Requests.Counts())
	if writes, most := statusWrites(m.Requests.All()); writes > most {
		t.Errorf("%s: %d status writes, want at most %d", what, writes, most)
		for _, state := range j.UpTo(t, app) {
			t.Logf("generation %d, ready %s: %s", state.Generation, state.Status.Ready, harness.Message(state, "Ready"))
		}
	}
	m.Requests.Reset()
	if first := slices.IndexFunc(j.UpTo(t, app), func(a *appv1.App) bool {
		c := meta.FindStatusCondition(a.Status.Conditions, appv1.ConditionReady)
		return c != nil && a.Status.ObservedGeneration == generation && c.Status == "False" && c.Reason == appv1.ReasonProgressing &&
			meta.IsStatusConditionTrue(a.Status.Conditions, appv1.ConditionReconciling)
	}); first < 0 {
		t.Errorf("%s: the App was never Progressing", what)
	}
}

// TestScale scales an App up, down, to nothing and back; no pod that stays is replaced.
func TestScale(t *testing.T) {
	t.Parallel()
	ns, m := plane.Shared(t)
	app := newApp(ns)
	plane.Create(t, app)
	ready(t, app)
	before := uids(t, ns)

	scale := func(n int) {
		t.Helper()
		plane.Change(t, app, func() { app.Spec.Replicas = ptr.To(int32(n)) })
		readyPods(t, app, n)
	}
	scale(5)
	if n := shared(before, uids(t, ns)); n != 2 {
		t.Errorf("%d of 2 pods are left after scaling up", n)
	}
	before = uids(t, ns)
	scale(1)
	if n := shared(before, uids(t, ns)); n != 1 {
		t.Errorf("scaling down left %d of the earlier pods", n)
	}
	scale(0)
	plane.Stands(t, app, "Ready=True/ScaledToZero")
	read(t, service(app))
	scale(2)
	plane.Stands(t, app, "Ready=True/Ready")
	if n := replicaSets(t, ns); n != 1 {
		t.Errorf("%d ReplicaSets: scaling has changed the pod template", n)
	}
	if counts := m.Requests.Writes(); counts["patch services"] != 1 || counts["patch deployments"] != 5 {
		t.Errorf("writes of a creation and four scalings: %v", counts)
	}
}

// TestZeroReplicas creates an App of no pods.
func TestZeroReplicas(t *testing.T) {
	t.Parallel()
	ns, _ := plane.Shared(t)
	app := newApp(ns)
	app.Spec.Replicas = ptr.To[int32](0)
	plane.Create(t, app)
	plane.Stands(t, app, "Ready=True/ScaledToZero", "Reconciling=False/Settled", "Stalled=False")
	if app.Status.Ready != "0/0" {
		t.Errorf("ready %s", app.Status.Ready)
	}
	if k := newKubectl(t, ns); !slices.Equal(k.table("get", "app", "web", "--no-headers")[0][:3], []string{"web", "0/0", "ScaledToZero"}) {
		t.Errorf("kubectl get app: %s", k.run("get", "app"))
	}
}

// TestRolloutRestart restarts the Deployment with kubectl: the pods are replaced, and the annotation that says so is the
// user's to keep.
func TestRolloutRestart(t *testing.T) {
	t.Parallel()
	const restartedAt = "kubectl.kubernetes.io/restartedAt"
	ns, m := plane.Shared(t)
	app := newApp(ns)
	plane.Create(t, app)
	ready(t, app)
	before := uids(t, ns)
	m.Idle(t)
	m.Requests.Reset()

	k := newKubectl(t, ns)
	k.run("rollout", "restart", "deployment/web")
	k.run("rollout", "status", "deployment/web", "--timeout="+harness.Patience.String())
	ready(t, app)
	m.Idle(t)
	restarted := func(d *appsv1.Deployment) error {
		if d.Spec.Template.Annotations[restartedAt] == "" {
			return fmt.Errorf("%s is gone", restartedAt)
		}
		return nil
	}
	if err := restarted(read(t, deployment(app))); err != nil {
		t.Error(err)
	}
	if n := shared(before, uids(t, ns)); n != 0 {
		t.Errorf("%d pods were not replaced", n)
	}
	if n := m.Requests.Counts()["patch deployments"]; n != 0 {
		t.Errorf("the operator wrote the Deployment %d times", n)
	}

	plane.Change(t, app, func() { app.Spec.Image = "nginx:1.17.0" })
	ready(t, app)
	if err := restarted(read(t, deployment(app))); err != nil {
		t.Errorf("after a change of the image: %v", err)
	}
}

// TestRolloutPaused pauses the Deployment's rollouts with kubectl, which is the user's right: the App says what it waits
// for.
func TestRolloutPaused(t *testing.T) {
	t.Parallel()
	ns, _ := plane.Shared(t)
	app := newApp(ns)
	plane.Create(t, app)
	ready(t, app)
	before := uids(t, ns)

	k := newKubectl(t, ns)
	k.run("rollout", "pause", "deployment/web")
	plane.Change(t, app, func() { app.Spec.Image = "nginx:1.17.0" })
	plane.Until(t, app, func() error {
		if said := harness.Message(app, "Ready"); !strings.Contains(said, "kubectl rollout resume deployment/web") {
			return fmt.Errorf("the message does not say what to do: %s", said)
		}
		return nil
	})
	plane.Stands(t, app, "Ready=False/RolloutPaused", "Reconciling=True/RolloutPaused", "Stalled=False")
	undisturbed(t, ns, before, "pause of the rollout")

	k.run("rollout", "resume", "deployment/web")
	ready(t, app)
	if n := shared(before, uids(t, ns)); n != 0 {
		t.Errorf("%d pods were not replaced", n)
	}
}
