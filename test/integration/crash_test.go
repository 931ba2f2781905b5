package integration

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appv1 "huolala.cn/app-operator/api/v1"
	"huolala.cn/app-operator/internal/health"
	"huolala.cn/app-operator/resource"
	"huolala.cn/app-operator/test/fixture"
	"huolala.cn/app-operator/test/harness"
)

// A task is something that takes several requests.
type task struct {
	// prepare changes the App before it is created; it may be nil.
	prepare func(*appv1.App)
	// found makes what is there before the App; it may be nil.
	found func(testing.TB, *appv1.App)
	// settled is true if it begins with an App that is in place.
	settled bool
	// stage changes the App in place further, while the manager runs that has put it in place; it may be nil.
	stage func(testing.TB, *appv1.App)
	// begin asks for it, while no manager runs.
	begin func(testing.TB, *appv1.App)
	// keepsCanary is true if a canary is there at the end.
	keepsCanary bool
	// jobs is the number of Jobs at the end. The Jobs succeed while the task is carried out.
	jobs int
}

var tasks = map[string]task{
	"create": {begin: func(t testing.TB, app *appv1.App) { plane.Create(t, app) }},
	"update": {settled: true, begin: func(t testing.TB, app *appv1.App) {
		plane.Change(t, app, func() {
			app.Spec.Image = "nginx:1.17"
			app.Spec.Ports = append(app.Spec.Ports, appv1.Port{Port: 9090})
		})
	}},
	"takeover": {begin: func(t testing.TB, app *appv1.App) { leaveByTutorial(t, app) }},
	"adopt": {begin: func(t testing.TB, app *appv1.App) {
		d, s := tutorialDeployment(app), tutorialService(app)
		d.OwnerReferences, s.OwnerReferences = nil, nil
		app.Annotations = map[string]string{appv1.AnnotationAdopt: "true"}
		plane.Create(t, d, s, app)
	}},
	"keep": {begin: func(t testing.TB, app *appv1.App) {
		d, s := tutorialDeployment(app), tutorialService(app)
		d.OwnerReferences, s.OwnerReferences = nil, nil
		app.Annotations = map[string]string{appv1.AnnotationAdopt: appv1.AdoptWithoutRestart}
		plane.Create(t, d, s, app)
	}},
	// What an App has left is taken over by another one, whose template is the manager's so far.
	"return": {settled: true, begin: func(t testing.TB, app *appv1.App) {
		plane.Delete(t, app)
		app.ObjectMeta = metav1.ObjectMeta{
			Namespace: app.Namespace, Name: app.Name, Annotations: map[string]string{appv1.AnnotationAdopt: appv1.AdoptWithoutRestart},
		}
		app.Status, app.Spec.Image = appv1.AppStatus{}, "nginx:1.17"
		plane.Create(t, app)
	}},
	// The pod template was kept, and becomes the manager's.
	"unkeep": {
		prepare: func(app *appv1.App) {
			app.Annotations = map[string]string{appv1.AnnotationAdopt: appv1.AdoptWithoutRestart}
		},
		found: func(t testing.TB, app *appv1.App) {
			d, s := tutorialDeployment(app), tutorialService(app)
			d.OwnerReferences, s.OwnerReferences = nil, nil
			plane.Create(t, d, s)
		},
		settled: true,
		begin: func(t testing.TB, app *appv1.App) {
			plane.Change(t, app, func() { app.Spec.Image = "nginx:1.17" })
		},
	},
	"portless": {settled: true, begin: func(t testing.TB, app *appv1.App) {
		plane.Change(t, app, func() { app.Spec.Ports = nil })
	}},
	"handover": {settled: true, begin: func(t testing.TB, app *appv1.App) {
		plane.Create(t, newAutoscaler(app, "apps/v1", "Deployment"))
		plane.Change(t, app, func() { app.Spec.Image = "nginx:1.17" })
	}},
	"serve": {prepare: func(app *appv1.App) { setBlocks(app, blockNames) }, begin: func(t testing.TB, app *appv1.App) { plane.Create(t, app) }},
	// The account stays until no pod runs as it, so it is not among them.
	"withdraw": {
		prepare: func(app *appv1.App) { setBlocks(app, blockNames[1:]) }, settled: true,
		begin: func(t testing.TB, app *appv1.App) {
			plane.Change(t, app, func() { app.Spec.ServingSpec = appv1.ServingSpec{} })
		},
	},
	"hold": {settled: true, begin: func(t testing.TB, app *appv1.App) {
		makeEarlierGood(t, app)
		setAnnotation(t, app, appv1.AnnotationHold, appv1.HoldLastGood)
	}},
	"rollback": {
		prepare: func(app *appv1.App) { app.Spec.Rollback = appv1.RollbackOnStall }, settled: true,
		begin: func(t testing.TB, app *appv1.App) {
			makeEarlierGood(t, app)
			timeOutRollout(t, deployment(app))
		},
	},
	"canary": {
		prepare: wantCanary, settled: true,
		begin: func(t testing.TB, app *appv1.App) {
			makeEarlierGood(t, app)
			plane.Change(t, app, func() { app.Spec.Image = "nginx:1.17" })
		},
		keepsCanary: true,
	},
	"promote": {
		prepare: wantCanary, settled: true, stage: startCanary,
		begin: func(t testing.TB, app *appv1.App) { stepCanary(t, app, appv1.AnnotationPromote) },
		// Its pods stay until the rollout is complete.
		keepsCanary: true,
	},
	"abort": {
		prepare: wantCanary, settled: true, stage: startCanary,
		begin: func(t testing.TB, app *appv1.App) { stepCanary(t, app, appv1.AnnotationAbort) },
	},
	"command": {
		settled: true, jobs: 1,
		begin: func(t testing.TB, app *appv1.App) {
			plane.Change(t, app, func() { wantCommand(app); app.Spec.Image = "nginx:1.17" })
		},
	},
	"firstcommand": {
		prepare: wantCommand, jobs: 1,
		begin: func(t testing.TB, app *appv1.App) { plane.Create(t, app) },
	},
	// Nothing but the status is written here, so that no child's event brings the App up again.
	"report": {settled: true, begin: func(t testing.TB, app *appv1.App) { completeRollout(t, deployment(app)) }},
}

// wantCanary states a canary.
func wantCanary(app *appv1.App) { app.Spec.Canary = &appv1.CanarySpec{} }

// wantCommand states a command before the rollouts.
func wantCommand(app *appv1.App) {
	app.Spec.BeforeRollout = &appv1.BeforeRolloutSpec{Command: []string{"/app/migrate"}}
}

// startCanary has the manager start the canary of another image.
func startCanary(t testing.TB, app *appv1.App) {
	t.Helper()
	makeEarlierGood(t, app)
	plane.Change(t, app, func() { app.Spec.Image = "nginx:1.17" })
	plane.Until(t, app, func() error {
		if app.Status.Canary == nil {
			return errors.New("there is no canary")
		}
		return nil
	})
}

// newCanaryDeployment returns the Deployment of the canary of an App, by its name alone.
func newCanaryDeployment(app *appv1.App) *appsv1.Deployment {
	return &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: app.Namespace, Name: resource.CanaryName(app.Name)}}
}

// stepCanary sets an annotation to the UID of the canary.
func stepCanary(t testing.TB, app *appv1.App, annotation string) {
	t.Helper()
	plane.Read(t, app)
	setAnnotation(t, app, annotation, string(app.Status.Canary.UID))
}

// setBlocks states blocks, and the request that an autoscaler counts from.
func setBlocks(app *appv1.App, names []string) {
	app.Spec.Resources.Requests = corev1.ResourceList{corev1.ResourceCPU: parseQuantity("100m")}
	for _, name := range names {
		blocks[name].set(&app.Spec.ServingSpec)
	}
}

// leastRequests are how many requests each task takes at least. The budgets are tested elsewhere; fewer would mean that
// requests are not seen, and not tried here.
var leastRequests = map[string]int{"create": 3, "update": 3, "takeover": 7, "adopt": 7, "portless": 3, "keep": 7, "return": 7, "unkeep": 5,
	"handover": 3, "report": 1, "serve": 8, "withdraw": 5, "hold": 4, "rollback": 4, "canary": 2, "promote": 2, "abort": 2,
	"command": 4, "firstcommand": 5}

// answerRequests is a request that the API server answers with an error and does not carry out.
func answerRequests(with func(harness.Request) apierrors.APIStatus) harness.Fault {
	return func(q harness.Request, _ func() (*http.Response, error)) (*http.Response, error) {
		return harness.Answer(with(q)), nil
	}
}

// jobHash is the end of the name of a Job.
var jobHash = regexp.MustCompile("-[0-9a-f]{10}$")

// victim is an App in whose task one request goes wrong.
type victim struct {
	app     *appv1.App
	task    string
	mishap  string
	request int32
	// sent is the number of requests about the App so far.
	sent atomic.Int32
	// uids are those of the children before the task, if there are any.
	uids map[string]types.UID
	// jobs are the names of the Jobs at the end.
	jobs []string
}

// trial is many Apps under one manager. They have nothing in common but that, so for each of them it is as if the
// manager failed, or died, with its own request.
type trial struct {
	namespace string
	// deadly is true if the manager is dead for an App from the request on that goes wrong.
	deadly  bool
	victims map[string]*victim
}

// fault lets the request of each App go wrong.
func (tr *trial) fault(q harness.Request, send func() (*http.Response, error)) (*http.Response, error) {
	v := tr.victims[strings.TrimSuffix(cmp.Or(q.Name, jobHash.ReplaceAllString(q.Created, "")), "-"+goodHash)]
	if v == nil || !q.Write() && q.Verb != "get" {
		return send()
	}
	switch n := v.sent.Add(1); {
	case n == v.request:
		return mishaps[v.mishap](q, send)
	case n > v.request && v.mishap != "" && tr.deadly:
		return nil, errRefused
	}
	return send()
}

// add adds an App to the trial.
func (tr *trial) add(task, mishap string, request int) {
	// Not a word that is in an object anyway: see general.
	name := fmt.Sprintf("%s-%s-app-%d", task, mishap, request)
	if mishap == "" {
		name = task + "-app"
	}
	app := newTutorialApp(tr.namespace, name)
	if prepare := tasks[task].prepare; prepare != nil {
		prepare(app)
	}
	tr.victims[name] = &victim{app: app, task: task, mishap: mishap, request: int32(request), uids: map[string]types.UID{}}
}

// each calls do for every App, several at a time.
func (tr *trial) each(t *testing.T, do func(*victim)) {
	t.Helper()
	list := slices.Collect(maps.Values(tr.victims))
	forEachNumber(t, len(list), func(i int) { do(list[i]) })
}

// run carries out the task of every App, and returns once the manager that does it has nothing left to do.
func (tr *trial) run(t *testing.T) *harness.Manager {
	t.Helper()
	m := plane.Start(t, tr.namespace)
	tr.each(t, func(v *victim) {
		if found := tasks[v.task].found; found != nil {
			found(t, v.app)
		}
		if tasks[v.task].settled {
			createInPlace(t, v.app)
		}
		if stage := tasks[v.task].stage; stage != nil {
			stage(t, v.app)
		}
	})
	m.Idle(t)
	m.Stop(t)
	tr.each(t, func(v *victim) {
		tasks[v.task].begin(t, v.app)
		for kind, child := range map[string]client.Object{"Deployment": deployment(v.app), "Service": service(v.app)} {
			if v.task != "create" && v.task != "serve" && v.task != "firstcommand" {
				plane.Read(t, child)
				v.uids[kind] = child.GetUID()
			}
		}
	})

	endReportedJobs(t, plane, tr.namespace)
	m = plane.Start(t, tr.namespace, harness.WithFault(tr.fault))
	harness.Eventually(t, func() error {
		for name, v := range tr.victims {
			if sent := v.sent.Load(); sent < v.request {
				return fmt.Errorf("%s: %d requests were sent", name, sent)
			}
		}
		return nil
	})
	if tr.deadly {
		m.Stop(t)
		m = plane.Start(t, tr.namespace)
	}
	harness.Eventually(t, func() error { return tr.observed(t) })
	m.Idle(t)
	return m
}

// observed returns an error while there are Apps of whose generation the manager has reported nothing.
func (tr *trial) observed(t *testing.T) error {
	t.Helper()
	var apps appv1.AppList
	if err := plane.Client.List(t.Context(), &apps, client.InNamespace(tr.namespace)); err != nil {
		return err
	}
	for i := range apps.Items {
		if app := &apps.Items[i]; app.Status.ObservedGeneration != app.Generation {
			return fmt.Errorf("%s: generation %d was observed, want %d", app.Name, app.Status.ObservedGeneration, app.Generation)
		}
		if applied := meta.FindStatusCondition(apps.Items[i].Status.Conditions, appv1.ConditionApplied); applied != nil && applied.Reason == appv1.ReasonBeforeRollout {
			return fmt.Errorf("%s: %s", apps.Items[i].Name, applied.Message)
		}
	}
	return nil
}

// outcome is what has become of an App: everything that the API server has of it, without what differs from one App to
// the next, and between two that were made alike a second apart.
func (v *victim) outcome(t *testing.T) map[string]any {
	t.Helper()
	objects := map[string]any{}
	jobs := v.readJobs(t)
	if len(jobs) != tasks[v.task].jobs {
		t.Errorf("%s has %d Jobs, want %d", v.app.Name, len(jobs), tasks[v.task].jobs)
	}
	for i := range jobs {
		if !health.IsJobOf(&jobs[i], v.app.UID) {
			t.Errorf("Job %s does not belong to its App: %v", jobs[i].Name, jobs[i].GetOwnerReferences())
		}
		container := &jobs[i].Spec.Template.Spec.Containers[0]
		objects["Job"] = append([]string{container.Image}, container.Command...)
	}
	for kind, obj := range map[string]client.Object{"App": v.app, "Deployment": deployment(v.app), "Service": service(v.app)} {
		if kind == "Service" && v.task == "portless" {
			plane.Absent(t, obj)
			continue
		}
		plane.Read(t, obj)
		if uid := v.uids[kind]; uid != "" && uid != obj.GetUID() {
			t.Errorf("%s %s was recreated", kind, v.app.Name)
		}
		if kind != "App" && !metav1.IsControlledBy(obj, v.app) {
			t.Errorf("%s %s is not controlled by its App: %v", kind, v.app.Name, obj.GetOwnerReferences())
		}
		objects[kind] = v.anonymous(t, obj)
	}
	if canary := newCanaryDeployment(v.app); tasks[v.task].keepsCanary {
		plane.Read(t, canary)
		if !metav1.IsControlledBy(canary, v.app) {
			t.Errorf("the canary of %s is not controlled by its App: %v", v.app.Name, canary.GetOwnerReferences())
		}
		objects["canary"] = v.anonymous(t, canary)
	} else {
		plane.Absent(t, canary)
	}
	for name, b := range blocks {
		obj := b.named(v.app.Namespace, v.app.Name)
		if v.task != "serve" {
			plane.Absent(t, obj)
			continue
		}
		plane.Read(t, obj)
		if !metav1.IsControlledBy(obj, v.app) {
			t.Errorf("%s of %s is not controlled by its App: %v", name, v.app.Name, obj.GetOwnerReferences())
		}
		objects[name] = v.anonymous(t, obj)
	}
	return objects
}

// readJobs returns the Jobs of the App, and notes their names.
func (v *victim) readJobs(t *testing.T) []batchv1.Job {
	t.Helper()
	var list batchv1.JobList
	if err := plane.Client.List(t.Context(), &list, client.InNamespace(v.app.Namespace), client.MatchingLabels{appv1.LabelBeforeRollout: v.app.Name}); err != nil {
		t.Fatal(err)
	}
	for i := range list.Items {
		v.jobs = append(v.jobs, list.Items[i].Name)
	}
	return list.Items
}

// anonymous returns an object without names, times and versions.
func (v *victim) anonymous(t *testing.T, obj client.Object) any {
	t.Helper()
	if s, ok := obj.(*corev1.Service); ok {
		s.Spec.ClusterIP, s.Spec.ClusterIPs = "", nil
	}
	harness.SortManagers(obj)
	fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(obj)
	if err != nil {
		t.Fatal(err)
	}
	return harness.Anonymous(fields, v.general)
}

// ofJob matches what a record has of a Job beyond its name: the time, and the cause, which the App's name is part of.
var ofJob = regexp.MustCompile(`"(jobAt|jobCause)":"[^"]+"`)

// general returns a text without the App's name, namespace and UID, and without the UID of its canary.
func (v *victim) general(text string) string {
	var pairs []string
	for _, name := range v.jobs {
		pairs = append(pairs, name, "JOB")
	}
	text = ofJob.ReplaceAllString(text, `"$1":"OF-JOB"`)
	pairs = append(pairs, v.app.Name, "NAME", v.app.Namespace, "NAMESPACE", string(v.app.UID), "UID")
	canaries := []string{v.app.Annotations[appv1.AnnotationPromote], v.app.Annotations[appv1.AnnotationAbort]}
	if canary := v.app.Status.Canary; canary != nil {
		canaries = append(canaries, string(canary.UID))
	}
	for _, uid := range canaries {
		if uid != "" {
			pairs = append(pairs, uid, "CANARY-UID")
		}
	}
	return strings.NewReplacer(pairs...).Replace(text)
}

// runUndisturbed carries out each task without a mishap, and returns the outcomes.
func runUndisturbed(t *testing.T) map[string]map[string]any {
	t.Helper()
	tr := &trial{namespace: plane.Namespace(t), victims: map[string]*victim{}}
	for name := range tasks {
		tr.add(name, "", 0)
	}
	tr.run(t)
	outcomes, requests := map[string]map[string]any{}, map[string]int{}
	for _, v := range tr.victims {
		outcomes[v.task] = v.outcome(t)
		requests[v.task] = int(v.sent.Load())
	}
	for name := range tasks {
		if least := leastRequests[name]; requests[name] < least || least == 0 {
			t.Fatalf("%s takes %d requests, want at least %d", name, requests[name], least)
		}
	}
	return outcomes
}

// TestCrash lets each request of each task go wrong in every way: once with a manager that goes on, and once with one that dies at that
// moment and has a successor. The short form has a quarter of them, each with one of the two. Nothing of that may be seen in what comes out.
func TestCrash(t *testing.T) {
	t.Parallel()
	outcomes := runUndisturbed(t)
	chosen, turns := fixture.Part(t), fixture.Turns(t, false, true)
	type crash struct {
		task, mishap string
		request      int
	}
	cases := map[bool][]crash{}
	for _, task := range slices.Sorted(maps.Keys(leastRequests)) {
		for _, mishap := range slices.Sorted(maps.Keys(mishaps)) {
			for request := range leastRequests[task] { // A run may take more, and another one not.
				if !chosen() {
					continue
				}
				for _, deadly := range turns() {
					cases[deadly] = append(cases[deadly], crash{task, mishap, request + 1})
				}
			}
		}
	}
	for name, deadly := range map[string]bool{"and the manager goes on": false, "and the manager dies": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tr := &trial{namespace: plane.Namespace(t), deadly: deadly, victims: map[string]*victim{}}
			for _, c := range cases[deadly] {
				tr.add(c.task, c.mishap, c.request)
			}
			m := tr.run(t)
			tr.each(t, func(v *victim) {
				if diff := gocmp.Diff(outcomes[v.task], v.outcome(t)); diff != "" {
					t.Errorf("%s (-undisturbed +got):\n%s", v.app.Name, diff)
				}
			})
			tr.checkOrphans(t)
			m.Stop(t)
			// The hashes, which differ from App to App, are right as well if nothing is left to do.
			m = plane.Start(t, tr.namespace)
			checkRequests(t, m, "restart", map[string]int{})
		})
	}
}

// checkOrphans fails the test if there are children that belong to no App.
func (tr *trial) checkOrphans(t *testing.T) {
	t.Helper()
	var deployments appsv1.DeploymentList
	var services corev1.ServiceList
	for _, list := range []client.ObjectList{&deployments, &services} {
		if err := plane.Client.List(t.Context(), list, client.InNamespace(tr.namespace)); err != nil {
			t.Fatal(err)
		}
	}
	withPorts, withCanary := 0, 0
	for _, v := range tr.victims {
		if v.task != "portless" {
			withPorts++
		}
		if tasks[v.task].keepsCanary {
			withCanary++
		}
	}
	if len(deployments.Items) != len(tr.victims)+withCanary || len(services.Items) != withPorts {
		t.Errorf("%d Apps, %d of them with ports and %d with a canary, have %d Deployments and %d Services",
			len(tr.victims), withPorts, withCanary, len(deployments.Items), len(services.Items))
	}
}
