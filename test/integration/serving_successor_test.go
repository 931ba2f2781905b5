package integration

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/ptr"

	appv1 "huolala.cn/app-operator/api/v1"
	"huolala.cn/app-operator/test/harness"
)

// giveEndpoint makes an EndpointSlice with one endpoint, as Kubernetes' controller does for the Service of this name.
func giveEndpoint(t *testing.T, namespace, service string, ready bool) *discoveryv1.EndpointSlice {
	t.Helper()
	slice := &discoveryv1.EndpointSlice{
		ObjectMeta:  metav1.ObjectMeta{Namespace: namespace, Name: service, Labels: map[string]string{discoveryv1.LabelServiceName: service}},
		AddressType: discoveryv1.AddressTypeIPv4,
		Endpoints:   []discoveryv1.Endpoint{{Addresses: []string{"10.1.1.1"}, Conditions: discoveryv1.EndpointConditions{Ready: ptr.To(ready)}}},
	}
	plane.Create(t, slice)
	return slice
}

// checkLeadsTo checks which Service the Ingress of the App leads to.
func checkLeadsTo(t *testing.T, namespace, want string) {
	t.Helper()
	ingress := &networkingv1.Ingress{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "web"}}
	plane.Read(t, ingress)
	if to := ingress.Spec.Rules[0].HTTP.Paths[0].Backend.Service.Name; to != want {
		t.Errorf("the Ingress leads to Service %s, want %s", to, want)
	}
}

// TestIngressAwaitsEndpoints renames the Service of pods that are ready. The Ingress leads to the former one, which stays, until the new
// one has an endpoint that is ready: no request from outside finds none.
func TestIngressAwaitsEndpoints(t *testing.T) {
	t.Parallel()
	ns, _ := plane.Shared(t)
	app := newServed(ns, "web", "ingress")
	d, former := createInPlace(t, app)
	completeRollout(t, d)
	plane.Stands(t, app, "Ready=True", "Applied=True/Applied")

	plane.Read(t, app)
	plane.Change(t, app, func() { app.Spec.Service.Name = "shop" })
	completeNextRollout(t, d)
	plane.Stands(t, app, "Ready=True", "Applied=False/"+appv1.ReasonProgressing)
	plane.Read(t, &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "shop"}})
	slice := giveEndpoint(t, ns, "shop", false)
	setAnnotation(t, app, "example.com/again", "1")
	if message := harness.Message(app, "Applied"); message != "Ingress web leads to Service web until Service shop has endpoints" {
		t.Errorf("Applied: %s", message)
	}
	checkLeadsTo(t, ns, "web")
	plane.Read(t, former)

	plane.Change(t, slice, func() { slice.Endpoints[0].Conditions.Ready = ptr.To(true) })
	plane.Stands(t, app, "Ready=True", "Applied=True/Applied") // Nothing tells the manager: it looks again.
	checkLeadsTo(t, ns, "shop")
	plane.Gone(t, former)
	var list corev1.EventList
	if err := plane.Client.List(t.Context(), &list); err != nil {
		t.Fatal(err)
	}
	for i := range list.Items {
		if e := &list.Items[i]; e.InvolvedObject.UID == app.UID && e.Type == corev1.EventTypeWarning {
			t.Errorf("a wait is no trouble: %s: %s", e.Reason, e.Message)
		}
	}
}

// TestFormerServiceStays renames the Service where proxies have time to follow: the former one stays, although nothing leads to it, and
// nothing else waits for that. A manager that is started when the time is over deletes it.
func TestFormerServiceStays(t *testing.T) {
	t.Parallel()
	ns := plane.Namespace(t)
	m := plane.Start(t, ns, harness.WithServiceGrace(ptr.To(time.Hour)))
	app := newServed(ns, "web", "ingress")
	d, former := createInPlace(t, app)
	completeRollout(t, d)
	plane.Stands(t, app, "Ready=True", "Applied=True/Applied")
	giveEndpoint(t, ns, "shop", true)
	plane.Read(t, app)
	plane.Change(t, app, func() { app.Spec.Service.Name = "shop" })
	completeNextRollout(t, d)
	plane.Stands(t, app, "Ready=True", "Applied=True/Applied")
	checkLeadsTo(t, ns, "shop")
	m.Idle(t)
	plane.Read(t, former)
	m.Stop(t)

	// Without its labels and annotations it is still known by the fields that the operator owns.
	plane.Change(t, former, func() { former.Labels, former.Annotations = nil, nil })
	plane.Start(t, ns)
	plane.Gone(t, former)
}

// TestFormerServiceStaysAfterTheRoute renames the Service where the new one has endpoints late. The time that proxies have begins when the
// Ingress leads to the new one, and not when that was created.
func TestFormerServiceStaysAfterTheRoute(t *testing.T) {
	t.Parallel()
	const grace = 3 * time.Second
	ns := plane.Namespace(t)
	m := plane.Start(t, ns, harness.WithServiceGrace(ptr.To(grace)))
	app := newServed(ns, "web", "ingress")
	d, former := createInPlace(t, app)
	completeRollout(t, d)
	plane.Stands(t, app, "Ready=True", "Applied=True/Applied")
	plane.Read(t, app)
	plane.Change(t, app, func() { app.Spec.Service.Name = "shop" })
	renamed := time.Now()
	completeNextRollout(t, d)
	plane.Stands(t, app, "Ready=True", "Applied=False/"+appv1.ReasonProgressing)
	harness.Eventually(t, func() error {
		if past := time.Since(renamed); past < 2*grace {
			return fmt.Errorf("%s have passed since the Service was renamed", past)
		}
		return nil
	})
	giveEndpoint(t, ns, "shop", true)
	plane.Gone(t, former)
	checkLeadsTo(t, ns, "shop")
	var led, deleted time.Time
	for _, q := range m.Requests.All() {
		switch q.Verb + " " + q.Resource {
		case "patch ingresses":
			led = q.Sent
		case "delete services":
			deleted = q.Sent
		}
	}
	if stayed := deleted.Sub(led); stayed < grace-time.Second { // Times of managed fields are in whole seconds.
		t.Errorf("the former Service was deleted %s after the Ingress has led to the new one, want %s", stayed, grace)
	}
}

// TestIngressAwaitsNothing renames the Service where there is nothing to wait for: no pod is ready, so that neither Service leads to any,
// or the operator may not read endpoints.
func TestIngressAwaitsNothing(t *testing.T) {
	t.Parallel()
	for what, c := range map[string]struct {
		ready bool
		fault harness.Fault
	}{
		"no ready pod": {},
		"no right": {ready: true, fault: func(q harness.Request, send func() (*http.Response, error)) (*http.Response, error) {
			if q.Resource == "endpointslices" {
				return harness.Answer(apierrors.NewForbidden(discoveryv1.Resource("endpointslices"), "", errors.New("no right"))), nil
			}
			return send()
		}},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			ns := plane.Namespace(t)
			var options []harness.Option
			if c.fault != nil {
				options = append(options, harness.WithForbidden(), harness.WithFault(c.fault))
			}
			m := plane.Start(t, ns, options...)
			app := newServed(ns, "web", "ingress")
			d, _ := createInPlace(t, app)
			if c.ready {
				completeRollout(t, d)
				plane.Stands(t, app, "Ready=True")
			}
			m.Idle(t)
			m.Requests.Reset()
			plane.Read(t, app)
			plane.Change(t, app, func() { app.Spec.Service.Name = "shop" })
			plane.Stands(t, app, "Applied=True/Applied")
			checkLeadsTo(t, ns, "shop")
			for request := range m.Requests.Counts() {
				if asked := strings.Contains(request, "endpointslices"); asked && !c.ready {
					t.Errorf("a request that nothing depends on: %s", request)
				}
			}
		})
	}
}

// TestNodePortStaysWithARefusedChange renames a Service with a node port in one change with what the API server refuses, of the Deployment or of the Service
// itself: the former Service stays as it is, however often the change is tried. A refusal that no dry run detects deletes it at most once.
func TestNodePortStaysWithARefusedChange(t *testing.T) {
	for port, c := range map[int32]struct {
		name, resource, object string
		answer                 apierrors.APIStatus
		written                bool
		stands                 string
	}{
		30073: {"of the Deployment", "deployments", "web", invalid("Deployment"), false, "Stalled=True/Invalid"},
		30074: {"of the Service", "services", "shop", invalid("Service"), false, "Stalled=True/Invalid"},
		30075: {"of the Service, by a policy", "services", "shop", apierrors.NewForbidden(corev1.Resource("services"), "shop", errors.New("denied the request")), false, "Applied=False/Forbidden"},
		30076: {"of the Service, by its write alone", "services", "shop", invalid("Service"), true, "Stalled=True/Invalid"},
	} {
		t.Run(strings.ReplaceAll(c.name, " ", "-"), func(t *testing.T) {
			t.Parallel()
			ns := plane.Namespace(t)
			var refusing atomic.Bool
			refuses := func(q harness.Request, send func() (*http.Response, error)) (*http.Response, error) {
				if q.Verb == "patch" && q.Resource == c.resource && q.Name == c.object && refusing.Load() && (!c.written || !q.DryRun) {
					return harness.Answer(c.answer), nil
				}
				return send()
			}
			m := plane.Start(t, ns, harness.WithFault(refuses))
			app := newApp(ns, "web")
			app.Spec.Service.Type, app.Spec.Ports[0].NodePort = corev1.ServiceTypeNodePort, port
			createInPlace(t, app)
			former := namedService(ns, "web")
			plane.Read(t, former)
			m.Idle(t)
			m.Requests.Reset()
			refusing.Store(true)
			plane.Read(t, app)
			plane.Change(t, app, func() { app.Spec.Service.Name, app.Spec.Image = "shop", "refused:1" })
			plane.Stands(t, app, c.stands)
			m.Idle(t)
			most := 0
			if c.written {
				most = 1
			}
			if got := m.Requests.Counts(); got["delete services"] > most {
				t.Errorf("the former Service was deleted: %v", got)
			}
			was := former.UID
			if plane.Read(t, former); !c.written && former.UID != was || former.Spec.Ports[0].NodePort != port {
				t.Errorf("the former Service is %s with the port %d", former.UID, former.Spec.Ports[0].NodePort)
			}
		})
	}
}

// invalid returns the answer of the API server that refuses an object of a kind.
func invalid(kind string) apierrors.APIStatus {
	return apierrors.NewInvalid(schema.GroupKind{Kind: kind}, "web", nil)
}
