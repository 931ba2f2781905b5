// Package networkpolicy asks Cyclonus, which conformance tests of network plug-ins are made of, what traffic the NetworkPolicies of
// Apps and ModelBoxes allow.
package networkpolicy

import (
	"testing"

	"github.com/mattfenwick/cyclonus/pkg/matcher"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/yaml"

	appv1 "huolala.cn/app-operator/api/v1"
	"huolala.cn/app-operator/resource"
)

const namespace = "shop"

// pod returns a pod of a namespace, which has the label that the API server gives it.
func pod(in string, labels map[string]string) *matcher.TrafficPeer {
	return &matcher.TrafficPeer{
		IP: "10.0.0.7",
		Internal: &matcher.InternalPeer{
			Namespace: in, NamespaceLabels: map[string]string{corev1.LabelMetadataName: in}, PodLabels: labels,
		},
	}
}

// outside returns a peer that is not in the cluster.
func outside(ip string) *matcher.TrafficPeer { return &matcher.TrafficPeer{IP: ip} }

// connection is a port by which a pod of the App is reached, or reaches another.
type connection struct {
	number   int
	name     string
	protocol corev1.Protocol
}

var (
	web    = connection{8080, "http", corev1.ProtocolTCP}
	admin  = connection{9090, "admin", corev1.ProtocolTCP}
	https  = connection{443, "https", corev1.ProtocolTCP}
	dnsUDP = connection{53, "dns", corev1.ProtocolUDP}
	dnsTCP = connection{53, "dns-tcp", corev1.ProtocolTCP}
)

// The peers that each policy is asked about.
var peers = map[string]*matcher.TrafficPeer{
	"ingress controller": pod("ingress-nginx", map[string]string{"app.kubernetes.io/name": "ingress-nginx"}),
	"neighbour":          pod(namespace, map[string]string{"role": "frontend"}),
	"another neighbour":  pod(namespace, map[string]string{"role": "batch"}),
	"stranger":           pod("other", map[string]string{"role": "frontend"}),
	"resolver":           pod("kube-system", map[string]string{"k8s-app": "kube-dns"}),
	"office":             outside("192.0.2.10"),
	"guests":             outside("192.0.2.200"),
	"internet":           outside("198.51.100.1"),
}

type flow struct {
	peer string
	port connection
}

// flows are flows to the App's pods and from them.
type flows struct{ in, out []flow }

// everything returns all flows that are asked about in a direction.
func everything() []flow {
	var all []flow
	for peer := range peers {
		for _, port := range []connection{web, admin, https, dnsUDP, dnsTCP} {
			all = append(all, flow{peer, port})
		}
	}
	return all
}

// from returns the flows of some peers by some ports.
func from(names []string, ports ...connection) []flow {
	var some []flow
	for _, name := range names {
		for _, port := range ports {
			some = append(some, flow{name, port})
		}
	}
	return some
}

var anyone = func() []string {
	var names []string
	for name := range peers {
		names = append(names, name)
	}
	return names
}()

var cases = map[string]struct {
	spec string
	// allowed is the whole of what is allowed; all else is not.
	allowed flows
}{
	"none":          {``, flows{everything(), everything()}},
	"nothing in":    {`networkPolicy: {ingress: []}`, flows{nil, everything()}},
	"nothing out":   {`networkPolicy: {egress: []}`, flows{everything(), nil}},
	"nothing":       {`networkPolicy: {ingress: [], egress: []}`, flows{}},
	"all in":        {`networkPolicy: {ingress: [{}], egress: []}`, flows{everything(), nil}},
	"port number":   {`networkPolicy: {ingress: [{ports: [{port: 8080}]}]}`, flows{from(anyone, web), everything()}},
	"port name":     {`networkPolicy: {ingress: [{ports: [{port: admin}]}]}`, flows{from(anyone, admin), everything()}},
	"port range":    {`networkPolicy: {ingress: [{ports: [{port: 8000, endPort: 9090}]}]}`, flows{from(anyone, web, admin), everything()}},
	"protocol only": {`networkPolicy: {ingress: [{ports: [{protocol: UDP}]}]}`, flows{from(anyone, dnsUDP), everything()}},
	"default protocol": {
		`networkPolicy: {egress: [{ports: [{port: 53}]}]}`, flows{everything(), from(anyone, dnsTCP)},
	},
	"both protocols": {
		`networkPolicy: {egress: [{ports: [{port: 53}, {port: 53, protocol: UDP}]}]}`, flows{everything(), from(anyone, dnsTCP, dnsUDP)},
	},
	"namespace": {
		`networkPolicy: {ingress: [{from: [{namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: ingress-nginx}}}],
		  ports: [{port: 8080}]}]}`,
		flows{from([]string{"ingress controller"}, web), everything()},
	},
	"pods of the same namespace": {
		`networkPolicy: {ingress: [{from: [{podSelector: {matchLabels: {role: frontend}}}], ports: [{port: 8080}]}]}`,
		flows{from([]string{"neighbour"}, web), everything()},
	},
	"all pods of the same namespace": {
		`networkPolicy: {ingress: [{from: [{podSelector: {}}], ports: [{port: 8080}]}]}`,
		flows{from([]string{"neighbour", "another neighbour"}, web), everything()},
	},
	"pods of any namespace": {
		`networkPolicy: {ingress: [{from: [{namespaceSelector: {}, podSelector: {matchLabels: {role: frontend}}}], ports: [{port: 8080}]}]}`,
		flows{from([]string{"neighbour", "stranger"}, web), everything()},
	},
	"addresses": {
		`networkPolicy: {ingress: [{from: [{ipBlock: {cidr: 192.0.2.0/24, except: [192.0.2.128/25]}}], ports: [{port: 8080}]}]}`,
		flows{from([]string{"office"}, web), everything()},
	},
	"two rules": {
		`networkPolicy: {ingress: [
		  {from: [{namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: ingress-nginx}}}], ports: [{port: http}]},
		  {from: [{podSelector: {matchLabels: {role: batch}}}], ports: [{port: admin}]}]}`,
		flows{append(from([]string{"ingress controller"}, web), from([]string{"another neighbour"}, admin)...), everything()},
	},
	"names and the web": {
		`networkPolicy: {ingress: [], egress: [
		  {to: [{namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: kube-system}}}], ports: [{port: 53}, {port: 53, protocol: UDP}]},
		  {to: [{ipBlock: {cidr: 198.51.100.0/24}}], ports: [{port: 443}]}]}`,
		flows{nil, append(from([]string{"resolver"}, dnsTCP, dnsUDP), from([]string{"internet"}, https)...)},
	},
}

// policies returns the NetworkPolicies that a kind makes of a spec, and the labels of its pods.
func policies(t *testing.T, kind, spec string) ([]*networkingv1.NetworkPolicy, map[string]string) {
	t.Helper()
	meta := metav1.ObjectMeta{Namespace: namespace, Name: "cart", UID: "1"}
	text := []byte("image: nginx:1.27.3\n" + spec)
	var w *resource.Workload
	build := map[string]func() error{
		"App": func() error {
			app := &appv1.App{ObjectMeta: meta}
			if err := yaml.UnmarshalStrict(text, &app.Spec); err != nil {
				return err
			}
			built, errs := resource.App(app, resource.BuildOptions{Serving: &app.Spec.ServingSpec})
			w = built
			return errs.ToAggregate()
		},
		"ModelBox": func() error {
			box := &appv1.ModelBox{ObjectMeta: meta}
			if err := yaml.UnmarshalStrict(text, &box.Spec); err != nil {
				return err
			}
			built, errs := resource.ModelBox(box, resource.BuildOptions{Serving: &box.Spec.ServingSpec})
			w = built
			return errs.ToAggregate()
		},
	}[kind]
	if err := build(); err != nil {
		t.Fatal(err)
	}
	var found []*networkingv1.NetworkPolicy
	for _, obj := range w.Objects() {
		if policy, ok := runtime.Object(obj).(*networkingv1.NetworkPolicy); ok {
			found = append(found, policy)
		}
	}
	return found, w.Template.Labels
}

// TestTraffic asks about each flow that there can be between the peers and a pod of an App or a ModelBox, in both directions: what
// the table allows is allowed, and nothing else is.
func TestTraffic(t *testing.T) {
	for _, kind := range []string{"App", "ModelBox"} {
		for name, c := range cases {
			t.Run(kind+"/"+name, func(t *testing.T) {
				made, labels := policies(t, kind, c.spec)
				if want := min(len(c.spec), 1); len(made) != want {
					t.Fatalf("%d NetworkPolicies, want %d", len(made), want)
				}
				policy := matcher.BuildNetworkPolicies(false, made)
				own := pod(namespace, labels)
				compare(t, policy, "in", c.allowed.in, func(peer *matcher.TrafficPeer) (_, _ *matcher.TrafficPeer) { return peer, own })
				compare(t, policy, "out", c.allowed.out, func(peer *matcher.TrafficPeer) (_, _ *matcher.TrafficPeer) { return own, peer })
				bystander := pod(namespace, map[string]string{"app.kubernetes.io/name": "other"})
				compare(t, policy, "in of a pod of another App", everything(),
					func(peer *matcher.TrafficPeer) (_, _ *matcher.TrafficPeer) { return peer, bystander })
			})
		}
	}
}

// compare compares what a policy allows of all flows of a direction.
func compare(t *testing.T, policy *matcher.Policy, direction string, allowed []flow,
	ends func(*matcher.TrafficPeer) (source, destination *matcher.TrafficPeer),
) {
	t.Helper()
	want := map[flow]bool{}
	for _, f := range allowed {
		want[f] = true
	}
	for _, f := range everything() {
		source, destination := ends(peers[f.peer])
		result := policy.IsTrafficAllowed(&matcher.Traffic{
			Source: source, Destination: destination,
			ResolvedPort: f.port.number, ResolvedPortName: f.port.name, Protocol: f.port.protocol,
		})
		if result.IsAllowed() != want[f] {
			t.Errorf("%s: %s by %s %d (%s): allowed is %t", direction, f.peer, f.port.protocol, f.port.number, f.port.name, result.IsAllowed())
		}
	}
}
