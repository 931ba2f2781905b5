package integration

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appv1 "huolala.cn/app-operator/api/v1"
	"huolala.cn/app-operator/resource"
	"huolala.cn/app-operator/test/harness"
	"huolala.cn/app-operator/test/specs"
)

// number reads a number from the environment: FUZZ_SEED and FUZZ_APPS make a failure happen again, or look further.
func number(t *testing.T, env string, otherwise uint64) uint64 {
	t.Helper()
	value := os.Getenv(env)
	if value == "" {
		return otherwise
	}
	n, err := strconv.ParseUint(value, 10, 64)
	if err != nil {
		t.Fatalf("%s: %v", env, err)
	}
	return n
}

// random returns the source of a test's specs, and says in the log how to get the same one again.
func random(t *testing.T) *rand.Rand {
	t.Helper()
	seed := number(t, "FUZZ_SEED", uint64(time.Now().UnixNano()))
	t.Logf("FUZZ_SEED=%d", seed)
	return rand.New(rand.NewPCG(seed, 0))
}

// createRandom creates Apps as a user would write them, several at a time.
func createRandom(t *testing.T, ns string, count int, spec func(specs.Source) map[string]any, src specs.Source) {
	t.Helper()
	apps := make(chan *unstructured.Unstructured)
	var group sync.WaitGroup
	for range 4 {
		group.Go(func() {
			for app := range apps {
				if err := plane.Client.Create(t.Context(), app); err != nil {
					text, _ := json.Marshal(app.Object["spec"])
					t.Errorf("%v\n%.2000s", err, text)
				}
			}
		})
	}
	for i := range count {
		app := &unstructured.Unstructured{Object: map[string]any{"spec": spec(src)}}
		app.SetGroupVersionKind(appv1.GroupVersion.WithKind("App"))
		app.SetNamespace(ns)
		app.SetName(specs.Name(src, i))
		apps <- app
	}
	close(apps)
	group.Wait()
	if t.Failed() {
		t.FailNow() // Nothing else is worth looking at: a spec was made that the schema refuses.
	}
}

// observed waits until every App of the namespace has a status, and returns them.
func observed(t *testing.T, ns string) []appv1.App {
	t.Helper()
	var apps appv1.AppList
	harness.Eventually(t, func() error {
		if err := plane.Client.List(t.Context(), &apps, client.InNamespace(ns)); err != nil {
			return err
		}
		for i := range apps.Items {
			if app := &apps.Items[i]; app.Status.ObservedGeneration != app.Generation {
				return fmt.Errorf("App %s has no status yet", app.Name)
			}
		}
		return nil
	})
	return apps.Items
}

// TestRandomSpecsRoundTrip applies random specs to the real API server. It must take every object, and once it has, there
// must be nothing to do: neither for the manager that wrote them, nor for one that knows nothing but what lives.
func TestRandomSpecsRoundTrip(t *testing.T) {
	t.Parallel()
	ns := plane.Namespace(t)
	src := random(t)
	count := int(number(t, "FUZZ_APPS", 150))
	m := plane.Start(t, ns)
	createRandom(t, ns, count, specs.Accepted, src)

	services := 0
	for _, app := range observed(t, ns) {
		if len(app.Spec.Ports) > 0 {
			services++
		}
		if c := meta.FindStatusCondition(app.Status.Conditions, appv1.ConditionReady); c == nil || c.Reason != appv1.ReasonProgressing {
			text, _ := json.Marshal(app.Spec)
			t.Errorf("App %s: Ready is %+v, want reason %s\n%.2000s", app.Name, c, appv1.ReasonProgressing, text)
		}
	}
	m.Idle(t)
	writes := m.Requests.Writes()
	delete(writes, "patch apps/status")
	if diff := cmp.Diff(map[string]int{"patch deployments": count, "patch services": services}, writes); diff != "" {
		t.Errorf("writes of %d Apps (-want +got):\n%s", count, diff)
	}
	var deployments appsv1.DeploymentList
	var live corev1.ServiceList
	for list, want := range map[client.ObjectList]int{&deployments: count, &live: services} {
		if err := plane.Client.List(t.Context(), list, client.InNamespace(ns)); err != nil {
			t.Fatal(err)
		}
		if got := meta.LenList(list); got != want {
			t.Errorf("%T has %d objects, want %d", list, got, want)
		}
	}
	m.Stop(t)

	again := plane.Start(t, ns)
	again.Idle(t)
	if diff := cmp.Diff(map[string]int{}, again.Requests.Writes()); diff != "" {
		t.Errorf("writes of a manager that starts over what is in place (-want +got):\n%s%v", diff, again.Requests.All())
	}
}

// TestRandomUpdatesLeaveNothing changes one random spec into another. What lives must then be what a plain create of the
// same objects gives: nothing of the first spec may be left.
func TestRandomUpdatesLeaveNothing(t *testing.T) {
	t.Parallel()
	ns := plane.Namespace(t)
	src := random(t)
	count := int(number(t, "FUZZ_APPS", 150)) / 2
	m := plane.Start(t, ns)
	createRandom(t, ns, count, changeable, src)
	for _, app := range observed(t, ns) {
		patch, err := json.Marshal([]map[string]any{{"op": "replace", "path": "/spec", "value": changeable(src)}})
		if err != nil {
			t.Fatal(err)
		}
		if err := plane.Client.Patch(t.Context(), &app, client.RawPatch(types.JSONPatchType, patch)); err != nil {
			t.Fatalf("%v\n%.2000s", err, patch)
		}
	}
	apps := observed(t, ns)
	m.Idle(t)
	for i := range apps {
		compareFresh(t, &apps[i])
	}
}

// changeable returns a spec like specs.Accepted without what cannot be changed any more, once the Service is made.
func changeable(src specs.Source) map[string]any {
	spec := specs.Accepted(src)
	if service, ok := spec["service"].(map[string]any); ok {
		delete(service, "clusterIP")
		delete(service, "loadBalancerClass")
	}
	return spec
}

// compareFresh compares the App's objects with what the API server makes of them at creation.
func compareFresh(t *testing.T, app *appv1.App) {
	t.Helper()
	var live appsv1.Deployment
	if err := plane.Client.Get(t.Context(), client.ObjectKeyFromObject(app), &live); err != nil {
		t.Fatal(err)
	}
	inputs, err := resource.DecodeInputs(live.Annotations[appv1.AnnotationLastAppliedInputs])
	if err != nil {
		t.Fatal(err)
	}
	w, errs := resource.App(app, resource.BuildOptions{Inputs: inputs})
	if len(errs) > 0 {
		t.Fatal(errs)
	}
	fresh := resource.Deployment(w)
	if fresh.Spec.Replicas == nil {
		fresh.Spec.Replicas = live.Spec.Replicas // Unstated, it stays what it was.
	}
	read(t, app, fresh, &live)
	if diff := cmp.Diff(fresh.Spec, live.Spec); diff != "" {
		t.Errorf("Deployment %s (-created +updated):\n%.3000s", app.Name, diff)
	}

	service := resource.Service(w)
	if service == nil {
		if err := plane.Client.Get(t.Context(), client.ObjectKeyFromObject(app), &corev1.Service{}); !apierrors.IsNotFound(err) {
			t.Errorf("Service %s of an App without ports: %v, want it to be gone", app.Name, err)
		}
		return
	}
	var liveService corev1.Service
	read(t, app, service, &liveService)
	// The addresses are another Service's, and so are ports of nodes.
	for _, s := range []*corev1.Service{service, &liveService} {
		s.Spec.ClusterIP, s.Spec.ClusterIPs = "", nil
		s.Spec.HealthCheckNodePort = min(s.Spec.HealthCheckNodePort, 1)
		for i := range s.Spec.Ports {
			s.Spec.Ports[i].NodePort = min(s.Spec.Ports[i].NodePort, 1)
		}
	}
	if diff := cmp.Diff(service.Spec, liveService.Spec); diff != "" {
		t.Errorf("Service %s (-created +updated):\n%.3000s", app.Name, diff)
	}
}

// read reads the App's live object, and has the API server complete the fresh one under another name.
func read(t *testing.T, app *appv1.App, fresh, live client.Object) {
	t.Helper()
	if err := plane.Client.Get(t.Context(), client.ObjectKeyFromObject(app), live); err != nil {
		t.Fatal(err)
	}
	fresh.SetName("fresh")
	if err := plane.Client.Create(t.Context(), fresh, client.DryRunAll); err != nil {
		t.Fatal(err)
	}
}

// TestLongFaultIsReported has a fault whose text is longer than a condition takes. It must be reported all the same:
// a status that the API server refuses would be tried again for ever.
func TestLongFaultIsReported(t *testing.T) {
	t.Parallel()
	ns := plane.Namespace(t)
	plane.Start(t, ns)
	app := newApp(ns, "web")
	app.Spec.Envs = []corev1.EnvVar{{Name: strings.Repeat("A=", 25_000)}}
	if err := plane.Client.Create(t.Context(), app); err != nil {
		t.Fatal(err)
	}
	for _, app := range observed(t, ns) {
		if c := meta.FindStatusCondition(app.Status.Conditions, appv1.ConditionStalled); c == nil || c.Reason != appv1.ReasonInvalid {
			t.Errorf("Stalled is %+v, want reason %s", c, appv1.ReasonInvalid)
		}
	}
}

// switchedOff reports whether a message of a field that is not kept names none but those whose features this API server has
// switched off. All else is to be stated as it comes back.
func switchedOff(message string) bool {
	_, fields, _ := strings.Cut(message, "did not keep ")
	fields, _, _ = strings.Cut(fields, " of ")
	for _, field := range strings.Split(fields, ", ") {
		if !strings.HasSuffix(field, ".lifecycle.stopSignal") && !strings.HasSuffix(field, ".projected.sources") && field != "…" {
			return false
		}
	}
	return fields != ""
}

// TestRandomSpecsOfTheSchema applies random specs; nothing is known of them but that the schema takes them. Either the
// API server takes the objects as well and keeps them as they are stated, or the App says what is wrong.
func TestRandomSpecsOfTheSchema(t *testing.T) {
	t.Parallel()
	ns := plane.Namespace(t)
	src := random(t)
	m := plane.Start(t, ns)
	createRandom(t, ns, int(number(t, "FUZZ_APPS", 150))/3, specs.Workload, src)
	m.Idle(t)

	refused := 0
	for _, app := range observed(t, ns) {
		ready := meta.FindStatusCondition(app.Status.Conditions, appv1.ConditionReady)
		applied := meta.FindStatusCondition(app.Status.Conditions, appv1.ConditionApplied)
		switch {
		case ready != nil && ready.Reason == appv1.ReasonProgressing && applied != nil &&
			(applied.Reason == appv1.ReasonApplied || applied.Reason == appv1.ReasonOverridden && switchedOff(applied.Message)):
		case ready != nil && slices.Contains([]string{appv1.ReasonInvalid, appv1.ReasonNodePortTaken}, ready.Reason) && len(ready.Message) < 2000 &&
			meta.IsStatusConditionTrue(app.Status.Conditions, appv1.ConditionStalled):
			refused++
		default:
			text, _ := json.Marshal(app.Spec)
			t.Errorf("App %s: Ready is %+v, Applied %+v\n%.2000s", app.Name, ready, applied, text)
		}
	}
	if refused == 0 {
		t.Error("no spec was refused: the generator makes none that the schema takes and the API server does not")
	}
}
