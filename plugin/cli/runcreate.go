package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os/signal"
	"slices"
	"syscall"

	batchv1 "k8s.io/api/batch/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	appv1 "huolala.cn/app-operator/api/v1"
	"huolala.cn/app-operator/internal/secrecy"
	"huolala.cn/app-operator/plugin/view"
)

const (
	// findTries is how often a Job is looked for that may have been created.
	findTries = 3
	// exitPipe is the exit status after the reader of the output has ended, as of a program that SIGPIPE ends.
	exitPipe = 128 + int(syscall.SIGPIPE)
)

// The texts about a Job that may or may not exist.
const (
	messageNotFoundYet = "was not found; if it comes all the same, delete it: %s"
	messageNotKnown    = "may exist; see %s, and delete it: %s"
)

// untilPipeBreaks is runJob. Once the reader of the output has ended, as with "| head", it deletes the Job as after Ctrl-C. The signal SIGPIPE does
// not decide: a lost connection with the API server raises it as well.
func (f *runFollower) untilPipeBreaks(ctx context.Context) error {
	signal.Ignore(syscall.SIGPIPE)
	defer signal.Reset(syscall.SIGPIPE)
	piped, broken := context.WithCancel(ctx)
	defer broken()
	written := *f.root
	written.Out, written.Err = untilBroken(f.Out, broken), untilBroken(f.Err, broken)
	f.root = &written
	err := f.runJob(piped)
	if piped.Err() != nil && ctx.Err() == nil {
		return &exit{code: exitPipe}
	}
	return err
}

// pipeWriter calls broken once nobody reads its output.
type pipeWriter struct {
	to     io.Writer
	broken func()
}

// untilBroken returns a pipeWriter; a terminal, which does not break so, as it is.
func untilBroken(to io.Writer, broken func()) io.Writer {
	if isTerminal(to) {
		return to
	}
	return pipeWriter{to, broken}
}

// Write implements io.Writer.
func (w pipeWriter) Write(p []byte) (int, error) {
	n, err := w.to.Write(p)
	if errors.Is(err, syscall.EPIPE) {
		w.broken()
	}
	return n, err
}

// createJob creates the Job. If the answer is lost, createJob looks for the Job, which has the name that the plug-in chose.
func (f *runFollower) createJob(ctx context.Context) error {
	made, err := f.c.createRun(ctx, f.job)
	if err == nil {
		f.job = made
		return nil
	}
	if !mayBeDone(err) {
		return err
	}
	found, lookErr := f.findJob(ctx)
	if found != nil {
		f.job = found
		return nil
	}
	name, remove := f.jobName(), view.CommandLine(f.job.Namespace, "kubectl delete job", f.job.Name)
	unclear := fmt.Sprintf(messageNotFoundYet, remove)
	if !apierrors.IsNotFound(lookErr) {
		unclear = fmt.Sprintf(messageNotKnown, view.CommandLine(f.job.Namespace, "kubectl get job", f.job.Name), remove)
	}
	if ctx.Err() != nil {
		fmt.Fprintln(f.Err, name+" "+unclear)
		return err
	}
	return fmt.Errorf("%w. %s %s", err, name, unclear)
}

// mayBeDone reports whether a write may have been done although it failed: there was no answer, or a server could not go on.
func mayBeDone(err error) bool {
	var answer apierrors.APIStatus
	var connecting *net.OpError
	switch {
	case errors.As(err, &answer):
		// The client repeats a request by itself where a server requests it.
		return answer.Status().Code >= http.StatusInternalServerError || apierrors.IsAlreadyExists(err)
	case errors.As(err, &connecting):
		return connecting.Op != "dial"
	}
	return true
}

// findJob returns the Job of the run, also once the context has ended; an error if it is not there after some tries, or cannot be read.
func (f *runFollower) findJob(ctx context.Context) (*batchv1.Job, error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), deleteWithin)
	defer cancel()
	for try := 1; ; try++ {
		found, err := f.c.kube.BatchV1().Jobs(f.job.Namespace).Get(ctx, f.job.Name, metav1.GetOptions{})
		switch {
		case err == nil && isSameRun(found, f.job):
			return found, nil
		case err == nil: // The Job of another user.
			return nil, apierrors.NewNotFound(batchv1.Resource("jobs"), f.job.Name)
		case apierrors.IsForbidden(err) || try == findTries || !sleepFor(ctx, waitEvery):
			return nil, err
		}
	}
}

// isSameRun reports whether a run has sent a Job.
func isSameRun(found, sent *batchv1.Job) bool {
	of, by := found.Spec.Template.Spec.Containers, sent.Spec.Template.Spec.Containers
	return found.Labels[appv1.LabelRun] == sent.Labels[appv1.LabelRun] && len(of) > 0 && slices.Equal(of[0].Command, by[0].Command) && of[0].Name == by[0].Name
}

// isGone reports whether the Job does not exist any more, or is being deleted.
func (f *runFollower) isGone(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), deleteWithin)
	defer cancel()
	found, err := f.c.kube.BatchV1().Jobs(f.job.Namespace).Get(ctx, f.job.Name, metav1.GetOptions{})
	return apierrors.IsNotFound(err) || err == nil && (found.UID != f.job.UID || found.DeletionTimestamp != nil)
}

// createRun creates the Job of a run. A refusal is in words, without private values of the Job.
func (c *clients) createRun(ctx context.Context, job *batchv1.Job) (*batchv1.Job, error) {
	made, err := c.kube.BatchV1().Jobs(job.Namespace).Create(ctx, job, metav1.CreateOptions{FieldManager: fieldManager})
	var refusal apierrors.APIStatus
	switch {
	case err == nil:
		return made, nil
	// An answer about rights names no object, as the object does not exist; an answer of a quota or of a policy names the Job.
	case apierrors.IsForbidden(err) && errors.As(err, &refusal) && refusal.Status().Details != nil && refusal.Status().Details.Name != "":
		return nil, errors.New(view.RejectedRun(job, refusal.Status().Message))
	}
	return nil, inWords(secrecy.RedactError(err, job), "create", "Job "+job.Name, job.Namespace)
}
