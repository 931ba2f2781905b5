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

// maxPageLog is how many bytes of a log a page has at most.
const maxPageLog = 64 << 10

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
			logs[i].None = view.CleanText(err.Error())
		}
	}
	return logs, more, ctx.Err()
}

// readLog returns the latest lines of a log.
func (r logReader) readLog(ctx context.Context, namespace string, source *view.LogSource) (string, error) {
	var text strings.Builder
	options := &corev1.PodLogOptions{
		Container: source.Container, Previous: source.Previous, TailLines: ptr.To[int64](defaultTail), LimitBytes: ptr.To[int64](maxPageLog),
	}
	err := r.clients.eachLogLine(ctx, namespace, source, options, func(line string) { text.WriteString(view.LogLine(line) + "\n") })
	if err == nil && text.Len() == 0 {
		err = errors.New(messageEmptyLog)
	}
	return text.String(), err
}
