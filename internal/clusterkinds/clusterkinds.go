// Package clusterkinds handles the kinds that a cluster may lack: it finds out which of these kinds the API server serves, and caches their
// objects. Built-in kinds that the manager may not list at its start are included.
//
// Such a kind has a cache and watches of its own while its CustomResourceDefinition exists and the manager may list it. Without the kind
// the manager keeps running: Check returns the obstacle, and the resources that wait for the kind are reconciled when its phase changes.
//
// Where the manager watches some namespaces, a kind has a cache and a phase for each of them: a namespace without the right to list the kind
// is no obstacle in another one.
package clusterkinds

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"reflect"
	"strings"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	appv1 "huolala.cn/app-operator/api/v1"
	"huolala.cn/app-operator/internal/budget"
	"huolala.cn/app-operator/internal/children"
	"huolala.cn/app-operator/internal/reconciler"
)

const (
	// lookAgain is the default of Options.LookAgain: the interval at which the manager looks for a missing or forbidden kind without an
	// event.
	lookAgain = time.Minute
	// settling is how long a reconcile waits until it is known whether a kind is there, counted from when it is first asked.
	settling = 5 * time.Second
	// firstPause is the pause before a definition is looked at again that is there and not served yet; it doubles.
	firstPause = time.Second
	// missingAfter is the pause from which on a kind with a definition counts as missing, if nothing was known of the kind before: after 3
	// seconds, which a reconcile waits for.
	missingAfter = 4 * time.Second
	// gather is how long an event of one definition waits for events of other definitions, so that one discovery request serves all of
	// them.
	gather = 50 * time.Millisecond
)

// Options are the connection to the API server, and the kinds and namespaces to watch.
type Options struct {
	Config *rest.Config
	// HTTPClient is the client made from Config.
	HTTPClient *http.Client
	Scheme     *runtime.Scheme
	// Namespaces are the watched namespaces; none means all.
	Namespaces []string
	// FieldOwner is the default field owner of writes.
	FieldOwner string
	// WatchFailed handles failed lists and watches that are retried.
	WatchFailed toolscache.WatchErrorHandlerWithContext
	// Types are the rows of the kinds that may be used.
	Types []*children.Type
	// Budget limits how much of each object the caches keep.
	Budget *budget.Budget
	// LookAgain is how often a kind is looked for that is missing, 0 for a minute.
	LookAgain time.Duration
	Log       logr.Logger
}

// phase is the state of a kind: whether it is served, listable and watched.
type phase int

const (
	// unknown: the API server has not answered yet whether it serves the kind.
	unknown phase = iota
	// missing: the API server does not serve the kind.
	missing
	// forbidden: the manager may not list it.
	forbidden
	// syncing: its objects are being listed.
	syncing
	// watched: they are in the cache.
	watched
)

// kind is the state of one kind in one namespace, or in all of them if the manager watches all. The phase and the fields after it are guarded
// by Kinds.mu.
type kind struct {
	row *children.Type
	gvk schema.GroupVersionKind
	// namespace is empty for all namespaces.
	namespace string
	// definition is the kind's CustomResourceDefinition, the same one for all namespaces.
	definition *definition
	log        logr.Logger

	phase phase
	// due is when to ask the API server whether it serves the kind, zero for never. pause is the next one while it does not.
	due   time.Time
	pause time.Duration
	// refusal is the API server's error when it forbade to list the objects, refused the time of the error.
	refusal string
	refused time.Time
	// objects is the cache of the objects, nil unless they are being listed or watched.
	objects *objects
	// waiting are the resources that need the kind while it cannot be used, each with the time of its last Check.
	waiting map[Waiter]time.Time
	// settled is closed once the phase is neither unknown nor syncing.
	settled chan struct{}
}

// Waiter is a resource that needs a kind: the field owner of the resource's own kind, and the resource's name.
type Waiter struct {
	Manager string
	types.NamespacedName
}

// scope is the Go type of a kind's objects, and a namespace, which is empty for all namespaces.
type scope struct {
	object    reflect.Type
	namespace string
}

// products are the products that bring the optional kinds.
var products = map[string]string{"HTTPRoute": "the Gateway API", "PodMonitor": "the Prometheus Operator"}

// Kinds are the optional kinds.
type Kinds struct {
	opts   Options
	mapper meta.RESTMapper
	// kinds has an item for each kind and watched namespace, byScope the same items by type and namespace, and definitions one item for each
	// kind.
	kinds       []*kind
	byScope     map[scope]*kind
	definitions []*definition
	// now is the clock; ask, watch and follow send the requests to the API server.
	now    func() time.Time
	ask    func(context.Context) (served, error)
	watch  func(context.Context, *kind) (*objects, error)
	follow func(context.Context, *definition) error

	mu          sync.Mutex
	subscribers []*subscriber
	// asked is the time of the last discovery request, first the time when a reconcile first checked a kind.
	asked, first time.Time
	changed      chan struct{}
}

var _ manager.LeaderElectionRunnable = (*Kinds)(nil)

// subscriber is a controller that receives the events of the objects.
type subscriber struct {
	manager string
	ctx     context.Context //nolint:containedctx // A controller gives it together with its queue.
	queue   workqueue.TypedRateLimitingInterface[ctrl.Request]
	// handle returns the handler of the events of a kind.
	handle func(*children.Type) handler.EventHandler
}

// New returns the optional kinds. They are unknown until they are started.
func New(opts Options) (*Kinds, error) {
	opts.LookAgain = cmp.Or(opts.LookAgain, lookAgain)
	k := &Kinds{opts: opts, mapper: newMapper(opts), byScope: map[scope]*kind{}, now: time.Now, changed: make(chan struct{}, 1)}
	for _, row := range opts.Types {
		if err := k.addType(row); err != nil {
			return nil, err
		}
	}
	ask, err := newDiscovery(opts)
	if err != nil {
		return nil, err
	}
	k.ask, k.watch, k.follow = ask, k.watchObjects, k.followDefinition
	return k, nil
}

// addType adds the kind of a row in all watched namespaces.
func (k *Kinds) addType(row *children.Type) error {
	gvk, err := apiutil.GVKForObject(row.Object, k.opts.Scheme)
	if err != nil {
		return fmt.Errorf("optional kind: %w", err)
	}
	resource, _ := meta.UnsafeGuessKindToResource(gvk)
	d := &definition{name: resource.Resource + "." + gvk.Group, custom: row.Custom}
	k.definitions = append(k.definitions, d)
	namespaces := k.opts.Namespaces
	if len(namespaces) == 0 {
		namespaces = []string{metav1.NamespaceAll}
	}
	for _, ns := range namespaces {
		of := scope{reflect.TypeOf(row.Object), ns}
		if k.byScope[of] != nil {
			continue
		}
		log := k.opts.Log.WithValues("kind", gvk.Kind)
		if ns != metav1.NamespaceAll {
			log = log.WithValues("namespace", ns)
		}
		s := &kind{
			row: row, gvk: gvk, namespace: ns, definition: d, log: log,
			waiting: map[Waiter]time.Time{}, settled: make(chan struct{}), pause: firstPause,
		}
		k.kinds = append(k.kinds, s)
		k.byScope[of] = s
	}
	return nil
}

// kindOf returns the state of the kind of an object in a namespace, nil if the kind is not optional or the namespace is not watched.
func (k *Kinds) kindOf(obj client.Object, namespace string) *kind {
	if len(k.opts.Namespaces) == 0 {
		namespace = metav1.NamespaceAll
	}
	return k.byScope[scope{reflect.TypeOf(obj), namespace}]
}

// NeedLeaderElection implements manager.LeaderElectionRunnable: a standby fills its caches before it becomes the leader.
func (k *Kinds) NeedLeaderElection() bool { return false }

// Start implements manager.Runnable.
func (k *Kinds) Start(ctx context.Context) error {
	for _, d := range k.definitions {
		if err := k.follow(ctx, d); err != nil {
			return fmt.Errorf("watch the CustomResourceDefinition %s: %w", d.name, err)
		}
	}
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		if next := k.discoverDue(ctx); next > 0 {
			timer.Reset(next)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-k.changed:
		case <-timer.C:
		}
	}
}

// Check returns why an object of a kind cannot be written in the namespace of the waiter, nil if nothing is known to prevent the write. While
// the state of the kind is unknown, Check waits for at most the settling time. The waiter is reconciled when the state changes.
func (k *Kinds) Check(ctx context.Context, obj client.Object, w Waiter) error {
	s := k.kindOf(obj, w.Namespace)
	if s == nil {
		return nil
	}
	k.awaitSettled(ctx, s)
	k.mu.Lock()
	defer k.mu.Unlock()
	if s.phase == watched {
		delete(s.waiting, w)
		return nil
	}
	if _, ok := s.waiting[w]; !ok {
		k.wakeLoop()
	}
	s.waiting[w] = k.now()
	return k.unwatchedError(s)
}

// Look is Check without a waiter: no reconcile follows when the kind appears.
func (k *Kinds) Look(ctx context.Context, obj client.Object, namespace string) error {
	s := k.kindOf(obj, namespace)
	if s == nil {
		return nil
	}
	k.awaitSettled(ctx, s)
	k.mu.Lock()
	defer k.mu.Unlock()
	if s.phase == watched {
		return nil
	}
	return k.unwatchedError(s)
}

// unwatchedError returns the error for a kind that is not watched.
func (k *Kinds) unwatchedError(s *kind) error {
	switch s.phase {
	case missing:
		return &reconciler.StalledError{
			Reason:     appv1.ReasonKindMissing,
			Message:    fmt.Sprintf(messageMissing, s.gvk.Kind, s.gvk.GroupVersion(), products[s.gvk.Kind], remedyFor(s.row)),
			RetryAfter: k.opts.LookAgain,
		}
	case forbidden:
		return &reconciler.StalledError{
			Reason: appv1.ReasonForbidden, Message: fmt.Sprintf(messageForbidden, s.gvk.Kind, s.refusal, remedyFor(s.row)), RetryAfter: k.opts.LookAgain,
		}
	}
	return &reconciler.WaitingError{
		Reason: appv1.ReasonProgressing, Message: fmt.Sprintf(messageUnknown, s.gvk.Kind), RetryAfter: k.opts.LookAgain,
	}
}

// remedyFor returns what a user can do where objects of a type cannot be used.
func remedyFor(row *children.Type) string {
	if row.Scheduled {
		return "delete the resource"
	}
	return "remove spec." + strings.Join(row.Features, " and spec.")
}

// awaitSettled waits until the state of a kind is known, for no longer than settling after the first such wait for any kind: a slow API
// server must not block the rest of a reconcile.
func (k *Kinds) awaitSettled(ctx context.Context, s *kind) {
	k.mu.Lock()
	if k.first.IsZero() {
		k.first = k.now()
	}
	settled, wait := s.settled, settling-k.now().Sub(k.first)
	k.mu.Unlock()
	if wait <= 0 {
		return
	}
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-settled:
	case <-timer.C:
	case <-ctx.Done():
	}
}

// wakeLoop has the loop look at the kinds.
func (k *Kinds) wakeLoop() {
	select {
	case k.changed <- struct{}{}:
	default:
	}
}

// enterPhase sets the phase of a kind, and requeues all affected resources.
func (k *Kinds) enterPhase(s *kind, p phase) {
	if s.phase == p {
		return
	}
	was := s.phase
	s.phase = p
	s.log.V(1).Info("An optional kind has changed its state", "was", was.String(), "is", p.String())
	switch p {
	case unknown, syncing:
		select {
		case <-s.settled:
			s.settled = make(chan struct{})
		default:
		}
		return
	}
	select {
	case <-s.settled:
	default:
		close(s.settled)
	}
	for w := range s.waiting {
		for _, sub := range k.subscribers {
			if sub.manager == w.Manager {
				sub.queue.Add(ctrl.Request{NamespacedName: w.NamespacedName})
			}
		}
	}
	if p == watched {
		clear(s.waiting)
	}
}

// String implements fmt.Stringer.
func (p phase) String() string {
	return [...]string{"unknown", "missing", "forbidden", "syncing", "watched"}[p]
}
