package clusterkinds

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	apidiscoveryv2 "k8s.io/api/apidiscovery/v2"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/source"

	appv1 "huolala.cn/app-operator/api/v1"
	"huolala.cn/app-operator/internal/children"
	"huolala.cn/app-operator/internal/message"
)

// newMapper returns a mapper with the resources of the kinds, so that no discovery request is needed.
func newMapper(opts Options) meta.RESTMapper {
	mapper := meta.NewDefaultRESTMapper(nil)
	mapper.Add(definitionKind, meta.RESTScopeRoot)
	for _, row := range opts.Types {
		if gvk, err := apiutil.GVKForObject(row.Object, opts.Scheme); err == nil {
			mapper.Add(gvk, meta.RESTScopeNamespace)
			mapper.Add(gvk.GroupVersion().WithKind(gvk.Kind+"List"), meta.RESTScopeNamespace)
		}
	}
	return mapper
}

// aggregated is the media type of a list of all that is served, which has been there since Kubernetes 1.30.
const aggregated = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"

// newDiscovery returns a function that gets the served kinds with one request.
func newDiscovery(opts Options) (func(context.Context) (served, error), error) {
	c, err := discovery.NewDiscoveryClientForConfigAndClient(opts.Config, opts.HTTPClient)
	if err != nil {
		return nil, fmt.Errorf("discovery: %w", err)
	}
	return func(ctx context.Context) (served, error) {
		data, err := c.RESTClient().Get().AbsPath("/apis").SetHeader("Accept", aggregated).Do(ctx).Raw()
		if err != nil {
			return nil, err
		}
		var groups apidiscoveryv2.APIGroupDiscoveryList
		if err := json.Unmarshal(data, &groups); err != nil {
			return nil, fmt.Errorf("discovery: %w", err)
		}
		if groups.Kind != "APIGroupDiscoveryList" {
			return nil, errors.New("discovery: the API server does not list what it serves in one document")
		}
		return func(s *kind) bool { return servesKind(&groups, s.gvk) }, nil
	}, nil
}

// servesKind reports whether the API server serves a kind.
func servesKind(groups *apidiscoveryv2.APIGroupDiscoveryList, gvk schema.GroupVersionKind) bool {
	for i := range groups.Items {
		if groups.Items[i].Name != gvk.Group {
			continue
		}
		for j := range groups.Items[i].Versions {
			version := &groups.Items[i].Versions[j]
			if version.Version != gvk.Version {
				continue
			}
			for _, resource := range version.Resources {
				if resource.ResponseKind != nil && resource.ResponseKind.Kind == gvk.Kind {
					return true
				}
			}
		}
	}
	return false
}

// objects is the cache of the objects of one kind in its namespace. It exists while the kind is watched.
type objects struct {
	client   client.Client
	informer cache.Informer
	stop     context.CancelFunc
	list     func() []client.Object
}

// watchObjects begins to list and watch the operator's objects of a kind. k.mu is held.
func (k *Kinds) watchObjects(ctx context.Context, s *kind) (*objects, error) {
	ctx, stop := context.WithCancel(ctx)
	o := &objects{stop: stop}
	c, err := cache.New(k.opts.Config, k.cacheOptions(s, o))
	if err == nil {
		err = c.IndexField(ctx, s.row.Object, children.IndexOwner, children.OwnerKey)
	}
	if err == nil {
		o.informer, err = c.GetInformer(ctx, s.row.Object, cache.BlockUntilSynced(false))
	}
	if err == nil {
		o.client, err = client.New(k.opts.Config, client.Options{
			HTTPClient: k.opts.HTTPClient, Scheme: k.opts.Scheme, Mapper: k.mapper, FieldOwner: k.opts.FieldOwner,
			Cache: &client.CacheOptions{Reader: c, EnableReadYourWritesConsistency: ptr.To(true)},
		})
	}
	if err != nil {
		stop()
		return nil, err
	}
	o.list = func() []client.Object { return k.listAll(ctx, c, s) }
	go func() {
		if err := c.Start(ctx); err != nil {
			s.log.Error(err, "Cannot watch an optional kind")
		}
	}()
	go func() {
		if c.WaitForCacheSync(ctx) {
			k.noteSynced(s, o)
		}
	}()
	return o, nil
}

// cacheOptions returns the options of the cache of a kind's objects.
func (k *Kinds) cacheOptions(s *kind, o *objects) cache.Options {
	opts := cache.Options{
		HTTPClient: k.opts.HTTPClient, Scheme: k.opts.Scheme, Mapper: k.mapper,
		DefaultLabelSelector: labels.SelectorFromSet(labels.Set{appv1.LabelManagedBy: appv1.ManagedBy}),
		DefaultTransform:     k.opts.Budget.Transform(s.row), NewInformer: k.opts.Budget.NewInformer,
		DefaultWatchErrorHandler: func(ctx context.Context, r *toolscache.Reflector, err error) {
			switch {
			case apierrors.IsForbidden(err):
				k.noteRefused(s, o, message.Quote(err.Error()))
			case apierrors.IsNotFound(err):
				k.noteUnknown(s, o)
			default:
				k.opts.WatchFailed(ctx, r, err)
			}
		},
	}
	if s.namespace != metav1.NamespaceAll {
		opts.DefaultNamespaces = map[string]cache.Config{s.namespace: {}}
	}
	return opts
}

// tellOwners requeues the owners of the objects in the cache, as if these objects had been deleted.
func (o *objects) tellOwners(subscribers []*subscriber, row *children.Type) {
	for _, obj := range o.list() {
		for _, sub := range subscribers {
			sub.handle(row).Delete(sub.ctx, event.DeleteEvent{Object: obj}, sub.queue)
		}
	}
}

// listAll returns the objects of a kind that a cache holds.
func (k *Kinds) listAll(ctx context.Context, c client.Reader, s *kind) []client.Object {
	list, err := s.newList(k.opts.Scheme)
	if err == nil {
		err = c.List(ctx, list, client.UnsafeDisableDeepCopy)
	}
	var found []client.Object
	if err == nil {
		err = meta.EachListItem(list, func(item runtime.Object) error {
			if obj, ok := item.(client.Object); ok {
				found = append(found, obj)
			}
			return nil
		})
	}
	if err != nil {
		s.log.Error(err, "Cannot list the objects of an optional kind")
	}
	return found
}

// newList returns an empty list of a kind's objects.
func (s *kind) newList(scheme *runtime.Scheme) (client.ObjectList, error) {
	obj, err := scheme.New(s.gvk.GroupVersion().WithKind(s.gvk.Kind + "List"))
	if err != nil {
		return nil, err
	}
	list, ok := obj.(client.ObjectList)
	if !ok {
		return nil, fmt.Errorf("%T is not a list", obj)
	}
	return list, nil
}

// Source returns a source of events for the controller whose field owner is manager: events of the optional kinds' objects, handled by
// handle, and events of the kinds themselves for the resources that wait for them.
func (k *Kinds) Source(manager string, handle func(*children.Type) handler.EventHandler) source.Source {
	return source.Func(func(ctx context.Context, queue workqueue.TypedRateLimitingInterface[ctrl.Request]) error {
		k.mu.Lock()
		defer k.mu.Unlock()
		sub := &subscriber{manager: manager, ctx: ctx, queue: queue, handle: handle}
		k.subscribers = append(k.subscribers, sub)
		for _, s := range k.kinds {
			if s.phase == watched {
				if err := sub.startEvents(s.objects.informer, s.row); err != nil {
					return err
				}
			}
		}
		return nil
	})
}

// startEvents starts the events of an informer for the controller, first for all existing objects. The kind is watched: a resource that is
// reconciled for an event finds the object.
func (s *subscriber) startEvents(informer cache.Informer, row *children.Type) error {
	events := &source.Informer{Informer: informer, Handler: s.handle(row)}
	if row.Wakes != nil {
		events.Predicates = []predicate.Predicate{row.Wakes}
	}
	return events.Start(s.ctx, s.queue)
}
