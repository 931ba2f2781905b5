package controllers

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appv1 "huolala.cn/app-operator/api/v1"
)

const (
	// ownTask is the spec of a Task without an App, taskOfApp the spec of a Task of the App web.
	ownTask   = `{"image":"report:1","schedule":"0 5 * * *"}`
	taskOfApp = `{"app":"web","command":["report"],"schedule":"0 5 * * *"}`
)

// newTaskWorld returns a world with the Task web of a spec, next to the App web, which was reconciled.
func newTaskWorld(t *testing.T, spec string) *world {
	t.Helper()
	w := newWorld(t, newStored(t, kindNamed(t, "Task"), spec), newStored(t, kindNamed(t, "App"), flowSpec("App", "nginx:1", onePort)))
	w.settle("App")
	w.settle("Task")
	w.requests = nil
	return w
}

// cronJob reads the CronJob web, which must exist.
func (w *world) cronJob() *batchv1.CronJob {
	w.t.Helper()
	job := &batchv1.CronJob{}
	if !w.read(job) {
		w.t.Fatal("there is no CronJob")
	}
	return job
}

// runImage returns the image of the next run.
func (w *world) runImage() string {
	w.t.Helper()
	return w.cronJob().Spec.JobTemplate.Spec.Template.Spec.Containers[0].Image
}

// start creates a Job of the CronJob, as its controller does.
func (w *world) start(name string) *batchv1.Job {
	w.t.Helper()
	cron := w.cronJob()
	job := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{
		Namespace: namespace, Name: name, UID: types.UID("uid-" + name), Labels: cron.Spec.JobTemplate.Labels,
		CreationTimestamp: metav1.NewTime(w.clock.Now().Truncate(time.Second)),
		OwnerReferences:   []metav1.OwnerReference{*metav1.NewControllerRef(cron, batchv1.SchemeGroupVersion.WithKind("CronJob"))},
	}, Spec: *cron.Spec.JobTemplate.Spec.DeepCopy()}
	job.Status.Active = 1
	w.create(job)
	return job
}

// end ends a Job, as its controller does.
func (w *world) end(job *batchv1.Job, how batchv1.JobConditionType, reason string) {
	w.t.Helper()
	now := metav1.NewTime(w.clock.Now().Truncate(time.Second))
	job.Status.Active = 0
	job.Status.Conditions = []batchv1.JobCondition{{Type: how, Status: corev1.ConditionTrue, Reason: reason, LastTransitionTime: now}}
	written := []client.Object{job}
	if how == batchv1.JobComplete {
		cron := w.cronJob()
		cron.Status.LastSuccessfulTime = &now
		written = append(written, cron)
	}
	for _, obj := range written {
		if err := w.Client.Status().Update(w.t.Context(), obj); err != nil {
			w.t.Fatal(err)
		}
	}
}

// taskStatus returns the status of the Task web.
func (w *world) taskStatus() *appv1.TaskStatus {
	w.t.Helper()
	live := kindNamed(w.t, "Task").empty()
	if !w.read(live) {
		w.t.Fatal("there is no Task")
	}
	return decodeStatus[appv1.TaskStatus](w.t, live)
}

// ran fails the test unless the latest run of the Task has a result.
func (w *world) ran(what, job string, result appv1.TaskResult, active int32) {
	w.t.Helper()
	status := w.taskStatus()
	run := ptr.Deref(status.LastRun, appv1.TaskRun{})
	if run.Job != job || run.Result != result || status.Active != active || (run.Finished != nil) != (result == appv1.TaskSucceeded || result == appv1.TaskFailed) {
		w.t.Errorf("%s: the latest run is %+v, %d are active", what, run, status.Active)
	}
}

// TestTask takes a Task without an App through its life.
func TestTask(t *testing.T) {
	w := newWorld(t, newStored(t, kindNamed(t, "Task"), ownTask))
	const status = "status Task web"
	w.settle("Task")
	w.wrote("creation", "patch CronJob web", status)
	w.stands("creation", "Task", "Ready=True/NoRun", "Applied=True/Applied", "Stalled=False/NotStalled", "Reconciling=False/Settled")
	if got := w.taskStatus(); got.Image != "report:1" || got.LastRun != nil || got.NextRun == nil || got.NextRun.UTC().Hour() != 5 {
		t.Errorf("the status is %+v", got)
	}
	w.settle("Task")
	w.wrote("idle")
	w.restart()
	w.settle("Task")
	w.wrote("restart of the operator")

	job := w.start("web-1")
	w.requests = nil
	w.settle("Task")
	w.wrote("a run starts", status)
	w.stands("a run", "Task", "Ready=True/Running")
	w.ran("a run", "web-1", appv1.TaskRunning, 1)
	w.end(job, batchv1.JobComplete, "")
	w.requests = nil
	w.settle("Task")
	w.wrote("a run ends", status)
	w.stands("a run ends", "Task", "Ready=True/Succeeded")
	w.ran("a run ends", "web-1", appv1.TaskSucceeded, 0)

	w.setSpec("Task", strings.Replace(ownTask, "0 5", "30 6", 1))
	w.requests = nil
	w.settle("Task")
	w.wrote("another schedule", "patch CronJob web", status)
	if got := w.cronJob().Spec.Schedule; got != "30 6 * * *" {
		t.Errorf("the schedule is %s", got)
	}
	w.setSpec("Task", strings.Replace(ownTask, "{", `{"suspended":true,`, 1))
	w.settle("Task")
	w.stands("suspended", "Task", "Ready=True/Suspended")
	if got := w.taskStatus(); got.NextRun != nil || !*w.cronJob().Spec.Suspend {
		t.Errorf("suspended: the next run is at %v", got.NextRun)
	}
	w.remove(job) // It is one too many.
	w.settle("Task")
	w.ran("its Job is deleted", "web-1", appv1.TaskSucceeded, 0)
}

// TestTaskOfApp follows the App: what its Deployment runs is for the next run, and never for one that runs. Without the App, nothing changes.
func TestTaskOfApp(t *testing.T) {
	w := newWorld(t, newStored(t, kindNamed(t, "Task"), taskOfApp))
	w.settle("Task")
	w.wrote("without the App", "status Task web")
	w.stands("without the App", "Task", "Ready=False/DependencyNotReady", "Applied=False/DependencyNotReady", "Stalled=False/NotStalled")
	if w.read(&batchv1.CronJob{}) {
		t.Error("a CronJob is there without the App")
	}

	app := newStored(t, kindNamed(t, "App"), flowSpec("App", "nginx:1", onePort))
	w.create(app)
	w.settle("App")
	w.requests = nil
	w.settle("Task")
	w.wrote("with the App", "patch CronJob web", "status Task web")
	w.stands("with the App", "Task", "Ready=True/NoRun", "Applied=True/Applied")
	job := w.start("web-1")
	w.settle("Task")

	w.setSpec("App", flowSpec("App", "nginx:2", onePort))
	w.settle("App")
	w.requests = nil
	w.settle("Task")
	w.wrote("another image", "patch CronJob web", "status Task web")
	if got := w.runImage(); got != "nginx:2" || w.taskStatus().Image != got {
		t.Errorf("the next run has %s, the status %s", got, w.taskStatus().Image)
	}
	live := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Name: job.Name}}
	if w.read(live); !equality.Semantic.DeepEqual(live.Spec, job.Spec) {
		t.Error("a run that has started was changed")
	}

	w.remove(w.deployment())
	w.settle("Task")
	w.stands("the App is gone", "Task", "Ready=False/DependencyNotReady", "Applied=False/DependencyNotReady")
	w.requests = nil
	w.settle("Task")
	w.wrote("the App is gone")
	if got := w.runImage(); got != "nginx:2" {
		t.Errorf("without the App, the next run has %s", got)
	}
}

// TestTaskOfOtherDeployment names a Deployment that is not the one of an App: nothing of it is inherited.
func TestTaskOfOtherDeployment(t *testing.T) {
	forEach(t, map[string]metav1.ObjectMeta{
		"nobody's": controlledBy("web", "", "", ""), "another App's": controlledBy("web", "App", "other", "7"),
		"a ModelBox's": controlledBy("web", "ModelBox", "web", "7"),
	}, func(t *testing.T, what string, m metav1.ObjectMeta) {
		d := &appsv1.Deployment{ObjectMeta: m}
		d.Spec.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"a": "b"}}
		d.Spec.Template.Spec.Containers = []corev1.Container{{Name: "evil", Image: "evil:1"}}
		w := newWorld(t, newStored(t, kindNamed(t, "Task"), taskOfApp), d)
		w.settle("Task")
		w.wrote(what, "status Task web")
		w.stands(what, "Task", "Ready=False/DependencyNotReady")
	})
}

// TestTaskRepairs edits the CronJob as another client does: it is restored, and nothing else is written.
func TestTaskRepairs(t *testing.T) {
	forEach(t, map[string]func(*world){
		"it is deleted": func(w *world) { w.remove(w.cronJob()) },
		"it is suspended": func(w *world) {
			job := w.cronJob()
			job.Spec.Suspend = ptr.To(true)
			w.update(job)
		},
		"the image is changed": func(w *world) {
			job := w.cronJob()
			job.Spec.JobTemplate.Spec.Template.Spec.Containers[0].Image = "evil:1"
			w.update(job)
		},
		"the owner is removed": func(w *world) {
			job := w.cronJob()
			job.OwnerReferences = nil
			w.update(job)
		},
	}, func(t *testing.T, what string, change func(*world)) {
		w := newTaskWorld(t, taskOfApp)
		before := w.cronJob()
		change(w)
		w.requests = nil
		w.settle("Task")
		w.requests = withoutStatus(w.requests)
		w.wrote(what, "patch CronJob web")
		after := w.cronJob()
		if !equality.Semantic.DeepEqual(before.Spec, after.Spec) || !equality.Semantic.DeepEqual(before.OwnerReferences, after.OwnerReferences) {
			t.Errorf("%s: %+v", what, after)
		}
		w.settle("Task")
		w.requests = withoutStatus(w.requests)
		w.wrote("after it")
	})
}

// TestTaskOfForeignCronJob finds a CronJob of another owner, or of none, in the place of its own: it stays as it is, and its Jobs are not
// the runs of the Task.
func TestTaskOfForeignCronJob(t *testing.T) {
	forEach(t, map[string]metav1.ObjectMeta{
		"nobody's": controlledBy("web", "", "", ""), "another's": controlledBy("web", "Task", "other", "7"),
	}, func(t *testing.T, what string, m metav1.ObjectMeta) {
		foreign := &batchv1.CronJob{ObjectMeta: m}
		foreign.Spec.Schedule = "@hourly"
		foreign.Spec.JobTemplate.Spec.Template.Spec.Containers = []corev1.Container{{Name: "theirs", Image: "theirs:1"}}
		w := newWorld(t, newStored(t, kindNamed(t, "Task"), ownTask), foreign)
		job := w.start("web-1")
		w.end(job, batchv1.JobFailed, "")
		before := w.cronJob()
		w.requests = nil
		w.settle("Task")
		w.wrote(what, "status Task web")
		w.stands(what, "Task", "Stalled=True/ResourceExists", "Ready=False/ResourceExists")
		if after := w.cronJob(); after.ResourceVersion != before.ResourceVersion || w.taskStatus().LastRun != nil {
			t.Errorf("%s: the CronJob was written, or its run is %+v", what, w.taskStatus().LastRun)
		}
		w.annotate("Task", appv1.AnnotationAdopt, "true")
		w.settle("Task")
		if got := metav1.IsControlledBy(w.cronJob(), &metav1.ObjectMeta{UID: "1"}); got != (what == "nobody's") {
			t.Errorf("%s: adopted is %t", what, got)
		}
	})
}

// TestTaskInvalid keeps the CronJob as it was last applied, and repairs it, while the spec cannot be read, or breaks a rule.
func TestTaskInvalid(t *testing.T) {
	forEach(t, map[string]string{
		"a schedule that is not one": `{"app":"web","command":["report"],"schedule":"daily"}`,
		"a patch that is not one":    `{"app":"web","command":["report"],"schedule":"@daily","podTemplatePatch":{"spec":{"containers":[{"image":"a"}]}}}`,
		"an earlier schema":          `{"schedule":5,"app":{}}`,
	}, func(t *testing.T, what, spec string) {
		w := newTaskWorld(t, taskOfApp)
		before := w.cronJob()
		w.setSpec("Task", spec)
		w.requests = nil
		w.settle("Task")
		w.wrote(what, "status Task web")
		w.stands(what, "Task", "Stalled=True/Invalid", "Applied=False/Invalid")
		edited := w.cronJob()
		edited.Spec.Schedule = "@hourly"
		w.update(edited)
		w.settle("Task")
		if after := w.cronJob(); !equality.Semantic.DeepEqual(before.Spec, after.Spec) {
			t.Errorf("%s: the CronJob is not repaired: %+v", what, after.Spec)
		}
		w.setSpec("Task", ownTask)
		w.settle("Task")
		w.stands("a valid spec", "Task", "Applied=True/Applied", "Ready=True/NoRun")
		if got := w.runImage(); got != "report:1" {
			t.Errorf("%s: the image is %s", what, got)
		}
	})
}

// TestTaskSuspendedInAnyCase suspends and resumes a Task whose present spec cannot be in force: the CronJob follows, and keeps all else. A spec that
// cannot be decoded changes nothing, nor does a paused one; the status has the state of the CronJob.
func TestTaskSuspendedInAnyCase(t *testing.T) {
	const invalid, valid = `"schedule":"daily"`, `"schedule":"0 5 * * *"`
	forEach(t, map[string]struct{ gone, unrecorded bool }{
		"the App is gone": {gone: true}, "an invalid spec": {}, "an invalid spec without a record": {unrecorded: true},
		"an invalid spec, and the App is gone": {gone: true, unrecorded: true},
	}, func(t *testing.T, what string, c struct{ gone, unrecorded bool }) {
		w := newTaskWorld(t, taskOfApp)
		if c.gone {
			w.remove(w.deployment())
		}
		if c.unrecorded {
			job := w.cronJob()
			delete(job.Annotations, appv1.AnnotationLastAppliedSpec)
			w.update(job)
		}
		schedule := invalid
		if c.gone && !c.unrecorded {
			schedule = valid
		}
		before := w.cronJob()
		for _, suspended := range []bool{true, false, true} {
			w.setSpec("Task", fmt.Sprintf(`{"app":"web","command":["report"],%s,"suspended":%t}`, schedule, suspended))
			w.settle("Task")
			after := w.cronJob()
			if got := w.taskStatus(); *after.Spec.Suspend != suspended || (got.NextRun == nil) != suspended {
				t.Fatalf("%s: suspended is %t, want %t, and the next run %v", what, *after.Spec.Suspend, suspended, got.NextRun)
			}
			after.Spec.Suspend = before.Spec.Suspend
			if !equality.Semantic.DeepEqual(before.Spec, after.Spec) {
				t.Errorf("%s: the CronJob has changed: %s", what, cmp.Diff(before.Spec, after.Spec))
			}
			w.requests = nil
			w.settle("Task")
			w.wrote(what)
		}
		w.setSpec("Task", `{"schedule":5,"app":{}}`)
		w.settle("Task")
		if !*w.cronJob().Spec.Suspend || w.taskStatus().NextRun != nil {
			t.Errorf("%s: a spec that cannot be decoded has resumed the Task", what)
		}
		w.setSpec("Task", `{"paused":true,"app":"web","command":["report"],`+schedule+`}`)
		w.settle("Task")
		if !*w.cronJob().Spec.Suspend || w.taskStatus().NextRun != nil {
			t.Errorf("%s: a paused Task was resumed", what)
		}
	})
}

// TestTaskPaused changes a paused Task: nothing is written, and the status says what waits. The schedule goes on.
func TestTaskPaused(t *testing.T) {
	w := newTaskWorld(t, ownTask)
	w.setSpec("Task", `{"paused":true,"image":"report:2","schedule":"0 5 * * *"}`)
	w.requests = nil
	w.settle("Task")
	w.wrote("paused", "try CronJob web", "status Task web")
	w.stands("paused", "Task", "Applied=False/Paused")
	if got := w.taskStatus(); w.runImage() != "report:1" || got.NextRun == nil || len(got.Pending) < 2 {
		t.Errorf("a paused Task has %s, and the status %+v", w.runImage(), got)
	}
	w.setSpec("Task", `{"image":"report:2","schedule":"0 5 * * *"}`)
	w.settle("Task")
	w.stands("resumed", "Task", "Applied=True/Applied")
	if got := w.runImage(); got != "report:2" {
		t.Errorf("a resumed Task has %s", got)
	}
}

// TestPausedTaskFollowsValues changes a value that waits already: the status says what waits now, also where a new operator has seen nothing of the
// change.
func TestPausedTaskFollowsValues(t *testing.T) {
	w := newWorld(t, newStored(t, kindNamed(t, "App"), flowSpec("App", "nginx:1", onePort)), newStored(t, kindNamed(t, "Task"), taskOfApp))
	w.settle("App")
	w.settle("Task")
	w.setSpec("Task", withField(taskOfApp, `"paused":true`))
	for _, step := range []struct {
		image string
		begin func()
	}{{"nginx:2", func() {}}, {"nginx:3", func() {}}, {"nginx:4", w.restart}} {
		w.setSpec("App", flowSpec("App", step.image, onePort))
		w.settle("App")
		step.begin()
		w.requests = nil
		w.settle("Task")
		w.wrote(step.image, "try CronJob web", "status Task web")
		if got := strings.Join(w.taskStatus().Pending, "\n"); !strings.Contains(got, step.image) {
			t.Errorf("%s waits, and the status has %s", step.image, got)
		}
		w.settle("Task")
		w.wrote(step.image + " waits")
	}
}

// TestTaskFails has runs fail: the status and an event say which, and what to do, each time. No message has a line of the output.
func TestTaskFails(t *testing.T) {
	w := newTaskWorld(t, taskOfApp)
	w.sent()
	for i, reason := range []string{batchv1.JobReasonBackoffLimitExceeded, batchv1.JobReasonDeadlineExceeded} {
		job := w.start(fmt.Sprintf("web-%d", i))
		w.settle("Task")
		w.end(job, batchv1.JobFailed, reason)
		w.settle("Task")
		w.stands(reason, "Task", "Ready=False/RunFailed", "Stalled=True/RunFailed", "Applied=True/Applied")
		w.ran(reason, job.Name, appv1.TaskFailed, 0)
		events := w.sent()
		if got := w.message("Task", appv1.ConditionReady); !containsAll(got, job.Name, "kubectl logs") || len(events) != 1 || !containsAll(events[0], "Warning ErrRunFailed", job.Name) {
			t.Errorf("%s: %s, events %q", reason, got, events)
		}
	}
	job := w.start("web-3")
	w.settle("Task")
	w.stands("another run", "Task", "Ready=False/RunFailed")
	w.end(job, batchv1.JobComplete, "")
	w.settle("Task")
	w.stands("another run succeeds", "Task", "Ready=True/Succeeded", "Stalled=False/NotStalled")
}

// TestTaskCause has a pod of a run that does not start.
func TestTaskCause(t *testing.T) {
	w := newTaskWorld(t, taskOfApp)
	job := w.start("web-1")
	pod := newPod(t, "Task", "web-1-x", "ImagePullBackOff")
	pod.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(job, batchv1.SchemeGroupVersion.WithKind("Job"))}
	other := newPod(t, "Task", "web-0-x", "CreateContainerConfigError")
	w.create(pod, other)
	w.settle("Task")
	w.stands("a pod that does not start", "Task", "Ready=False/ImagePullBackOff", "Stalled=False/NotStalled")
	w.ran("a pod that does not start", "web-1", appv1.TaskRunning, 1)
}

// TestTaskKilled kills the manager at each request of a creation and of a change: the next manager ends what was begun.
func TestTaskKilled(t *testing.T) {
	killed := errors.New("killed")
	forEach(t, map[string]string{"creation": "", "change": strings.Replace(taskOfApp, "0 5", "30 6", 1)}, func(t *testing.T, what, change string) {
		for at := range 3 {
			t.Run(fmt.Sprint(at), func(t *testing.T) {
				w := newWorld(t, newStored(t, kindNamed(t, "Task"), taskOfApp), newStored(t, kindNamed(t, "App"), flowSpec("App", "nginx:1", onePort)))
				w.settle("App")
				if change != "" {
					w.settle("Task")
					w.setSpec("Task", change)
				}
				left := at
				w.fail = func(string, client.Object) error {
					if left--; left < 0 {
						return killed
					}
					return nil
				}
				_, _ = w.reconcile("Task")
				w.fail = nil
				w.restart()
				w.settle("Task")
				w.stands("afterwards", "Task", "Ready=True/NoRun", "Applied=True/Applied")
				if got := w.cronJob().Spec.Schedule; change != "" != (got == "30 6 * * *") {
					t.Errorf("%s: the schedule is %s", what, got)
				}
				w.requests = nil
				w.settle("Task")
				w.wrote("afterwards")
			})
		}
	})
}

// TestTaskDisabled switches the kind off: nothing is read or written but the status.
func TestTaskDisabled(t *testing.T) {
	w := newWorld(t, newStored(t, kindNamed(t, "Task"), ownTask))
	w.Disabled = []string{"task"}
	w.settle("Task")
	w.wrote("switched off", "status Task web")
	w.stands("switched off", "Task", "Stalled=True/Invalid")
}
