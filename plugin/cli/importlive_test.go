package cli

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/yaml"
)

// foreignObjects are the objects of a namespace by resource: two Deployments, a Deployment that another object controls, and around the
// first of them objects of other names and NetworkPolicies.
var foreignObjects = map[string]string{
	"deployments": `
- metadata: {name: web, namespace: shop, uid: d1, labels: {tier: front}}
  spec:
    selector: {matchLabels: {app: web}}
    template: {metadata: {labels: {app: web}}, spec: {containers: [{name: web, image: "nginx:1.27", ports: [{name: http, containerPort: 80}]}]}}
- metadata: {name: api, namespace: shop, uid: d2, labels: {tier: back}}
  spec:
    selector: {matchLabels: {app: api}}
    template: {metadata: {labels: {app: api}}, spec: {containers: [{name: api, image: "nginx:1.27"}]}}
- metadata: {name: owned, namespace: shop, ownerReferences: [{apiVersion: example.com/v1, kind: Site, name: site, uid: u, controller: true}]}
  spec:
    selector: {matchLabels: {app: owned}}
    template: {metadata: {labels: {app: owned}}, spec: {containers: [{name: owned, image: "nginx:1.27"}]}}`,
	"services": `
- metadata: {name: front, namespace: shop, uid: s1}
  spec: {type: ClusterIP, clusterIP: 10.0.0.7, selector: {app: web}, ports: [{name: http, port: 80, protocol: TCP, targetPort: http}]}
- metadata: {name: spare, namespace: shop, uid: s2}
  spec: {type: ClusterIP, clusterIP: 10.0.0.8, selector: {app: web}, ports: [{name: http, port: 80, protocol: TCP, targetPort: http}]}`,
	"horizontalpodautoscalers": `
- metadata: {name: scaler, namespace: shop}
  spec: {scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: web}, maxReplicas: 5}`,
	"poddisruptionbudgets": `
- metadata: {name: budget, namespace: shop}
  spec: {selector: {matchLabels: {app: web}}, maxUnavailable: 1}`,
	"ingresses": `
- metadata: {name: edge, namespace: shop}
  spec: {rules: [{host: shop.example.com, http: {paths: [{path: /, pathType: Prefix, backend: {service: {name: front, port: {name: http}}}}]}}]}
- metadata: {name: by-default, namespace: shop}
  spec: {defaultBackend: {service: {name: spare, port: {name: http}}}}`,
	"networkpolicies": `
- metadata: {name: web, namespace: shop}
  spec: {podSelector: {matchLabels: {app: web}}}
- metadata: {name: by-expression, namespace: shop}
  spec: {podSelector: {matchExpressions: [{key: app, operator: In, values: [web, db]}]}}
- metadata: {name: of-others, namespace: shop}
  spec: {podSelector: {matchLabels: {app: db}}}
- metadata: {name: default-deny, namespace: shop}
  spec: {podSelector: {}}`,
	"httproutes": `
- metadata: {name: public, namespace: shop}
  spec: {parentRefs: [{name: gateway}], rules: [{backendRefs: [{name: other, port: 80}]}, {backendRefs: [{name: front, port: 80}]}]}
- metadata: {name: route-elsewhere, namespace: shop}
  spec: {parentRefs: [{name: gateway}], rules: [{backendRefs: [{name: front, namespace: elsewhere, port: 80}, {name: other, port: 80}]}]}
- metadata: {name: to-spare, namespace: shop}
  spec: {parentRefs: [{name: gateway}], rules: [{backendRefs: [{name: spare, port: 80}]}]}`,
	"podmonitors": `
- metadata: {name: metrics, namespace: shop}
  spec: {selector: {matchLabels: {app: web}}, podMetricsEndpoints: [{port: http}]}
- metadata: {name: monitor-elsewhere, namespace: shop}
  spec: {selector: {matchLabels: {app: db}}, podMetricsEndpoints: [{port: http}]}`,
}

// foreignTypes are the types of the foreign objects by resource.
var foreignTypes = map[string]schema.GroupVersionKind{
	"deployments":              {Group: "apps", Version: "v1", Kind: "Deployment"},
	"statefulsets":             {Group: "apps", Version: "v1", Kind: "StatefulSet"},
	"daemonsets":               {Group: "apps", Version: "v1", Kind: "DaemonSet"},
	"services":                 {Version: "v1", Kind: "Service"},
	"horizontalpodautoscalers": {Group: "autoscaling", Version: "v2", Kind: "HorizontalPodAutoscaler"},
	"poddisruptionbudgets":     {Group: "policy", Version: "v1", Kind: "PodDisruptionBudget"},
	"ingresses":                {Group: "networking.k8s.io", Version: "v1", Kind: "Ingress"},
	"networkpolicies":          {Group: "networking.k8s.io", Version: "v1", Kind: "NetworkPolicy"},
	"httproutes":               {Group: "gateway.networking.k8s.io", Version: "v1", Kind: "HTTPRoute"},
	"podmonitors":              {Group: "monitoring.coreos.com", Version: "v1", Kind: "PodMonitor"},
}

// foreignServer returns a server that has the foreign objects.
func foreignServer(t *testing.T) *fakeServer {
	t.Helper()
	return serverOf(t, foreignObjects)
}

// serverOf returns a server that has objects by resource.
func serverOf(t *testing.T, objects map[string]string) *fakeServer {
	t.Helper()
	f := newFakeServer(t, nil)
	f.answer = func(q *http.Request, _ string) runtime.Object {
		_, path, _ := strings.Cut(q.URL.Path, "/namespaces/shop/")
		resource, name, one := strings.Cut(path, "/")
		var items []map[string]any
		if err := yaml.Unmarshal([]byte(objects[resource]), &items); err != nil || items == nil {
			return nil
		}
		kind := foreignTypes[resource]
		list := &unstructured.UnstructuredList{Object: map[string]any{"apiVersion": kind.GroupVersion().String(), "kind": kind.Kind + "List"}}
		for _, item := range items {
			obj := unstructured.Unstructured{Object: item}
			obj.SetGroupVersionKind(kind)
			if list.Items = append(list.Items, obj); one && obj.GetName() == name {
				return &obj
			}
		}
		if one {
			return nil
		}
		return list
	}
	return f
}

// TestImportLive imports the Deployments of a namespace in each way to say which ones.
func TestImportLive(t *testing.T) {
	f := foreignServer(t)
	const web, api = "kubectl happ adopt web -n shop\n", "kubectl happ adopt api -n shop\n"
	for _, c := range []struct {
		args       []string
		code       int
		has, lacks []string
		said       string
	}{
		{[]string{"web"}, 0, []string{web, "  service:\n    name: front\n"}, []string{api, "clusterIP"}, ""},
		{[]string{"deployment/web"}, 0, []string{web}, []string{api}, ""},
		{[]string{"deploy/web"}, 0, []string{web}, []string{api}, ""},
		{[]string{"web", "api"}, 0, []string{web, "---\n# Once this is applied, take over what exists, without a restart: " + api}, nil, ""},
		{[]string{"--all"}, 0, []string{web, api}, []string{"owned"}, "left out: Site site controls Deployment owned"},
		{[]string{"-l", "tier=front"}, 0, []string{web}, []string{api, "---"}, ""},
		{[]string{"-l", "tier in (front, back)"}, 0, []string{web, api}, nil, ""},
		{[]string{"--all", "--verify"}, 0, []string{"App shop/web: the same as Deployment web, Service front\n", "App shop/api: the same as Deployment api\n"}, []string{"apiVersion"}, "left out"},
		{[]string{"owned"}, 1, nil, []string{"apiVersion"}, "Site site controls Deployment owned, which cannot be taken over"},
		{[]string{"none"}, 1, nil, []string{"apiVersion"}, "none"},
		{[]string{"-l", "tier=none"}, 1, nil, []string{"apiVersion"}, "there is no Deployment to import"},
		{[]string{"-l", "tier in"}, 2, nil, []string{"apiVersion"}, "--selector"},
		{[]string{"statefulset/db"}, 2, nil, []string{"apiVersion"}, "write NAME or deployment/NAME"},
		{[]string{}, 2, nil, []string{"apiVersion"}, "write the NAME of a Deployment, or --all, --selector or --filename"},
		{[]string{"web", "--verify", "-o", "folder"}, 2, nil, []string{"apiVersion"}, "--verify prints no App"},
	} {
		code, out, said := f.run(t, append([]string{"import"}, c.args...)...)
		if code != c.code || !strings.Contains(said, c.said) {
			t.Errorf("%v: exit status %d, want %d and %q\n%s%s", c.args, code, c.code, c.said, out, said)
		}
		for _, want := range c.has {
			if !strings.Contains(out, want) {
				t.Errorf("%v: want %q in\n%s", c.args, want, out)
			}
		}
		for _, other := range c.lacks {
			if strings.Contains(out, other) {
				t.Errorf("%v: %q is in\n%s", c.args, other, out)
			}
		}
	}
	if len(f.writes) > 0 {
		t.Errorf("the import has written: %q", f.writes)
	}
}

// TestImportSharedService has a Service whose pods are those of another workload, too, from the cluster and from a file: the App has no Service, whatever
// the kind of the workload.
func TestImportSharedService(t *testing.T) {
	const service = "- metadata: {name: web, namespace: shop, uid: s1}\n  spec: {type: ClusterIP, selector: {app: web}, ports: [{name: http, port: 80, protocol: TCP}]}\n"
	pods := func(name string) string {
		return "- metadata: {name: " + name + ", namespace: shop, uid: " + name + "}\n  spec:\n    selector: {matchLabels: {app: web}}\n" +
			"    template: {metadata: {labels: {app: web}}, spec: {containers: [{name: web, image: \"nginx:1.27\"}]}}\n"
	}
	for resource, kind := range map[string]string{"deployments": "Deployment", "statefulsets": "StatefulSet", "daemonsets": "DaemonSet"} {
		objects := map[string]string{"deployments": pods("web"), "services": service}
		objects[resource] += pods("other")
		file := ""
		for of, text := range objects {
			var items []map[string]any
			if err := yaml.Unmarshal([]byte(text), &items); err != nil {
				t.Fatal(err)
			}
			for _, item := range items {
				obj := unstructured.Unstructured{Object: item}
				obj.SetGroupVersionKind(foreignTypes[of])
				data, err := yaml.Marshal(obj.Object)
				if err != nil {
					t.Fatal(err)
				}
				file += "---\n" + string(data)
			}
		}
		f := serverOf(t, objects)
		for _, args := range [][]string{{"import", "web"}, {"import", "-f", manifestFile(t, file), "web"}} {
			code, out, said := f.run(t, args...)
			if code != 0 || strings.Contains(out, "ports:") || !strings.Contains(out, "# Service web: spec.selector also selects the pods of "+kind+" other; the Service stays as it is") {
				t.Errorf("%v next to a %s: exit status %d\n%s%s", args, kind, code, out, said)
			}
		}
	}
}

// TestImportWithoutRights imports from a namespace in which the user may not list one type: the App is printed, and the type is named.
func TestImportWithoutRights(t *testing.T) {
	for resource, kinds := range map[string]string{
		"statefulsets": "StatefulSets", "daemonsets": "DaemonSets", "services": "Services", "horizontalpodautoscalers": "HorizontalPodAutoscalers",
		"poddisruptionbudgets": "PodDisruptionBudgets", "ingresses": "Ingresses", "networkpolicies": "NetworkPolicies",
	} {
		f := foreignServer(t)
		known := f.answer
		f.answer = func(q *http.Request, body string) runtime.Object {
			if strings.HasSuffix(q.URL.Path, "/"+resource) {
				return status(apierrors.NewForbidden(schema.GroupResource{Resource: resource}, "", nil))
			}
			return known(q, body)
		}
		code, out, said := f.run(t, "import", "web")
		if code != 0 || !strings.Contains(out, "image: nginx:1.27") || strings.Count(said, "not looked at: ") != 1 || !strings.Contains(said, "not looked at: "+kinds+" (") {
			t.Errorf("without %s: exit status %d\n%s%s", resource, code, out, said)
		}
	}
}

// TestImportNamesWhatStays names each object of another name, and each NetworkPolicy, that is about the pods, and no other.
func TestImportNamesWhatStays(t *testing.T) {
	code, out, said := foreignServer(t).run(t, "import", "web")
	if code != 0 {
		t.Fatalf("exit status %d: %s", code, said)
	}
	for _, want := range []string{
		"# HorizontalPodAutoscaler scaler: metadata.name is not web, so it is not taken over; it goes on scaling the Deployment.",
		"# PodDisruptionBudget budget: metadata.name is not web, so it is not taken over; it stays as it is.",
		"# Ingress edge: metadata.name is not web, so it is not taken over; it stays as it is, and goes on leading to the Service.",
		"# NetworkPolicy web: spec.podSelector selects the pods; it stays as it is, and applies to the pods of the App, too.",
		"# NetworkPolicy by-expression: spec.podSelector selects the pods;",
		"# HTTPRoute public: spec.rules lead to Service front; it stays as it is, and goes on leading there.",
		"# Service spare: spec is not taken over, as an App has one Service; it stays as it is.",
		"# Ingress by-default: spec leads to Service spare, which is not taken over; it stays as it is, and goes on leading there.",
		"# HTTPRoute to-spare: spec leads to Service spare, which is not taken over; it stays as it is, and goes on leading there.",
		"# PodMonitor metrics: spec.selector selects the pods; it stays as it is, and scrapes the pods of the App, too.",
	} {
		if !strings.Contains(out, want) {
			t.Errorf("want %q in\n%s", want, out)
		}
	}
	for _, other := range []string{"of-others", "default-deny", "elsewhere", "autoscaling:", "disruptionBudget:", "ingress:", "networkPolicy:", "replicas:"} {
		if strings.Contains(out, other) {
			t.Errorf("%q is in\n%s", other, out)
		}
	}
}

// TestImportIntoFolder writes a file for each App, and leaves the files that exist as they are.
func TestImportIntoFolder(t *testing.T) {
	f := foreignServer(t)
	folder := filepath.Join(t.TempDir(), "apps")
	_, printed, _ := f.run(t, "import", "web")
	code, out, said := f.run(t, "import", "--all", "-o", folder)
	if code != 0 || strings.Count(out, "Wrote ") != 2 || !strings.Contains(said, "left out: Site site controls") {
		t.Errorf("exit status %d\n%s%s", code, out, said)
	}
	file := filepath.Join(folder, "app-web.yaml")
	if text, err := os.ReadFile(file); err != nil || string(text) != printed {
		t.Errorf("%v: the file has\n%s\nand printed is\n%s", err, text, printed)
	}
	if code, out, said := f.run(t, "import", "--all", "-o", folder); code != 0 || strings.Count(out, "Unchanged ") != 2 || strings.Contains(out, "Wrote ") {
		t.Errorf("a second time: exit status %d\n%s%s", code, out, said)
	}
	if err := os.WriteFile(file, []byte("edited"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		args []string
		code int
	}{{[]string{"web"}, 1}, {[]string{"-l", "tier=front"}, 1}, {[]string{"--all"}, 0}} { // The file of the other Deployment is up to date.
		code, out, said := f.run(t, append([]string{"import", "-o", folder}, c.args...)...)
		if code != c.code || strings.Contains(out, "app-web.yaml") || !strings.Contains(said, "app-web.yaml exists; remove it, or write into another folder") {
			t.Errorf("%v: exit status %d\n%s%s", c.args, code, out, said)
		}
	}
	if text, err := os.ReadFile(file); err != nil || string(text) != "edited" {
		t.Errorf("%v: the file is overwritten:\n%s", err, text)
	}
}

// TestImportFails has Deployments that cannot be imported among others: the others are printed, and the exit status is that of an error, unless another
// owner has the Deployment or the file exists.
func TestImportFails(t *testing.T) {
	t.Parallel()
	const (
		matching = "- metadata: {name: matching, namespace: shop, uid: d4}\n  spec: {selector: {matchExpressions: [{key: app, operator: In, values: [x]}]}, " +
			"template: {metadata: {labels: {app: x}}, spec: {containers: [{name: x, image: x}]}}}"
		digit = "- metadata: {name: 7seas, namespace: shop, uid: d5}\n  spec: {selector: {matchLabels: {app: x}}, " +
			"template: {metadata: {labels: {app: x}}, spec: {containers: [{name: x, image: x}]}}}"
	)
	for name, c := range map[string]struct {
		deployments string
		args        []string
		code        int
		said        []string
	}{
		"none":                 {"", []string{"--all"}, 0, []string{"left out: Site site controls"}},
		"a selector":           {matching, []string{"--all"}, 1, []string{"not imported: Deployment matching has spec.selector.matchExpressions", "1 of 4 Deployments not imported"}},
		"two of them":          {matching + "\n" + digit, []string{"--all"}, 1, []string{"not imported: Deployment 7seas cannot be taken over", "2 of 5 Deployments not imported"}},
		"of a verification":    {digit, []string{"--all", "--verify"}, 1, []string{"not imported: Deployment 7seas", "1 of 4 Deployments not imported"}},
		"of others, by labels": {matching, []string{"-l", "tier"}, 0, nil},
		"by name":              {matching, []string{"web", "matching"}, 1, []string{"Deployment matching has spec.selector.matchExpressions"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := foreignServer(t)
			known := f.answer
			f.answer = func(q *http.Request, body string) runtime.Object {
				list, ok := known(q, body).(*unstructured.UnstructuredList)
				if !ok || !strings.HasSuffix(q.URL.Path, "/deployments") {
					if one := known(q, body); one != nil || c.deployments == "" || !strings.HasSuffix(q.URL.Path, "/matching") {
						return one
					}
				}
				var items []map[string]any
				if err := yaml.Unmarshal([]byte(c.deployments), &items); err != nil {
					t.Error(err)
				}
				for _, item := range items {
					obj := unstructured.Unstructured{Object: item}
					if obj.SetGroupVersionKind(foreignTypes["deployments"]); !ok {
						return &obj
					}
					list.Items = append(list.Items, obj)
				}
				return list
			}
			code, out, said := f.run(t, append([]string{"import"}, c.args...)...)
			if code != c.code || !strings.Contains(out, "web") {
				t.Errorf("exit status %d, want %d\n%s%s", code, c.code, out, said)
			}
			for _, want := range c.said {
				if !strings.Contains(said, want) {
					t.Errorf("want %q in\n%s", want, said)
				}
			}
		})
	}
}

// TestImportIntoNoFolder writes into a folder that cannot be one: each App is an error.
func TestImportIntoNoFolder(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	code, out, said := foreignServer(t).run(t, "import", "--all", "-o", filepath.Join(file, "apps"))
	if code != 1 || out != "" || strings.Count(said, "not imported: the App of Deployment ") != 2 || !strings.Contains(said, "2 of 3 Deployments not imported") {
		t.Errorf("exit status %d\n%s%s", code, out, said)
	}
}
