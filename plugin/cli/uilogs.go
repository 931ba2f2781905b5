package cli

import (
	"context"
	"errors"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/utils/ptr"

	"huolala.cn/app-operator/plugin/ui"
	"huolala.cn/app-operator/plugin/view"
)

const (
	// maxPageLog is the maximum size of the log on a page in bytes: of the latest lines, the last ones.
	maxPageLog = 64 << 10
	// maxPageRead is the maximum number of bytes that are read for it. Beyond that, the kubelet leaves out the latest lines.
	maxPageRead = 8 << 20
)

// logReader reads logs for the pages.
type logReader struct{ clients *clients }

// ReadLogs implements ui.LogReader.
func (r logReader) ReadLogs(ctx context.Context, kind view.Kind, namespace, name string, o view.LogOptions) ([]ui.Log, int, error) {
	s, err := r.clients.podSnapshot(ctx, target{kind, namespace, name})
	if err != nil {
		return nil, 0, err
	}
	sources, more, err := view.LogSources(s, o)
	if err != nil {
		return nil, 0, err
	}
	logs, errs := make([]ui.Log, len(sources)), make([]error, len(sources))
	var wait sync.WaitGroup
	for i := range sources {
		logs[i].LogSource = sources[i]
		if sources[i].None == "" {
			wait.Go(func() { logs[i].Text, errs[i] = r.readLog(ctx, namespace, &sources[i]) })
		}
	}
	wait.Wait()
	for i, err := range errs {
		switch {
		case apierrors.IsForbidden(err): // The other logs are refused, too.
			return nil, 0, err
		case err != nil:
			logs[i].None = view.ErrorText(err)
		}
	}
	return logs, more, ctx.Err()
}

// readLog returns the latest lines of a log.
func (r logReader) readLog(ctx context.Context, namespace string, source *view.LogSource) (string, error) {
	options := &corev1.PodLogOptions{
		Container: source.Container, Previous: source.Previous, TailLines: ptr.To[int64](defaultTail), LimitBytes: ptr.To[int64](maxPageRead),
	}
	var lines latestLines
	size, err := r.clients.eachLogLine(ctx, namespace, source, options, lines.addLine)
	if err == nil && len(lines.lines) == 0 {
		err = errors.New(messageEmptyLog)
	}
	return lines.text(size >= maxPageRead), err
}

// latestLines has the last lines of a log, of maxPageLog bytes at most.
type latestLines struct {
	lines []string
	size  int
	// cut is set once a line was left out.
	cut bool
}

// addLine adds a line, and drops the first ones that no longer fit.
func (l *latestLines) addLine(line string) {
	line = view.LogLine(line) + "\n"
	l.lines, l.size = append(l.lines, line), l.size+len(line)
	for l.size > maxPageLog && len(l.lines) > 1 {
		l.size -= len(l.lines[0])
		l.lines, l.cut = l.lines[1:], true
	}
}

// text returns the lines, with a mark in place of the lines that are left out. limited is true if the log has further lines, which were not read.
func (l *latestLines) text(limited bool) string {
	text := strings.Join(l.lines, "")
	if l.cut {
		text = "…\n" + text
	}
	if limited {
		text += "…\n"
	}
	return text
}
