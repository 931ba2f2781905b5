package controllers

import (
	"fmt"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"

	appv1 "huolala.cn/app-operator/api/v1"
	"huolala.cn/app-operator/internal/stored"
)

// TestARepairedAppStopsARollout has an App that a wave has repaired stall in the next one: it has not failed before that wave.
func TestARepairedAppStopsARollout(t *testing.T) {
	forNames(t, heldKinds(), func(t *testing.T, name string) {
		w := newWorld(t, newStored(t, kindNamed(t, name), onStall(name, "nginx:1")))
		w.setDefaults("platform", inWaves("0", "1", "0s"))
		w.settle(name)
		w.stall(name)
		w.settle(name)
		w.setDefaults("platform", inWaves("1", "1", "0s"))
		w.settle(name)
		w.lead()
		w.settle(name)
		w.run(name, w.replicaSet("web-1"))
		w.settle(name)
		if got := w.lead(); got != "True/RolledOut" {
			t.Errorf("the repair is %s", got)
		}
		w.takeWave(name)
		w.replicaSet("web-2")
		w.stall(name)
		w.settle(name)
		if got := w.annotationsOfPods(); got != "map[a:1]" {
			t.Errorf("after the rollback, the pods have %s", got)
		}
		if got := w.lead(); got != "False/Stalled" {
			t.Errorf("the rollout is %s", got)
		}
	})
}

// TestARepairThatGoesBackStopsNothing has an App stall for a reason of its own, and once more in the wave that repairs it, from which it goes back. The
// next defaults reach it last, too.
func TestARepairThatGoesBackStopsNothing(t *testing.T) {
	forNames(t, heldKinds(), func(t *testing.T, name string) {
		w := newWaveWorld(t, name, "web-1")
		w.annotate(name, appv1.AnnotationRefresh, "1")
		w.settle(name)
		w.stall(name)
		w.settle(name)
		w.stands("a refresh", name, "Stalled=True/ImagePullBackOff", "Applied=True/Applied")
		for wave := 2; wave <= 3; wave++ {
			w.setDefaults("platform", inWaves(fmt.Sprint(wave), "1", "0s"))
			w.settle(name)
			w.lead()
			w.settle(name)
			if got := w.annotationsOfPods(); got != fmt.Sprintf("map[a:%d]", wave) {
				t.Errorf("in wave %d, the pods have %s", wave, got)
			}
			w.replicaSet(fmt.Sprintf("web-%d", wave))
			w.endPods()
			w.stall(name)
			w.settle(name)
			w.stands("rollback", name, "Applied=False/RolledBack")
			if got := w.lead(); got == "False/Stalled" {
				t.Errorf("after the repair by wave %d, the rollout is %s", wave, got)
			}
			if got := w.defaultsStatus("platform").Skipped; got != 1 {
				t.Errorf("after the repair by wave %d, %d resources are skipped", wave, got)
			}
		}
	})
}

// TestAWaveWithRollbackTriesItsDefaults has an App stall with a change of its own and no rollback. A wave whose defaults request rollbacks tries these first: the
// change may come up with them.
func TestAWaveWithRollbackTriesItsDefaults(t *testing.T) {
	forNames(t, heldKinds(), func(t *testing.T, name string) {
		w := newWorld(t, newStored(t, kindNamed(t, name), flowSpec(name, "nginx:1", onePort)))
		w.setDefaults("platform", inWaves("1", "1", "0s"))
		w.settle(name)
		w.run(name, w.replicaSet("web-1"))
		w.settle(name)
		w.setSpec(name, flowSpec(name, "nginx:none", onePort))
		w.settle(name)
		w.replicaSet("web-2")
		w.stall(name)
		w.settle(name)
		w.stands("own change", name, "Applied=True/Applied", "Stalled=True/ImagePullBackOff")
		w.setDefaults("platform", strings.Replace(inWaves("2", "1", "0s"), "{\"podAnnotations", "{\"rollback\":\"OnStall\",\"podAnnotations", 1))
		w.settle(name)
		w.lead()
		w.settle(name)
		if got := w.annotationsOfPods(); got != "map[a:2]" || w.image() != "nginx:none" {
			t.Errorf("in the wave, the pods have %s and %s", w.image(), got)
		}
		w.replicaSet("web-3")
		w.endPods()
		w.stall(name)
		w.settle(name)
		w.stands("rollback", name, "Applied=False/RolledBack")
		if got := w.image(); got != "nginx:1" {
			t.Errorf("after the wave has stalled, too, the pods have %s", got)
		}
	})
}

// TestAnOwnRollbackStopsNothing has an App go back from a change of its own, to the defaults of a wave: nothing stalls while the pods of before start.
func TestAnOwnRollbackStopsNothing(t *testing.T) {
	forNames(t, heldKinds(), func(t *testing.T, name string) {
		w := newWaveWorld(t, name, "web-0")
		w.takeWave(name)
		w.run(name, w.replicaSet("web-1"))
		w.settle(name)
		w.stallRelease(name)
		w.settle(name)
		w.stands("rollback", name, "Applied=False/RolledBack", "Stalled=True/RolledBack")
		if got := w.lead(); got != "True/RolledOut" {
			t.Errorf("while the pods of before start, the rollout is %s", got)
		}
		w.runAgain(name, "web-1")
		if got := w.lead(); got != "True/RolledOut" {
			t.Errorf("once they are ready, the rollout is %s", got)
		}
	})
}

// TestAnOwnFailureAfterAnOwnRollbackStopsNothing has an App go back from a change of its own, by itself or by a hold, and then stall with another change before
// the pods of before are ready: the defaults of its wave were ready once, so the rollout goes on.
func TestAnOwnFailureAfterAnOwnRollbackStopsNothing(t *testing.T) {
	forNames(t, heldKinds(), func(t *testing.T, name string) {
		forEach(t, map[string]func(w *world){
			"rollback": func(w *world) {
				w.stallRelease(name)
				w.settle(name)
				w.stands("rollback", name, "Applied=False/RolledBack")
			},
			"hold": func(w *world) {
				w.setSpec(name, flowSpec(name, "nginx:none", onePort))
				w.settle(name)
				w.replicaSet("web-2")
				w.stall(name)
				w.settle(name)
				w.annotate(name, appv1.AnnotationHold, appv1.HoldLastGood)
				w.settle(name)
				w.stands("hold", name, "Applied=False/Held")
				w.annotate(name, appv1.AnnotationHold, "")
			},
		}, func(t *testing.T, _ string, back func(w *world)) {
			w := newWaveWorld(t, name, "web-0")
			w.takeWave(name)
			w.run(name, w.replicaSet("web-1"))
			w.settle(name)
			back(w)
			w.endPods()
			w.setSpec(name, flowSpec(name, "nginx:3", onePort))
			w.settle(name)
			w.stall(name)
			w.settle(name)
			w.stands("another change", name, "Stalled=True/ImagePullBackOff")
			if got := w.lead(); got != "True/RolledOut" {
				t.Errorf("the rollout is %s", got)
			}
		})
	})
}

// TestAnOwnRollbackBeginsNoWave has an App that has gone back from a change of its own, which no wave can change: the rollout ends without it.
func TestAnOwnRollbackBeginsNoWave(t *testing.T) {
	forNames(t, heldKinds(), func(t *testing.T, name string) {
		w := stalledWorld(t, name)
		w.setDefaults("platform", inWaves("1", "1", "0s"))
		w.settle(name)
		for range 2 {
			w.runAgain(name, "web-1")
			w.stands("rollback", name, "Applied=False/RolledBack", "Stalled=True/RolledBack")
			if got := w.lead(); got != "False/Skipped" {
				t.Errorf("the rollout is %s", got)
			}
			if got := w.defaultsStatus("platform").Wave; got != 0 {
				t.Errorf("wave %d has begun", got)
			}
		}
	})
}

// TestARefusedChangeBeginsNoWave has an App that has stalled with a change that is refused, so that no wave can change it: the rollout ends without it, whatever
// is written into the App.
func TestARefusedChangeBeginsNoWave(t *testing.T) {
	f := newFleet(t, 2, plainApp, inWaves("1", "1", "0s"))
	app := &stored.App{}
	app.Name = f.names[0]
	f.read(app)
	app.Generation++
	setStoredSpec(t, app, `{"image":"nginx:2","replicas":1,"rollback":"OnStall","revisionHistoryLimit":0}`)
	f.update(app)
	f.app(app.Name)
	f.setDefaults("platform", inWaves("2", "1", "0s"))
	f.waveWith(4)
	latest := f.defaults().Wave
	if f.rolledOut() != "False/Skipped" {
		t.Errorf("the rollout is %s", f.rolledOut())
	}
	for i := range 2 {
		f.read(app)
		app.Annotations = map[string]string{"example.com/other": fmt.Sprint(i)}
		f.update(app)
		f.waveWith(2)
		if got := f.defaults().Wave; got != latest || f.rolledOut() != "False/Skipped" {
			t.Errorf("after another annotation, the wave is %d and was %d, the rollout is %s", got, latest, f.rolledOut())
		}
	}
	f.read(app)
	app.Generation++
	setStoredSpec(t, app, plainApp)
	f.update(app)
	f.app(app.Name)
	f.waveWith(2)
	if f.rolledOut() != "True/RolledOut" || len(f.with("2")) != 2 {
		t.Errorf("once the change is taken back, %v have the defaults: %s", f.with("2"), f.rolledOut())
	}
}

// TestDefaultsThatARestingAppCannotTake has an App that is held, or has gone back from defaults of a wave, and defaults that make it invalid: it is named, and no wave
// begins with it.
func TestDefaultsThatARestingAppCannotTake(t *testing.T) {
	forNames(t, heldKinds(), func(t *testing.T, name string) {
		forEach(t, map[string]func(w *world){
			"held": func(w *world) {
				w.annotate(name, appv1.AnnotationHold, appv1.HoldLastGood)
				w.settle(name)
				w.stands("hold", name, "Applied=False/Held")
			},
			"rolled back": func(w *world) {
				w.takeWave(name)
				w.replicaSet("web-2")
				w.stall(name)
				w.settle(name)
				w.stands("rollback", name, "Applied=False/RolledBack")
			},
		}, func(t *testing.T, _ string, rest func(w *world)) {
			w := newWorld(t, newStored(t, kindNamed(t, name), strings.Replace(onStall(name, "nginx:1"), "{", `{"progressDeadlineSeconds":100,`, 1)))
			w.setDefaults("platform", inWaves("1", "1", "0s"))
			w.settle(name)
			w.run(name, w.replicaSet("web-1"))
			w.settle(name)
			rest(w)
			latest := w.defaultsStatus("platform").Wave
			w.setDefaults("platform", strings.Replace(inWaves("3", "1", "0s"), `{"podAnnotations`, `{"minReadySeconds":200,"podAnnotations`, 1))
			w.settle(name)
			if got := w.lead(); got != "False/Skipped" {
				t.Errorf("the rollout is %s", got)
			}
			status := w.defaultsStatus("platform")
			if status.Wave != latest || len(status.Failed) != 1 || !strings.Contains(status.Failed[0].Message, "minReadySeconds") {
				t.Errorf("the status is %+v, the latest wave was %d", status, latest)
			}
			if got := w.annotationsOfPods(); got != "map[a:1]" {
				t.Errorf("the pods have %s", got)
			}
		})
	})
}

// TestAnAppThatCannotBeReadDeclines gives a grant to an App whose spec is changed so that it cannot be decoded: the grant ends.
func TestAnAppThatCannotBeReadDeclines(t *testing.T) {
	f := newFleet(t, 2, plainApp, inWaves("1", "1", "0s"))
	f.setDefaults("platform", inWaves("2", "1", "0s"))
	f.look()
	for id := range f.leader.grants.All() {
		app := &stored.App{}
		app.Name = id.Name
		f.read(app)
		app.Generation++
		setStoredSpec(t, app, `{"image":"nginx:1","replicas":"many"}`)
		f.update(app)
		f.app(id.Name)
	}
	if left := f.leader.grants.All(); len(left) > 0 {
		t.Errorf("the grants are %v", left)
	}
}

// TestAwaitsTheWavesOfOthers checks what AppDefaults without a rollout say while the waves of the operator's namespace replace the pods.
func TestAwaitsTheWavesOfOthers(t *testing.T) {
	f := newFleet(t, 2, plainApp, inWaves("1", "1", "0s"))
	own := func() string {
		f.t.Helper()
		status := f.defaultsStatus(namespace)
		rolledOut, ready := meta.FindStatusCondition(status.Conditions, appv1.ConditionRolledOut), meta.FindStatusCondition(status.Conditions, appv1.ConditionReady)
		if awaits := rolledOut.Reason == appv1.ReasonWave; awaits != strings.Contains(rolledOut.Message, "namespace platform") {
			t.Errorf("RolledOut says %q", rolledOut.Message)
		}
		return fmt.Sprintf("%s/%s, Ready=%s", rolledOut.Status, rolledOut.Reason, ready.Status)
	}
	is := func(what, want string) {
		t.Helper()
		if got := own(); got != want {
			t.Errorf("%s: RolledOut is %s, want %s", what, got, want)
		}
	}
	f.setDefaults(namespace, `{"defaults":{"podLabels":{"b":"1"}}}`)
	is("changed", "False/Wave, Ready=False")
	f.waveWith(1)
	is("in the first wave", "False/Wave, Ready=False")
	app := &stored.App{}
	app.Name = f.names[0]
	if len(f.deploymentOf(app.Name).Spec.Template.Labels["b"]) > 0 {
		app.Name = f.names[1]
	}
	setPaused := func(spec string) {
		f.read(app)
		app.Generation++
		setStoredSpec(t, app, spec)
		f.update(app)
		f.app(app.Name)
	}
	setPaused(strings.Replace(plainApp, "{", `{"paused":true,`, 1))
	f.waveWith(2)
	is("with a paused App", "False/NextChange, Ready=True")
	setPaused(plainApp)
	f.waveWith(6)
	is("at the end", "True/RolledOut, Ready=True")
	f.setDefaults("platform", `{"defaults":{"podAnnotations":{"a":"3"}}}`)
	is("without waves", "False/NextChange, Ready=True")
}
