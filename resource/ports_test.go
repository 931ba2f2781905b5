package resource

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

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

func TestPorts(t *testing.T) {
	for name, c := range map[string]struct {
		spec      []appv1.Port
		service   []servicePort
		container []listens
	}{
		"none": {},
		"target left out": {
			spec:      []appv1.Port{{Port: 80}},
			service:   []servicePort{{"", 80, *number(80)}},
			container: []listens{{"", 80, tcp}},
		},
		"target 0 as the tutorials stored it": {
			spec:      []appv1.Port{{Port: 80, TargetPort: number(0)}, {Port: 81, TargetPort: named("")}},
			service:   []servicePort{{"tcp-80", 80, *number(80)}, {"tcp-81", 81, *number(81)}},
			container: []listens{{"", 80, tcp}, {"", 81, tcp}},
		},
		"target by number": {
			spec:      []appv1.Port{{Port: 8080, TargetPort: number(80), Protocol: udp}},
			service:   []servicePort{{"", 8080, *number(80)}},
			container: []listens{{"", 80, udp}},
		},
		"target by name": {
			spec:      []appv1.Port{{Port: 8080, TargetPort: named("http")}},
			service:   []servicePort{{"", 8080, *named("http")}},
			container: []listens{{"http", 8080, tcp}},
		},
		"a number that looks like a name stays a name": {
			spec:      []appv1.Port{{Port: 8080, TargetPort: named("1-a")}},
			service:   []servicePort{{"", 8080, *named("1-a")}},
			container: []listens{{"1-a", 8080, tcp}},
		},
		"two ports lead to one number": {
			spec:      []appv1.Port{{Port: 80, TargetPort: number(8080)}, {Port: 81, TargetPort: number(8080)}},
			service:   []servicePort{{"tcp-80", 80, *number(8080)}, {"tcp-81", 81, *number(8080)}},
			container: []listens{{"", 8080, tcp}},
		},
		"one number under each protocol": {
			spec:      []appv1.Port{{Port: 53, Protocol: tcp}, {Port: 53, Protocol: udp}, {Port: 53, Protocol: sctp}},
			service:   []servicePort{{"tcp-53", 53, *number(53)}, {"udp-53", 53, *number(53)}, {"sctp-53", 53, *number(53)}},
			container: []listens{{"", 53, tcp}, {"", 53, udp}, {"", 53, sctp}},
		},
		"two ports lead to one name": {
			spec:      []appv1.Port{{Port: 80, TargetPort: named("http")}, {Port: 81, TargetPort: named("http")}},
			service:   []servicePort{{"tcp-80", 80, *named("http")}, {"tcp-81", 81, *named("http")}},
			container: []listens{{"http", 80, tcp}},
		},
		"one name under two protocols": {
			spec: []appv1.Port{
				{Port: 53, TargetPort: named("dns")}, {Port: 53, Protocol: udp, TargetPort: named("dns")},
				{Port: 54, Protocol: udp, TargetPort: named("dns")},
			},
			service:   []servicePort{{"tcp-53", 53, *named("dns")}, {"udp-53", 53, *number(53)}, {"udp-54", 54, *number(54)}},
			container: []listens{{"dns", 53, tcp}, {"", 53, udp}, {"", 54, udp}},
		},
		"a name for a number that is declared before": {
			spec:      []appv1.Port{{Port: 8080, TargetPort: number(80)}, {Port: 80, TargetPort: named("http")}},
			service:   []servicePort{{"tcp-8080", 8080, *number(80)}, {"tcp-80", 80, *named("http")}},
			container: []listens{{"http", 80, tcp}},
		},
		"a number for a name that is declared before": {
			spec:      []appv1.Port{{Port: 80, TargetPort: named("http")}, {Port: 8080, TargetPort: number(80)}},
			service:   []servicePort{{"tcp-80", 80, *named("http")}, {"tcp-8080", 8080, *number(80)}},
			container: []listens{{"http", 80, tcp}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			service, container := ports(c.spec, nil)
			var gotService []servicePort
			for i, p := range service {
				gotService = append(gotService, servicePort{p.Name, p.Port, p.TargetPort})
				if want := portProtocol(c.spec[i]); p.Protocol != want {
					t.Errorf("port %d has protocol %q, want %q", p.Port, p.Protocol, want)
				}
			}
			var gotContainer []listens
			for _, p := range container {
				gotContainer = append(gotContainer, listens{p.Name, p.ContainerPort, p.Protocol})
			}
			if diff := cmp.Diff(c.service, gotService, cmp.AllowUnexported(servicePort{})); diff != "" {
				t.Errorf("Service's ports (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(c.container, gotContainer, cmp.AllowUnexported(listens{})); diff != "" {
				t.Errorf("container's ports (-want +got):\n%s", diff)
			}
		})
	}
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

func TestTutorialContainerPorts(t *testing.T) {
	got := tutorialContainerPorts([]appv1.Port{
		{Port: 8080, TargetPort: number(80)},
		{Port: 8081, TargetPort: number(80)},       // Server-side apply refuses a second one of the same number.
		{Port: 53, Protocol: udp},                  // The tutorials know no protocol here.
		{Port: 9090, TargetPort: named("metrics")}, // Nor names.
	})
	want := []corev1.ContainerPort{{ContainerPort: 80, Protocol: tcp}, {ContainerPort: 53, Protocol: tcp}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("ports (-want +got):\n%s", diff)
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
