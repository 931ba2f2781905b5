package workload

import (
	"fmt"
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appv1 "huolala.cn/app-operator/api/v1"
	"huolala.cn/app-operator/test/fixture"
	"huolala.cn/app-operator/test/harness"
)

// newTaskOf creates a Task of an App, or with an image of its own, that is due once a year.
func newTaskOf(t *testing.T, ns, app, image string) *appv1.Task {
	t.Helper()
	task := fixture.NewTask(ns, "report")
	task.Spec.App, task.Spec.Image, task.Spec.Command = app, image, []string{"report"}
	plane.Create(t, task)
	plane.Stands(t, task, "Ready=True/NoRun", "Applied=True/Applied")
	return task
}

// startRun starts a run of a Task by hand, as "kubectl create job --from" does.
func startRun(t *testing.T, task *appv1.Task, name string) *batchv1.Job {
	t.Helper()
	cron := read(t, fixture.CronJob(task))
	job := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{
		Namespace: task.Namespace, Name: name, Labels: cron.Spec.JobTemplate.Labels,
		Annotations:     map[string]string{"cronjob.kubernetes.io/instantiate": "manual"},
		OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(cron, batchv1.SchemeGroupVersion.WithKind("CronJob"))},
	}, Spec: *cron.Spec.JobTemplate.Spec.DeepCopy()}
	plane.Create(t, job)
	return job
}

// nextRuns waits until the next run of a Task has an image.
func nextRuns(t *testing.T, task *appv1.Task, image string) {
	t.Helper()
	plane.Until(t, task, func() error {
		if task.Status.Image != image {
			return fmt.Errorf("the next run has %s, want %s", task.Status.Image, image)
		}
		return nil
	})
	if got := read(t, fixture.CronJob(task)).Spec.JobTemplate.Spec.Template.Spec.Containers[0].Image; got != image {
		t.Errorf("the CronJob has %s, want %s", got, image)
	}
}

// ran fails the test unless the latest run of a Task is a Job with a result.
func ran(t *testing.T, task *appv1.Task, job string, result appv1.TaskResult) {
	t.Helper()
	plane.Until(t, task, func() error {
		if last := ptr.Deref(task.Status.LastRun, appv1.TaskRun{}); last.Job != job || last.Result != result {
			return fmt.Errorf("the latest run is %+v", last)
		}
		return nil
	})
}

// TestTask has runs of a Task succeed and fail, with the controllers of Kubernetes.
func TestTask(t *testing.T) {
	t.Parallel()
	ns := plane.Namespace(t)
	m := plane.Start(t, ns)
	task := newTaskOf(t, ns, "", fixture.Image)
	startRun(t, task, "first")
	plane.Stands(t, task, "Ready=True/Succeeded")
	ran(t, task, "first", appv1.TaskSucceeded)

	plane.Change(t, task, func() { task.Spec.Image = "jobfails.test/report:1" })
	nextRuns(t, task, "jobfails.test/report:1")
	startRun(t, task, "second")
	plane.Stands(t, task, "Ready=False/RunFailed", "Stalled=True/RunFailed", "Applied=True/Applied")
	ran(t, task, "second", appv1.TaskFailed)

	plane.Read(t, task)
	plane.Change(t, task, func() { task.Spec.Image = fixture.Image })
	nextRuns(t, task, fixture.Image)
	startRun(t, task, "third")
	plane.Stands(t, task, "Ready=True/Succeeded", "Stalled=False")
	m.Idle(t)
	m.Requests.Reset()
	m.Stop(t)
	m = plane.Start(t, ns)
	m.Idle(t)
	if stored := m.Requests.Stored(); len(stored) > 0 {
		t.Errorf("a restart writes %v", stored)
	}

	plane.Delete(t, task)
	plane.Gone(t, fixture.CronJob(task))
	harness.Eventually(t, func() error {
		var jobs batchv1.JobList
		if err := plane.Client.List(t.Context(), &jobs, client.InNamespace(ns)); err != nil || len(jobs.Items) > 0 {
			return fmt.Errorf("%d Jobs are left, %w", len(jobs.Items), err)
		}
		return nil
	})
}

// TestTaskOfApp follows what the pods of an App run: a new image and a hold change the next run, a canary does not. A run that has started
// goes on as it is, and no Service leads to it.
func TestTaskOfApp(t *testing.T) {
	t.Parallel()
	ns, m := plane.Shared(t)
	app := newApp(ns)
	plane.Create(t, app)
	ready(t, app)
	first := read(t, deployment(app)).Spec.Template.Spec.Containers[0].Image
	task := newTaskOf(t, ns, app.Name, "")
	nextRuns(t, task, first)

	setImage(t, app, "jobruns.test/web:2")
	ready(t, app)
	nextRuns(t, task, "jobruns.test/web:2")
	job := startRun(t, task, "long")
	plane.Stands(t, task, "Ready=True/Running")
	ran(t, task, "long", appv1.TaskRunning)
	pods := podsOfRun(t, job)
	if len(pods) != 1 || pods[0].Labels[appv1.LabelApp] != "" || pods[0].Labels[appv1.LabelTask] != task.Name {
		t.Fatalf("the run has %d pods: %+v", len(pods), pods)
	}

	plane.Read(t, app)
	holdApp(t, app, read(t, app).Status.ReplicaSet)
	setImage(t, app, "nginx:1.18")
	plane.Stands(t, app, "Applied=False/Held")
	m.Idle(t)
	nextRuns(t, task, "jobruns.test/web:2")
	holdApp(t, app, "")
	nextRuns(t, task, "nginx:1.18")
	ready(t, app)

	plane.Read(t, app)
	plane.Change(t, app, func() { app.Spec.Canary, app.Spec.Image = &appv1.CanarySpec{}, "nginx:1.19" })
	plane.Stands(t, app, "CanaryReady=True")
	m.Idle(t)
	nextRuns(t, task, "nginx:1.18")
	if after := podsOfRun(t, job); len(after) != 1 || after[0].UID != pods[0].UID {
		t.Errorf("the run that had started has the pods %+v", after)
	}
}

// podsOfRun returns the pods of a Job, once there are any.
func podsOfRun(t *testing.T, job *batchv1.Job) []corev1.Pod {
	t.Helper()
	var pods corev1.PodList
	harness.Eventually(t, func() error {
		err := plane.Client.List(t.Context(), &pods, client.InNamespace(job.Namespace), client.MatchingLabels{batchv1.JobNameLabel: job.Name})
		if err == nil && len(pods.Items) == 0 {
			err = fmt.Errorf("Job %s has no pods", job.Name)
		}
		return err
	})
	return pods.Items
}

// TestTaskIsDue has the schedule itself start a run.
func TestTaskIsDue(t *testing.T) {
	t.Parallel()
	ns, _ := plane.Shared(t)
	task := fixture.NewTask(ns, "report")
	task.Spec.Schedule = "* * * * *"
	plane.Create(t, task)
	plane.Stands(t, task, "Ready=True/Succeeded")
	if task.Status.LastRun == nil || task.Status.LastRun.Finished == nil || task.Status.NextRun == nil {
		t.Errorf("the status is %+v", task.Status)
	}
}

// TestTaskWithoutPods has a pod that cannot be started.
func TestTaskWithoutPods(t *testing.T) {
	t.Parallel()
	ns, _ := plane.Shared(t)
	task := newTaskOf(t, ns, "", "imagepullbackoff.test/report:1")
	startRun(t, task, "stuck")
	plane.Stands(t, task, "Ready=False/ImagePullBackOff", "Stalled=False")
}
