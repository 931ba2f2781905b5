package controllers

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	appv1 "huolala.cn/app-operator/api/v1"
	"huolala.cn/app-operator/internal/children"
	"huolala.cn/app-operator/internal/stored"
	"huolala.cn/app-operator/internal/workload"
	"huolala.cn/app-operator/resource"
)

// specs are specs of each kind by which the resource "web" wants children: "web" of an App and a ModelBox, "held" of a
// UnitedDeployment, and the default names of a CloudManager.
var specs = map[string]string{
	"App": `{"image":"nginx:1"}`, "ModelBox": `{"image":"nginx:1"}`, "UnitedDeployment": `{"deploymentName":"held","replicas":1}`,
	"CloudManager": `{"db":{"statefulSet":{"name":"data"}},"identity":{"deployment":{"name":"id"}},"front":{"deployment":{"name":"front"}}}`,
	"Task":         `{"app":"shop","command":["report"],"schedule":"@daily"}`,
}

// wantedNames are the names of children that the resource "web" of a kind wants.
var wantedNames = map[string][]string{
	"App": {"web"}, "ModelBox": {"web"}, "UnitedDeployment": {"held"}, "CloudManager": {"data", "data-headless", "id", "front"},
	"Task": {"web"},
}

// indexedNames are the names by which an index finds the resource "web" of a kind, where these are not the names of its children.
var indexedNames = map[string][]string{"Task": {"shop"}}

// newStored returns the resource "web" of a kind with a spec.
func newStored(t *testing.T, k *kind, spec string) client.Object {
	t.Helper()
	obj := k.empty()
	text := `{"apiVersion":"app.huolala.cn/v1","kind":"` + k.Name + `","metadata":{"name":"web","namespace":"default","uid":"1"},"spec":` + spec + `}`
	if err := json.Unmarshal([]byte(text), obj); err != nil {
		t.Fatal(err)
	}
	return obj
}

// withCache returns what the controllers share, with a cache that holds objects and has all indexes.
func withCache(t *testing.T, objects ...client.Object) *Deps {
	t.Helper()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, stored.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	b := fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...)
	for _, k := range allKinds() {
		if k.index != "" {
			b.WithIndex(k.empty(), k.index, k.childNames)
		}
	}
	return &Deps{Reconciler: workload.Reconciler{Client: b.Build()}}
}

// requestsOf returns a request for each of the resources of a kind that an object concerns.
func requestsOf(ctx context.Context, k *kind, s *Deps, found wakeUps) []ctrl.Request {
	requests := found.requests
	for _, g := range found.groups {
		requests = append(requests, k.listGroup(ctx, s, g)...)
	}
	return requests
}

// mappedNames are those of the resources that an object concerns, sorted and each once.
func mappedNames(t *testing.T, k *kind, s *Deps, obj client.Object) []string {
	t.Helper()
	var names []string
	for _, req := range requestsOf(t.Context(), k, s, k.wakeFunc(s, children.TypeOf(obj).Role)(t.Context(), obj)) {
		if req.Namespace != "default" {
			t.Errorf("%s: a request for the namespace %q", k.Name, req.Namespace)
		}
		names = append(names, req.Name)
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// newChild returns an object of a type with a name and, if it is not empty, a controller of a kind.
func newChild(t *testing.T, row *children.Type, name, controllerKind, controller string) client.Object {
	t.Helper()
	obj, ok := row.Object.DeepCopyObject().(client.Object)
	if !ok {
		t.Fatalf("%T", row.Object)
	}
	obj.SetNamespace("default")
	obj.SetName(name)
	if controller != "" {
		obj.SetOwnerReferences([]metav1.OwnerReference{{
			APIVersion: appv1.GroupVersion.String(), Kind: controllerKind, Name: controller, UID: "1", Controller: ptr.To(true),
		}})
	}
	return obj
}

// TestKindsAreComplete checks that each row says what the others range over it for.
func TestKindsAreComplete(t *testing.T) {
	seen := map[string]bool{}
	if len(allKinds()) != len(resource.Kinds) {
		t.Fatalf("%d kinds of %d have a controller", len(allKinds()), len(resource.Kinds))
	}
	for i, k := range allKinds() {
		if k.Name != resource.Kinds[i].Name {
			t.Errorf("%s is where %s is in resource.Kinds", k.Name, resource.Kinds[i].Name)
		}
		for _, key := range []string{k.Name, k.manager, k.PodLabel} {
			if key == "" || seen[key] {
				t.Errorf("%s: %q is missing, or another kind's", k.Name, key)
			}
			seen[key] = true
		}
		if (k.index == "") != (k.childNames == nil) {
			t.Errorf("%s has an index without its function, or the other way", k.Name)
		}
		if specs[k.Name] == "" {
			t.Errorf("the tests have no spec for %s", k.Name)
		}
		if _, tiers := k.New().(*appv1.CloudManager); !tiers && !k.Scheduled && (flowSpecs[k.Name] == "" || invalidSpecs[k.Name] == "") {
			t.Errorf("no resource %s is taken through its life; flowSpecs and invalidSpecs lack it", k.Name)
		}
		if obj := k.empty(); obj == nil || k.list() == nil || k.reconciler(&k, &Deps{}) == nil {
			t.Errorf("%s lacks a part", k.Name)
		}
	}
}

// TestMapOwnedOrNamed maps a child of each type to resources of each kind: those that control it, or want one of its name.
func TestMapOwnedOrNamed(t *testing.T) {
	for _, k := range allKinds() {
		s := withCache(t, newStored(t, &k, specs[k.Name]))
		for i := range children.Types {
			row := &children.Types[i]
			if !row.Role.Has(children.RoleChild) || !k.watchesType(row) {
				continue
			}
			for name, c := range map[string]struct {
				obj  client.Object
				want []string
			}{
				"owned, by another name":   {newChild(t, row, "former", k.Name, "web"), []string{"web"}},
				"nobody's":                 {newChild(t, row, "unknown", "", ""), nil},
				"another kind's":           {newChild(t, row, "unknown", "Other", "web"), nil},
				"owned by one that is not": {newChild(t, row, "unknown", k.Name, "gone"), []string{"gone"}},
			} {
				if got := mappedNames(t, &k, s, c.obj); !slices.Equal(got, c.want) {
					t.Errorf("%s, %T, %s: %q, want %q", k.Name, row.Object, name, got, c.want)
				}
			}
			for _, wanted := range wantedNames[k.Name] {
				if got := mappedNames(t, &k, s, newChild(t, row, wanted, "", "")); !slices.Equal(got, []string{"web"}) {
					t.Errorf("%s, %T: an object of the name %s that it wants: %q", k.Name, row.Object, wanted, got)
				}
			}
		}
	}
}

// TestMapByLabel maps pods and claims to the resource that their label names.
func TestMapByLabel(t *testing.T) {
	for _, k := range allKinds() {
		s := withCache(t)
		for _, obj := range []client.Object{&corev1.Pod{}, &corev1.PersistentVolumeClaim{}} {
			obj.SetNamespace("default")
			if got := mappedNames(t, &k, s, obj); len(got) > 0 {
				t.Errorf("%s, %T without a label: %q", k.Name, obj, got)
			}
			obj.SetLabels(map[string]string{k.PodLabel: "web"})
			if got := mappedNames(t, &k, s, obj); !slices.Equal(got, []string{"web"}) {
				t.Errorf("%s, %T: %q", k.Name, obj, got)
			}
		}
	}
}

// TestMapScaleTarget maps autoscalers to the resources that they scale, themselves or by their workload objects.
func TestMapScaleTarget(t *testing.T) {
	for _, k := range allKinds() {
		if k.Scheduled { // Nothing scales a CronJob.
			continue
		}
		s := withCache(t, newStored(t, &k, specs[k.Name]))
		scaler := func(kind, name string) client.Object {
			h := &autoscalingv2.HorizontalPodAutoscaler{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "scaler"}}
			h.Spec.ScaleTargetRef = autoscalingv2.CrossVersionObjectReference{Kind: kind, Name: name}
			return h
		}
		for _, workload := range []string{"Deployment", "StatefulSet"} {
			if got := mappedNames(t, &k, s, scaler(workload, wantedNames[k.Name][0])); !slices.Equal(got, []string{"web"}) {
				t.Errorf("%s by its %s: %q", k.Name, workload, got)
			}
		}
		if got := mappedNames(t, &k, s, scaler("ReplicaSet", wantedNames[k.Name][0])); len(got) > 0 {
			t.Errorf("%s by a ReplicaSet: %q", k.Name, got)
		}
		var want []string
		if k.Scales && k.Holds { // A UnitedDeployment is scaled as well, and says nothing of who does.
			want = []string{"web"}
		}
		if got := mappedNames(t, &k, s, scaler(k.Name, "web")); !slices.Equal(got, want) {
			t.Errorf("%s itself: %q, want %q", k.Name, got, want)
		}
	}
}

// TestChildNamesOfAnUndecodable checks that a resource whose spec cannot be decoded wants no names, and does no harm.
func TestChildNamesOfAnUndecodable(t *testing.T) {
	for _, k := range allKinds() {
		if k.childNames == nil {
			continue
		}
		if got := k.childNames(newStored(t, &k, `{"db":5,"deploymentName":{},"app":[]}`)); len(got) > 0 {
			t.Errorf("%s: %q", k.Name, got)
		}
		if got := k.childNames(&appsv1.Deployment{}); len(got) > 0 {
			t.Errorf("%s: a Deployment has %q", k.Name, got)
		}
		want, ok := indexedNames[k.Name]
		if !ok {
			want = wantedNames[k.Name]
		}
		if got := k.childNames(newStored(t, &k, specs[k.Name])); !slices.Equal(got, want) {
			t.Errorf("%s: %q, want %q", k.Name, got, want)
		}
	}
}

// TestUserChanged selects what a user has changed of a resource, and not what the operator has written into its status.
func TestUserChanged(t *testing.T) {
	was := &stored.App{}
	was.Generation, was.ResourceVersion = 1, "1"
	for name, c := range map[string]struct {
		change func(*stored.App)
		want   bool
	}{
		"the status":    {func(a *stored.App) { a.Status.Value.Ready = "1/1" }, false},
		"the spec":      {func(a *stored.App) { a.Generation = 2 }, true},
		"an annotation": {func(a *stored.App) { a.Annotations = map[string]string{"a": "b"} }, true},
	} {
		now := was.DeepCopyObject().(*stored.App) //nolint:forcetypeassert // It is the copy of one.
		now.ResourceVersion = "2"
		c.change(now)
		if got := userChanged().Update(event.UpdateEvent{ObjectOld: was, ObjectNew: now}); got != c.want {
			t.Errorf("%s: %t", name, got)
		}
	}
}

// TestReplacedIsSeen has each predicate take an update of two objects, which an informer sends after a gap of its watch, for the deletion of the
// first one and the creation of the second one. All but the UID is equal.
func TestReplacedIsSeen(t *testing.T) {
	type row struct {
		predicate predicate.Predicate
		obj       client.Object
		// ignored is true where neither the deletion nor the creation of the object counts.
		ignored bool
	}
	owned := []metav1.OwnerReference{{Kind: "ReplicaSet", Name: "r", Controller: ptr.To(true)}}
	stray := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{appsv1.StatefulSetPodNameLabel: "p"}}}
	rows := map[string]row{
		"AppDefaults":        {specChanged(), &stored.AppDefaults{}, false},
		"AppDefaults, later": {laterSpecChanged(), &stored.AppDefaults{}, false},
		"App of a Task":      {templateChanged(), &appsv1.Deployment{}, false},
		"stray":              {strayChanged(), stray, false},
		"no stray":           {strayChanged(), &corev1.Pod{}, true},
		"comes or goes":      {comesOrGoes(), &stored.CloudManager{}, false},
		"pod that counts":    {children.TypeOf(&corev1.Pod{}).Wakes, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{OwnerReferences: owned}}, false},
	}
	for _, k := range allKinds() {
		rows[k.Name] = row{userChanged(), k.empty(), false}
	}
	for i := range children.Types {
		if of := &children.Types[i]; of.Wakes != nil {
			_, pod := of.Object.(*corev1.Pod)
			rows[fmt.Sprintf("%T", of.Object)] = row{of.Wakes, of.Object, pod}
		}
	}
	for name, c := range rows {
		versions := make([]client.Object, 2)
		for i := range versions {
			versions[i], _ = c.obj.DeepCopyObject().(client.Object)
			versions[i].SetGeneration(1)
			versions[i].SetUID(types.UID(fmt.Sprint("uid-", i)))
		}
		replaced := event.UpdateEvent{ObjectOld: versions[0], ObjectNew: versions[1]}
		if got := c.predicate.Update(replaced); got == c.ignored {
			t.Errorf("%s, replaced: %t", name, got)
		}
		if _, counted := c.obj.(stored.Observed); counted && !defaultsChanged(replaced) {
			t.Errorf("%s, replaced: AppDefaults are not counted again", name)
		}
		if c.predicate.Update(event.UpdateEvent{ObjectOld: versions[0], ObjectNew: versions[0]}) {
			t.Errorf("%s: an update without a change passes", name)
		}
	}
}
