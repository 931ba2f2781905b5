package view

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	appv1 "huolala.cn/app-operator/api/v1"
	"huolala.cn/app-operator/internal/health"
)

// The texts about a command before a rollout.
const (
	jobTitle   = "Command before the rollout"
	jobWaiting = "wait for the command"
	jobFailing = "do not start: the command has failed"
)

// commandJobs returns the Jobs that run the command before the rollouts of the resource, the latest first.
func (s *Snapshot) commandJobs() []*batchv1.Job {
	return s.jobsThat(func(job *batchv1.Job) bool { return health.IsJobOf(job, s.Resource.ObjectMeta.UID) })
}

// jobsThat returns the Jobs for which a condition holds, the latest first.
func (s *Snapshot) jobsThat(holds func(*batchv1.Job) bool) []*batchv1.Job {
	var jobs []*batchv1.Job
	for i := range s.Jobs {
		if holds(&s.Jobs[i]) {
			jobs = append(jobs, &s.Jobs[i])
		}
	}
	slices.SortStableFunc(jobs, func(a, b *batchv1.Job) int { return cmp.Or(health.CompareJobs(a, b), cmp.Compare(b.Name, a.Name)) })
	return jobs
}

// WaitsForCommand reports whether a change waits for its command, or does not go on because the command has failed.
func (r *Resource) WaitsForCommand() bool {
	reason := r.mainCondition().Reason
	return reason == appv1.ReasonBeforeRollout || reason == appv1.ReasonBeforeRolloutFailed
}

// awaitedJob returns the Job of the command that a rollout waits for, or whose command has failed; nil without one. A Job that has ended while the rollout
// still waits is of an earlier change: the Job of this change is not created yet.
func (s *Snapshot) awaitedJob() *batchv1.Job {
	jobs := s.commandJobs()
	if len(jobs) == 0 || !s.Resource.WaitsForCommand() {
		return nil
	}
	if s.Resource.mainCondition().Reason == appv1.ReasonBeforeRollout && health.JobEnd(jobs[0]) != nil {
		return nil
	}
	return jobs[0]
}

// belowJob returns the steps from the Job that the rollout waits for down to its pods.
func (s *Snapshot) belowJob() []Step {
	job := s.awaitedJob()
	if job == nil {
		return nil
	}
	state, _ := jobState(job)
	return append([]Step{{Object: "Job " + job.Name, Text: state}}, rootOf(s.podsOf(job.UID), true)...)
}

// jobNodes returns the nodes of the Jobs that run the command before the rollouts of the resource.
func (s *Snapshot) jobNodes(o TreeOptions) []Node {
	jobs := s.commandJobs()
	nodes := make([]Node, 0, len(jobs))
	for _, job := range jobs {
		nodes = append(nodes, s.jobNode(job, o))
	}
	return nodes
}

// jobNode returns the node of a Job.
func (s *Snapshot) jobNode(job *batchv1.Job, o TreeOptions) Node {
	n := Node{
		Kind: "Job", Name: job.Name, Ready: fmt.Sprintf("%d/%d", job.Status.Succeeded, ptr.Deref(job.Spec.Completions, 1)),
		Detail: mainImage(job.Spec.Template.Spec.Containers), Created: createdAt(job.ObjectMeta),
	}
	n.State, n.Mark = jobState(job)
	n.Children, n.More = podNodes(s.podsOf(job.UID), o.Limit)
	for i := range n.Children { // Of a Job, pods end for good.
		switch pod := &n.Children[i]; corev1.PodPhase(pod.State) {
		case corev1.PodSucceeded:
			pod.Mark = MarkGood
		case corev1.PodFailed:
			pod.Mark = MarkBad
		}
	}
	return n
}

// jobState returns the state of a Job in a word, and its mark.
func jobState(job *batchv1.Job) (string, Mark) {
	switch ended := health.JobEnd(job); {
	case health.JobSuspended(job):
		return "suspended", MarkHold
	case ended == nil:
		return "running", MarkBusy
	case ended.Type == batchv1.JobComplete:
		return "succeeded", MarkGood
	default:
		return "failed, " + ended.Reason, MarkBad
	}
}

// BeforeOf returns the command before the rollout, and the pods that wait for the command, as a way; nil while no rollout waits.
func BeforeOf(s *Snapshot) []Stop {
	if !s.Resource.WaitsForCommand() {
		return nil
	}
	pods := Stop{Title: "pods of " + VersionOf(s.Resource.Image), Waits: true, Notes: []string{jobWaiting}}
	if s.Resource.mainCondition().Reason == appv1.ReasonBeforeRolloutFailed {
		pods.Notes = []string{jobFailing}
	}
	job := s.awaitedJob()
	if job == nil {
		return cleanView([]Stop{{Title: jobTitle, Waits: true}, pods})
	}
	stop := Stop{Title: "Job " + job.Name, Notes: []string{ShortImage(mainImage(job.Spec.Template.Spec.Containers)), s.jobWords(job)}}
	_, stop.Mark = jobState(job)
	if cause := health.Worst(s.podsOf(job.UID), true); cause.Reason != "" {
		stop.Notes = append(stop.Notes, cause.Reason)
	}
	return cleanView([]Stop{stop, pods})
}

// jobWords describes how far a Job is: its result, and its time.
func (s *Snapshot) jobWords(job *batchv1.Job) string {
	words := s.jobResult(job)
	end, began := jobEnd(job), cmp.Or(job.Status.StartTime, &job.CreationTimestamp)
	switch {
	case health.JobEnd(job) == nil:
		words += ", for " + longDuration(s.Now.Sub(began.Time))
	case end != nil:
		words += ", after " + longDuration(end.Sub(began.Time))
	}
	return words
}

// jobResult describes the state of a Job, its tries that have failed, and the exit code of its command.
func (s *Snapshot) jobResult(job *batchv1.Job) string {
	state, mark := jobState(job)
	words := []string{state}
	if n := job.Status.Failed; n > 0 && job.Spec.BackoffLimit != nil {
		words = append(words, fmt.Sprintf("%d of %d tries failed", n, *job.Spec.BackoffLimit+1))
	}
	if code := s.exitCode(job); code != 0 && mark != MarkGood {
		words = append(words, fmt.Sprintf("exit code %d", code))
	}
	return strings.Join(words, ", ")
}

// exitCode returns the exit code of a pod of a Job that has failed, 0 if none is known.
func (s *Snapshot) exitCode(job *batchv1.Job) int32 {
	for _, pod := range s.podsOf(job.UID) {
		for _, status := range statusesOf(&pod) {
			if ended := status.State.Terminated; ended != nil && ended.ExitCode != 0 {
				return ended.ExitCode
			}
		}
	}
	return 0
}

// jobEnd returns when a Job has ended, nil if it has not.
func jobEnd(job *batchv1.Job) *metav1.Time {
	if ended := health.JobEnd(job); ended != nil && !ended.LastTransitionTime.IsZero() {
		return &ended.LastTransitionTime
	}
	return nil
}

// commandEntries returns an entry for each command before a rollout: its end, or its begin while it runs.
func (s *Snapshot) commandEntries() []Happening {
	var all []Happening
	for _, job := range s.commandJobs() {
		h := Happening{
			Time: cmp.Or(jobEnd(job), job.Status.StartTime, createdAt(job.ObjectMeta)), Title: jobTitle,
			Text: ShortImage(mainImage(job.Spec.Template.Spec.Containers)) + ": " + s.jobWords(job) + " (Job " + job.Name + ")",
		}
		_, h.Mark = jobState(job)
		h.Sign = h.Mark.Sign()
		pods := s.podsOf(job.UID)
		if cause := health.Worst(pods, true); cause.Message != "" {
			h.Text += ": " + cause.String()
		}
		all = append(all, h)
	}
	return all
}
