package controllers

import (
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"

	appv1 "huolala.cn/app-operator/api/v1"
)

// lead has the AppDefaults of the operator's namespace be reconciled by a leader that waits for nothing, and returns the condition RolledOut as
// "Status/Reason".
func (w *world) lead() string {
	w.t.Helper()
	key := types.NamespacedName{Namespace: "platform", Name: appv1.AppDefaultsName}
	leader := &AppDefaultsReconciler{Deps: *w.Deps, WaveHandover: ptr.To(time.Duration(0))}
	if _, err := leader.Reconcile(w.t.Context(), ctrl.Request{NamespacedName: key}); err != nil {
		w.t.Fatal(err)
	}
	w.requests = nil
	c := meta.FindStatusCondition(w.defaultsStatus("platform").Conditions, appv1.ConditionRolledOut)
	return string(c.Status) + "/" + c.Reason
}

// newWaveWorld returns a world whose resource has the AppDefaults 1, which roll out in waves, and runs as a ReplicaSet.
func newWaveWorld(t *testing.T, kindName, set string) *world {
	t.Helper()
	w := newWorld(t, newStored(t, kindNamed(t, kindName), onStall(kindName, "nginx:1")))
	w.setDefaults("platform", inWaves("1", "1", "0s"))
	w.settle(kindName)
	w.run(kindName, w.replicaSet(set))
	w.settle(kindName)
	return w
}

// failedDefaults returns a world in which the defaults of a wave have failed, and the resource has gone back to those of before.
func failedDefaults(t *testing.T, kindName string) *world {
	t.Helper()
	w := newWaveWorld(t, kindName, "web-1")
	w.setDefaults("platform", inWaves("2", "1", "0s"))
	w.settle(kindName)
	w.wrote("before the wave", "status "+kindName+" web")
	if got := w.lead(); got != "False/Wave" {
		t.Errorf("in the wave: %s", got)
	}
	w.settle(kindName)
	w.wrote("in the wave", "patch Deployment web", "status "+kindName+" web")
	if got := w.annotationsOfPods(); got != "map[a:2]" {
		t.Fatalf("in the wave, the pods have %s", got)
	}
	w.replicaSet("web-2")
	w.stall(kindName)
	w.settle(kindName)
	w.wrote("rollback", "patch Deployment web", "status "+kindName+" web")
	return w
}

// TestDefaultsThatFailAreRolledBack has defaults stall in a wave, with rollback: OnStall. The resource goes back to the defaults of before and stays there,
// the wave stops, and there are four ways out.
func TestDefaultsThatFailAreRolledBack(t *testing.T) {
	forNames(t, heldKinds(), func(t *testing.T, name string) {
		forEach(t, map[string]struct {
			out func(*world)
			// pods are the annotations of the pods then, in the next wave, and with the next change of the spec.
			pods, wave, next string
			stays            bool
		}{
			"other defaults": {func(w *world) { w.setDefaults("platform", inWaves("3", "1", "0s")) }, "a:1", "a:3", "a:3", true},
			"the former defaults": {
				func(w *world) { w.setDefaults("platform", inWaves("1", "1", "0s")) }, "a:1", "a:1", "a:1", false,
			},
			"other defaults, with the next change": {
				func(w *world) { w.setDefaults("platform", `{"defaults":{"podAnnotations":{"a":"3"}}}`) }, "a:1", "a:1", "a:3", false,
			},
			"a refresh": {func(w *world) { w.annotate(name, appv1.AnnotationRefresh, "1") }, "a:2", "a:2", "a:2", false},
			"another spec": {
				func(w *world) { w.setSpec(name, onStall(name, "nginx:2")) }, "a:2", "a:2", "a:2", false,
			},
			"without the default": {func(w *world) {
				w.setSpec(name, strings.Replace(onStall(name, "nginx:1"), "{", `{"withoutDefaults":["podAnnotations"],`, 1))
			}, "", "", "a:2", false},
		}, func(t *testing.T, _ string, way struct {
			out              func(*world)
			pods, wave, next string
			stays            bool
		}) {
			w := failedDefaults(t, name)
			has := func(what, annotations string) {
				t.Helper()
				if got := w.annotationsOfPods(); got != "map["+annotations+"]" {
					t.Errorf("%s: the pods have %s, want %s", what, got, annotations)
				}
			}
			has("rollback", "a:1")
			w.stands("rollback", name, "Applied=False/RolledBack", "Ready=False/RolledBack", "Stalled=True/RolledBack")
			if got := w.message(name, appv1.ConditionApplied); !containsAll(got, "AppDefaults", "ImagePullBackOff", "web-1", "withoutDefaults") {
				t.Errorf("Applied says %q", got)
			}
			w.run(name, &appsv1.ReplicaSet{ObjectMeta: metav1.ObjectMeta{Name: "web-1", UID: "uid-web-1"}})
			w.settle(name)
			if got := w.lead(); got != "False/Stalled" {
				t.Errorf("the rollout is %s", got)
			}
			if failed := w.defaultsStatus("platform").Failed; len(failed) != 1 || failed[0].Kind != name || !strings.Contains(failed[0].Message, "AppDefaults") {
				t.Errorf("the status names %+v", failed)
			}
			w.restart()
			w.settle(name)
			w.wrote("restart of the operator")
			if got := w.lead(); got != "False/Stalled" {
				t.Errorf("after a restart, the rollout is %s", got)
			}

			way.out(w)
			w.settle(name)
			has("the way out", way.pods)
			if rolledBack := w.status(name).Conditions; way.stays != (meta.FindStatusCondition(rolledBack, appv1.ConditionApplied).Reason == appv1.ReasonRolledBack) {
				t.Errorf("the conditions are %+v", rolledBack)
			}
			w.lead()
			w.settle(name)
			has("the next wave", way.wave)
			w.stands("the next wave", name, "Applied=True/Applied", "Stalled=False/NotStalled")
			w.setSpec(name, onStall(name, "nginx:3"))
			w.settle(name)
			has("the next change", way.next)
		})
	})
}

// TestAChangeWithFailedDefaultsIsRolledBack has defaults stall in a wave, and then a change of the spec with these defaults: the rollout stays stopped, as no
// spec has been ready with them.
func TestAChangeWithFailedDefaultsIsRolledBack(t *testing.T) {
	forNames(t, heldKinds(), func(t *testing.T, name string) {
		w := failedDefaults(t, name)
		w.run(name, &appsv1.ReplicaSet{ObjectMeta: metav1.ObjectMeta{Name: "web-1", UID: "uid-web-1"}})
		w.settle(name)
		w.setSpec(name, onStall(name, "nginx:2"))
		w.settle(name)
		if got := w.annotationsOfPods(); got != "map[a:2]" {
			t.Fatalf("with another spec, the pods have %s", got)
		}
		w.replicaSet("web-3")
		w.stall(name)
		w.settle(name)
		if got := w.annotationsOfPods(); got != "map[a:1]" {
			t.Fatalf("after the rollback, the pods have %s", got)
		}
		w.run(name, &appsv1.ReplicaSet{ObjectMeta: metav1.ObjectMeta{Name: "web-1", UID: "uid-web-1"}})
		w.settle(name)
		w.stands("rollback", name, "Applied=False/RolledBack", "Stalled=True/RolledBack")
		if got := w.lead(); got != "False/Stalled" {
			t.Errorf("the rollout is %s", got)
		}
		w.setSpec(name, onStall(name, "nginx:3"))
		w.settle(name)
		w.endPods()
		w.settle(name)
		if got := w.lead(); got != "False/Wave" {
			t.Errorf("with one more spec, the rollout is %s", got)
		}
	})
}

// failedRefresh returns a world in which a refresh has taken other defaults, has stalled, and was rolled back.
func failedRefresh(t *testing.T, kindName string) *world {
	t.Helper()
	w := newWorld(t, newStored(t, kindNamed(t, kindName), onStall(kindName, "nginx:1")))
	w.setDefaults("platform", `{"defaults":{"podAnnotations":{"a":"1"}}}`)
	w.settle(kindName)
	w.run(kindName, w.replicaSet("web-1"))
	w.settle(kindName)
	w.setDefaults("platform", `{"defaults":{"podAnnotations":{"a":"2"}}}`)
	w.annotate(kindName, appv1.AnnotationRefresh, "1")
	w.settle(kindName)
	w.replicaSet("web-2")
	w.stall(kindName)
	w.settle(kindName)
	return w
}

// TestARefreshWithOtherDefaultsIsRolledBack has a refresh that takes other defaults stall: it is a change, and a refresh that takes none is not.
func TestARefreshWithOtherDefaultsIsRolledBack(t *testing.T) {
	forNames(t, heldKinds(), func(t *testing.T, name string) {
		w := failedRefresh(t, name)
		if got := w.annotationsOfPods(); got != "map[a:1]" {
			t.Errorf("the pods have %s", got)
		}
		w.stands("rollback", name, "Applied=False/RolledBack", "Stalled=True/RolledBack")
		w.annotate(name, appv1.AnnotationRefresh, "2")
		w.settle(name)
		if got := w.annotationsOfPods(); got != "map[a:2]" {
			t.Errorf("with one more refresh, the pods have %s", got)
		}
	})
}
