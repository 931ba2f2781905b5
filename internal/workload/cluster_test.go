package workload

import (
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/managedfields"
	"k8s.io/client-go/applyconfigurations"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	appv1 "huolala.cn/app-operator/api/v1"
	"huolala.cn/app-operator/internal/children"
)

// namespace is the namespace of all objects of these tests.
const namespace = "default"

// newScheme returns a scheme with the types of the tests.
func newScheme(t *testing.T) *runtime.Scheme {
	t.Helper()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{corev1.AddToScheme, appsv1.AddToScheme, autoscalingv2.AddToScheme, discoveryv1.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	return scheme
}

// newClient returns a client of a cluster with objects, which keeps managed fields and has the indexes of the cache.
func newClient(t *testing.T, objects ...client.Object) client.Client {
	t.Helper()
	scheme := newScheme(t)
	return fake.NewClientBuilder().WithScheme(scheme).WithReturnManagedFields().WithObjects(objects...).
		WithTypeConverters(applyconfigurations.NewTypeConverter(scheme), managedfields.NewDeducedTypeConverter()).
		WithIndex(&corev1.Pod{}, IndexInstance, InstanceKeys).
		WithIndex(&autoscalingv2.HorizontalPodAutoscaler{}, IndexTarget, func(obj client.Object) []string {
			return []string{children.ScaleTarget(obj).String()}
		}).Build()
}

// newScaler returns an autoscaler of a target.
func newScaler(name, kindName, target string) *autoscalingv2.HorizontalPodAutoscaler {
	h := &autoscalingv2.HorizontalPodAutoscaler{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
	h.Spec.ScaleTargetRef = autoscalingv2.CrossVersionObjectReference{Kind: kindName, Name: target}
	return h
}

// controlledBy returns the metadata of an object with a custom resource as its controller.
func controlledBy(name, kindName, controller string, uid types.UID) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: namespace, Name: name, UID: types.UID("uid-of-" + name), OwnerReferences: []metav1.OwnerReference{{
		APIVersion: appv1.GroupVersion.String(), Kind: kindName, Name: controller, UID: uid, Controller: ptr.To(true),
	}}}
}

// newPlainDeployment returns a Deployment without an owner whose pods all run.
func newPlainDeployment(name string, replicas int32) *appsv1.Deployment {
	d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
	d.Spec.Replicas = &replicas
	d.Spec.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"a": "b"}}
	d.Spec.Template.Labels = map[string]string{"a": "b"}
	d.Status = appsv1.DeploymentStatus{Replicas: replicas, UpdatedReplicas: replicas, ReadyReplicas: replicas, AvailableReplicas: replicas}
	return d
}

// newPod returns a pod of the App web whose container waits for a reason.
func newPod(name, reason string) *corev1.Pod {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: map[string]string{
		appv1.LabelApp: "web", appv1.LabelInstance: "web",
	}}}
	pod.Status.ContainerStatuses = []corev1.ContainerStatus{{
		Name: "web", State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: reason, Message: "no such image"}},
	}}
	return pod
}

// containsAll reports whether a text has all words.
func containsAll(text string, words ...string) bool {
	return !slices.ContainsFunc(words, func(word string) bool { return !strings.Contains(text, word) })
}
