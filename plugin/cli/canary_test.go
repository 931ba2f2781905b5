package cli

import (
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	appv1 "huolala.cn/app-operator/api/v1"
	"huolala.cn/app-operator/plugin/view"
)

// TestCheckCanary checks which canaries can be promoted and removed, and what a refusal names.
func TestCheckCanary(t *testing.T) {
	kind, known := view.KindOf("App")
	if !known {
		t.Fatal("there is no kind App")
	}
	running := func(change ...func(*view.Resource)) view.Resource {
		r, _ := view.ResourceOf(&appv1.App{ObjectMeta: objectMeta("web")})
		r.Canary = &appv1.CanaryStatus{Name: "web-canary", UID: "1", Pods: 2, Ready: 2}
		r.Status.Conditions = []metav1.Condition{{Type: appv1.ConditionCanaryReady, Status: metav1.ConditionTrue}}
		for _, each := range change {
			each(&r)
		}
		return r
	}
	paused := func(r *view.Resource) { r.Paused = true }
	pending := func(r *view.Resource) { r.Paused, r.Status.Pending = true, []string{"1 change waits"} }
	for name, c := range map[string]struct {
		now             view.Resource
		promote, remove string
	}{
		"it is ready":              {running(), "", ""},
		"there is none":            {running(func(r *view.Resource) { r.Canary = nil }), "no canary that waits", "no canary that waits"},
		"it is not ready":          {running(func(r *view.Resource) { r.Canary.Ready, r.Status.Conditions = 1, nil }), "1 of 2 pods", ""},
		"paused":                   {running(paused), "", ""},
		"paused, and changed then": {running(pending), "1 change waits. Resume it by \"kubectl happ resume web", ""},
	} {
		t.Run(name, func(t *testing.T) {
			for step, want := range map[*canaryStep]string{{needsReady: true}: c.promote, {}: c.remove} {
				err := checkCanary(&c.now, target{kind: kind, namespace: "shop", name: "web"}, step)
				if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
					t.Errorf("ready needed: %t: %v, want %q", step.needsReady, err, want)
				}
			}
		})
	}
}
