package controllers

import (
	"context"
	"fmt"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	ctrlmetrics "sigs.k8s.io/controller-runtime/pkg/metrics"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	appv1 "huolala.cn/app-operator/api/v1"
	"huolala.cn/app-operator/internal/message"
	"huolala.cn/app-operator/internal/metrics"
	"huolala.cn/app-operator/resource"
)

// sizesValid tells of each process whether it can use the sizes' ConfigMap.
var sizesValid = metrics.SizeConfigValid.NewGauge()

func init() { ctrlmetrics.Registry.MustRegister(sizesValid) }

// Sizes knows what the named sizes stand for now: what a ConfigMap says, if the manager was told of one. The ConfigMap is
// read from the cache at each use, so that none can be missed; a wrong one leaves the last good values in force.
type Sizes struct {
	// key is the ConfigMap's; without a name there is none.
	key      types.NamespacedName
	cache    client.Reader
	recorder events.EventRecorder

	mu   sync.Mutex
	last sizesRead
	// told is the version of the wrong ConfigMap that was reported last, empty after a good one. Reconcile alone uses it.
	told string
}

// sizesRead is what a reading of the ConfigMap found.
type sizesRead struct {
	// config is the ConfigMap, nil if there is none.
	config *corev1.ConfigMap
	// wrong is what is the matter with it; sizes are then those of the last good one.
	wrong error
	sizes resource.Sizes
}

// +kubebuilder:rbac:groups="",namespace=system,resources=configmaps,resourceNames=app-operator-sizes,verbs=list;watch

// newSizes returns the sizes of a ConfigMap, "name" or "namespace/name", or the built-in ones for an empty name. Without a
// namespace it is in own.
func newSizes(name, own string) (*Sizes, error) {
	s := &Sizes{last: sizesRead{sizes: resource.BuiltInSizes()}}
	if name == "" {
		return s, nil
	}
	namespace, rest, both := strings.Cut(name, "/")
	if !both {
		namespace, rest = own, name
	}
	if namespace == "" && !both {
		return nil, fmt.Errorf("the sizes ConfigMap %q has no namespace: use namespace/name, or set POD_NAMESPACE", name)
	}
	if wrong := append(validation.IsDNS1123Label(namespace), validation.IsDNS1123Subdomain(rest)...); len(wrong) > 0 {
		return nil, fmt.Errorf("the sizes ConfigMap %q must be a name or namespace/name: %s", name, strings.Join(wrong, "; "))
	}
	s.key = types.NamespacedName{Namespace: namespace, Name: rest}
	return s, nil
}

// watchesConfigMap reports whether there is a ConfigMap to watch.
func (s *Sizes) watchesConfigMap() bool { return s.key.Name != "" }

// cacheOptions has the cache hold that one ConfigMap and no other, whichever namespaces the manager watches.
func (s *Sizes) cacheOptions() cache.ByObject {
	return cache.ByObject{Namespaces: map[string]cache.Config{
		s.key.Namespace: {FieldSelector: fields.OneTermEqualSelector("metadata.name", s.key.Name)},
	}}
}

// SetupWithManager adds the controller that tells at once of a ConfigMap that is wrong.
func (s *Sizes) SetupWithManager(mgr ctrl.Manager) error {
	if !s.watchesConfigMap() {
		return nil
	}
	s.cache, s.recorder = mgr.GetCache(), mgr.GetEventRecorder(fieldOwner)
	return ctrl.NewControllerManagedBy(mgr).
		Named("sizes").
		WithOptions(retryOptions()).
		Watches(&corev1.ConfigMap{}, handler.EnqueueRequestsFromMapFunc(s.onConfigMapChange)).
		Complete(s)
}

// onConfigMapChange is called on a stand-by too, which has to know the last good values should the ConfigMap be wrong when it takes
// over.
func (s *Sizes) onConfigMapChange(ctx context.Context, _ client.Object) []ctrl.Request {
	// What cannot be read now is read by Reconcile, which can report it.
	_, _ = s.refreshSizes(ctx)
	return []ctrl.Request{{NamespacedName: s.key}}
}

// Reconcile implements reconcile.Reconciler: it tells, once, of a ConfigMap that is wrong, and that it was fixed.
func (s *Sizes) Reconcile(ctx context.Context, _ ctrl.Request) (ctrl.Result, error) {
	now, err := s.refreshSizes(ctx)
	switch {
	case err != nil:
		return ctrl.Result{}, err
	case now.wrong != nil && s.told != now.config.ResourceVersion:
		s.told = now.config.ResourceVersion
		ctrl.LoggerFrom(ctx).Error(now.wrong, "The sizes ConfigMap is invalid; the last valid sizes stay in use")
		s.recorder.Eventf(now.config, nil, corev1.EventTypeWarning, "ErrInvalidSizes", "Read",
			messageSizesInvalid, message.Quote(now.wrong.Error()))
	case now.wrong == nil && s.told != "":
		s.told = ""
		ctrl.LoggerFrom(ctx).Info("The sizes ConfigMap is valid again, or was deleted")
		if now.config != nil {
			s.recorder.Eventf(now.config, nil, corev1.EventTypeNormal, "SizesValid", "Read", messageSizesValid)
		}
	}
	return ctrl.Result{}, nil
}

// refreshSizes brings what is known up to date.
func (s *Sizes) refreshSizes(ctx context.Context) (sizesRead, error) {
	// Held from before the read, so that what is found last is also the latest.
	s.mu.Lock()
	defer s.mu.Unlock()
	config := &corev1.ConfigMap{}
	// The cache waits until it has synced: a ConfigMap that was not read yet never counts as none.
	switch err := s.cache.Get(ctx, s.key, config); {
	case apierrors.IsNotFound(err):
		s.last = sizesRead{sizes: resource.BuiltInSizes()}
	case err != nil:
		return sizesRead{}, fmt.Errorf("read the sizes ConfigMap %s: %w", s.key, err)
	case s.last.config == nil || s.last.config.ResourceVersion != config.ResourceVersion:
		s.last.config = config
		var sizes resource.Sizes
		if sizes, s.last.wrong = resource.ParseSizes(config); s.last.wrong == nil {
			s.last.sizes = sizes
		}
	}
	valid := 1.0
	if s.last.wrong != nil {
		valid = 0
	}
	sizesValid.WithLabelValues(s.key.Namespace, s.key.Name).Set(valid)
	return s.last, nil
}

// Resolve returns a size with what it stands for now.
func (s *Sizes) Resolve(ctx context.Context, size appv1.Size) (resource.ResolvedSize, error) {
	switch {
	case !size.Named():
		return resource.ResolvedSize{}, nil
	case !s.watchesConfigMap():
		return s.last.sizes.Resolve(size), nil
	}
	now, err := s.refreshSizes(ctx)
	return now.sizes.Resolve(size), err
}

// watchSizes has the resources of a kind looked at again when the sizes have changed: their status tells of it.
func (s *Deps) watchSizes(b *builder.Builder, kind client.ObjectList) *builder.Builder {
	if !s.sizes.watchesConfigMap() {
		return b
	}
	all := func(ctx context.Context, _ client.Object) []ctrl.Request {
		list, ok := kind.DeepCopyObject().(client.ObjectList)
		if !ok || s.Client.List(ctx, list) != nil {
			return nil // The manager is ending: nothing else makes reading the cache fail.
		}
		return requestsFor(list)
	}
	// At the start all are looked at anyway.
	later := predicate.Funcs{CreateFunc: func(e event.CreateEvent) bool { return !e.IsInInitialList }}
	return b.Watches(&corev1.ConfigMap{}, handler.EnqueueRequestsFromMapFunc(all), builder.WithPredicates(later))
}
