package integration

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appv1 "huolala.cn/app-operator/api/v1"
	"huolala.cn/app-operator/test/fixture"
	"huolala.cn/app-operator/test/harness"
	"huolala.cn/app-operator/test/specs"
)

// newTaskOf returns a Task of an App that is due once a year.
func newTaskOf(app *appv1.App, name string) *appv1.Task {
	task := fixture.NewTask(app.Namespace, name)
	task.Spec.Image, task.Spec.App, task.Spec.Command = "", app.Name, []string{"report"}
	return task
}

// newRun returns a Job of a CronJob, as "kubectl create job --from" makes one.
func newRun(t testing.TB, cron *batchv1.CronJob, name string) *batchv1.Job {
	t.Helper()
	plane.Read(t, cron)
	template := &cron.Spec.JobTemplate
	return &batchv1.Job{ObjectMeta: metav1.ObjectMeta{
		Namespace: cron.Namespace, Name: name, Labels: template.Labels,
		OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(cron, batchv1.SchemeGroupVersion.WithKind("CronJob"))},
	}, Spec: *template.Spec.DeepCopy()}
}

// endRun has a Job end, as its controller does.
func endRun(t testing.TB, job *batchv1.Job, how ...batchv1.JobConditionType) {
	t.Helper()
	plane.Read(t, job)
	now := metav1.Now()
	job.Status.StartTime = &job.CreationTimestamp
	for _, condition := range how {
		if condition == batchv1.JobSuccessCriteriaMet && plane.Minor(t) < successCriteria {
			continue
		}
		job.Status.Conditions = append(job.Status.Conditions, batchv1.JobCondition{Type: condition, Status: corev1.ConditionTrue, LastTransitionTime: now})
		if condition == batchv1.JobComplete {
			job.Status.CompletionTime, job.Status.Succeeded = &now, 1
		}
	}
	if err := plane.Client.Status().Update(t.Context(), job); err != nil {
		t.Fatal(err)
	}
}

// TestTaskBudgets counts every request of a Task's life, next to the App that it names.
func TestTaskBudgets(t *testing.T) {
	t.Parallel()
	ns, m := plane.Shared(t)
	app := newApp(ns, "shop")
	plane.Create(t, app)
	plane.Until(t, deployment(app), func() error { return nil })
	m.Idle(t)
	task := newTaskOf(app, "report")
	cron := fixture.CronJob(task)
	var job *batchv1.Job
	change := func(mutate func()) func() {
		return func() { plane.Read(t, task); plane.Change(t, task, mutate) }
	}
	for _, step := range []struct {
		what string
		do   func()
		want map[string]int
	}{
		{"create", func() { plane.Create(t, task) },
			map[string]int{"patch cronjobs": 1, "patch tasks/status": 1, "create events": 1}},
		{"another schedule", change(func() { task.Spec.Schedule = "0 0 2 1 *" }),
			map[string]int{"patch cronjobs": 1, "patch tasks/status": 1, "create events": 1}},
		{"another image of the App", func() { plane.Read(t, app); plane.Change(t, app, func() { app.Spec.Image = "nginx:1.8" }) },
			map[string]int{"patch deployments": 1, "patch apps/status": 1, "patch cronjobs": 1, "patch tasks/status": 1, "create events": 2}},
		{"more pods of the App", func() { scaleTo(t, deployment(app), 5) },
			map[string]int{"patch deployments": 1, "create events": 1}},
		{"a run starts", func() { job = newRun(t, cron, "report-1"); plane.Create(t, job) },
			map[string]int{"patch tasks/status": 1}},
		{"the run ends", func() { endRun(t, job, batchv1.JobSuccessCriteriaMet, batchv1.JobComplete) },
			map[string]int{"patch tasks/status": 1}},
		{"its Job is deleted", func() { plane.Delete(t, job) }, map[string]int{}},
		{"drift", func() { plane.Read(t, cron); plane.Change(t, cron, func() { cron.Spec.Schedule = "@hourly" }) },
			map[string]int{"patch cronjobs": 1, "create events": 1}},
		{"deletion of the CronJob", func() { plane.Delete(t, cron) },
			map[string]int{"get tasks": 1, "patch cronjobs": 1, "create events": 1}},
		{"nothing", func() {}, map[string]int{}},
		{"delete", func() { plane.Delete(t, task) }, map[string]int{}},
	} {
		m.Requests.Reset()
		step.do()
		checkRequests(t, m, step.what, step.want)
	}
}

// TestIdleTasks has many Tasks at rest: neither they nor a change of another object cost a request, and a restart writes nothing.
func TestIdleTasks(t *testing.T) {
	t.Parallel()
	ns := plane.Namespace(t)
	m := plane.Start(t, ns)
	app := newApp(ns, "shop")
	plane.Create(t, app)
	tasks := make([]*appv1.Task, fixture.Of(30, 200))
	for i := range tasks {
		tasks[i] = newTaskOf(app, fmt.Sprintf("report-%d", i))
		plane.Create(t, tasks[i])
	}
	for _, task := range tasks {
		plane.Stands(t, task, "Ready=True/NoRun", "Applied=True/Applied")
	}
	m.Idle(t)
	m.Requests.Reset()
	scaleTo(t, deployment(app), 5) // It wakes each Task.
	checkRequests(t, m, "idle", map[string]int{"patch deployments": 1, "create events": 1})
	m.Stop(t)
	m = plane.Start(t, ns)
	m.Idle(t)
	if stored := m.Requests.Stored(); len(stored) > 0 {
		t.Errorf("a restart writes %v", stored)
	}
}

// TestRandomTasks applies random Tasks, half of them of random Apps: the API server takes each CronJob, and once it has, there is nothing to do,
// neither for the manager that has applied it, nor for another one.
func TestRandomTasks(t *testing.T) {
	t.Parallel()
	ns := plane.Namespace(t)
	m := plane.Start(t, ns)
	src := specs.Random(t)
	count := specs.Number(t, "FUZZ_APPS", fixture.Of(60, 150)) / 2
	createRandom(t, plane, ns, count, specs.Accepted, src)
	tasks := make([]*appv1.Task, 0, 2*count)
	for i, cr := range awaitStatuses(t, plane, ns) {
		own := knownToServer(t, plane, func() *unstructured.Unstructured {
			random := &unstructured.Unstructured{Object: map[string]any{"spec": specs.Task(src)}}
			random.SetGroupVersionKind(appv1.GroupVersion.WithKind("Task"))
			random.SetNamespace(ns)
			random.SetName(fmt.Sprintf("own-%d", i))
			return random
		})
		if err := plane.Client.Create(t.Context(), own); err != nil {
			t.Fatalf("%v\n%.2000s", err, marshalJSON(t, own.Object["spec"]))
		}
		tasks = append(tasks, fixture.NewTask(ns, own.GetName()))
		if app, ok := cr.(*appv1.App); ok {
			task := newTaskOf(app, fmt.Sprintf("of-%d", i))
			plane.Create(t, task)
			tasks = append(tasks, task)
		}
	}
	for _, task := range tasks {
		plane.Stands(t, task, "Ready=True", "Applied=True/Applied", "Stalled=False")
		plane.Read(t, fixture.CronJob(task))
	}
	m.Idle(t)
	m.Stop(t)
	next := make(map[string]time.Time, len(tasks))
	for _, task := range tasks {
		if plane.Read(t, task); task.Status.NextRun != nil {
			next[task.Name] = task.Status.NextRun.Time
		}
	}
	again := plane.Start(t, ns)
	again.Idle(t)
	// Time alone changes a status: a run falls due, some schedules have one each minute of a Sunday, and no controller of CronJobs starts one here, so
	// the run is missed.
	stored := again.Requests.Stored()
	due, now := 0, time.Now()
	for _, task := range tasks {
		plane.Read(t, task)
		at, has := next[task.Name]
		if has && !at.After(now) {
			due += int(now.Sub(at)/time.Minute) + 1
		}
		if slices.ContainsFunc(task.Status.Conditions, func(c metav1.Condition) bool { return c.Reason == appv1.ReasonRunMissed }) {
			due++
		}
	}
	if stored["patch tasks/status"] <= due {
		delete(stored, "patch tasks/status")
	}
	if len(stored) > 0 {
		t.Errorf("a manager that starts over what is in place writes %v, and %d changes are due", stored, due)
	}
}

// TestTaskWithoutApp names an App that does not exist: nothing is made until it does, and nothing is taken back when it is gone.
func TestTaskWithoutApp(t *testing.T) {
	t.Parallel()
	ns, m := plane.Shared(t)
	app := newApp(ns, "shop")
	task := newTaskOf(app, "report")
	plane.Create(t, task)
	plane.Stands(t, task, "Ready=False/DependencyNotReady", "Applied=False/DependencyNotReady")
	m.Idle(t)
	if err := plane.Client.Get(t.Context(), client.ObjectKeyFromObject(task), &batchv1.CronJob{}); !apierrors.IsNotFound(err) {
		t.Errorf("without the App: %v", err)
	}
	plane.Create(t, app)
	plane.Stands(t, task, "Ready=True/NoRun", "Applied=True/Applied")
	plane.Delete(t, app)
	plane.Delete(t, deployment(app)) // No garbage collector runs here.
	plane.Stands(t, task, "Ready=False/DependencyNotReady")
	job := fixture.CronJob(task)
	plane.Read(t, job)
	for _, suspended := range []bool{true, false} { // The CronJob follows, and keeps all else.
		before := job.Spec.JobTemplate.DeepCopy()
		plane.Read(t, task)
		plane.Change(t, task, func() { task.Spec.Suspended = suspended })
		plane.Until(t, job, func() error {
			if *job.Spec.Suspend != suspended {
				return fmt.Errorf("suspend is %t", *job.Spec.Suspend)
			}
			return nil
		})
		if diff := cmp.Diff(before, &job.Spec.JobTemplate); diff != "" || !metav1.IsControlledBy(job, task) {
			t.Errorf("the CronJob has changed: %s", diff)
		}
	}
}

// TestTaskWithoutRightToJobs takes the right to Jobs away. Without them, nothing true can be said of the runs, and the status says why.
func TestTaskWithoutRightToJobs(t *testing.T) {
	t.Parallel()
	ns := plane.Namespace(t)
	plane.Start(t, ns, harness.WithForbidden(), harness.WithFault(func(q harness.Request, send func() (*http.Response, error)) (*http.Response, error) {
		if q.Resource == "jobs" {
			return harness.Answer(apierrors.NewForbidden(schema.GroupResource{Group: "batch", Resource: q.Resource}, q.Name, errors.New("no right"))), nil
		}
		return send()
	}))
	task := fixture.NewTask(ns, "report")
	plane.Create(t, task)
	plane.Stands(t, task, "Ready=False/Forbidden", "Applied=False/Forbidden")
	harness.Says(t, task, "Applied", "Job")
}

// newForeignCronJob returns a CronJob that no controller owns.
func newForeignCronJob(namespace, name string) *batchv1.CronJob {
	foreign := &batchv1.CronJob{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
	foreign.Spec.Schedule = "@yearly"
	foreign.Spec.JobTemplate.Spec.Template.Spec = corev1.PodSpec{
		RestartPolicy: corev1.RestartPolicyNever, Containers: []corev1.Container{{Name: "theirs", Image: fixture.Image}},
	}
	return foreign
}

// TestTaskOfForeignCronJob finds a CronJob of its name that others have made, which no watch shows.
func TestTaskOfForeignCronJob(t *testing.T) {
	t.Parallel()
	ns, _ := plane.Shared(t)
	foreign := newForeignCronJob(ns, "report")
	plane.Create(t, foreign)
	task := fixture.NewTask(ns, "report")
	plane.Create(t, task)
	plane.Stands(t, task, "Stalled=True/ResourceExists")
	plane.Read(t, foreign)
	if foreign.Spec.Schedule != "@yearly" || len(foreign.OwnerReferences) > 0 {
		t.Errorf("the CronJob of others was changed: %+v", foreign)
	}
	plane.Read(t, task)
	plane.Change(t, task, func() { task.Annotations = map[string]string{appv1.AnnotationAdopt: "true"} })
	plane.Stands(t, task, "Stalled=False", "Applied=True/Applied")
	if plane.Read(t, foreign); !metav1.IsControlledBy(foreign, task) || len(foreign.Spec.JobTemplate.Spec.Template.Spec.Containers) != 1 {
		t.Errorf("the CronJob is not adopted: %+v", foreign)
	}
}
