package controllers

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/managedfields"
	"k8s.io/client-go/applyconfigurations"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/events"
	clocktesting "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/structured-merge-diff/v6/typed"

	appv1 "huolala.cn/app-operator/api/v1"
	"huolala.cn/app-operator/internal/apply"
	"huolala.cn/app-operator/internal/children"
	"huolala.cn/app-operator/internal/stored"
	"huolala.cn/app-operator/internal/waves"
	"huolala.cn/app-operator/internal/workload"
	"huolala.cn/app-operator/resource"
	"huolala.cn/app-operator/test/play"
)

// namespace is that of all objects of these tests, and webKey the name of the resource that they are about.
const namespace = "default"

var webKey = types.NamespacedName{Namespace: namespace, Name: "web"}

func TestMain(m *testing.M) {
	ctrl.SetLogger(logr.Discard())
	code := m.Run()
	if code == 0 && runsAll() {
		stale, err := checkTranscripts()
		if err != nil || len(stale) > 0 {
			fmt.Fprintf(os.Stderr, "transcripts of no story; -update removes them: %q, %v\n", stale, err)
			code = 1
		}
	}
	os.Exit(code)
}

// world is a cluster of the fake client, with what the controllers share. The fake client merges apply requests and keeps managed
// fields as the API server does. It knows no admission, no defaults and no preconditions.
type world struct {
	*Deps
	t      *testing.T
	clock  *clocktesting.FakePassiveClock
	events *events.FakeRecorder
	// script is the transcript of what happens, section the heading of what happens now, empty between reconciles. base is the client
	// that writes nothing into it.
	script  *transcript
	section string
	base    client.Client
	scheme  *runtime.Scheme
	// reconcilers are those of the kinds, by name. They are made again by restart.
	reconcilers map[string]reconcile.Reconciler
	// requests are those that wrote, each as "<verb> <kind> <name>", since they were last asked for.
	requests []string
	// generations has each change of the spec of a Deployment be another generation, as on an API server.
	generations bool
	// canaries is how many Deployments of canaries were created.
	canaries int
	// fail returns the error to answer a write with, nil for none. It may be nil.
	fail func(verb string, obj client.Object) error
	// policy returns the number of pods that an admission policy sets in place of a wanted number. It may be nil.
	policy func(wanted int32) int32
	// unread returns the error to answer a read of a ReplicaSet of a name with, nil for none. It may be nil.
	unread func(name string) error
}

// newWorld returns a world with objects in it.
func newWorld(t *testing.T, objects ...client.Object) *world {
	t.Helper()
	w := &world{t: t, clock: clocktesting.NewFakePassiveClock(time.Unix(1e9, 0)), events: events.NewFakeRecorder(1000), scheme: testScheme(t)}
	w.script = newTranscript(t, w.clock.Now())
	b := fake.NewClientBuilder().WithScheme(w.scheme).WithReturnManagedFields().WithObjects(objects...).
		WithTypeConverters(statusless{ownTypes()}, managedfields.NewDeducedTypeConverter())
	for _, k := range allKinds() {
		b.WithStatusSubresource(k.empty())
	}
	b.WithStatusSubresource(&stored.AppDefaults{})
	if err := AddIndexes(t.Context(), indexes{b}, &watchSet{}); err != nil {
		t.Fatal(err)
	}
	for i := range children.Types { // These have caches of their own.
		if row := &children.Types[i]; row.Custom {
			b.WithIndex(row.Object, children.IndexOwner, children.OwnerKey)
		}
	}
	base := b.Build()
	c := interceptor.NewClient(base, w.writes())
	w.base = base
	w.Deps = &Deps{Recorder: scripted{w, w.events}, Reconciler: workload.Reconciler{
		Client: c, Live: interceptor.NewClient(c, w.liveReads()), Clock: w.clock, Today: resource.BuildInputs{Rendering: resource.RenderingLatest},
	}}
	w.restart()
	return w
}

// restart drops what the operator remembers.
func (w *world) restart() {
	if w.Engine != nil {
		w.script.printf(w.heading(), "the operator restarts")
	}
	w.Engine = apply.New(w.Client, w.Live, w.clock)
	w.Records, w.PodCauses, w.Pending = workload.NewRecords(), workload.NewPodCauses(w.clock), newPendingPlans()
	w.defaults = newDefaults("platform", nil)
	w.defaults.reader = w.Client
	w.Defaults = w.defaults
	w.grants = waves.NewGrants()
	w.Waves = &waveGrants{Grants: w.grants, defaults: w.defaults}
	w.reconcilers = map[string]reconcile.Reconciler{}
}

// testScheme knows the types of the tests, and no others: the fake client ranges over all of them.
func testScheme(t *testing.T) *runtime.Scheme {
	t.Helper()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{
		corev1.AddToScheme, appsv1.AddToScheme, batchv1.AddToScheme, autoscalingv1.AddToScheme, autoscalingv2.AddToScheme, discoveryv1.AddToScheme,
		networkingv1.AddToScheme, policyv1.AddToScheme, stored.AddToScheme, children.AddToScheme,
	} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	return scheme
}

// ownTypes converts Kubernetes' own types. It takes long to make.
var ownTypes = sync.OnceValue(func() managedfields.TypeConverter { return applyconfigurations.NewTypeConverter(clientgoscheme.Scheme) })

// statusless converts apply requests without the null that the fake client sends for their status: a NetworkPolicy has none.
type statusless struct{ managedfields.TypeConverter }

// ObjectToTyped implements managedfields.TypeConverter.
func (c statusless) ObjectToTyped(obj runtime.Object, options ...typed.ValidationOptions) (*typed.TypedValue, error) {
	if u, ok := obj.(*unstructured.Unstructured); ok && u.Object["status"] == nil {
		u = u.DeepCopy()
		delete(u.Object, "status")
		obj = u
	}
	return c.TypeConverter.ObjectToTyped(obj, options...)
}

// indexes adds indexes to a fake client.
type indexes struct{ builder *fake.ClientBuilder }

// IndexField implements client.FieldIndexer.
func (i indexes) IndexField(_ context.Context, obj client.Object, index string, of client.IndexerFunc) error {
	i.builder.WithIndex(obj, index, of)
	return nil
}

// note notes a request that writes, and returns the error to answer it with.
func (w *world) note(verb string, obj client.Object) error {
	gvk, err := apiutil.GVKForObject(obj, w.Client.Scheme())
	if err != nil {
		return err
	}
	w.requests = append(w.requests, fmt.Sprintf("%s %s %s", verb, gvk.Kind, obj.GetName()))
	if w.fail != nil {
		return w.fail(verb, obj)
	}
	return nil
}

// patch removes the preconditions of an apply request, which the fake client would store, and gives a new object a UID.
func (w *world) patch(ctx context.Context, c client.WithWatch, obj client.Object, patch client.Patch, opts ...client.PatchOption) error {
	if patch.Type() != types.ApplyPatchType {
		if err := w.note("transfer", obj); err != nil {
			return err
		}
		return c.Patch(ctx, obj, patch, opts...)
	}
	data, err := patch.Data(obj)
	if err != nil {
		return err
	}
	var body map[string]any
	if err := json.Unmarshal(data, &body); err != nil {
		return err
	}
	about, _ := body["metadata"].(map[string]any)
	delete(about, "resourceVersion")
	delete(about, "uid")
	if name, ok := about["name"].(string); ok {
		obj.SetName(name)
	}
	obj.SetNamespace(namespace)
	verb := "patch"
	applied := client.PatchOptions{}
	if applied.ApplyOptions(opts); len(applied.DryRun) > 0 {
		verb = "try"
	}
	if err := w.note(verb, obj); err != nil {
		return err
	}
	if data, err = json.Marshal(body); err != nil {
		return err
	}
	before := &appsv1.Deployment{}
	if err := client.IgnoreNotFound(c.Get(ctx, client.ObjectKeyFromObject(obj), before)); err != nil {
		return err
	}
	if err := c.Patch(ctx, obj, client.RawPatch(patch.Type(), data), opts...); err != nil || verb == "try" {
		return err
	}
	if gvk, err := apiutil.GVKForObject(obj, w.scheme); w.generations && before.UID != "" && err == nil && gvk.Kind == "Deployment" {
		return countGeneration(ctx, c, obj, before)
	}
	if obj.GetUID() != "" {
		return nil
	}
	obj.SetUID(types.UID("uid-" + obj.GetName()))
	if strings.HasSuffix(obj.GetName(), appv1.CanarySuffix) { // Each canary has a UID of its own.
		w.canaries++
		obj.SetUID(types.UID(fmt.Sprintf("uid-%s-%d", obj.GetName(), w.canaries)))
	}
	return c.Update(ctx, obj)
}

// countGeneration raises the generation of a Deployment that was written if its spec differs from that of before.
func countGeneration(ctx context.Context, c client.WithWatch, written client.Object, before *appsv1.Deployment) error {
	after := &appsv1.Deployment{}
	if err := c.Get(ctx, client.ObjectKeyFromObject(written), after); err != nil || equality.Semantic.DeepEqual(before.Spec, after.Spec) {
		return err
	}
	after.Generation = before.Generation + 1
	if err := c.Update(ctx, after); err != nil {
		return err
	}
	written.SetGeneration(after.Generation)
	written.SetResourceVersion(after.ResourceVersion)
	return nil
}

func (w *world) get(ctx context.Context, c client.WithWatch, key client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
	if _, ok := obj.(*appsv1.ReplicaSet); ok && w.unread != nil {
		if err := w.unread(key.Name); err != nil {
			return err
		}
	}
	err := c.Get(ctx, key, obj, opts...)
	dateCronJob(obj)
	return err
}

// dateCronJob sets the creation of a CronJob, which the fake client leaves out of an object that an apply request creates, to the time at which a
// world begins.
func dateCronJob(obj client.Object) {
	if job, ok := obj.(*batchv1.CronJob); ok && job.CreationTimestamp.IsZero() {
		job.CreationTimestamp = metav1.NewTime(time.Unix(1e9, 0))
	}
}

func (w *world) delete(ctx context.Context, c client.WithWatch, obj client.Object, opts ...client.DeleteOption) error {
	if err := w.note("delete", obj); err != nil {
		return err
	}
	return c.Delete(ctx, obj, opts...)
}

// patchSubresource writes a status, or the number of pods of a Deployment, which the fake client cannot patch.
func (w *world) patchSubresource(ctx context.Context, c client.Client, sub string, obj client.Object, patch client.Patch, opts ...client.SubResourcePatchOption) error {
	if err := w.note(sub, obj); err != nil {
		return err
	}
	d, ok := obj.(*appsv1.Deployment)
	if sub != "scale" || !ok {
		return c.SubResource(sub).Patch(ctx, obj, patch, opts...)
	}
	data, err := patch.Data(obj)
	if err != nil {
		return err
	}
	var o client.SubResourcePatchOptions
	o.ApplyOptions(opts)
	scale, ok := o.SubResourceBody.(*autoscalingv1.Scale)
	if !ok {
		return fmt.Errorf("the answer is read into %T", o.SubResourceBody)
	}
	if err := json.Unmarshal(data, scale); err != nil {
		return err
	}
	live := &appsv1.Deployment{}
	if err := c.Get(ctx, client.ObjectKeyFromObject(d), live); err != nil {
		return err
	}
	if w.policy != nil {
		scale.Spec.Replicas = w.policy(scale.Spec.Replicas)
	}
	live.Spec.Replicas = ptr.To(scale.Spec.Replicas)
	live.Generation++
	if err := c.Update(ctx, live); err != nil {
		return err
	}
	scale.ResourceVersion = live.ResourceVersion
	return nil
}

// kindNamed returns the row of a kind.
func kindNamed(t *testing.T, name string) *kind {
	t.Helper()
	for _, k := range allKinds() {
		if k.Name == name {
			return &k
		}
	}
	t.Fatalf("there is no kind %s", name)
	return nil
}

// reconcile reconciles the resource web of a kind, and returns what came of it.
func (w *world) reconcile(kindName string) (reconcile.Result, error) {
	w.t.Helper()
	r, ok := w.reconcilers[kindName]
	if !ok {
		k := kindNamed(w.t, kindName)
		r = k.reconciler(k, w.Deps)
		w.reconcilers[kindName] = r
	}
	w.clock.SetTime(w.clock.Now().Add(time.Minute)) // Figures alone are written at most once in a while.
	return w.play(kindName, r)
}

// settle reconciles the resource web of a kind, which must work.
func (w *world) settle(kindName string) {
	w.t.Helper()
	if result, err := w.reconcile(kindName); err != nil || result.Requeue { //nolint:staticcheck // The skeleton asks for the queue's back-off by it.
		w.t.Fatalf("%s: %+v, %v", kindName, result, err)
	}
}

// wrote fails the test unless the requests since the last call are those wanted.
func (w *world) wrote(what string, want ...string) {
	w.t.Helper()
	if diff := cmp.Diff(want, w.requests); diff != "" {
		w.t.Errorf("%s: requests (-want +got):\n%s", what, diff)
	}
	w.requests = nil
}

// read reads an object, by the name web unless it has one. It reports whether there is one.
func (w *world) read(obj client.Object) bool {
	w.t.Helper()
	key := webKey
	if obj.GetName() != "" {
		key.Name = obj.GetName()
	}
	err := w.Client.Get(w.t.Context(), key, obj)
	if client.IgnoreNotFound(err) != nil {
		w.t.Fatal(err)
	}
	return err == nil
}

// deployment reads the Deployment web, which must exist.
func (w *world) deployment() *appsv1.Deployment {
	w.t.Helper()
	d := &appsv1.Deployment{}
	if !w.read(d) {
		w.t.Fatal("there is no Deployment")
	}
	return d
}

// update writes an object as another client does. Its requests do not count.
func (w *world) update(obj client.Object) {
	w.t.Helper()
	if err := w.Client.Update(w.t.Context(), obj, client.FieldOwner("kubectl")); err != nil {
		w.t.Fatal(err)
	}
}

// create creates objects as another client does.
func (w *world) create(objects ...client.Object) {
	w.t.Helper()
	for _, obj := range objects {
		if err := w.Client.Create(w.t.Context(), obj, client.FieldOwner("kubectl")); err != nil {
			w.t.Fatal(err)
		}
	}
}

// remove deletes an object as another client does.
func (w *world) remove(obj client.Object) {
	w.t.Helper()
	if err := w.Client.Delete(w.t.Context(), obj); err != nil {
		w.t.Fatal(err)
	}
	w.requests = nil
}

// setSpec changes the spec of the resource web of a kind.
func (w *world) setSpec(kindName, spec string) {
	w.t.Helper()
	k := kindNamed(w.t, kindName)
	live, changed := k.empty(), newStored(w.t, k, spec)
	if !w.read(live) {
		w.t.Fatalf("there is no %s", kindName)
	}
	changed.SetResourceVersion(live.GetResourceVersion())
	changed.SetAnnotations(live.GetAnnotations())
	changed.SetGeneration(live.GetGeneration() + 1)
	w.update(changed)
}

// annotate sets an annotation of the resource web of a kind.
func (w *world) annotate(kindName, key, value string) {
	w.t.Helper()
	live := kindNamed(w.t, kindName).empty()
	if !w.read(live) {
		w.t.Fatalf("there is no %s", kindName)
	}
	live.SetAnnotations(map[string]string{key: value})
	w.update(live)
}

// status returns the status of the resource web of a kind.
func (w *world) status(kindName string) *appv1.WorkloadStatus {
	w.t.Helper()
	live := kindNamed(w.t, kindName).empty()
	if !w.read(live) {
		w.t.Fatalf("there is no %s", kindName)
	}
	return decodeStatus[appv1.WorkloadStatus](w.t, live)
}

// decodeStatus returns a part of the status of a stored resource.
func decodeStatus[S any](t *testing.T, live client.Object) *S {
	t.Helper()
	data, err := json.Marshal(live)
	if err != nil {
		t.Fatal(err)
	}
	var typed struct{ Status S }
	if err := json.Unmarshal(data, &typed); err != nil {
		t.Fatal(err)
	}
	return &typed.Status
}

// stands fails the test unless the resource web of a kind has conditions, each as "Type=Status/Reason".
func (w *world) stands(what, kindName string, want ...string) {
	w.t.Helper()
	conditions := w.status(kindName).Conditions
	for _, each := range want {
		name, _, _ := strings.Cut(each, "=")
		c := ptr.Deref(meta.FindStatusCondition(conditions, name), metav1.Condition{})
		if got := fmt.Sprintf("%s=%s/%s", name, c.Status, c.Reason); got != each {
			w.t.Errorf("%s: %s (%s), want %s", what, got, c.Message, each)
		}
	}
}

// message returns the message of a condition of the resource web of a kind.
func (w *world) message(kindName, condition string) string {
	w.t.Helper()
	return ptr.Deref(meta.FindStatusCondition(w.status(kindName).Conditions, condition), metav1.Condition{}).Message
}

// sent returns the events since the last call.
func (w *world) sent() []string {
	var sent []string
	for {
		select {
		case event := <-w.events.Events:
			sent = append(sent, event)
		default:
			return sent
		}
	}
}

// newScaler returns an autoscaler of a target.
func newScaler(name, kindName, target string) *autoscalingv2.HorizontalPodAutoscaler {
	h := &autoscalingv2.HorizontalPodAutoscaler{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
	h.Spec.ScaleTargetRef = autoscalingv2.CrossVersionObjectReference{Kind: kindName, Name: target}
	return h
}

// controlledBy returns the metadata of an object that a resource of a kind of the operator controls; no name means that nothing
// does.
func controlledBy(name, kindName, controller string, uid types.UID) metav1.ObjectMeta {
	m := metav1.ObjectMeta{Namespace: namespace, Name: name, UID: types.UID("uid-of-" + name)}
	if controller != "" {
		m.OwnerReferences = []metav1.OwnerReference{{
			APIVersion: appv1.GroupVersion.String(), Kind: kindName, Name: controller, UID: uid, Controller: ptr.To(true),
		}}
	}
	return m
}

// makeAvailable writes the status of the Deployment web as its controller does once all pods run.
func (w *world) makeAvailable() {
	w.t.Helper()
	d := w.deployment()
	play.SetAvailable(d)
	if err := w.Client.Status().Update(w.t.Context(), d); err != nil {
		w.t.Fatal(err)
	}
}

// containsAll reports whether a text has all words.
func containsAll(text string, words ...string) bool {
	return !slices.ContainsFunc(words, func(word string) bool { return !strings.Contains(text, word) })
}

// newPod returns a pod of the resource web of a kind whose container waits for a reason.
func newPod(t *testing.T, kindName, name, reason string) *corev1.Pod {
	t.Helper()
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: map[string]string{
		kindNamed(t, kindName).PodLabel: "web", appv1.LabelInstance: "web",
	}}}
	pod.Status.ContainerStatuses = []corev1.ContainerStatus{{
		Name: "web", State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: reason, Message: "no such image"}},
	}}
	return pod
}
