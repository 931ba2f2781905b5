package workload

import (
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	appv1 "huolala.cn/app-operator/api/v1"
	"huolala.cn/app-operator/internal/children"
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

// TestRemainingGrace has a former Service stay until clients have had their time since the new Service was created, and proxies since the last
// change of what led to the former one.
func TestRemainingGrace(t *testing.T) {
	now := time.Now()
	d := newAppInput(newWebApp())
	ports := []corev1.ServicePort{{Port: 80}}
	w := &resource.Workload{Serving: &appv1.ServingSpec{Ingress: &appv1.IngressSpec{}}, Ports: ports}
	route := func(to string, ago time.Duration) client.Object {
		ingress := &networkingv1.Ingress{}
		ingress.ManagedFields = []metav1.ManagedFieldsEntry{
			{Manager: d.fieldManager(), Operation: metav1.ManagedFieldsOperationApply, Time: ptr.To(metav1.NewTime(now.Add(-ago)))},
			{Manager: "kubectl", Operation: metav1.ManagedFieldsOperationUpdate, Time: ptr.To(metav1.NewTime(now))},
		}
		backend := networkingv1.IngressBackend{Service: &networkingv1.IngressServiceBackend{Name: to}}
		ingress.Spec.Rules = []networkingv1.IngressRule{{IngressRuleValue: networkingv1.IngressRuleValue{
			HTTP: &networkingv1.HTTPIngressRuleValue{Paths: []networkingv1.HTTPIngressPath{{Backend: backend}}},
		}}}
		return ingress
	}
	former := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: "former"}}
	created := func(ago time.Duration) *corev1.Service {
		return &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: "new", CreationTimestamp: metav1.NewTime(now.Add(-ago))}}
	}
	old, inside := created(time.Hour), &resource.Workload{Ports: ports}
	for what, c := range map[string]struct {
		obj    client.Object
		w      *resource.Workload
		grace  time.Duration
		routes []client.Object
		next   *corev1.Service
		want   time.Duration
	}{
		"it still leads there":         {former, w, DefaultServiceGrace, []client.Object{route("former", time.Hour)}, old, DefaultServiceGrace},
		"one of two still leads there": {former, w, DefaultServiceGrace, []client.Object{route("new", time.Hour), route("former", time.Hour)}, old, DefaultServiceGrace},
		"changed lately":               {former, w, DefaultServiceGrace, []client.Object{route("new", 4*time.Second)}, old, 56 * time.Second},
		"the later one counts":         {former, w, DefaultServiceGrace, []client.Object{route("new", 4*time.Second), route("new", time.Hour)}, old, 56 * time.Second},
		"changed a while ago":          {former, w, DefaultServiceGrace, []client.Object{route("new", DefaultServiceGrace)}, old, 0},
		"nothing led there":            {former, w, DefaultServiceGrace, nil, old, 0},
		"no time":                      {former, w, 0, []client.Object{route("former", 0)}, old, 0},
		"clients inside the cluster":   {former, inside, DefaultServiceGrace, nil, created(4 * time.Second), 56 * time.Second},
		"they have followed":           {former, inside, DefaultServiceGrace, nil, old, 0},
		"no route is wanted":           {former, inside, DefaultServiceGrace, []client.Object{route("former", 0)}, old, 0},
		"no Service is wanted":         {former, &resource.Workload{}, DefaultServiceGrace, nil, nil, 0},
		"no Service":                   {&networkingv1.Ingress{}, w, DefaultServiceGrace, []client.Object{route("", 0)}, old, 0},
	} {
		if got := remainingGrace(c.grace, d, c.w, c.obj, &Observed{At: now, Owned: c.routes, Services: Services{Service: c.next}}); got != c.want {
			t.Errorf("%s: %s, want %s", what, got, c.want)
		}
	}
}

// TestAvailableSince checks the time from which clients can follow to the pods of a workload, as the cache has the pods.
func TestAvailableSince(t *testing.T) {
	now := time.Unix(1e9, 0)
	pod := func(ago time.Duration, change ...func(*corev1.Pod)) corev1.Pod {
		made := corev1.Pod{Status: corev1.PodStatus{Conditions: []corev1.PodCondition{{
			Type: corev1.PodReady, Status: corev1.ConditionTrue, LastTransitionTime: metav1.NewTime(now.Add(-ago)),
		}}}}
		for _, apply := range change {
			apply(&made)
		}
		return made
	}
	waiting := func(p *corev1.Pod) { p.Status.Conditions[0].Status = corev1.ConditionFalse }
	ending := func(p *corev1.Pod) { p.DeletionTimestamp = new(metav1.Time) }
	for name, c := range map[string]struct {
		replicas *int32
		pods     []corev1.Pod
		want     time.Time
	}{
		"no pods are known":      {nil, nil, time.Time{}},
		"scaled to nothing":      {ptr.To[int32](0), []corev1.Pod{pod(time.Hour)}, time.Time{}},
		"one pod":                {nil, []corev1.Pod{pod(time.Hour)}, now.Add(-time.Hour)},
		"it is not ready":        {nil, []corev1.Pod{pod(time.Hour, waiting)}, now},
		"it is ending":           {nil, []corev1.Pod{pod(time.Hour, ending)}, now},
		"more than half of four": {ptr.To[int32](4), []corev1.Pod{pod(3 * time.Minute), pod(time.Hour), pod(2 * time.Minute), pod(time.Second, waiting)}, now.Add(-2 * time.Minute)},
		"half of four":           {ptr.To[int32](4), []corev1.Pod{pod(time.Hour), pod(time.Hour), pod(0, waiting), pod(0, waiting)}, now},
		"one of three flaps":     {ptr.To[int32](3), []corev1.Pod{pod(time.Hour), pod(time.Minute), pod(0)}, now.Add(-time.Minute)},
	} {
		for i := range c.pods {
			c.pods[i].Labels = map[string]string{appv1.LabelCloudManager: "cm"}
			children.TypeOf(&c.pods[i]).Keep(&c.pods[i], true)
		}
		seen := &Observed{At: now, Object: &appsv1.Deployment{Spec: appsv1.DeploymentSpec{Replicas: c.replicas}}, Pods: c.pods}
		if got := seen.AvailableSince(); !got.Equal(c.want) {
			t.Errorf("%s: since %s, want %s", name, got, c.want)
		}
	}
}

// TestRemainingServiceGrace checks the time for which a former Service stays.
func TestRemainingServiceGrace(t *testing.T) {
	now := time.Unix(1e9, 0)
	r := &Reconciler{ServiceGrace: time.Minute}
	const never = -2 * time.Hour // The Service has no address.
	for name, c := range map[string]struct {
		created, available time.Duration
		// addressed is how long ago the Service has got its address, hadAddress whether the former one has one.
		addressed  time.Duration
		hadAddress bool
		want       time.Duration
	}{
		"just created":                            {0, time.Hour, never, false, time.Minute},
		"created a while ago":                     {40 * time.Second, time.Hour, never, false, 20 * time.Second},
		"available later":                         {time.Hour, 10 * time.Second, never, false, 50 * time.Second},
		"long ago":                                {time.Hour, time.Hour, never, false, 0},
		"without an address":                      {2 * time.Minute, time.Hour, never, true, 8 * time.Minute},
		"without an address, long ago":            {time.Hour, time.Hour, never, true, 0},
		"by another clock":                        {-time.Hour, time.Hour, never, false, time.Minute},
		"an address now":                          {5 * time.Minute, time.Hour, 0, true, time.Minute},
		"an address a while ago":                  {5 * time.Minute, time.Hour, 40 * time.Second, true, 20 * time.Second},
		"an address long ago":                     {5 * time.Minute, time.Hour, 2 * time.Minute, true, 0},
		"an address before it was available":      {5 * time.Minute, 10 * time.Second, 4 * time.Minute, true, 50 * time.Second},
		"an address after nearly ten minutes":     {590 * time.Second, time.Hour, 0, true, 10 * time.Second},
		"an address by another clock":             {5 * time.Minute, time.Hour, -time.Hour, true, time.Minute},
		"an address, and the former one has none": {5 * time.Minute, time.Hour, 0, false, 0},
	} {
		service := &corev1.Service{ObjectMeta: metav1.ObjectMeta{CreationTimestamp: metav1.NewTime(now.Add(-c.created))}}
		service.Spec.Type = corev1.ServiceTypeLoadBalancer
		service.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: "app-operator/cloudmanager", Time: ptr.To(metav1.NewTime(now))}}
		if c.addressed != never {
			service.Status.LoadBalancer.Ingress = []corev1.LoadBalancerIngress{{IP: "192.0.2.1"}}
			service.ManagedFields = append(service.ManagedFields, metav1.ManagedFieldsEntry{Subresource: "status", Time: ptr.To(metav1.NewTime(now.Add(-c.addressed)))})
		}
		children.TypeOf(service).Keep(service, true)
		if got := r.RemainingServiceGrace(service, now.Add(-c.available), now, c.hadAddress); got != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
	plain := &corev1.Service{ObjectMeta: metav1.ObjectMeta{CreationTimestamp: metav1.NewTime(now.Add(-40 * time.Second))}}
	if got := r.RemainingServiceGrace(plain, time.Time{}, now, true); got != 20*time.Second {
		t.Errorf("a Service that wants no address: %s", got)
	}
}
