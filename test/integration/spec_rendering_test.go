package integration

import (
	"fmt"
	"maps"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	appv1 "huolala.cn/app-operator/api/v1"
	"huolala.cn/app-operator/resource"
	"huolala.cn/app-operator/test/fixture"
	"huolala.cn/app-operator/test/harness"
)

// podLabels are those of an App's pods in a rendering.
func podLabels(app *appv1.App, rendering int32) map[string]string {
	labels := map[string]string{appv1.LabelApp: app.Name}
	if rendering != resource.RenderingTutorial {
		maps.Copy(labels, childLabels(app.Name))
	}
	return labels
}

// checkRendering fails the test if the Deployment's template, its record, or the App's status tells of another rendering than
// wanted; latest is what the status says of a newer one.
func checkRendering(t *testing.T, app *appv1.App, inputs string, rendering, latest int32) {
	t.Helper()
	plane.Read(t, app)
	d := deployment(app)
	plane.Read(t, d)
	if err := diffOf(podLabels(app, rendering), d.Spec.Template.Labels); err != nil {
		t.Errorf("labels of the pods: %v", err)
	}
	if got := d.Annotations[appv1.AnnotationLastAppliedInputs]; got != inputs {
		t.Errorf("recorded inputs are %s, want %s", got, inputs)
	}
	if app.Status.Rendering != rendering || app.Status.LatestRendering != latest {
		t.Errorf("status has rendering %d, latest %d; want %d and %d", app.Status.Rendering, app.Status.LatestRendering, rendering, latest)
	}
}

// startRendering creates an App under an older release, ends that, and starts the current one over it.
func startRendering(t *testing.T) (*harness.Manager, *appv1.App, *appsv1.Deployment) {
	t.Helper()
	ns := plane.Namespace(t)
	m := plane.Start(t, ns, older)
	app := newApp(ns, "web")
	app.Spec.Envs = []corev1.EnvVar{{Name: "A", Value: "1"}}
	d, _ := createInPlace(t, app)
	checkRendering(t, app, `{"rendering":0}`, 0, 0)
	m.Idle(t)
	m.Stop(t)

	m = plane.Start(t, ns)
	// What is written is the news that there is a newer rendering.
	checkRequests(t, m, "upgrade", map[string]int{"patch apps/status": 1})
	sameTemplate(t, d, d.Spec.Template)
	checkRendering(t, app, `{"rendering":0}`, 0, 2)
	return m, app, d
}

// TestUpgrade starts a release with a new rendering over an App of an older one. Nothing may restart the pods before
// their owner changes the spec.
func TestUpgrade(t *testing.T) {
	t.Parallel()
	m, app, d := startRendering(t)
	template := d.Spec.Template

	plane.Change(t, app, func() { app.Spec.Replicas = ptr.To[int32](5) })
	plane.Stands(t, app, progressing...)
	sameTemplate(t, d, template)
	checkRendering(t, app, `{"rendering":0}`, 0, 2)
	if *d.Spec.Replicas != 5 {
		t.Errorf("%d replicas, want 5", *d.Spec.Replicas)
	}

	plane.Change(t, d, func() { containerOf(d).Image = "x" }, intruder)
	awaitImage(t, d, app.Spec.Image)
	m.Idle(t)
	sameTemplate(t, d, template)
	checkRendering(t, app, `{"rendering":0}`, 0, 2)

	setImage(t, app, "nginx:1.17")
	plane.Stands(t, app, progressing...)
	checkRendering(t, app, `{"rendering":2}`, 2, 0)
}

// TestEveryChangeTakesTheRendering changes each field of the spec between an older release and this one.
func TestEveryChangeTakesTheRendering(t *testing.T) {
	t.Parallel()
	ns := plane.Namespace(t)
	m := plane.Start(t, ns, older)
	apps := map[string]*appv1.App{}
	chosen := fixture.Part(t)
	var cases []fieldCase
	for i, c := range fieldCases {
		if !chosen() {
			continue
		}
		cases = append(cases, c)
		app := newApp(ns, fmt.Sprintf("app-%d", i))
		setFields(t, &app.Spec.WorkloadSpec, c.extra)
		apps[c.field] = app
		createInPlace(t, app)
	}
	m.Stop(t)
	for _, c := range cases {
		plane.Change(t, apps[c.field], func() { setFields(t, &apps[c.field].Spec.WorkloadSpec, c.at("3003").set) })
	}
	plane.Start(t, ns)
	for field, app := range apps {
		plane.Stands(t, app, progressing...)
		want := int32(2)
		if field == "Replicas" {
			want = 0
		}
		if app.Status.Rendering != want {
			t.Errorf("with a change of %s, the rendering is %d, want %d", field, app.Status.Rendering, want)
		}
	}
}

// TestRefresh asks for the newest rendering without a change of the spec.
func TestRefresh(t *testing.T) {
	t.Parallel()
	m, app, d := startRendering(t)
	labelled := func(rendering int32) {
		t.Helper()
		plane.Until(t, d, func() error { return diffOf(podLabels(app, rendering), d.Spec.Template.Labels) })
		m.Idle(t)
	}
	setAnnotation(t, app, appv1.AnnotationRefresh, "1")
	labelled(2)
	checkRendering(t, app, `{"rendering":2,"refresh":"1"}`, 2, 0)
	m.Stop(t)

	// Under an older release, where each refresh that acts would show: it would bring that release's own rendering.
	m = plane.Start(t, app.Namespace, older)
	for _, step := range []struct{ what, value string }{
		{"restart with the refresh in place", "1"}, {"refresh removed", ""}, {"same refresh again", "1"},
	} {
		setAnnotation(t, app, appv1.AnnotationRefresh, step.value)
		checkRequests(t, m, step.what, map[string]int{})
		checkRendering(t, app, `{"rendering":2,"refresh":"1"}`, 2, 0)
	}

	setAnnotation(t, app, appv1.AnnotationRefresh, "2")
	labelled(0)
	checkRendering(t, app, `{"rendering":0,"refresh":"2"}`, 0, 0)
	setAnnotation(t, app, appv1.AnnotationRefresh, "1")
	labelled(0)
	checkRendering(t, app, `{"rendering":0,"refresh":"1"}`, 0, 0)
}

// TestDowngradeWithDefaults starts an older release over an App that has defaults, with edited AppDefaults: the App keeps them until it changes.
func TestDowngradeWithDefaults(t *testing.T) {
	t.Parallel()
	ns := plane.Namespace(t)
	defaults := newDefaults(t, ns, "podAnnotations: {a: '1'}")
	m := plane.Start(t, ns)
	app := newApp(ns, "web")
	d, _ := createInPlace(t, app)
	awaitDefaults(t, app, "1", "true")
	plane.Read(t, d)
	template := d.Spec.Template
	m.Idle(t)
	m.Stop(t)

	plane.Read(t, defaults)
	plane.Change(t, defaults, func() { setDefaultFields(t, defaults, "podAnnotations: {a: '2'}") })
	m = plane.Start(t, ns, older)
	checkAppRequests(t, m, "downgrade", map[string]int{"patch apps/status": 1})
	sameTemplate(t, d, template)
	awaitDefaults(t, app, "1", "false")
	setImage(t, app, "nginx:1.17")
	awaitDefaults(t, app, "2", "true")
	if plane.Read(t, app); app.Status.Rendering != 0 {
		t.Errorf("with the next change, the rendering is %d", app.Status.Rendering)
	}
}

// TestDowngrade starts an older release over an App of a newer one that it can still read. It must not restart the pods
// either.
func TestDowngrade(t *testing.T) {
	t.Parallel()
	ns := plane.Namespace(t)
	m := plane.Start(t, ns)
	app := newApp(ns, "web")
	d, _ := createInPlace(t, app)
	template := d.Spec.Template
	m.Idle(t)
	m.Stop(t)

	m = plane.Start(t, ns, older)
	checkRequests(t, m, "downgrade", map[string]int{})
	checkRendering(t, app, `{"rendering":2}`, 2, 0)
	plane.Change(t, app, func() { app.Spec.Replicas = ptr.To[int32](3) })
	plane.Stands(t, app, progressing...)
	sameTemplate(t, d, template)
	plane.Change(t, d, func() { containerOf(d).Image = "x" }, intruder)
	awaitImage(t, d, app.Spec.Image)
	sameTemplate(t, d, template)

	setImage(t, app, "nginx:1.17")
	plane.Stands(t, app, progressing...)
	checkRendering(t, app, `{"rendering":0}`, 0, 0)
}
