package integration

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appv1 "huolala.cn/app-operator/api/v1"
	"huolala.cn/app-operator/internal/health"
	"huolala.cn/app-operator/test/harness"
)

// listJobs returns the Jobs of a namespace, those that have not ended first.
func listJobs(t *testing.T, namespace string) []batchv1.Job {
	t.Helper()
	var list batchv1.JobList
	if err := plane.Client.List(t.Context(), &list, client.InNamespace(namespace)); err != nil {
		t.Fatal(err)
	}
	slices.SortFunc(list.Items, func(a, b batchv1.Job) int { return len(a.Status.Conditions) - len(b.Status.Conditions) })
	return list.Items
}

// awaitJob waits for a Job that has not ended.
func awaitJob(t *testing.T, namespace string) *batchv1.Job {
	t.Helper()
	var job batchv1.Job
	harness.Eventually(t, func() error {
		jobs := listJobs(t, namespace)
		if len(jobs) == 0 || len(jobs[0].Status.Conditions) > 0 {
			return fmt.Errorf("of %d Jobs, none runs", len(jobs))
		}
		job = jobs[0]
		return nil
	})
	return &job
}

// endJob plays the Job's controller: the Job succeeds, or fails.
func endJob(t *testing.T, job *batchv1.Job, succeeds bool) {
	t.Helper()
	plane.ChangeStatus(t, job, func() { setEnd(job, succeeds, plane.Minor(t)) })
}

// successCriteria is the minor version since which the Job's controller sets SuccessCriteriaMet before Complete. Older API servers refuse
// the condition.
const successCriteria = 31

// setEnd sets the status of a Job that has succeeded, or failed, as the Job's controller of a minor version of Kubernetes.
func setEnd(job *batchv1.Job, succeeds bool, minor int) {
	now := metav1.Now()
	job.Status.StartTime = ptr.To(metav1.NewTime(now.Add(-time.Second)))
	first, last := batchv1.JobFailureTarget, batchv1.JobFailed
	if succeeds {
		first, last = batchv1.JobSuccessCriteriaMet, batchv1.JobComplete
		job.Status.Succeeded, job.Status.CompletionTime = 1, &now
	} else {
		job.Status.Failed = 1
	}
	for _, name := range []batchv1.JobConditionType{first, last} {
		if name == batchv1.JobSuccessCriteriaMet && minor < successCriteria {
			continue
		}
		job.Status.Conditions = append(job.Status.Conditions, batchv1.JobCondition{
			Type: name, Status: corev1.ConditionTrue, LastTransitionTime: now, LastProbeTime: now, Reason: "Played",
		})
	}
}

// endReportedJobs has each Job of a namespace succeed once the status of its owner names the Job, until the test ends. It fails the test for an
// owner with two Jobs that have not ended.
func endReportedJobs(t *testing.T, p *harness.Plane, namespace string) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	var done sync.WaitGroup
	minor := p.Minor(t)
	done.Go(func() {
		for ctx.Err() == nil {
			if err := endReported(ctx, p, namespace, minor); err != nil && ctx.Err() == nil && !apierrors.IsConflict(err) && !apierrors.IsNotFound(err) {
				t.Error(err)
			}
			select {
			case <-ctx.Done():
			case <-time.After(100 * time.Millisecond):
			}
		}
	})
	t.Cleanup(func() { cancel(); done.Wait() })
}

// endReported has the Jobs of a namespace succeed that the status of their owner names.
func endReported(ctx context.Context, p *harness.Plane, namespace string, minor int) error {
	var jobs batchv1.JobList
	if err := p.Client.List(ctx, &jobs, client.InNamespace(namespace)); err != nil {
		return err
	}
	running := map[string]string{}
	for i := range jobs.Items {
		job := &jobs.Items[i]
		if len(job.Status.Conditions) > 0 {
			continue
		}
		name := job.Labels[appv1.LabelBeforeRollout]
		if other := running[name]; other != "" {
			return fmt.Errorf("Jobs %s and %s run at once", job.Name, other)
		}
		running[name] = job.Name
		var owner harness.Resource = &appv1.App{}
		if health.JobOwner(job).Kind == "ModelBox" {
			owner = &appv1.ModelBox{}
		}
		if err := p.Client.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, owner); err != nil {
			return err
		}
		applied := meta.FindStatusCondition(owner.CommonStatus().Conditions, appv1.ConditionApplied)
		if applied == nil || applied.Reason != appv1.ReasonBeforeRollout || !strings.Contains(applied.Message, job.Name) {
			continue
		}
		setEnd(job, true, minor)
		if err := p.Client.Status().Update(ctx, job); err != nil {
			return err
		}
	}
	return nil
}

// newCommanded returns an App with a command before its rollouts.
func newCommanded(namespace string) *appv1.App {
	app := newApp(namespace, "web")
	wantCommand(app)
	return app
}

// TestBeforeRollout rolls out a spec and another one, each after its Job, and has a third one fail: the pods of before stay, a hundred applies
// of the same spec make no further Job, and nothing is written.
func TestBeforeRollout(t *testing.T) {
	t.Parallel()
	ns, m := plane.Shared(t)
	app := newCommanded(ns)
	plane.Create(t, app)
	first := awaitJob(t, ns)
	plane.Stands(t, app, "Applied=False/"+appv1.ReasonBeforeRollout)
	plane.Absent(t, deployment(app))
	endJob(t, first, true)
	plane.Stands(t, app, progressing...)
	d := deployment(app)
	completeRollout(t, d)
	plane.Stands(t, app, "Ready=True", "Applied=True/Applied")

	setImage(t, app, "nginx:1.17")
	second := awaitJob(t, ns)
	m.Idle(t)
	if plane.Read(t, d); containerOf(d).Image == "nginx:1.17" {
		t.Error("the rollout has not waited for its command")
	}
	endJob(t, second, true)
	plane.Until(t, d, func() error { return checkContains(containerOf(d).Image, "nginx:1.17") })
	completeRollout(t, d)

	setImage(t, app, "nginx:1.18")
	endJob(t, awaitJob(t, ns), false)
	plane.Stands(t, app, "Applied=False/"+appv1.ReasonBeforeRolloutFailed, "Stalled=True/"+appv1.ReasonBeforeRolloutFailed)
	m.Idle(t)
	m.Requests.Reset()
	for i := range 100 {
		plane.Read(t, app)
		plane.Change(t, app, func() { app.Labels = map[string]string{"apply": fmt.Sprint(i)} })
	}
	checkRequests(t, m, "a failed command", map[string]int{})
	if plane.Read(t, d); containerOf(d).Image != "nginx:1.17" || len(listJobs(t, ns)) != 2 {
		t.Errorf("the Deployment runs %s, and there are %d Jobs", containerOf(d).Image, len(listJobs(t, ns)))
	}

	setAnnotation(t, app, appv1.AnnotationRefresh, "again")
	endJob(t, awaitJob(t, ns), true)
	plane.Until(t, d, func() error { return checkContains(containerOf(d).Image, "nginx:1.18") })
}

// TestBeforeRolloutNeverTwice changes the spec while a Job runs, and deletes a Job whose pod goes on: no second Job is created before the
// first one and its pod have ended.
func TestBeforeRolloutNeverTwice(t *testing.T) {
	t.Parallel()
	ns, m := plane.Shared(t)
	app := newCommanded(ns)
	plane.Create(t, app)
	first := awaitJob(t, ns)
	setImage(t, app, "nginx:1.17")
	m.Idle(t)
	if jobs := listJobs(t, ns); len(jobs) != 1 {
		t.Fatalf("%d Jobs at once", len(jobs))
	}
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "left", Labels: first.Spec.Template.Labels}, Spec: first.Spec.Template.Spec}
	plane.Create(t, pod)
	plane.Delete(t, first, client.PropagationPolicy(metav1.DeletePropagationBackground))
	plane.Gone(t, first)
	m.Idle(t)
	if jobs := listJobs(t, ns); len(jobs) != 0 {
		t.Fatalf("%d Jobs next to a pod of an earlier Job", len(jobs))
	}
	plane.ChangeStatus(t, pod, func() { pod.Status.Phase = corev1.PodFailed })
	second := awaitJob(t, ns)
	if image := second.Spec.Template.Spec.Containers[0].Image; image != "nginx:1.17" {
		t.Errorf("the Job runs %s", image)
	}
	endJob(t, second, true)
	plane.Until(t, deployment(app), func() error {
		if second.Name == first.Name {
			return errors.New("two changes have one Job")
		}
		return nil
	})
}

// TestBeforeRolloutPrerequisites adds a ServiceAccount in a change with a command: the account is there before the Job. With an account of
// others in its place, no Job is created, and the condition names the account.
func TestBeforeRolloutPrerequisites(t *testing.T) {
	t.Parallel()
	ns, m := plane.Shared(t)
	app := newCommanded(ns)
	plane.Create(t, app)
	endJob(t, awaitJob(t, ns), true)
	plane.Stands(t, app, progressing...)
	completeRollout(t, deployment(app))
	plane.Stands(t, app, "Ready=True", "Applied=True/Applied")

	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: app.Name}}
	plane.Create(t, account)
	plane.Change(t, app, func() { app.Spec.Image, app.Spec.ServiceAccount = "nginx:1.17", &appv1.ServiceAccountSpec{} })
	plane.Stands(t, app, "Applied=False/"+appv1.ReasonResourceExists, "Ready=False")
	m.Idle(t)
	if jobs := listJobs(t, ns); len(jobs) != 1 {
		t.Fatalf("%d Jobs, although the ServiceAccount of others is in the way", len(jobs))
	}
	plane.Delete(t, account)
	second := awaitJob(t, ns)
	if pod := second.Spec.Template.Spec; pod.ServiceAccountName != app.Name {
		t.Errorf("the Job runs as %q", pod.ServiceAccountName)
	}
	if plane.Read(t, account); !metav1.IsControlledBy(account, app) {
		t.Error("the Job is created before its ServiceAccount")
	}
	d := deployment(app)
	if plane.Read(t, d); containerOf(d).Image == "nginx:1.17" || d.Spec.Template.Spec.ServiceAccountName != "" {
		t.Errorf("the Deployment has image %s and account %q before the command has run", containerOf(d).Image, d.Spec.Template.Spec.ServiceAccountName)
	}
	endJob(t, second, true)
	plane.Stands(t, app, progressing...)
}

// TestBeforeRolloutRefused has the API server refuse the Job, by a quota of Jobs: the condition has the cause, and the Job is created once
// there is room.
func TestBeforeRolloutRefused(t *testing.T) {
	t.Parallel()
	ns := plane.Namespace(t)
	plane.Start(t, ns, harness.WithForbidden())
	quota := &corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "jobs"}}
	quota.Spec.Hard = corev1.ResourceList{"count/jobs.batch": parseQuantity("0")}
	plane.Create(t, quota)
	plane.ChangeStatus(t, quota, func() {
		quota.Status.Hard, quota.Status.Used = quota.Spec.Hard, corev1.ResourceList{"count/jobs.batch": parseQuantity("0")}
	})
	app := newCommanded(ns)
	plane.Create(t, app)
	plane.Stands(t, app, "Applied=False/"+appv1.ReasonForbidden, "Ready=False/"+appv1.ReasonForbidden)
	plane.Delete(t, quota)
	endJob(t, awaitJob(t, ns), true)
	plane.Stands(t, app, progressing...)
}

// TestBeforeRolloutForeignJob has a Job of others in the place of the command's: it is neither changed nor waited for, and the condition names it.
func TestBeforeRolloutForeignJob(t *testing.T) {
	t.Parallel()
	ns := plane.Namespace(t)
	m := plane.Start(t, ns)
	app := newCommanded(ns)
	plane.Create(t, app)
	own := awaitJob(t, ns)
	m.Stop(t)
	foreign := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: own.Name}}
	foreign.Spec.Template.Spec = *own.Spec.Template.Spec.DeepCopy()
	plane.Delete(t, own, client.PropagationPolicy(metav1.DeletePropagationBackground))
	plane.Gone(t, own)
	plane.Create(t, foreign)
	endJob(t, foreign, true)
	plane.Start(t, ns)
	plane.Stands(t, app, "Applied=False/"+appv1.ReasonResourceExists, "Stalled=True/"+appv1.ReasonResourceExists)
	plane.Absent(t, deployment(app))
	plane.Delete(t, foreign, client.PropagationPolicy(metav1.DeletePropagationBackground))
	plane.Gone(t, foreign)
	plane.Change(t, app, func() { app.Spec.Replicas = ptr.To[int32](3) }) // An event, so that the manager does not wait for its next look.
	endJob(t, awaitJob(t, ns), true)
	plane.Stands(t, app, progressing...)
}
