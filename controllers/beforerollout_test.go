package controllers

import (
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appv1 "huolala.cn/app-operator/api/v1"
)

// commandSpecOf returns the spec of flowSpec with a command before the rollout.
func commandSpecOf(kindName, image string) string {
	return strings.Replace(flowSpec(kindName, image, onePort), "{", `{"beforeRollout":{"command":["/app/migrate"]},`, 1)
}

// jobs returns the Jobs before rollouts, the latest last.
func (w *world) jobs() []batchv1.Job {
	w.t.Helper()
	var list batchv1.JobList
	if err := w.Client.List(w.t.Context(), &list, client.InNamespace(namespace)); err != nil {
		w.t.Fatal(err)
	}
	slices.SortFunc(list.Items, func(a, b batchv1.Job) int { return a.CreationTimestamp.Compare(b.CreationTimestamp.Time) })
	return list.Items
}

// endJob has the Job that has not ended succeed, or fail.
func (w *world) endJob(condition batchv1.JobConditionType) {
	w.t.Helper()
	for _, job := range w.jobs() {
		if len(job.Status.Conditions) > 0 {
			continue
		}
		job.Status.Conditions = []batchv1.JobCondition{{Type: condition, Status: corev1.ConditionTrue, Reason: batchv1.JobReasonBackoffLimitExceeded}}
		if err := w.Client.Status().Update(w.t.Context(), &job); err != nil {
			w.t.Fatal(err)
		}
		return
	}
	w.t.Fatal("no Job runs")
}

// TestCommandBeforeRollout rolls out a spec, another one whose command fails, and the first one again: each has a Job of its own, and the
// pods of before stay until the Job has succeeded.
func TestCommandBeforeRollout(t *testing.T) {
	for _, kindName := range heldKinds() {
		t.Run(kindName, func(t *testing.T) {
			w := newWorld(t, newStored(t, kindNamed(t, kindName), commandSpecOf(kindName, "nginx:1")))
			w.generations = true
			w.settle(kindName)
			if jobs := w.jobs(); len(jobs) != 1 || jobs[0].Spec.Template.Spec.Containers[0].Image != "nginx:1" || jobs[0].Spec.Template.Spec.Containers[0].Command[0] != "/app/migrate" {
				t.Fatalf("the Jobs are %v", jobs)
			}
			if w.read(&appsv1.Deployment{}) {
				t.Fatal("the first pods do not wait")
			}
			w.stands("the first pods wait", kindName, "Applied=False/"+appv1.ReasonBeforeRollout, "Stalled=False/NotStalled")
			w.endJob(batchv1.JobComplete)
			w.settle(kindName)
			w.makeAvailable()
			w.settle(kindName)
			w.stands("rolled out", kindName, "Applied=True/Applied", "Ready=True/Ready")

			w.clock.SetTime(w.clock.Now().Add(time.Minute))
			w.setSpec(kindName, commandSpecOf(kindName, "nginx:2"))
			w.settle(kindName)
			if len(w.jobs()) != 2 || w.image() != "nginx:1" {
				t.Fatalf("%d Jobs, and the Deployment runs %s", len(w.jobs()), w.image())
			}
			w.endJob(batchv1.JobFailed)
			w.settle(kindName)
			w.stands("the command failed", kindName, "Applied=False/"+appv1.ReasonBeforeRolloutFailed, "Stalled=True/"+appv1.ReasonBeforeRolloutFailed)
			w.requests = nil
			for range 20 {
				w.settle(kindName)
			}
			if len(w.jobs()) != 2 || w.image() != "nginx:1" || len(w.requests) > 0 {
				t.Fatalf("%d Jobs after a failure, the Deployment runs %s, and %v was written", len(w.jobs()), w.image(), w.requests)
			}
			w.setSpec(kindName, strings.Replace(commandSpecOf(kindName, "nginx:2"), `"replicas":2`, `"replicas":7`, 1))
			w.settle(kindName)
			if scaled := w.deployment(); ptr.Deref(scaled.Spec.Replicas, 0) != 7 || w.image() != "nginx:1" || len(w.jobs()) != 2 {
				t.Fatalf("scaled after a failure: %d pods of %s, %d Jobs", ptr.Deref(scaled.Spec.Replicas, 0), w.image(), len(w.jobs()))
			}
			w.stands("scaled after a failure", kindName, "Applied=False/"+appv1.ReasonBeforeRolloutFailed, "Stalled=True/"+appv1.ReasonBeforeRolloutFailed)
			w.annotate(kindName, appv1.AnnotationRefresh, "again")
			w.settle(kindName)
			w.endJob(batchv1.JobComplete)
			w.settle(kindName)
			if w.image() != "nginx:2" {
				t.Fatalf("the Deployment runs %s", w.image())
			}
			w.setSpec(kindName, commandSpecOf(kindName, "nginx:1"))
			w.settle(kindName)
			if w.image() != "nginx:2" {
				t.Fatal("the first spec is rolled out again without its command")
			}
			w.endJob(batchv1.JobComplete)
			w.settle(kindName)
			if w.image() != "nginx:1" {
				t.Fatalf("the Deployment runs %s", w.image())
			}
		})
	}
}

// TestPlanOfCommand plans a change with a command: the plan has the Job and the rollout that follows, and writes nothing.
func TestPlanOfCommand(t *testing.T) {
	for _, kindName := range heldKinds() {
		t.Run(kindName, func(t *testing.T) {
			w := newWorld(t, newStored(t, kindNamed(t, kindName), commandSpecOf(kindName, "nginx:1")))
			w.settle(kindName)
			w.endJob(batchv1.JobComplete)
			w.settle(kindName)
			w.requests = nil
			k := kindNamed(t, kindName)
			changed, ok := k.New().(client.Object)
			if !ok {
				t.Fatalf("%s is no API object", kindName)
			}
			text, err := json.Marshal(newStored(t, k, commandSpecOf(kindName, "nginx:2")))
			if err := errors.Join(err, json.Unmarshal(text, changed)); err != nil {
				t.Fatal(err)
			}
			made, err := newPlanner(w.Deps).Plan(t.Context(), kindName, changed)
			if err != nil {
				t.Fatal(err)
			}
			said := strings.Join(made.Lines(20, 240), "\n")
			if !containsAll(said, "Job web-", "created", "nginx:1 -> nginx:2") || len(w.jobs()) != 1 || !slices.Equal(w.requests, []string{"try Deployment web"}) {
				t.Errorf("the plan is %s, with %d Jobs and the writes %v", said, len(w.jobs()), w.requests)
			}
		})
	}
}

// withField returns a spec with a further field.
func withField(spec, field string) string { return strings.Replace(spec, "{", "{"+field+",", 1) }

// TestCommandOfPodsAlone changes fields that replace no pod, deletes the Deployment while a command runs and after it has failed, and returns
// to an earlier change after another one: a command runs for changes of the pods alone, and no pod of a change is there before its command
// has succeeded.
func TestCommandOfPodsAlone(t *testing.T) {
	for _, kindName := range heldKinds() {
		t.Run(kindName, func(t *testing.T) {
			w := newWorld(t, newStored(t, kindNamed(t, kindName), commandSpecOf(kindName, "nginx:1")))
			w.generations = true
			w.settle(kindName)
			w.endJob(batchv1.JobComplete)
			w.settle(kindName)
			w.makeAvailable()
			w.settle(kindName)
			for _, field := range []string{
				`"progressDeadlineSeconds":700`, `"minReadySeconds":3`, `"revisionHistoryLimit":3`, `"labels":{"a":"b"}`, `"workloadLabels":{"a":"c"}`, `"maxSurge":2`,
			} {
				w.setSpec(kindName, withField(commandSpecOf(kindName, "nginx:1"), field))
				w.settle(kindName)
				if n := len(w.jobs()); n != 1 {
					t.Fatalf("%d Jobs after a change of %s", n, field)
				}
			}
			change := func(image string, end batchv1.JobConditionType, runs string) {
				t.Helper()
				w.clock.SetTime(w.clock.Now().Add(time.Minute))
				w.setSpec(kindName, commandSpecOf(kindName, image))
				w.settle(kindName)
				if w.image() == image {
					t.Fatalf("%s has not waited for its command", image)
				}
				w.remove(w.deployment())
				w.settle(kindName)
				if w.image() != runs {
					t.Fatalf("the deleted Deployment comes back with %s", w.image())
				}
				w.endJob(end)
				w.settle(kindName)
			}
			change("nginx:2", batchv1.JobFailed, "nginx:1")
			w.remove(w.deployment())
			w.settle(kindName)
			if w.image() != "nginx:1" {
				t.Fatalf("after a failed command, the deleted Deployment comes back with %s", w.image())
			}
			change("nginx:3", batchv1.JobFailed, "nginx:1")
			change("nginx:2", batchv1.JobComplete, "nginx:1")
			if w.image() != "nginx:2" {
				t.Fatalf("the Deployment runs %s", w.image())
			}
		})
	}
}

// TestCauseOfACommand has the pod of a Job that does not start, as the kubelet says it with a value of the spec: the status has the cause without the value,
// and has it no longer once the pod runs.
func TestCauseOfACommand(t *testing.T) {
	const private = "S3CR3T-VALUE"
	forNames(t, heldKinds(), func(t *testing.T, kindName string) {
		spec := strings.Replace(commandSpecOf(kindName, "nginx:1"), `"command":["/app/migrate"]`, `"command":["/app/migrate"],"envs":[{"name":"TOKEN","value":"`+private+`"}]`, 1)
		w := newWorld(t, newStored(t, kindNamed(t, kindName), spec))
		w.settle(kindName)
		job := w.jobs()[0]
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
			Namespace: namespace, Name: job.Name + "-1", Labels: job.Spec.Template.Labels,
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(&job, batchv1.SchemeGroupVersion.WithKind("Job"))},
		}}
		w.create(pod)
		setState := func(state corev1.ContainerState) {
			pod.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "web", Image: "nginx:1", State: state}}
			if err := w.Client.Status().Update(t.Context(), pod); err != nil {
				t.Fatal(err)
			}
			job.Status.Active, job.Status.StartTime = 1, &job.CreationTimestamp
			if err := w.Client.Status().Update(t.Context(), &job); err != nil {
				t.Fatal(err)
			}
			w.settle(kindName)
		}
		setState(corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "CreateContainerError", Message: "no volume for " + private}})
		w.stands("the pod does not start", kindName, "Ready=False/BeforeRollout", "Stalled=False/NotStalled")
		if said := w.message(kindName, "Ready"); !strings.Contains(said, `has a problem: container "web": cannot be started: no volume for`) || strings.Contains(said, private) {
			t.Errorf("the message is %s", said)
		}
		setState(corev1.ContainerState{Running: &corev1.ContainerStateRunning{}})
		if said := w.message(kindName, "Ready"); !strings.Contains(said, "runs the command since") {
			t.Errorf("the pod runs: %s", said)
		}
	})
}
