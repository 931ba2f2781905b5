package integration

import (
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appv1 "huolala.cn/app-operator/api/v1"
	"huolala.cn/app-operator/internal/budget"
	"huolala.cn/app-operator/internal/children"
	"huolala.cn/app-operator/internal/heap"
	"huolala.cn/app-operator/test/harness"
)

// TestBeyondCacheBudget has an App for which the cache has no room, next to a plain one: it is created, changed, repaired, planned, pruned
// and found again after a restart as any other. It costs reads, and the plain one none.
func TestBeyondCacheBudget(t *testing.T) {
	t.Parallel()
	ns := plane.Namespace(t)
	m := plane.Start(t, ns, harness.WithNamespaceCache(1))
	large := newApp(ns, "large")
	large.Spec.Envs = newVariables(newIncompressibleText(200 << 10))
	d, s := createInPlace(t, large)
	completeRollout(t, d)
	plane.Stands(t, large, "Ready=True")

	plane.Change(t, d, func() { d.Spec.Template.Spec.Containers[0].Image = "theirs" })
	plane.Until(t, d, func() error { return checkContains(d.Spec.Template.Spec.Containers[0].Image, large.Spec.Image) })
	plane.Read(t, s)
	plane.Change(t, s, func() { s.Spec.Selector["theirs"] = "x" })
	plane.Until(t, s, func() error {
		if s.Spec.Selector["theirs"] != "" {
			return checkContains(s.Spec.Selector["theirs"], "")
		}
		return nil
	})
	m.Idle(t)
	if counts := m.Requests.Counts(); counts["get apps"] == 0 {
		t.Errorf("the App is not read: %v", counts)
	}

	m.Requests.Reset()
	setImage(t, large, "nginx:1.17")
	plane.Until(t, d, func() error { return checkContains(d.Spec.Template.Spec.Containers[0].Image, "nginx:1.17") })
	m.Idle(t)
	if counts := m.Requests.Counts(); counts["patch deployments"] != 1 || counts["patch services"] != 0 {
		t.Errorf("a change costs %v", counts)
	}

	setPaused(t, large, true)
	plane.Change(t, large, func() { large.Spec.Image = "nginx:1.18" })
	plane.Until(t, large, func() error {
		const want = "Deployment large: template.containers[large].image: nginx:1.17 -> nginx:1.18"
		if pending := strings.Join(large.Status.Pending, "\n"); !strings.Contains(pending, want) {
			return fmt.Errorf("%q waits, want %q: generation %d, status %+v", pending, want, large.Generation, large.Status)
		}
		return nil
	})
	setPaused(t, large, false)
	plane.Until(t, d, func() error { return checkContains(d.Spec.Template.Spec.Containers[0].Image, "nginx:1.18") })

	plain := newApp(ns, "plain")
	m.Idle(t)
	m.Requests.Reset()
	plane.Create(t, plain)
	checkRequests(t, m, "a plain App", map[string]int{"patch deployments": 1, "patch services": 1, "patch apps/status": 1, "create events": 1})

	m.Stop(t)
	m = plane.Start(t, ns, harness.WithNamespaceCache(1))
	m.Idle(t)
	if stored := m.Requests.Stored(); len(stored) > 0 || countReads(m) > 6 {
		t.Errorf("a restart writes %v and reads %d objects", stored, countReads(m))
	}
	plane.Read(t, large)
	plane.Change(t, large, func() { large.Spec.Ports = nil })
	plane.Gone(t, s)
}

// TestPlainAppNeedsNoBudget measures an App with twenty variables and its children as the API server has them: together they take at most
// half of what counts for no namespace.
func TestPlainAppNeedsNoBudget(t *testing.T) {
	t.Parallel()
	ns, _ := plane.Shared(t)
	app := newApp(ns, "web")
	for i := range 20 {
		app.Spec.Envs = append(app.Spec.Envs, corev1.EnvVar{Name: fmt.Sprint("VARIABLE_", i), Value: strings.Repeat("v", 40)})
	}
	d, s := createInPlace(t, app)
	completeRollout(t, d)
	plane.Stands(t, app, "Ready=True")
	plane.Read(t, d)
	total := heap.Size(app)
	for _, obj := range []client.Object{d, s} {
		children.TypeOf(obj).Keep(obj, true)
		total += heap.Size(obj)
	}
	if most := budget.NewLimits(0).Owner / 2; total > most {
		t.Errorf("the App and its children take %d bytes, at most %d are right", total, most)
	}
	t.Logf("%d bytes", total)
}

// TestForgedOwners gives Services an owner reference with the UID of an App that lives, of another kind and in another namespace: nothing is
// written to them or deleted, and the App has its own.
func TestForgedOwners(t *testing.T) {
	t.Parallel()
	ns, m := plane.Shared(t)
	app := newApp(ns, "web")
	createInPlace(t, app)
	m.Idle(t)
	m.Requests.Reset()
	forge := func(namespace, name, kind string) *corev1.Service {
		s := newHandMadeService(namespace, name)
		s.Labels[appv1.LabelManagedBy], s.Labels[appv1.LabelInstance] = appv1.ManagedBy, "web"
		s.Annotations = map[string]string{"theirs": strings.Repeat("a", 200<<10), appv1.AnnotationLastAppliedHash: "sum"}
		s.OwnerReferences = []metav1.OwnerReference{{
			APIVersion: appv1.GroupVersion.String(), Kind: kind, Name: "web", UID: app.UID, Controller: ptr.To(true),
		}}
		plane.Create(t, s)
		return s
	}
	forged := []*corev1.Service{forge(ns, "forged-kind", "ModelBox"), forge(plane.Namespace(t), "forged-namespace", "App")}
	for range 3 {
		m.Idle(t)
	}
	if got := m.Requests.Counts(); len(got) > 0 {
		t.Errorf("forged references cost %v", got)
	}
	for _, s := range forged {
		plane.Read(t, s)
	}
}
