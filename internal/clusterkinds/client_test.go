package clusterkinds

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
)

// TestListsDoNotWait lists objects of a kind that every cluster has, and of an optional one: neither list waits for writes of this process,
// and the options of the caller stay.
func TestListsDoNotWait(t *testing.T) {
	var asked []client.ListOptions
	base := interceptor.NewClient(nil, interceptor.Funcs{
		List: func(_ context.Context, _ client.WithWatch, _ client.ObjectList, opts ...client.ListOption) error {
			asked = append(asked, *(&client.ListOptions{}).ApplyOptions(opts))
			return nil
		},
	})
	w := newWorld(t)
	w.route().phase, w.route().objects = watched, &objects{client: base}
	c := w.Client(base)
	for _, list := range []client.ObjectList{&autoscalingv2.HorizontalPodAutoscalerList{}, &gatewayv1.HTTPRouteList{}} {
		if err := c.List(t.Context(), list, client.InNamespace("web")); err != nil {
			t.Fatal(err)
		}
	}
	if len(asked) != 2 {
		t.Fatalf("%d lists, want 2", len(asked))
	}
	for _, opts := range asked {
		if opts.Namespace != "web" || !opts.DisableReadYourWritesConsistency {
			t.Errorf("a list has the options %+v", opts)
		}
	}
}

// TestWritesOfOptionalKinds writes objects of an optional kind and of another one. Those of a watched kind go to the client of its own cache: the
// manager's client would watch the kind in the manager's cache. Without a watch, a write waits for none.
func TestWritesOfOptionalKinds(t *testing.T) {
	var asked []string
	writer := func(name string) client.WithWatch {
		note := func(verb string, obj client.Object, waits bool) error {
			asked = append(asked, fmt.Sprintf("%s: %s %T, waits %t", name, verb, obj, waits))
			return nil
		}
		return interceptor.NewClient(nil, interceptor.Funcs{
			Create: func(_ context.Context, _ client.WithWatch, obj client.Object, opts ...client.CreateOption) error {
				return note("create", obj, !(&client.CreateOptions{}).ApplyOptions(opts).DisableReadYourWritesConsistency)
			},
			Patch: func(_ context.Context, _ client.WithWatch, obj client.Object, _ client.Patch, opts ...client.PatchOption) error {
				return note("patch", obj, !(&client.PatchOptions{}).ApplyOptions(opts).DisableReadYourWritesConsistency)
			},
			Delete: func(_ context.Context, _ client.WithWatch, obj client.Object, opts ...client.DeleteOption) error {
				return note("delete", obj, !(&client.DeleteOptions{}).ApplyOptions(opts).DisableReadYourWritesConsistency)
			},
		})
	}
	w, route := newWorld(t), &gatewayv1.HTTPRoute{}
	c := w.Client(writer("manager"))
	for _, step := range []struct {
		phase phase
		obj   client.Object
		want  string
	}{
		{missing, route, "manager: VERB *v1.HTTPRoute, waits false"},
		{watched, route, "own: VERB *v1.HTTPRoute, waits true"},
		{watched, &autoscalingv2.HorizontalPodAutoscaler{}, "manager: VERB *v2.HorizontalPodAutoscaler, waits true"},
	} {
		if w.route().phase = step.phase; step.phase == watched {
			w.route().objects = &objects{client: writer("own")}
		}
		for verb, write := range map[string]func() error{
			"create": func() error { return c.Create(t.Context(), step.obj) },
			"patch":  func() error { return c.Patch(t.Context(), step.obj, client.RawPatch(types.JSONPatchType, nil)) },
			"delete": func() error { return c.Delete(t.Context(), step.obj) },
		} {
			asked = nil
			if err := write(); err != nil {
				t.Fatal(err)
			}
			if want := strings.Replace(step.want, "VERB", verb, 1); !slices.Equal(asked, []string{want}) {
				t.Errorf("%s: the requests are %q, want %q", step.phase, asked, want)
			}
		}
	}
}

// TestClientOfOneNamespace reads objects of an optional kind that is watched in one of two namespaces. A list needs to name a namespace.
func TestClientOfOneNamespace(t *testing.T) {
	var asked []string
	own := interceptor.NewClient(nil, interceptor.Funcs{
		Get: func(_ context.Context, _ client.WithWatch, key client.ObjectKey, _ client.Object, _ ...client.GetOption) error {
			asked = append(asked, "get "+key.String())
			return nil
		},
		List: func(_ context.Context, _ client.WithWatch, _ client.ObjectList, opts ...client.ListOption) error {
			asked = append(asked, "list "+(&client.ListOptions{}).ApplyOptions(opts).Namespace)
			return nil
		},
	})
	w := newWorld(t, "shop", "search")
	w.route().phase, w.route().objects = watched, &objects{client: own}
	c := w.Client(nil)
	for _, ns := range []string{"shop", "search", "elsewhere"} {
		err := c.Get(t.Context(), types.NamespacedName{Namespace: ns, Name: "web"}, &gatewayv1.HTTPRoute{})
		if found := ns == "shop"; apierrors.IsNotFound(err) == found || err == nil != found {
			t.Errorf("the route in %s: %v", ns, err)
		}
		if err := c.List(t.Context(), &gatewayv1.HTTPRouteList{}, client.InNamespace(ns)); err != nil {
			t.Error(err)
		}
	}
	if want := []string{"get shop/web", "list shop"}; !slices.Equal(asked, want) {
		t.Errorf("the requests are %q, want %q", asked, want)
	}
	if err := c.List(t.Context(), &gatewayv1.HTTPRouteList{}); err == nil {
		t.Error("routes of no namespace are listed")
	}
}
