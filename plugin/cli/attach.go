package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"golang.org/x/term"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/remotecommand"
	"k8s.io/streaming/pkg/httpstream"
)

// resizeEvery is how often the size of the terminal is read: not every system signals a change.
const resizeEvery = 250 * time.Millisecond

// isTerminal reports whether a stream is a terminal.
func isTerminal(stream any) bool {
	_, _, terminal := sizeOf(stream)
	return terminal
}

// attachTerminal connects the user's terminal with the command until the command ends. Of a command that has ended before, it prints the log.
func (f *runFollower) attachTerminal(ctx context.Context, pod string) error {
	restore, err := makeRaw(f.In)
	if err != nil {
		return uselessRun{fmt.Errorf("terminal: %w", err)}
	}
	fmt.Fprint(f.Err, "If you see no prompt, press Enter.\r\n")
	done := make(chan struct{})
	out := &countingWriter{to: f.Out}
	err = f.attachStreams(ctx, pod, remotecommand.StreamOptions{
		Stdin: f.In, Stdout: out, Tty: true, TerminalSizeQueue: &terminalSizes{of: f.In, done: done},
	})
	close(done)
	restore()
	if err == nil {
		return nil
	}
	if err := f.unlessEnded(ctx, err); err != nil || out.n > 0 {
		return err
	}
	return f.printLog(ctx, pod)
}

// makeRaw has a terminal pass on each key as it is, and returns the function that ends this. It does nothing to a stream that is no terminal.
func makeRaw(stream any) (restore func(), err error) {
	file, ok := stream.(*os.File)
	if !ok {
		return func() {}, nil
	}
	before, err := term.MakeRaw(int(file.Fd()))
	if err != nil {
		return nil, err
	}
	return func() { _ = term.Restore(int(file.Fd()), before) }, nil
}

// logWithInput passes the standard input on to the command, and prints its log until the command ends. The log has all that the command
// writes; a connection would have what it writes from then on.
func (f *runFollower) logWithInput(ctx context.Context, pod string) error {
	whileInput, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	go func() {
		err := f.attachStreams(whileInput, pod, remotecommand.StreamOptions{Stdin: f.In})
		if err != nil && whileInput.Err() == nil {
			err = f.unlessEnded(whileInput, err)
		}
		if err != nil {
			stop(err)
		}
	}()
	err := f.printLog(whileInput, pod)
	if err != nil && whileInput.Err() != nil {
		return context.Cause(whileInput)
	}
	return err
}

// unlessEnded returns the error of a connection with the command as a uselessRun, as the command would wait for its input forever. It returns
// nil if the command has ended.
func (f *runFollower) unlessEnded(ctx context.Context, err error) error {
	if run, stateErr := f.readState(ctx, answerWithin); stateErr == nil && (run.ExitCode != nil || run.Over) {
		return nil
	}
	return uselessRun{inWords(err, "attach to", "the pod of Job "+f.job.Name, f.job.Namespace)}
}

// attachStreams connects streams with the command until one side ends, by a WebSocket, or by SPDY where a server or a proxy has no WebSockets.
func (f *runFollower) attachStreams(ctx context.Context, pod string, streams remotecommand.StreamOptions) error {
	options := &corev1.PodAttachOptions{
		Container: f.job.Spec.Template.Spec.Containers[0].Name, Stdin: streams.Stdin != nil, Stdout: streams.Stdout != nil, TTY: streams.Tty,
	}
	request := f.c.kube.CoreV1().RESTClient().Post().Namespace(f.job.Namespace).Resource("pods").Name(pod).SubResource("attach").
		VersionedParams(options, scheme.ParameterCodec)
	bySPDY, err := remotecommand.NewSPDYExecutor(f.c.config, "POST", request.URL())
	if err != nil {
		return err
	}
	byWebSocket, err := remotecommand.NewWebSocketExecutor(f.c.config, "GET", request.URL().String())
	if err != nil {
		return err
	}
	var upgrade *httpstream.UpgradeFailureError
	executor, err := remotecommand.NewFallbackExecutor(byWebSocket, bySPDY, func(err error) bool {
		return errors.As(err, &upgrade) || httpstream.IsHTTPSProxyError(err)
	})
	if err != nil {
		return err
	}
	err = executor.StreamWithContext(ctx, streams)
	// SPDY, which needs fewer rights, returns the answer of the API server as a text alone.
	if err != nil && upgrade != nil && apierrors.IsForbidden(upgrade.Cause) && strings.Contains(err.Error(), " is forbidden: ") {
		return fmt.Errorf("%w: %w", upgrade.Cause, err)
	}
	return err
}

// terminalSizes are the sizes of a terminal, as they change.
type terminalSizes struct {
	of   any
	done <-chan struct{}
	last remotecommand.TerminalSize
}

// Next implements remotecommand.TerminalSizeQueue: it waits for another size, and returns nil for none.
func (q *terminalSizes) Next() *remotecommand.TerminalSize {
	ticker := time.NewTicker(resizeEvery)
	defer ticker.Stop()
	for {
		width, height, terminal := sizeOf(q.of)
		if !terminal {
			return nil
		}
		if size := (remotecommand.TerminalSize{Width: uint16(width), Height: uint16(height)}); size != q.last {
			q.last = size
			return &size
		}
		select {
		case <-q.done:
			return nil
		case <-ticker.C:
		}
	}
}

// countingWriter counts what it writes, in bytes.
type countingWriter struct {
	to io.Writer
	n  int
}

// Write implements io.Writer.
func (w *countingWriter) Write(data []byte) (int, error) {
	n, err := w.to.Write(data)
	w.n += n
	return n, err
}
