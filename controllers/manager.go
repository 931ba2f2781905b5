package controllers

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/operator-framework/operator-lib/conditions"
	corev1 "k8s.io/api/core/v1"
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

	"huolala.cn/app-operator/internal/apply"
	"huolala.cn/app-operator/internal/fence"
	"huolala.cn/app-operator/internal/stored"
	"huolala.cn/app-operator/resource"
)

// fieldOwner is the manager's name as a writer of anything but children.
const fieldOwner = "app-operator"

// reconcileTimeout ends a reconcile that hangs on the API server.
const reconcileTimeout = 2 * time.Minute

// syncTimeout is how long a controller waits for its caches before the manager ends. One kind that cannot be listed does not
// stop the others: a metric tells of it, and the manager is not ready until each kind was listed once.
const syncTimeout = 365 * 24 * time.Hour

// renewDeadline is how long a leader tries to renew its lease where the options leave that to controller-runtime.
const renewDeadline = 10 * time.Second

// Options say how to run the controllers. The fields of the embedded options that NewManager sets itself are
// overwritten: scheme, cache, client and controller defaults.
type Options struct {
	ctrl.Options

	// Namespaces to watch; none means all.
	Namespaces []string
	// Workers is how many resources of a kind are worked on at once.
	Workers int
	// SizeConfigMap is the ConfigMap that says what the named sizes stand for, as "name" or "namespace/name"; empty for
	// the built-in values.
	SizeConfigMap string
	// OwnNamespace is the namespace that the manager runs in, empty if it is not known.
	OwnNamespace string
	// Rendering is the newest rendering that a pod template is built with.
	Rendering int32
	// Upgradeable is what OLM asks before it replaces the operator; nil for none.
	Upgradeable conditions.Condition
	// Clock tells the time; nil means the real one.
	Clock clock.PassiveClock
}

// NewManager returns a manager with all controllers, ready to start.
func NewManager(cfg *rest.Config, opts Options) (ctrl.Manager, error) {
	opts.Scheme = runtime.NewScheme()
	if err := errors.Join(clientgoscheme.AddToScheme(opts.Scheme), stored.AddToScheme(opts.Scheme)); err != nil {
		return nil, fmt.Errorf("scheme: %w", err)
	}
	opts.Cache = CacheOptions(opts.Namespaces)
	sizes, err := newSizes(opts.SizeConfigMap, opts.OwnNamespace)
	if err != nil {
		return nil, err
	}
	if sizes.watchesConfigMap() {
		opts.Cache.ByObject[&corev1.ConfigMap{}] = sizes.cacheOptions()
	}
	opts.Client = client.Options{
		FieldOwner: fieldOwner,
		Cache:      &client.CacheOptions{EnableReadYourWritesConsistency: ptr.To(true)},
	}
	opts.Controller = controllerDefaults(&opts)
	if opts.Logger.GetSink() == nil {
		opts.Logger = ctrl.Log
	}
	opts.Logger = withoutBodies(opts.Logger)
	if opts.Clock == nil {
		opts.Clock = clock.RealClock{}
	}
	if opts.LeaderElection {
		f := fence.New(ptr.Deref(opts.RenewDeadline, renewDeadline), opts.Clock)
		opts.LeaderElectionConfig, cfg = f.Election(cfg), f.Work(cfg)
	}
	mgr, err := ctrl.NewManager(cfg, opts.Options)
	if err != nil {
		return nil, err
	}
	if err := addProbes(mgr, sizes); err != nil {
		return nil, err
	}
	if err := AddIndexes(context.Background(), mgr.GetFieldIndexer()); err != nil {
		return nil, fmt.Errorf("indexes: %w", err)
	}
	shared := Deps{
		Client:   mgr.GetClient(),
		Live:     mgr.GetAPIReader(),
		Engine:   apply.New(mgr.GetClient(), mgr.GetAPIReader(), opts.Clock),
		Recorder: mgr.GetEventRecorder(fieldOwner),
		Clock:    opts.Clock,
		Today:    resource.Inputs{Rendering: opts.Rendering},
		Sizes:    sizes,
		Records:  newLastRecords(),
	}
	errs := []error{
		sizes.SetupWithManager(mgr),
		(&upgradeable{client: mgr.GetClient(), condition: opts.Upgradeable}).SetupWithManager(mgr),
	}
	for _, k := range kinds() {
		errs = append(errs, k.setupWithManager(mgr, &shared))
	}
	return mgr, errors.Join(errs...)
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
func addProbes(mgr ctrl.Manager, sizes *Sizes) error {
	var synced atomic.Bool
	ready := func(*http.Request) error {
		if !synced.Load() {
			return errors.New("the caches are not synced yet")
		}
		return nil
	}
	return errors.Join(
		mgr.AddHealthzCheck("ping", healthz.Ping),
		mgr.AddReadyzCheck("caches", ready),
		mgr.Add(&syncWatch{cache: mgr.GetCache(), sizes: sizes, synced: &synced}),
	)
}

// syncWatch notes when the caches have synced, on every replica.
type syncWatch struct {
	cache  cache.Cache
	sizes  *Sizes
	synced *atomic.Bool
}

var _ manager.LeaderElectionRunnable = (*syncWatch)(nil)

// Start implements manager.Runnable.
func (s *syncWatch) Start(ctx context.Context) error {
	var objects []client.Object
	for _, k := range kinds() {
		objects = append(objects, k.empty())
	}
	for i := range apply.Types {
		if apply.Types[i].Scope != apply.ScopeLive {
			objects = append(objects, apply.Types[i].Object)
		}
	}
	if s.sizes.watchesConfigMap() {
		objects = append(objects, &corev1.ConfigMap{})
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
