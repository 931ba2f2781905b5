package controllers

import (
	"context"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"

	appv1 "huolala.cn/app-operator/api/v1"
	"huolala.cn/app-operator/internal/stored"
)

// slowLists is a client whose lists of Deployments take a time, and each read of an App by name another.
type slowLists struct {
	client.Client
	f          *fleet
	list, read time.Duration
	// lists is the number of lists of Deployments.
	lists int
}

// List implements client.Client.
func (c *slowLists) List(ctx context.Context, into client.ObjectList, options ...client.ListOption) error {
	if _, ok := into.(*appsv1.DeploymentList); ok {
		c.lists++
		c.f.pass(c.list)
	}
	return c.Client.List(ctx, into, options...)
}

// Get implements client.Client.
func (c *slowLists) Get(ctx context.Context, key client.ObjectKey, into client.Object, options ...client.GetOption) error {
	if _, ok := into.(*stored.App); ok {
		c.f.pass(c.read)
	}
	return c.Client.Get(ctx, key, into, options...)
}

// delays is a queue that notes the delay of each request for the AppDefaults of the operator's namespace, 0 for none.
type delays struct {
	wakeQueue
	of []time.Duration
}

// Add implements workqueue.TypedInterface.
func (d *delays) Add(request ctrl.Request) { d.AddAfter(request, 0) }

// AddAfter implements workqueue.TypedDelayingInterface.
func (d *delays) AddAfter(request ctrl.Request, after time.Duration) {
	if request.Namespace == "platform" {
		d.of = append(d.of, after)
	}
}

// tenantEvents are the events by which the users of a namespace have the AppDefaults of the operator's namespace be looked at.
func tenantEvents(t *testing.T, r *AppDefaultsReconciler) map[string]func(*delays) {
	t.Helper()
	app := newStored(t, kindNamed(t, "App"), plainApp)
	changed := newStored(t, kindNamed(t, "App"), plainApp)
	changed.SetGeneration(2)
	recreated := newStored(t, kindNamed(t, "App"), plainApp)
	recreated.SetUID("another")
	own := newAppDefaults(t, namespace, "{}")
	made := map[string]func(*delays){}
	for name, of := range map[string]struct {
		by  handler.EventHandler
		obj client.Object
	}{"an App": {r.recountHandler(), app}, "AppDefaults": {r.changeHandler(), own}} {
		made[name+" is created"] = func(d *delays) { of.by.Create(t.Context(), event.CreateEvent{Object: of.obj}, d) }
		made[name+" is deleted"] = func(d *delays) { of.by.Delete(t.Context(), event.DeleteEvent{Object: of.obj}, d) }
	}
	made["AppDefaults change"] = func(d *delays) {
		r.changeHandler().Update(t.Context(), event.UpdateEvent{ObjectOld: own, ObjectNew: own}, d)
	}
	made["an App changes during waves"] = func(d *delays) {
		r.recountHandler().Update(t.Context(), event.UpdateEvent{ObjectOld: app, ObjectNew: changed}, d)
	}
	made["an App is recreated"] = func(d *delays) {
		r.recountHandler().Update(t.Context(), event.UpdateEvent{ObjectOld: app, ObjectNew: recreated}, d)
	}
	return made
}

// TestSurveysTakeAShareOfTheTime has users of a namespace cause surveys of all Apps by each event that can: the pause before the next survey follows from how long the
// latest one took, without the reads, which wait for the API server.
func TestSurveysTakeAShareOfTheTime(t *testing.T) {
	for name, c := range map[string]struct{ list, read, want time.Duration }{
		"a quick survey":       {time.Millisecond, 0, countDelay},
		"a slow survey":        {time.Second, 0, 10 * time.Second},
		"a very slow survey":   {time.Hour, 0, maxCountDelay},
		"reads that take long": {0, time.Second, countDelay},
		"both":                 {time.Second, time.Minute, 10 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFleet(t, maxNamespaceReads+1, plainApp, inWaves("1", "1", "0s"))
			f.begin()
			slow := &slowLists{Client: f.leader.Client, f: f, list: c.list, read: c.read}
			f.leader.Client = &partialLists{Client: slow}
			if again := f.look(); again != c.want { // An App is left to be read.
				t.Errorf("the next survey for the App that is left begins after %s, want %s", again, c.want)
			}
			for what, send := range tenantEvents(t, f.leader) {
				queue := &delays{}
				if send(queue); len(queue.of) != 1 || queue.of[0] != c.want {
					t.Errorf("%s: the next survey begins after %v, want %s", what, queue.of, c.want)
				}
			}
			if slow.lists != 1 {
				t.Errorf("the Deployments are listed %d times", slow.lists)
			}
			f.remove(newAppDefaults(t, "platform", "{}"))
			if f.look(); len(f.leader.spent) > 0 {
				t.Error("the cost of AppDefaults that are gone is remembered")
			}
		})
	}
}

// TestKnownJudgementsCostNothing judges an App again whose Deployment has not changed, and changes the Deployment then, but none of its records.
func TestKnownJudgementsCostNothing(t *testing.T) {
	f := newFleet(t, 1, plainApp, inWaves("1", "1", "0s"))
	uid := types.UID("uid-of-app-web-0")
	f.look()
	first := f.leader.judged.ofLatest("platform")[uid]
	app, live := &stored.App{}, f.deploymentOf("web-0")
	app.Name = "web-0"
	f.read(app)
	in := &namespaceSurvey{version: first.version}
	made := &survey{before: map[types.UID]*judgement{uid: first}, judged: map[types.UID]*judgement{}, deps: &f.leader.Deps}
	k := kindNamed(t, "App")
	judge := func() *judgement {
		judged, err := made.judgeResource(t.Context(), k, app, live, in)
		if err != nil {
			t.Fatal(err)
		}
		return judged
	}
	if allocated := testing.AllocsPerRun(100, func() { judge() }); allocated > 0 || judge() != first {
		t.Errorf("a known judgement allocates %.0f times", allocated)
	}
	live.ResourceVersion += "0"
	live.Status.ReadyReplicas++
	if again := judge(); again == first || again.record != first.record || again.digest != first.digest || again.deployment != stateOf(live) {
		t.Errorf("with another status of the Deployment: %+v, want %+v", again, first)
	}
	live.ResourceVersion += "0"
	live.Annotations[appv1.AnnotationHeld] = "x"
	if again := judge(); again.record == first.record {
		t.Error("with another record, the judgement is the same")
	}
}
