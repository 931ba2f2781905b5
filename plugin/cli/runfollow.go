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

// printLog prints the log of the command until the command has ended. A log that breaks off is requested again from its end on: only a log
// that is requested after the end of the command is complete.
func (f *runFollower) printLog(ctx context.Context, pod string) error {
	style, err := f.styleOf(f.Out)
	if err != nil {
		return err
	}
	out := f.Out
	if isTerminal(f.Out) {
		out = lineCleaner{f.Out, style}
	}
	var at logPosition
	for failures := 0; ; {
		run, err := f.readState(ctx, answerWithin)
		if err != nil || run.Over {
			return err
		}
		before := at
		at, err = f.logSince(ctx, pod, at, out)
		if failures++; err == nil || at != before {
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

// logPosition is a place in a log.
type logPosition struct {
	// last is the time of the last line that was printed whole, zero for none.
	last time.Time
	// partial is the time of a line after that, and printed is the number of its bytes that were printed.
	partial time.Time
	printed int
}

// logSince prints the log after a place, and returns the new one.
func (f *runFollower) logSince(ctx context.Context, pod string, after logPosition, out io.Writer) (logPosition, error) {
	options := &corev1.PodLogOptions{Container: f.job.Spec.Template.Spec.Containers[0].Name, Follow: true, Timestamps: true}
	if !after.last.IsZero() {
		options.SinceTime = &metav1.Time{Time: after.last} // In whole seconds.
	}
	stream, err := f.c.kube.CoreV1().Pods(f.job.Namespace).GetLogs(pod, options).Stream(ctx)
	if err != nil {
		return after, err
	}
	defer func() { _ = stream.Close() }()
	return copyLog(out, stream, after)
}

// copyLog copies a log whose lines begin with their time, without the times, from a place on, and returns the new place. A log that begins within a
// line, as a kubelet's does that begins with the part of a long line after a time, begins with a line that was printed.
func copyLog(to io.Writer, from io.Reader, after logPosition) (logPosition, error) {
	reader, place := bufio.NewReaderSize(from, maxRunPart), after
	var line logLine
	for first, begins := true, true; ; first = false {
		part, err := reader.ReadSlice('\n')
		broken := err != nil && !errors.Is(err, bufio.ErrBufferFull)
		if broken && !errors.Is(err, io.EOF) {
			part = nil // The rest of this line comes with the next try.
		}
		if begins && len(part) > 0 {
			if line, part = newLogLine(part, &after, first); broken && line.at.IsZero() {
				line.known = true // The time itself is broken off.
			}
		}
		if err := line.print(to, part); err != nil {
			return place, err
		}
		if broken {
			if errors.Is(err, io.EOF) {
				err = nil
			}
			return line.end(place, false), err
		}
		if begins = err == nil; begins {
			place = line.end(place, true)
		}
	}
}

// logLine is a line of a log that is copied.
type logLine struct {
	at time.Time
	// known is true for a line that was printed before, and skip is the number of bytes at its beginning that were.
	known bool
	skip  int
	// length is the number of bytes of the line so far.
	length int
}

// newLogLine returns the line that begins with a part, and the part without the time. first is true for the first line of a log.
func newLogLine(part []byte, after *logPosition, first bool) (line logLine, rest []byte) {
	line.at, rest = cutTime(part)
	switch {
	case line.at.IsZero():
		line.known = first && !after.last.IsZero()
	case !line.at.After(after.last):
		line.known = true
	case line.at.Equal(after.partial):
		line.skip = after.printed
	}
	return line, rest
}

// print prints the next part of the line, without the bytes that were printed before.
func (l *logLine) print(to io.Writer, part []byte) error {
	skipped := min(len(part), max(0, l.skip-l.length))
	l.length += len(part)
	if part = part[skipped:]; len(part) == 0 || l.known {
		return nil
	}
	_, err := to.Write(part)
	return err
}

// end returns the place after the line, or within it.
func (l *logLine) end(place logPosition, whole bool) logPosition {
	switch {
	case l.known || !l.at.After(place.last):
		return place
	case whole:
		return logPosition{last: l.at}
	}
	return logPosition{last: place.last, partial: l.at, printed: max(l.skip, l.length)}
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
