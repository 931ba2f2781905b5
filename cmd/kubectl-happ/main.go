// The kubectl plug-in of app-operator: kubectl happ.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	_ "k8s.io/client-go/plugin/pkg/client/auth"

	"huolala.cn/app-operator/plugin/cli"
)

// version and commit are set by the linker.
var version, commit = "dev", "unknown"

// ending returns the signals that end the plug-in in order, such as with the deletion of a Job. A hangup that is ignored, as below nohup, stays ignored.
func ending() []os.Signal {
	signals := []os.Signal{os.Interrupt, syscall.SIGTERM}
	if !signal.Ignored(syscall.SIGHUP) {
		signals = append(signals, syscall.SIGHUP)
	}
	return signals
}

// untilSignal returns a context that ends with the first signal of ending. A second Ctrl-C or SIGTERM ends the plug-in at once, whatever it does. A
// second hangup does nothing, as the end of a terminal sends several: a command still deletes its Job after the first.
func untilSignal() (ctx context.Context, stop context.CancelFunc) {
	ctx, stop = signal.NotifyContext(context.Background(), ending()...)
	context.AfterFunc(ctx, func() { signal.Reset(os.Interrupt, syscall.SIGTERM) })
	return ctx, stop
}

func main() {
	ctx, stop := untilSignal()
	code := cli.Run(ctx, cli.Program{
		Path: os.Args[0], Args: os.Args[1:], Version: version, Commit: commit, In: os.Stdin, Out: os.Stdout, Err: os.Stderr,
		Getenv: os.Getenv,
	})
	stop()
	os.Exit(code)
}
