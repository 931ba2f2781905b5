package controllers

import (
	"context"
	"errors"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	toolscache "k8s.io/client-go/tools/cache"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache/informertest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllertest"
	"sigs.k8s.io/controller-runtime/pkg/event"

	appv1 "huolala.cn/app-operator/api/v1"
	"huolala.cn/app-operator/internal/children"
	"huolala.cn/app-operator/internal/fairqueue"
)

// knownObjects is a cache that has the objects of a client.
type knownObjects struct {
	informertest.FakeInformers
	client client.Client
}

// newKnownObjects returns the cache of what controllers share.
func newKnownObjects(s *Deps) *knownObjects {
	return &knownObjects{FakeInformers: informertest.FakeInformers{Scheme: s.Client.Scheme()}, client: s.Client}
}

// Get implements cache.Cache.
func (k *knownObjects) Get(ctx context.Context, key client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
	return k.client.Get(ctx, key, obj, opts...)
}

// TestExistsIn has each resource exist unless the cache knows that there is none.
func TestExistsIn(t *testing.T) {
	request := func(name string) ctrl.Request {
		return ctrl.Request{NamespacedName: types.NamespacedName{Namespace: "default", Name: name}}
	}
	for _, k := range allKinds() {
		known := newKnownObjects(withCache(t, newStored(t, &k, specs[k.Name])))
		exists := existsIn(known, k.empty)
		want := func(what, name string, want bool) {
			t.Helper()
			if got := exists(request(name)); got != want {
				t.Errorf("%s %s, %s: %t", k.Name, name, what, got)
			}
		}
		informer := controllertest.NewFakeInformer()
		known.InformersByGVK = map[schema.GroupVersionKind]toolscache.SharedIndexInformer{appv1.GroupVersion.WithKind(k.Name): informer}
		want("not listed yet", "invented", true)
		informer.Synced()
		want("listed", "web", true)
		want("listed", "invented", false)
		exists, known.Error = existsIn(known, k.empty), errors.New("no informer")
		want("not watched", "invented", true)
	}
}

// TestStandByKeepsNoInventedNames has objects of strangers name resources that do not exist, in each way in which an object names a resource: a
// stand-by keeps no request for them.
func TestStandByKeepsNoInventedNames(t *testing.T) {
	for _, k := range allKinds() {
		s := withCache(t, newStored(t, &k, specs[k.Name]))
		options := queueOptions(1, existsIn(newKnownObjects(s), k.empty))
		made := options.NewQueue("", options.RateLimiter)
		time.AfterFunc(time.Minute, made.ShutDown) // A worker that gets nothing ends with the queue.
		t.Cleanup(made.ShutDown)
		queue, ok := made.(*fairqueue.Queue)
		if !ok {
			t.Fatalf("%T", made)
		}
		for i := range children.Types {
			row := &children.Types[i]
			if !k.watchesType(row) {
				continue
			}
			events := newWaker(&k, s).handler(k.wakeFunc(s, row.Role))
			for _, name := range []string{"invented", "web"} {
				obj := newChild(t, row, "former", k.Name, name)
				obj.SetLabels(map[string]string{k.PodLabel: name, appv1.LabelBeforeRollout: name})
				events.Create(t.Context(), event.CreateEvent{Object: obj}, queue)
			}
		}
		if request, _ := queue.Get(); request.Name != "web" || queue.Len() > 0 {
			t.Errorf("%s: a worker gets %s, and %d requests are left", k.Name, request, queue.Len())
		}
	}
}
