package integration

import (
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/utils/ptr"

	appv1 "huolala.cn/app-operator/api/v1"
)

// tooLong is what an event says where the record of the spec does not hold the spec.
const tooLong = "; the spec is too long for an annotation; only its hash is recorded"

// newCompressibleText returns a text that compresses well.
func newCompressibleText(n int) string { return strings.Repeat("0123456789abcdef", n/16+1)[:n] }

// largeCases are specs of 250 KiB.
var largeCases = map[string]struct {
	text   func(int) string
	prefix string
	event  string
	reason string
}{
	"compressible":   {text: newCompressibleText, prefix: "gzip:", event: "Normal"},
	"incompressible": {text: newIncompressibleText, prefix: "sha256:", event: "Warning", reason: tooLong},
}

// TestLargeSpec leads an App of 250 KiB through its life: it is made under an older release, so that what is taken for a
// change of the spec shows in the pod template.
func TestLargeSpec(t *testing.T) {
	t.Parallel()
	for name, c := range largeCases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ns := plane.Namespace(t)
			m := plane.Start(t, ns, older)
			app := newApp(ns, "web")
			app.Spec.Envs = newVariables(c.text(250 << 10))
			d, _ := createInPlace(t, app)
			checkRecord(t, d, c.prefix)
			if err := diffOf(app.Spec.Envs, containerOf(d).Env); err != nil {
				t.Error(err)
			}
			m.Idle(t)
			checkEvents(t, app, c.event+" Created: Created Deployment web, Service web"+c.reason)
			m.Stop(t)

			m = plane.Start(t, ns)
			checkRequests(t, m, "upgrade", map[string]int{"patch apps/status": 1})
			changeLarge(t, app, c.prefix)
			m.Idle(t)
			m.Stop(t)
			m = plane.Start(t, ns)
			checkRequests(t, m, "restart", map[string]int{})
		})
	}
}

// checkRecord checks the recorded spec and the length of all annotations.
func checkRecord(t *testing.T, d *appsv1.Deployment, prefix string) {
	t.Helper()
	total := 0
	for key, value := range d.Annotations {
		total += len(key) + len(value)
	}
	if record := d.Annotations[appv1.AnnotationLastAppliedSpec]; !strings.HasPrefix(record, prefix) || total > 130<<10 {
		t.Errorf("the record begins with %.20q, want %q; all annotations have %d bytes", record, prefix, total)
	}
}

// changeLarge changes a large App of an older release.
func changeLarge(t *testing.T, app *appv1.App, prefix string) {
	t.Helper()
	d := deployment(app)
	plane.Read(t, d)
	template := d.Spec.Template
	plane.Read(t, app)
	plane.Change(t, app, func() { app.Spec.Replicas = ptr.To[int32](5) })
	plane.Stands(t, app, progressing...)
	sameTemplate(t, d, template)
	checkRendering(t, app, `{"rendering":0}`, 0, 2)
	if *d.Spec.Replicas != 5 {
		t.Errorf("%d replicas, want 5", *d.Spec.Replicas)
	}

	// One byte at the end of the last variable.
	last := &app.Spec.Envs[len(app.Spec.Envs)-1]
	plane.Change(t, app, func() { last.Value = last.Value[1:] + "!" })
	plane.Stands(t, app, progressing...)
	checkRendering(t, app, `{"rendering":2}`, 2, 0)
	plane.Read(t, d)
	checkRecord(t, d, prefix)
	if err := diffOf(app.Spec.Envs, containerOf(d).Env); err != nil {
		t.Error(err)
	}
}

// TestGrowingSpec lets a spec grow over all limits of its record and shrink again, next to annotations of others. The
// limit of an object's annotations, 256 KiB in all, must never be in the way.
func TestGrowingSpec(t *testing.T) {
	t.Parallel()
	ns, m := plane.Shared(t)
	app := newApp(ns, "web")
	d, _ := createInPlace(t, app)
	plane.Change(t, d, func() { d.Annotations["foreign"] = newIncompressibleText(120 << 10) }, intruder)
	m.Idle(t)

	for _, kib := range []int{31, 33, 120, 140, 250, 600, 128, 10} {
		for name, text := range map[string]func(int) string{"compressible": newCompressibleText, "incompressible": newIncompressibleText} {
			plane.Change(t, app, func() { app.Spec.Envs = newVariables(text(kib << 10)) })
			plane.Stands(t, app, progressing...)
			plane.Read(t, d)
			if err := diffOf(app.Spec.Envs, containerOf(d).Env); err != nil {
				t.Fatalf("%d KiB, %s: %v", kib, name, err)
			}
		}
	}
	m.Idle(t)
	if len(d.Annotations["foreign"]) != 120<<10 {
		t.Error("another owner's annotation is gone")
	}
	m.Requests.Reset()
	setAnnotation(t, app, "x", "y")
	checkRequests(t, m, "nothing of ours", map[string]int{})
}
