package workload

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appv1 "huolala.cn/app-operator/api/v1"
	"huolala.cn/app-operator/test/fixture"
	"huolala.cn/app-operator/test/harness"
)

// newCommanded creates an App with a command before its rollouts, and returns it with its pods once they are ready.
func newCommanded(t *testing.T, ns string) *appv1.App {
	t.Helper()
	app := newApp(ns)
	app.Spec.BeforeRollout = &appv1.BeforeRolloutSpec{Command: []string{"/app/migrate"}, DeadlineSeconds: ptr.To[int32](3600)}
	plane.Create(t, app)
	ready(t, app)
	return app
}

// setImage changes the image of an App.
func setImage(t *testing.T, app *appv1.App, image string) {
	t.Helper()
	plane.Read(t, app)
	plane.Change(t, app, func() { app.Spec.Image = image })
}

// podsOfJobs returns the pods of Jobs that have not ended.
func podsOfJobs(t *testing.T, ns string) []corev1.Pod {
	t.Helper()
	var list corev1.PodList
	if err := plane.Client.List(t.Context(), &list, client.InNamespace(ns), client.HasLabels{appv1.LabelBeforeRollout}); err != nil {
		t.Fatal(err)
	}
	return slices.DeleteFunc(list.Items, func(p corev1.Pod) bool {
		return p.Status.Phase == corev1.PodSucceeded || p.Status.Phase == corev1.PodFailed
	})
}

// servingPods returns the names of the pods that the App's Deployment has made.
func servingPods(t *testing.T, app *appv1.App) []string {
	t.Helper()
	var list corev1.PodList
	if err := plane.Client.List(t.Context(), &list, client.InNamespace(app.Namespace), client.MatchingLabels{appv1.LabelApp: app.Name}); err != nil {
		t.Fatal(err)
	}
	var names []string
	for i := range list.Items {
		names = append(names, list.Items[i].Name)
	}
	slices.Sort(names)
	return names
}

// jobRuns waits for a pod of a Job with an image, and checks that no other pod of a Job runs.
func jobRuns(t *testing.T, app *appv1.App, image string) *corev1.Pod {
	t.Helper()
	var found corev1.Pod
	harness.Eventually(t, func() error {
		running := podsOfJobs(t, app.Namespace)
		if len(running) != 1 || running[0].Spec.Containers[0].Image != image || running[0].Status.Phase != corev1.PodRunning {
			return fmt.Errorf("%d pods of Jobs run", len(running))
		}
		found = running[0]
		return nil
	})
	return &found
}

// endPod has the command of a pod succeed.
func endPod(t *testing.T, pod *corev1.Pod) {
	t.Helper()
	plane.ChangeStatus(t, pod, func() {
		pod.Status.Phase = corev1.PodSucceeded
		pod.Status.ContainerStatuses[0].State = corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{Reason: "Completed"}}
	})
}

// TestBeforeRollout rolls out changes whose commands succeed, fail, and go on, with the controllers of Kubernetes: the pods of before stay
// until the command has succeeded, a failed command costs no further request, and the newest change waits for a command that runs.
func TestBeforeRollout(t *testing.T) {
	t.Parallel()
	ns := plane.Namespace(t)
	m := plane.Start(t, ns)
	app := newCommanded(t, ns)
	before := servingPods(t, app)

	setImage(t, app, "jobfails.test/web:1")
	plane.Stands(t, app, "Applied=False/BeforeRolloutFailed", "Ready=False/BeforeRolloutFailed", "Stalled=True/BeforeRolloutFailed")
	m = staysAsItIs(t, m, app, 20)
	if now := servingPods(t, app); !slices.Equal(before, now) {
		t.Errorf("the pods %v have become %v", before, now)
	}

	setImage(t, app, "jobruns.test/web:1")
	pod := jobRuns(t, app, "jobruns.test/web:1")
	plane.Stands(t, app, "Applied=False/BeforeRollout", "Ready=False/BeforeRollout", "Stalled=False")
	setImage(t, app, "jobruns.test/web:2")
	m.Idle(t)
	if running := jobRuns(t, app, "jobruns.test/web:1"); running.UID != pod.UID {
		t.Error("a newer change has ended the command of an earlier one")
	}
	endPod(t, pod)
	second := jobRuns(t, app, "jobruns.test/web:2")
	if now := servingPods(t, app); !slices.Equal(before, now) {
		t.Errorf("the pods %v have become %v, while the newest command runs", before, now)
	}
	endPod(t, second)
	ready(t, app)
	plane.Until(t, app, func() error {
		if d := read(t, deployment(app)); d.Spec.Template.Spec.Containers[0].Image != "jobruns.test/web:2" {
			return fmt.Errorf("the Deployment runs %s", d.Spec.Template.Spec.Containers[0].Image)
		}
		return nil
	})
	var jobs batchv1.JobList
	if err := plane.Client.List(t.Context(), &jobs, client.InNamespace(ns)); err != nil || len(jobs.Items) != 2 {
		t.Errorf("%d Jobs are left, %v", len(jobs.Items), err)
	}
}

// TestBeforeRolloutDisturbed evicts the pod of a command, kills the command by its deadline, and runs one in a namespace without room for a
// pod: an eviction fails no rollout, and the other two are reported.
func TestBeforeRolloutDisturbed(t *testing.T) {
	t.Parallel()
	ns, _ := plane.Shared(t)
	app := newCommanded(t, ns)
	setImage(t, app, "jobruns.test/web:1")
	pod := jobRuns(t, app, "jobruns.test/web:1")
	eviction := &policyv1.Eviction{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: pod.Name}}
	if err := plane.Client.SubResource("eviction").Create(t.Context(), pod, eviction); err != nil {
		t.Fatal(err)
	}
	plane.ChangeStatus(t, pod, func() { pod.Status.Phase = corev1.PodFailed }) // The kubelet does, before the pod is gone.
	plane.Gone(t, pod)
	again := jobRuns(t, app, "jobruns.test/web:1")
	plane.Stands(t, app, "Applied=False/BeforeRollout", "Stalled=False")
	endPod(t, again)
	ready(t, app)

	plane.Read(t, app)
	plane.Change(t, app, func() {
		app.Spec.Image, app.Spec.BeforeRollout.DeadlineSeconds = "jobruns.test/web:2", ptr.To[int32](1)
	})
	plane.Stands(t, app, "Applied=False/BeforeRolloutFailed", "Stalled=True/BeforeRolloutFailed")

	quota := &corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "pods"}}
	quota.Spec.Hard = corev1.ResourceList{corev1.ResourcePods: resource.MustParse("0")}
	plane.Create(t, quota)
	plane.Until(t, quota, func() error {
		if _, counted := quota.Status.Hard[corev1.ResourcePods]; !counted {
			return fmt.Errorf("the quota is not in force")
		}
		return nil
	})
	plane.Read(t, app)
	plane.Change(t, app, func() {
		app.Spec.Image, app.Spec.BeforeRollout.DeadlineSeconds = "jobruns.test/web:3", ptr.To[int32](3600)
	})
	plane.Until(t, app, func() error {
		if c := meta.FindStatusCondition(app.Status.Conditions, appv1.ConditionApplied); !strings.Contains(c.Message, "has no pod after") {
			return fmt.Errorf("the condition is %v", c)
		}
		return nil
	})
	plane.Delete(t, quota)
	endPod(t, jobRuns(t, app, "jobruns.test/web:3"))
	ready(t, app)
}

// TestBeforeRolloutWithCanary runs the command of a change before its canary, and none at the promotion.
func TestBeforeRolloutWithCanary(t *testing.T) {
	t.Parallel()
	ns, _ := plane.Shared(t)
	app := newCommanded(t, ns)
	plane.Until(t, app, func() error {
		if app.Status.LastGood == nil {
			return fmt.Errorf("the history is %+v", app.Status.HistoryStatus)
		}
		return nil
	})
	plane.Change(t, app, func() { app.Spec.Canary, app.Spec.Image = &appv1.CanarySpec{}, "jobruns.test/web:1" })
	pod := jobRuns(t, app, "jobruns.test/web:1")
	if canaryOf(t, app) != nil {
		t.Error("the canary has not waited for the command")
	}
	endPod(t, pod)
	canaryStands(t, app)
	step(t, app, appv1.AnnotationPromote)
	ready(t, app)
	plane.Until(t, app, func() error {
		var d appsv1.Deployment
		if err := plane.Client.Get(t.Context(), client.ObjectKeyFromObject(app), &d); err != nil {
			return err
		}
		if image := d.Spec.Template.Spec.Containers[0].Image; image != "jobruns.test/web:1" {
			return fmt.Errorf("the Deployment runs %s", image)
		}
		return nil
	})
	if running := podsOfJobs(t, ns); len(running) > 0 {
		t.Errorf("the promotion has run %d commands", len(running))
	}
}

// TestJobsNextToACronJob has a CronJob of a user, and a Task, of the App's name. The controller of CronJobs deletes all ended runs of its CronJobs, and no
// Job of the App; the runs of the Task are its own alone.
func TestJobsNextToACronJob(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{"CronJob", "Task"} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			ns, _ := plane.Shared(t)
			app := newCommanded(t, ns)
			jobs := func() *batchv1.JobList {
				var list batchv1.JobList
				if err := plane.Client.List(t.Context(), &list, client.InNamespace(ns), client.HasLabels{appv1.LabelBeforeRollout}); err != nil {
					t.Fatal(err)
				}
				return &list
			}
			before := jobs()
			if len(before.Items) != 1 {
				t.Fatalf("%d Jobs of the App", len(before.Items))
			}

			cron := &batchv1.CronJob{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: app.Name}}
			cron.Spec.Schedule, cron.Spec.SuccessfulJobsHistoryLimit, cron.Spec.FailedJobsHistoryLimit = "0 0 1 1 *", ptr.To[int32](0), ptr.To[int32](1)
			cron.Spec.JobTemplate.Spec.BackoffLimit = ptr.To[int32](0)
			cron.Spec.JobTemplate.Spec.Template.Spec = corev1.PodSpec{
				RestartPolicy: corev1.RestartPolicyNever, Containers: []corev1.Container{{Name: "c", Image: "jobfails.test/report:1"}},
			}
			task := fixture.NewTask(ns, app.Name)
			if kind == "Task" {
				task.Spec.App, task.Spec.Image, task.Spec.Command, task.Spec.Schedule = app.Name, "jobfails.test/report:1", []string{"report"}, "0 0 1 1 *"
				task.Spec.Keep = appv1.TaskKeep{Succeeded: ptr.To[int32](0), Failed: ptr.To[int32](1)}
				plane.Create(t, task)
				plane.Stands(t, task, "Ready=True/NoRun", "Applied=True/Applied")
				cron = read(t, fixture.CronJob(task))
			} else {
				plane.Create(t, cron)
			}
			var runs []*batchv1.Job
			for _, name := range []string{"by-hand-1", "by-hand-2"} {
				run := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{
					Namespace: ns, Name: name, Labels: cron.Spec.JobTemplate.Labels,
					OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(cron, batchv1.SchemeGroupVersion.WithKind("CronJob"))},
				}, Spec: *cron.Spec.JobTemplate.Spec.DeepCopy()}
				plane.Create(t, run)
				runs = append(runs, run)
			}
			plane.Gone(t, runs[0]) // With it the controller has deleted all ended runs that it knows, but the latest failed one.
			if kind == "Task" {
				plane.Stands(t, task, "Ready=False/RunFailed", "Stalled=True/RunFailed")
			}
			after := jobs()
			if len(after.Items) != 1 || after.Items[0].UID != before.Items[0].UID || after.Items[0].DeletionTimestamp != nil {
				t.Errorf("the App's Job is deleted: %v", after.Items)
			}
			if plane.Read(t, cron); cron.Status.LastSuccessfulTime != nil {
				t.Errorf("the App's Job counts as a run of the CronJob: %v", cron.Status)
			}
		})
	}
}

// TestCauseOfAJob has a command whose image cannot be pulled: the status has the cause while the Job waits, and none once the spec is correct.
func TestCauseOfAJob(t *testing.T) {
	t.Parallel()
	ns, _ := plane.Shared(t)
	app := newCommanded(t, ns)
	setImage(t, app, "imagepullbackoff.test/shop:2")
	plane.Until(t, app, func() error {
		ready := ptr.Deref(meta.FindStatusCondition(app.Status.Conditions, appv1.ConditionReady), metav1.Condition{})
		if ready.Reason != appv1.ReasonBeforeRollout || !strings.Contains(ready.Message, `image "imagepullbackoff.test/shop:2" cannot be pulled`) {
			return fmt.Errorf("%s: %s", ready.Reason, ready.Message)
		}
		return nil
	})
}
