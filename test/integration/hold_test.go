package integration

import (
	"fmt"
	"maps"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	appv1 "huolala.cn/app-operator/api/v1"
	"huolala.cn/app-operator/test/fixture"
	"huolala.cn/app-operator/test/harness"
)

// revision plays the Deployment's controller: it makes the ReplicaSet of the present template, one pod of it in the place of all
// others, and has the Deployment be available.
func revision(t testing.TB, d *appsv1.Deployment, hash string) *appsv1.ReplicaSet {
	t.Helper()
	set := newReplicaSet(t, d, hash)
	plane.Create(t, set)
	runs(t, d, set)
	return set
}

// newReplicaSet returns the ReplicaSet that the Deployment's controller makes of the present template.
func newReplicaSet(t testing.TB, d *appsv1.Deployment, hash string) *appsv1.ReplicaSet {
	t.Helper()
	plane.Read(t, d)
	set := &appsv1.ReplicaSet{ObjectMeta: metav1.ObjectMeta{Namespace: d.Namespace, Name: d.Name + "-" + hash}}
	set.Annotations = maps.Clone(d.Annotations)
	set.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(d, appsv1.SchemeGroupVersion.WithKind("Deployment"))}
	set.Spec.Template = *d.Spec.Template.DeepCopy()
	set.Spec.Template.Labels[appsv1.DefaultDeploymentUniqueLabelKey] = hash
	set.Labels = set.Spec.Template.Labels
	set.Spec.Selector = &metav1.LabelSelector{MatchLabels: set.Labels}
	return set
}

// runs has one pod of a ReplicaSet be all that there is, and the Deployment be available with it.
func runs(t testing.TB, d *appsv1.Deployment, set *appsv1.ReplicaSet) {
	t.Helper()
	old := &corev1.PodList{}
	if err := plane.Client.List(t.Context(), old); err != nil {
		t.Fatal(err)
	}
	for i := range old.Items {
		if old.Items[i].Namespace == d.Namespace {
			plane.Delete(t, &old.Items[i])
		}
	}
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: d.Namespace, GenerateName: set.Name + "-", Labels: set.Spec.Template.Labels}}
	pod.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(set, appsv1.SchemeGroupVersion.WithKind("ReplicaSet"))}
	pod.Spec = set.Spec.Template.Spec
	plane.Create(t, pod)
	settle(t, d)
}

// TestHold holds an App at an earlier ReplicaSet and lets it go again: as long as it is held, its spec waits, and it costs nothing.
func TestHold(t *testing.T) {
	t.Parallel()
	ns := plane.Namespace(t)
	m := plane.Start(t, ns)
	app := newApp(ns, "web")
	d, _ := start(t, app)
	first := revision(t, d, "a")
	plane.Until(t, app, func() error {
		if good := app.Status.LastGood; good == nil || good.ReplicaSet != "web-a" || good.Image != "nginx:1.16.1" || app.Status.ReplicaSet != "web-a" {
			settle(t, d) // Its pod may be seen later than its figures.
			return fmt.Errorf("the history is %+v", app.Status.HistoryStatus)
		}
		return nil
	})
	setImage(t, app, "nginx:2")
	image(t, d, "nginx:2")
	m.Idle(t)
	step := func(what string, do func(), want map[string]int) {
		t.Helper()
		m.Requests.Reset()
		do()
		counts(t, m, what, want)
	}
	restored := map[string]int{"get replicasets": 1, "patch deployments": 1, "patch apps/status": 1, "create events": 1}
	step("hold", func() { annotate(t, app, appv1.AnnotationHold, appv1.HoldLastGood) }, restored)
	image(t, d, "nginx:1.16.1")
	built := d.Spec.Template.DeepCopy()
	built.Labels[appsv1.DefaultDeploymentUniqueLabelKey] = "a"
	if fmt.Sprint(built.Labels, built.Annotations) != fmt.Sprint(first.Spec.Template.Labels, first.Spec.Template.Annotations) ||
		built.Spec.String() != first.Spec.Template.Spec.String() {
		t.Errorf("the held template is not that of the ReplicaSet:\n%+v\n%+v", built, first.Spec.Template)
	}
	step("its pods are available", func() { runs(t, d, first) }, map[string]int{"patch apps/status": 1})
	held := []string{"Applied=False/Held", "Ready=False/Held", "Reconciling=False/Held", "Stalled=False"}
	plane.Stands(t, app, held...)
	harness.Says(t, app, "Ready", "ReplicaSet web-a (nginx:1.16.1) is held", "the spec waits")
	if app.Spec.Image != "nginx:2" {
		t.Errorf("the spec was written: %s", app.Spec.Image)
	}
	step("nothing", func() {}, map[string]int{})
	step("long annotations of others", func() { annotate(t, app, "example.com/long", strings.Repeat("v", 20<<10)) }, map[string]int{})
	step("another spec", func() { setImage(t, app, "nginx:3") }, map[string]int{"patch apps/status": 1})
	step("a drift", func() {
		plane.Read(t, d)
		plane.Change(t, d, func() { d.Spec.Template.Spec.Containers[0].Image = "x" })
	}, map[string]int{"patch deployments": 1, "patch apps/status": 1, "create events": 1})
	step("another number of pods", func() {
		plane.Read(t, app)
		plane.Change(t, app, func() { app.Spec.Replicas = ptr.To[int32](3) })
	}, map[string]int{"patch deployments": 1, "patch apps/status": 1, "create events": 1})
	if plane.Read(t, d); *d.Spec.Replicas != 3 || d.Spec.Template.Spec.Containers[0].Image != "nginx:1.16.1" {
		t.Errorf("%d pods run %s", *d.Spec.Replicas, d.Spec.Template.Spec.Containers[0].Image)
	}
	settle(t, d)
	plane.Stands(t, app, held...)
	m.Idle(t)
	m.Stop(t)
	m = plane.Start(t, ns)
	m.Idle(t)
	if got := m.Requests.Writes(); len(got) > 0 || m.Requests.Counts()["get replicasets"] > 0 {
		t.Errorf("the next manager has sent %v", m.Requests.Counts())
	}
	plane.Stands(t, app, held...)
	step("let go", func() { annotate(t, app, appv1.AnnotationHold, "") },
		map[string]int{"patch deployments": 1, "patch apps/status": 1, "create events": 1})
	image(t, d, "nginx:3")
	if mark := d.Annotations[appv1.AnnotationHeld]; mark != "" {
		t.Errorf("the mark is left: %s", mark)
	}
	settle(t, d)
	plane.Stands(t, app, "Applied=True/Applied", "Ready=True")
}

// TestHoldOfModelBox holds a ModelBox by the name of a ReplicaSet.
func TestHoldOfModelBox(t *testing.T) {
	t.Parallel()
	ns, _ := plane.Shared(t)
	box := fixture.NewModelBox(ns, "box")
	plane.Create(t, box)
	d := namedDeployment(ns, "box")
	plane.Until(t, d, func() error { return nil })
	was := d.Spec.Template.Spec.Containers[0].Image
	revision(t, d, "a")
	plane.Read(t, box)
	plane.Change(t, box, func() { box.Spec.Image = "nginx:2" })
	image(t, d, "nginx:2")
	annotate(t, box, appv1.AnnotationHold, "box-a")
	image(t, d, was)
	settle(t, d)
	plane.Stands(t, box, "Applied=False/Held", "Ready=False/Held")
	annotate(t, box, appv1.AnnotationHold, "")
	image(t, d, "nginx:2")
}

// TestHoldWithoutThePort holds a revision whose Service lacks the port that the Ingress leads to. The Ingress stays, and the condition says
// that requests fail, for as long as that is so.
func TestHoldWithoutThePort(t *testing.T) {
	t.Parallel()
	ns, m := plane.Shared(t)
	app := newServed(ns, "web", "ingress")
	app.Spec.Ingress.Port = ptr.To(intstr.FromInt32(8080))
	start(t, app)
	m.Idle(t)
	ranWell(t, app)
	annotate(t, app, appv1.AnnotationHold, appv1.HoldLastGood)
	plane.Stands(t, app, "Applied=False/Held", "Exposed=False/Held")
	harness.Says(t, app, "Exposed", "Ingress web has no backend", "port of spec.ingress", "Correct the spec")
	leadsTo(t, ns, "web")
	m.Idle(t)
	m.Requests.Reset()
	annotate(t, app, "example.com/look", "again")
	counts(t, m, "another look", map[string]int{})

	plane.Read(t, app)
	plane.Change(t, app, func() { app.Spec.Ingress.Port = nil })
	plane.Stands(t, app, "Applied=False/Held", "Exposed=Unknown/"+appv1.ReasonNoAddress)
	annotate(t, app, appv1.AnnotationHold, "")
	plane.Stands(t, app, "Applied=True/Applied", "Exposed=Unknown/"+appv1.ReasonNoAddress)
}

// TestHoldOfNothing asks for ReplicaSets that cannot be held: nothing changes, and the App says which there are.
func TestHoldOfNothing(t *testing.T) {
	t.Parallel()
	ns, m := plane.Shared(t)
	app := newApp(ns, "web")
	d, _ := start(t, app)
	revision(t, d, "a")
	plane.Stands(t, app, "Ready=True")
	setImage(t, app, "nginx:2")
	image(t, d, "nginx:2")
	edited := revision(t, d, "edited")
	plane.Change(t, edited, func() {
		edited.Annotations[appv1.AnnotationLastAppliedSpec] = `{"image":"evil:1","ports":[{"port":8080,"targetPort":80}]}`
	})
	bare := revision(t, d, "bare")
	plane.Change(t, bare, func() { bare.Annotations = nil })
	other := revision(t, d, "other")
	plane.Change(t, other, func() { other.OwnerReferences = nil })
	settle(t, d)
	plane.Stands(t, app, "Ready=True")
	m.Idle(t)
	was := whole(t, d)
	const noName = "is not the name of a ReplicaSet"
	for name, cause := range map[string]string{
		"web-none": "does not exist", "web-edited": "has no record", "web-bare": "has no record", "web-other": "belongs to another",
		"a/b": noName, "..": noName, "two words": noName, "A": noName, strings.Repeat("x", 300): noName, strings.Repeat("y", 20<<10): noName,
	} {
		annotate(t, app, appv1.AnnotationHold, name)
		if cause != noName {
			cause = name + " " + cause
		}
		plane.Until(t, app, func() error {
			if message := harness.Message(app, "Stalled"); !holdsAll(message, cause, "The status names ") {
				return fmt.Errorf("%s: it says %q", name, message)
			}
			return nil
		})
		plane.Stands(t, app, "Applied=False/RevisionNotFound", "Ready=False/RevisionNotFound", "Stalled=True/RevisionNotFound")
	}
	m.Idle(t)
	untouched(t, d, was)
	m.Requests.Reset()
	counts(t, m, "nothing", map[string]int{})
	annotate(t, app, appv1.AnnotationHold, "")
	plane.Stands(t, app, "Applied=True", "Ready=True", "Stalled=False")
	untouched(t, d, was)
}

// TestLastGoodWhilePaused edits the Deployment of a paused App by hand: what runs then is not taken for a good revision of the spec.
func TestLastGoodWhilePaused(t *testing.T) {
	t.Parallel()
	ns, m := plane.Shared(t)
	app := newApp(ns, "web")
	d, _ := start(t, app)
	revision(t, d, "a")
	isLastGood(t, app, d, "web-a")
	setPaused(t, app, true)
	plane.Stands(t, app, "Reconciling=False/Paused")
	plane.Read(t, d)
	plane.Change(t, d, func() { container(d).Image = "other/image" })
	revision(t, d, "hand")
	plane.Until(t, app, func() error {
		if app.Status.ReplicaSet != "web-hand" {
			settle(t, d) // Its pod may be seen later than its figures.
			return fmt.Errorf("the status has ReplicaSet %s", app.Status.ReplicaSet)
		}
		return nil
	})
	m.Idle(t)
	plane.Read(t, app)
	if good := app.Status.LastGood; good.ReplicaSet != "web-a" {
		t.Errorf("the last good ReplicaSet is %s", good.ReplicaSet)
	}
}

// TestPlanOfHold plans a hold, and a change of the spec while it is in force.
func TestPlanOfHold(t *testing.T) {
	t.Parallel()
	ns := plane.Namespace(t)
	m := guarded(t, ns)
	app := newApp(ns, "web")
	d, _ := start(t, app)
	revision(t, d, "a")
	plane.Stands(t, app, "Ready=True")
	setImage(t, app, "nginx:2")
	image(t, d, "nginx:2")
	settle(t, d)
	plane.Stands(t, app, "Ready=True")
	m.Idle(t)
	expect := func(what string, wanted *appv1.App, lines ...string) {
		t.Helper()
		made := askPlan(t, plane.Client, wanted)
		said := strings.Join(made.Lines(100, 400), "\n")
		if !holdsAll(said, lines...) || made.Problem == nil || made.Problem.Reason != appv1.ReasonHeld {
			t.Errorf("%s: the plan says:\n%s", what, said)
		}
	}
	plane.Read(t, app)
	wanted := app.DeepCopy()
	wanted.Annotations = map[string]string{appv1.AnnotationHold: "web-a"}
	m.Requests.Reset()
	expect("a hold", wanted, "Deployment web: changed, 2 pods are replaced", "image: nginx:2 -> nginx:1.16.1", "Held: ReplicaSet web-a (nginx:1.16.1) is held")
	if got := m.Requests.Stored(); len(got) > 0 {
		t.Errorf("the plan has written %v", got)
	}
	annotate(t, app, appv1.AnnotationHold, "web-a")
	image(t, d, "nginx:1.16.1")
	m.Idle(t)
	plane.Read(t, app)
	wanted = app.DeepCopy()
	wanted.Spec.Image = "nginx:3"
	expect("another image", wanted, "Held: ReplicaSet web-a")
	if made := askPlan(t, plane.Client, wanted); len(made.Objects) > 0 {
		t.Errorf("while it is held, a change changes %v", plannedNames(made))
	}
}

func holdsAll(message string, parts ...string) bool {
	for _, part := range parts {
		if !strings.Contains(message, part) {
			return false
		}
	}
	return true
}
