package view

import (
	"cmp"
	"fmt"
	"slices"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	appv1 "huolala.cn/app-operator/api/v1"
	"huolala.cn/app-operator/internal/health"
)

// CommandRun is the state of the Job of a command that a user runs.
type CommandRun struct {
	// Pod is the name of the pod, empty while there is none.
	Pod string
	// Running is true while the command runs.
	Running bool
	// ExitCode is the exit code of the command, nil while there is none.
	ExitCode *int32
	// Problem is why the command does not start, or has no exit code; empty while nothing is known to be wrong. Advice is what helps, if anything
	// is known to help.
	Problem, Advice string
	// Over is true if the command will have no exit code. Patient is true for a problem that others are expected to solve, such as the
	// autoscaler of a cluster.
	Over, Patient bool
	// Note is what a user has to know in addition to the exit code, empty for nothing.
	Note string
}

// The texts about the Job of a user's command.
const (
	runGone      = "the Job is gone"
	runNoPod     = "its pod is gone, and with it the exit code"
	runDeadline  = "the Job has not ended within its deadline of %d s, and its pod was deleted"
	runFailed    = "the Job has failed: %s"
	runSuspended = "the Job is suspended: another controller, such as a queue, decides when it starts"
	runPodGone   = "its pod is being deleted"
	runPodEnded  = "its pod has ended before the command: %s"
	runOOM       = "the command was killed because it used more memory than its limit; raise resources.limits.memory"
	runGoesOn    = "container %q of its pod still runs, so the Job does not end; end it: %s"
)

// RunOf returns the state of the Job of a user's command. The Job is nil if it is gone. The pods are those of the Job, the events those about
// the Job.
func RunOf(job *batchv1.Job, pods []corev1.Pod, events []corev1.Event) *CommandRun {
	if job == nil {
		return &CommandRun{Problem: runGone, Over: true}
	}
	pods = slices.DeleteFunc(slices.Clone(pods), func(pod corev1.Pod) bool { return !controlsObject(job.UID, &pod) })
	if len(pods) == 0 {
		return cleanView(runWithoutPod(job, events))
	}
	newest := slices.MaxFunc(pods, func(a, b corev1.Pod) int { return a.CreationTimestamp.Compare(b.CreationTimestamp.Time) })
	return cleanView(runOfPod(job, &newest))
}

// runWithoutPod is for a Job whose pod does not exist yet, or is gone.
func runWithoutPod(job *batchv1.Job, events []corev1.Event) *CommandRun {
	switch ended := health.JobEnd(job); {
	case ended != nil && ended.Type == batchv1.JobComplete:
		return &CommandRun{ExitCode: ptr.To[int32](0)} // The only container of the Job has ended with it.
	case ended != nil:
		return &CommandRun{Problem: cmp.Or(deadlineOf(job), fmt.Sprintf(runFailed, runNoPod)), Over: true}
	case health.JobSuspended(job):
		return &CommandRun{Problem: runSuspended, Patient: true}
	}
	latest := -1
	for i := range events {
		if e := &events[i]; e.Reason == "FailedCreate" && e.InvolvedObject.UID == job.UID && (latest < 0 || !e.LastTimestamp.Before(&events[latest].LastTimestamp)) {
			latest = i
		}
	}
	if latest < 0 {
		return &CommandRun{}
	}
	reason, words := health.Rejection(events[latest].Message, job)
	return &CommandRun{Problem: "no pod can be created: " + words, Advice: advices[reason].text}
}

// deadlineOf describes the end of a Job that has missed its deadline, empty for any other Job.
func deadlineOf(job *batchv1.Job) string {
	if !health.JobExceededDeadline(job) {
		return ""
	}
	return fmt.Sprintf(runDeadline, ptr.Deref(job.Spec.ActiveDeadlineSeconds, 0))
}

// runOfPod is for a Job with a pod.
func runOfPod(job *batchv1.Job, pod *corev1.Pod) *CommandRun {
	run := &CommandRun{Pod: pod.Name}
	name := mainContainer(&corev1.Pod{Spec: job.Spec.Template.Spec})
	var state corev1.ContainerState
	for _, status := range pod.Status.ContainerStatuses {
		if status.Name == name {
			state = status.State
		}
	}
	switch cause := health.Worst([]corev1.Pod{*pod}, true); {
	case state.Terminated != nil:
		run.ExitCode, run.Note = &state.Terminated.ExitCode, noteOf(job, pod, state.Terminated)
	case pod.Status.Phase == corev1.PodSucceeded:
		run.ExitCode = ptr.To[int32](0)
	case pod.Status.Phase == corev1.PodFailed:
		words := cmp.Or(pod.Status.Message, pod.Status.Reason, "its reason is not known")
		run.Problem, run.Over = cmp.Or(deadlineOf(job), fmt.Sprintf(runPodEnded, words)), true
	case state.Running != nil:
		run.Running = true
	case pod.DeletionTimestamp != nil:
		run.Problem, run.Over = cmp.Or(deadlineOf(job), runPodGone), true
	case cause != health.Cause{}:
		run.Problem, run.Patient = cause.String(), cause.Reason == appv1.ReasonUnschedulable
		values := map[string]string{"POD": pod.Name, "CONTAINER": cause.Container}
		run.Advice, _ = expandCommands(advices[cause.Reason].text, pod.Namespace, values)
	}
	return run
}

// noteOf returns what a user has to know about a command that has ended.
func noteOf(job *batchv1.Job, pod *corev1.Pod, ended *corev1.ContainerStateTerminated) string {
	if late := deadlineOf(job); late != "" && ended.ExitCode != 0 {
		return late
	}
	if ended.Reason == "OOMKilled" {
		return runOOM
	}
	for _, status := range pod.Status.ContainerStatuses {
		if status.State.Running != nil {
			return fmt.Sprintf(runGoesOn, status.Name, CommandLine(job.Namespace, "kubectl delete job", job.Name))
		}
	}
	return ""
}

// RejectedRun returns why the API server rejects the Job of a user's command, with what helps. The answer is the API server's.
func RejectedRun(job *batchv1.Job, answer string) string {
	reason, words := health.Rejection(answer, job)
	return CleanLine(fmt.Sprintf("the API server rejects Job %s/%s: %s. %s", job.Namespace, job.Name, words, advices[reason].text))
}
