package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/spf13/cobra"
	etcdversion "go.etcd.io/etcd/api/v3/version"
	kubernetesversion "k8s.io/component-base/version"
	kwok "sigs.k8s.io/kwok/pkg/consts"
)

// runCommand runs one of the binary's own commands and returns the exit code.
func runCommand() int {
	stopSignals := []os.Signal{syscall.SIGINT, syscall.SIGTERM}
	if !signal.Ignored(syscall.SIGHUP) { // it is under nohup
		stopSignals = append(stopSignals, syscall.SIGHUP)
	}
	ctx, cancel := signal.NotifyContext(context.Background(), stopSignals...)
	defer cancel()
	// A reader of our output that ends early must not end a supervisor before its cleanup.
	signal.Ignore(syscall.SIGPIPE)

	forgetGlobalFlags()
	if err := newCommand().ExecuteContext(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "cluster:", err)
		return 1
	}
	return 0
}

func newCommand() *cobra.Command {
	root := &cobra.Command{
		Use:           "cluster",
		Short:         "Local Kubernetes clusters without containers or root",
		SilenceUsage:  true,
		SilenceErrors: true,
	}
	root.CompletionOptions.DisableDefaultCmd = true
	root.AddCommand(newUpCommand(), newDownCommand(), newVersionCommand())
	return root
}

func newUpCommand() *cobra.Command {
	var o upOptions
	var untilEOF bool
	command := &cobra.Command{
		Use:   "up",
		Short: "Start a cluster and stay in the foreground until it is told to stop",
		Long: `Starts a cluster, prints "ready <kubeconfig>" to standard output once it is, and stays until
SIGINT, SIGTERM, "cluster down" or, with --until-eof, the end of standard input. Everything that it has written is removed at the end.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := o.validate(); err != nil {
				return err
			}
			ctx := cmd.Context()
			if untilEOF {
				var cancel context.CancelFunc
				ctx, cancel = context.WithCancel(ctx)
				defer cancel()
				go func() {
					_, _ = io.Copy(io.Discard, cmd.InOrStdin()) // An error ends it, too.
					cancel()
				}()
			}
			return up(ctx, o, cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	flags := command.Flags()
	addNameFlag(command, &o.name)
	flags.BoolVar(&o.bare, "bare", false, "etcd and kube-apiserver only: no controllers, no scheduler, no nodes")
	flags.BoolVar(&untilEOF, "until-eof", false, "stop at the end of standard input, too: with the process that holds its other end")
	flags.IntVar(&o.nodes, "nodes", 3, "how many nodes to simulate")
	flags.StringVar(&o.kubeconfig, "kubeconfig", "", "where to put the admin's kubeconfig (default: in the cluster's state directory)")
	flags.StringVar(&o.logDir, "log-dir", "", "where to keep the components' logs (default: in the state directory, removed with it)")
	flags.StringArrayVar(&o.apiserverFlags, "apiserver-flag", nil, "a further flag=value for kube-apiserver; may be repeated")
	return command
}

func (o *upOptions) validate() error {
	if o.nodes < 0 || o.nodes > maxNodes {
		return fmt.Errorf("--nodes is %d; 0 to %d are possible", o.nodes, maxNodes)
	}
	for i, flag := range o.apiserverFlags {
		flag = strings.TrimLeft(flag, "-")
		if key, _, found := strings.Cut(flag, "="); !found || key == "" {
			return fmt.Errorf("--apiserver-flag %q is not of the form flag=value", o.apiserverFlags[i])
		}
		o.apiserverFlags[i] = flag
	}
	return nil
}

func newDownCommand() *cobra.Command {
	var name string
	command := &cobra.Command{
		Use:   "down",
		Short: "Stop a cluster and wait until it is gone",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			outcome, err := down(cmd.Context(), name)
			if err == nil {
				fmt.Fprintf(cmd.ErrOrStderr(), "cluster %s: %s\n", name, outcome)
			}
			return err
		},
	}
	addNameFlag(command, &name)
	return command
}

func addNameFlag(command *cobra.Command, name *string) {
	command.Flags().StringVar(name, "name", "default", "the cluster's name; clusters of different names live side by side")
}

func newVersionCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print the versions of the components",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			_, err := fmt.Fprintf(cmd.OutOrStdout(), "kubernetes %s\netcd v%s\nkwok v%s\n",
				kubernetesversion.Get().GitVersion, etcdversion.Version, kwok.Version)
			return err
		},
	}
}
