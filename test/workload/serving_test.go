package workload

import (
	"errors"
	"fmt"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apiresource "k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	appv1 "huolala.cn/app-operator/api/v1"
	"huolala.cn/app-operator/test/harness"
)

// evict asks for the eviction of a pod, as a drain of its node does.
func evict(t *testing.T, pod *corev1.Pod) error {
	t.Helper()
	return plane.Client.SubResource("eviction").Create(t.Context(), pod, &policyv1.Eviction{
		ObjectMeta: metav1.ObjectMeta{Namespace: pod.Namespace, Name: pod.Name},
	})
}

// allowed waits until the budget of an App allows a number of disruptions.
func allowed(t *testing.T, app *appv1.App, n int32) {
	t.Helper()
	budget := &policyv1.PodDisruptionBudget{ObjectMeta: metav1.ObjectMeta{Namespace: app.Namespace, Name: app.Name}}
	plane.Until(t, budget, func() error {
		if budget.Status.ObservedGeneration != budget.Generation || budget.Status.DisruptionsAllowed != n {
			return fmt.Errorf("%d disruptions are allowed, want %d", budget.Status.DisruptionsAllowed, n)
		}
		return nil
	})
}

// TestEvictions evicts pods under a budget. Of two pods that are to stay, none goes; of two that may be one, one goes at a time.
func TestEvictions(t *testing.T) {
	t.Parallel()
	ns, _ := plane.Shared(t)
	app := newApp(ns)
	app.Spec.DisruptionBudget = &appv1.DisruptionBudgetSpec{}
	plane.Create(t, app)
	ready(t, app)
	allowed(t, app, 1)
	all := pods(t, ns)
	// No other pod comes in place of the first one meanwhile.
	quota := newQuota(t, ns, corev1.ResourcePods, "0")
	if err := evict(t, &all[0]); err != nil {
		t.Fatalf("the first pod: %v", err)
	}
	if err := evict(t, &all[1]); !apierrors.IsTooManyRequests(err) {
		t.Errorf("the second pod: %v", err)
	}
	plane.Delete(t, quota)
	readyPods(t, app, 2)
}

// TestEvictionOfACrashLoop evicts pods that crash, although a budget would have them stay.
func TestEvictionOfACrashLoop(t *testing.T) {
	t.Parallel()
	ns, _ := plane.Shared(t)
	app := newApp(ns)
	app.Spec.Image = "crashloopbackoff.test/x:1"
	app.Spec.DisruptionBudget = &appv1.DisruptionBudgetSpec{}
	plane.Create(t, app)
	plane.Stands(t, app, "Ready=False/CrashLoopBackOff")
	allowed(t, app, 0)
	for _, pod := range pods(t, ns) {
		if err := evict(t, &pod); err != nil {
			t.Errorf("pod %s: %v", pod.Name, err)
		}
	}
}

// TestOwnAutoscaler takes on an autoscaler, changes the image meanwhile, and gives the autoscaler up. The number of pods never
// falls.
func TestOwnAutoscaler(t *testing.T) {
	t.Parallel()
	ns, m := plane.Shared(t)
	app := newApp(ns)
	app.Spec.Replicas = nil
	app.Spec.Resources.Requests = corev1.ResourceList{corev1.ResourceCPU: apiresource.MustParse("100m")}
	plane.Create(t, app)
	readyPods(t, app, 1)
	j := harness.Follow[*appsv1.Deployment](t, plane, &appsv1.DeploymentList{}, ns)

	plane.Change(t, app, func() {
		app.Spec.Autoscaling = &appv1.AutoscalingSpec{MinReplicas: ptr.To[int32](4), MaxReplicas: 6}
	})
	readyPods(t, app, 4)
	plane.Stands(t, app, "Autoscaled=False/MetricsMissing", "Ready=True")
	d := deployment(app)
	neverBelow(t, j.UpTo(t, d), 1)
	scaled := len(j.UpTo(t, d))
	plane.Change(t, app, func() { app.Spec.Image = "nginx:1.17.0" })
	ready(t, app)
	read(t, app)
	plane.Change(t, app, func() { app.Spec.Autoscaling = nil })
	scaler := &autoscalingv2.HorizontalPodAutoscaler{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: app.Name}}
	plane.Gone(t, scaler)
	m.Idle(t)
	plane.Until(t, app, func() error {
		if app.Status.Ready != "4/4" {
			return errors.New(app.Status.Ready)
		}
		return nil
	})
	neverBelow(t, j.UpTo(t, d)[scaled-1:], 4)
}
