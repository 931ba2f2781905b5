package integration

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appv1 "huolala.cn/app-operator/api/v1"
	"huolala.cn/app-operator/test/harness"
)

// TestEachRepairHasAnEvent changes three fields of one Deployment, one after the other and each by another client. Each repair has
// an event of its own that says what was repaired and who had changed it: as a series of the first, the others would be lost.
func TestEachRepairHasAnEvent(t *testing.T) {
	t.Parallel()
	ns, m := plane.Shared(t)
	app := newApp(ns, "web")
	app.Spec.Envs = []corev1.EnvVar{{Name: "DEMO", Value: "app"}}
	d, _ := createInPlace(t, app)
	want := []string{"Normal Created: Created Deployment web, Service web"}
	for _, c := range []struct {
		by, field string
		at        func() *string
	}{
		{"kubectl-set", "image", func() *string { return &containerOf(d).Image }},
		{"kubectl-edit", "env[DEMO]", func() *string { return &containerOf(d).Env[0].Value }},
		{"argocd-controller", "imagePullPolicy", func() *string { return (*string)(&containerOf(d).ImagePullPolicy) }},
	} {
		plane.Read(t, d)
		was, theirs := *c.at(), "theirs"
		if c.field == "imagePullPolicy" {
			theirs = string(corev1.PullNever)
		}
		plane.Change(t, d, func() { *c.at() = theirs }, client.FieldOwner(c.by))
		plane.Until(t, d, func() error { return diffOf(was, *c.at()) })
		m.Idle(t)
		want = append(want, fmt.Sprintf("Normal Repaired: Repaired Deployment web: %s, changed by %s", c.field, c.by))
	}
	slices.Sort(want)
	harness.Eventually(t, func() error { return diffOf(want, listEvents(t, app)) })
	var events eventsv1.EventList
	if err := plane.Client.List(t.Context(), &events, client.InNamespace(ns)); err != nil {
		t.Fatal(err)
	}
	for _, e := range events.Items {
		if e.Series != nil {
			t.Errorf("%q is a series of %d", e.Note, e.Series.Count)
		}
	}
}

// TestOneEditIsNoConflict edits the Deployments of six Apps once each, in a way whose repair takes more than one request, while
// their status keeps being written, as a Deployment's controller does. Attempts that come too late count for no fight: no App
// reports a FieldConflict, neither in a condition nor in an event.
func TestOneEditIsNoConflict(t *testing.T) {
	t.Parallel()
	const apps, late = 6, 8 // More than the repairs after which there is a fight.
	ns := plane.Namespace(t)
	var edited atomic.Bool
	writes := make([]atomic.Int32, apps)
	m := plane.Start(t, ns, harness.WithFault(func(q harness.Request, send func() (*http.Response, error)) (*http.Response, error) {
		var i int
		if _, err := fmt.Sscanf(q.Name, "web-%d", &i); err == nil && edited.Load() && q.Verb == "patch" && q.Resource == "deployments" &&
			writes[i].Add(1) <= late {
			d := &appsv1.Deployment{}
			d.Namespace, d.Name = ns, q.Name
			patch := fmt.Appendf(nil, `{"status":{"collisionCount":%d}}`, writes[i].Load())
			if err := plane.Client.Status().Patch(t.Context(), d, client.RawPatch("application/merge-patch+json", patch)); err != nil {
				t.Error(err)
			}
		}
		return send()
	}))
	all := make([]*appv1.App, apps)
	for i := range all {
		all[i] = newApp(ns, fmt.Sprintf("web-%d", i))
		all[i].Spec.Strategy = appsv1.RollingUpdateDeploymentStrategyType
		all[i].Spec.Probes.Readiness = &corev1.Probe{ProbeHandler: corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{Port: intstr.FromInt32(80)}}}
		createInPlace(t, all[i])
	}
	m.Idle(t)
	edited.Store(true)
	want := make([]appsv1.DeploymentSpec, apps)
	for i, app := range all {
		d, _ := readChildren(t, app)
		want[i] = *d.Spec.DeepCopy()
		plane.Change(t, d, func() {
			containerOf(d).ReadinessProbe.ProbeHandler = corev1.ProbeHandler{TCPSocket: &corev1.TCPSocketAction{Port: intstr.FromInt32(81)}}
			d.Spec.Strategy = appsv1.DeploymentStrategy{Type: appsv1.RecreateDeploymentStrategyType}
		}, client.FieldOwner("kubectl-patch"))
	}
	for i, app := range all {
		d := deployment(app)
		plane.Until(t, d, func() error {
			if err := diffOf(want[i], d.Spec); err != nil {
				return fmt.Errorf("%s is not repaired: %q: %w", app.Name, listEvents(t, app), err)
			}
			return nil
		})
	}
	m.Idle(t)
	for i, app := range all {
		if n := writes[i].Load(); n <= late {
			t.Errorf("%s was repaired by %d requests: the test shows nothing", app.Name, n)
		}
		plane.Stands(t, app, progressing...)
		for _, note := range listEvents(t, app) {
			if strings.Contains(note, appv1.ReasonFieldConflict) {
				t.Errorf("%s: %s", app.Name, note)
			}
		}
	}
}
