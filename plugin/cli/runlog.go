package cli

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"huolala.cn/app-operator/plugin/view"
)

const (
	// maxRunPart is how many bytes of a line of a log are printed at once: no more than view.LogLine keeps.
	maxRunPart = 4 << 10
	// followedAfter is after which time a log that breaks off without a further line was followed: a failure takes less.
	followedAfter = 5 * time.Second
)

// printLog prints the log of the command until the command has ended. A log that breaks off is requested again from its end on: only a log
// that is requested after the end of the command is complete. It ends with an error once no log has been followed for answerWithin.
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
	for worked := time.Now(); ; {
		run, err := f.readState(ctx, answerWithin)
		if err != nil || run.Over {
			return err
		}
		before, asked := at, time.Now()
		at, err = f.logSince(ctx, pod, at, out)
		if err == nil || at != before || run.ExitCode == nil && isFollowed(err, time.Since(asked)) {
			worked = time.Now()
		}
		switch broken := f.outputError(); {
		case ctx.Err() != nil:
			return ctx.Err()
		case broken != nil:
			return broken
		case apierrors.IsForbidden(err), err != nil && time.Since(worked) >= answerWithin:
			return inWords(err, "get", "the log of pod "+pod, f.job.Namespace)
		case err == nil && run.ExitCode != nil:
			return nil
		}
		if !sleepFor(ctx, waitEvery) {
			return ctx.Err()
		}
	}
}

// isFollowed reports whether a log that has broken off with an error after a time was followed until then. A silent command has no answer to the request
// before its first line, so that a proxy may break off the request, or answer it itself. Any other answer is a refusal of the log.
func isFollowed(err error, after time.Duration) bool {
	var answered apierrors.APIStatus
	refused := errors.As(err, &answered) && answered.Status().Code < http.StatusBadGateway
	return !refused && after >= followedAfter
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
