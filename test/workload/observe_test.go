package workload

import (
	"fmt"
	"slices"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appv1 "huolala.cn/app-operator/api/v1"
	"huolala.cn/app-operator/test/fixture"
	"huolala.cn/app-operator/test/harness"
)

// newApp returns an App of two pods with one port.
func newApp(namespace string) *appv1.App { return fixture.NewApp(namespace, "web") }

// newModelBox returns a ModelBox like newApp's App.
func newModelBox(namespace string) *appv1.ModelBox { return fixture.NewModelBox(namespace, "web") }

// specOf and statusOf are what an App and a ModelBox share.
func specOf(obj harness.Resource) *appv1.WorkloadSpec {
	if box, ok := obj.(*appv1.ModelBox); ok {
		return &box.Spec.WorkloadSpec
	}
	return &obj.(*appv1.App).Spec.WorkloadSpec
}

func statusOf(obj harness.Resource) *appv1.WorkloadStatus {
	if box, ok := obj.(*appv1.ModelBox); ok {
		return &box.Status.WorkloadStatus
	}
	return &obj.(*appv1.App).Status.WorkloadStatus
}

// ready waits until a resource is Ready, and neither Reconciling nor Stalled.
func ready(t testing.TB, obj harness.Resource) {
	t.Helper()
	plane.Stands(t, obj, "Ready=True", "Reconciling=False/Settled", "Stalled=False")
}

// readyPods waits until an App or a ModelBox is Ready with this number of pods.
func readyPods(t testing.TB, obj harness.Resource, n int) {
	t.Helper()
	plane.Until(t, obj, func() error {
		want, is := fmt.Sprintf("%d/%[1]d", n), statusOf(obj).Ready
		if running := len(pods(t, obj.GetNamespace())); is != want || running != n {
			return fmt.Errorf("ready %s with %d pods, want %s", is, running, want)
		}
		return nil
	})
	ready(t, obj)
}

// deployment and service are the children of an App or a ModelBox, to be read.
var deployment, service = fixture.Deployment, fixture.Service

// read reads an object that exists.
func read[T client.Object](t testing.TB, obj T) T {
	t.Helper()
	plane.Read(t, obj)
	return obj
}

// pods are those of a namespace that are not on their way out.
func pods(t testing.TB, namespace string) []corev1.Pod {
	t.Helper()
	var list corev1.PodList
	if err := plane.Client.List(t.Context(), &list, client.InNamespace(namespace)); err != nil {
		t.Fatal(err)
	}
	return slices.DeleteFunc(list.Items, func(p corev1.Pod) bool { return p.DeletionTimestamp != nil })
}

// uids are those of the pods of a namespace, in order.
func uids(t testing.TB, namespace string) []types.UID {
	t.Helper()
	var found []types.UID
	for _, pod := range pods(t, namespace) {
		found = append(found, pod.UID)
	}
	slices.Sort(found)
	return found
}

// replicaSets returns how many ReplicaSets a namespace has: one for each pod template that was ever rolled out.
func replicaSets(t testing.TB, namespace string) int {
	t.Helper()
	var list appsv1.ReplicaSetList
	if err := plane.Client.List(t.Context(), &list, client.InNamespace(namespace)); err != nil {
		t.Fatal(err)
	}
	return len(list.Items)
}

// shared returns how many UIDs two lists have in common.
func shared(a, b []types.UID) int {
	n := 0
	for _, uid := range a {
		if slices.Contains(b, uid) {
			n++
		}
	}
	return n
}
