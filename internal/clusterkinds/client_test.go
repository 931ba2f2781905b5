package clusterkinds

import (
	"context"
	"testing"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
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
