package workload

import (
	"fmt"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	appv1 "huolala.cn/app-operator/api/v1"
	"huolala.cn/app-operator/test/harness"
)

// newAutoscaler returns an autoscaler that has no metrics, and so does no more than keep to its minimum and maximum.
func newAutoscaler(app *appv1.App, target autoscalingv2.CrossVersionObjectReference, least, most int32) *autoscalingv2.HorizontalPodAutoscaler {
	scaler := &autoscalingv2.HorizontalPodAutoscaler{ObjectMeta: metav1.ObjectMeta{Namespace: app.Namespace, Name: app.Name}}
	scaler.Spec.ScaleTargetRef = target
	scaler.Spec.MinReplicas, scaler.Spec.MaxReplicas = ptr.To(least), most
	return scaler
}

// TestAutoscaledDeployment lets an autoscaler scale an App's Deployment: its count is used from then on, also while the
// image changes, and the App's own again when the autoscaler goes.
func TestAutoscaledDeployment(t *testing.T) {
	t.Parallel()
	ns, m := plane.Shared(t)
	app := newApp(ns)
	plane.Create(t, app)
	ready(t, app)
	before := uids(t, ns)
	j := harness.Follow[*appsv1.Deployment](t, plane, &appsv1.DeploymentList{}, ns)

	target := autoscalingv2.CrossVersionObjectReference{APIVersion: "apps/v1", Kind: "Deployment", Name: app.Name}
	scaler := newAutoscaler(app, target, 4, 6)
	plane.Create(t, scaler)
	readyPods(t, app, 4)
	if n := shared(before, uids(t, ns)); n != 2 {
		t.Errorf("%d of 2 earlier pods are left", n)
	}
	d := deployment(app)
	neverBelow(t, j.UpTo(t, d), 2)
	scaled := len(j.UpTo(t, d))
	m.Idle(t)
	m.Requests.Reset()

	for _, mutate := range []func(){
		func() { app.Spec.Image = "nginx:1.17.0" },
		func() { app.Spec.Replicas = ptr.To[int32](3) },
	} {
		plane.Change(t, app, mutate)
		ready(t, app)
		m.Idle(t)
		if read(t, app).Status.Ready != "4/4" || len(pods(t, ns)) != 4 {
			t.Errorf("ready %s, %d pods", app.Status.Ready, len(pods(t, ns)))
		}
	}
	neverBelow(t, j.UpTo(t, d)[scaled-1:], 4)
	if n := m.Requests.Counts()["patch deployments"]; n > 2 {
		t.Errorf("the operator wrote the Deployment %d times", n)
	}

	plane.Delete(t, scaler)
	readyPods(t, app, 3)
}

// TestAutoscalerFirst creates an App whose autoscaler is there before it: it starts with the pods that it asks for.
func TestAutoscalerFirst(t *testing.T) {
	t.Parallel()
	ns, _ := plane.Shared(t)
	j := harness.Follow[*appsv1.Deployment](t, plane, &appsv1.DeploymentList{}, ns)
	app := newApp(ns)
	app.Spec.Replicas = ptr.To[int32](3)
	target := autoscalingv2.CrossVersionObjectReference{APIVersion: "apps/v1", Kind: "Deployment", Name: app.Name}
	plane.Create(t, newAutoscaler(app, target, 2, 6), app)
	readyPods(t, app, 3)
	plane.Change(t, app, func() { app.Spec.Image = "nginx:1.17.0" })
	ready(t, app)
	neverBelow(t, j.UpTo(t, deployment(app)), 3)
}

// neverBelow checks the number of pods in all states of a Deployment.
func neverBelow(t *testing.T, states []*appsv1.Deployment, least int32) {
	t.Helper()
	for _, d := range states {
		if *d.Spec.Replicas < least {
			t.Errorf("generation %d of the Deployment wants %d pods, less than %d", d.Generation, *d.Spec.Replicas, least)
			return
		}
	}
}

// TestAutoscaledApp lets an autoscaler scale the App itself, by its scale subresource.
func TestAutoscaledApp(t *testing.T) {
	t.Parallel()
	ns, _ := plane.Shared(t)
	app := newApp(ns)
	app.Spec.Replicas = ptr.To[int32](1)
	plane.Create(t, app)
	ready(t, app)
	before := uids(t, ns)

	target := autoscalingv2.CrossVersionObjectReference{APIVersion: appv1.GroupVersion.String(), Kind: "App", Name: app.Name}
	scaler := newAutoscaler(app, target, 3, 6)
	plane.Create(t, scaler)
	readyPods(t, app, 3)
	if n := *app.Spec.Replicas; n != 3 {
		t.Errorf("spec.replicas is %d", n)
	}
	if n := shared(before, uids(t, ns)); n != 1 {
		t.Error("the first pod was replaced")
	}
	plane.Until(t, scaler, func() error {
		if scaler.Status.CurrentReplicas != 3 {
			return fmt.Errorf("the autoscaler counts %d pods", scaler.Status.CurrentReplicas)
		}
		return nil
	})

	plane.Change(t, app, func() { app.Spec.Image = "nginx:1.17.0" })
	ready(t, app)
	if app.Status.Ready != "3/3" || *app.Spec.Replicas != 3 {
		t.Errorf("%d wanted, ready %s after a change of the image", *app.Spec.Replicas, app.Status.Ready)
	}
}
