package integration

import (
	"cmp"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
	monitoringv1 "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/controller-runtime/pkg/client"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	appv1 "huolala.cn/app-operator/api/v1"
	"huolala.cn/app-operator/internal/children"
	"huolala.cn/app-operator/resource"
	"huolala.cn/app-operator/test/fixture"
	"huolala.cn/app-operator/test/harness"
	"huolala.cn/app-operator/test/specs"
)

// createRandom creates Apps and ModelBoxes as a user would write them, several at a time. The Jobs before their rollouts succeed.
func createRandom(t *testing.T, p *harness.Plane, ns string, count int, spec func(specs.Source) map[string]any, src specs.Source) {
	t.Helper()
	endReportedJobs(t, p, ns)
	resources := make(chan *unstructured.Unstructured)
	var group sync.WaitGroup
	for range 4 {
		group.Go(func() {
			for cr := range resources {
				if err := p.Client.Create(t.Context(), cr); err != nil {
					text, _ := json.Marshal(cr.Object["spec"])
					t.Errorf("%v\n%.2000s", err, text)
				}
			}
		})
	}
	for i := range count {
		kind := []string{"App", "App", "ModelBox"}[i%3]
		name := specs.Name(src, i)
		resources <- knownToServer(t, p, func() *unstructured.Unstructured {
			cr := &unstructured.Unstructured{Object: map[string]any{"spec": specOf(kind, spec(src))}}
			cr.SetGroupVersionKind(appv1.GroupVersion.WithKind(kind))
			cr.SetNamespace(ns)
			cr.SetName(name)
			return cr
		})
	}
	close(resources)
	group.Wait()
	if t.Failed() {
		t.FailNow() // Nothing else is worth looking at: a spec was made that the schema refuses.
	}
}

// knownToServer returns the first of the random resources whose objects have no field or value that is newer than the API server.
func knownToServer(t *testing.T, p *harness.Plane, random func() *unstructured.Unstructured) *unstructured.Unstructured {
	t.Helper()
	older := refusedBefore(p.Minor(t))
	for range 1000 {
		cr := random()
		if len(older) == 0 || !refusedAsNewer(t, p, cr, older) {
			return cr
		}
	}
	t.Fatal("each of 1,000 random resources has a field or a value that is newer than the API server")
	return nil
}

// refusedAsNewer reports whether the API server refuses or drops a part of the objects of a resource that newer API servers take. The words
// are those of refusals.
func refusedAsNewer(t *testing.T, p *harness.Plane, cr *unstructured.Unstructured, words []string) bool {
	t.Helper()
	i := slices.IndexFunc(ruledKinds, func(k ruled) bool { return k.kind == cr.GetKind() })
	judged := cr.DeepCopy()
	judged.SetUID("4ca90da6-4b2b-4b1f-9a3c-0f0f0f0f0f0f")
	_, objects, err := ruledKinds[i].judge(judged)
	if err != nil {
		t.Fatal(err)
	}
	return slices.ContainsFunc(objects, func(obj client.Object) bool {
		made, err := applied(t, p, obj)
		if err != nil {
			return containsAny(err.Error(), words)
		}
		sent, err := runtime.DefaultUnstructuredConverter.ToUnstructured(obj)
		if err != nil {
			t.Fatal(err)
		}
		return lacks(made["spec"], sent["spec"])
	})
}

// lacks reports whether a made value has not all fields of the value that was sent, empty ones aside: an API server drops the fields whose
// feature is off.
func lacks(made, sent any) bool {
	switch sent := sent.(type) {
	case map[string]any:
		made, _ := made.(map[string]any)
		for key, value := range sent {
			if lacks(made[key], value) {
				return true
			}
		}
	case []any:
		made, _ := made.([]any)
		if len(made) < len(sent) {
			return true
		}
		for i, value := range sent {
			if lacks(made[i], value) {
				return true
			}
		}
	case nil:
	default:
		return made == nil && !reflect.ValueOf(sent).IsZero()
	}
	return false
}

// specOf returns a random spec as one of a kind: the Service of a ModelBox has ports on the nodes unless it states otherwise, and
// random ports have numbers of their own there, which the cluster has each once.
func specOf(kind string, spec map[string]any) map[string]any {
	if kind == "ModelBox" {
		service, _ := spec["service"].(map[string]any)
		if service == nil {
			service = map[string]any{}
			spec["service"] = service
		}
		if service["type"] == nil {
			service["type"] = "ClusterIP"
		}
	}
	return spec
}

// awaitStatuses waits until every App and ModelBox of the namespace has a status, and returns them.
func awaitStatuses(t *testing.T, p *harness.Plane, ns string) []harness.Resource {
	t.Helper()
	var found []harness.Resource
	harness.Eventually(t, func() error {
		found = nil
		var apps appv1.AppList
		var boxes appv1.ModelBoxList
		for _, list := range []client.ObjectList{&apps, &boxes} {
			if err := p.Client.List(t.Context(), list, client.InNamespace(ns)); err != nil {
				return err
			}
		}
		for i := range apps.Items {
			found = append(found, &apps.Items[i])
		}
		for i := range boxes.Items {
			found = append(found, &boxes.Items[i])
		}
		for _, cr := range found {
			status := cr.CommonStatus()
			if status.ObservedGeneration != cr.GetGeneration() {
				return fmt.Errorf("%T %s has no status yet", cr, cr.GetName())
			}
			if c := meta.FindStatusCondition(status.Conditions, appv1.ConditionApplied); c != nil && c.Reason == appv1.ReasonBeforeRollout {
				return fmt.Errorf("%T %s: %s", cr, cr.GetName(), c.Message)
			}
		}
		return nil
	})
	return found
}

// builtOf returns the workload that an App or a ModelBox means.
func builtOf(t *testing.T, cr client.Object, opts resource.BuildOptions) *resource.Workload {
	t.Helper()
	var w *resource.Workload
	var errs field.ErrorList
	switch cr := cr.(type) {
	case *appv1.App:
		w, errs = resource.App(cr, opts)
	case *appv1.ModelBox:
		w, errs = resource.ModelBox(cr, opts)
	default:
		t.Fatalf("%T is no workload", cr)
	}
	if len(errs) > 0 {
		t.Fatal(errs)
	}
	return w
}

// hasCommand reports whether an App or a ModelBox has a command before its rollouts.
func hasCommand(cr client.Object) bool {
	switch cr := cr.(type) {
	case *appv1.App:
		return cr.Spec.BeforeRollout != nil
	case *appv1.ModelBox:
		return cr.Spec.BeforeRollout != nil
	}
	return false
}

// specText returns the spec of a resource as JSON.
func specText(t *testing.T, cr client.Object) []byte {
	t.Helper()
	fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(cr)
	if err != nil {
		t.Fatal(err)
	}
	return marshalJSON(t, fields["spec"])
}

// countPatches counts the objects that a workload means, as the requests that create them.
func countPatches(w *resource.Workload, counted map[string]int) {
	for _, obj := range w.Objects() {
		plural := map[string]string{"Ingress": "ingresses", "NetworkPolicy": "networkpolicies"}
		kind := obj.GetObjectKind().GroupVersionKind().Kind
		counted["patch "+cmp.Or(plural[kind], strings.ToLower(kind)+"s")]++
	}
}

// TestRandomSpecsRoundTrip applies random specs to the real API server. It must take every object, and once it has, there
// must be nothing to do: neither for the manager that wrote them, nor for one that knows nothing but what lives.
func TestRandomSpecsRoundTrip(t *testing.T) {
	t.Parallel()
	p := complete.start(t)
	ns := p.Namespace(t)
	src := specs.Random(t)
	count := specs.Number(t, "FUZZ_APPS", fixture.Of(60, 150))
	m := p.Start(t, ns)
	createRandom(t, p, ns, count, specs.Served, src)

	want := map[string]int{}
	for _, cr := range awaitStatuses(t, p, ns) {
		countPatches(builtOf(t, cr, resource.BuildOptions{}), want)
		if hasCommand(cr) {
			want["create jobs"]++
		}
		ready := meta.FindStatusCondition(cr.CommonStatus().Conditions, appv1.ConditionReady)
		applied := meta.FindStatusCondition(cr.CommonStatus().Conditions, appv1.ConditionApplied)
		if ready == nil || ready.Reason != appv1.ReasonProgressing || applied == nil || applied.Status != metav1.ConditionTrue || applied.Reason == appv1.ReasonOverridden {
			text := specText(t, cr)
			t.Errorf("%s: Ready is %+v, want reason %s; Applied is %+v\n%.4000s", cr.GetName(), ready, appv1.ReasonProgressing, applied, text)
		}
	}
	m.Idle(t)
	// A request that a busy API server has not carried out is sent again.
	writes := map[string]int{}
	for _, q := range m.Requests.All() {
		if q.Write() && q.Code >= 200 && q.Code < 300 {
			writes[q.Verb+" "+q.Resource]++
		}
	}
	delete(writes, "patch apps/status")
	delete(writes, "patch modelboxes/status")
	if diff := gocmp.Diff(want, writes); diff != "" {
		t.Errorf("writes of %d resources (-want +got):\n%s", count, diff)
	}
	if all := len(childTypes()) + 1; len(want) != all { // With Jobs.
		t.Errorf("the specs mean objects of %d types, want all %d: %v", len(want), all, want)
	}
	for _, obj := range childTypes() {
		list := p.ListOf(t, obj)
		if err := p.Client.List(t.Context(), list, client.InNamespace(ns)); err != nil {
			t.Fatal(err)
		}
		if got := meta.LenList(list); got == 0 || got > count {
			t.Errorf("%T has %d objects", list, got)
		}
	}
	m.Stop(t)

	again := p.Start(t, ns)
	again.Idle(t)
	if diff := gocmp.Diff(map[string]int{}, again.Requests.Writes()); diff != "" {
		t.Errorf("writes of a manager that starts over what is in place (-want +got):\n%s%v", diff, again.Requests.All())
	}
}

// childTypes are empty objects of the types that an App or a ModelBox can have.
func childTypes() []client.Object {
	var types []client.Object
	for i := range children.Types {
		row := &children.Types[i]
		if _, none := row.Object.(*appsv1.StatefulSet); !none && !row.Scheduled && row.Role.Has(children.RoleChild) && row.Scope != children.ScopeLive {
			types = append(types, row.Object)
		}
	}
	return types
}

// TestRandomUpdatesLeaveNothing changes one random spec into another. What lives must then be what a plain create of the
// same objects gives: nothing of the first spec may be left.
func TestRandomUpdatesLeaveNothing(t *testing.T) {
	t.Parallel()
	p := complete.start(t)
	ns, m := p.Shared(t)
	src := specs.Random(t)
	count := specs.Number(t, "FUZZ_APPS", fixture.Of(60, 150)) / 2
	createRandom(t, p, ns, count, changeableSpec, src)
	m.Idle(t)
	for _, cr := range awaitStatuses(t, p, ns) {
		kind := "App"
		if _, box := cr.(*appv1.ModelBox); box {
			kind = "ModelBox"
		}
		changed := knownToServer(t, p, func() *unstructured.Unstructured {
			made := &unstructured.Unstructured{Object: map[string]any{"spec": specOf(kind, changeableSpec(src))}}
			made.SetGroupVersionKind(appv1.GroupVersion.WithKind(kind))
			made.SetNamespace(ns)
			made.SetName("changed") // The dry run is of objects that do not live.
			return made
		})
		patch, err := json.Marshal([]map[string]any{{"op": "replace", "path": "/spec", "value": changed.Object["spec"]}})
		if err != nil {
			t.Fatal(err)
		}
		if err := p.Client.Patch(t.Context(), cr, client.RawPatch(types.JSONPatchType, patch)); err != nil {
			t.Fatalf("%v\n%.2000s", err, patch)
		}
	}
	all := awaitStatuses(t, p, ns)
	m.Idle(t)
	for _, cr := range all {
		makeAvailable(t, p, cr) // What is no longer wanted goes once the pods are ready, if they lead to it.
	}
	m.Idle(t)
	for _, cr := range awaitStatuses(t, p, ns) {
		compareObjects(t, p, cr)
	}
}

// makeAvailable has all pods of a workload be available, and each Service have an address that waits for one.
func makeAvailable(t *testing.T, p *harness.Plane, cr client.Object) {
	t.Helper()
	d := namedDeployment(cr.GetNamespace(), cr.GetName())
	p.Read(t, d)
	p.ChangeStatus(t, d, func() {
		n := *d.Spec.Replicas
		d.Status.ObservedGeneration, d.Status.Replicas, d.Status.UpdatedReplicas = d.Generation, n, n
		d.Status.ReadyReplicas, d.Status.AvailableReplicas = n, n
	})
	var services corev1.ServiceList
	if err := p.Client.List(t.Context(), &services, client.InNamespace(cr.GetNamespace())); err != nil {
		t.Fatal(err)
	}
	for i := range services.Items {
		if s := &services.Items[i]; metav1.IsControlledBy(s, cr) && s.Spec.Type == corev1.ServiceTypeLoadBalancer {
			harness.Eventually(t, func() error {
				err := p.Client.Get(t.Context(), client.ObjectKeyFromObject(s), s)
				if err == nil {
					s.Status.LoadBalancer.Ingress = []corev1.LoadBalancerIngress{{IP: "192.0.2.1"}}
					err = p.Client.Status().Update(t.Context(), s)
				}
				return client.IgnoreNotFound(err) // A former one goes once the other is ready.
			})
		}
	}
}

// changeableSpec returns a spec like specs.Served without what cannot be changed any more, once the Service is made.
func changeableSpec(src specs.Source) map[string]any {
	spec := specs.Served(src)
	if service, ok := spec["service"].(map[string]any); ok {
		delete(service, "clusterIP")
		delete(service, "loadBalancerClass")
		delete(service, "ipFamilyPolicy") // Where none is stated any more, the API server keeps the one that it has.
	}
	return spec
}

// compareFresh compares the App's objects with what the API server makes of them at creation.
func compareFresh(t *testing.T, app *appv1.App) {
	t.Helper()
	compareObjects(t, plane, app)
}

// compareObjects compares the objects of an App or a ModelBox with what the API server makes of them at creation.
func compareObjects(t *testing.T, p *harness.Plane, cr client.Object) {
	t.Helper()
	var live appsv1.Deployment
	if err := p.Client.Get(t.Context(), client.ObjectKeyFromObject(cr), &live); err != nil {
		t.Fatalf("%v\n%.3000s", err, marshalJSON(t, cr))
	}
	inputs, err := resource.DecodeInputs(live.Annotations[appv1.AnnotationLastAppliedInputs])
	if err != nil {
		t.Fatal(err)
	}
	w := builtOf(t, cr, resource.BuildOptions{Inputs: inputs, LiveReplicas: live.Spec.Replicas})
	wanted := map[string]bool{}
	for _, fresh := range w.Objects() {
		if d, ok := fresh.(*appsv1.Deployment); ok && d.Spec.Replicas == nil {
			d.Spec.Replicas = live.Spec.Replicas // Unstated, it stays what it was.
		}
		wanted[fmt.Sprintf("%T %s", fresh, fresh.GetName())] = true
		name, now := fresh.GetName(), fresh.DeepCopyObject().(client.Object)
		readCompleted(t, p, fresh, now)
		if diff := gocmp.Diff(comparableFields(t, fresh), comparableFields(t, now)); diff != "" {
			t.Errorf("%T %s (-created +updated):\n%.3000s", fresh, name, diff)
		}
	}
	for _, obj := range childTypes() {
		list := p.ListOf(t, obj)
		if _, custom := list.(*gatewayv1.HTTPRouteList); custom && p == plane {
			continue // It is not served there.
		}
		if _, custom := list.(*monitoringv1.PodMonitorList); custom && p == plane {
			continue
		}
		if err := p.Client.List(t.Context(), list, client.InNamespace(cr.GetNamespace())); err != nil {
			t.Fatal(err)
		}
		_ = meta.EachListItem(list, func(item runtime.Object) error {
			if left, ok := item.(client.Object); ok && metav1.IsControlledBy(left, cr) && !wanted[fmt.Sprintf("%T %s", left, left.GetName())] {
				t.Errorf("%T %s of %s is left", left, left.GetName(), cr.GetName())
			}
			return nil
		})
	}
}

// comparableFields returns what must be equal of two objects that are wanted alike. The addresses are another Service's, and so are ports of
// nodes.
func comparableFields(t *testing.T, obj client.Object) map[string]any {
	t.Helper()
	if s, ok := obj.(*corev1.Service); ok {
		s.Spec.ClusterIP, s.Spec.ClusterIPs = "", nil
		s.Spec.HealthCheckNodePort = min(s.Spec.HealthCheckNodePort, 1)
		for i := range s.Spec.Ports {
			s.Spec.Ports[i].NodePort = min(s.Spec.Ports[i].NodePort, 1)
		}
	}
	fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(obj)
	if err != nil {
		t.Fatal(err)
	}
	delete(fields, "status")
	fields["metadata"] = map[string]any{"labels": obj.GetLabels()}
	return fields
}

// readCompleted reads the live object that a fresh one has the name of, and has the API server complete the fresh one under another name.
func readCompleted(t *testing.T, p *harness.Plane, fresh, live client.Object) {
	t.Helper()
	if err := p.Client.Get(t.Context(), client.ObjectKeyFromObject(fresh), live); err != nil {
		t.Fatal(err)
	}
	fresh.SetName("fresh")
	if err := p.Client.Create(t.Context(), fresh, client.DryRunAll); err != nil {
		t.Fatal(err)
	}
}

// TestLongFaultIsReported has a fault whose text is longer than a condition takes. It must be reported all the same:
// a status that the API server refuses would be tried again for ever.
func TestLongFaultIsReported(t *testing.T) {
	t.Parallel()
	ns, _ := plane.Shared(t)
	app := newApp(ns, "web")
	app.Spec.Envs = []corev1.EnvVar{{Name: strings.Repeat("A=", 25_000)}}
	if err := plane.Client.Create(t.Context(), app); err != nil {
		t.Fatal(err)
	}
	for _, app := range awaitStatuses(t, plane, ns) {
		if c := meta.FindStatusCondition(app.CommonStatus().Conditions, appv1.ConditionStalled); c == nil || c.Reason != appv1.ReasonInvalid {
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
	p := complete.start(t)
	ns, m := p.Shared(t)
	src := specs.Random(t)
	createRandom(t, p, ns, specs.Number(t, "FUZZ_APPS", fixture.Of(60, 150))/3, func(src specs.Source) map[string]any {
		spec := specs.Workload(src)
		specs.Serve(src, spec)
		return spec
	}, src)
	m.Idle(t)

	refused := 0
	for _, cr := range awaitStatuses(t, p, ns) {
		conditions := cr.CommonStatus().Conditions
		ready := meta.FindStatusCondition(conditions, appv1.ConditionReady)
		applied := meta.FindStatusCondition(conditions, appv1.ConditionApplied)
		switch {
		case ready != nil && ready.Reason == appv1.ReasonProgressing && applied != nil &&
			(applied.Reason == appv1.ReasonApplied || applied.Reason == appv1.ReasonReplicasIgnored || applied.Reason == appv1.ReasonOverridden && switchedOff(applied.Message)):
		case ready != nil && slices.Contains([]string{appv1.ReasonInvalid, appv1.ReasonNodePortTaken}, ready.Reason) && len(ready.Message) < 2000 &&
			meta.IsStatusConditionTrue(conditions, appv1.ConditionStalled):
			refused++
		default:
			text := specText(t, cr)
			t.Errorf("%s: Ready is %+v, Applied %+v\n%.4000s", cr.GetName(), ready, applied, text)
		}
	}
	if refused == 0 {
		t.Error("no spec was refused: the generator makes none that the schema takes and the API server does not")
	}
}
