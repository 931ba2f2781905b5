package webhooks

import (
	"context"
	"testing"

	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"huolala.cn/app-operator/api/plan"
	appv1 "huolala.cn/app-operator/api/v1"
	"huolala.cn/app-operator/internal/apply"
	"huolala.cn/app-operator/resource"
)

// untouched is a cache that must not be read.
type untouched struct {
	cache.Cache
	t *testing.T
}

func (u untouched) Get(_ context.Context, _ client.ObjectKey, obj client.Object, _ ...client.GetOption) error {
	u.t.Errorf("a %T was read from the cache, which would start to watch the type", obj)
	return nil
}

func (u untouched) List(_ context.Context, list client.ObjectList, _ ...client.ListOption) error {
	u.t.Errorf("a %T was read from the cache, which would start to watch the type", list)
	return nil
}

// nothingCached is a planner of a manager whose cache has none of the types around the pods.
type nothingCached struct{}

func (nothingCached) Plan(context.Context, string, client.Object) (*plan.Plan, error) {
	return nil, nil
}
func (nothingCached) Adoptions(context.Context, string, client.Object) ([]apply.Outcome, error) {
	return nil, nil
}
func (nothingCached) PresentWith(context.Context, string, *appv1.AppDefaultsSpec) (resource.PresentDefaults, error) {
	return resource.LayerDefaults(), nil
}
func (nothingCached) PlanDefaults(context.Context, string, *appv1.AppDefaultsSpec) (*plan.Defaults, error) {
	return &plan.Defaults{Apps: 1, Looked: 1, Invalid: 1, Examples: []string{"secret-example"}}, nil
}
func (nothingCached) Present(context.Context, string) (resource.PresentDefaults, error) {
	return resource.LayerDefaults(), nil
}
func (nothingCached) Obstacle(context.Context, client.Object) error { return nil }
func (nothingCached) Apart(client.Object) bool                      { return true }

// TestApart has objects of types be asked for that the manager's cache does not hold: it is not read for them.
func TestApart(t *testing.T) {
	s := &validators{cache: untouched{t: t}, planner: nothingCached{}}
	app := &appv1.App{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "cart"}}
	if said := s.sharedHosts(t.Context(), &asker{proven: true}, app, &appv1.IngressSpec{Rules: []appv1.IngressRule{{Host: "a"}}}); len(said) > 0 {
		t.Errorf("said: %q", said)
	}
	if s.readCached(t.Context(), app, &networkingv1.Ingress{}) {
		t.Error("an object was found")
	}
}
