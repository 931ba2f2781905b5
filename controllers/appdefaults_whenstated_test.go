package controllers

import (
	"testing"

	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/utils/ptr"

	appv1 "huolala.cn/app-operator/api/v1"
)

// TestWhenStatedFillsABlock fills the Ingress of an App. An edit writes a status alone; a change of the pods takes it; a block that is stated later has
// what is recorded, and the plan of AppDefaults counts the Ingresses that change.
func TestWhenStatedFillsABlock(t *testing.T) {
	const spec, more = `{"image":"nginx:1","replicas":1,"ports":[{"port":80}]`, `,"ingress":{"rules":[{"host":"a.example"}]}}`
	w := newWorld(t, newStored(t, kindNamed(t, "App"), spec+`}`))
	w.setDefaults("platform", `{"whenStated":{"ingress":{"className":"a"}}}`)
	has := func(what, class, current string) {
		t.Helper()
		w.settle("App")
		ingress := &networkingv1.Ingress{}
		if there := w.read(ingress); there != (class != "") || ptr.Deref(ingress.Spec.IngressClassName, "") != class {
			t.Errorf("%s: the Ingress is there: %t, its class is %v, want %q", what, there, ingress.Spec.IngressClassName, class)
		}
		if got := w.defaultsInUse(); got != current {
			t.Errorf("%s: current is %s, want %s", what, got, current)
		}
	}
	has("without a block", "", "true")
	w.setDefaults("platform", `{"whenStated":{"ingress":{"className":"b"}}}`)
	has("edited without a block", "", "true")
	w.setSpec("App", spec+more)
	has("a block of the recorded defaults", "a", "false")
	w.setDefaults("platform", `{"whenStated":{"ingress":{"className":"c"}}}`)
	has("edited", "a", "false")
	w.wrote("edited")
	w.annotate("App", appv1.AnnotationRefresh, "1")
	has("refreshed", "c", "true")

	w.requests = nil
	made, err := newPlanner(w.Deps).PlanDefaults(t.Context(), "platform", &appv1.AppDefaultsSpec{WhenStated: appv1.WhenStated{Ingress: &appv1.IngressDefaults{ClassName: ptr.To("d")}}})
	if err != nil {
		t.Fatal(err)
	}
	const want = "1 App: 0 pod templates change, 0 pods would be replaced, 1 get another Ingress, 0 would be invalid"
	if got := made.Line(500); got != want || len(w.requests) > 0 {
		t.Errorf("the plan is %s, with %q", got, w.requests)
	}
}
