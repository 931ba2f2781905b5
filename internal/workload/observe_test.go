package workload

import (
	"maps"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appv1 "huolala.cn/app-operator/api/v1"
	"huolala.cn/app-operator/internal/children"
)

// TestListPods lists the pods of an owner that a selector selects.
func TestListPods(t *testing.T) {
	pod := func(name, instance, app string) *corev1.Pod {
		return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name,
			Labels: map[string]string{appv1.LabelInstance: instance, "app": app}}}
	}
	elsewhere := pod("elsewhere", "web", "a")
	elsewhere.Namespace = "other"
	stated := pod("stated", "main", "c") // A spec may state the label of the index for its pods. They have the label of the kind, too.
	stated.Labels[appv1.LabelApp] = "web"
	c := newClient(t, pod("ours", "web", "a"), pod("former", "web", "b"), pod("others", "x", "a"), elsewhere, stated)
	pods, err := ListPods(t.Context(), c, newWebApp(), "web", map[string]string{"app": "a"})
	if err != nil || len(pods) != 1 || pods[0].Name != "ours" {
		t.Errorf("%v, %v", pods, err)
	}
	pods, err = ListPods(t.Context(), c, newWebApp(), "web", map[string]string{"app": "c"})
	if err != nil || len(pods) != 1 || pods[0].Name != "stated" {
		t.Errorf("with the label of the index stated: %v, %v", pods, err)
	}
	// The selector of an adopted Deployment may have the label of the index, and its pods have it.
	pods, err = ListPods(t.Context(), c, newWebApp(), "web", map[string]string{appv1.LabelInstance: "x", "app": "a"})
	if err != nil || len(pods) != 1 || pods[0].Name != "others" {
		t.Errorf("by a selector with the label of the index: %v, %v", pods, err)
	}
}

// TestListPodsWithoutACutLabel lists pods whose label of the selector the cache has cut: those of a ReplicaSet of the Deployment.
func TestListPodsWithoutACutLabel(t *testing.T) {
	pod := func(name, replicaSet string, labels map[string]string) *corev1.Pod {
		made := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: map[string]string{
			appv1.LabelInstance: "web", appsv1.DefaultDeploymentUniqueLabelKey: "5d4f",
		}}}
		maps.Copy(made.Labels, labels)
		made.OwnerReferences = []metav1.OwnerReference{{Kind: "ReplicaSet", Name: replicaSet, Controller: ptr.To(true)}}
		return made
	}
	const key = "example.com/a-long-label-of-the-selector"
	c := newClient(t, pod("has", "other", map[string]string{key: "a"}), pod("cut", "web-5d4f", nil), pod("canary", "web-canary-5d4f", nil), pod("theirs", "web-other-5d4f", nil),
		pod("differs", "web-5d4f", map[string]string{key: "b"}))
	pods, err := ListPods(t.Context(), c, newWebApp(), "web", map[string]string{key: "a"})
	if err != nil || len(pods) != 3 || pods[0].Name != "canary" || pods[1].Name != "cut" || pods[2].Name != "has" {
		t.Errorf("%v, %v", pods, err)
	}
}

// TestFindAutoscaler finds the first by name of those that scale a workload.
func TestFindAutoscaler(t *testing.T) {
	elsewhere := newScaler("0", "Deployment", "web")
	elsewhere.Namespace = "other"
	cluster := newClient(t, elsewhere, newScaler("c", "Deployment", "web"), newScaler("b", "Deployment", "web"), newScaler("a", "App", "web"))
	for _, c := range []struct{ kind, name, want string }{
		{"Deployment", "web", "b"}, {"App", "web", "a"}, {"Deployment", "other", ""}, {"ModelBox", "web", ""},
	} {
		got, err := FindAutoscaler(t.Context(), cluster, c.kind, types.NamespacedName{Namespace: namespace, Name: c.name})
		if err != nil || got != c.want {
			t.Errorf("%s %s: %q, %v; want %q", c.kind, c.name, got, err, c.want)
		}
	}
}

// TestLiveObject checks that a child of each type is compared with the live object of its type and name.
func TestLiveObject(t *testing.T) {
	for i := range children.Types {
		row := &children.Types[i]
		if !row.Role.Has(children.RoleChild) || row.Scope == children.ScopeLive {
			continue
		}
		named := func(name string) client.Object {
			obj, ok := row.Object.DeepCopyObject().(client.Object)
			if !ok {
				t.Fatalf("%T", row.Object)
			}
			obj.SetName(name)
			return obj
		}
		live := named("web")
		seen := &Observed{Owned: children.Inventory{&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "web"}}, named("other"), live}}
		switch live := live.(type) {
		case *appsv1.Deployment:
			seen.Object = live
		case *corev1.Service:
			seen.Service = live
		}
		if got := seen.LiveObject(named("web")); got != live {
			t.Errorf("%T: compared with %v", row.Object, got)
		}
		if got := (&Observed{Owned: children.Inventory{named("other")}}).LiveObject(named("web")); got != nil {
			t.Errorf("%T: compared with %v, want nothing", row.Object, got)
		}
	}
}
