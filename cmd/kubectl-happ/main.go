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

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := cli.Run(ctx, cli.Program{
		Path: os.Args[0], Args: os.Args[1:], Version: version, Commit: commit, In: os.Stdin, Out: os.Stdout, Err: os.Stderr,
		Getenv: os.Getenv,
	})
	stop()
	os.Exit(code)
}
