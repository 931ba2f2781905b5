package view

import (
	"fmt"
	"slices"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"
)

// jobs returns the Jobs that the resource controls, the latest first.
func (s *Snapshot) jobs() []*batchv1.Job {
	var jobs []*batchv1.Job
	for i := range s.Jobs {
		if controls(s.Resource.ObjectMeta.UID, &s.Jobs[i]) {
			jobs = append(jobs, &s.Jobs[i])
		}
	}
	slices.SortStableFunc(jobs, func(a, b *batchv1.Job) int { return b.CreationTimestamp.Compare(a.CreationTimestamp.Time) })
	return jobs
}

// belowJob returns the steps from the latest Job down to its pods.
func (s *Snapshot) belowJob() []Step {
	jobs := s.jobs()
	if len(jobs) == 0 {
		return nil
	}
	state, _ := jobState(jobs[0])
	return append([]Step{{Object: "Job " + jobs[0].Name, Text: state}}, rootOf(s.podsOf(jobs[0].UID), true)...)
}

// jobNodes returns the nodes of the Jobs.
func (s *Snapshot) jobNodes(o TreeOptions) []Node {
	jobs := s.jobs()
	nodes := make([]Node, 0, len(jobs))
	for _, job := range jobs {
		n := Node{
			Kind: "Job", Name: job.Name, Ready: fmt.Sprintf("%d/%d", job.Status.Succeeded, ptr.Deref(job.Spec.Completions, 1)),
			Detail: mainImage(job.Spec.Template.Spec.Containers), Created: created(job.ObjectMeta),
		}
		n.State, n.Mark = jobState(job)
		n.Children, n.More = podNodes(s.podsOf(job.UID), o.Limit)
		nodes = append(nodes, n)
	}
	return nodes
}

// jobState returns the state of a Job in a word, and its mark.
func jobState(job *batchv1.Job) (string, Mark) {
	for i := range job.Status.Conditions {
		switch c := &job.Status.Conditions[i]; {
		case c.Status != corev1.ConditionTrue:
		case c.Type == batchv1.JobComplete:
			return "succeeded", MarkGood
		case c.Type == batchv1.JobFailed:
			return "failed, " + c.Reason, MarkBad
		}
	}
	return "running", MarkBusy
}
