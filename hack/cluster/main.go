// Command cluster is a whole Kubernetes control plane in one binary, for demos and tests on a machine that has
// Go and nothing else. Called by the name of a component (a symlink to it will do) it is that component;
// otherwise it starts and stops clusters of them. See README.md.
package main

import (
	"os"
	"path/filepath"
	_ "time/tzdata" // CronJobs have time zones

	"github.com/spf13/pflag"
	"go.etcd.io/etcd/server/v3/etcdmain"
	_ "k8s.io/client-go/plugin/pkg/client/auth" // kubectl's ways to log in
	"k8s.io/component-base/cli"
	"k8s.io/component-base/logs"
	_ "k8s.io/component-base/logs/json/register"
	_ "k8s.io/component-base/metrics/prometheus/clientgo"
	_ "k8s.io/component-base/metrics/prometheus/version"
	kubectl "k8s.io/kubectl/pkg/cmd"
	kubectlutil "k8s.io/kubectl/pkg/cmd/util"
	apiserver "k8s.io/kubernetes/cmd/kube-apiserver/app"
	controllermanager "k8s.io/kubernetes/cmd/kube-controller-manager/app"
	scheduler "k8s.io/kubernetes/cmd/kube-scheduler/app"
	kwokconfig "sigs.k8s.io/kwok/pkg/config"
	kwok "sigs.k8s.io/kwok/pkg/kwok/cmd"
	kwoklog "sigs.k8s.io/kwok/pkg/log"
	kwoksignals "sigs.k8s.io/kwok/pkg/utils/signals"
)

// The names of the components: of their symlinks, processes and log files.
const (
	etcdName              = "etcd"
	apiserverName         = "kube-apiserver"
	controllerManagerName = "kube-controller-manager"
	schedulerName         = "kube-scheduler"
	kubectlName           = "kubectl"
	kwokName              = "kwok"
)

// components are the programs that this binary is when called by their name; each returns its exit code.
// One process runs one of them only: they share global flags and metrics.
var components = map[string]func() int{
	etcdName:              func() int { etcdmain.Main(os.Args); return 0 },
	apiserverName:         func() int { return cli.Run(apiserver.NewAPIServerCommand()) },
	controllerManagerName: func() int { return cli.Run(controllermanager.NewControllerManagerCommand()) },
	schedulerName:         func() int { return cli.Run(scheduler.NewSchedulerCommand()) },
	kubectlName:           runKubectl,
	kwokName:              runKwok,
}

func main() {
	run, ok := components[filepath.Base(os.Args[0])]
	if !ok {
		os.Exit(runCommand())
	}
	dieWithSupervisor()
	os.Exit(run())
}

// forgetGlobalFlags keeps flags that the components' packages have made global out of commands that do without:
// cobra adds them to every command, and kwok's stumbles over a --version that is not its own.
func forgetGlobalFlags() {
	pflag.CommandLine = pflag.NewFlagSet(os.Args[0], pflag.ContinueOnError)
}

// runKubectl is kubectl's own main.
func runKubectl() int {
	// Before the command exists: building it logs already.
	_, _ = logs.GlogSetter(kubectl.GetLogVerbosity(os.Args))
	if err := cli.RunNoErrOutput(kubectl.NewDefaultKubectlCommand()); err != nil {
		kubectlutil.CheckErr(err)
	}
	return 0
}

// runKwok is kwok's own main: its configuration files have to be read before its command exists.
func runKwok() int {
	forgetGlobalFlags()
	flags := pflag.NewFlagSet("global", pflag.ContinueOnError)
	flags.ParseErrorsAllowlist.UnknownFlags = true
	flags.Usage = func() {}
	ctx, log := kwoklog.InitFlags(kwoksignals.SetupSignalContext(), flags)
	ctx, err := kwokconfig.InitFlags(ctx, flags)
	if err != nil {
		log.Error("reading the configuration", "err", err)
		return 1
	}
	command := kwok.NewCommand(ctx)
	command.PersistentFlags().AddFlagSet(flags)
	if err := command.ExecuteContext(ctx); err != nil {
		log.Error("kwok", "err", err)
		return 1
	}
	return 0
}
