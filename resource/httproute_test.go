package resource

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/yaml"

	appv1 "huolala.cn/app-operator/api/v1"
)

// servingApp returns an App with a UDP port before its TCP port, and with the fields around the pods that a YAML text has.
func servingApp(t *testing.T, text string) *appv1.App {
	t.Helper()
	app := &appv1.App{}
	app.Namespace, app.Name, app.UID = "default", "shop", "1"
	app.Spec.Image = "nginx"
	app.Spec.Ports = []appv1.Port{
		{Name: "dns", Port: 53, Protocol: "UDP"}, {Name: "web", Port: 80, TargetPort: &intstr.IntOrString{IntVal: 8080}},
	}
	if err := yaml.UnmarshalStrict([]byte(text), &app.Spec); err != nil {
		t.Fatal(err)
	}
	return app
}

// TestOptionalObjects compares the spec and the metadata of HTTPRoutes and PodMonitors with what they should be, defaults included.
func TestOptionalObjects(t *testing.T) {
	for name, c := range map[string]struct{ given, want string }{
		"route, defaults": {`httpRoute: {parentRefs: [{name: public}]}`, `
parentRefs:
- {group: gateway.networking.k8s.io, kind: Gateway, name: public}
rules:
- backendRefs: [{group: "", kind: Service, name: shop, port: 80, weight: 1}]
  matches: [{path: {type: PathPrefix, value: /}}]`},
		"route, all fields": {`
httpRoute:
  parentRefs:
  - {name: public, namespace: gateways, sectionName: https}
  - {kind: ListenerSet, name: own, port: 8443}
  hostnames: [shop.example.com, "*.example.com"]
  paths: [/api, /static]
  pathType: Exact
  port: 80
  annotations: {example.com/team: shop}`, `
parentRefs:
- {group: gateway.networking.k8s.io, kind: Gateway, name: public, namespace: gateways, sectionName: https}
- {group: gateway.networking.k8s.io, kind: ListenerSet, name: own, port: 8443}
hostnames: [shop.example.com, "*.example.com"]
rules:
- backendRefs: [{group: "", kind: Service, name: shop, port: 80, weight: 1}]
  matches: [{path: {type: Exact, value: /api}}, {path: {type: Exact, value: /static}}]`},
		"monitor, defaults": {`podMonitor: {}`, `
namespaceSelector: {}
podMetricsEndpoints: [{path: /metrics, port: web}]
selector: {matchLabels: {app.huolala.cn/app: shop}}`},
		"monitor, all fields": {`podMonitor: {port: 8080, path: /m, interval: 30s, labels: {release: p, app.kubernetes.io/managed-by: x}}`, `
namespaceSelector: {}
podMetricsEndpoints: [{interval: 30s, path: /m, portNumber: 8080}]
selector: {matchLabels: {app.huolala.cn/app: shop}}`},
	} {
		t.Run(name, func(t *testing.T) {
			w := built(t)(App(servingApp(t, c.given), BuildOptions{Inputs: BuildInputs{Rendering: RenderingLatest}}))
			around := w.objectsAround()
			if len(around) != 1 {
				t.Fatalf("%d objects", len(around))
			}
			obj := around[0]
			data, err := yaml.Marshal(obj)
			if err != nil {
				t.Fatal(err)
			}
			var got struct{ Spec any }
			var want any
			if err := yaml.Unmarshal(data, &got); err != nil {
				t.Fatal(err)
			}
			if err := yaml.Unmarshal([]byte(c.want), &want); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want, got.Spec); diff != "" {
				t.Errorf("spec (-want +got):\n%s", diff)
			}
			if obj.GetName() != "shop" || obj.GetLabels()[appv1.LabelManagedBy] != appv1.ManagedBy || len(obj.GetOwnerReferences()) != 1 {
				t.Errorf("metadata: %s %v %v", obj.GetName(), obj.GetLabels(), obj.GetOwnerReferences())
			}
			all := name == "route, all fields" || name == "monitor, all fields"
			if own := obj.GetLabels()["release"] == "p" || obj.GetAnnotations()["example.com/team"] == "shop"; own != all {
				t.Errorf("its own metadata: %v %v", obj.GetLabels(), obj.GetAnnotations())
			}
		})
	}
}

// TestMonitorOfUndeclaredPort has PodMonitors of ports that no container declares by TCP be refused.
func TestMonitorOfUndeclaredPort(t *testing.T) {
	for given, words := range map[string]string{
		`podMonitor: {port: metrics}`: "spec.podMonitor.port: Invalid value: \"metrics\": must be the name or the number of a TCP port that a container declares: web",
		`podMonitor: {port: 9090}`:    "spec.podMonitor.port: ",
		`podMonitor: {port: dns}`:     "spec.podMonitor.port: ",
		`podMonitor: {port: web}`:     "",
		`podMonitor: {port: 8080}`:    "",
		// Only an init container that is restarted runs next to the main container.
		"initContainers: [{name: proxy, image: a, restartPolicy: Always, ports: [{name: stats, containerPort: 9901}]}]\npodMonitor: {port: stats}": "",
		"initContainers: [{name: proxy, image: a, restartPolicy: Always, ports: [{name: stats, containerPort: 9901}]}]\npodMonitor: {port: 9901}":  "",
		"initContainers: [{name: proxy, image: a, restartPolicy: Always, ports: [{name: stats, containerPort: 9901}]}]\npodMonitor: {port: other}": "spec.podMonitor.port: Invalid value: \"other\": must be the name or the number of a TCP port that a container declares: web, stats",
		"initContainers: [{name: first, image: a, ports: [{name: stats, containerPort: 9901}]}]\npodMonitor: {port: stats}":                        "spec.podMonitor.port: ",
	} {
		w, errs := App(servingApp(t, given), BuildOptions{Inputs: BuildInputs{Rendering: RenderingLatest}})
		if got := errs.ToAggregate(); (got == nil) != (words == "") || got != nil && !strings.HasPrefix(got.Error(), words) {
			t.Errorf("%s: %v, want %q", given, got, words)
		}
		if made := PodMonitor(w) != nil; made != (words == "") {
			t.Errorf("%s: made is %t", given, made)
		}
	}
	app := servingApp(t, `podMonitor: {}`)
	app.Spec.Ports = app.Spec.Ports[:1]
	if _, errs := App(app, BuildOptions{Inputs: BuildInputs{Rendering: RenderingLatest}}); len(errs) != 1 || errs[0].Field != "spec.podMonitor" {
		t.Errorf("without a TCP port: %v", errs)
	}
}
