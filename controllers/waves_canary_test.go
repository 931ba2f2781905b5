package controllers

import (
	"strings"
	"testing"

	appv1 "huolala.cn/app-operator/api/v1"
	"huolala.cn/app-operator/test/play"
)

// stallCanary has the canary miss its deadline.
func (w *world) stallCanary() {
	w.t.Helper()
	d := w.canary()
	if d == nil {
		w.t.Fatal("there is no canary")
	}
	play.SetTimedOut(d)
	d.Status.Replicas, d.Status.ReadyReplicas, d.Status.AvailableReplicas = 1, 0, 0
	if err := w.Client.Status().Update(w.t.Context(), d); err != nil {
		w.t.Fatal(err)
	}
}

// TestAnAbortedCanaryDoesNotOpenAStop has a resource go back from the defaults of a wave, and then change with a canary, which runs with these defaults and is
// aborted: the rollout stays stopped, also with one more canary, until the resource is ready with the defaults.
func TestAnAbortedCanaryDoesNotOpenAStop(t *testing.T) {
	forNames(t, heldKinds(), func(t *testing.T, name string) {
		forEach(t, map[string]func(*world){
			"by its deadline": func(w *world) { w.stallCanary() },
			"by a user":       func(w *world) { w.annotate(name, appv1.AnnotationAbort, string(w.canary().UID)) },
		}, func(t *testing.T, _ string, abort func(*world)) {
			w := failedDefaults(t, name)
			w.runAgain(name, "web-1")
			stopped := func(what string) {
				t.Helper()
				if got := w.lead(); got != "False/Stalled" {
					t.Errorf("%s, the rollout is %s", what, got)
				}
				if got := w.annotationsOfPods(); got != "map[a:1]" {
					t.Errorf("%s, the pods have %s", what, got)
				}
			}
			stopped("after the rollback")
			for _, image := range []string{"nginx:2", "nginx:3"} {
				w.setSpec(name, strings.Replace(onStall(name, image), "{", `{"canary":{},`, 1))
				w.settle(name)
				stopped("with a canary of " + image)
				if got := w.canary().Spec.Template.Annotations["a"]; got != "2" {
					t.Errorf("the canary has the defaults %s", got)
				}
				abort(w)
				w.settle(name)
				w.stands("aborted", name, "Applied=False/RolledBack", "Stalled=True/RolledBack")
				stopped("after the abort of " + image)
				w.restart()
				w.settle(name)
				stopped("after a restart")
			}
			w.annotate(name, appv1.AnnotationAbort, "")
			w.setSpec(name, onStall(name, "nginx:4"))
			w.settle(name)
			w.run(name, w.replicaSet("web-4"))
			w.settle(name)
			if got := w.lead(); got != "True/RolledOut" || w.annotationsOfPods() != "map[a:2]" {
				t.Errorf("once it is ready with %s, the rollout is %s", w.annotationsOfPods(), got)
			}
		})
	})
}

// TestAnAbortedCanaryOfReadyDefaultsStopsNothing has a canary be aborted whose defaults are those of the pods around it: they come up with these, and the
// rollout goes on.
func TestAnAbortedCanaryOfReadyDefaultsStopsNothing(t *testing.T) {
	forNames(t, heldKinds(), func(t *testing.T, name string) {
		w := newWaveWorld(t, name, "web-0")
		w.generations = true
		w.takeWave(name)
		set := w.replicaSet("web-1")
		w.setSpec(name, strings.Replace(onStall(name, "nginx:2"), "{", `{"canary":{},`, 1))
		w.settle(name)
		w.stallCanary()
		w.settle(name)
		w.stands("aborted", name, "Applied=False/RolledBack", "Stalled=True/RolledBack")
		if got := w.lead(); got != "False/Stalled" {
			t.Errorf("while no pod is ready, the rollout is %s", got)
		}
		w.run(name, set)
		w.settle(name)
		if got := w.lead(); got != "True/RolledOut" {
			t.Errorf("once they are ready, the rollout is %s", got)
		}
	})
}

// TestAStalledCanaryHidesNoReadiness has the pods of a wave become ready next to a canary that has stalled: the resource is not Ready, its defaults are not the
// cause, and the rollout goes on.
func TestAStalledCanaryHidesNoReadiness(t *testing.T) {
	forNames(t, heldKinds(), func(t *testing.T, name string) {
		w := newWaveWorld(t, name, "web-0")
		w.generations = true
		w.takeWave(name)
		set := w.replicaSet("web-1")
		w.setSpec(name, canarySpecOf(name, "nginx:2", byHand))
		w.settle(name)
		w.stallCanary()
		w.settle(name)
		w.run(name, set)
		w.settle(name)
		w.stands("a stalled canary", name, "Applied=False/Canary", "Stalled=True/ProgressDeadlineExceeded")
		if got := w.lead(); got != "True/RolledOut" {
			t.Errorf("with ready pods, the rollout is %s", got)
		}
	})
}

// takeWave changes the defaults, and has a resource take them in a wave.
func (w *world) takeWave(name string) {
	w.t.Helper()
	w.setDefaults("platform", inWaves("2", "1", "0s"))
	w.settle(name)
	w.lead()
	w.settle(name)
}
