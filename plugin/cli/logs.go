package cli

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/utils/ptr"

	"huolala.cn/app-operator/plugin/view"
)

// logsOptions are the flags of logs.
type logsOptions struct {
	view.LogOptions
	previous, follow bool
	tail             int
}

const (
	// defaultTail is how many lines of a log there are, defaultLogs how many logs.
	defaultTail, defaultLogs = 50, 3
	// maxLogLine is how many bytes of a line are read.
	maxLogLine = 8 << 10
)

// messageMoreLogs is the note on the logs that are left out, messageEmptyLog that on a log without lines.
const (
	messageMoreLogs = "%d more like these; --logs has more of them, or name one as pod/NAME\n"
	messageEmptyLog = "the container has written nothing"
)

func (r *root) logsCommand() *cobra.Command {
	var o logsOptions
	cmd := &cobra.Command{
		Use: "logs NAME", Short: "The logs that matter: of the container that fails, before it ended", Args: takesArguments(1, 1), ValidArgsFunction: r.completeNames,
		Long: "The logs that matter: those of the pods that fail, or else of those that are not ready, or else of the ready pods of the latest\n" +
			"version. Of a container that has crashed, it is the log of the run that ended. While a rollout waits for its command, or once\n" +
			"the command has failed, it is the log of the command. Name one pod as pod/NAME.",
		RunE: func(cmd *cobra.Command, args []string) error {
			if cmd.Flags().Changed("previous") {
				o.Previous = &o.previous
			}
			o.Pod = podNamed(args[0])
			return r.onTarget(func(ctx context.Context, c *clients, t target) error { return r.printLogs(ctx, c, t, &o) })(cmd, args)
		},
	}
	cmd.Flags().StringVarP(&o.Container, "container", "c", "", "The container, in place of the one that fails.")
	cmd.Flags().BoolVarP(&o.previous, "previous", "p", false, "The run before the present one; false for the present one. Without the flag, it is the one that ended with an error.")
	cmd.Flags().BoolVarP(&o.follow, "follow", "f", false, "Go on with what the containers write, until they end.")
	cmd.Flags().IntVar(&o.tail, "tail", defaultTail, "How many of the latest lines of each log to show.")
	cmd.Flags().IntVar(&o.Most, "logs", defaultLogs, "How many logs to show.")
	atLeastOne(cmd, "tail", "logs")
	return cmd
}

// podNamed returns the name of the pod if an argument names one, as pod/NAME does.
func podNamed(argument string) string {
	word, name, _ := strings.Cut(argument, "/")
	if kind := strings.ToLower(word); name != "" && (kind == "pod" || belowNames[kind] == "pod") {
		return name
	}
	return ""
}

// printLogs prints the logs of a resource.
func (r *root) printLogs(ctx context.Context, c *clients, t target, o *logsOptions) error {
	s, err := c.podSnapshot(ctx, t)
	if err != nil {
		return err
	}
	style, err := r.styleOf(r.Out)
	if err != nil {
		return err
	}
	for _, missing := range s.Missing {
		fmt.Fprintln(r.Err, "Not shown: "+missing.String())
	}
	sources, more, err := view.LogSources(s, o.LogOptions)
	if err == nil {
		err = view.WithoutLog(sources)
	}
	if err != nil {
		return err
	}
	if more > 0 {
		fmt.Fprintf(r.Err, messageMoreLogs, more)
	}
	p := &logPrinter{root: r, style: style}
	var errs []error
	for i := range sources {
		source := &sources[i]
		if o.follow && source.Running && !source.Previous {
			continue
		}
		err := p.printTail(ctx, c, t.namespace, source, o.tail)
		if apierrors.IsForbidden(err) { // The other logs are refused, too.
			return err
		}
		errs = append(errs, err)
	}
	if o.follow {
		errs = append(errs, p.followLogs(ctx, c, t.namespace, sources, o))
		if ctx.Err() != nil {
			return nil //nolint:nilerr // The user has ended it.
		}
	}
	return errors.Join(errs...)
}

// logPrinter prints logs, a line at a time.
type logPrinter struct {
	*root
	style view.Style
	mu    sync.Mutex
}

// printTail prints the title and the latest lines of a log.
func (p *logPrinter) printTail(ctx context.Context, c *clients, namespace string, source *view.LogSource, tail int) error {
	if source.None != "" {
		p.printLine("==> " + source.Title() + ": no log, " + source.None + " <==")
		return nil
	}
	// Without a limit of bytes: of a log that is longer, the kubelet leaves out the latest lines.
	options := &corev1.PodLogOptions{Container: source.Container, Previous: source.Previous, TailLines: ptr.To(int64(tail))}
	p.printLine("==> " + source.Title() + " <==")
	return p.printLog(ctx, c, namespace, source, options, "")
}

// followLogs prints what running containers write, until all of them end or the context does. Each line begins with its pod where there are several.
func (p *logPrinter) followLogs(ctx context.Context, c *clients, namespace string, sources []view.LogSource, o *logsOptions) error {
	var wait sync.WaitGroup
	errs := make([]error, len(sources))
	for i := range sources {
		source := &sources[i]
		if !source.Running || o.Previous != nil && *o.Previous {
			continue
		}
		prefix := ""
		if len(sources) > 1 {
			prefix = source.Pod + " "
		}
		running := *source
		running.Previous, running.State = false, ""
		p.printLine("==> " + running.Title() + " <==")
		options := &corev1.PodLogOptions{Container: source.Container, Follow: true, TailLines: ptr.To(int64(o.tail))}
		wait.Go(func() { errs[i] = p.printLog(ctx, c, namespace, source, options, prefix) })
	}
	wait.Wait()
	return errors.Join(errs...)
}

// printLog prints a log, each line behind a prefix.
func (p *logPrinter) printLog(
	ctx context.Context, c *clients, namespace string, source *view.LogSource, options *corev1.PodLogOptions, prefix string,
) error {
	_, err := c.eachLogLine(ctx, namespace, source, options, func(line string) { p.printLine(prefix + view.LogLine(line)) })
	return err
}

// eachLogLine calls do for each line of a log, as the container has written the line, and returns the number of bytes of the log.
func (c *clients) eachLogLine(
	ctx context.Context, namespace string, source *view.LogSource, options *corev1.PodLogOptions, do func(line string),
) (size int, err error) {
	stream, err := c.kube.CoreV1().Pods(namespace).GetLogs(source.Pod, options).Stream(ctx)
	if err != nil {
		return 0, inWords(err, "get", "the log of pod "+source.Pod, namespace)
	}
	defer func() { _ = stream.Close() }()
	counted := &countingReader{from: stream}
	err = eachLine(counted, do)
	if err != nil && ctx.Err() == nil {
		return counted.n, fmt.Errorf("the log of pod %s: %w", source.Pod, err)
	}
	return counted.n, nil
}

// countingReader counts the bytes that it reads.
type countingReader struct {
	from io.Reader
	n    int
}

// Read implements io.Reader.
func (c *countingReader) Read(into []byte) (int, error) {
	n, err := c.from.Read(into)
	c.n += n
	return n, err
}

// printLine prints a line. The lines of several logs do not mix.
func (p *logPrinter) printLine(line string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.printf("%s\n", p.style.OneLine(line))
}

// eachLine calls do for each line of a stream. A line of more than maxLogLine bytes is cut.
func eachLine(from io.Reader, do func(line string)) error {
	reader := bufio.NewReaderSize(from, maxLogLine)
	for {
		line, more, err := reader.ReadLine()
		if err == nil {
			text, cut := string(line), false
			for more && err == nil {
				line, more, err = reader.ReadLine()
				cut = cut || len(line) > 0
			}
			if cut {
				text += "…"
			}
			do(text)
		}
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
		}
	}
}
