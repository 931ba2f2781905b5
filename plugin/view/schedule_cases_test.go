package view

import (
	"fmt"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	appv1 "huolala.cn/app-operator/api/v1"
)

// newTask returns the Task report of the App cart, whose condition Ready has a reason.
func newTask(status metav1.ConditionStatus, reason, message string, change func(*appv1.Task)) Resource {
	task := &appv1.Task{ObjectMeta: objectMeta("report", "task", "", 31*24*time.Hour)}
	task.Spec.App, task.Spec.Schedule, task.Spec.TimeZone = "cart", "0 5 * * *", ptr.To("Asia/Shanghai")
	task.Spec.Command = []string{"/app/report"}
	task.Status.Conditions = []metav1.Condition{condition(appv1.ConditionReady, status, reason, message)}
	if status == metav1.ConditionFalse && reason != appv1.ReasonRunning {
		task.Status.Conditions = append(task.Status.Conditions, condition(appv1.ConditionStalled, metav1.ConditionTrue, reason, message))
	}
	task.Status.ObservedGeneration, task.Status.Image = 2, "registry.example.com/shop/cart:5.2.0"
	task.Status.NextRun = ptr.To(before(-9 * time.Hour))
	task.Status.LastRun = &appv1.TaskRun{Job: "report-3", Started: ptr.To(before(15 * time.Hour)), Finished: ptr.To(before(14 * time.Hour)), Result: appv1.TaskFailed}
	change(task)
	r, _ := ResourceOf(task)
	return r
}

// newRun returns a Job of the CronJob of the Task report, with its pod.
func newRun(n int, age time.Duration, ended *batchv1.JobCondition, state corev1.ContainerState) (batchv1.Job, corev1.Pod) {
	name := fmt.Sprintf("report-%d", n)
	job := batchv1.Job{ObjectMeta: objectMeta(name, name, "cron", age)}
	job.OwnerReferences[0].Kind, job.OwnerReferences[0].Name = kindCronJob, "report"
	job.Spec.BackoffLimit = ptr.To[int32](0)
	job.Spec.Template.Spec.Containers = []corev1.Container{{Name: "cart", Image: "registry.example.com/shop/cart:5.2.0"}}
	if ended != nil {
		ended.Status, ended.LastTransitionTime = corev1.ConditionTrue, before(age-10*time.Minute)
		job.Status.Conditions = []batchv1.JobCondition{*ended}
	}
	pod := newPod(name+"-x2k", name, "node-1", state)
	pod.Labels, pod.CreationTimestamp = map[string]string{appv1.LabelTask: "report"}, job.CreationTimestamp
	if end := state.Terminated; end != nil && end.ExitCode == 0 {
		pod.Status.Phase = corev1.PodSucceeded
	} else if end != nil {
		pod.Status.Phase = corev1.PodFailed
	}
	return job, pod
}

// scheduled returns a Task with three runs: the latest has failed, the others have succeeded. A Job of the same labels belongs to others.
func scheduled(r Resource) *Snapshot {
	cron := batchv1.CronJob{ObjectMeta: objectMeta("report", "cron", "task", 31*24*time.Hour)}
	cron.Spec.JobTemplate.Spec.Template.Spec.Containers = []corev1.Container{{Name: "cart", Image: "registry.example.com/shop/cart:5.2.0"}}
	s := &Snapshot{Resource: r, CronJobs: []batchv1.CronJob{cron}, Now: now}
	done := corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{}}
	for n, age := range []time.Duration{63 * time.Hour, 39 * time.Hour, 15 * time.Hour} {
		end, state := &batchv1.JobCondition{Type: batchv1.JobComplete}, done
		if n == 2 {
			end = &batchv1.JobCondition{Type: batchv1.JobFailed, Reason: batchv1.JobReasonBackoffLimitExceeded}
			state = corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: 3, Reason: "Error", FinishedAt: before(14 * time.Hour)}}
		}
		job, pod := newRun(n+1, age, end, state)
		if n == 2 {
			job.Status.Failed = 1
		} else {
			job.Status.Succeeded = 1
		}
		s.Jobs, s.Pods = append(s.Jobs, job), append(s.Pods, pod)
	}
	s.Jobs[1].Annotations = map[string]string{annotationByHand: "manual"}
	stranger, _ := newRun(9, time.Minute, nil, running)
	stranger.OwnerReferences[0].UID, stranger.OwnerReferences[0].Name = "other", "other"
	s.Jobs = append(s.Jobs, stranger)
	s.Events = []corev1.Event{{
		Reason: "SawCompletedJob", Message: "Saw completed job: report-3, condition: Failed", LastTimestamp: before(14 * time.Hour),
		InvolvedObject: corev1.ObjectReference{Kind: kindCronJob, Name: "report", UID: "cron"},
	}, {
		Type: corev1.EventTypeWarning, Reason: reasonUnexpectedJob, Message: "Saw a job that the controller did not create or forgot: report-2", LastTimestamp: before(13 * time.Hour),
		InvolvedObject: corev1.ObjectReference{Kind: kindCronJob, Name: "report", UID: "cron"},
	}}
	return s
}

const messageFailed = "Job report-3 failed: the command ended with an error, as often as retries allows; kubectl logs -n shop job/report-3 has its output, if its pod is still there"

// tasks returns a Task in each state.
func tasks() map[string]*Snapshot {
	nothing := func(*appv1.Task) {}
	succeeded := func(task *appv1.Task) {
		task.Status.LastRun = &appv1.TaskRun{Job: "report-2", Started: ptr.To(before(39 * time.Hour)), Finished: ptr.To(before(38 * time.Hour)), Result: appv1.TaskSucceeded}
	}
	all := map[string]*Snapshot{
		"failed": scheduled(newTask(metav1.ConditionFalse, appv1.ReasonRunFailed, messageFailed, nothing)),
		"missed": scheduled(newTask(metav1.ConditionFalse, appv1.ReasonRunMissed, "The run of 2026-03-01 05:00 has not started", nothing)),
		"suspended": scheduled(newTask(metav1.ConditionTrue, appv1.ReasonSuspended, "spec.suspended is true", func(task *appv1.Task) {
			task.Spec.Suspended, task.Status.NextRun = true, nil
		})),
		"never": scheduled(newTask(metav1.ConditionTrue, appv1.ReasonNoRun, "No run was due", func(task *appv1.Task) {
			task.Status.LastRun, task.Status.NextRun = nil, nil
		})),
		"ready":   scheduled(newTask(metav1.ConditionTrue, appv1.ReasonSucceeded, "Job report-2 has succeeded", succeeded)),
		"waiting": scheduled(newTask(metav1.ConditionUnknown, appv1.ReasonDependencyNotReady, "App cart has no Deployment", nothing)),
		"running": scheduled(newTask(metav1.ConditionTrue, appv1.ReasonRunning, "Job report-4 runs", func(task *appv1.Task) {
			task.Status.LastRun = &appv1.TaskRun{Job: "report-4", Started: ptr.To(before(5 * time.Minute)), Result: appv1.TaskRunning}
			task.Status.Active = 1
		})),
	}
	for _, name := range []string{"never", "waiting"} {
		all[name].CronJobs, all[name].Jobs, all[name].Pods = nil, nil, nil
	}
	all["ready"].Jobs, all["ready"].Pods = all["ready"].Jobs[:2], all["ready"].Pods[:2]
	job, pod := newRun(4, 5*time.Minute, nil, notPulled)
	all["running"].Jobs, all["running"].Pods = append(all["running"].Jobs, job), append(all["running"].Pods, pod)
	const noPod = "Job report-4 has no pod after 30s; kubectl describe job -n shop report-4 names the cause"
	all["no pod"] = scheduled(newTask(metav1.ConditionFalse, appv1.ReasonRunning, noPod, nothing))
	all["no pod"].Jobs = append(all["no pod"].Jobs, job)
	return all
}
