package controllers

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/operator-framework/operator-lib/conditions"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"huolala.cn/app-operator/internal/answers"
	"huolala.cn/app-operator/internal/apply"
	"huolala.cn/app-operator/internal/budget"
	"huolala.cn/app-operator/internal/children"
	"huolala.cn/app-operator/internal/content"
	"huolala.cn/app-operator/internal/fence"
	"huolala.cn/app-operator/internal/reconciler"
	"huolala.cn/app-operator/internal/stored"
	"huolala.cn/app-operator/internal/waves"
	"huolala.cn/app-operator/internal/workload"
	"huolala.cn/app-operator/resource"
)

// fieldOwner is the manager's name as a writer of anything but children.
const fieldOwner = "app-operator"

// reconcileTimeout ends a reconcile that hangs on the API server.
const reconcileTimeout = 2 * time.Minute

// syncTimeout is how long a controller waits for its caches before the manager ends. A kind that cannot be listed does not end the manager: a
// metric is set, and the manager is not ready until each kind was listed once. The lists of children wait for the lists of the kinds (package budget).
const syncTimeout = 365 * 24 * time.Hour

// renewDeadline is how long a leader tries to renew its lease where the options leave that to controller-runtime.
const renewDeadline = 10 * time.Second

// ShutdownTimeout is how long a manager that ends waits for its reconciles and servers where the options have no other time. It is less than the
// grace period of the pod in config/manager, so that the lease is released before the pod is killed.
const ShutdownTimeout = 20 * time.Second

// Options say how to run the controllers. The fields of the embedded options that NewManager sets itself are
// overwritten: scheme, cache, client and controller defaults.
type Options struct {
	ctrl.Options

	// Namespaces to watch; none means all.
	Namespaces []string
	// Workers is how many resources of a kind in one namespace are worked on at once; a few more are for other namespaces.
	Workers int
	// DisabledFeatures are the fields of the spec around the pods that are refused, and whose objects are not watched.
	DisabledFeatures []string
	// OwnNamespace is the namespace that the manager runs in, empty if it is not known. Its AppDefaults count for all namespaces.
	OwnNamespace string
	// FollowSecrets follows the content of Secrets, and not of ConfigMaps alone, where a resource is to roll out by it.
	FollowSecrets bool
	// Rendering is the newest rendering that a pod template is built with.
	Rendering int32
	// Version and Commit are the program's, for the metrics.
	Version, Commit string
	// Upgradeable makes the condition that OLM reads before it replaces the operator, with a configuration for its requests; nil for none.
	Upgradeable func(*rest.Config) (conditions.Condition, error)
	// LookAgain is how often a kind is looked for that the cluster lacks and a resource asks for; 0 for a minute.
	LookAgain time.Duration
	// ServiceGrace is for how long a former Service stays once its successor exists, and the Ingress and the HTTPRoute lead to the successor;
	// nil for a minute.
	ServiceGrace *time.Duration
	// WaveHandover is for how long after its start the manager begins no wave of a rollout of AppDefaults; nil for 10 seconds.
	WaveHandover *time.Duration
	// NamespaceCache is how many bytes the resources of one namespace and their children may take in the cache beyond what plain ones need; 0
	// for DefaultNamespaceCache. See package budget.
	NamespaceCache int
	// Clock is the clock of the process; nil means the real one.
	Clock clock.PassiveClock
}

// DefaultNamespaceCache is the default of Options.NamespaceCache, in bytes. Four namespaces at this limit, next to what a manager needs
// anyway, are well below the memory limit of config/manager.
const DefaultNamespaceCache = 32 << 20

// Manager is a manager with all controllers.
type Manager struct {
	ctrl.Manager
	// Planner computes the effect of a change of a custom resource.
	Planner *Planner
	checks  *checks
}

// NewManager returns a manager with all controllers, ready to start.
func NewManager(cfg *rest.Config, opts Options) (*Manager, error) {
	opts.Scheme = runtime.NewScheme()
	if err := errors.Join(clientgoscheme.AddToScheme(opts.Scheme), stored.AddToScheme(opts.Scheme), children.AddToScheme(opts.Scheme)); err != nil {
		return nil, fmt.Errorf("scheme: %w", err)
	}
	if opts.Logger.GetSink() == nil {
		opts.Logger = ctrl.Log
	}
	opts.Logger = withoutBodies(opts.Logger)
	watched, err := chooseWatches(cfg, &opts)
	if err != nil {
		return nil, err
	}
	kept := budget.New(budget.NewLimits(cmp.Or(opts.NamespaceCache, DefaultNamespaceCache)))
	opts.Cache = CacheOptions(opts.Namespaces, &watched, kept)
	defaults := newDefaults(opts.OwnNamespace, opts.DisabledFeatures)
	opts.Cache.ByObject[&stored.AppDefaults{}] = defaults.cacheOptions(opts.Namespaces, kept)
	opts.Client = client.Options{
		FieldOwner: fieldOwner,
		Cache:      &client.CacheOptions{EnableReadYourWritesConsistency: ptr.To(true)},
	}
	opts.Controller = controllerDefaults(&opts)
	opts.GracefulShutdownTimeout = cmp.Or(opts.GracefulShutdownTimeout, ptr.To(ShutdownTimeout))
	if opts.Clock == nil {
		opts.Clock = clock.RealClock{}
	}
	if opts.LeaderElection {
		f := fence.New(ptr.Deref(opts.RenewDeadline, renewDeadline), opts.Clock)
		opts.LeaderElectionConfig, cfg = f.Election(cfg), f.Work(cfg)
	}
	long := answers.New()
	cfg = rest.CopyConfig(cfg)
	cfg.Wrap(long.Wrap)
	servers := takeServers(&opts.Options)
	made, err := ctrl.NewManager(cfg, opts.Options)
	if err != nil {
		return nil, err
	}
	mgr := &Manager{Manager: made, checks: newChecks()}
	if err := errors.Join(addProbes(mgr, &watched), servers.addServers(mgr, cfg)); err != nil {
		return nil, err
	}
	if err := AddIndexes(context.Background(), mgr.GetFieldIndexer(), &watched); err != nil {
		return nil, fmt.Errorf("indexes: %w", err)
	}
	shared, err := newDeps(mgr, &opts, defaults, watched, kept, long)
	if err != nil {
		return nil, err
	}
	noteBuild(&opts)
	errs := []error{
		mgr.Add(manager.RunnableFunc(resources.whileWorking(mgr.GetCache()))),
		mgr.Add(watched.leftOut),
		(&AppDefaultsReconciler{Deps: *shared, WaveHandover: opts.WaveHandover}).setupWithManager(mgr),
		(&upgradeable{client: mgr.GetClient()}).SetupWithManager(mgr, cfg, opts.Upgradeable),
	}
	for _, k := range allKinds() {
		errs = append(errs, k.setupWithManager(mgr, shared))
	}
	mgr.Planner = newPlanner(shared)
	return mgr, errors.Join(errs...)
}

// chooseWatches asks the API server which types and namespaces can be watched. It removes the namespaces that are left out from the options.
func chooseWatches(cfg *rest.Config, opts *Options) (watchSet, error) {
	look, err := newLooker(cfg, opts.Scheme)
	if err != nil {
		return watchSet{}, err
	}
	watched := newWatchSet(look, opts, opts.Logger)
	opts.Namespaces = watched.leftOut.remove(opts.Namespaces)
	return watched, nil
}

// newDeps returns what the controllers of a manager work with.
func newDeps(mgr ctrl.Manager, opts *Options, defaults *Defaults, watched watchSet, kept *budget.Budget, long *answers.Budget) (*Deps, error) {
	kindsOfOthers, err := addOptionalKinds(mgr, opts, &watched, kept)
	if err != nil {
		return nil, err
	}
	c := budget.NewClient(kindsOfOthers.Client(mgr.GetClient()), mgr.GetAPIReader())
	defaults.reader, defaults.live = mgr.GetCache(), mgr.GetAPIReader()
	shared := &Deps{
		Reconciler: workload.Reconciler{
			Client: c, Live: mgr.GetAPIReader(), ClusterKinds: kindsOfOthers, Engine: apply.New(c, mgr.GetAPIReader(), opts.Clock), Clock: opts.Clock,
			ServiceGrace: ptr.Deref(opts.ServiceGrace, workload.DefaultServiceGrace), Today: resource.BuildInputs{Rendering: opts.Rendering}, Defaults: defaults,
			Records: workload.NewRecords(), PodCauses: workload.NewPodCauses(opts.Clock),
		},
		Recorder: reconciler.LimitEvents(mgr.GetEventRecorder(fieldOwner), opts.Clock, droppedEvents.WithLabelValues().Inc),
		Disabled: opts.DisabledFeatures,
		Pending:  newPendingPlans(),
		defaults: defaults,
		grants:   waves.NewGrants(),
		watched:  watched,
		answers:  long,
	}
	shared.Waves = &waveGrants{Grants: shared.grants, defaults: defaults}
	if shared.Content, err = content.New(mgr, content.Options{
		Cache: opts.Cache, Live: mgr.GetAPIReader(), Writer: mgr.GetClient(), Clock: opts.Clock,
		Secrets: opts.FollowSecrets, OwnNamespace: opts.OwnNamespace,
	}); err != nil {
		return nil, fmt.Errorf("watch of ConfigMaps: %w", err)
	}
	shared.Engine.Disable(opts.DisabledFeatures)
	return shared, nil
}

// controllerDefaults is what all controllers have in common.
func controllerDefaults(opts *Options) config.Controller {
	return config.Controller{
		MaxConcurrentReconciles: opts.Workers,
		ReconciliationTimeout:   reconcileTimeout,
		CacheSyncTimeout:        syncTimeout,
		// A stand-by has its caches filled when it takes over.
		EnableWarmup:       ptr.To(true),
		SkipNameValidation: opts.Controller.SkipNameValidation,
	}
}

// addProbes adds the health and readiness checks. The manager is ready once its caches have synced.
func addProbes(mgr ctrl.Manager, watched *watchSet) error {
	var synced atomic.Bool
	ready := func(*http.Request) error {
		if synced.Load() {
			return nil
		}
		broken := watches.brokenKinds()
		maps.DeleteFunc(broken, func(_ string, is bool) bool { return !is })
		if len(broken) > 0 {
			return fmt.Errorf("the caches are not synced yet: the last list or watch of %s failed; the log says why",
				strings.Join(slices.Sorted(maps.Keys(broken)), ", "))
		}
		return errors.New("the caches are not synced yet")
	}
	return errors.Join(
		mgr.AddHealthzCheck("ping", healthz.Ping),
		mgr.AddReadyzCheck("caches", ready),
		mgr.Add(&syncWatch{cache: mgr.GetCache(), watched: watched, synced: &synced}),
	)
}

// syncWatch notes when the caches have synced, on every replica.
type syncWatch struct {
	cache   cache.Cache
	watched *watchSet
	synced  *atomic.Bool
}

var _ manager.LeaderElectionRunnable = (*syncWatch)(nil)

// Start implements manager.Runnable.
func (s *syncWatch) Start(ctx context.Context) error {
	objects := []client.Object{&stored.AppDefaults{}}
	for _, k := range allKinds() {
		objects = append(objects, k.empty())
	}
	for i := range children.Types {
		if s.watched.isShared(&children.Types[i]) {
			objects = append(objects, children.Types[i].Object)
		}
	}
	for _, obj := range objects {
		if _, err := s.cache.GetInformer(ctx, obj, cache.BlockUntilSynced(false)); err != nil {
			return fmt.Errorf("watch %T: %w", obj, err)
		}
	}
	s.synced.Store(s.cache.WaitForCacheSync(ctx))
	return nil
}

// NeedLeaderElection implements manager.LeaderElectionRunnable.
func (s *syncWatch) NeedLeaderElection() bool { return false }
