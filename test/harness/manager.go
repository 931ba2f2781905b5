package harness

import (
	"context"
	"fmt"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/metrics/filters"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"huolala.cn/app-operator/controllers"
	"huolala.cn/app-operator/resource"
	"huolala.cn/app-operator/webhooks"
)

// Manager is a running manager.
type Manager struct {
	// Requests are all that it has sent to the API server.
	Requests *Requests
	// live reads as the administrator. namespaces are those that a test writes in.
	live       client.Client
	namespaces []string
	mgr        *controllers.Manager
	account    types.NamespacedName
	hooks      *webhooks.Webhooks
	elects     bool
	forbidden  bool
	cancel     context.CancelFunc
	ended      chan struct{}
	err        error
}

// Option changes how a manager is run.
type Option func(*Manager, *controllers.Options)

// WithRendering runs a manager whose newest rendering is n, as one of another release.
func WithRendering(n int32) Option {
	return func(_ *Manager, o *controllers.Options) { o.Rendering = n }
}

// WithFault makes the manager's requests fail as fault says.
func WithFault(fault Fault) Option {
	return func(m *Manager, _ *controllers.Options) { m.Requests.fault = fault }
}

// WithForbidden is for a test that makes the API server forbid something. Without it a forbidden request fails the test:
// the role that is generated from the code's markers lacks a permission.
func WithForbidden() Option {
	return func(m *Manager, _ *controllers.Options) { m.forbidden = true }
}

// WithClock makes the manager tell the time by clk.
func WithClock(clk clock.PassiveClock) Option {
	return func(_ *Manager, o *controllers.Options) { o.Clock = clk }
}

// WithLookAgain makes the manager look this often for kinds that the cluster lacks.
func WithLookAgain(pause time.Duration) Option {
	return func(_ *Manager, o *controllers.Options) { o.LookAgain = pause }
}

// WithServiceGrace gives clients this much time to follow to a new Service; nil is the time of a release. Without the option they have none.
func WithServiceGrace(grace *time.Duration) Option {
	return func(_ *Manager, o *controllers.Options) { o.ServiceGrace = grace }
}

// WithNamespaces makes the manager watch these namespaces too.
func WithNamespaces(namespaces ...string) Option {
	return func(_ *Manager, o *controllers.Options) { o.Namespaces = append(o.Namespaces, namespaces...) }
}

// WithAccount runs the manager in another namespace than its own, as a ServiceAccount of that. It has the rights that the
// test gives it. The option goes before those that speak of the manager's namespace.
func WithAccount(namespace, account string) Option {
	return func(m *Manager, o *controllers.Options) {
		m.account = types.NamespacedName{Namespace: namespace, Name: account}
		o.OwnNamespace = namespace
	}
}

// WithElection makes the manager work only while it holds the lease of this name. The lease outlasts Patience, so that
// nobody follows a leader that does not give it up.
func WithElection(lease string) Option {
	return func(m *Manager, o *controllers.Options) {
		m.elects = true
		o.LeaderElection = true
		o.LeaderElectionID = lease
		o.LeaderElectionNamespace = o.OwnNamespace
		o.LeaderElectionReleaseOnCancel = true
		o.LeaseDuration, o.RenewDeadline, o.RetryPeriod = ptr.To(4*Patience), ptr.To(3*Patience), ptr.To(time.Second)
	}
}

// WithSecrets makes the manager follow the content of Secrets, as the component secret-rollout does. The option goes before
// WithWebhooks.
func WithSecrets() Option {
	return func(_ *Manager, o *controllers.Options) { o.FollowSecrets = true }
}

// WithNamespaceCache limits how many bytes the resources of a namespace may take in the cache beyond what plain ones need.
func WithNamespaceCache(bytes int) Option {
	return func(_ *Manager, o *controllers.Options) { o.NamespaceCache = bytes }
}

// WithOwnNamespace has the manager run in a namespace, whose AppDefaults count for all namespaces.
func WithOwnNamespace(name string) Option {
	return func(_ *Manager, o *controllers.Options) { o.OwnNamespace = name }
}

// WithMetrics serves the metrics on an address, to clients that can get them, as main.go does.
func WithMetrics(address string) Option {
	return func(_ *Manager, o *controllers.Options) {
		o.Metrics = metricsserver.Options{
			BindAddress: address, SecureServing: true, FilterProvider: filters.WithAuthenticationAndAuthorization,
		}
	}
}

// WithProbes serves the health and readiness probes on an address.
func WithProbes(address string) Option {
	return func(_ *Manager, o *controllers.Options) { o.HealthProbeBindAddress = address }
}

// Start runs a manager for one namespace, as its own ServiceAccount, until the test ends or it is stopped. It returns
// once the caches have synced and, unless there is an election to be won, the controllers work.
func (p *Plane) Start(t testing.TB, namespace string, options ...Option) *Manager {
	t.Helper()
	m := p.Launch(t, namespace, options...)
	if !m.elects {
		select {
		case <-m.mgr.Elected():
		case <-m.ended:
			t.Fatalf("the manager ended: %v", m.err)
		case <-time.After(Patience):
			t.Fatalf("the manager did not start within %s", Patience)
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), Patience)
	defer cancel()
	if !m.mgr.GetCache().WaitForCacheSync(ctx) {
		t.Fatal("the caches did not sync")
	}
	return m
}

// Launch is Start without waiting for anything.
func (p *Plane) Launch(t testing.TB, namespace string, options ...Option) *Manager {
	t.Helper()
	m := &Manager{Requests: &Requests{usage: p.usage}, live: p.Client, account: managerAccount}
	opts := managerOptions()
	opts.Namespaces = []string{namespace}
	for _, option := range options {
		option(m, &opts)
	}
	m.namespaces = opts.Namespaces
	if err := m.build(p.recorded(m.account, m.Requests), opts); err != nil {
		t.Fatal(err)
	}
	m.run()
	t.Cleanup(func() {
		m.Stop(t)
		if forbidden := m.Requests.Forbidden(); len(forbidden) > 0 && !m.forbidden {
			t.Errorf("the manager's role does not allow: %v", forbidden)
		}
	})
	return m
}

// managerOptions are those of a manager in a test, for all namespaces.
func managerOptions() controllers.Options {
	opts := controllers.Options{OwnNamespace: SystemNamespace, Workers: 4, Rendering: resource.RenderingLatest}
	opts.Metrics.BindAddress = "0"
	opts.HealthProbeBindAddress = "0"
	opts.Controller.SkipNameValidation = ptr.To(true)
	opts.GracefulShutdownTimeout = ptr.To(Patience)
	opts.ServiceGrace, opts.WaveHandover = new(time.Duration), new(time.Duration)
	return opts
}

// build makes the manager.
func (m *Manager) build(cfg *rest.Config, opts controllers.Options) (err error) {
	if m.mgr, err = controllers.NewManager(cfg, opts); err != nil || m.hooks == nil {
		return err
	}
	return m.hooks.SetupWithManager(m.mgr, m.mgr.Planner)
}

// run starts the manager.
func (m *Manager) run() {
	var ctx context.Context
	// Not the test's context: that ends before the cleanups in which the manager is stopped in good order.
	ctx, m.cancel = context.WithCancel(context.Background())
	m.ended = make(chan struct{})
	go func() {
		m.err = m.mgr.Start(ctx)
		close(m.ended)
	}()
}

// Elected is closed once the manager's controllers may work.
func (m *Manager) Elected() <-chan struct{} { return m.mgr.Elected() }

// Kill tells the manager to end and does not wait for it, so that it may be called from within one of its requests.
func (m *Manager) Kill() { m.cancel() }

// Stop ends the manager and waits for it; it may be called twice.
func (m *Manager) Stop(t testing.TB) {
	t.Helper()
	if err := m.end(); err != nil {
		t.Error(err)
	}
}

func (m *Manager) end() error {
	m.cancel()
	select {
	case <-m.ended:
		if m.err != nil {
			return fmt.Errorf("the manager ended with: %w", m.err)
		}
		return nil
	case <-time.After(Patience):
		return fmt.Errorf("the manager did not end within %s", Patience)
	}
}

// managerAccount is the manager's own ServiceAccount.
var managerAccount = types.NamespacedName{Namespace: SystemNamespace, Name: ServiceAccount}

// ManagerConfig is the manager's way to the API server, as its own ServiceAccount.
func (p *Plane) ManagerConfig() *rest.Config { return p.configOf(managerAccount) }

// configOf is a manager's way to the API server, as a ServiceAccount.
func (p *Plane) configOf(account types.NamespacedName) *rest.Config {
	cfg := rest.CopyConfig(p.Config)
	cfg.QPS = -1
	cfg.Impersonate = rest.ImpersonationConfig{
		UserName: "system:serviceaccount:" + account.Namespace + ":" + account.Name,
		Groups:   []string{"system:serviceaccounts", "system:serviceaccounts:" + account.Namespace, "system:authenticated"},
	}
	return cfg
}

// recorded is the way of a manager whose requests are recorded.
func (p *Plane) recorded(account types.NamespacedName, requests *Requests) *rest.Config {
	cfg := p.configOf(account)
	cfg.Wrap(requests.record)
	return cfg
}

// WithDisabled switches features off.
func WithDisabled(features ...string) Option {
	return func(_ *Manager, o *controllers.Options) { o.DisabledFeatures = features }
}
