// Package task reconciles a Task: a CronJob, built from the fields of the Task or from the live pod template of an App. It observes the live
// objects (observed), decides which spec is in force (decision), applies the CronJob of that spec, and reports how the runs are doing. The
// report follows from the live objects and the status before: there is no other memory.
package task

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appv1 "huolala.cn/app-operator/api/v1"
	"huolala.cn/app-operator/api/v1/validation"
	"huolala.cn/app-operator/internal/apply"
	"huolala.cn/app-operator/internal/children"
	"huolala.cn/app-operator/internal/reconciler"
	"huolala.cn/app-operator/internal/workload"
	"huolala.cn/app-operator/resource"
)

// Reconciler reconciles Tasks.
type Reconciler struct {
	workload.Reconciler
}

// Input is the input of the reconcile of one Task.
type Input struct {
	// Task is the Task. Undecodable is the reason why its spec cannot be decoded, nil otherwise; with a reason, the spec is empty.
	Task        *appv1.Task
	Undecodable error
	// Errs are the errors of the spec.
	Errs field.ErrorList
}

// fieldManager returns the field manager of the CronJob.
func (in *Input) fieldManager() string { return resource.KindTask.FieldManager() }

// observed is the live state of one Task. It is read once in a reconcile and never written afterwards.
type observed struct {
	// at is the time of the reconcile.
	at time.Time
	// object is the CronJob of the Task's name, nil if there is none. It may be of others.
	object *batchv1.CronJob
	// jobs are the Jobs of the Task's CronJob, the latest first.
	jobs []batchv1.Job
	// crowded is set if the CronJob has more than maxJobs Jobs. Then no Jobs are listed.
	crowded bool
	// pods are the pods of the Task that the cache has.
	pods []corev1.Pod
}

// cronJob returns the CronJob that the Task controls, nil if there is none.
func (o *observed) cronJob(task *appv1.Task) *batchv1.CronJob {
	if o.object != nil && metav1.IsControlledBy(o.object, task) {
		return o.object
	}
	return nil
}

// decision is the decision on the CronJob of a Task.
type decision struct {
	// spec is the Task with the spec in force, nil for none. job is its CronJob, and size the named size of the job.
	spec *appv1.Task
	job  *resource.ScheduledJob
	size resource.ResolvedSize
	// object is the CronJob to apply, nil for none: that of job; without a job, the live one as it was last applied, if its suspension differs
	// from the present spec.
	object *batchv1.CronJob
	// refusal is why the present spec is not in force, nil if it is.
	refusal error
}

// Reconcile observes the objects of a Task, decides which spec is in force, applies its CronJob, and reports. It writes the status of the
// Task, and no other field.
func (r *Reconciler) Reconcile(ctx context.Context, in *Input) (reconciler.Report, error) {
	seen, err := r.observeCronJob(ctx, in.Task)
	if err != nil {
		return reconciler.Report{}, err
	}
	want, err := r.decideCronJob(ctx, in, seen)
	if err != nil {
		return reconciler.Report{}, err
	}
	done := r.applyCronJob(ctx, in, seen, want)
	if done.after != nil {
		after := *seen
		after.object = done.after
		seen = &after
	}
	report := newReport(in, seen, want, done)
	return report, reconciler.Aggregate(want.refusal, done.err)
}

// observeCronJob reads the CronJob with its Jobs and pods from the cache.
func (r *Reconciler) observeCronJob(ctx context.Context, task *appv1.Task) (*observed, error) {
	seen := &observed{at: r.Clock.Now()}
	var err error
	if seen.object, err = workload.GetOrNil(ctx, r.Client, client.ObjectKeyFromObject(task), &batchv1.CronJob{}); err != nil {
		return nil, err
	}
	live := seen.cronJob(task)
	if live == nil {
		return seen, nil
	}
	var jobs batchv1.JobList
	// The Jobs are read and not written, so that they need no copy.
	if err := r.Client.List(ctx, &jobs, client.InNamespace(task.Namespace), client.MatchingFields{children.IndexOwner: string(live.UID)},
		client.Limit(maxJobs+1), client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("list Jobs: %w", err)
	}
	if len(jobs.Items) > maxJobs {
		seen.crowded = true
		return seen, nil
	}
	seen.jobs = latestFirst(slices.DeleteFunc(jobs.Items, func(job batchv1.Job) bool { return !metav1.IsControlledBy(&job, live) }))
	if seen.activeJobs() > 0 {
		seen.pods, err = workload.ListPods(ctx, r.Client, task, task.Name, map[string]string{appv1.LabelTask: task.Name})
	}
	return seen, err
}

// decideCronJob returns the CronJob to apply: of the present spec, or of the recorded one while the present spec is not valid. Without the
// App that a spec names, there is none.
func (r *Reconciler) decideCronJob(ctx context.Context, in *Input, seen *observed) (*decision, error) {
	want := &decision{spec: in.Task}
	switch {
	case in.Undecodable != nil:
		want = earlierDecision(in, seen, workload.InvalidResource(in.Undecodable))
	case len(in.Errs) > 0:
		want = earlierDecision(in, seen, workload.InvalidSpec(in.Errs))
	}
	errs, err := r.buildCronJob(ctx, in, want)
	if err == nil && len(errs) > 0 && want.refusal == nil {
		want = earlierDecision(in, seen, workload.InvalidSpec(errs))
		errs, err = r.buildCronJob(ctx, in, want)
	}
	if err != nil {
		return nil, err
	}
	if len(errs) > 0 { // The record is no longer valid either.
		want.job = nil
	}
	want.object, err = wantedObject(in, seen, want.job)
	return want, err
}

// wantedObject returns the CronJob to apply: that of a job; without a job, the live one as it was last applied, if its suspension differs from
// the present spec. A spec that cannot be decoded has no suspension.
func wantedObject(in *Input, seen *observed, job *resource.ScheduledJob) (*batchv1.CronJob, error) {
	if job != nil {
		return withSince(job.CronJob, seen.object, in.fieldManager(), seen.at), nil
	}
	return suspendedObject(in, seen)
}

// suspendedObject returns the live CronJob as it was last applied, with the suspension of the present spec; nil if its suspension is the same.
func suspendedObject(in *Input, seen *observed) (*batchv1.CronJob, error) {
	live := seen.cronJob(in.Task)
	if live == nil || !children.Applies(live, in.fieldManager()) || !in.changesSuspension(live) {
		return nil, nil
	}
	kept, err := keepJob(live, in.fieldManager(), in.Task.Spec.Suspended)
	if err != nil {
		return nil, err
	}
	return withSince(kept, live, in.fieldManager(), seen.at), nil
}

// changesSuspension reports whether the present spec states another suspension than a live CronJob has.
func (in *Input) changesSuspension(live *batchv1.CronJob) bool {
	return in.Undecodable == nil && isSuspended(live) != in.Task.Spec.Suspended
}

// earlierDecision returns the decision for the recorded spec of the live CronJob, with the suspension of the present spec; and for no
// CronJob without a valid record.
func earlierDecision(in *Input, seen *observed, refusal error) *decision {
	want := &decision{refusal: refusal}
	live := seen.cronJob(in.Task)
	if live == nil || !children.OwnsAnnotation(live, in.fieldManager(), appv1.AnnotationLastAppliedSpec) {
		return want
	}
	past, err := resource.PastTask(in.Task, live.Annotations[appv1.AnnotationLastAppliedSpec])
	if err != nil || len(validation.Task(past)) > 0 {
		return want
	}
	past.Spec.Suspended = in.Task.Spec.Suspended
	if in.Undecodable != nil {
		past.Spec.Suspended = isSuspended(live)
	}
	want.spec = past
	return want
}

// buildCronJob builds the CronJob of a decision. It reads the Deployment of the App that the spec names.
func (r *Reconciler) buildCronJob(ctx context.Context, in *Input, want *decision) (field.ErrorList, error) {
	if want.spec == nil {
		return nil, nil
	}
	var base *resource.Base
	if app := want.spec.Spec.App; app != "" {
		live, err := workload.GetOrNil(ctx, r.Client, client.ObjectKey{Namespace: in.Task.Namespace, Name: app}, &appsv1.Deployment{})
		switch {
		case err != nil:
			return nil, err
		case live == nil || !isOfApp(live, app):
			if want.refusal == nil {
				want.refusal = reconciler.Waiting(appv1.ReasonDependencyNotReady, messageAppMissing, app, in.Task.Namespace)
			}
			return nil, nil
		}
		base = &resource.Base{Template: &live.Spec.Template, Main: resource.MainContainer(live).Name, Selector: live.Spec.Selector.MatchLabels}
	}
	present, err := r.Defaults.Present(ctx, in.Task.Namespace)
	if err != nil {
		return nil, fmt.Errorf("sizes: %w", err)
	}
	if present.Unknown != "" && want.spec.Spec.Size.Named() {
		return workload.UnknownDefaults(present.Unknown, field.NewPath("spec")), nil
	}
	want.size = present.Sizes.Resolve(want.spec.Spec.Size)
	var errs field.ErrorList
	want.job, errs = resource.Task(want.spec, base, want.size)
	return append(want.size.Undefined(present.Sizes, field.NewPath("spec", "size")), errs...), nil
}

// isOfApp reports whether a Deployment is the one of the App of its name.
func isOfApp(live *appsv1.Deployment, app string) bool {
	c := metav1.GetControllerOfNoCopy(live)
	return c != nil && children.IsOfOurGroup(c) && c.Kind == resource.KindApp.Name && c.Name == app && live.DeletionTimestamp == nil
}

// outcome is the outcome of the apply of a CronJob.
type outcome struct {
	// after is the CronJob after the apply, nil if nothing is known of it.
	after   *batchv1.CronJob
	changes apply.ChangeSet
	// pending is what the end of a pause changes, empty for nothing.
	pending string
	err     error
}

// applyCronJob applies the CronJob of a decision. If the API server refuses it, the live one follows the suspension all the same.
func (r *Reconciler) applyCronJob(ctx context.Context, in *Input, seen *observed, want *decision) outcome {
	if want.object == nil {
		return outcome{}
	}
	out := r.applyObject(ctx, in, seen, want)
	if want.job == nil || in.Task.Spec.Paused || !isRefused(out.err) {
		return out
	}
	kept, err := suspendedObject(in, seen)
	if err != nil || kept == nil {
		out.err = reconciler.Aggregate(out.err, err)
		return out
	}
	refusal := out.err
	out = r.applyObject(ctx, in, seen, &decision{object: kept})
	out.err = joinRefusal(refusal, out.err)
	return out
}

// joinRefusal returns the error of a refused CronJob whose suspension was applied alone, with an error or nil. Of two refusals the first one is
// reported, as it is about the present spec, and retried: no watch shows that a policy has changed.
func joinRefusal(refusal, suspension error) error {
	if !isRefused(suspension) {
		return reconciler.Aggregate(refusal, suspension)
	}
	var stalled *reconciler.StalledError
	if !errors.As(refusal, &stalled) {
		return refusal
	}
	retried := *stalled
	retried.RetryAfter = reconciler.MinRequeue(stalled.RetryAfter, workload.Unwatched)
	return &retried
}

// isRefused reports whether the API server, or a policy, refuses an object.
func isRefused(err error) bool {
	if err == nil {
		return false
	}
	reason, _ := reconciler.ReasonAndMessageOf(err)
	return reason == appv1.ReasonForbidden || apply.Refused(err)
}

// applyObject applies the object of a decision. While the Task is paused, it finds out whether there is anything to apply.
func (r *Reconciler) applyObject(ctx context.Context, in *Input, seen *observed, want *decision) outcome {
	owner := &workload.Input{Owner: in.Task, Kind: resource.KindTask, Name: in.Task.Name}
	object := workload.NewChild(want.object, seen.object)
	for _, obj := range []client.Object{want.object, &batchv1.Job{}} { // Without its Jobs, nothing true can be reported of a CronJob.
		object.Unavailable = cmp.Or(object.Unavailable, r.Unavailable(ctx, owner, obj))
	}
	req := workload.NewRequest(owner, object)
	if want.job != nil {
		req.Policy.DefaultLabels = want.job.Workload.DefaultLabels
	}
	mode := r.Mode
	if in.Task.Spec.Paused {
		mode = apply.Local
	}
	done, err := r.RunRequest(ctx, req, mode)
	out := outcome{changes: done.Changes(), err: err}
	if in.Task.Spec.Paused {
		if out.changes.Waits() {
			_, line := out.changes.Summary()
			out.pending = line + "; " + workload.DigestDesired(want.object.Spec) // The annotation of the time may change at any time.
		}
		out.changes = nil // Nothing is written.
		return out
	}
	out.after, _ = done.Objects[0].Live.(*batchv1.CronJob)
	return out
}
