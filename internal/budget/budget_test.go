package budget

import (
	"fmt"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appv1 "huolala.cn/app-operator/api/v1"
	"huolala.cn/app-operator/internal/children"
	"huolala.cn/app-operator/internal/heap"
	"huolala.cn/app-operator/internal/stored"
)

var limits = Limits{Owner: 8 << 10, Namespace: 64 << 10, Total: 96 << 10}

// newApp returns an App as it is stored, with a spec of a length.
func newApp(t *testing.T, namespace, name string, length int) *stored.App {
	t.Helper()
	app := &stored.App{}
	app.Namespace, app.Name, app.UID, app.Generation = namespace, name, types.UID(namespace+"/"+name), 1
	if err := app.Spec.UnmarshalJSON([]byte(`{"image":"` + strings.Repeat("i", length) + `","service":{"name":"front"}}`)); err != nil {
		t.Fatal(err)
	}
	return app
}

// newService returns a Service that names an App as its controller, with an annotation of a length.
func newService(namespace, name string, owner *stored.App, length int) *corev1.Service {
	s := &corev1.Service{ObjectMeta: metav1.ObjectMeta{
		Namespace: namespace, Name: name, UID: types.UID("service-" + namespace + "/" + name),
		Annotations: map[string]string{"a": strings.Repeat("v", length)},
	}}
	if owner != nil {
		s.OwnerReferences = []metav1.OwnerReference{{
			APIVersion: appv1.GroupVersion.String(), Kind: "App", Name: owner.Name, UID: owner.UID, Controller: ptr.To(true),
		}}
	}
	return s
}

func (b *Budget) keepApp(app *stored.App) bool {
	b.KeepResource("App", app, func() []string { return []string{"name"} })
	return !app.Reduced()
}

func (b *Budget) keep(obj client.Object) bool {
	b.KeepChild(children.TypeOf(obj), obj)
	return !children.IsPartial(obj)
}

// TestOwnership keeps an object whole only if its controller is a custom resource that the cache has, by all that a reference states.
func TestOwnership(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*corev1.Service)
		whole  bool
	}{
		"a child":                    {func(*corev1.Service) {}, true},
		"a child without a label":    {func(s *corev1.Service) { s.Labels = nil }, true},
		"a child by another version": {func(s *corev1.Service) { s.OwnerReferences[0].APIVersion = appv1.GroupVersion.Group + "/v1beta1" }, true},
		"no controller, and the label": {func(s *corev1.Service) {
			s.OwnerReferences, s.Labels = nil, map[string]string{appv1.LabelManagedBy: appv1.ManagedBy}
		}, false},
		"an unknown UID":    {func(s *corev1.Service) { s.OwnerReferences[0].UID = "unknown" }, false},
		"another kind":      {func(s *corev1.Service) { s.OwnerReferences[0].Kind = "ModelBox" }, false},
		"another name":      {func(s *corev1.Service) { s.OwnerReferences[0].Name = "other" }, false},
		"another namespace": {func(s *corev1.Service) { s.Namespace = "other" }, false},
		"another group": {func(s *corev1.Service) {
			s.OwnerReferences[0].APIVersion, s.Labels = "example.com/v1", map[string]string{appv1.LabelManagedBy: appv1.ManagedBy}
		}, false},
		"an owner that is not the controller": {func(s *corev1.Service) {
			s.OwnerReferences[0].Controller, s.Labels = nil, map[string]string{appv1.LabelManagedBy: appv1.ManagedBy}
		}, false},
		"the mark of what is kept in part": {func(s *corev1.Service) { s.Annotations["app.huolala.cn/kept-in-part"] = "" }, false},
	} {
		b := New(limits)
		app := newApp(t, "shop", "web", 10)
		if !b.keepApp(app) {
			t.Fatal("a small App is not kept whole")
		}
		s := newService("shop", "web", app, 100)
		c.change(s)
		if got := b.keep(s); got != c.whole || (s.Annotations["a"] != "") != c.whole {
			t.Errorf("%s: is kept whole: %t, want %t", name, got, c.whole)
		}
	}
}

// TestLimitOfNamespace fills a namespace to its limit, and beyond, and frees it.
func TestLimitOfNamespace(t *testing.T) {
	const small, large, larger = 100, 40 << 10, 60 << 10
	size := func(bytes int) int { return heap.Size(newApp(t, "other", "a", bytes)) }
	limits := Limits{Owner: size(small)}
	limits.Namespace = size(large) - limits.Owner
	limits.Total = 2 * limits.Namespace
	b := New(limits)
	fits := func(namespace, name string, bytes int) bool { return b.keepApp(newApp(t, namespace, name, bytes)) }

	if !fits("space", "a", large) || b.Used("space") != limits.Namespace {
		t.Fatalf("an App that fits exactly counts for %d bytes, want %d", b.Used("space"), limits.Namespace)
	}
	if fits("space", "b", small+64) {
		t.Error("an App is kept whole beyond the limit")
	}
	if !fits("space", "a", small) || b.Used("space") != 0 {
		t.Errorf("%d bytes count of an App that has become small", b.Used("space"))
	}
	if fits("space", "a", larger) {
		t.Error("an App is kept whole that is larger than the limit")
	}
	if !fits("space", "a", large) {
		t.Error("an App that fits again is not kept whole")
	}
	for i := range 1000 {
		if !fits("space", fmt.Sprint(i), small-20) {
			t.Fatal("a small App is not kept whole in a namespace at its limit")
		}
	}
	if !fits("other", "a", large) {
		t.Error("another namespace has no room")
	}
	if fits("third", "a", large) {
		t.Error("all namespaces together have no limit")
	}
	b.Forget(newApp(t, "other", "a", 0))
	if !fits("third", "a", large) {
		t.Error("what is deleted counts for ever")
	}
	b.Forget(newApp(t, "space", "a", 0))
	if used := b.Used("space"); used != 0 || !fits("space", "b", small+64) {
		t.Errorf("%d bytes count after the deletion", used)
	}
}

// TestNothingIsLeft forgets all that was kept, in any order, and expects no memory of it.
func TestNothingIsLeft(t *testing.T) {
	for _, ownerFirst := range []bool{false, true} {
		b := New(limits)
		app := newApp(t, "shop", "web", 20<<10)
		b.keepApp(app)
		var objects []client.Object
		for i := range 20 {
			child := newService("shop", fmt.Sprint(i), app, 5<<10)
			b.keep(child)
			b.keep(child)
			objects = append(objects, child)
		}
		if ownerFirst {
			b.Forget(app)
		}
		for _, child := range objects {
			b.Forget(child)
		}
		if !ownerFirst {
			b.Forget(app)
		}
		if len(b.owners)+len(b.entries)+len(b.namespaces)+b.total != 0 {
			t.Errorf("%d owners, %d entries, %d namespaces and %d bytes are left", len(b.owners), len(b.entries), len(b.namespaces), b.total)
		}
	}
}

// TestChildrenOfOneOwner has one App with many Services that name it as their controller: they share what the App may take.
func TestChildrenOfOneOwner(t *testing.T) {
	b := New(limits)
	app := newApp(t, "shop", "web", 10)
	b.keepApp(app)
	bytes, whole := 0, 0
	for i := range 10_000 {
		s := newService("shop", fmt.Sprint(i), app, 2<<10)
		if b.keep(s) {
			whole++
		}
		bytes += heap.Size(s)
		if size := heap.Size(s); children.IsPartial(s) && size > 4<<10 {
			t.Fatalf("%d bytes are kept of an object beyond the limit", size)
		}
	}
	if whole == 0 || whole*(2<<10) > limits.Owner+limits.Namespace {
		t.Errorf("%d of 10,000 Services are kept whole", whole)
	}
	// The App goes, and its Services stay: they count in full, and no other App gets their room.
	before := b.Used("shop")
	b.Forget(app)
	if after := b.Used("shop"); after <= before {
		t.Errorf("%d bytes count without the owner, %d with it", after, before)
	}
}

// TestOwnerAfterChild lists a child before its owner: it is kept in part, is to be read once the owner is known, and is whole at its next
// event.
func TestOwnerAfterChild(t *testing.T) {
	b := New(limits)
	app := newApp(t, "shop", "web", 10)
	s := newService("shop", "web", app, 100)
	if b.keep(s) || !needsLiveRead(s) {
		t.Fatal("a child of an unknown owner is kept whole, or is not read")
	}
	b.keepApp(app)
	if !needsLiveRead(s) {
		t.Error("a child that was listed before its owner is not read")
	}
	if next := newService("shop", "web", app, 100); !b.keep(next) || needsLiveRead(next) {
		t.Error("the child is not whole at its next event")
	}
	b.Forget(app)
	again := newApp(t, "shop", "web", 10)
	again.UID = "another"
	b.keepApp(again)
	if left := newService("shop", "web", app, 100); b.keep(left) || !needsLiveRead(left) {
		t.Error("an App of the same name is taken for the owner, or cannot take the child over as it is")
	}
	if !b.keep(newService("shop", "web", again, 100)) {
		t.Error("the child of the new App is not kept whole")
	}
}

// TestReadOfACutSelector has a Deployment of another operator whose selector is too long to keep: it is read on demand, and with a short selector it is not.
func TestReadOfACutSelector(t *testing.T) {
	for value, want := range map[string]bool{"web": false, strings.Repeat("v", 4<<10): true} {
		d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web"}}
		d.OwnerReferences = []metav1.OwnerReference{{APIVersion: "example.com/v1", Kind: "Site", Name: "web", UID: "1", Controller: ptr.To(true)}}
		d.Spec.Selector = &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "app", Operator: metav1.LabelSelectorOpIn, Values: []string{value}}}}
		if New(Limits{}).KeepChild(children.TypeOf(d), d); needsLiveRead(d) != want {
			t.Errorf("a selector of %d bytes: is read: %t", len(value), !want)
		}
	}
}

// TestWhatIsRead has objects of all types that are not kept whole: read on demand are those that a resource may have, or take back.
func TestWhatIsRead(t *testing.T) {
	b := New(Limits{})
	app := newApp(t, "shop", "web", 10)
	b.keepApp(app)
	for name, c := range map[string]struct {
		change func(client.Object, []metav1.OwnerReference)
		want   bool
	}{
		"a child without room": {func(obj client.Object, refs []metav1.OwnerReference) { obj.SetOwnerReferences(refs) }, true},
		"of an earlier App": {func(obj client.Object, refs []metav1.OwnerReference) {
			refs[0].UID = "earlier"
			obj.SetOwnerReferences(refs)
		}, true},
		"of nobody": {func(client.Object, []metav1.OwnerReference) {}, true},
		"of another operator": {func(obj client.Object, refs []metav1.OwnerReference) {
			refs[0].APIVersion = "example.com/v1"
			obj.SetOwnerReferences(refs)
		}, false},
		"of nobody, without a mark of ours": {func(obj client.Object, _ []metav1.OwnerReference) { obj.SetLabels(nil) }, false},
	} {
		for i := range children.Types {
			row := &children.Types[i]
			if !row.Whole() {
				continue
			}
			obj := row.Object.DeepCopyObject().(client.Object) //nolint:forcetypeassert // It is the copy of one.
			obj.SetNamespace("shop")
			obj.SetName("web")
			obj.SetLabels(map[string]string{appv1.LabelManagedBy: appv1.ManagedBy})
			obj.SetAnnotations(map[string]string{"a": strings.Repeat("v", limits.Owner)})
			if d, ok := obj.(*appsv1.Deployment); ok {
				d.Spec.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}}
			}
			c.change(obj, newService("shop", "web", app, 0).OwnerReferences)
			if b.KeepChild(row, obj); needsLiveRead(obj) != c.want {
				t.Errorf("%T %s: is read: %t, want %t", obj, name, needsLiveRead(obj), c.want)
			}
		}
	}
}

// TestReducedResource drops the spec of an App: indexes and metrics find what they read, and nobody takes the rest for a spec.
func TestReducedResource(t *testing.T) {
	b := New(limits)
	app := newApp(t, "shop", "web", 200<<10)
	app.Status.Value.Conditions = []metav1.Condition{{Type: "Ready", Status: metav1.ConditionTrue, Reason: "Ready", Message: strings.Repeat("m", 30<<10)}}
	app.Status.Value.LatestRendering = 2
	if b.keepApp(app) {
		t.Fatal("the App is kept whole")
	}
	if size := heap.Size(app); size > 4<<10 {
		t.Errorf("%d bytes are kept", size)
	}
	names, _ := app.IndexNames()
	rendering, _ := app.Outdated()
	if app.ServiceName() != "front" || len(names) != 1 || !rendering || app.Condition("Ready").Status != metav1.ConditionTrue || app.Generation != 1 {
		t.Errorf("the App became %+v", app)
	}
	if _, err := app.Decode(); err == nil {
		t.Error("the App can be decoded")
	}
	if _, err := app.Spec.MarshalJSON(); err == nil {
		t.Error("the spec can be encoded")
	}
	if b.keepApp(app); !app.Reduced() || app.ServiceName() != "front" || !needsLiveRead(app) {
		t.Error("another transform changes the App")
	}
}

// BenchmarkKeepChild measures what a watch does for each event of a plain Deployment.
func BenchmarkKeepChild(b *testing.B) {
	d := &appsv1.Deployment{}
	d.Spec.Template.Spec.Containers = make([]corev1.Container, 1)
	d.Spec.Template.Spec.Containers[0].Env = make([]corev1.EnvVar, 10)
	for b.Loop() {
		heap.Size(d)
	}
}
