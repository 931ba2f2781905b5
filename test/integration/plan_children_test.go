package integration

import (
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"huolala.cn/app-operator/api/plan"
	appv1 "huolala.cn/app-operator/api/v1"
	"huolala.cn/app-operator/test/harness"
)

// plannedNames are the kinds and names of the objects that a plan changes, sorted.
func plannedNames(made *plan.Plan) []string {
	var names []string
	for _, o := range made.Objects {
		if o.Action != plan.Blocked {
			names = append(names, o.Kind+" "+o.Name)
		}
	}
	slices.Sort(names)
	return names
}

// planAndChange plans a change of an App and makes it: the objects that change are exactly those of the plan, and pods are replaced if it
// says so. It returns the lines of the plan.
func planAndChange(t *testing.T, m *harness.Manager, app *appv1.App, what string, change func()) string {
	t.Helper()
	d := deployment(app)
	completeRollout(t, d)
	m.Idle(t)
	was, template := plane.Snapshot(t, app.Namespace, app.Name), d.Spec.Template.DeepCopy()
	plane.Read(t, app)
	before := app.DeepCopy()
	change()
	m.Requests.Reset()
	made := askPlan(t, plane.Client, app.DeepCopy())
	lines := strings.Join(made.Lines(1000, 1000), "\n")
	if got := m.Requests.Stored(); len(got) > 0 {
		t.Errorf("%s: the plan has written %v", what, got)
	}
	wanted := app.DeepCopy()
	before.DeepCopyInto(app)
	plane.Change(t, app, func() { app.Spec, app.Annotations = wanted.Spec, wanted.Annotations })
	m.Idle(t)
	completeRollout(t, d) // What follows the readiness of the pods is a part of the plan.
	m.Idle(t)
	if changed := harness.Changed(was, plane.Snapshot(t, app.Namespace, app.Name)); !slices.Equal(plannedNames(made), changed) {
		t.Errorf("%s: planned are %q, and changed are %q:\n%s", what, plannedNames(made), changed, lines)
	}
	plane.Read(t, d)
	replaced := !equality.Semantic.DeepEqual(&d.Spec.Template, template)
	if says := made.ReplacedPods() > 0; says != replaced || made.Problem != nil || made.Incomplete {
		t.Errorf("%s: pods are replaced: %t, and the plan says:\n%s", what, replaced, lines)
	}
	return lines
}

// TestPlanOfEveryChild makes each kind of change of each object that an App can have, and plans it before.
func TestPlanOfEveryChild(t *testing.T) {
	t.Parallel()
	ns := plane.Namespace(t)
	m := startGuarded(t, ns)
	app := newServed(ns, "web")
	app.Spec.Replicas = ptr.To[int32](3)
	createInPlace(t, app)
	expect := func(what, said string, want ...string) {
		t.Helper()
		for _, line := range want {
			if !strings.Contains(said, line) {
				t.Errorf("%s: the plan lacks %q:\n%s", what, line, said)
			}
		}
		if strings.Contains(said, "pods become") {
			t.Errorf("%s: the number of pods stays, and the plan says:\n%s", what, said)
		}
	}
	for _, name := range blockNames {
		b := blocks[name]
		gvk, err := plane.Client.GroupVersionKindFor(b.object)
		if err != nil {
			t.Fatal(err)
		}
		expect("state "+name, planAndChange(t, m, app, "state "+name, func() { b.set(&app.Spec.ServingSpec) }), gvk.Kind+" web: created")
		expect("change "+name, planAndChange(t, m, app, "change "+name, func() { b.change(&app.Spec.ServingSpec) }), gvk.Kind+" web: changed")
	}
	expect("another image", planAndChange(t, m, app, "another image", func() { app.Spec.Image = "nginx:2" }),
		"Deployment web: changed, 3 pods are replaced")
	giveEndpoint(t, ns, "shop", true)
	expect("another name", planAndChange(t, m, app, "another name", func() { app.Spec.Service.Name = "shop" }),
		"Service shop: created", "Service web: deleted", "Ingress web: changed", "no pod is replaced")
	expect("remove all blocks", planAndChange(t, m, app, "remove all blocks", func() {
		for _, name := range blockNames {
			blocks[name].clear(&app.Spec.ServingSpec)
		}
	}), "ServiceAccount web: deleted", "HorizontalPodAutoscaler web: deleted", "Ingress web: deleted", "Deployment web: changed, 3 pods are replaced")
	expect("its own name again", planAndChange(t, m, app, "its own name again", func() { app.Spec.Service.Name = "" }),
		"Service web: created", "Service shop: deleted")
}

// TestPlanOfBlockedChildren plans objects around the pods that cannot be made: a kind that the cluster lacks, and an object of
// another owner. The plan says so and has all the rest.
func TestPlanOfBlockedChildren(t *testing.T) {
	t.Parallel()
	ns := plane.Namespace(t)
	m := startGuarded(t, ns)
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "web"}}
	plane.Create(t, account)
	want := func(app *appv1.App, what string, lines ...string) {
		t.Helper()
		made := askPlan(t, plane.Client, app)
		said := strings.Join(made.Lines(100, 400), "\n")
		for _, line := range lines {
			if !strings.Contains(said, line) {
				t.Errorf("%s: the plan lacks %q:\n%s", what, line, said)
			}
		}
		if made.Problem != nil {
			t.Errorf("%s: the whole change has a problem: %+v", what, made.Problem)
		}
	}
	missing := []string{
		"HTTPRoute web: blocked: KindMissing: the cluster has no HTTPRoute", "PodMonitor web: blocked: KindMissing: the cluster has no PodMonitor",
		"Ingress web: created",
	}
	app := newOptionalApp(ns, "web")
	blocks["ingress"].set(&app.Spec.ServingSpec)
	app.Spec.PodSecurityContext, app.Spec.SecurityContext = restrictedContexts() // Else the namespace is read for a warning.
	m.Requests.Reset()
	want(app.DeepCopy(), "a creation", append(missing, "Deployment web: created")...)
	if got := m.Requests.Counts(); len(got) > 0 {
		t.Errorf("the plan of a creation costs %v", got)
	}
	plain := newApp(ns, "web")
	d, _ := createInPlace(t, plain)
	completeRollout(t, d)
	m.Idle(t)
	plane.Read(t, plain)
	wanted := plain.DeepCopy()
	wanted.Spec = app.Spec
	wanted.Spec.ServiceAccount, wanted.Spec.Image = &appv1.ServiceAccountSpec{}, "nginx:2"
	m.Requests.Reset()
	want(wanted, "a change", append(missing, "ServiceAccount web: blocked: ResourceExists: ", "Deployment web: changed, 2 pods are replaced")...)
	if got := m.Requests.Stored(); len(got) > 0 {
		t.Errorf("the plan has written %v", got)
	}
	if n := countDiscoveries(m); n > 0 {
		t.Errorf("the plan has asked %d times what the API server serves", n)
	}
}

// TestPlanOfNodePorts plans another name of a Service with ports on the nodes, which the cluster has once: the Service that has
// them goes.
func TestPlanOfNodePorts(t *testing.T) {
	t.Parallel()
	ns := plane.Namespace(t)
	m := startGuarded(t, ns)
	app := newApp(ns, "web")
	app.Spec.Service = appv1.ServiceSpec{Type: corev1.ServiceTypeNodePort}
	app.Spec.Ports[0].NodePort = 30078
	createInPlace(t, app)
	said := planAndChange(t, m, app, "another name", func() { app.Spec.Service.Name = "shop" })
	for _, line := range []string{"Service shop: created", "Service web: deleted", "no pod is replaced"} {
		if !strings.Contains(said, line) {
			t.Errorf("the plan lacks %q:\n%s", line, said)
		}
	}
}

// TestPlanOfContent plans changes of an App that follows a ConfigMap. A plan reads content and has what follows from it, and follows
// nothing itself.
func TestPlanOfContent(t *testing.T) {
	t.Parallel()
	ns := plane.Namespace(t)
	m := startGuarded(t, ns)
	app, config := newFollower(ns, "web"), newConfigMap(ns, "settings", map[string]string{"level": "1", "unused": "1"})
	other := newConfigMap(ns, "other", map[string]string{"level": "1"})
	plane.Create(t, other)
	d := settleConfig(t, app, config)
	m.Idle(t)
	label := func(a *appv1.App) { a.Spec.Labels = map[string]string{"team": "a"} }
	lines := func(change func(*appv1.App)) string {
		t.Helper()
		plane.Read(t, app)
		wanted := app.DeepCopy()
		change(wanted)
		made := askPlan(t, plane.Client, wanted)
		if made.Problem != nil || made.Incomplete {
			t.Errorf("the plan is %+v", made)
		}
		return strings.Join(made.Lines(100, 400), "\n")
	}
	if said := lines(label); !strings.Contains(said, "no pod is replaced") {
		t.Errorf("with the content that the pods have, the plan says:\n%s", said)
	}
	another := func(a *appv1.App) { a.Spec.Envs[0].ValueFrom.ConfigMapKeyRef.Name = "other" }
	if said := lines(another); !strings.Contains(said, "Deployment web: changed, 2 pods are replaced") {
		t.Errorf("of another ConfigMap, the plan says:\n%s", said)
	}
	// The ConfigMap that only a plan has named is not followed, and the other one is.
	m.Requests.Reset()
	setData(t, other, "level", "2")
	awaitQuietContent(t, ns)
	if got := countsOf(m, "other"); len(got) > 0 {
		t.Errorf("what a plan has named is followed: %v", got)
	}
	sum := d.Spec.Template.Annotations[appv1.AnnotationConfig]
	setData(t, config, "level", "2")
	if said := lines(label); !strings.Contains(said, "Deployment web: changed, 2 pods are replaced") {
		t.Errorf("with content that waits, the plan says:\n%s", said)
	}
	awaitConfigSum(t, d, sum)
}
