// The manager of app-operator.
package main

import (
	"crypto/tls"
	"flag"
	"fmt"
	"os"
	"strings"
	"time"

	"go.uber.org/zap/zapcore"
	_ "k8s.io/client-go/plugin/pkg/client/auth"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"
	"sigs.k8s.io/controller-runtime/pkg/metrics/filters"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"huolala.cn/app-operator/api/v1/validation"
	"huolala.cn/app-operator/controllers"
	"huolala.cn/app-operator/resource"
	"huolala.cn/app-operator/webhooks"
)

// version and commit are set by the linker.
var version, commit = "dev", "unknown"

// The largest values of flags: no manager has a TiB of memory, or work for more workers, or an API server for more requests.
const (
	maxNamespaceCache = 1 << 20
	maxWorkers        = 1000
	maxQPS            = 100_000
)

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "app-operator:", err)
		os.Exit(1)
	}
}

// flags are the command line.
type flags struct {
	metricsAddr, probeAddr, pprofAddr         string
	metricsSecure                             bool
	leaderElect                               bool
	leaderElectionNamespace                   string
	leaseDuration, renewDeadline, retryPeriod time.Duration
	workers                                   int
	qps                                       float64
	namespaceCache                            int
	followSecrets                             bool
	disabledFeatures                          string
	webhooks                                  webhooks.Options
	zap                                       zap.Options
}

func (f *flags) bind(fs *flag.FlagSet) {
	fs.StringVar(&f.metricsAddr, "metrics-bind-address", "0", `Address to serve metrics on, such as ":8443"; "0" for none.`)
	fs.BoolVar(&f.metricsSecure, "metrics-secure", true, "Serve metrics over HTTPS, and require permission to get /metrics.")
	fs.StringVar(&f.probeAddr, "health-probe-bind-address", ":8081", `Address to serve /healthz and /readyz on; "0" for none.`)
	fs.StringVar(&f.pprofAddr, "pprof-bind-address", "", "Address to serve profiles on. Off by default: profiles are not protected.")
	fs.BoolVar(&f.leaderElect, "leader-elect", false, "Elect a leader, so that only one of several managers reconciles.")
	fs.StringVar(&f.leaderElectionNamespace, "leader-election-namespace", "", "Namespace of the leader election lease. Default: the namespace of the manager.")
	fs.DurationVar(&f.leaseDuration, "leader-elect-lease-duration", 15*time.Second, "How long other managers wait for a leader that does not renew its lease.")
	fs.DurationVar(&f.renewDeadline, "leader-elect-renew-deadline", 10*time.Second, "How long the leader retries to renew its lease before it exits.")
	fs.DurationVar(&f.retryPeriod, "leader-elect-retry-period", time.Second, "How often managers try to acquire or renew the lease. After the leader stops, another manager takes over in about this time.")
	fs.IntVar(&f.workers, "max-concurrent-reconciles", 10, "How many resources of a kind in one namespace are reconciled concurrently: all of them while no other namespace waits, else half. A fifth more, at least one, are for other namespaces.")
	fs.Float64Var(&f.qps, "kube-api-qps", -1, "Maximum number of requests per second to the API server; -1 for no limit other than API Priority and Fairness.")
	fs.BoolVar(&f.followSecrets, "follow-secrets", false, "Replace pods when a Secret changes that they use, where spec.configRollout asks for it, as with ConfigMaps. This requires permission to list and watch Secrets.")
	fs.IntVar(&f.namespaceCache, "namespace-cache-mib", controllers.DefaultNamespaceCache>>20, "How many MiB the custom resources of a namespace and their children may take in the cache beyond what plain ones need, at least 1. The operator reads from the API server what is beyond it. Four times as much is the limit of all namespaces together.")
	fs.StringVar(&f.disabledFeatures, "disable-features", "", "Comma-separated fields of the spec to reject. The operator neither creates nor watches the objects of these fields: "+strings.Join(validation.Features(), ", ")+".")
	f.webhooks.BindFlags(fs)
	f.zap.TimeEncoder = zapcore.ISO8601TimeEncoder
	f.zap.BindFlags(fs)
	times := fs.Lookup("zap-time-encoding") // Its text has the default of BindFlags, and not the encoder above.
	times.Usage = strings.ReplaceAll(times.Usage, "Defaults to 'epoch'", "Defaults to 'iso8601'")
}

// check returns an error that names the flag with a value that has no meaning, or an argument that no flag takes.
func (f *flags) check(fs *flag.FlagSet) error {
	switch {
	case fs.NArg() > 0:
		return fmt.Errorf("%q is no flag, and it and all after it would have no effect; the value of a switch needs \"=\", as in --leader-elect=true", fs.Arg(0))
	case f.namespaceCache < 1 || f.namespaceCache > maxNamespaceCache:
		return fmt.Errorf("--namespace-cache-mib must be from 1 to %d, and is %d", maxNamespaceCache, f.namespaceCache)
	case f.workers < 1 || f.workers > maxWorkers:
		return fmt.Errorf("--max-concurrent-reconciles must be from 1 to %d, and is %d", maxWorkers, f.workers)
	case f.qps != -1 && !(f.qps > 0 && f.qps <= maxQPS): // NaN is neither.
		return fmt.Errorf("--kube-api-qps must be -1, or above 0 and at most %d, and is %g", maxQPS, f.qps)
	}
	return nil
}

func (f *flags) options() controllers.Options {
	opts := controllers.Options{
		Namespaces:     controllers.ParseNamespaces(os.Getenv("WATCH_NAMESPACE")),
		OwnNamespace:   os.Getenv("POD_NAMESPACE"),
		FollowSecrets:  f.followSecrets,
		Workers:        f.workers,
		NamespaceCache: f.namespaceCache << 20,
		Rendering:      resource.RenderingLatest,
		Version:        version,
		Commit:         commit,
	}
	opts.Metrics = metricsserver.Options{BindAddress: f.metricsAddr, SecureServing: f.metricsSecure}
	if f.metricsSecure {
		opts.Metrics.FilterProvider = filters.WithAuthenticationAndAuthorization
		// HTTP/2 is off for its rapid-reset attacks (CVE-2023-44487, CVE-2023-39325).
		opts.Metrics.TLSOpts = []func(*tls.Config){func(c *tls.Config) { c.NextProtos = []string{"http/1.1"} }}
	}
	opts.HealthProbeBindAddress = f.probeAddr
	opts.PprofBindAddress = f.pprofAddr
	opts.LeaderElection = f.leaderElect
	opts.LeaderElectionID = "app-operator.huolala.cn"
	opts.LeaderElectionNamespace = f.leaderElectionNamespace
	opts.LeaderElectionReleaseOnCancel = true
	opts.LeaseDuration, opts.RenewDeadline, opts.RetryPeriod = &f.leaseDuration, &f.renewDeadline, &f.retryPeriod
	return opts
}

func run() error {
	var f flags
	f.bind(flag.CommandLine)
	flag.Parse()
	if err := f.check(flag.CommandLine); err != nil {
		return err
	}
	ctrl.SetLogger(zap.New(zap.UseFlagOptions(&f.zap)))

	cfg, err := ctrl.GetConfig()
	if err != nil {
		return fmt.Errorf("kubeconfig: %w", err)
	}
	cfg.QPS, cfg.Burst = float32(f.qps), max(1, int(2*f.qps))
	opts := f.options()
	if opts.DisabledFeatures, err = validation.ParseFeatures(f.disabledFeatures); err != nil {
		return fmt.Errorf("--disable-features: %w", err)
	}
	f.webhooks.DisabledFeatures = opts.DisabledFeatures
	opts.Upgradeable = controllers.OperatorCondition
	f.webhooks.OwnNamespace, f.webhooks.Rendering, f.webhooks.FollowSecrets = opts.OwnNamespace, opts.Rendering, opts.FollowSecrets
	hooks, err := webhooks.New(f.webhooks, os.Getenv("ENABLE_WEBHOOKS"))
	if err != nil {
		return err
	}
	opts.WebhookServer = hooks.Server()
	mgr, err := controllers.NewManager(cfg, opts)
	if err != nil {
		return err
	}
	if err := hooks.SetupWithManager(mgr, mgr.Planner); err != nil {
		return fmt.Errorf("webhooks: %w", err)
	}
	ctrl.Log.Info("Starting app-operator", "version", version, "commit", commit)
	return mgr.Start(ctrl.SetupSignalHandler())
}
