package integration

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	apiresource "k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/yaml"

	appv1 "huolala.cn/app-operator/api/v1"
	"huolala.cn/app-operator/test/harness"
)

// What the sizes are called in a status.
const (
	builtInSmall  = "small (cpu 100m/500m, memory 128Mi/256Mi)"
	builtInMedium = "medium (cpu 250m/1, memory 512Mi/1Gi)"
)

// newCPUSize returns the definition of a size and what it is called in a status.
func newCPUSize(size, cpu string) (definition, called string) {
	return "requests: {cpu: " + cpu + "}", fmt.Sprintf("%s (cpu %s/-)", size, cpu)
}

// newSizes makes AppDefaults with sizes, each by its YAML.
func newSizes(t *testing.T, namespace string, sizes map[string]string) *appv1.AppDefaults {
	t.Helper()
	made := &appv1.AppDefaults{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: appv1.AppDefaultsName}}
	for size, definition := range sizes {
		setSize(t, made, size, definition)
	}
	plane.Create(t, made)
	return made
}

// setSize sets the definition of a size.
func setSize(t *testing.T, defaults *appv1.AppDefaults, size, definition string) {
	t.Helper()
	var amounts appv1.SizeAmounts
	if err := yaml.UnmarshalStrict([]byte(definition), &amounts); err != nil {
		t.Fatal(err)
	}
	if defaults.Spec.Sizes == nil {
		defaults.Spec.Sizes = map[appv1.Size]appv1.SizeAmounts{}
	}
	defaults.Spec.Sizes[appv1.Size(size)] = amounts
}

// defineSize changes the definition of a size.
func defineSize(t *testing.T, defaults *appv1.AppDefaults, size, definition string) {
	t.Helper()
	plane.Read(t, defaults)
	plane.Change(t, defaults, func() { setSize(t, defaults, size, definition) })
}

// sizedApp returns an App of a size.
func sizedApp(namespace, name string, size appv1.Size) *appv1.App {
	app := newApp(namespace, name)
	app.Spec.Size = size
	return app
}

// awaitSize waits until an App's status tells of a size, and of another one that waits.
func awaitSize(t *testing.T, app *appv1.App, size, latest string) {
	t.Helper()
	plane.Until(t, app, func() error {
		if app.Status.Size != size || app.Status.LatestSize != latest {
			return fmt.Errorf("the size is %q, the latest %q; want %q and %q", app.Status.Size, app.Status.LatestSize, size, latest)
		}
		return nil
	})
}

// awaitCPU waits until an App's main container requests a number of CPUs.
func awaitCPU(t *testing.T, app *appv1.App, cpu string) {
	t.Helper()
	d := deployment(app)
	plane.Until(t, d, func() error {
		if got := containerOf(d).Resources.Requests.Cpu(); got.Cmp(apiresource.MustParse(cpu)) != 0 {
			return fmt.Errorf("%s CPUs are requested, want %s", got, cpu)
		}
		return nil
	})
}

// TestSize gives an App and a ModelBox a size, and changes it.
func TestSize(t *testing.T) {
	t.Parallel()
	ns := plane.Namespace(t)
	m := plane.Start(t, ns)
	app := sizedApp(ns, "web", appv1.SizeSmall)
	d, _ := createInPlace(t, app)
	list := func(cpu, memory string) corev1.ResourceList {
		return corev1.ResourceList{"cpu": apiresource.MustParse(cpu), "memory": apiresource.MustParse(memory)}
	}
	resources := func(want corev1.ResourceRequirements) {
		t.Helper()
		plane.Until(t, d, func() error { return diffOf(want, containerOf(d).Resources) })
		plane.Stands(t, app, progressing...)
		m.Idle(t)
	}
	resources(corev1.ResourceRequirements{Requests: list("100m", "128Mi"), Limits: list("500m", "256Mi")})
	awaitSize(t, app, builtInSmall, "")
	const record = `{"rendering":2,"size":{"name":"small","requests":{"cpu":"100m","memory":"128Mi"},"limits":{"cpu":"500m","memory":"256Mi"}}}`
	if got := d.Annotations[appv1.AnnotationLastAppliedInputs]; got != record {
		t.Errorf("recorded inputs are %s, want %s", got, record)
	}

	plane.Change(t, app, func() { app.Spec.Size = appv1.SizeMedium })
	resources(corev1.ResourceRequirements{Requests: list("250m", "512Mi"), Limits: list("1", "1Gi")})
	awaitSize(t, app, builtInMedium, "")

	plane.Change(t, app, func() {
		app.Spec.Size = appv1.SizeCustom
		app.Spec.Resources.Requests = corev1.ResourceList{"cpu": apiresource.MustParse("7m")}
	})
	resources(corev1.ResourceRequirements{Requests: corev1.ResourceList{"cpu": apiresource.MustParse("7m")}})
	awaitSize(t, app, "", "")

	plane.Change(t, app, func() { app.Spec.Size, app.Spec.Resources = "", corev1.ResourceRequirements{} })
	resources(corev1.ResourceRequirements{})

	box := &appv1.ModelBox{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "box"}}
	box.Spec.Image, box.Spec.Size = "nginx:1.7.9", appv1.SizeLarge
	plane.Create(t, box)
	plane.Stands(t, box, progressing...)
	if want := "large (cpu 1/2, memory 2Gi/4Gi)"; box.Status.Size != want {
		t.Errorf("the ModelBox's size is %q, want %q", box.Status.Size, want)
	}
	d = deployment(box)
	plane.Read(t, d)
	if err := diffOf(corev1.ResourceRequirements{Requests: list("1", "2Gi"), Limits: list("2", "4Gi")}, containerOf(d).Resources); err != nil {
		t.Errorf("resources of the ModelBox: %v", err)
	}
	m.Idle(t)
	m.Stop(t)
	checkRequests(t, plane.Start(t, ns), "restart", map[string]int{})
}

// TestSizeRules writes Apps and ModelBoxes whose size and resources do not go together, and some where they do.
func TestSizeRules(t *testing.T) {
	t.Parallel()
	ns := plane.Namespace(t)
	for i, c := range []struct{ spec, says string }{
		{`{image: a, size: Huge}`, "must be the name of a size"},
		{`{image: a, size: small, resources: {limits: {cpu: 1}}}`, "spec.size: Invalid value: a named size and resources are mutually exclusive"},
		{`{image: a, size: large, resources: {requests: {cpu: 1}}}`, "remove one, or set size to custom"},
		{`{image: a, size: custom}`, "spec.size: Invalid value: custom requires resources"},
		{`{image: a, size: custom, resources: {}}`, "spec.size: Invalid value: custom requires resources"},
		{`{image: a, size: small}`, ""},
		{`{image: a, size: small, resources: {}}`, ""},
		{`{image: a, size: custom, resources: {requests: {cpu: 1}}}`, ""},
		{`{image: a, size: custom, resources: {limits: {cpu: 1}}}`, ""},
	} {
		for _, kind := range []string{"App", "ModelBox"} {
			obj := parseApp(t, ns, fmt.Sprintf("a-%d", i), c.spec)
			obj.SetKind(kind)
			err := plane.Client.Create(t.Context(), obj)
			if (err == nil) != (c.says == "") || (err != nil && !saysOf(t, err, c.says)) {
				t.Errorf("%s %s: %v; want %q", kind, c.spec, err, c.says)
			}
		}
	}
}

// TestChangedSize changes what a size stands for, before the eyes of a manager and between two. A workload keeps what it
// has until its owner acts.
func TestChangedSize(t *testing.T) {
	t.Parallel()
	ns := plane.Namespace(t)
	first, calledFirst := newCPUSize("small", "1")
	config := newSizes(t, ns, map[string]string{"small": first})
	m := plane.Start(t, ns)
	app, other := sizedApp(ns, "web", appv1.SizeSmall), sizedApp(ns, "other", appv1.SizeSmall)
	medium := sizedApp(ns, "medium", appv1.SizeMedium)
	for _, app := range []*appv1.App{app, other, medium} {
		createInPlace(t, app)
	}
	createInPlace(t, newApp(ns, "none"))
	awaitCPU(t, app, "1")
	awaitSize(t, medium, builtInMedium, "")
	m.Idle(t)
	m.Requests.Reset()

	second, calledSecond := newCPUSize("small", "2")
	defineSize(t, config, "small", second)
	awaitSize(t, app, calledFirst, calledSecond)
	awaitSize(t, other, calledFirst, calledSecond)
	checkAppRequests(t, m, "changed definition", map[string]int{"patch apps/status": 2})
	m.Stop(t)

	m = plane.Start(t, ns)
	checkAppRequests(t, m, "restart", map[string]int{})
	m.Stop(t)
	third, calledThird := newCPUSize("small", "3")
	defineSize(t, config, "small", third)
	m = plane.Start(t, ns)
	checkAppRequests(t, m, "restart over a changed definition", map[string]int{"patch apps/status": 2})
	awaitSize(t, app, calledFirst, calledThird)

	d := deployment(app)
	plane.Read(t, d)
	plane.Change(t, d, func() { containerOf(d).Resources.Requests["cpu"] = apiresource.MustParse("9") }, intruder)
	awaitCPU(t, app, "1")
	plane.Read(t, app)
	plane.Change(t, app, func() { app.Spec.Replicas = ptr.To[int32](5) })
	plane.Stands(t, app, progressing...)
	awaitCPU(t, app, "1")
	awaitSize(t, app, calledFirst, calledThird)

	setImage(t, app, "nginx:1.17")
	awaitCPU(t, app, "3")
	awaitSize(t, app, calledThird, "")
	setAnnotation(t, other, appv1.AnnotationRefresh, "1")
	awaitCPU(t, other, "3")
	awaitSize(t, other, calledThird, "")
	m.Idle(t)
	m.Requests.Reset()
	checkAppRequests(t, m, "settled", map[string]int{})

	// Back to what it was, by another spelling: nothing waits any more, and nothing is written.
	defineSize(t, config, "small", "requests: {cpu: 3000m}")
	checkAppRequests(t, m, "another spelling", map[string]int{})
	plane.Delete(t, config)
	awaitSize(t, app, calledThird, builtInSmall)
	awaitCPU(t, app, "3")
}

// checkAppRequests leaves the status of AppDefaults out: how often it is written depends on how many Apps report at once.
func checkAppRequests(t *testing.T, m *harness.Manager, what string, want map[string]int) {
	t.Helper()
	checkOtherRequests(t, m, what, "patch appdefaults/status", want)
}

// TestSizeWithoutItsRecords takes records from the Deployment of an App with a size.
func TestSizeWithoutItsRecords(t *testing.T) {
	t.Parallel()
	ns := plane.Namespace(t)
	m := plane.Start(t, ns, older)
	kept, changed := sizedApp(ns, "kept", appv1.SizeSmall), sizedApp(ns, "changed", appv1.SizeSmall)
	redefined := sizedApp(ns, "redefined", appv1.SizeLarge)
	d, _ := createInPlace(t, kept)
	createInPlace(t, changed)
	createInPlace(t, redefined)
	m.Idle(t)
	m.Stop(t)

	lose := func(app *appv1.App, key string) {
		t.Helper()
		d := deployment(app)
		plane.Read(t, d)
		plane.Change(t, d, func() { delete(d.Annotations, key) }, intruder)
	}
	lose(kept, appv1.AnnotationLastAppliedInputs)
	lose(redefined, appv1.AnnotationLastAppliedInputs)
	lose(changed, appv1.AnnotationLastAppliedSpec)
	plane.Read(t, changed)
	plane.Change(t, changed, func() { changed.Spec.Size = appv1.SizeMedium })
	definition, calledLarge := newCPUSize("large", "3")
	newSizes(t, ns, map[string]string{"large": definition})
	m = plane.Start(t, ns)
	// Without the record of the inputs the rendering is found again, and without that of the spec it stays. Of the size,
	// what the spec names counts.
	awaitCPU(t, changed, "250m")
	awaitSize(t, changed, builtInMedium, "")
	awaitCPU(t, redefined, "3")
	awaitSize(t, redefined, calledLarge, "")
	m.Idle(t)
	sameTemplate(t, d, d.Spec.Template)
	for _, app := range []*appv1.App{kept, changed, redefined} {
		if plane.Read(t, app); app.Status.Rendering != 0 || app.Status.LatestRendering != 2 {
			t.Errorf("%s has the rendering %d of %d", app.Name, app.Status.Rendering, app.Status.LatestRendering)
		}
	}
}

// TestWrongSizes stores AppDefaults with mistakes that no schema finds, while no webhook runs: before any valid ones, workloads wait; later the last
// valid ones stay in force.
func TestWrongSizes(t *testing.T) {
	t.Parallel()
	ns := plane.Namespace(t)
	defaults := newSizes(t, ns, map[string]string{"small": "{requests: {cpu: 2}, limits: {cpu: 1}}", "tiny": "requests: {cpu: 1}"})
	m := plane.Start(t, ns)
	awaitValid(t, defaults, "False", "spec.sizes[small].requests[cpu]")
	app := sizedApp(ns, "first", appv1.SizeSmall)
	plane.Create(t, app)
	plane.Stands(t, app, "Ready=False/Invalid")

	good, calledGood := newCPUSize("small", "2")
	defineSize(t, defaults, "small", good)
	awaitValid(t, defaults, "True", "in force")
	awaitSize(t, app, calledGood, "")
	app = sizedApp(ns, "second", appv1.SizeSmall)
	createInPlace(t, app)
	awaitSize(t, app, calledGood, "")

	m.Idle(t)
	m.Requests.Reset()
	defineSize(t, defaults, "tiny", "requests: {memroy: 1Gi}")
	awaitValid(t, defaults, "False", "spec.sizes[tiny].requests[memroy]")
	m.Idle(t)
	for request := range m.Requests.Writes() {
		if request != "patch appdefaults/status" {
			t.Errorf("invalid AppDefaults made the manager write: %v", m.Requests.Writes())
		}
	}
	plane.Delete(t, defaults)
	awaitSize(t, app, calledGood, builtInSmall)
}

// awaitValid waits until the condition Valid of AppDefaults has a status and says a word.
func awaitValid(t *testing.T, defaults *appv1.AppDefaults, status, says string) {
	t.Helper()
	plane.Until(t, defaults, func() error {
		c := meta.FindStatusCondition(defaults.Status.Conditions, appv1.ConditionValid)
		if c == nil || string(c.Status) != status || !strings.Contains(c.Message, says) || defaults.Status.ObservedGeneration != defaults.Generation {
			return fmt.Errorf("the condition is %+v", c)
		}
		return nil
	})
}

// TestSizesAreReadFirst holds back the AppDefaults. Nothing may be built with the built-in sizes meanwhile.
func TestSizesAreReadFirst(t *testing.T) {
	t.Parallel()
	ns, address := plane.Namespace(t), harness.FreeAddress(t)
	definition, calledSmall := newCPUSize("small", "1")
	newSizes(t, ns, map[string]string{"small": definition})
	app := sizedApp(ns, "web", appv1.SizeSmall)
	plane.Create(t, app)
	held, release := make(chan struct{}), make(chan struct{})
	hold := sync.OnceFunc(func() { close(held) })
	m := plane.Launch(t, ns, harness.WithProbes(address), harness.WithFault(
		func(q harness.Request, send func() (*http.Response, error)) (*http.Response, error) {
			if q.Resource == "appdefaults" {
				hold()
				select {
				case <-release:
				case <-t.Context().Done():
				}
			}
			return send()
		}))
	awaitClosed(t, held)
	m.Idle(t)
	plane.Absent(t, deployment(app))
	awaitProbe(t, address, "readyz", http.StatusInternalServerError)
	close(release)
	plane.Stands(t, app, progressing...)
	awaitSize(t, app, calledSmall, "")
	awaitProbe(t, address, "readyz", http.StatusOK)
}

// TestSizesOfAStandBy makes AppDefaults invalid, and then the leader end: the manager that takes over knows the last valid ones.
func TestSizesOfAStandBy(t *testing.T) {
	t.Parallel()
	ns := plane.Namespace(t)
	definition, calledSmall := newCPUSize("small", "1")
	defaults := newSizes(t, ns, map[string]string{"small": definition})
	lease := harness.WithElection(ns)
	leader := plane.Start(t, ns, lease)
	awaitClosed(t, leader.Elected())
	follower := plane.Start(t, ns, lease)
	follower.Idle(t)
	defineSize(t, defaults, "small", "{requests: {cpu: 2}, limits: {cpu: 1}}")
	awaitValid(t, defaults, "False", "spec.sizes[small]")
	leader.Stop(t)
	awaitClosed(t, follower.Elected())
	app := sizedApp(ns, "web", appv1.SizeSmall)
	createInPlace(t, app)
	awaitSize(t, app, calledSmall, "")
}
