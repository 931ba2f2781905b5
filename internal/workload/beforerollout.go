package workload

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appv1 "huolala.cn/app-operator/api/v1"
	"huolala.cn/app-operator/api/v1/validation"
	"huolala.cn/app-operator/internal/children"
	"huolala.cn/app-operator/internal/health"
	"huolala.cn/app-operator/internal/reconciler"
	"huolala.cn/app-operator/resource"
)

// While spec.beforeRollout is set, a change of the pods waits for a Job that runs a command with the new image. Meanwhile the
// Deployment is built from the record on it. The Job is the state: its name is a hash of the change and of the Job before, so that a manager
// finds the Job of another manager, and each rollout has a Job of its own. A Job is created and never applied, as an apply would succeed on a
// Job that is being deleted, and only when no other Job of the resource has a pod.

const (
	// jobsKept is how many finished Jobs of a resource stay.
	jobsKept = 2
	// jobAgain is the time until a Job that waits for a pod of an earlier Job is tried again: no event of such a pod brings the owner up.
	jobAgain = 5 * time.Second
)

// jobDecision is the part of a decision about the command before a rollout.
type jobDecision struct {
	// name is the name of the Job that the rollout waits for, empty for a rollout that waits for none.
	name string
	// spec is the command, workload the workload that the Job is built from, and cause the cause of the rollout (see resource.Rollout). They are set
	// where the Job is to be created.
	spec     *appv1.BeforeRolloutSpec
	workload *resource.Workload
	cause    string
	// waitsFor is the name of another Job that has not ended, empty if there is none.
	waitsFor string
	// live is the live Job, nil before its creation.
	live *batchv1.Job
}

// beforeRollout returns the command of a valid spec, nil for a spec without a command.
func (in *Input) beforeRollout() *appv1.BeforeRolloutSpec {
	if !in.Kind.Serves || !in.isValid() {
		return nil
	}
	return in.Spec.Release().BeforeRollout
}

// observeJobs returns the Jobs of the owner as the cache has them, the latest first. The cache has none while the feature is disabled.
func observeJobs(ctx context.Context, c client.Client, in *Input) ([]batchv1.Job, error) {
	if !in.Kind.Serves || in.Undecodable != nil || slices.Contains(in.disabled, validation.FeatureBeforeRollout) {
		return nil, nil //nolint:nilerr // The decision has the error.
	}
	var list batchv1.JobList
	if err := c.List(ctx, &list, client.InNamespace(in.Owner.GetNamespace()),
		client.MatchingFields{children.IndexOwner: string(in.Owner.GetUID())}); err != nil {
		return nil, fmt.Errorf("list Jobs: %w", err)
	}
	return jobsOf(in.Owner, list.Items), nil
}

// observeJobPods returns the pods of those Jobs that have not ended, as the cache has them.
func observeJobPods(ctx context.Context, c client.Client, in *Input, jobs []batchv1.Job) ([]corev1.Pod, error) {
	if !slices.ContainsFunc(jobs, func(job batchv1.Job) bool { return health.JobEnd(&job) == nil }) {
		return nil, nil
	}
	var pods corev1.PodList
	if err := c.List(ctx, &pods, client.InNamespace(in.Owner.GetNamespace()), client.MatchingFields{IndexInstance: in.Name},
		client.MatchingLabels{appv1.LabelBeforeRollout: in.Name}); err != nil {
		return nil, fmt.Errorf("list pods of Jobs: %w", err)
	}
	return slices.DeleteFunc(pods.Items, func(pod corev1.Pod) bool {
		return !slices.ContainsFunc(jobs, func(job batchv1.Job) bool { return health.JobEnd(&job) == nil && metav1.IsControlledBy(&pod, &job) })
	}), nil
}

// jobsOf returns the Jobs of an owner, the latest first.
func jobsOf(owner client.Object, all []batchv1.Job) []batchv1.Job {
	jobs := slices.DeleteFunc(all, func(job batchv1.Job) bool { return !health.IsJobOf(&job, owner.GetUID()) })
	slices.SortFunc(jobs, func(a, b batchv1.Job) int { return cmp.Or(health.CompareJobs(&a, &b), cmp.Compare(a.Name, b.Name)) })
	return jobs
}

// release is whether a valid spec waits for its command.
type release struct {
	// waits is the decision for a spec that waits, nil for a spec that does not.
	waits *decision
	// present has the inputs of a spec that does not wait, with the name of the Job that has succeeded, if there is one.
	present *builtSpec
	// job has the name of the Job that a plan creates. In a plan, no spec waits.
	job jobDecision
}

// releaseByJob decides whether a valid spec waits for its command.
func (c decider) releaseByJob(want *decision, present *builtSpec) (release, error) {
	spec := c.in.beforeRollout()
	switch {
	case c.in.Paused, present.workload.TemplateKept:
		return release{present: present}, nil
	case spec == nil, !c.startsRollout(present):
		recorded, err := c.leaveJob(present)
		return release{present: recorded}, err
	case c.abortInForce(present) != nil:
		return release{present: present}, nil
	}
	name := c.awaitedJob(present)
	live := c.jobNamed(name)
	done := live != nil && health.JobEndedBy(live, batchv1.JobComplete)
	if ran := c.jobBeforeCanary(present, name); ran != "" && live == nil {
		name, done = ran, true
	}
	if failed := live != nil && health.JobEndedBy(live, batchv1.JobFailed); done || c.foresees && !failed {
		recorded, err := c.recordJob(present, name, c.rolloutOfJob(present).Cause, live)
		released := release{present: recorded}
		if !done && live == nil {
			released.job = jobDecision{name: name, spec: spec}
		}
		return released, err
	}
	return release{waits: c.awaitJob(want, present, name)}, nil
}

// awaitJob returns the decision for a spec that waits for a Job: the last applied spec, or else what the pod of the Job needs.
func (c decider) awaitJob(want *decision, present *builtSpec, name string) *decision {
	waits := *want
	waits.useEarlier(sourceBeforeRollout)
	if c.hasCanary() { // Of a spec before the present one.
		waits.how.canary.fate, waits.canary.event = canaryDropped, appv1.ReasonCanaryAborted
	}
	if waits.workload, waits.remember.record, waits.refusal = c.lastApplied(); waits.workload == nil {
		waits.workload, waits.how.Prerequisites = present.workload, true
	} else { // The pods of before serve meanwhile, as many as are wanted now.
		waits.how.Around = c.aroundNow()
		waits.workload.SetReplicas(c.in.Spec.Workload().Replicas, c.optionsFor(present.inputs))
		waits.workload = withAccountOf(waits.workload, present.workload)
	}
	live := c.jobNamed(name)
	waits.job = jobDecision{name: name, live: live, waitsFor: c.unfinishedJob(name)}
	if live == nil && waits.job.waitsFor == "" {
		waits.job.spec, waits.job.workload, waits.job.cause = c.in.beforeRollout(), present.workload, c.rolloutOfJob(present).Cause
	}
	if waits.refusal == nil {
		waits.refusal = c.whyJob(&waits.job, present.workload)
	}
	return &waits
}

// whyJob returns why a spec that waits for its command is not in force. of is the workload of the spec. No text has a line of the command's output: failing
// migrations print passwords.
func (c decider) whyJob(job *jobDecision, of *resource.Workload) error {
	namespace, waits := c.in.Owner.GetNamespace(), &reconciler.WaitingError{Reason: appv1.ReasonBeforeRollout}
	live, awaits, again := job.live, false, time.Duration(0)
	cause := health.Cause{}
	if live != nil {
		awaits, again = health.JobAwaitsPod(live, c.seen.At)
		cause = c.causeOfJob(live, of)
	}
	switch {
	case job.waitsFor != "":
		waits.Message = fmt.Sprintf(messageJobWaits, job.name, "Job "+job.waitsFor)
	case live == nil:
		waits.Message = fmt.Sprintf(messageJobStarts, job.name)
	case health.JobSuspended(live):
		waits.Message = health.SuspendedJobMessage(live)
	case health.JobEndedBy(live, batchv1.JobFailed):
		serves := ""
		if c.seen.Deployment() != nil {
			serves = messageBeforeServes
		}
		return reconciler.Stalled(appv1.ReasonBeforeRolloutFailed, messageJobFailed, live.Name, jobFailure(live), namespace, live.Name, serves, appv1.AnnotationRefresh)
	case live.DeletionTimestamp != nil:
		waits.Message = fmt.Sprintf(messageJobDeleted, live.Name)
	case awaits:
		waits.Message, waits.RetryAfter = fmt.Sprintf(messageJobStarts, live.Name), again
		if again == 0 {
			waits.Message = fmt.Sprintf(messageJobWithoutPod, live.Name, health.JobPodPatience, namespace, live.Name)
		}
	case cause != health.Cause{}:
		waits.Message = fmt.Sprintf(messageJobCause, live.Name, cause)
	default:
		waits.Message = fmt.Sprintf(messageJobRuns, live.Name, live.CreationTimestamp.UTC().Format("2006-01-02 15:04:05"))
	}
	return waits
}

// causeOfJob returns why a pod of a Job does not run, the zero Cause if that is not known. The cache has Jobs without their pod template, so the Job is built
// once more for the values that the cause must not have.
func (c decider) causeOfJob(live *batchv1.Job, of *resource.Workload) health.Cause {
	pods := slices.DeleteFunc(slices.Clone(c.seen.jobPods), func(pod corev1.Pod) bool { return !metav1.IsControlledBy(&pod, live) })
	if len(pods) == 0 {
		return health.Cause{}
	}
	return health.WorstFor(pods, false, resource.BuildJob(of, c.in.beforeRollout(), live.Name, ""))
}

// jobFailure returns the reason of a failed Job in words.
func jobFailure(job *batchv1.Job) string {
	if health.JobExceededDeadline(job) {
		return messageJobDeadline
	}
	return messageJobCommand
}

// startsRollout reports whether the present spec changes the pods, or no pods exist yet. A foreign Deployment that the owner does not adopt,
// or cannot adopt, blocks the spec, so the spec releases nothing.
func (c decider) startsRollout(present *builtSpec) bool {
	live := c.seen.Deployment()
	switch {
	case live == nil:
		return c.releasesAnew(present)
	case !c.seen.isOwned(c.in.Owner):
		return c.in.adoptsObjects() && c.seen.taken == nil
	}
	recorded, err := c.inputsInForce(live)
	if err == nil && recorded.Refresh != present.inputs.Refresh {
		return true
	}
	stable := c.stableWorkload()
	switch {
	case stable == nil && !c.in.OwnsRecord(live) && c.wasInForce(): // Another writer has changed the record, as kubectl rollout undo does, and nothing else has changed.
		return false
	case stable == nil: // The record is a hash.
		return present.liveChanged
	case stable.TemplateKept:
		changed, err := c.changesTemplate(stable, present.workload)
		return present.liveChanged || err == nil && changed
	}
	return !equality.Semantic.DeepEqual(resource.WithoutConfig(&stable.Template), resource.WithoutConfig(&present.workload.Template))
}

// releasesAnew is releases for a workload without a Deployment. A deleted Deployment is restored without a command, unless the command of a
// change has not succeeded.
func (c decider) releasesAnew(present *builtSpec) bool {
	if !c.in.HadWorkload() {
		return true
	}
	if before, _, err := c.lastApplied(); err == nil && before != nil {
		return !equality.Semantic.DeepEqual(resource.WithoutConfig(&before.Template), resource.WithoutConfig(&present.workload.Template))
	}
	if len(c.seen.jobs) == 0 {
		return false
	}
	latest := &c.seen.jobs[0]
	return latest.Name != c.awaitedJob(present) || !health.JobEndedBy(latest, batchv1.JobComplete)
}

// rolloutOfJob returns the rollout of the present spec. Its cause has the identity of the pods, the fields that the spec does without, and the account of the
// pods, which is not part of their identity.
func (c decider) rolloutOfJob(present *builtSpec) resource.Rollout {
	asked := append([]string{c.in.Spec.Identity()}, slices.Sorted(slices.Values(c.in.Spec.Without()))...)
	if account := c.accountOf(""); account != "" {
		asked = append(asked, "account "+account)
	}
	return resource.NewRollout(present.workload, strings.Join(asked, " "), present.inputs.Refresh, c.in.beforeRollout())
}

// awaitedJob returns the name of the Job that the present spec waits for: the latest Job of the owner, if the Job is about the present spec and its rollout
// is not in force, else a Job after the latest Job. A spec that comes back after another spec has a Job of its own. Defaults, sizes and renderings that
// have changed meanwhile are no other spec: they run no command again. Nor does a field that replaces no pod: the Job's name is that of the pod template.
func (c decider) awaitedJob(present *builtSpec) string {
	rollout := c.rolloutOfJob(present)
	after, recorded := "", resource.BuildInputs{} // The first Job of a workload is after none, after the UID of a live Deployment, or after the recorded Job.
	if live := c.seen.Deployment(); live != nil {
		after = string(live.UID)
		if inputs, err := c.inputsInForce(live); err == nil && inputs.Job != "" {
			after, recorded = inputs.Job, inputs
		}
	}
	switch later := c.jobAfter(&recorded); {
	case later == nil:
		return rollout.JobAfter(after)
	case later.Annotations[appv1.AnnotationRollout] == rollout.Cause, later.Name == rollout.JobAfter(after),
		slices.ContainsFunc(c.seen.jobs, func(before batchv1.Job) bool { return later.Name == rollout.JobAfter(before.Name) }):
		return later.Name
	default:
		return rollout.JobAfter(later.Name)
	}
}

// jobAfter returns the latest Job of the owner, nil if it is the recorded Job, or older: the recorded Job may be gone.
func (c decider) jobAfter(recorded *resource.BuildInputs) *batchv1.Job {
	if len(c.seen.jobs) == 0 {
		return nil
	}
	latest := &c.seen.jobs[0]
	if latest.Name == recorded.Job || latest.CreationTimestamp.Before(&recorded.JobAt) {
		return nil
	}
	return latest
}

// leaveJob returns the present workload, whose pods wait for no command. The record has the latest Job, also a Job about another spec
// that was left before its rollout: that spec has another Job when it comes back.
func (c decider) leaveJob(present *builtSpec) (*builtSpec, error) {
	if later := c.jobAfter(&present.inputs); later != nil {
		return c.recordJob(present, later.Name, "", later)
	}
	return present, nil
}

// recordJob returns the present workload with the name and the time of a Job in its record, and with the cause of the rollout that waited for the Job, empty for
// a Job about another spec. job is nil for a Job that is gone, or planned.
func (c decider) recordJob(present *builtSpec, name, cause string, job *batchv1.Job) (*builtSpec, error) {
	inputs := present.inputs
	switch {
	case job != nil:
		inputs.JobAt = metav1.NewTime(job.CreationTimestamp.UTC())
	case inputs.Job != name:
		inputs.JobAt = metav1.Time{}
	}
	inputs.Job, inputs.JobCause = name, cause
	recorded := c.rebuildChosen(present, inputs)
	if len(recorded.errs) > 0 {
		return nil, fmt.Errorf("the name of a Job makes the spec invalid: %w", recorded.errs.ToAggregate())
	}
	return recorded, nil
}

// jobBeforeCanary returns the name of the Job after whose success the canary of the present spec was created, empty if there is none. The Job, and those before
// it, from whose names its name was made, may have been deleted: the canary has the cause of the rollout. The canary of an earlier release has the name alone.
func (c decider) jobBeforeCanary(present *builtSpec, name string) string {
	history, ok := c.canaryHistory()
	if !ok {
		return ""
	}
	is, err := resource.DecodeInputs(history.Inputs)
	if err != nil {
		return ""
	}
	byCause := is.JobCause != "" && is.JobCause == c.rolloutOfJob(present).Cause && c.jobAfter(&is) == nil // A later Job is about another spec.
	if is.Job != name && !byCause {
		return ""
	}
	return is.Job
}

// jobNamed returns the Job of a name, nil if there is none.
func (c decider) jobNamed(name string) *batchv1.Job {
	for i := range c.seen.jobs {
		if c.seen.jobs[i].Name == name {
			return &c.seen.jobs[i]
		}
	}
	return nil
}

// unfinishedJob returns the name of a Job other than one, which has not ended, empty if there is none.
func (c decider) unfinishedJob(other string) string {
	for i := range c.seen.jobs {
		if job := &c.seen.jobs[i]; job.Name != other && health.JobEnd(job) == nil {
			return job.Name
		}
	}
	return ""
}
