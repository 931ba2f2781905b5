package resource

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/yaml"

	appv1 "huolala.cn/app-operator/api/v1"
)

func number(n int32) *intstr.IntOrString    { return ptr.To(intstr.FromInt32(n)) }
func named(name string) *intstr.IntOrString { return ptr.To(intstr.FromString(name)) }

// servicePort and listens are the fields of a port of Service and container that the tables are about.
type servicePort struct {
	name   string
	number int32
	target intstr.IntOrString
}

type listens struct {
	name     string
	number   int32
	protocol corev1.Protocol
}

const tcp, udp, sctp = corev1.ProtocolTCP, corev1.ProtocolUDP, corev1.ProtocolSCTP

// TestNamedPorts has the ports of the latest rendering: as they are declared, and what leads nowhere.
func TestNamedPorts(t *testing.T) {
	for name, c := range map[string]struct {
		spec      string
		service   []servicePort
		container []listens
		refused   []string
	}{
		"none": {spec: `{}`},
		"target 0 as the tutorials stored it": {
			spec:      `{ports: [{port: 80, targetPort: 0}, {port: 81, targetPort: ""}]}`,
			service:   []servicePort{{"tcp-80", 80, *number(80)}, {"tcp-81", 81, *number(81)}},
			container: []listens{{"", 80, tcp}, {"", 81, tcp}},
		},
		"one number under each protocol": {
			spec:      `{ports: [{port: 53}, {port: 53, protocol: UDP}, {port: 53, protocol: SCTP}]}`,
			service:   []servicePort{{"tcp-53", 53, *number(53)}, {"udp-53", 53, *number(53)}, {"sctp-53", 53, *number(53)}},
			container: []listens{{"", 53, tcp}, {"", 53, udp}, {"", 53, sctp}},
		},
		"no name": {
			spec:    `{ports: [{port: 80}]}`,
			service: []servicePort{{"", 80, *number(80)}}, container: []listens{{"", 80, tcp}},
		},
		"the name of a port is that of its container port": {
			spec:    `{ports: [{name: http, port: 80, targetPort: 8080}]}`,
			service: []servicePort{{"http", 80, *number(8080)}}, container: []listens{{"http", 8080, tcp}},
		},
		"a name that is too long for a container port": {
			spec:    `{ports: [{name: sixteen-letters1, port: 80}]}`,
			service: []servicePort{{"sixteen-letters1", 80, *number(80)}}, container: []listens{{"", 80, tcp}},
		},
		"names that are none for a container port": {
			spec:    `{ports: [{name: "1", port: 80}, {name: a--b, port: 81}]}`,
			service: []servicePort{{"1", 80, *number(80)}, {"a--b", 81, *number(81)}}, container: []listens{{"", 80, tcp}, {"", 81, tcp}},
		},
		"two ports lead to one container port": {
			spec:    `{ports: [{name: a, port: 80, targetPort: 8080}, {name: b, port: 81, targetPort: 8080}]}`,
			service: []servicePort{{"a", 80, *number(8080)}, {"b", 81, *number(8080)}}, container: []listens{{"a", 8080, tcp}},
		},
		"the first name that is one": {
			spec:    `{ports: [{port: 80, targetPort: 8080}, {name: b, port: 81, targetPort: 8080}]}`,
			service: []servicePort{{"tcp-80", 80, *number(8080)}, {"b", 81, *number(8080)}}, container: []listens{{"b", 8080, tcp}},
		},
		"one number under two protocols": {
			spec:      `{ports: [{name: dns, port: 53}, {name: dns-udp, port: 53, protocol: UDP}]}`,
			service:   []servicePort{{"dns", 53, *number(53)}, {"dns-udp", 53, *number(53)}},
			container: []listens{{"dns", 53, tcp}, {"dns-udp", 53, udp}},
		},
		"a target by the name of another port": {
			spec:    `{ports: [{name: old, port: 81, targetPort: http}, {name: http, port: 80, targetPort: 8080}]}`,
			service: []servicePort{{"old", 81, *named("http")}, {"http", 80, *number(8080)}}, container: []listens{{"http", 8080, tcp}},
		},
		"a target by name, of another protocol": {
			spec:      `{ports: [{name: quic, port: 443, protocol: UDP, targetPort: https}, {name: https, port: 443, targetPort: 8443}]}`,
			service:   []servicePort{{"quic", 443, *number(8443)}, {"https", 443, *number(8443)}},
			container: []listens{{"https", 8443, tcp}, {"", 8443, udp}},
		},
		"a target in another container": {
			spec:    `{ports: [{name: http, port: 80, targetPort: web}], containers: [{name: b, image: b, ports: [{name: web, containerPort: 8080}]}]}`,
			service: []servicePort{{"http", 80, *named("web")}},
		},
		"a target in a sidecar": {
			spec:    `{ports: [{port: 80, targetPort: web}], initContainers: [{name: b, image: b, restartPolicy: Always, ports: [{name: web, containerPort: 8080}]}]}`,
			service: []servicePort{{"", 80, *named("web")}},
		},
		"a target in a container that ends": {
			spec:    `{ports: [{port: 80, targetPort: web}], initContainers: [{name: b, image: b, ports: [{name: web, containerPort: 8080}]}]}`,
			service: []servicePort{{"", 80, *named("web")}}, refused: []string{"spec.ports[0].targetPort"},
		},
		"a target that a patch adds": {
			spec:    `{ports: [{port: 80, targetPort: web}], podTemplatePatch: {spec: {containers: [{name: app, ports: [{name: web, containerPort: 8080}]}]}}}`,
			service: []servicePort{{"", 80, *named("web")}}, container: []listens{{"web", 8080, tcp}},
		},
		"a name that another container has": {
			spec:    `{ports: [{name: http, port: 80, targetPort: 8080}], containers: [{name: b, image: b, ports: [{name: http, containerPort: 9}]}]}`,
			service: []servicePort{{"http", 80, *number(8080)}}, container: []listens{{"", 8080, tcp}},
		},
		"a number that another container has": {
			spec:    `{ports: [{name: http, port: 80, targetPort: 9}], containers: [{name: b, image: b, ports: [{containerPort: 9}]}]}`,
			service: []servicePort{{"http", 80, *number(9)}},
		},
		"a target by its own name": {
			spec:    `{ports: [{name: http, port: 80, targetPort: http}]}`,
			service: []servicePort{{"http", 80, *named("http")}}, refused: []string{"spec.ports[0].targetPort"},
		},
		"targets that nothing has": {
			spec:      `{ports: [{port: 80, targetPort: http}, {port: 81, targetPort: 8081}, {port: 82, targetPort: metrics}]}`,
			service:   []servicePort{{"tcp-80", 80, *named("http")}, {"tcp-81", 81, *number(8081)}, {"tcp-82", 82, *named("metrics")}},
			container: []listens{{"", 8081, tcp}}, refused: []string{"spec.ports[0].targetPort", "spec.ports[2].targetPort"},
		},
		"targets that no port has for a name": {
			spec:    `{ports: [{port: 80, targetPort: UPPER}, {port: 81, targetPort: a--b}, {port: 82, targetPort: -a}, {port: 83, targetPort: "80000"}]}`,
			service: []servicePort{{"tcp-80", 80, *named("UPPER")}, {"tcp-81", 81, *named("a--b")}, {"tcp-82", 82, *named("-a")}, {"tcp-83", 83, *named("80000")}},
			refused: []string{"spec.ports[0].targetPort", "spec.ports[1].targetPort", "spec.ports[2].targetPort", "spec.ports[3].targetPort"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			app := appOf(t, c.spec)
			w, errs := App(app, latest)
			var service []servicePort
			for _, p := range w.Ports {
				service = append(service, servicePort{p.Name, p.Port, p.TargetPort})
			}
			var container []listens
			for _, p := range w.Template.Spec.Containers[0].Ports {
				container = append(container, listens{p.Name, p.ContainerPort, p.Protocol})
			}
			if diff := cmp.Diff(c.service, service, cmp.AllowUnexported(servicePort{})); diff != "" {
				t.Errorf("Service's ports (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(c.container, container, cmp.AllowUnexported(listens{})); diff != "" {
				t.Errorf("container's ports (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(c.refused, fieldsOf(errs)); diff != "" {
				t.Errorf("refused (-want +got):\n%s", diff)
			}
			for _, err := range errs {
				if !strings.Contains(err.Error(), "targetPort: 8080 with name: ") {
					t.Errorf("%v does not say how to write it", err)
				}
			}
		})
	}
}

// TestNumberAsName checks the message for a number in quotation marks, which YAML reads as a name.
func TestNumberAsName(t *testing.T) {
	_, errs := App(appOf(t, `{ports: [{port: 80, targetPort: "8080"}]}`), latest)
	if want := "without quotation marks, like targetPort: 8080"; len(errs) != 1 || !strings.Contains(errs[0].Error(), want) {
		t.Errorf("errors %v, want one with %q", errs, want)
	}
}

// fieldsOf returns the fields that errors are about.
func fieldsOf(errs field.ErrorList) []string {
	var fields []string
	for _, err := range errs {
		fields = append(fields, err.Field)
	}
	return fields
}

// latest is what is observed of a new workload.
var latest = BuildOptions{Inputs: BuildInputs{Rendering: RenderingLatest}}

// appOf returns an App named app with a spec in YAML.
func appOf(t testing.TB, spec string) *appv1.App {
	t.Helper()
	app := &appv1.App{}
	if err := yaml.UnmarshalStrict([]byte(strings.ReplaceAll("{spec: "+spec+"}", "\t", " ")), app); err != nil {
		t.Fatal(err)
	}
	app.Name, app.Namespace, app.UID = "app", "default", "1"
	return app
}

func TestPortNames(t *testing.T) {
	for name, c := range map[string]struct {
		spec []appv1.Port
		want []string
	}{
		"none":                    {nil, []string{}},
		"one alone needs none":    {[]appv1.Port{{Port: 80}}, []string{""}},
		"one alone keeps its own": {[]appv1.Port{{Port: 80, Name: "web"}}, []string{"web"}},
		"by protocol and number":  {[]appv1.Port{{Port: 80}, {Port: 80, Protocol: sctp}}, []string{"tcp-80", "sctp-80"}},
		"only where it is missing": {
			[]appv1.Port{{Port: 80, Name: "web"}, {Port: 81}}, []string{"web", "tcp-81"},
		},
		"taken by another port before": {
			[]appv1.Port{{Port: 1, Name: "tcp-80"}, {Port: 80}}, []string{"tcp-80", "tcp-80-2"},
		},
		"taken by another port behind": {
			[]appv1.Port{{Port: 80}, {Port: 1, Name: "tcp-80"}}, []string{"tcp-80-2", "tcp-80"},
		},
		"taken twice": {
			[]appv1.Port{{Port: 80}, {Port: 1, Name: "tcp-80"}, {Port: 2, Name: "tcp-80-2"}}, []string{"tcp-80-3", "tcp-80", "tcp-80-2"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(c.want, portNames(c.spec)); diff != "" {
				t.Errorf("names (-want +got):\n%s", diff)
			}
		})
	}
}

// TestTutorialPorts has the ports of the tutorials' operators, which know numbers and TCP alone.
func TestTutorialPorts(t *testing.T) {
	service, container := tutorialPorts([]appv1.Port{
		{Port: 8080, TargetPort: number(80)},
		{Port: 8081, TargetPort: number(80)}, // Server-side apply refuses a second one of the same number.
		{Port: 53, Protocol: udp},            // The tutorials know no protocol here.
		{Port: 9090, TargetPort: named("metrics")},
	})
	if diff := cmp.Diff([]corev1.ContainerPort{{ContainerPort: 80, Protocol: tcp}, {ContainerPort: 53, Protocol: tcp}}, container); diff != "" {
		t.Errorf("container's ports (-want +got):\n%s", diff)
	}
	want := []corev1.ServicePort{
		{Name: "tcp-8080", Port: 8080, Protocol: tcp, TargetPort: *number(80)},
		{Name: "tcp-8081", Port: 8081, Protocol: tcp, TargetPort: *number(80)},
		{Name: "udp-53", Port: 53, Protocol: udp, TargetPort: *number(53)},
		{Name: "tcp-9090", Port: 9090, Protocol: tcp, TargetPort: *named("metrics")},
	}
	if diff := cmp.Diff(want, service); diff != "" {
		t.Errorf("Service's ports (-want +got):\n%s", diff)
	}
}

func TestEndpoint(t *testing.T) {
	service := &corev1.Service{}
	service.Name, service.Namespace = "web", "shop"
	service.Spec.Ports = []corev1.ServicePort{{Port: 80}}
	if got, want := Endpoint(service), "web.shop.svc:80"; got != want {
		t.Errorf("one port: %q, want %q", got, want)
	}
	service.Spec.Ports = append(service.Spec.Ports, corev1.ServicePort{Port: 443})
	if got, want := Endpoint(service), "web.shop.svc:80,443"; got != want {
		t.Errorf("two ports: %q, want %q", got, want)
	}
}

// TestEndpointOutsideTheCluster has the addresses of Services that can be reached from outside.
func TestEndpointOutsideTheCluster(t *testing.T) {
	lb := func(ingress ...corev1.LoadBalancerIngress) corev1.ServiceStatus {
		return corev1.ServiceStatus{LoadBalancer: corev1.LoadBalancerStatus{Ingress: ingress}}
	}
	for _, c := range []struct {
		kind   corev1.ServiceType
		status corev1.ServiceStatus
		want   string
	}{
		{"", corev1.ServiceStatus{}, ""},
		{corev1.ServiceTypeClusterIP, corev1.ServiceStatus{}, ""},
		{corev1.ServiceTypeNodePort, corev1.ServiceStatus{}, " nodes:30010,30011"},
		{corev1.ServiceTypeLoadBalancer, lb(), ""},
		{corev1.ServiceTypeLoadBalancer, lb(corev1.LoadBalancerIngress{IP: "203.0.113.7"}), " 203.0.113.7:80,443"},
		{corev1.ServiceTypeLoadBalancer, lb(corev1.LoadBalancerIngress{Hostname: "lb.example.com"}), " lb.example.com:80,443"},
		{corev1.ServiceTypeLoadBalancer, lb(corev1.LoadBalancerIngress{IP: "2001:db8::1"}, corev1.LoadBalancerIngress{}, corev1.LoadBalancerIngress{IP: "203.0.113.7"}),
			" [2001:db8::1]:80,443 203.0.113.7:80,443"},
	} {
		service := &corev1.Service{Status: c.status}
		service.Name, service.Namespace, service.Spec.Type = "web", "shop", c.kind
		service.Spec.Ports = []corev1.ServicePort{{Port: 80, NodePort: 30010}, {Port: 443, NodePort: 30011}}
		if got, want := Endpoint(service), "web.shop.svc:80,443"+c.want; got != want {
			t.Errorf("%s: %q, want %q", c.kind, got, want)
		}
	}
}
