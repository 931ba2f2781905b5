package controllers

import (
	"testing"

	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	appv1 "huolala.cn/app-operator/api/v1"
	"huolala.cn/app-operator/resource"
	"huolala.cn/app-operator/test/fixture"
)

// TestBackendOf finds the Service in what an App means, and none in what leads to several, or to something else.
func TestBackendOf(t *testing.T) {
	app := fixture.NewApp("ns", "web")
	app.Spec.Service.Name = "shop"
	app.Spec.Ingress = &appv1.IngressSpec{Rules: []appv1.IngressRule{{Host: "a.test", Paths: []appv1.HTTPPath{"/a", "/b"}}, {Host: "b.test"}}}
	app.Spec.HTTPRoute = &appv1.HTTPRouteSpec{ParentRefs: []appv1.ParentRef{{Name: "public"}}, Paths: []appv1.HTTPPath{"/a", "/b"}}
	w, errs := resource.App(app, resource.BuildOptions{Serving: &app.Spec.ServingSpec})
	if len(errs) > 0 {
		t.Fatal(errs)
	}
	two := resource.Ingress(w)
	two.Spec.Rules[1].HTTP.Paths[0].Backend.Service = &networkingv1.IngressServiceBackend{Name: "other"}
	bucket := resource.Ingress(w)
	for i := range bucket.Spec.Rules {
		bucket.Spec.Rules[i].HTTP = nil
	}
	for what, c := range map[string]struct {
		obj  client.Object
		want string
	}{
		"an Ingress": {resource.Ingress(w), "shop"}, "an HTTPRoute": {resource.HTTPRoute(w), "shop"},
		"several": {two, ""}, "no path": {bucket, ""}, "no rule": {&networkingv1.Ingress{}, ""}, "no backend": {&gatewayv1.HTTPRoute{}, ""},
	} {
		if got := backendOf(c.obj); got != c.want {
			t.Errorf("%s leads to %q, want %q", what, got, c.want)
		}
	}
}

// TestReadyEndpoint follows the API: an endpoint that does not say whether it is ready is.
func TestReadyEndpoint(t *testing.T) {
	endpoint := func(ready *bool) discoveryv1.Endpoint {
		return discoveryv1.Endpoint{Conditions: discoveryv1.EndpointConditions{Ready: ready}}
	}
	for _, c := range []struct {
		endpoints []discoveryv1.Endpoint
		want      bool
	}{
		{nil, false}, {[]discoveryv1.Endpoint{endpoint(ptr.To(false))}, false},
		{[]discoveryv1.Endpoint{endpoint(ptr.To(false)), endpoint(ptr.To(true))}, true}, {[]discoveryv1.Endpoint{endpoint(nil)}, true},
	} {
		if got := hasReadyEndpoint(discoveryv1.EndpointSlice{Endpoints: c.endpoints}); got != c.want {
			t.Errorf("%v: %t", c.endpoints, got)
		}
	}
}
