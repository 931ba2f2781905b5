package controllers

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appv1 "huolala.cn/app-operator/api/v1"
	"huolala.cn/app-operator/internal/stored"
	"huolala.cn/app-operator/internal/waves"
	"huolala.cn/app-operator/test/play"
)

// TestAChangeDoesNotOpenAStop changes an App that has stalled a rollout, as its pipeline does: as long as the App is not ready, no other App takes the
// defaults. Once it is ready, the rollout goes on.
func TestAChangeDoesNotOpenAStop(t *testing.T) {
	const rollback = `{"image":"nginx:1","replicas":1,"rollback":"OnStall"}`
	changes := map[string]func(*stored.App, string){
		"another image": func(app *stored.App, spec string) {
			setStoredSpec(t, app, strings.Replace(spec, "nginx:1", "nginx:2", 1))
		},
		"labels": func(app *stored.App, spec string) {
			setStoredSpec(t, app, strings.Replace(spec, "{", `{"labels":{"a":"b"},`, 1))
		},
		"replicas": func(app *stored.App, spec string) {
			setStoredSpec(t, app, strings.Replace(spec, `"replicas":1`, `"replicas":2`, 1))
		},
		"a refresh": func(app *stored.App, _ string) { app.Annotations = map[string]string{appv1.AnnotationRefresh: "1"} },
		"a canary": func(app *stored.App, spec string) {
			setStoredSpec(t, app, strings.Replace(spec, "{", `{"canary":{},`, 1))
		},
		"a command": func(app *stored.App, spec string) {
			setStoredSpec(t, app, strings.Replace(spec, "{", `{"beforeRollout":{"command":["migrate"]},`, 1))
		},
	}
	for name, change := range changes {
		for kind, spec := range map[string]string{"plain": plainApp, "rolled back": rollback} {
			t.Run(name+" "+kind, func(t *testing.T) {
				f := newFleet(t, 3, spec, inWaves("1", "1", "0s"))
				f.setDefaults("platform", inWaves("2", "1", "0s"))
				f.look()
				f.everyApp()
				taken := f.with("2")
				if len(taken) != 1 {
					t.Fatalf("the wave has %q", taken)
				}
				stalled := taken[0]
				f.waveWith(2, stalled)
				for round := range 2 {
					app := &stored.App{}
					app.Name = stalled
					f.read(app)
					app.Generation++
					change(app, spec)
					f.update(app)
					f.waveWith(2, stalled)
					if got := f.rolledOut(); got != "False/"+appv1.ReasonWaveStalled {
						t.Errorf("after change %d, the rollout is %s", round, got)
					}
					for _, other := range f.names {
						if other != stalled && f.deploymentOf(other).Spec.Template.Annotations["a"] != "1" {
							t.Errorf("after change %d, %s has the defaults as well", round, other)
						}
					}
				}
				if name == "a canary" || name == "a command" { // No wave takes such an App.
					app := &stored.App{}
					app.Name = stalled
					f.read(app)
					app.Generation++
					setStoredSpec(t, app, spec)
					f.update(app)
				}
				f.setPods(stalled, play.SetAvailable)
				f.setDefaults("platform", inWaves("3", "1", "0s"))
				f.waveWith(8)
				if got := len(f.with("3")); got != len(f.names) || f.rolledOut() != "True/RolledOut" {
					t.Errorf("with corrected defaults, %d Apps have them: %s", got, f.rolledOut())
				}
			})
		}
	}
}

// TestAChangeWithADeniedServiceDoesNotOpenAStop has a policy deny the Services with new defaults, and changes the App of the wave as its pipeline does: its pods
// are ready, and the App is not. No other App takes the defaults until the Service is admitted, however the App is changed, while its time goes on and after it.
func TestAChangeWithADeniedServiceDoesNotOpenAStop(t *testing.T) {
	for name, late := range map[string]time.Duration{"in its time": 0, "late": 2 * time.Hour} {
		t.Run(name, func(t *testing.T) {
			const spec, text = `{"image":"nginx:%d","replicas":1,"ports":[{"port":80}]}`,
				`{"defaults":{"podAnnotations":{"a":"2"},"service":{"annotations":{"a":"denied"}}},"rollout":{"type":"Waves","size":1,"soak":"5m"}}`
			f := newFleet(t, 3, fmt.Sprintf(spec, 1), inWaves("1", "1", "5m"))
			f.setDefaults("platform", text)
			denies := true
			f.fail = func(_ string, obj client.Object) error {
				if _, ok := obj.(*corev1.Service); ok && denies && obj.GetAnnotations()["a"] == "denied" {
					return fmt.Errorf("%w: %w", errDead, apierrors.NewForbidden(corev1.Resource("services"), obj.GetName(), errors.New("no such annotation")))
				}
				return nil
			}
			f.waveWith(2)
			f.pass(late)
			first := f.with("2")
			if len(first) != 1 {
				t.Fatalf("the wave has %q", first)
			}
			for image := 2; image <= 4; image++ {
				app := &stored.App{}
				app.Name = first[0]
				f.read(app)
				if is := app.Defaults(); is == nil || is.WasReady {
					t.Errorf("before image %d, the status has %+v", image, is)
				}
				app.Generation++
				setStoredSpec(t, app, fmt.Sprintf(spec, image))
				f.update(app)
				f.waveWith(8)
				if got := f.with("2"); !slices.Equal(got, first) {
					t.Errorf("with image %d, %q have the defaults: %s", image, got, f.rolledOut())
				}
			}
			denies = false
			f.waveWith(24)
			if got := f.with("2"); len(got) != 3 || f.rolledOut() != "True/RolledOut" {
				t.Errorf("once they are admitted, %v have the defaults: %s", got, f.rolledOut())
			}
		})
	}
}

// TestARefusedChangeStopsNoRollout has an App stall with a spec of its own that is invalid, in its pods or around them, long after it took the defaults in a
// wave: the finished rollout stays finished, also once the change is taken back, and changed defaults reach all others, there and back.
func TestARefusedChangeStopsNoRollout(t *testing.T) {
	for what, spec := range map[string]string{
		"pods":        `{"image":"nginx:2","replicas":1,"rollback":"OnStall","revisionHistoryLimit":0}`,
		"around them": `{"image":"nginx:1","replicas":1,"rollback":"OnStall","revisionHistoryLimit":0}`,
	} {
		t.Run(what, func(t *testing.T) {
			f := newFleet(t, 3, plainApp, inWaves("1", "3", "1m"))
			f.setDefaults("platform", inWaves("2", "3", "1m"))
			f.waveWith(4)
			if got := len(f.with("2")); got != 3 || f.rolledOut() != "True/RolledOut" {
				t.Fatalf("%d Apps have the defaults: %s", got, f.rolledOut())
			}
			f.pass(time.Hour)
			app := &stored.App{}
			app.Name = f.names[0]
			change := func(spec string) {
				f.read(app)
				app.Generation++
				setStoredSpec(t, app, spec)
				f.update(app)
				f.look() // Before the reconcile of the App.
				f.everyApp()
				f.look()
				if f.rolledOut() != "True/RolledOut" {
					t.Errorf("with %s, the rollout is %s", spec, f.rolledOut())
				}
			}
			change(spec)
			if f.read(app); app.Condition(appv1.ConditionStalled).Status != metav1.ConditionTrue {
				t.Errorf("the App is %+v", app.Condition(appv1.ConditionStalled))
			}
			change(plainApp)
			if f.read(app); app.Condition(appv1.ConditionReady).Status != metav1.ConditionTrue {
				t.Errorf("the App is %+v", app.Condition(appv1.ConditionReady))
			}
			f.pass(time.Minute)
			change(spec)
			for _, value := range []string{"3", "2"} {
				f.setDefaults("platform", inWaves(value, "3", "1m"))
				f.waveWith(4)
				for _, name := range f.names[1:] {
					if !slices.Contains(f.with(value), name) {
						t.Errorf("%s does not have the defaults %s: %s", name, value, f.rolledOut())
					}
				}
			}
		})
	}
}

// TestALossOfReadinessStopsNoRollout has an App of the latest wave lose its readiness for a while, long after the rollout has ended, as a drained node
// makes it.
func TestALossOfReadinessStopsNoRollout(t *testing.T) {
	f := newFleet(t, 2, plainApp, inWaves("1", "2", "1m"))
	f.setDefaults("platform", inWaves("2", "2", "1m"))
	f.waveWith(4)
	f.pass(time.Hour)
	for round := range 2 {
		f.setPods(f.names[0], func(d *appsv1.Deployment) { play.SetRollingOut(d, corev1.ConditionTrue, "ReplicaSetUpdated") })
		f.everyApp()
		f.look()
		if f.rolledOut() != "True/RolledOut" {
			t.Errorf("round %d: the rollout is %s", round, f.rolledOut())
		}
		f.setPods(f.names[0], play.SetAvailable)
		f.pass(time.Second)
		f.everyApp()
		if f.look(); f.rolledOut() != "True/RolledOut" {
			t.Errorf("round %d, ready again: the rollout is %s", round, f.rolledOut())
		}
	}
}

// TestALongerSoakReopensNoRollout states a longer soak once a rollout has ended, soon after the end, after an App has lost its readiness for a while,
// in place of invalid AppDefaults, or with an upgrade of the operator: the rollout stays ended, also after a restart. The longer soak counts for the next wave.
func TestALongerSoakReopensNoRollout(t *testing.T) {
	for name, between := range map[string]func(f *fleet){
		"soon": func(*fleet) {},
		"after a loss of readiness": func(f *fleet) {
			for _, after := range []time.Duration{3 * time.Hour, 23 * time.Hour} {
				f.pass(after)
				f.setPods(f.names[0], func(d *appsv1.Deployment) { play.SetRollingOut(d, corev1.ConditionTrue, "ReplicaSetUpdated") })
				f.everyApp()
				f.pass(time.Minute)
				f.setPods(f.names[0], play.SetAvailable)
				f.everyApp()
			}
		},
		"in place of invalid AppDefaults": func(f *fleet) {
			f.setDefaults("platform", `{"defaults":{"minReadySeconds":700}}`)
			f.waveWith(1)
		},
		"with an upgrade": func(f *fleet) {
			live := &stored.AppDefaults{}
			if err := f.Client.Get(f.t.Context(), types.NamespacedName{Namespace: "platform", Name: appv1.AppDefaultsName}, live); err != nil {
				f.t.Fatal(err)
			}
			live.Status.Value.SoakedWave, live.Status.Value.SoakedSeconds = 0, 0
			if err := f.base.Status().Update(f.t.Context(), live); err != nil {
				f.t.Fatal(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFleet(t, 2, plainApp, inWaves("1", "2", "1m"))
			f.setDefaults("platform", inWaves("2", "2", "1m"))
			f.waveWith(4)
			between(f)
			f.setDefaults("platform", inWaves("2", "2", "24h"))
			for range 2 {
				if f.look(); f.rolledOut() != "True/RolledOut" {
					t.Errorf("with a longer soak, the rollout is %s", f.rolledOut())
				}
				f.begin()
				f.everyApp()
			}
			f.setDefaults("platform", inWaves("3", "2", "24h"))
			f.waveWith(8)
			if got := len(f.with("3")); got != 2 || f.rolledOut() != "False/Wave" {
				t.Errorf("in the next wave, %d Apps have the defaults: %s", got, f.rolledOut())
			}
			f.pass(24 * time.Hour)
			f.everyApp()
			if f.look(); f.rolledOut() != "True/RolledOut" {
				t.Errorf("after its soak, the rollout is %s", f.rolledOut())
			}
		})
	}
}

// TestSoakedOf checks what a status says about the latest wave whose soak has ended: no more than can be true.
func TestSoakedOf(t *testing.T) {
	rolledOut := func(reason string) []metav1.Condition {
		return []metav1.Condition{{Type: appv1.ConditionRolledOut, Reason: reason}}
	}
	for name, c := range map[string]struct {
		wave, soaked int32
		seconds      int64
		reason       string
		want         waves.Soaked
	}{
		"none":                          {0, 0, 0, appv1.ReasonRolledOut, waves.Soaked{}},
		"a wave":                        {3, 2, 60, appv1.ReasonWave, waves.Soaked{Wave: 2, Soak: time.Minute}},
		"a later wave than the latest":  {3, 9, 60, appv1.ReasonWave, waves.Soaked{Wave: 3, Soak: time.Minute}},
		"longer than any soak":          {3, 3, math.MaxInt64, appv1.ReasonRolledOut, waves.Soaked{Wave: 3, Soak: appv1.MaxWaveSoak}},
		"of before, rolled out":         {3, 0, 0, appv1.ReasonRolledOut, waves.Soaked{Wave: 3}},
		"of before, a wave goes on":     {3, 0, 0, appv1.ReasonWave, waves.Soaked{}},
		"of before, the rollout stalls": {3, 0, 0, appv1.ReasonWaveStalled, waves.Soaked{}},
	} {
		status := &appv1.AppDefaultsStatus{}
		status.Wave, status.SoakedWave, status.SoakedSeconds, status.Conditions = c.wave, c.soaked, c.seconds, rolledOut(c.reason)
		if got := soakedOf(status); got != c.want {
			t.Errorf("%s: %+v, want %+v", name, got, c.want)
		}
	}
}

// TestALongerSoakIsTheSameForANamespace has an App lose its readiness long after the soak of its wave, and states other defaults with a longer soak: the App is
// skipped, and neither the AppDefaults with the rollout nor the AppDefaults of its namespace wait for it.
func TestALongerSoakIsTheSameForANamespace(t *testing.T) {
	f := newFleet(t, 1, plainApp, inWaves("1", "1", "1m"))
	f.setDefaults(namespace, `{}`)
	f.setDefaults("platform", inWaves("2", "1", "1m"))
	f.waveWith(4)
	f.pass(time.Hour)
	f.setPods(f.names[0], func(d *appsv1.Deployment) { play.SetRollingOut(d, corev1.ConditionTrue, "ReplicaSetUpdated") })
	f.everyApp()
	f.setDefaults("platform", inWaves("3", "1", "24h"))
	f.everyApp()
	f.look()
	is := meta.FindStatusCondition(ptr.To(f.defaultsStatus(namespace)).Conditions, appv1.ConditionRolledOut)
	if f.rolledOut() != "False/Skipped" || is == nil || is.Reason != appv1.ReasonNextChange {
		t.Errorf("the rollout is %s, and for the namespace %+v", f.rolledOut(), is)
	}
}

// setStoredSpec sets the spec of an App.
func setStoredSpec(t *testing.T, app *stored.App, spec string) {
	t.Helper()
	mustUnmarshal(t, &app.Spec, spec)
}

// TestPlanOfWaves checks that the plan of AppDefaults has the way in which the Apps would take them: by the new spec, or else by the AppDefaults of the
// operator's namespace.
func TestPlanOfWaves(t *testing.T) {
	const waves, nextChange, none = `{"rollout":{"type":"Waves"}}`, `{"rollout":{}}`, `{}`
	for name, c := range map[string]struct {
		operators, own, of, spec string
		want                     bool
	}{
		"of the operator":               {none, none, "platform", waves, true},
		"of the operator, no longer":    {waves, none, "platform", none, false},
		"of a namespace":                {none, none, namespace, waves, true},
		"of a namespace, no longer":     {none, waves, namespace, none, false},
		"of a namespace, by the others": {waves, none, namespace, none, true},
		"of a namespace, NextChange":    {waves, none, namespace, nextChange, false},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			t.Cleanup(func() { w.script.text.Reset() }) // A plan writes nothing.
			w.setDefaults("platform", c.operators)
			w.setDefaults(namespace, c.own)
			spec, err := newAppDefaults(t, c.of, c.spec).Decode()
			if err != nil {
				t.Fatal(err)
			}
			made, err := newPlanner(w.Deps).PlanDefaults(t.Context(), c.of, &spec.Spec)
			if err != nil || made.InWaves != c.want {
				t.Errorf("in waves: %t, want %t (%v)", made.InWaves, c.want, err)
			}
		})
	}
}
