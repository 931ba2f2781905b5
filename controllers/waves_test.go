package controllers

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	appv1 "huolala.cn/app-operator/api/v1"
	"huolala.cn/app-operator/internal/stored"
	"huolala.cn/app-operator/internal/waves"
	"huolala.cn/app-operator/test/fixture"
	"huolala.cn/app-operator/test/play"
)

// fleet is a world with several Apps under AppDefaults that roll out in waves.
type fleet struct {
	*world
	names  []string
	leader *AppDefaultsReconciler
	apps   reconcile.Reconciler
	// most is the highest number of Deployments that were not ready since the beginning.
	most int
	// dead is true once the manager has ended: it sends no requests any more. diesAt is the number of the request at which it ends, 0 for none.
	dead   bool
	diesAt int
	sentAt int
}

// errDead is the error of each request of a manager that has ended.
var errDead = errors.New("the manager has ended")

// newFleet returns a world with ready Apps, whose AppDefaults have a rollout.
func newFleet(t *testing.T, apps int, spec, defaults string) *fleet {
	t.Helper()
	f := &fleet{world: newWorld(t)}
	t.Cleanup(func() { // The order of the events is random.
		f.script.mu.Lock()
		defer f.script.mu.Unlock()
		f.script.text.Reset()
	})
	f.generations = true
	for i := range apps {
		name := fmt.Sprintf("web-%d", i)
		app := newStored(t, kindNamed(t, "App"), spec)
		app.SetName(name)
		app.SetUID(types.UID("uid-of-app-" + name))
		app.SetGeneration(1)
		f.create(app)
		f.names = append(f.names, name)
	}
	f.setDefaults("platform", defaults)
	f.begin()
	f.everyApp()
	f.everyPod()
	f.everyApp()
	f.look()
	f.most, f.requests = 0, nil
	f.fail = func(string, client.Object) error {
		if f.sentAt++; f.sentAt == f.diesAt {
			f.dead = true
		}
		if f.dead {
			return errDead
		}
		return nil
	}
	return f
}

// begin starts a manager, which knows nothing of the one before.
func (f *fleet) begin() {
	f.t.Helper()
	f.restart()
	f.dead, f.diesAt = false, 0
	f.leader = &AppDefaultsReconciler{Deps: *f.Deps, WaveHandover: ptr.To(time.Duration(0))}
	k := kindNamed(f.t, "App")
	f.apps = k.reconciler(k, f.Deps)
}

// app has an App be reconciled.
func (f *fleet) app(name string) {
	f.t.Helper()
	_, err := f.apps.Reconcile(f.t.Context(), ctrl.Request{NamespacedName: types.NamespacedName{Namespace: namespace, Name: name}})
	if err != nil && !errors.Is(err, errDead) {
		f.t.Fatal(err)
	}
	f.measure()
}

// everyApp has all Apps be reconciled.
func (f *fleet) everyApp() {
	f.t.Helper()
	for _, name := range f.names {
		f.app(name)
	}
}

// look has the AppDefaults be reconciled, and returns when to look again.
func (f *fleet) look() time.Duration {
	f.t.Helper()
	key := types.NamespacedName{Namespace: "platform", Name: appv1.AppDefaultsName}
	result, err := f.leader.Reconcile(f.t.Context(), ctrl.Request{NamespacedName: key})
	if err != nil && !errors.Is(err, errDead) {
		f.t.Fatal(err)
	}
	return result.RequeueAfter
}

// pass has time pass.
func (f *fleet) pass(d time.Duration) { f.clock.SetTime(f.clock.Now().Add(d)) }

// deploymentOf reads the Deployment of an App.
func (f *fleet) deploymentOf(name string) *appsv1.Deployment {
	f.t.Helper()
	d := &appsv1.Deployment{}
	d.Name = name
	if !f.read(d) {
		f.t.Fatalf("there is no Deployment %s", name)
	}
	return d
}

// setPods writes the status of the Deployment of an App.
func (f *fleet) setPods(name string, set func(*appsv1.Deployment)) {
	f.t.Helper()
	d := f.deploymentOf(name)
	set(d)
	if err := f.base.Status().Update(f.t.Context(), d); err != nil {
		f.t.Fatal(err)
	}
	f.measure()
}

// everyPod has all Deployments be ready.
func (f *fleet) everyPod() {
	f.t.Helper()
	for _, name := range f.names {
		f.setPods(name, play.SetAvailable)
	}
}

// measure counts the Deployments that are not ready.
func (f *fleet) measure() {
	f.t.Helper()
	out := 0
	for _, name := range f.names {
		d := &appsv1.Deployment{}
		d.Name = name
		if f.read(d) && (d.Status.ObservedGeneration < d.Generation || d.Status.UpdatedReplicas < d.Status.Replicas) {
			out++
		}
	}
	f.most = max(f.most, out)
}

// defaults returns the status of the AppDefaults.
func (f *fleet) defaults() *appv1.AppDefaultsStatus {
	f.t.Helper()
	found := newAppDefaults(f.t, "platform", "{}")
	if err := f.Client.Get(f.t.Context(), client.ObjectKeyFromObject(found), found); err != nil {
		f.t.Fatal(err)
	}
	return &found.Status.Value
}

// rolledOut returns the condition RolledOut as "Status/Reason".
func (f *fleet) rolledOut() string {
	f.t.Helper()
	c := meta.FindStatusCondition(f.defaults().Conditions, appv1.ConditionRolledOut)
	if c == nil {
		return "none"
	}
	return string(c.Status) + "/" + c.Reason
}

// with returns the names of the Apps whose pods have an annotation.
func (f *fleet) with(value string) []string {
	f.t.Helper()
	var names []string
	for _, name := range f.names {
		if f.deploymentOf(name).Spec.Template.Annotations["a"] == value {
			names = append(names, name)
		}
	}
	return names
}

// inWaves is AppDefaults with an annotation that roll out in waves.
func inWaves(value, size, soak string) string {
	return fmt.Sprintf(`{"defaults":{"podAnnotations":{"a":%q}},"rollout":{"type":"Waves","size":%s,"soak":%q}}`, value, size, soak)
}

// shuffle has the manager and the pods go on in a random order, until all Apps have an annotation or a number of rounds is over.
func (f *fleet) shuffle(random *rand.Rand, value string, rounds int) {
	f.t.Helper()
	for range rounds {
		name := f.names[random.IntN(len(f.names))]
		switch random.IntN(6) {
		case 0:
			f.look()
		case 1, 2:
			f.app(name)
		case 3:
			f.setPods(name, play.SetAvailable)
		case 4:
			f.pass(time.Duration(random.IntN(40)) * time.Second)
		case 5:
			if f.dead || random.IntN(20) == 0 {
				f.begin()
				f.everyApp()
			}
		}
		if status := f.defaults(); int(status.Current) == len(f.names) && len(f.with(value)) == len(f.names) && f.rolledOut() == "True/RolledOut" {
			return
		}
	}
	f.t.Errorf("after %d rounds, %v have the annotation %s: %s", rounds, f.with(value), value, f.rolledOut())
}

const plainApp = `{"image":"nginx:1","replicas":1}`

// TestWavesInAnyOrder rolls out in random orders of reconciles, of pods and of restarts: at no time are more Apps not ready than a wave has.
func TestWavesInAnyOrder(t *testing.T) {
	full, seeds := 0, fixture.Of(6, 20)
	for seed := range uint64(seeds) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			random := rand.New(rand.NewPCG(seed, 7))
			size := 1 + random.IntN(4)
			f := newFleet(t, 8, plainApp, inWaves("1", fmt.Sprint(size), "1m"))
			for _, value := range []string{"2", "3"} {
				f.setDefaults("platform", inWaves(value, fmt.Sprint(size), "1m"))
				f.shuffle(random, value, 3000)
			}
			if f.most > size {
				t.Errorf("%d Apps were not ready, want at most %d", f.most, size)
			}
			if f.most == size {
				full++
			}
			f.requests = nil
			f.everyApp()
			if again := f.look(); again != 0 || len(f.requests) > 0 {
				t.Errorf("at rest, it writes %q and looks again in %s", f.requests, again)
			}
		})
	}
	if full < seeds/3 {
		t.Errorf("%d of %d rollouts had a full wave", full, seeds)
	}
}

// TestAManagerEndsInAWave ends the manager at each request of a rollout. The next one goes on, with no more Apps at once than a wave has.
func TestAManagerEndsInAWave(t *testing.T) {
	const size = 2
	for request := 1; ; request++ {
		done := false
		t.Run(fmt.Sprint(request), func(t *testing.T) {
			f := newFleet(t, 4, plainApp, inWaves("1", fmt.Sprint(size), "0s"))
			f.setDefaults("platform", inWaves("2", fmt.Sprint(size), "0s"))
			f.sentAt, f.diesAt = 0, request
			for range 8 {
				f.look()
				f.everyApp()
				f.look()
				for _, name := range f.names[:3] { // The others take longer.
					f.setPods(name, play.SetAvailable)
				}
				f.everyApp()
				if f.dead {
					f.begin()
					f.everyApp()
				}
				f.look()
				f.everyPod()
				f.everyApp()
				f.pass(time.Second)
			}
			if got := f.with("2"); len(got) != len(f.names) || f.rolledOut() != "True/RolledOut" {
				t.Errorf("%v have the annotation: %s", got, f.rolledOut())
			}
			if f.most > size {
				t.Errorf("%d Apps were not ready, want at most %d", f.most, size)
			}
			done = f.sentAt < request
		})
		if done || t.Failed() {
			if request < 12 { // Four Apps with a write and two statuses each.
				t.Errorf("the rollout has %d requests", request)
			}
			return
		}
	}
}

// TestAWaveThatStalls rolls out defaults whose pods do not come up: the rollout stops and names the Apps, the others are as before, and the next text
// takes these first.
func TestAWaveThatStalls(t *testing.T) {
	f := newFleet(t, 10, plainApp, inWaves("1", `"20%"`, "1m"))
	before := map[string]types.UID{}
	for _, name := range f.names {
		before[name] = f.deploymentOf(name).UID
	}
	f.setDefaults("platform", inWaves("2", `"20%"`, "1m"))
	f.everyApp()
	if f.requests = withoutStatus(f.requests); len(f.requests) > 0 {
		t.Errorf("before the first wave: %q", f.requests)
	}
	f.look()
	f.everyApp()
	first := f.with("2")
	if len(first) != 2 || f.rolledOut() != "False/Wave" || f.defaults().Wave != 1 {
		t.Fatalf("the first wave has %v: %s, wave %d", first, f.rolledOut(), f.defaults().Wave)
	}
	f.sent()
	for _, name := range first {
		f.setPods(name, play.SetTimedOut)
	}
	for range 5 {
		f.everyApp()
		f.look()
		f.pass(time.Hour)
	}
	if got := f.with("2"); !slices.Equal(got, first) {
		t.Errorf("after the first wave has stalled, %v have the defaults", got)
	}
	status := f.defaults()
	if f.rolledOut() != "False/Stalled" || len(status.Failed) != 2 || status.Failed[0].Name != first[0] || status.Current != 2 || status.Pending != 8 ||
		!meta.IsStatusConditionTrue(status.Conditions, appv1.ConditionStalled) || meta.IsStatusConditionTrue(status.Conditions, appv1.ConditionReady) {
		t.Errorf("the status is %+v", status)
	}
	var warned []string
	for _, event := range f.sent() {
		if strings.Contains(event, "Warning ErrStalled") {
			warned = append(warned, event)
		}
	}
	if len(warned) != 1 || !containsAll(warned[0], first...) {
		t.Errorf("the events are %q", warned)
	}
	f.requests = nil
	f.everyApp()
	if again := f.look(); again != 0 || len(f.requests) > 0 {
		t.Errorf("once it has stopped, it writes %q and looks again in %s", f.requests, again)
	}
	other := &stored.App{} // A change of its own that takes the defaults changes the number of the message, and not the stop.
	other.Name = f.names[slices.IndexFunc(f.names, func(name string) bool { return !slices.Contains(first, name) })]
	f.read(other)
	other.Generation++
	mustUnmarshal(t, &other.Spec, strings.Replace(plainApp, "nginx:1", "nginx:2", 1))
	f.update(other)
	f.sent()
	f.app(other.Name)
	f.setPods(other.Name, play.SetAvailable)
	f.app(other.Name)
	f.look()
	f.most = 0
	if sent := fmt.Sprint(f.sent()); f.defaults().Current != 3 || strings.Contains(sent, "ErrStalled") {
		t.Errorf("after a change of another App, %d Apps have the defaults, and the events are %q", f.defaults().Current, sent)
	}

	f.setDefaults("platform", inWaves("3", `"20%"`, "1m"))
	f.everyApp()
	f.begin()
	f.everyApp()
	f.look()
	f.everyApp()
	if got := f.with("3"); !slices.Equal(got, first) {
		t.Errorf("the next text takes %v first, want %v", got, first)
	}
	if status := f.defaults(); f.rolledOut() != "False/Wave" || len(status.Failed) > 0 {
		t.Errorf("the status is %+v", status)
	}
	for range 30 {
		f.everyPod()
		f.everyApp()
		f.look()
		f.pass(time.Minute)
	}
	if got := f.with("3"); len(got) != 10 || f.rolledOut() != "True/RolledOut" || f.most > 2 {
		t.Errorf("at the end: %v, %s, at most %d were not ready", got, f.rolledOut(), f.most)
	}
	for _, name := range f.names {
		if uid := f.deploymentOf(name).UID; uid != before[name] {
			t.Errorf("Deployment %s is another one", name)
		}
	}
}

// TestATenantHoldsUpAWave has an App of the first wave be changed so that it is not ready for years: the rollout stops an hour after the soak, and names the
// App as late and not as stalled.
func TestATenantHoldsUpAWave(t *testing.T) {
	f := newFleet(t, 5, plainApp, inWaves("1", "1", "1m"))
	f.setDefaults("platform", inWaves("2", "1", "1m"))
	f.everyApp()
	f.look()
	f.everyApp()
	first := f.with("2")
	if len(first) != 1 {
		t.Fatalf("the first wave has %v", first)
	}
	app := &stored.App{}
	app.Name = first[0]
	f.read(app)
	app.Generation++
	mustUnmarshal(t, &app.Spec, `{"image":"nginx:1","replicas":1,"progressDeadlineSeconds":2147483647,"minReadySeconds":2147483646}`)
	f.update(app)
	for range 8 {
		f.everyApp()
		f.setPods(first[0], func(d *appsv1.Deployment) { play.SetRollingOut(d, corev1.ConditionTrue, "ReplicaSetUpdated") })
		f.everyApp()
		f.look()
		f.pass(10 * time.Minute)
	}
	status := f.defaults()
	if f.rolledOut() != "False/Stalled" || len(status.Failed) != 1 || !strings.Contains(status.Failed[0].Message, messageWaveLate) {
		t.Errorf("the rollout is %s, the status %+v", f.rolledOut(), status)
	}
	if is := meta.FindStatusCondition(status.Conditions, appv1.ConditionRolledOut); is == nil || strings.Contains(is.Message, "stalled") ||
		!containsAll(is.Message, first[0], messageWaveLate) {
		t.Errorf("the condition is %+v", is)
	}
}

// waveWith has the leader and all Apps go on for a number of rounds in which the pods of all Apps but some become ready.
func (f *fleet) waveWith(rounds int, stalled ...string) {
	f.t.Helper()
	for range rounds {
		f.look()
		f.everyApp()
		for _, name := range f.names {
			set := play.SetAvailable
			if slices.Contains(stalled, name) {
				set = play.SetTimedOut
			}
			f.setPods(name, set)
		}
		f.everyApp()
		f.pass(time.Minute)
	}
	f.look()
}

// TestWhoseRolloutCounts checks which AppDefaults decide on the rollout in a namespace: the nearest that state one.
func TestWhoseRolloutCounts(t *testing.T) {
	const nextChange = `{"rollout":{}}`
	for name, c := range map[string]struct {
		operators, own string
		taken          int
	}{
		"waves of the operator":                 {inWaves("2", `"100%"`, "0s"), "", 2},
		"waves of the operator, own defaults":   {inWaves("2", `"100%"`, "0s"), `{"defaults":{"minReadySeconds":1}}`, 2},
		"waves of the operator, own NextChange": {inWaves("2", `"100%"`, "0s"), nextChange, 0},
		"own waves":                             {`{"defaults":{"podAnnotations":{"a":"2"}}}`, `{"rollout":{"type":"Waves","size":"100%","soak":"0s"}}`, 0},
		"no rollout":                            {`{"defaults":{"podAnnotations":{"a":"2"}}}`, "", 0},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFleet(t, 2, plainApp, inWaves("1", "1", "0s"))
			if c.own != "" {
				f.setDefaults(namespace, c.own)
			}
			f.setDefaults("platform", c.operators)
			f.waveWith(2)
			if got := len(f.with("2")); got != c.taken {
				t.Errorf("%d Apps have taken the defaults, want %d: %s", got, c.taken, f.rolledOut())
			}
			if name != "own waves" {
				return
			}
			key := types.NamespacedName{Namespace: namespace, Name: appv1.AppDefaultsName}
			if _, err := f.leader.Reconcile(t.Context(), ctrl.Request{NamespacedName: key}); err != nil {
				t.Fatal(err)
			}
			f.everyApp()
			if got := len(f.with("2")); got != 2 {
				t.Errorf("by the AppDefaults of their namespace, %d Apps have taken the defaults", got)
			}
		})
	}
}

// TestAGrantLapses removes what a grant depends on before its App has acted on it: the App takes nothing, and another one may.
func TestAGrantLapses(t *testing.T) {
	change := func(f *fleet, name string, do func(*stored.App)) {
		app := &stored.App{}
		app.Name = name
		f.read(app)
		do(app)
		app.Generation++
		f.update(app)
	}
	for name, lapse := range map[string]func(f *fleet, name string){
		"paused": func(f *fleet, name string) {
			change(f, name, func(app *stored.App) { mustUnmarshal(f.t, &app.Spec, `{"image":"nginx:1","replicas":1,"paused":true}`) })
		},
		"held": func(f *fleet, name string) {
			change(f, name, func(app *stored.App) { app.Annotations = map[string]string{appv1.AnnotationHold: "none"} })
		},
		"a canary": func(f *fleet, name string) {
			change(f, name, func(app *stored.App) { mustUnmarshal(f.t, &app.Spec, `{"image":"nginx:1","replicas":1,"canary":{}}`) })
		},
		"not ready": func(f *fleet, name string) {
			f.setPods(name, play.SetTimedOut)
			f.leader.grants.Forget(waves.ID{Kind: "App", NamespacedName: types.NamespacedName{Namespace: namespace, Name: name}})
			f.app(name) // Its status has that before the grant is acted on.
			f.leader.grants.Give(waves.Grant{Of: types.NamespacedName{Namespace: "platform", Name: "default"}, Wave: 1, At: f.clock.Now()},
				[]waves.ID{{Kind: "App", NamespacedName: types.NamespacedName{Namespace: namespace, Name: name}}})
		},
		"NextChange": func(f *fleet, _ string) {
			f.setDefaults("platform", `{"defaults":{"podAnnotations":{"a":"2"}},"rollout":{"type":"NextChange"}}`)
		},
		"those of before": func(f *fleet, _ string) { f.setDefaults("platform", inWaves("1", "1", "0s")) },
		"deleted":         func(f *fleet, _ string) { f.remove(newAppDefaults(f.t, "platform", "{}")) },
	} {
		t.Run(name, func(t *testing.T) {
			f := newFleet(t, 2, plainApp, inWaves("1", "1", "0s"))
			f.setDefaults("platform", inWaves("2", "1", "0s"))
			f.look()
			var granted string
			for id := range f.leader.grants.All() {
				granted = id.Name
			}
			lapse(f, granted)
			f.app(granted)
			f.app(granted)
			if got := f.with("2"); len(got) > 0 {
				t.Errorf("%v have taken the defaults", got)
			}
			if left := f.leader.grants.All(); len(left) > 0 {
				t.Errorf("the grants are %v", left)
			}
			f.waveWith(1)
			other := f.names[0]
			if granted == other {
				other = f.names[1]
			}
			wanted := !slices.Contains([]string{"NextChange", "those of before", "deleted"}, name)
			if took := slices.Contains(f.with("2"), other); took != wanted {
				t.Errorf("the other App has taken the defaults: %t, want %t", took, wanted)
			}
		})
	}
}

// TestAWaveThatIsRefused has the API server refuse the Deployments of a wave: the rollout stops, and is not tried with the other Apps.
func TestAWaveThatIsRefused(t *testing.T) {
	f := newFleet(t, 3, plainApp, inWaves("1", "1", "0s"))
	f.setDefaults("platform", inWaves("2", "1", "0s"))
	tried := map[string]bool{}
	refuse := true
	f.fail = func(verb string, obj client.Object) error {
		if _, ok := obj.(*appsv1.Deployment); ok && refuse && strings.Contains(fmt.Sprint(obj), `a:2`) {
			tried[obj.GetName()] = true
			return apierrors.NewInvalid(appsv1.SchemeGroupVersion.WithKind("Deployment").GroupKind(), obj.GetName(), nil)
		}
		return nil
	}
	f.waveWith(4)
	if len(tried) != 1 || f.rolledOut() != "False/Stalled" || len(f.defaults().Failed) != 1 {
		t.Errorf("it was tried with %v: %s, %+v", tried, f.rolledOut(), f.defaults().Failed)
	}
	refuse = false
	f.waveWith(6)
	if got := f.with("2"); len(got) != 3 || f.rolledOut() != "True/RolledOut" {
		t.Errorf("once it is accepted, %v have the defaults: %s", got, f.rolledOut())
	}
}

// TestAWaveWhoseServiceIsRefused has the API server refuse the Service of each App with new defaults: the Deployment has their record by then, and the
// rollout stops all the same, however often the App is reconciled.
func TestAWaveWhoseServiceIsRefused(t *testing.T) {
	f := newFleet(t, 4, `{"image":"nginx:1","replicas":1,"ports":[{"port":80}]}`, inWaves("1", "1", "0s"))
	f.setDefaults("platform", `{"defaults":{"podAnnotations":{"a":"1"},"service":{"annotations":{"a":"refused"}}},"rollout":{"type":"Waves","size":1,"soak":"0s"}}`)
	tried := map[string]bool{}
	f.fail = func(_ string, obj client.Object) error {
		if _, ok := obj.(*corev1.Service); ok && obj.GetAnnotations()["a"] == "refused" {
			tried[obj.GetName()] = true
			return apierrors.NewInvalid(corev1.SchemeGroupVersion.WithKind("Service").GroupKind(), obj.GetName(), nil)
		}
		return nil
	}
	for range 6 {
		f.look()
		f.everyApp()
		f.everyApp()
		f.pass(2 * time.Second)
	}
	if f.look(); len(tried) != 1 || f.rolledOut() != "False/Stalled" || len(f.defaults().Failed) != 1 {
		t.Errorf("it was tried with %v: %s, %+v", tried, f.rolledOut(), f.defaults().Failed)
	}
}

// TestAWaveThatAdmissionDenies has a policy deny the Deployments with new defaults, which is tried again without end: the rollout stops meanwhile, and
// goes on once they are admitted.
func TestAWaveThatAdmissionDenies(t *testing.T) {
	f := newFleet(t, 3, plainApp, inWaves("1", "1", "0s"))
	f.setDefaults("platform", inWaves("2", "1", "0s"))
	denies := true
	f.fail = func(_ string, obj client.Object) error {
		if _, ok := obj.(*appsv1.Deployment); ok && denies && strings.Contains(fmt.Sprint(obj), `a:2`) {
			return fmt.Errorf("%w: %w", errDead, apierrors.NewForbidden(appsv1.Resource("deployments"), obj.GetName(), errors.New("no such pods")))
		}
		return nil
	}
	f.waveWith(4)
	if len(f.with("2")) > 0 || f.rolledOut() != "False/Stalled" || len(f.defaults().Failed) != 1 {
		t.Errorf("%v have the defaults: %s, %+v", f.with("2"), f.rolledOut(), f.defaults().Failed)
	}
	denies = false
	f.waveWith(6)
	if got := f.with("2"); len(got) != 3 || f.rolledOut() != "True/RolledOut" {
		t.Errorf("once they are admitted, %v have the defaults: %s", got, f.rolledOut())
	}
}

// TestDefaultsThatAnAppCannotTake has a wave leave an App out that the defaults make invalid: it is named, and granted nothing again and again.
func TestDefaultsThatAnAppCannotTake(t *testing.T) {
	f := newFleet(t, 2, `{"image":"nginx:1","replicas":1,"revisionHistoryLimit":0}`, inWaves("1", "2", "0s"))
	f.setDefaults("platform", `{"defaults":{"rollback":"OnStall","podAnnotations":{"a":"2"}},"rollout":{"type":"Waves","size":2,"soak":"0s"}}`)
	f.waveWith(3)
	status := f.defaults()
	if len(f.with("2")) > 0 || f.rolledOut() != "False/Skipped" || len(status.Failed) != 2 || !strings.Contains(status.Failed[0].Message, "rollback") {
		t.Errorf("%v have the defaults: %s, %+v", f.with("2"), f.rolledOut(), status)
	}
	f.requests = nil
	f.everyApp()
	if again := f.look(); again != 0 || len(f.requests) > 0 || len(f.leader.grants.All()) > 0 {
		t.Errorf("at rest, it writes %q, looks again in %s and has granted %v", f.requests, again, f.leader.grants.All())
	}
}

// TestANewLeaderWaits checks that a manager begins no wave before its cache can have what the leader before it has written.
func TestANewLeaderWaits(t *testing.T) {
	f := newFleet(t, 2, plainApp, inWaves("1", "1", "0s"))
	f.setDefaults("platform", inWaves("2", "1", "0s"))
	f.leader = &AppDefaultsReconciler{Deps: *f.Deps}
	if again := f.look(); again != waveHandover || len(f.leader.grants.All()) > 0 {
		t.Errorf("at first, it looks again in %s and has granted %v", again, f.leader.grants.All())
	}
	f.pass(waveHandover - time.Second)
	if again := f.look(); again != time.Second || len(f.leader.grants.All()) > 0 {
		t.Errorf("a second before, it looks again in %s and has granted %v", again, f.leader.grants.All())
	}
	f.pass(time.Second)
	if f.look(); len(f.leader.grants.All()) != 1 {
		t.Errorf("then it has granted %v", f.leader.grants.All())
	}
}

// TestInvalidDefaultsBeginNoWave breaks AppDefaults in a rollout: the wave that has begun goes on, and no other begins.
func TestInvalidDefaultsBeginNoWave(t *testing.T) {
	f := newFleet(t, 3, plainApp, inWaves("1", "1", "0s"))
	f.setDefaults("platform", inWaves("2", "1", "0s"))
	f.waveWith(1)
	taken := len(f.with("2"))
	f.setDefaults("platform", `{"defaults":{"minReadySeconds":700},"rollout":{"type":"Waves","size":1,"soak":"0s"}}`)
	f.waveWith(3)
	if got := len(f.with("2")); got > taken+1 || f.rolledOut() != "False/Invalid" {
		t.Errorf("%d Apps have the defaults after %d: %s", got, taken, f.rolledOut())
	}
}

// mustUnmarshal decodes JSON.
func mustUnmarshal(t *testing.T, into json.Unmarshaler, text string) {
	t.Helper()
	if err := into.UnmarshalJSON([]byte(text)); err != nil {
		t.Fatal(err)
	}
}
