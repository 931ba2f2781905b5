package resource

import (
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	appv1 "huolala.cn/app-operator/api/v1"
)

// TestCanaryPods has the numbers of pods that a canary starts with.
func TestCanaryPods(t *testing.T) {
	for _, c := range []struct {
		pods         *intstr.IntOrString
		before, want int32
	}{
		{nil, 10, 1},
		{ptr.To(intstr.FromInt32(3)), 10, 3},
		{ptr.To(intstr.FromString("20%")), 10, 2},
		{ptr.To(intstr.FromString("25%")), 10, 3},
		{ptr.To(intstr.FromString("1%")), 10, 1},
		{ptr.To(intstr.FromString("100%")), 10, 10},
		{ptr.To(intstr.FromString("20%")), 0, 1},
	} {
		if got := CanaryPods(&appv1.CanarySpec{Pods: c.pods}, c.before); got != c.want {
			t.Errorf("%v of %d: %d, want %d", c.pods, c.before, got, c.want)
		}
	}
}

// TestCanaryDeployment has the Deployment of a canary select pods that the workload selects too, and no others of it; the Deployment of the
// workload stays the same.
func TestCanaryDeployment(t *testing.T) {
	app := &appv1.App{}
	app.Name, app.Namespace, app.UID = "web", "default", "1"
	app.Spec.Image, app.Spec.Ports = "nginx:2", []appv1.Port{{Port: 80}}
	app.Spec.ProgressDeadlineSeconds = ptr.To[int32](120)
	build := func() *Workload {
		w, errs := App(app, BuildOptions{Inputs: BuildInputs{Rendering: RenderingLatest}})
		if len(errs) > 0 {
			t.Fatal(errs)
		}
		return w
	}
	stable, runs := build(), build()
	for _, c := range []struct {
		after              time.Duration
		minReady, deadline int32
	}{{0, 0, 120}, {time.Minute, 60, 120}, {10 * time.Minute, 600, 660}} {
		stable.Canary = &Canary{Workload: runs, Pods: 2, MinReadySeconds: int32(c.after.Seconds())}
		objects := stable.Objects()
		main, ok1 := objects[0].(*appsv1.Deployment)
		canary, ok2 := objects[1].(*appsv1.Deployment)
		if !ok1 || !ok2 || main.Name != "web" || canary.Name != "web-canary" {
			t.Fatalf("the objects are %T %T", objects[0], objects[1])
		}
		if main.Labels[appv1.LabelCanary] != "" || main.Spec.Template.Labels[appv1.LabelCanary] != "" || len(main.Spec.Selector.MatchLabels) != 1 {
			t.Errorf("the Deployment has labels of the canary: %v", main)
		}
		for _, labels := range []map[string]string{canary.Spec.Selector.MatchLabels, canary.Spec.Template.Labels} {
			if labels[appv1.LabelCanary] != "web" || labels[appv1.LabelApp] != "web" {
				t.Errorf("the canary has the labels %v", labels)
			}
		}
		if got := canary.Spec; *got.Replicas != 2 || got.MinReadySeconds != c.minReady || *got.ProgressDeadlineSeconds != c.deadline {
			t.Errorf("after %s: %d pods, %d s ready, deadline %d s", c.after, *got.Replicas, got.MinReadySeconds, *got.ProgressDeadlineSeconds)
		}
		if len(canary.OwnerReferences) != 1 || canary.OwnerReferences[0].UID != "1" || canary.Annotations[appv1.AnnotationLastAppliedSpec] == "" {
			t.Errorf("the canary has %v %v", canary.OwnerReferences, canary.Annotations)
		}
	}
	if _, isService := build().Objects()[1].(*appsv1.Deployment); isService {
		t.Error("a workload without a canary has one")
	}
}

// TestCanaryIsNoChange has a canary be no part of the record and of the identity of the pods.
func TestCanaryIsNoChange(t *testing.T) {
	app := &appv1.App{}
	app.Name, app.Spec.Image = "web", "nginx:2"
	before, errs := App(app, BuildOptions{Inputs: BuildInputs{Rendering: RenderingLatest}})
	identity := AppSpec(app).Identity()
	app.Spec.Canary = &appv1.CanarySpec{}
	after, errs2 := App(app, BuildOptions{Inputs: BuildInputs{Rendering: RenderingLatest}})
	if len(errs)+len(errs2) > 0 {
		t.Fatal(errs, errs2)
	}
	record := before.Record[appv1.AnnotationLastAppliedSpec]
	if got := after.Record[appv1.AnnotationLastAppliedSpec]; got != record {
		t.Errorf("the record is %s, and was %s", got, record)
	}
	if changed, err := AppSpec(app).Changed(record, ScopePods); err != nil || changed || AppSpec(app).Identity() != identity {
		t.Errorf("a canary is another spec: %v, %v", changed, err)
	}
}
