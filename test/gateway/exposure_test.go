//go:build gateway

package gateway

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"maps"
	"math/big"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	appv1 "huolala.cn/app-operator/api/v1"
	"huolala.cn/app-operator/test/fixture"
	"huolala.cn/app-operator/test/harness"
)

// TestExposure sends requests to what Apps and ModelBoxes make, in the two ways to reach them from outside.
func TestExposure(t *testing.T) {
	defineGatewayAPI(t)
	createClasses(t)
	p := startProxy(t)
	for way, expose := range map[string]func(*appv1.ServingSpec, exposure){"ingress": byIngress, "httpRoute": byHTTPRoute} {
		for kind, create := range map[string]func(ns, name string) (harness.Resource, *appv1.WorkloadSpec, *appv1.ServingSpec){
			"App": newApp, "ModelBox": newModelBox,
		} {
			t.Run(way+"/"+kind, func(t *testing.T) {
				t.Parallel()
				ns := plane.Namespace(t)
				newGateway(t, p, ns)
				plane.Start(t, ns, harness.WithServiceGrace(nil))
				v := &visited{proxy: p, way: way, expose: expose, namespace: ns, host: ns + ".test"}
				v.obj, v.workload, v.serving = create(ns, "web")
				v.reaches(t, create)
				v.livesOn(t)
			})
		}
	}
	t.Run("certificate", func(t *testing.T) { t.Parallel(); presentsCertificate(t, p) })
	t.Run("refused route", func(t *testing.T) { t.Parallel(); namesRefusal(t, p) })
}

// exactPath is longer than most, as the proxy prefers the longer one of two rules, whatever their types.
const exactPath = "/this-and-no-other"

// exposure is what both ways can say.
type exposure struct {
	hosts, paths []string
	exact        bool
	port         *intstr.IntOrString
}

func byIngress(s *appv1.ServingSpec, e exposure) {
	s.Ingress = &appv1.IngressSpec{ClassName: ptr.To("traefik"), Port: e.port}
	if e.exact {
		s.Ingress.PathType = networkingv1.PathTypeExact
	}
	for _, host := range e.hosts {
		rule := appv1.IngressRule{Host: appv1.Hostname(host)}
		for _, path := range e.paths {
			rule.Paths = append(rule.Paths, appv1.HTTPPath(path))
		}
		s.Ingress.Rules = append(s.Ingress.Rules, rule)
	}
}

func byHTTPRoute(s *appv1.ServingSpec, e exposure) {
	s.HTTPRoute = &appv1.HTTPRouteSpec{ParentRefs: []appv1.ParentRef{{Name: "public"}}, Port: e.port}
	if e.exact {
		s.HTTPRoute.PathType = "Exact"
	}
	for _, host := range e.hosts {
		s.HTTPRoute.Hostnames = append(s.HTTPRoute.Hostnames, appv1.Hostname(host))
	}
	for _, path := range e.paths {
		s.HTTPRoute.Paths = append(s.HTTPRoute.Paths, appv1.HTTPPath(path))
	}
}

func newApp(ns, name string) (harness.Resource, *appv1.WorkloadSpec, *appv1.ServingSpec) {
	app := fixture.NewApp(ns, name)
	return app, &app.Spec.WorkloadSpec, &app.Spec.ServingSpec
}

func newModelBox(ns, name string) (harness.Resource, *appv1.WorkloadSpec, *appv1.ServingSpec) {
	box := fixture.NewModelBox(ns, name)
	return box, &box.Spec.WorkloadSpec, &box.Spec.ServingSpec
}

// visited is a resource that is asked through the proxy.
type visited struct {
	proxy                *proxy
	way, namespace, host string
	expose               func(*appv1.ServingSpec, exposure)
	obj                  harness.Resource
	workload             *appv1.WorkloadSpec
	serving              *appv1.ServingSpec
}

// reaches checks hosts, paths and ports.
func (v *visited) reaches(t *testing.T, create func(ns, name string) (harness.Resource, *appv1.WorkloadSpec, *appv1.ServingSpec)) {
	v.workload.Ports = append(v.workload.Ports, appv1.Port{Name: "admin", Port: 9000, TargetPort: ptr.To(intstr.FromInt32(adminPort))})
	v.workload.Ports[0].Name = "http"
	v.expose(v.serving, exposure{hosts: []string{v.host, "*.any." + v.host}})
	plane.Create(t, v.obj)
	api, _, serving := create(v.namespace, "api")
	v.expose(serving, exposure{hosts: []string{v.host}, paths: []string{"/api", "/v2"}})
	exact, _, serving := create(v.namespace, "exact")
	v.expose(serving, exposure{hosts: []string{v.host}, paths: []string{exactPath}, exact: true})
	admin, workload, serving := create(v.namespace, "admin")
	workload.Ports = append(workload.Ports, appv1.Port{Name: "admin", Port: 9000, TargetPort: ptr.To(intstr.FromInt32(adminPort))})
	workload.Ports[0].Name = "http"
	v.expose(serving, exposure{hosts: []string{"admin." + v.host}, port: ptr.To(intstr.FromString("admin"))})
	plane.Create(t, api, exact, admin)
	for _, obj := range []harness.Resource{v.obj, api, exact, admin} {
		plane.Stands(t, obj, "Ready=True")
	}
	for path, owner := range map[string]string{
		"/": "web", "/other": "web", "/api": "api", "/api/": "api", "/api/items?page=1": "api", "/v2/x": "api", exactPath: "exact", exactPath + "/x": "web",
	} {
		v.proxy.until(t, "http://"+v.host+path, v.answeredBy(t, owner, containerPort))
	}
	v.proxy.until(t, "http://one.any."+v.host+"/", v.answeredBy(t, "web", containerPort))
	v.proxy.until(t, "http://admin."+v.host+"/", v.answeredBy(t, "admin", adminPort))
	v.proxy.until(t, "http://other."+v.host+"/", status(404))
	plane.Delete(t, api)
	v.proxy.until(t, "http://"+v.host+"/api", v.answeredBy(t, "web", containerPort))
}

// answeredBy wants the answer of a pod of a resource, at this port.
func (v *visited) answeredBy(t *testing.T, owner string, port int) func(answer) error {
	return func(a answer) error {
		if err := status(200)(a); err != nil {
			return err
		}
		if at := fmt.Sprint(port); a.Port != at {
			return fmt.Errorf("port %s answered, want %s", a.Port, at)
		}
		if all := podAddresses(t, v.namespace, owner); !slices.Contains(all, a.Pod) {
			return fmt.Errorf("the pod %s answered, want one of %s: %v", a.Pod, owner, all)
		}
		return nil
	}
}

// podAddresses are those of the pods of a resource that are to stay, in order.
func podAddresses(t *testing.T, namespace, owner string) []string {
	t.Helper()
	var list corev1.PodList
	if err := plane.Client.List(t.Context(), &list, client.InNamespace(namespace)); err != nil {
		t.Fatal(err)
	}
	var found []string
	for i := range list.Items {
		if pod := &list.Items[i]; strings.HasPrefix(pod.Name, owner+"-") && pod.DeletionTimestamp == nil {
			found = append(found, pod.Status.PodIP)
		}
	}
	slices.Sort(found)
	return found
}

// livesOn changes a resource under visits: none goes wrong, and in the end the pods answer that there are.
func (v *visited) livesOn(t *testing.T) {
	url := "http://" + v.host + "/"
	steps := []struct {
		what   string
		change func()
		pods   int
	}{
		{"another image", func() { v.workload.Image = "nginx:1.29" }, 2},
		{"more pods", func() { v.workload.Replicas = ptr.To[int32](4) }, 4},
		{"fewer pods", func() { v.workload.Replicas = ptr.To[int32](1) }, 1},
		{"one port more", func() { v.addPort() }, 1},
		{"the new port", func() {
			v.expose(v.serving, exposure{hosts: []string{v.host}, port: ptr.To(intstr.FromString("next"))})
		}, 1},
		{"no former port", func() { v.workload.Ports = v.workload.Ports[1:] }, 1},
		{"another name of the Service", func() { v.workload.Service.Name = "another-web" }, 1},
		{"one host more", func() {
			v.expose(v.serving, exposure{hosts: []string{v.host, "more." + v.host}, port: ptr.To(intstr.FromString("next"))})
		}, 1},
	}
	for _, step := range steps {
		plane.Read(t, v.obj)
		visitors := v.proxy.visit(t, url)
		plane.Change(t, v.obj, step.change)
		plane.Stands(t, v.obj, "Ready=True", "Reconciling=False", "Applied=True")
		v.allAnswer(t, url, step.pods)
		if v.workload.Service.Name != "" {
			plane.Gone(t, fixture.Service(v.obj))
		}
		visitors.leave(t, v.way+", "+step.what)
	}
	v.proxy.until(t, "http://more."+v.host+"/", v.answeredBy(t, "web", containerPort))

	before := podAddresses(t, v.namespace, "web")
	plane.Change(t, v.obj, func() {
		v.expose(v.serving, exposure{hosts: []string{"moved." + v.host}, port: ptr.To(intstr.FromString("next"))})
	})
	v.proxy.until(t, "http://moved."+v.host+"/", v.answeredBy(t, "web", containerPort))
	v.proxy.until(t, url, status(404))
	plane.Change(t, v.obj, func() { v.serving.Ingress, v.serving.HTTPRoute = nil, nil })
	v.proxy.until(t, "http://moved."+v.host+"/", status(404))
	if after := podAddresses(t, v.namespace, "web"); !slices.Equal(before, after) {
		t.Errorf("the pods were %v, and are %v", before, after)
	}
}

// addPort adds a port of the Service that leads to the same port of the container.
func (v *visited) addPort() {
	v.workload.Ports = append(v.workload.Ports, appv1.Port{Name: "next", Port: 8088, TargetPort: ptr.To(intstr.FromInt32(containerPort))})
}

// allAnswer waits until exactly the pods of the resource answer, each of this number.
func (v *visited) allAnswer(t *testing.T, url string, n int) {
	t.Helper()
	harness.Eventually(t, func() error {
		want, got := podAddresses(t, v.namespace, "web"), map[string]bool{}
		for range 6 * n {
			a, err := v.proxy.get(t.Context(), url)
			if err != nil {
				return err
			}
			got[a.Pod] = true
		}
		if is := slices.Sorted(maps.Keys(got)); len(want) != n || !slices.Equal(want, is) {
			return fmt.Errorf("the pods %v answer, want %d: %v", is, n, want)
		}
		return nil
	})
}

// presentsCertificate has the proxy present the certificate of an App's Secret.
func presentsCertificate(t *testing.T, p *proxy) {
	ns := plane.Namespace(t)
	plane.Start(t, ns)
	host := ns + ".test"
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "web-tls"}, Type: corev1.SecretTypeTLS}
	secret.Data = newCertificate(t, host)
	app, _, serving := newApp(ns, "web")
	byIngress(serving, exposure{hosts: []string{host}})
	serving.Ingress.TLS = &appv1.IngressTLS{SecretName: secret.Name}
	serving.Ingress.Annotations = map[string]string{
		"traefik.ingress.kubernetes.io/router.entrypoints": "secure", "traefik.ingress.kubernetes.io/router.tls": "true",
	}
	plane.Create(t, secret, app)
	p.until(t, "https://"+host+"/", func(a answer) error {
		if a.Status != 200 || a.Certificate != host {
			return fmt.Errorf("status %d with the certificate of %q", a.Status, a.Certificate)
		}
		return nil
	})
	p.until(t, "http://"+host+"/", status(404)) // By the first annotation.
}

// namesRefusal asks a Gateway that takes no routes from the App's namespace, and then lets it.
func namesRefusal(t *testing.T, p *proxy) {
	ns, gateways := plane.Namespace(t), plane.Namespace(t)
	gateway := newGateway(t, p, gateways)
	plane.Start(t, ns)
	host := ns + ".test"
	app, _, serving := newApp(ns, "web")
	byHTTPRoute(serving, exposure{hosts: []string{host}})
	serving.HTTPRoute.ParentRefs[0].Namespace = gateways
	plane.Create(t, app)
	plane.Stands(t, app, "Exposed=False/NotAccepted", "Ready=True")
	p.until(t, "http://"+host+"/", status(404))
	plane.Change(t, gateway, func() {
		gateway.Spec.Listeners[0].AllowedRoutes = &gatewayv1.AllowedRoutes{Namespaces: &gatewayv1.RouteNamespaces{From: ptr.To(gatewayv1.NamespacesFromAll)}}
	})
	plane.Stands(t, app, "Exposed=True", "Ready=True")
	p.until(t, "http://"+host+"/", status(200))
}

// createClasses makes the classes of the proxy's Ingresses and Gateways.
func createClasses(t *testing.T) {
	t.Helper()
	ingresses := &networkingv1.IngressClass{ObjectMeta: metav1.ObjectMeta{Name: "traefik"}}
	ingresses.Spec.Controller = "traefik.io/ingress-controller"
	gateways := &gatewayv1.GatewayClass{ObjectMeta: metav1.ObjectMeta{Name: "traefik"}}
	gateways.Spec.ControllerName = "traefik.io/gateway-controller"
	plane.Create(t, ingresses, gateways)
}

// newGateway makes a Gateway for the routes of its namespace.
func newGateway(t *testing.T, p *proxy, namespace string) *gatewayv1.Gateway {
	t.Helper()
	gateway := &gatewayv1.Gateway{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "public"}}
	gateway.Spec.GatewayClassName = "traefik"
	gateway.Spec.Listeners = []gatewayv1.Listener{{Name: "web", Protocol: gatewayv1.HTTPProtocolType, Port: gatewayv1.PortNumber(p.http)}}
	plane.Create(t, gateway)
	return gateway
}

// defineGatewayAPI applies the definitions of the Gateway API that the proxy watches.
func defineGatewayAPI(t *testing.T) {
	t.Helper()
	for _, plural := range []string{"gatewayclasses", "gateways", "httproutes", "grpcroutes", "referencegrants", "backendtlspolicies"} {
		plane.Define(t, harness.GatewayDefinition(t, plural))
	}
}

// newCertificate returns the data of a Secret with a certificate for a host.
func newCertificate(t *testing.T, host string) map[string][]byte {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: host}, DNSNames: []string{host},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
	}
	certificate, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	return map[string][]byte{
		corev1.TLSCertKey:       pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: certificate}),
		corev1.TLSPrivateKeyKey: pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private}),
	}
}
