package view

import (
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// TestImportHostPorts imports main containers with ports of the node, some with the number of another port, behind a Service and without one: the App
// has the same pods, and no comment says otherwise.
func TestImportHostPorts(t *testing.T) {
	const udp, tcp = corev1.ProtocolUDP, corev1.ProtocolTCP
	host := func(name string, number int32, protocol corev1.Protocol) corev1.ContainerPort {
		return corev1.ContainerPort{Name: name, ContainerPort: number, HostPort: number, Protocol: protocol}
	}
	plain := func(name string, number int32, protocol corev1.Protocol) corev1.ContainerPort {
		return corev1.ContainerPort{Name: name, ContainerPort: number, Protocol: protocol}
	}
	target := func(port int32, protocol corev1.Protocol, to intstr.IntOrString) corev1.ServicePort {
		return corev1.ServicePort{Name: "p" + strconv.Itoa(int(port)), Port: port, Protocol: protocol, TargetPort: to}
	}
	turn := host("turn", 3478, udp)
	for name, c := range map[string]struct {
		ports    []corev1.ContainerPort
		serves   []corev1.ServicePort
		replaces bool
	}{
		"one":                                   {ports: []corev1.ContainerPort{turn, plain("metrics", 9641, tcp)}},
		"two numbers":                           {ports: []corev1.ContainerPort{turn, host("turns", 5349, tcp), plain("metrics", 9641, tcp)}},
		"one number":                            {ports: []corev1.ContainerPort{turn, host("turn-tcp", 3478, tcp), plain("metrics", 9641, tcp)}, replaces: true},
		"one number, and no other port":         {ports: []corev1.ContainerPort{turn, host("turn-tcp", 3478, tcp)}, replaces: true},
		"the number of a port of the pods":      {ports: []corev1.ContainerPort{plain("turn-tcp", 3478, tcp), turn}, replaces: true},
		"an address of the node":                {ports: []corev1.ContainerPort{plain("", 53, tcp), {ContainerPort: 53, HostPort: 53, HostIP: "192.0.2.1", Protocol: udp}}, replaces: true},
		"next to two ports of one number":       {ports: []corev1.ContainerPort{plain("", 53, tcp), plain("", 53, udp), host("", 9153, tcp)}, replaces: true},
		"two ports of one number of the pods":   {ports: []corev1.ContainerPort{plain("", 53, tcp), plain("", 53, udp)}},
		"one number behind a Service":           {[]corev1.ContainerPort{turn, host("turn-tcp", 3478, tcp)}, []corev1.ServicePort{target(3478, udp, intstr.FromInt32(3478))}, true},
		"one number behind a Service, by name":  {[]corev1.ContainerPort{turn, host("turn-tcp", 3478, tcp)}, []corev1.ServicePort{target(53, udp, intstr.FromString("turn"))}, true},
		"two names of different protocols":      {[]corev1.ContainerPort{turn, plain("metrics", 80, tcp)}, []corev1.ServicePort{target(1, udp, intstr.FromString("turn")), target(2, tcp, intstr.FromString("metrics"))}, false},
		"the number of an undeclared target":    {[]corev1.ContainerPort{turn}, []corev1.ServicePort{target(3478, tcp, intstr.FromInt32(3478))}, true},
		"one number, and an undeclared target":  {[]corev1.ContainerPort{turn, host("turn-tcp", 3478, tcp)}, []corev1.ServicePort{target(80, tcp, intstr.FromInt32(8080))}, true},
		"without a protocol, as a file has it":  {ports: []corev1.ContainerPort{turn, host("turn-tcp", 3478, ""), plain("metrics", 9641, "")}, replaces: true},
		"one number with an unnamed one of two": {ports: []corev1.ContainerPort{host("", 3478, udp), host("turn-tcp", 3478, tcp), plain("metrics", 9641, tcp)}, replaces: true},
	} {
		t.Run(name, func(t *testing.T) {
			from := &Source{Deployment: foreignDeployment(func(p *corev1.PodSpec) { p.Containers[0].Ports, p.Containers[0].ReadinessProbe = c.ports, nil })}
			if len(c.serves) > 0 {
				service := foreignService("web", map[string]string{"run": "web"})
				service.Spec.Ports = c.serves
				from.Services = []corev1.Service{service}
			}
			made, err := ImportOf(from)
			if err != nil {
				t.Fatal(err)
			}
			if len(made.Notes) > 0 {
				t.Errorf("the comments are %s", made.HeadComments())
			}
			verified, err := VerifyImport(made, from)
			if err != nil || len(verified.Differences)+len(verified.Objects) != 1+min(1, len(c.serves)) {
				t.Errorf("%v: %+v", err, verified)
			}
			want, got := plainTemplate(t, &from.Deployment.Spec.Template), plainTemplate(t, &rebuilt(t, made, from.Deployment).Template)
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("the pod template (-foreign +imported):\n%s", diff)
			}
			patch := made.App.Spec.PodTemplatePatch
			if replaces := patch != nil && strings.Contains(string(patch.Raw), `{"$patch":"replace"}`); replaces != c.replaces {
				t.Errorf("the patch replaces the ports: %t", replaces)
			}
		})
	}
}
