package cli

import (
	"strings"
	"testing"
)

const foreignFile = `
apiVersion: v1
kind: List
items:
- apiVersion: apps/v1
  kind: Deployment
  metadata: {name: web, labels: {app: web, tier: front}}
  spec:
    selector: {matchLabels: {app: web}}
    template:
      metadata: {labels: {app: web}}
      spec: {containers: [{name: web, image: "nginx:1.27", ports: [{name: http, containerPort: 80}]}]}
- apiVersion: v1
  kind: Service
  metadata: {name: web}
  spec: {type: LoadBalancer, loadBalancerIP: 192.0.2.1, selector: {app: web}, ports: [{name: http, port: 80, targetPort: http}]}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: api, namespace: back, labels: {app: api}}
spec:
  selector: {matchLabels: {app: api}}
  template:
    metadata: {labels: {app: api}}
    spec: {containers: [{name: api, image: "nginx:1.27"}]}
---
apiVersion: autoscaling/v1
kind: HorizontalPodAutoscaler
metadata: {name: api, namespace: back}
spec: {scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: api}, maxReplicas: 5, targetCPUUtilizationPercentage: 60}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: owned, ownerReferences: [{apiVersion: example.com/v1, kind: Site, name: site, uid: u, controller: true}]}
spec:
  selector: {matchLabels: {app: owned}}
  template: {metadata: {labels: {app: owned}}, spec: {containers: [{name: owned, image: "nginx:1.27"}]}}
---
apiVersion: apps/v1
kind: StatefulSet
metadata: {name: db}
spec: {serviceName: db, selector: {matchLabels: {app: db}}, template: {metadata: {labels: {app: db}}, spec: {containers: [{name: db, image: "redis:7"}]}}}
`

// TestImportFiles imports the objects of a file: all of them, those with a name or with labels. A Deployment that another object controls is left
// out, and named. The exit status says whether an App differs. No request goes to the cluster.
func TestImportFiles(t *testing.T) {
	file := manifestFile(t, foreignFile)
	f := newFakeServer(t, nil)
	for _, c := range []struct {
		args      []string
		code      int
		has, errs []string
		lacks     string
	}{
		{[]string{"--all"}, 0, []string{
			"kubectl happ adopt web -n shop\n", "name: web\n", "---\n# Once this is applied", "adopt api -n back\n", "averageUtilization: 60",
			"# Service web: spec.loadBalancerIP stays",
		}, []string{"left out: Site site controls Deployment owned"}, "redis"},
		{[]string{"api"}, 0, []string{"namespace: back\n"}, nil, "name: web"},
		{[]string{"-l", "tier"}, 0, []string{"name: web\n"}, nil, "---"},
		{[]string{"--verify"}, 1, []string{
			"App back/api: the same as Deployment api, HorizontalPodAutoscaler api\n", "App shop/web: not the same as Deployment web, Service web\n",
			"  differs: Service web spec.loadBalancerIP: 192.0.2.1 -> none\n",
		}, nil, "apiVersion"},
		{[]string{"--verify", "deploy/api"}, 0, []string{"App back/api: the same as"}, nil, "differs"},
		{[]string{"none"}, 1, nil, []string{"the files have no Deployment none"}, "api"},
		{[]string{"-l", "a=b"}, 1, nil, []string{"there is no Deployment to import"}, "api"},
	} {
		code, out, said := f.run(t, append([]string{"import", "-f", file}, c.args...)...)
		if code != c.code || strings.Contains(out, c.lacks) {
			t.Errorf("%v: exit status %d, want %d, without %q\n%s%s", c.args, code, c.code, c.lacks, out, said)
		}
		for _, want := range c.has {
			if !strings.Contains(out, want) {
				t.Errorf("%v: want %q in\n%s", c.args, want, out)
			}
		}
		for _, want := range c.errs {
			if !strings.Contains(said, want) {
				t.Errorf("%v: want %q in\n%s", c.args, want, said)
			}
		}
	}
}

// formerFile has objects of former versions around a Deployment: an autoscaler whose annotation has its metrics, and an Ingress.
const formerFile = `
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, namespace: shop}
spec:
  selector: {matchLabels: {app: web}}
  template: {metadata: {labels: {app: web}}, spec: {containers: [{name: web, image: "nginx:1.27"}]}}
---
apiVersion: autoscaling/v1
kind: HorizontalPodAutoscaler
metadata:
  name: web
  namespace: shop
  annotations:
    autoscaling.alpha.kubernetes.io/metrics: '[{"type":"Pods","pods":{"metricName":"requests","targetAverageValue":"10"}}]'
    autoscaling.alpha.kubernetes.io/behavior: '{"ScaleDown":{"StabilizationWindowSeconds":600}}'
spec: {scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: web}, maxReplicas: 5}
---
apiVersion: networking.k8s.io/v1beta1
kind: Ingress
metadata: {name: web, namespace: shop}
spec: {rules: [{host: shop.example.com, http: {paths: [{path: /, backend: {serviceName: web, servicePort: 80}}]}}]}
---
apiVersion: extensions/v1beta1
kind: Deployment
metadata: {name: old, namespace: shop}
spec: {template: {metadata: {labels: {app: old}}, spec: {containers: [{name: old, image: "nginx:1.27"}]}}}
---
apiVersion: autoscaling/v2beta1
kind: HorizontalPodAutoscaler
metadata: {name: old, namespace: shop}
spec: {scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: web}, maxReplicas: 5, metrics: [{type: Resource, resource: {name: cpu, targetAverageUtilization: 50}}]}
`

// TestImportFormerVersions imports a file of former versions: the App has what the API server would read, and each object that cannot be read is named.
func TestImportFormerVersions(t *testing.T) {
	code, out, said := newFakeServer(t, nil).run(t, "import", "-f", manifestFile(t, formerFile))
	if code != 0 || strings.Contains(out, "cpu") || strings.Contains(out, "ingress:") {
		t.Errorf("exit status %d\n%s%s", code, out, said)
	}
	for _, want := range []string{"name: requests", "averageValue: \"10\"", "stabilizationWindowSeconds: 600"} {
		if !strings.Contains(out, want) {
			t.Errorf("want %q in\n%s", want, out)
		}
	}
	for _, want := range []string{
		"Ingress web (of the version networking.k8s.io/v1beta1", "Deployment old (of the version extensions/v1beta1",
		"HorizontalPodAutoscaler old (of the version autoscaling/v2beta1",
	} {
		if !strings.Contains(said, "not looked at: "+want) {
			t.Errorf("want %q in\n%s", want, said)
		}
	}
}
