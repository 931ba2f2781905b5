package controllers

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appv1 "huolala.cn/app-operator/api/v1"
)

// podLists counts the lists of pods that are read from the API server. endless has each list have a next page.
type podLists struct {
	client.Reader
	count   int
	endless bool
}

func (r *podLists) List(ctx context.Context, list client.ObjectList, opts ...client.ListOption) error {
	pods, ok := list.(*corev1.PodList)
	if !ok {
		return r.Reader.List(ctx, list, opts...)
	}
	r.count++
	err := r.Reader.List(ctx, list, opts...)
	if r.endless {
		pods.Continue = "more"
	}
	return err
}

// foreignDeployment returns a Deployment web that another tool has created, with labels of its own.
func foreignDeployment() *appsv1.Deployment {
	labels := map[string]string{"app": "web", "app.kubernetes.io/managed-by": "Helm"}
	d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "web", UID: "uid-web", Generation: 1}}
	d.Spec.Replicas, d.Spec.Selector = ptr.To[int32](2), &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}}
	d.Spec.Template.Labels, d.Spec.Template.Spec.Containers = labels, []corev1.Container{{Name: "web", Image: "nginx:1"}}
	return d
}

// podBefore returns a pod that waits for a reason, with the labels of the Deployment of foreignDeployment and of a ReplicaSet.
func podBefore(set, name, reason string) *corev1.Pod {
	_, hash, _ := strings.Cut(set, "-")
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: map[string]string{
		"app": "web", appsv1.DefaultDeploymentUniqueLabelKey: hash,
	}}}
	if set != "" {
		owner := &appsv1.ReplicaSet{ObjectMeta: metav1.ObjectMeta{Name: set, UID: types.UID("uid-" + set)}}
		pod.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(owner, appsv1.SchemeGroupVersion.WithKind("ReplicaSet"))}
	}
	pod.Status.ContainerStatuses = []corev1.ContainerStatus{{
		Name: "web", State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: reason, Message: "no such image"}},
	}}
	return pod
}

// keptWorld returns a world in which a Deployment was adopted without a restart, one of whose pods waits, and what reads from its API server.
func keptWorld(t *testing.T, kindName string) (*world, *podLists) {
	t.Helper()
	w := newWorld(t, newStored(t, kindNamed(t, kindName), flowSpec(kindName, "nginx:1", onePort)), foreignDeployment())
	lists := &podLists{Reader: w.Live}
	w.Live = lists
	w.annotate(kindName, appv1.AnnotationAdopt, appv1.AdoptWithoutRestart)
	w.settle(kindName)
	w.makeAvailable()
	w.settle(kindName)
	w.stands("adopted", kindName, "Ready=True/Ready", "Applied=True/TemplateKept")
	lists.count = 0
	return w, lists
}

// failOne has the Deployment web lack a pod.
func (w *world) failOne() {
	w.t.Helper()
	d := w.deployment()
	d.Status.ReadyReplicas, d.Status.AvailableReplicas, d.Status.UnavailableReplicas = 1, 1, 1
	if err := w.Client.Status().Update(w.t.Context(), d); err != nil {
		w.t.Fatal(err)
	}
}

// TestCauseBeforeTheFirstRefresh has the pods of an adopted Deployment, which lack the operator's labels, show their cause in the status,
// and those of other owners show none. While all pods are available, no request is sent for them.
func TestCauseBeforeTheFirstRefresh(t *testing.T) {
	for _, kindName := range heldKinds() {
		t.Run(kindName, func(t *testing.T) {
			w, lists := keptWorld(t, kindName)
			w.create(podBefore("web-1", "web-1-a", "ImagePullBackOff"))
			w.settle(kindName)
			if lists.count > 0 {
				t.Errorf("%d lists of pods although all pods are available", lists.count)
			}
			w.failOne()
			result, err := w.reconcile(kindName)
			if err != nil || result.RequeueAfter == 0 || result.RequeueAfter > 10*time.Second {
				t.Errorf("%+v, %v: the pods are not read again", result, err)
			}
			w.stands("a pod fails", kindName, "Ready=False/ImagePullBackOff")
			if got := w.message(kindName, appv1.ConditionReady); !containsAll(got, "no such image", "before the adoption") {
				t.Errorf("Ready says %q", got)
			}
			if lists.count != 1 {
				t.Errorf("%d lists of pods, want 1", lists.count)
			}
			w.makeAvailable()
			w.settle(kindName)
			w.stands("it is available", kindName, "Ready=True/Ready")
		})
	}
}

// TestPodsOfOthersHaveNoCause has pods with the labels of an adopted Deployment that are none of its pods.
func TestPodsOfOthersHaveNoCause(t *testing.T) {
	w, _ := keptWorld(t, "App")
	w.create(podBefore("other-1", "other-1-a", "ImagePullBackOff"), podBefore("", "bare", "ImagePullBackOff"))
	w.failOne()
	_, _ = w.reconcile("App")
	w.stands("pods of others fail", "App", "Ready=False/Progressing")
}

// TestUnlabelledPodsAreBounded has a Deployment with more pods than a reconcile reads.
func TestUnlabelledPodsAreBounded(t *testing.T) {
	w, lists := keptWorld(t, "App")
	for i := range 16 {
		w.create(podBefore("web-1", fmt.Sprintf("web-1-%d", i), "ImagePullBackOff"))
	}
	lists.endless = true
	w.failOne()
	_, _ = w.reconcile("App")
	w.stands("pods fail", "App", "Ready=False/ImagePullBackOff")
	if lists.count != 4 {
		t.Errorf("%d lists of pods, want 4", lists.count)
	}
}

// TestLabelledPodsCostNoRequest has a resource that made its own Deployment and whose pods fail: the cache has them.
func TestLabelledPodsCostNoRequest(t *testing.T) {
	for _, kindName := range heldKinds() {
		t.Run(kindName, func(t *testing.T) {
			w := newWorld(t, newStored(t, kindNamed(t, kindName), flowSpec(kindName, "nginx:1", onePort)))
			lists := &podLists{Reader: w.Live}
			w.Live = lists
			w.settle(kindName)
			w.makeAvailable()
			w.create(newPod(t, kindName, "web-1-a", "ImagePullBackOff"))
			w.failOne()
			_, _ = w.reconcile(kindName)
			w.stands("a pod fails", kindName, "Ready=False/ImagePullBackOff")
			if lists.count > 0 {
				t.Errorf("%d lists of pods", lists.count)
			}
		})
	}
}
