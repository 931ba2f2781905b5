package integration

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apiresource "k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	appv1 "huolala.cn/app-operator/api/v1"
	"huolala.cn/app-operator/controllers"
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

// newSizes makes a ConfigMap of sizes, and lets managers read it.
func newSizes(t *testing.T, namespace string, data map[string]string) *corev1.ConfigMap {
	t.Helper()
	meta := metav1.ObjectMeta{Namespace: namespace, Name: "sizes"}
	config := &corev1.ConfigMap{ObjectMeta: meta, Data: data}
	plane.Create(t, config,
		&rbacv1.Role{ObjectMeta: meta, Rules: []rbacv1.PolicyRule{{
			APIGroups: []string{""}, Resources: []string{"configmaps"}, ResourceNames: []string{meta.Name}, Verbs: []string{"list", "watch"},
		}}},
		&rbacv1.RoleBinding{
			ObjectMeta: meta,
			RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: meta.Name},
			Subjects:   []rbacv1.Subject{{Kind: rbacv1.UserKind, APIGroup: rbacv1.GroupName, Name: harness.ManagerUser}},
		})
	harness.Eventually(t, func() error {
		review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
			User: harness.ManagerUser,
			ResourceAttributes: &authorizationv1.ResourceAttributes{
				Namespace: namespace, Verb: "watch", Resource: "configmaps", Name: meta.Name,
			},
		}}
		if err := plane.Client.Create(t.Context(), review); err != nil || !review.Status.Allowed {
			return fmt.Errorf("the manager may not read the ConfigMap: %s, %w", review.Status.Reason, err)
		}
		return nil
	})
	return config
}

// defineSize changes a ConfigMap of sizes.
func defineSize(t *testing.T, config *corev1.ConfigMap, size, definition string) {
	t.Helper()
	plane.Read(t, config)
	plane.Change(t, config, func() {
		if config.Data == nil {
			config.Data = map[string]string{}
		}
		config.Data[size] = definition
	})
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

// sizesValid returns the metric of a ConfigMap of sizes.
func sizesValid(t *testing.T, config *corev1.ConfigMap) float64 {
	t.Helper()
	families, err := metrics.Registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, family := range families {
		if family.GetName() != "app_operator_size_config_valid" {
			continue
		}
		for _, series := range family.GetMetric() {
			labels := map[string]string{}
			for _, pair := range series.GetLabel() {
				labels[pair.GetName()] = pair.GetValue()
			}
			if labels["namespace"] == config.Namespace && labels["name"] == config.Name {
				return series.GetGauge().GetValue()
			}
		}
	}
	t.Fatalf("%s/%s has no metric", config.Namespace, config.Name)
	return 0
}

// awaitSizeEvent waits until the last event about a ConfigMap is of a type and reason and says a word, and there are so many.
func awaitSizeEvent(t *testing.T, config *corev1.ConfigMap, number int, kind, reason, says string) {
	t.Helper()
	harness.Eventually(t, func() error {
		var list eventsv1.EventList
		if err := plane.Client.List(t.Context(), &list, client.InNamespace(config.Namespace)); err != nil {
			return err
		}
		var last eventsv1.Event
		count := 0
		for _, e := range list.Items {
			if e.Regarding.Kind != "ConfigMap" || e.Regarding.Name != config.Name {
				continue
			}
			count++
			if e.EventTime.After(last.EventTime.Time) {
				last = e
			}
		}
		if count != number || last.Type != kind || last.Reason != reason || !strings.Contains(last.Note, says) {
			return fmt.Errorf("%d events, the last: %s %s %s; want %d, the last: %s %s …%s…",
				count, last.Type, last.Reason, last.Note, number, kind, reason, says)
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
		{`{image: a, size: huge}`, `spec.size: Unsupported value: "huge"`},
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
			if (err == nil) != (c.says == "") || (err != nil && !strings.Contains(err.Error(), c.says)) {
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
	sizes := harness.WithSizes(ns + "/sizes")
	m := plane.Start(t, ns, sizes)
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
	checkRequests(t, m, "changed definition", map[string]int{"patch apps/status": 2})
	m.Stop(t)

	m = plane.Start(t, ns, sizes)
	checkRequests(t, m, "restart", map[string]int{})
	m.Stop(t)
	third, calledThird := newCPUSize("small", "3")
	defineSize(t, config, "small", third)
	m = plane.Start(t, ns, sizes)
	checkRequests(t, m, "restart over a changed definition", map[string]int{"patch apps/status": 2})
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
	checkRequests(t, m, "settled", map[string]int{})

	// Back to what it was, by another spelling: nothing waits any more, and nothing is written.
	defineSize(t, config, "small", "requests: {cpu: 3000m}")
	checkRequests(t, m, "another spelling", map[string]int{})
	plane.Delete(t, config)
	awaitSize(t, app, calledThird, builtInSmall)
	awaitCPU(t, app, "3")
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
	m = plane.Start(t, ns, harness.WithSizes(ns+"/sizes"))
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

// TestWrongSizes writes a ConfigMap with mistakes: the last good values stay in force, and it is told.
func TestWrongSizes(t *testing.T) {
	t.Parallel()
	ns := plane.Namespace(t)
	config := newSizes(t, ns, map[string]string{"small": "requests: {cpu: 2}", "medium": "request: {cpu: 1}"})
	m := plane.Start(t, ns, harness.WithSizes(ns+"/sizes"))
	awaitSizeEvent(t, config, 1, "Warning", "ErrInvalidSizes", "data[medium]")
	app := sizedApp(ns, "first", appv1.SizeSmall)
	createInPlace(t, app)
	awaitSize(t, app, builtInSmall, "")
	if got := sizesValid(t, config); got != 0 {
		t.Errorf("the metric of a wrong ConfigMap is %g", got)
	}

	good, calledGood := newCPUSize("medium", "2")
	defineSize(t, config, "medium", good)
	awaitSizeEvent(t, config, 2, "Normal", "SizesValid", "in use")
	if got := sizesValid(t, config); got != 1 {
		t.Errorf("the metric of a good ConfigMap is %g", got)
	}
	app = sizedApp(ns, "second", appv1.SizeMedium)
	createInPlace(t, app)
	awaitSize(t, app, calledGood, "")

	m.Idle(t)
	m.Requests.Reset()
	defineSize(t, config, "small", "requests: {cpu: 2}\nlimits: {cpu: 1}")
	awaitSizeEvent(t, config, 3, "Warning", "ErrInvalidSizes", "data[small].requests[cpu]")
	m.Idle(t)
	if writes := m.Requests.Writes(); len(writes) > 0 {
		t.Errorf("a wrong ConfigMap made the manager write: %v", writes)
	}
	app = sizedApp(ns, "third", appv1.SizeMedium)
	createInPlace(t, app)
	awaitSize(t, app, calledGood, "")
	defineSize(t, config, "large", "no size")
	awaitSizeEvent(t, config, 4, "Warning", "ErrInvalidSizes", "data[large]")

	plane.Delete(t, config)
	awaitSize(t, app, calledGood, builtInMedium)
	if got := sizesValid(t, config); got != 1 {
		t.Errorf("the metric without a ConfigMap is %g", got)
	}
}

// TestSizesOfTheManagersNamespace runs a manager for one namespace with the ConfigMap in its own, by the role that is
// generated. It must see that one, and no other.
func TestSizesOfTheManagersNamespace(t *testing.T) {
	t.Parallel()
	const name = "app-operator-sizes"
	ns := plane.Namespace(t)
	definition, calledSmall := newCPUSize("small", "1")
	config := &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: harness.SystemNamespace, Name: name},
		Data:       map[string]string{"small": definition},
	}
	decoy := &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: name}, Data: map[string]string{"small": "requests: {cpu: 9}"},
	}
	plane.Create(t, decoy)
	m := plane.Start(t, ns, harness.WithSizes(name))
	app := sizedApp(ns, "before", appv1.SizeSmall)
	createInPlace(t, app)
	awaitSize(t, app, builtInSmall, "")

	plane.Create(t, config)
	t.Cleanup(func() { _ = plane.Client.Delete(context.Background(), config) })
	awaitSize(t, app, builtInSmall, calledSmall)
	app = sizedApp(ns, "after", appv1.SizeSmall)
	createInPlace(t, app)
	awaitSize(t, app, calledSmall, "")
	defineSize(t, config, "small", "requests: {cpu: 1")
	harness.Eventually(t, func() error {
		// Not told: other tests' managers may read it, and tell of it, too.
		if !slices.ContainsFunc(m.Requests.All(), func(q harness.Request) bool {
			return q.Verb == "create" && q.Resource == "events" && q.Namespace == harness.SystemNamespace
		}) {
			return errors.New("nothing was told of a wrong ConfigMap in the manager's namespace")
		}
		return nil
	})
	for _, q := range m.Requests.All() {
		if q.Resource == "configmaps" && !strings.Contains(q.Path, "/namespaces/"+harness.SystemNamespace+"/") {
			t.Errorf("a request for ConfigMaps elsewhere: %s", q)
		}
	}
}

// TestSizesAreReadFirst holds back the ConfigMap of the sizes. Nothing may be built with the built-in ones meanwhile.
func TestSizesAreReadFirst(t *testing.T) {
	t.Parallel()
	ns, address := plane.Namespace(t), harness.FreeAddress(t)
	definition, calledSmall := newCPUSize("small", "1")
	newSizes(t, ns, map[string]string{"small": definition})
	app := sizedApp(ns, "web", appv1.SizeSmall)
	plane.Create(t, app)
	held, release := make(chan struct{}), make(chan struct{})
	hold := sync.OnceFunc(func() { close(held) })
	m := plane.Launch(t, ns, harness.WithSizes(ns+"/sizes"), harness.WithProbes(address), harness.WithFault(
		func(q harness.Request, send func() (*http.Response, error)) (*http.Response, error) {
			if q.Resource == "configmaps" {
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

// TestSizesOfAStandBy makes the ConfigMap wrong, and then the leader end: who takes over knows the last good values.
func TestSizesOfAStandBy(t *testing.T) {
	t.Parallel()
	ns := plane.Namespace(t)
	definition, calledSmall := newCPUSize("small", "1")
	config := newSizes(t, ns, map[string]string{"small": definition})
	sizes, lease := harness.WithSizes(ns+"/sizes"), harness.WithElection(ns)
	leader := plane.Start(t, ns, lease, sizes)
	awaitClosed(t, leader.Elected())
	follower := plane.Start(t, ns, lease, sizes)
	follower.Idle(t)
	defineSize(t, config, "small", "requests: {cpu: 2")
	awaitSizeEvent(t, config, 1, "Warning", "ErrInvalidSizes", "data[small]")
	leader.Stop(t)
	awaitClosed(t, follower.Elected())
	app := sizedApp(ns, "web", appv1.SizeSmall)
	createInPlace(t, app)
	awaitSize(t, app, calledSmall, "")
}

// TestSizeConfigMapName starts managers with names that are none.
func TestSizeConfigMapName(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ name, own, says string }{
		{"sizes", "", "POD_NAMESPACE"},
		{"a/b/c", "", "name or namespace/name"},
		{"/sizes", "own", "name or namespace/name"},
		{"ns/", "own", "name or namespace/name"},
		{"Sizes", "own", "name or namespace/name"},
	} {
		_, err := controllers.NewManager(plane.Config, controllers.Options{SizeConfigMap: c.name, OwnNamespace: c.own})
		if err == nil || !strings.Contains(err.Error(), c.says) || !strings.Contains(err.Error(), c.name) {
			t.Errorf("%q in %q: %v; want an error that says %q", c.name, c.own, err, c.says)
		}
	}
}
