package integration

import (
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	eventsv1 "k8s.io/api/events/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	appv1 "huolala.cn/app-operator/api/v1"
	"huolala.cn/app-operator/test/harness"
	"huolala.cn/app-operator/test/play"
)

// newWaves makes the AppDefaults of a namespace, which roll out in waves without a soak.
func newWaves(t *testing.T, namespace, fields string, size int32) *appv1.AppDefaults {
	t.Helper()
	made := &appv1.AppDefaults{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: appv1.AppDefaultsName}}
	setDefaultFields(t, made, fields)
	made.Spec.Rollout = &appv1.DefaultsRollout{Type: appv1.RolloutWaves, Size: ptr.To(intstr.FromInt32(size)), Soak: "0s"}
	plane.Create(t, made)
	return made
}

// createReady creates an App whose pods are ready.
func createReady(t *testing.T, ns, name string, change func(*appv1.App)) *appv1.App {
	t.Helper()
	app := newApp(ns, name)
	if change != nil {
		change(app)
	}
	createInPlace(t, app)
	completeRollout(t, deployment(app))
	plane.Until(t, app, func() error {
		if !meta.IsStatusConditionTrue(app.Status.Conditions, appv1.ConditionReady) {
			return fmt.Errorf("%s is not ready", name)
		}
		return nil
	})
	return app
}

// isRolledOut returns nil once the condition RolledOut of AppDefaults is True for their present spec.
func isRolledOut(defaults *appv1.AppDefaults) error {
	if c := meta.FindStatusCondition(defaults.Status.Conditions, appv1.ConditionRolledOut); c == nil || c.Status != metav1.ConditionTrue ||
		c.ObservedGeneration != defaults.Generation {
		return fmt.Errorf("the condition is %+v", c)
	}
	return nil
}

// isOut reports whether the pods of a Deployment are not ready.
func isOut(d *appsv1.Deployment) bool {
	return d.Status.ObservedGeneration < d.Generation || d.Status.UpdatedReplicas < ptr.Deref(d.Spec.Replicas, 1)
}

// completeOne has the pods of one Deployment of a namespace be ready.
func completeOne(t *testing.T, ns string) {
	t.Helper()
	var live appsv1.DeploymentList
	if err := plane.Client.List(t.Context(), &live, client.InNamespace(ns)); err != nil {
		t.Fatal(err)
	}
	for i := range live.Items {
		if d := &live.Items[i]; isOut(d) {
			plane.ChangeStatus(t, d, func() { play.SetAvailable(d) })
			return
		}
	}
}

// TestWavesOutliveTheirLeaders rolls defaults out while leaders end in the middle of a write and while they give up their lease: at no time are more
// Apps not ready than a wave has, no Deployment is another one, and nothing but Deployments and statuses is written.
func TestWavesOutliveTheirLeaders(t *testing.T) {
	t.Parallel()
	const size = 2
	own, ns := plane.Namespace(t), plane.Namespace(t)
	defaults := newWaves(t, own, "podAnnotations: {a: '1'}", size)
	lease := harness.WithElection("waves-" + ns)
	var patches atomic.Int32
	dies := harness.WithFault(func(q harness.Request, send func() (*http.Response, error)) (*http.Response, error) {
		n := patches.Load()
		if q.Resource == "deployments" && q.Verb == "patch" {
			n = patches.Add(1)
		}
		switch {
		case n == 9 && q.Resource == "deployments": // The answer to the first patch of the second wave is lost.
			_, _ = send()
			return nil, errRefused
		case n > 9 && q.Write():
			return nil, errRefused
		}
		return send()
	})
	m := plane.Start(t, ns, lease, harness.WithOwnNamespace(own), dies)
	awaitClosed(t, m.Elected())
	uids, apps := map[string]types.UID{}, map[string]*appv1.App{}
	for i := range 6 {
		app := createReady(t, ns, fmt.Sprintf("web-%d", i), nil)
		d := deployment(app)
		plane.Read(t, d)
		uids[app.Name], apps[app.Name] = d.UID, app
		plane.Read(t, app)
	}
	journal := harness.Follow[*appsv1.Deployment](t, plane, &appsv1.DeploymentList{}, ns)
	plane.Change(t, defaults, func() { setDefaultFields(t, defaults, "podAnnotations: {a: '2'}") })
	var second *harness.Manager
	leaders := 1
	harness.Eventually(t, func() error {
		if patches.Load() >= 9 && leaders == 1 { // It is dead, though it holds the lease.
			second = plane.Launch(t, ns, lease, harness.WithOwnNamespace(own))
			m.Stop(t)
			leaders = 2
		}
		completeOne(t, ns)
		plane.Read(t, defaults)
		if leaders == 2 && defaults.Status.Current >= 4 { // In the last wave.
			second.Stop(t)
			m = plane.Start(t, ns, lease, harness.WithOwnNamespace(own))
			leaders = 3
		}
		return isRolledOut(defaults)
	})
	if leaders != 3 {
		t.Errorf("the rollout had %d leaders", leaders)
	}
	out, most := map[string]bool{}, 0
	journal.Each(func(d *appsv1.Deployment) {
		out[d.Name] = isOut(d)
		is := 0
		for _, yes := range out {
			if yes {
				is++
			}
		}
		most = max(most, is)
	})
	if most > size || most == 0 {
		t.Errorf("%d Apps were not ready at once, want at most %d", most, size)
	}
	for name, app := range apps {
		awaitDefaults(t, app, "2", "true")
		d := deployment(app)
		plane.Read(t, d)
		generation := app.Generation
		plane.Read(t, app)
		if d.UID != uids[name] || app.Generation != generation {
			t.Errorf("%s: Deployment %s, want %s; generation %d, want %d", name, d.UID, uids[name], app.Generation, generation)
		}
	}
	m.Idle(t)
	m.Requests.Reset()
	checkRequests(t, m, "rolled out", map[string]int{})
}

// TestAWaveStopsAndNamesTheApp rolls out defaults with which pods do not come up. The rollout stops, its status and its event name the App, and all
// others are untouched. The next text takes this App first. Apps that are paused, held, or have a canary are skipped, and an App that has stalled before
// comes last.
func TestAWaveStopsAndNamesTheApp(t *testing.T) {
	t.Parallel()
	own, ns := plane.Namespace(t), plane.Namespace(t)
	defaults := newWaves(t, own, "podAnnotations: {a: '1'}", 1)
	m := plane.Start(t, ns, harness.WithOwnNamespace(own))
	versions := map[string]string{}
	for name, change := range map[string]func(*appv1.App){"paused": nil, "held": nil, "canary": wantCanary, "down": nil} {
		createReady(t, ns, name, change)
	}
	for i := range 3 {
		createReady(t, ns, fmt.Sprintf("web-%d", i), nil)
	}
	paused, held, down := newApp(ns, "paused"), newApp(ns, "held"), newApp(ns, "down")
	plane.Read(t, paused)
	plane.Change(t, paused, func() { paused.Spec.Paused = true })
	plane.Read(t, held)
	setAnnotation(t, held, appv1.AnnotationHold, "held-none")
	timeOutRollout(t, deployment(down))
	plane.Until(t, down, func() error {
		if meta.IsStatusConditionTrue(down.Status.Conditions, appv1.ConditionReady) {
			return fmt.Errorf("it is ready")
		}
		return nil
	})
	m.Idle(t)
	m.Requests.Reset()
	plane.Change(t, defaults, func() { setDefaultFields(t, defaults, "podAnnotations: {a: '2'}") })
	first := ""
	harness.Eventually(t, func() error {
		if with := annotated(t, ns, "2", versions); len(with) == 1 {
			first = with[0]
			return nil
		}
		return fmt.Errorf("no App has the defaults")
	})
	m.Idle(t)
	before := maps.Clone(versions)
	timeOutRollout(t, &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: first}})
	plane.Until(t, defaults, func() error {
		c, s := meta.FindStatusCondition(defaults.Status.Conditions, appv1.ConditionRolledOut), &defaults.Status
		if c == nil || c.Reason != appv1.ReasonWaveStalled || !strings.Contains(c.Message, ns+"/"+first) || len(s.Failed) != 1 || s.Failed[0].Name != first {
			return fmt.Errorf("the status is %+v", s)
		}
		if s.Apps != 7 || s.Current != 1 || s.Pending != 6 || s.Skipped != 3 || s.Wave != 1 {
			return fmt.Errorf("the numbers are %+v", s)
		}
		return nil
	})
	m.Idle(t)
	if with := annotated(t, ns, "2", versions); !slices.Equal(with, []string{first}) {
		t.Errorf("after the rollout has stopped, %v have the defaults", with)
	}
	for name, version := range before {
		if name != first && versions[name] != version {
			t.Errorf("Deployment %s was written", name)
		}
	}
	harness.Eventually(t, func() error {
		var events eventsv1.EventList
		if err := plane.Client.List(t.Context(), &events, client.InNamespace(own)); err != nil {
			return err
		}
		for i := range events.Items {
			if e := &events.Items[i]; e.Regarding.Kind == "AppDefaults" && e.Reason == "ErrStalled" && strings.Contains(e.Note, first) {
				return nil
			}
		}
		return fmt.Errorf("no event names the App: %+v", events.Items)
	})
	m.Requests.Reset()
	checkRequests(t, m, "stopped", map[string]int{})

	plane.Read(t, defaults)
	plane.Change(t, defaults, func() { setDefaultFields(t, defaults, "podAnnotations: {a: '3'}") })
	harness.Eventually(t, func() error {
		if with := annotated(t, ns, "3", versions); slices.Equal(with, []string{first}) {
			return nil
		}
		return fmt.Errorf("%v have the next defaults, want %s", annotated(t, ns, "3", versions), first)
	})
	harness.Eventually(t, func() error {
		completeNamed(t, ns, "web-") // Not "down", whose pods do not come up.
		if with := annotated(t, ns, "3", versions); !slices.Contains(with, "down") || len(with) != 4 {
			return fmt.Errorf("%v have the defaults", with)
		}
		return nil
	})
	timeOutRollout(t, deployment(down)) // That it stalls again stops nothing.
	plane.Until(t, defaults, func() error {
		c := meta.FindStatusCondition(defaults.Status.Conditions, appv1.ConditionRolledOut)
		if c == nil || c.Reason != appv1.ReasonSkipped || defaults.Status.Skipped != 3 || defaults.Status.Current != 4 {
			return fmt.Errorf("the status is %+v", defaults.Status)
		}
		return nil
	})
}

// completeNamed has the pods of Deployments be ready whose names have a prefix.
func completeNamed(t *testing.T, ns, prefix string) {
	t.Helper()
	var live appsv1.DeploymentList
	if err := plane.Client.List(t.Context(), &live, client.InNamespace(ns)); err != nil {
		t.Fatal(err)
	}
	for i := range live.Items {
		if d := &live.Items[i]; strings.HasPrefix(d.Name, prefix) && isOut(d) {
			plane.ChangeStatus(t, d, func() { play.SetAvailable(d) })
		}
	}
}

// annotated returns the names of the Deployments whose pods have an annotation, and notes the versions of all Deployments.
func annotated(t *testing.T, ns, value string, versions map[string]string) []string {
	t.Helper()
	var live appsv1.DeploymentList
	if err := plane.Client.List(t.Context(), &live, client.InNamespace(ns)); err != nil {
		t.Fatal(err)
	}
	var names []string
	for i := range live.Items {
		d := &live.Items[i]
		versions[d.Name] = d.ResourceVersion
		if d.Spec.Template.Annotations["a"] == value {
			names = append(names, d.Name)
		}
	}
	return names
}

// TestRolloutAtTheAPIServer has the API server refuse what the rules of a rollout refuse, by the schema alone.
func TestRolloutAtTheAPIServer(t *testing.T) {
	t.Parallel()
	ns := plane.Namespace(t)
	for spec, says := range map[string]string{
		"{}": "", "{type: Waves}": "", "{type: NextChange}": "", "{type: Waves, size: 1, soak: 0s}": "", "{type: Waves, size: 100%, soak: 168h}": "",
		"{type: Waves, size: 0}":    "at least 1",
		"{type: Waves, size: 200%}": "at least 1", "{type: Waves, size: 0%}": "at least 1", "{type: Waves, size: -1}": "at least 1",
		"{type: Waves, soak: -5m}": "0s to 168h", "{type: Waves, soak: 169h}": "0s to 168h", "{type: Later}": "Unsupported value",
		"{size: 1}": "type: Waves", "{type: NextChange, soak: 5m}": "type: Waves",
	} {
		made := &appv1.AppDefaults{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: appv1.AppDefaultsName}}
		if err := yaml.UnmarshalStrict([]byte("rollout: "+spec), &made.Spec); err != nil {
			t.Fatal(err)
		}
		err := plane.Client.Create(t.Context(), made, client.DryRunAll)
		if (err == nil) != (says == "") || err != nil && !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v, want %q", spec, err, says)
		}
	}
}
