package workload

import (
	"context"
	"fmt"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appv1 "huolala.cn/app-operator/api/v1"
	"huolala.cn/app-operator/internal/health"
	"huolala.cn/app-operator/internal/reconciler"
	"huolala.cn/app-operator/resource"
)

// startJob creates the Job of a decision, unless another Job of the resource, or a pod of such a Job, is there that has not ended, or what
// the pod needs first could not be applied, or the Deployment could not be adopted. Jobs and pods are read from the API server: the cache may lack what another manager has created. The
// oldest finished Jobs are deleted.
func (r *Reconciler) startJob(ctx context.Context, in *Input, job *jobDecision, before *ApplyResult) *ApplyResult {
	seen := before.Seen
	if missing := missingPrerequisite(before.auxiliary); missing != nil {
		return FailApply(seen, missing)
	}
	waitsFor, finished, err := r.readJobs(ctx, in, job.name)
	switch {
	case err != nil:
		return FailApply(seen, err)
	case waitsFor != "":
		return FailApply(seen, &reconciler.WaitingError{
			Reason: appv1.ReasonBeforeRollout, Message: fmt.Sprintf(messageJobWaits, job.name, waitsFor), RetryAfter: jobAgain,
		})
	}
	if err := r.tryAdoption(ctx, in, seen, job); err != nil {
		return FailApply(seen, err)
	}
	for _, old := range finished[min(len(finished), jobsKept-1):] {
		if err := r.Engine.Discard(ctx, &old); err != nil {
			return FailApply(seen, err)
		}
	}
	created := resource.BuildJob(job.workload, job.spec, job.name, job.cause)
	isNew, err := r.Engine.Create(ctx, in.fieldManager(), created)
	if err == nil && !isNew {
		err = r.refuseForeignJob(ctx, in, job.name)
	}
	if err != nil || !isNew {
		return FailApply(seen, err)
	}
	return &ApplyResult{Seen: seen, startedJob: created.Name}
}

// refuseForeignJob returns an error if a Job belongs to another owner: a Job of that name is never run for this one.
func (r *Reconciler) refuseForeignJob(ctx context.Context, in *Input, name string) error {
	var jobs batchv1.JobList // The manager may list Jobs, and get none.
	if err := r.Live.List(ctx, &jobs, client.InNamespace(in.Owner.GetNamespace()), client.MatchingFields{"metadata.name": name}); err != nil {
		return fmt.Errorf("list Jobs: %w", err)
	}
	if len(jobs.Items) == 0 || health.IsJobOf(&jobs.Items[0], in.Owner.GetUID()) {
		return nil
	}
	return &reconciler.StalledError{Reason: appv1.ReasonResourceExists, Message: fmt.Sprintf(messageJobForeign, name), RetryAfter: Unwatched}
}

// readJobs reads the Jobs of the owner, and their pods, from the API server. waitsFor is a Job or a pod that has not ended, empty if all
// have. finished are the Jobs that have ended, the latest first.
func (r *Reconciler) readJobs(ctx context.Context, in *Input, name string) (waitsFor string, finished []batchv1.Job, err error) {
	namespace, label := client.InNamespace(in.Owner.GetNamespace()), client.MatchingLabels{appv1.LabelBeforeRollout: in.Name}
	var jobs batchv1.JobList
	if err := r.Live.List(ctx, &jobs, namespace, label); err != nil {
		return "", nil, fmt.Errorf("list Jobs: %w", err)
	}
	for _, job := range jobsOf(in.Owner, jobs.Items) {
		switch {
		case job.Name == name && job.DeletionTimestamp == nil: // The cache lacks it yet.
			return "", nil, nil
		case health.JobEnd(&job) == nil, job.Name == name:
			return "Job " + job.Name, nil, nil
		default:
			finished = append(finished, job)
		}
	}
	var pods corev1.PodList
	if err := r.Live.List(ctx, &pods, namespace, label); err != nil {
		return "", nil, fmt.Errorf("list pods of Jobs: %w", err)
	}
	for i := range pods.Items {
		if pod := &pods.Items[i]; pod.Status.Phase != corev1.PodSucceeded && pod.Status.Phase != corev1.PodFailed {
			return "pod " + pod.Name, nil, nil
		}
	}
	return "", finished, nil
}
