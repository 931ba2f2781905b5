package cli

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
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
	// maxRunPart is how many bytes of a line of a log are printed at once: no more than view.LogLine keeps.
	maxRunPart = 4 << 10
	// runTries is how often in a row the log of a command may break off without a further line.
	runTries = 5
	// answerWithin is how long the API server may not answer while a command runs, which may take any time.
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

// awaitStart waits until the command has started. An error but that of the context is a uselessRun.
func (f *runFollower) awaitStart(ctx context.Context) (*view.CommandRun, error) {
	began, since, problem := time.Now(), time.Now(), ""
	for {
		run, err := f.readState(ctx, f.o.timeout-time.Since(began))
		if err != nil {
			return nil, uselessRun{err}
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
		run, err := f.readJob(ctx)
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

// printLog prints the log of the command until the command has ended. A log that breaks off goes on after the last line: only a log that is
// requested after the end of the command is complete.
func (f *runFollower) printLog(ctx context.Context, pod string) error {
	style, err := f.styleOf(f.Out)
	if err != nil {
		return err
	}
	out := f.Out
	if isTerminal(f.Out) {
		out = lineCleaner{f.Out, style}
	}
	var last time.Time
	for failures := 0; ; {
		run, err := f.readState(ctx, answerWithin)
		if err != nil || run.Over {
			return err
		}
		before := last
		last, err = f.logSince(ctx, pod, last, out)
		if failures++; err == nil || last.After(before) {
			failures = 0
		}
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case apierrors.IsForbidden(err), err != nil && failures >= runTries:
			return inWords(err, "get", "the log of pod "+pod, f.job.Namespace)
		case err == nil && run.ExitCode != nil:
			return nil
		}
		if !sleepFor(ctx, waitEvery) {
			return ctx.Err()
		}
	}
}

// logSince prints the lines of the log after a time, zero for all, and returns the time of the last one.
func (f *runFollower) logSince(ctx context.Context, pod string, after time.Time, out io.Writer) (last time.Time, err error) {
	options := &corev1.PodLogOptions{Container: f.job.Spec.Template.Spec.Containers[0].Name, Follow: true, Timestamps: true}
	if !after.IsZero() {
		options.SinceTime = &metav1.Time{Time: after}
	}
	stream, err := f.c.kube.CoreV1().Pods(f.job.Namespace).GetLogs(pod, options).Stream(ctx)
	if err != nil {
		return after, err
	}
	defer func() { _ = stream.Close() }()
	return copyLog(out, stream, after)
}

// copyLog copies a log whose lines begin with their time, without the times, and returns the time of the last whole line. Lines up to the
// time after are left out.
func copyLog(to io.Writer, from io.Reader, after time.Time) (last time.Time, err error) {
	reader := bufio.NewReaderSize(from, maxRunPart)
	last = after
	at, begins, known := after, true, false
	for {
		part, err := reader.ReadSlice('\n')
		whole := !errors.Is(err, bufio.ErrBufferFull)
		if err != nil && whole && !errors.Is(err, io.EOF) {
			return last, err // The rest of this line comes with the next try.
		}
		if begins {
			at, part = cutTime(part)
			known = !at.IsZero() && !at.After(after)
		}
		if len(part) > 0 && !known {
			if _, err := to.Write(part); err != nil {
				return last, err
			}
		}
		if whole && at.After(last) {
			last = at
		}
		if errors.Is(err, io.EOF) {
			return last, nil
		}
		begins = whole
	}
}

// cutTime returns the time at the beginning of a line, zero if there is none, and the rest of the line.
func cutTime(line []byte) (at time.Time, rest []byte) {
	stamp, rest, found := bytes.Cut(line, []byte(" "))
	at, err := time.Parse(time.RFC3339Nano, string(stamp))
	if !found || err != nil {
		return time.Time{}, line
	}
	return at, rest
}

// lineCleaner prints parts of lines as a terminal may show them.
type lineCleaner struct {
	to    io.Writer
	style view.Style
}

// Write implements io.Writer.
func (w lineCleaner) Write(part []byte) (int, error) {
	line, ends := strings.CutSuffix(string(part), "\n")
	line = w.style.OneLine(view.LogLine(line))
	if ends {
		line += "\n"
	}
	if _, err := io.WriteString(w.to, line); err != nil {
		return 0, err
	}
	return len(part), nil
}
