package workload

import (
	"fmt"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	apiresource "k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/utils/ptr"

	appv1 "huolala.cn/app-operator/api/v1"
	"huolala.cn/app-operator/test/harness"
)

// TestAutoscalingUnderLoad scales Apps by the load of their pods. A pod may use 60 thousandths of a cpu before the autoscaler adds
// another one, so that a load divided by 60 is the number of pods that it needs.
func TestAutoscalingUnderLoad(t *testing.T) {
	t.Parallel()
	loads, tests := map[string]*load{}, map[string]func(*testing.T, *harness.Manager, *appv1.App, *load){
		"own": scalesByItsOwn, "stopped": scalesFromNothing, "foreign": leavesForeign,
	}
	type world struct {
		manager *harness.Manager
		app     *appv1.App
	}
	worlds := map[string]world{}
	for name := range tests {
		ns := plane.Namespace(t)
		app := newApp(ns)
		app.Spec.Replicas = ptr.To[int32](2)
		app.Spec.Resources.Requests = corev1.ResourceList{corev1.ResourceCPU: apiresource.MustParse("100m")}
		worlds[name] = world{manager: plane.Start(t, ns), app: app}
		loads[ns] = &load{}
	}
	serveMetrics(t, loads)
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := worlds[name]
			plane.Create(t, w.app)
			readyPods(t, w.app, 2)
			test(t, w.manager, w.app, loads[w.app.Namespace])
		})
	}
}

// autoscaling returns what scales at 60 percent of a cpu request, and scales down without a pause.
func autoscaling(least, most int32) *appv1.AutoscalingSpec {
	return &appv1.AutoscalingSpec{
		MinReplicas: ptr.To(least), MaxReplicas: most, TargetCPUUtilizationPercentage: ptr.To[int32](60),
		Behavior: &autoscalingv2.HorizontalPodAutoscalerBehavior{
			ScaleDown: &autoscalingv2.HPAScalingRules{StabilizationWindowSeconds: ptr.To[int32](0)},
		},
	}
}

// scalesByItsOwn takes on an autoscaler, changes image and bounds, gives the autoscaler up and takes it on again, all of it under
// load. The number of pods never falls before the load does.
func scalesByItsOwn(t *testing.T, m *harness.Manager, app *appv1.App, l *load) {
	d := deployment(app)
	j := harness.Follow[*appsv1.Deployment](t, plane, &appsv1.DeploymentList{}, app.Namespace)
	from := func() int { return max(0, len(j.UpTo(t, read(t, d)))-1) }

	l.millicores.Store(360)
	plane.Change(t, app, func() { app.Spec.Autoscaling = autoscaling(2, 8) })
	readyPods(t, app, 6)
	plane.Stands(t, app, "Autoscaled=True/Autoscaling")
	neverBelow(t, j.UpTo(t, read(t, d)), 2)

	began := from()
	l.millicores.Store(900)
	plane.Change(t, app, func() { app.Spec.Image = "nginx:1.17.0" })
	readyPods(t, app, 8)
	plane.Stands(t, app, "Autoscaled=True/AtMaximum")
	neverBelow(t, j.UpTo(t, read(t, d))[began:], 6)

	began = from()
	plane.Change(t, app, func() { app.Spec.Autoscaling.MaxReplicas = 10 })
	readyPods(t, app, 10)
	neverBelow(t, j.UpTo(t, read(t, d))[began:], 8)

	began = from()
	plane.Change(t, app, func() { app.Spec.Autoscaling, app.Spec.Replicas = nil, nil })
	plane.Gone(t, newAutoscaler(app, autoscalingv2.CrossVersionObjectReference{}, 1, 1))
	m.Idle(t)
	readyPods(t, app, 10)
	plane.Change(t, app, func() { app.Spec.Autoscaling = autoscaling(2, 10) })
	plane.Stands(t, app, "Autoscaled=True/AtMaximum")
	neverBelow(t, j.UpTo(t, read(t, d))[began:], 10)

	l.millicores.Store(120)
	readyPods(t, app, 2)
}

// scalesFromNothing stops an App under load, which stays stopped however high the load is, and starts it again.
func scalesFromNothing(t *testing.T, m *harness.Manager, app *appv1.App, l *load) {
	l.millicores.Store(300)
	plane.Change(t, app, func() { app.Spec.Autoscaling = autoscaling(2, 6) })
	readyPods(t, app, 5)

	plane.Change(t, app, func() { app.Spec.Replicas = ptr.To[int32](0) })
	plane.Stands(t, app, "Ready=True/ScaledToZero")
	scaler := newAutoscaler(app, autoscalingv2.CrossVersionObjectReference{}, 1, 1)
	plane.Until(t, scaler, func() error {
		for _, c := range scaler.Status.Conditions {
			if c.Type == autoscalingv2.ScalingActive && c.Reason == "ScalingDisabled" {
				return nil
			}
		}
		return fmt.Errorf("the autoscaler is not disabled: %v", scaler.Status.Conditions)
	})
	m.Idle(t)
	if n := len(pods(t, app.Namespace)); n != 0 {
		t.Errorf("%d pods of an App that is stopped", n)
	}

	plane.Change(t, app, func() { app.Spec.Replicas = nil })
	readyPods(t, app, 5)
	plane.Stands(t, app, "Autoscaled=True/Autoscaling")
}

// leavesForeign asks for an autoscaler where another one scales the Deployment already. It is named, and it alone scales.
func leavesForeign(t *testing.T, m *harness.Manager, app *appv1.App, l *load) {
	l.millicores.Store(240)
	foreign := newAutoscaler(app, autoscalingv2.CrossVersionObjectReference{APIVersion: "apps/v1", Kind: "Deployment", Name: app.Name}, 2, 5)
	foreign.Name = "old"
	foreign.Spec.Metrics = []autoscalingv2.MetricSpec{{
		Type: autoscalingv2.ResourceMetricSourceType,
		Resource: &autoscalingv2.ResourceMetricSource{
			Name:   corev1.ResourceCPU,
			Target: autoscalingv2.MetricTarget{Type: autoscalingv2.UtilizationMetricType, AverageUtilization: ptr.To[int32](60)},
		},
	}}
	plane.Create(t, foreign)
	readyPods(t, app, 4)

	plane.Change(t, app, func() { app.Spec.Autoscaling = autoscaling(6, 9) })
	plane.Stands(t, app, "Autoscaled=False/AutoscalerExists", "Applied=False/AutoscalerExists", "Ready=True")
	harness.Says(t, app, "Autoscaled", "HorizontalPodAutoscaler old scales Deployment web already")
	m.Idle(t)
	m.Requests.Reset()
	l.millicores.Store(900)
	readyPods(t, app, 5)
	plane.Absent(t, newAutoscaler(app, autoscalingv2.CrossVersionObjectReference{}, 1, 1))
	m.Idle(t)
	if writes := m.Requests.Writes(); writes["patch deployments"]+writes["patch horizontalpodautoscalers"] != 0 {
		t.Errorf("the operator wrote while the other autoscaler scaled: %v", writes)
	}

	plane.Delete(t, foreign)
	readyPods(t, app, 9)
	plane.Stands(t, app, "Autoscaled=True/AtMaximum", "Applied=True")
}
