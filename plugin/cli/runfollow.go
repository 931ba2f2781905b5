package cli

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/utils/ptr"

	"huolala.cn/app-operator/plugin/view"
)

const (
	// deleteWithin is how long the deletion of a Job may take after Ctrl-C.
	deleteWithin = 10 * time.Second
	// answerWithin is how long the API server may not answer, or have no log, while a command runs, which may take any time.
	answerWithin = 2 * time.Minute
)

// uselessRun is an error after which the Job has no purpose: its command does not start, or gets no input.
type uselessRun struct{ error }

// Unwrap returns the error itself.
func (e uselessRun) Unwrap() error { return e.error }

// deleted is the end of a sentence about a Job that was deleted.
const deleted = "is deleted"

// runFollower runs the Job of a command, and follows it.
type runFollower struct {
	*root
	c   *clients
	o   *runOptions
	job *batchv1.Job
	// tty is true if the command has a terminal.
	tty bool
}

// jobName returns how the Job is called in a sentence.
func (f *runFollower) jobName() string { return "Job " + f.job.Namespace + "/" + f.job.Name }

// runJob creates the Job, follows it, and returns its exit code as an error, nil for 0.
func (f *runFollower) runJob(ctx context.Context) error {
	if err := f.createJob(ctx); err != nil {
		return err
	}
	if ctx.Err() != nil {
		fmt.Fprintln(f.Err, f.jobName()+" "+f.deleteJob(ctx))
		return ctx.Err()
	}
	follow := view.CommandLine(f.job.Namespace, "kubectl logs -f", "job/"+f.job.Name)
	if f.o.detach {
		f.printf("%s is started. Follow it: %s\n", f.jobName(), follow)
		return nil
	}
	fmt.Fprintf(f.Err, "%s has image %s\n", f.jobName(), f.job.Spec.Template.Spec.Containers[0].Image)
	ended, err := f.followCommand(ctx)
	var useless uselessRun
	switch {
	case ctx.Err() != nil:
		fmt.Fprintln(f.Err, f.jobName()+" "+f.deleteJob(ctx))
		return ctx.Err()
	case errors.As(err, &useless):
		return fmt.Errorf("%s: %w. The Job %s", f.jobName(), err, f.deleteJob(ctx))
	case err != nil:
		return fmt.Errorf("%s: %w. The Job stays; follow it: %s", f.jobName(), err, follow)
	}
	if f.o.ttl == 0 {
		if done := f.deleteJob(ctx); done != deleted {
			fmt.Fprintln(f.Err, f.jobName()+" "+done)
		}
	}
	return f.resultError(ended)
}

// resultError returns the exit code of a command as an error, nil for 0.
func (f *runFollower) resultError(ended *view.CommandRun) error {
	switch {
	case ended.ExitCode == nil:
		return errors.New(f.jobName() + ": " + ended.Problem)
	case ended.Note != "":
		fmt.Fprintln(f.Err, f.jobName()+": "+ended.Note)
	}
	if *ended.ExitCode == 0 {
		return nil
	}
	return &exit{code: int(*ended.ExitCode)}
}

// followCommand waits for the command, prints what it writes, and returns its end.
func (f *runFollower) followCommand(ctx context.Context) (*view.CommandRun, error) {
	started, err := f.awaitStart(ctx)
	if err != nil {
		return nil, err
	}
	switch {
	case f.tty && started.Running:
		err = f.attachTerminal(ctx, started.Pod)
	case f.o.stdin && started.Running:
		err = f.logWithInput(ctx, started.Pod)
	case started.Pod != "":
		err = f.printLog(ctx, started.Pod)
	}
	if err != nil {
		return nil, err
	}
	return f.awaitEnd(ctx)
}

// awaitStart waits until the command has started, for as long as the API server answers. A command that does not start is a uselessRun. A command
// whose state cannot be read may have started, and is useless only if it waits for an input.
func (f *runFollower) awaitStart(ctx context.Context) (*view.CommandRun, error) {
	began, since, problem := time.Now(), time.Now(), ""
	for {
		run, err := f.readState(ctx, answerWithin)
		switch {
		case err != nil && f.o.stdin: // It would wait for its input for ever.
			return nil, uselessRun{err}
		case err != nil:
			return nil, err
		}
		if run.Running || run.ExitCode != nil {
			return run, nil
		}
		if run.Problem != problem {
			problem, since = run.Problem, time.Now()
			if problem != "" && !run.Over {
				fmt.Fprintln(f.Err, f.jobName()+" waits: "+problem)
			}
		}
		if failed := f.startFailure(run, time.Since(began), time.Since(since)); failed != "" {
			return nil, uselessRun{errors.New(failed)}
		}
		if !sleepFor(ctx, waitEvery) {
			return nil, ctx.Err()
		}
	}
}

// startFailure returns why a command that has not started is given up, empty while it is not. waited is the time since the Job was created, same
// the time that the problem has been the same.
func (f *runFollower) startFailure(run *view.CommandRun, waited, same time.Duration) string {
	why := strings.TrimRight(run.Problem+". "+run.Advice, ". ")
	switch {
	case run.Over, run.Problem != "" && !run.Patient && same >= f.o.grace:
		return "the command does not start: " + why
	case waited < f.o.timeout:
		return ""
	case run.Problem != "":
		return fmt.Sprintf("the command has not started within %s: %s", f.o.timeout, why)
	}
	return fmt.Sprintf("the command has not started within %s; wait longer by --timeout", f.o.timeout)
}

// awaitEnd waits until the command has an exit code, or will have none, for as long as the API server answers.
func (f *runFollower) awaitEnd(ctx context.Context) (*view.CommandRun, error) {
	for {
		run, err := f.readState(ctx, answerWithin)
		if err != nil || run.ExitCode != nil || run.Over {
			return run, err
		}
		if !sleepFor(ctx, waitEvery) {
			return nil, ctx.Err()
		}
	}
}

// readState returns the state of the Job. A request without an answer is sent again within a time.
func (f *runFollower) readState(ctx context.Context, within time.Duration) (*view.CommandRun, error) {
	again := f.newRetrier(f.jobName(), within)
	for {
		bounded, end := again.boundRead(ctx)
		run, err := f.readJob(bounded)
		end()
		if ctx.Err() != nil || !again.wantsRetry(err) {
			return run, err
		}
		if !sleepFor(ctx, waitEvery) {
			return nil, ctx.Err()
		}
	}
}

// readJob reads the Job, its pods, and, if there are none, its events: without the right to events, the reason is not known.
func (f *runFollower) readJob(ctx context.Context) (*view.CommandRun, error) {
	job, err := f.c.kube.BatchV1().Jobs(f.job.Namespace).Get(ctx, f.job.Name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) || err == nil && job.UID != f.job.UID {
		return view.RunOf(nil, nil, nil), nil
	}
	if err != nil {
		return nil, inWords(err, "get", "Job "+f.job.Name, f.job.Namespace)
	}
	core := f.c.kube.CoreV1()
	pods, err := core.Pods(job.Namespace).List(ctx, metav1.ListOptions{LabelSelector: labels.Set{batchv1.JobNameLabel: job.Name}.String()})
	if err != nil {
		return nil, inWords(err, "list", "pods", job.Namespace)
	}
	var events corev1.EventList
	if len(pods.Items) == 0 {
		about := fields.OneTermEqualSelector("involvedObject.name", job.Name).String()
		if found, err := core.Events(job.Namespace).List(ctx, metav1.ListOptions{FieldSelector: about, Limit: f.c.chunk}); err == nil {
			events = *found
		}
	}
	return view.RunOf(job, pods.Items, events.Items), nil
}

// deleteJob deletes the Job with its pod, also once the context has ended, and returns what became of the Job. A deletion by others at the same time can
// make the request fail, with an answer about the UID.
func (f *runFollower) deleteJob(ctx context.Context) string {
	within, cancel := context.WithTimeout(context.WithoutCancel(ctx), deleteWithin)
	defer cancel()
	err := f.c.kube.BatchV1().Jobs(f.job.Namespace).Delete(within, f.job.Name, metav1.DeleteOptions{
		PropagationPolicy: ptr.To(metav1.DeletePropagationBackground), Preconditions: metav1.NewUIDPreconditions(string(f.job.UID)),
	})
	if err == nil || apierrors.IsNotFound(err) || f.isGone(ctx) {
		return deleted
	}
	command := view.CommandLine(f.job.Namespace, "kubectl delete job", f.job.Name)
	return fmt.Sprintf("is still there: %v; delete it: %s", inWords(err, "delete", "Job "+f.job.Name, f.job.Namespace), command)
}
