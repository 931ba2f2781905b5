package controllers

import (
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appv1 "huolala.cn/app-operator/api/v1"
)

// runAgain has the pods of an earlier ReplicaSet be those of the Deployment web, all of them ready.
func (w *world) runAgain(kindName, set string) {
	w.t.Helper()
	w.run(kindName, &appsv1.ReplicaSet{ObjectMeta: metav1.ObjectMeta{Name: set, UID: types.UID("uid-" + set)}})
	w.settle(kindName)
}

// setReplicas has another client set the number of pods of the Deployment web.
func (w *world) setReplicas(n int32) {
	w.t.Helper()
	d := w.deployment()
	d.Spec.Replicas = ptr.To(n)
	if err := w.Client.Update(w.t.Context(), d, client.FieldOwner("scaler")); err != nil {
		w.t.Fatal(err)
	}
	w.requests = nil
}

// TestARollbackOfTheDefaultsStays rolls a spec back whose defaults alone request rollbacks, or make it valid. The defaults of the last good version have no part
// in whether the rollback stays: the text of the resource ends it.
func TestARollbackOfTheDefaultsStays(t *testing.T) {
	const requests, parents = `{"defaults":{"rollback":"OnStall"}}`, `{"whenStated":{"httpRoute":{"parentRefs":[{"name":"public"}]}}}`
	plain := func(name, image string) string { return flowSpec(name, image, onePort) }
	routed := func(name, image string) string {
		return strings.Replace(onStall(name, image), "{", `{"httpRoute":{"hostnames":["a.example"]},`, 1)
	}
	with := func(field string) func(string, string) string {
		return func(name, image string) string { return strings.Replace(plain(name, image), "{", "{"+field+",", 1) }
	}
	for _, name := range heldKinds() {
		forEach(t, map[string]struct {
			first, defaults string
			spec            func(name, image string) string
			later           func(*world)
			image           string
		}{
			"no defaults before":      {"", requests, plain, nil, "nginx:1"},
			"other defaults before":   {`{"defaults":{"minReadySeconds":0}}`, requests, plain, nil, "nginx:1"},
			"a block that is filled":  {"", parents, routed, nil, "nginx:1"},
			"the default is removed":  {"", requests, plain, func(w *world) { w.setDefaults("platform", `{}`) }, "nginx:1"},
			"the resource says Never": {"", requests, plain, func(w *world) { w.setSpec(name, with(`"rollback":"Never"`)(name, "nginx:none")) }, "nginx:none"},
			"without the default": {
				"", requests, plain, func(w *world) { w.setSpec(name, with(`"withoutDefaults":["rollback"]`)(name, "nginx:none")) }, "nginx:none",
			},
			"the resource says so, too":      {"", requests, plain, func(w *world) { w.setSpec(name, onStall(name, "nginx:none")) }, "nginx:1"},
			"a redundant request is removed": {requests, requests, onStall, func(w *world) { w.setSpec(name, plain(name, "nginx:none")) }, "nginx:1"},
			"its own request is taken back":  {"", parents, routed, func(w *world) { w.setSpec(name, plain(name, "nginx:none")) }, "nginx:none"},
		}, func(t *testing.T, what string, c struct {
			first, defaults string
			spec            func(name, image string) string
			later           func(*world)
			image           string
		}) {
			w := newWorld(t, newStored(t, kindNamed(t, name), plain(name, "nginx:1")))
			if c.first != "" {
				w.setDefaults("platform", c.first)
			}
			w.settle(name)
			w.run(name, w.replicaSet("web-1"))
			w.settle(name)
			w.setDefaults("platform", c.defaults)
			w.setSpec(name, c.spec(name, "nginx:none"))
			w.settle(name)
			w.replicaSet("web-2")
			w.stall(name)
			for range 2 {
				w.settle(name)
				w.stands("rollback", name, "Applied=False/RolledBack")
			}
			if c.later != nil {
				c.later(w)
				w.settle(name)
			}
			if got := w.image(); got != c.image {
				t.Errorf("%s: the image is %s, want %s", what, got, c.image)
			}
		})
	}
}

// TestDefaultsThatFailAndRequestRollbacks has defaults fail that request the rollback themselves: the rollout stays stopped.
func TestDefaultsThatFailAndRequestRollbacks(t *testing.T) {
	forNames(t, heldKinds(), func(t *testing.T, name string) {
		w := newWorld(t, newStored(t, kindNamed(t, name), flowSpec(name, "nginx:1", onePort)))
		w.setDefaults("platform", inWaves("1", "1", "0s"))
		w.settle(name)
		w.run(name, w.replicaSet("web-1"))
		w.settle(name)
		w.setDefaults("platform", strings.Replace(inWaves("2", "1", "0s"), `"defaults":{`, `"defaults":{"rollback":"OnStall",`, 1))
		w.lead()
		w.settle(name)
		w.replicaSet("web-2")
		w.stall(name)
		w.settle(name)
		for range 2 {
			w.runAgain(name, "web-1")
			w.stands("rollback", name, "Applied=False/RolledBack", "Stalled=True/RolledBack")
			if got := w.lead(); got != "False/Stalled" {
				t.Errorf("the rollout is %s", got)
			}
		}
		if got := w.annotationsOfPods(); got != "map[a:1]" {
			t.Errorf("the pods have %s", got)
		}
	})
}

// TestOtherDefaultsAfterARefresh changes the AppDefaults after a refresh that was rolled back: the refresh has been acted on, and a wave alone brings the
// correction.
func TestOtherDefaultsAfterARefresh(t *testing.T) {
	for _, name := range heldKinds() {
		forEach(t, map[string]struct{ defaults, pods string }{
			"with the next change": {`{"defaults":{"podAnnotations":{"a":"3"}}}`, "map[a:1]"},
			"in waves":             {inWaves("3", "1", "0s"), "map[a:3]"},
		}, func(t *testing.T, how string, c struct{ defaults, pods string }) {
			w := failedRefresh(t, name)
			w.runAgain(name, "web-1")
			w.setDefaults("platform", c.defaults)
			w.settle(name)
			if got := w.annotationsOfPods(); got != "map[a:1]" {
				t.Errorf("after an edit, the pods have %s", got)
			}
			w.lead()
			w.settle(name)
			if got := w.annotationsOfPods(); got != c.pods {
				t.Errorf("%s: the pods have %s, want %s", how, got, c.pods)
			}
		})
	}
}

// TestAHoldAndTheDefaultAutoscaler holds a ReplicaSet of before a default autoscaler: the number of pods stays.
func TestAHoldAndTheDefaultAutoscaler(t *testing.T) {
	forNames(t, heldKinds(), func(t *testing.T, name string) {
		w := newWorld(t, newStored(t, kindNamed(t, name), flowSpec(name, "nginx:1", onePort)))
		w.setDefaults("platform", `{"defaults":{"podAnnotations":{"a":"1"}}}`)
		w.settle(name)
		w.run(name, w.replicaSet("web-1"))
		w.settle(name)
		w.setDefaults("platform", `{"defaults":{"size":"small","autoscaling":{"maxReplicas":20}}}`)
		w.setSpec(name, flowSpec(name, "nginx:2", onePort))
		w.settle(name)
		w.run(name, w.replicaSet("web-2"))
		w.settle(name)
		w.setReplicas(12)
		for _, what := range []string{"held", "idle"} {
			w.annotate(name, appv1.AnnotationHold, "web-1")
			w.settle(name)
			if got := ptr.Deref(w.deployment().Spec.Replicas, 1); got != 12 || w.image() != "nginx:1" {
				t.Errorf("%s: %d pods of image %s", what, got, w.image())
			}
		}
	})
}

// TestAHoldWithoutTheDefaultAutoscaler holds a resource, and then has AppDefaults add an autoscaler, which comes after the hold: the number of pods is that of
// the spec until then.
func TestAHoldWithoutTheDefaultAutoscaler(t *testing.T) {
	forNames(t, heldKinds(), func(t *testing.T, name string) {
		w := newWorld(t, newStored(t, kindNamed(t, name), flowSpec(name, "nginx:1", onePort)))
		w.setDefaults("platform", `{"defaults":{"size":"small"}}`)
		w.settle(name)
		w.run(name, w.replicaSet("web-1"))
		w.settle(name)
		w.annotate(name, appv1.AnnotationHold, "web-1")
		w.settle(name)
		w.setDefaults("platform", `{"defaults":{"size":"small","autoscaling":{"maxReplicas":20}}}`)
		w.setSpec(name, strings.Replace(flowSpec(name, "nginx:2", onePort), `"replicas":2`, `"replicas":5`, 1))
		w.settle(name)
		w.settle(name)
		if got := ptr.Deref(w.deployment().Spec.Replicas, 1); got != 5 || w.image() != "nginx:1" {
			t.Errorf("%d pods of image %s", got, w.image())
		}
	})
}
