// Package chart tests the Helm chart: that it has the objects of make deploy, and that helm installs, upgrades and removes it.
package chart

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/go-logr/logr"
	"github.com/google/go-cmp/cmp"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	networkingv1 "k8s.io/api/networking/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"huolala.cn/app-operator/test/fixture"
	"huolala.cn/app-operator/test/harness"
)

const (
	release = "app-operator"
	image   = "controller:latest"
	keep    = "helm.sh/resource-policy"
)

// folder has the chart, plane is the control plane.
var (
	folder string
	plane  *harness.Plane
)

func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) (code int) {
	flag.Parse()
	ctrl.SetLogger(logr.Discard())
	scratch, err := os.MkdirTemp("", "chart-")
	if err == nil {
		defer func() { _ = os.RemoveAll(scratch) }()
		folder = filepath.Join(scratch, "app-operator")
		err = makeChart()
	}
	if err == nil {
		plane, err = harness.StartCluster("chart", 1)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer func() {
		if err := plane.Stop(); err != nil {
			fmt.Fprintln(os.Stderr, "stop the control plane:", err)
			code = 1
		}
	}()
	return m.Run()
}

// makeChart has make write the chart; helm lint is part of that.
func makeChart() error {
	cmd := exec.Command("make", "--no-print-directory", "chart", "CHART="+folder, "IMG="+image)
	cmd.Dir = harness.Root()
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("make chart: %w: %s", err, out)
	}
	return nil
}

// readInputs reads what make and the scripts make objects of.
var readInputs = sync.OnceValue(func() error {
	return harness.ReadInputs("config", "Makefile", "hack/helmchart", "hack/remove-generated.sh", "hack/render.sh", "hack/without.sh",
		"hack/tools/helm", "hack/tools/kustomize")
})

// command runs a program of the tree, and returns what it prints.
func command(t *testing.T, program string, args ...string) string {
	t.Helper()
	cmd := exec.Command(filepath.Join(harness.Root(), program), args...)
	cmd.Dir = harness.Root()
	var out, message strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &message
	if err := cmd.Run(); err != nil {
		t.Fatalf("%s %s: %v: %s", program, strings.Join(args, " "), err, message.String())
	}
	return out.String()
}

// components are the values of the chart, and the component that each is.
var components = map[string]string{
	"alerts": "alerts", "certManager": "cert-manager", "dashboards": "dashboards", "namespaced": "namespaced",
	"networkPolicy": "network-policy", "prometheus": "prometheus", "secretRollout": "secret-rollout", "viewer": "viewer",
}

// TestChartIsWhatDeployApplies renders the chart and what make deploy applies, with no component, with each and with some together, and
// compares all objects, field by field. The short form has a quarter of those with one component.
func TestChartIsWhatDeployApplies(t *testing.T) {
	offered, err := os.ReadDir(filepath.Join(harness.Root(), "config/components"))
	if err != nil {
		t.Fatal(err)
	}
	if len(offered) != len(components)+1 { // additional-instance is for overlays alone.
		t.Errorf("config/components has %d components, the chart %d", len(offered), len(components))
	}
	cases := [][]string{
		nil, {"certManager", "secretRollout"}, {"certManager", "namespaced"}, {"namespaced", "secretRollout"},
		{"alerts", "certManager", "dashboards", "namespaced", "networkPolicy", "prometheus", "secretRollout", "viewer"},
	}
	for value := range fixture.PartOf(t, components) {
		cases = append(cases, []string{value})
	}
	for _, values := range cases {
		t.Run(strings.Join(values, " "), func(t *testing.T) {
			args, with := []string{"template", release, folder, "--namespace", harness.SystemNamespace}, []string{image}
			for _, value := range values {
				args, with = append(args, "--set", value+"=true"), append(with, components[value])
			}
			got, want := objects(t, command(t, "bin/helm", args...)), objects(t, command(t, "hack/render.sh", with...))
			for id, object := range got {
				_, kept, _ := unstructured.NestedString(object, "metadata", "annotations", keep)
				if kept != strings.HasPrefix(id, "CustomResourceDefinition/") {
					t.Errorf("%s: kept after helm uninstall is %t", id, kept)
				}
				unstructured.RemoveNestedField(object, "metadata", "annotations", keep)
			}
			delete(want, "Namespace/"+harness.SystemNamespace)
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("objects (-make deploy +chart):\n%s", diff)
			}
		})
	}
}

// objects reads rendered objects, by kind and name. Who manages them differs, and is left out.
func objects(t *testing.T, rendered string) map[string]map[string]any {
	t.Helper()
	if err := readInputs(); err != nil {
		t.Fatal(err)
	}
	found := map[string]map[string]any{}
	for text := range strings.SplitSeq("\n"+rendered, "\n---\n") {
		object := map[string]any{}
		if err := yaml.UnmarshalStrict([]byte(text), &object); err != nil {
			t.Fatal(err)
		}
		if len(object) == 0 {
			continue
		}
		u := unstructured.Unstructured{Object: object}
		unstructured.RemoveNestedField(object, "metadata", "labels", "app.kubernetes.io/managed-by")
		id := u.GetKind() + "/" + u.GetName()
		if found[id] != nil {
			t.Errorf("%s is there twice", id)
		}
		found[id] = object
	}
	return found
}

// TestValuesOfPods sets the values of the chart that are about pods, and checks what the Deployments state then: all is as without them, but for
// what is set. Variables that the operator or a component sets are refused: the rights of the manager would not follow them.
func TestValuesOfPods(t *testing.T) {
	base := []string{"template", release, folder, "--namespace", harness.SystemNamespace, "--set", "viewer=true,certManager=true"}
	want := objects(t, command(t, "bin/helm", base...))
	got := objects(t, command(t, "bin/helm", append(slices.Clone(base),
		"--set-json", `args=["--namespace-cache-mib=64"]`, "--set-string", "env.HTTPS_PROXY=http://proxy:80",
		"--set", "nodeSelector.infra=yes,priorityClassName=high", "--set-json", `affinity={"nodeAffinity":{}}`,
		"--set", "resources.limits.memory=1Gi", "--set-json", `tolerations=[{"key":"infra","operator":"Exists"}]`, "--set", "imagePullSecrets[0].name=mirror")...))
	podSpec := func(name string) map[string]any {
		t.Helper()
		spec, found, err := unstructured.NestedFieldNoCopy(want["Deployment/"+name], "spec", "template", "spec")
		if !found || err != nil {
			t.Fatalf("Deployment %s has no pods (%v)", name, err)
		}
		return spec.(map[string]any)
	}
	for _, name := range []string{"app-operator-controller-manager", "app-operator-viewer"} {
		podSpec(name)["tolerations"] = []any{map[string]any{"key": "infra", "operator": "Exists"}}
		podSpec(name)["nodeSelector"], podSpec(name)["priorityClassName"] = map[string]any{"infra": "yes"}, "high"
		podSpec(name)["affinity"] = map[string]any{"nodeAffinity": map[string]any{}}
		podSpec(name)["imagePullSecrets"] = []any{map[string]any{"name": "mirror"}}
	}
	manager := podSpec("app-operator-controller-manager")["containers"].([]any)[0].(map[string]any)
	manager["args"] = append(manager["args"].([]any), "--namespace-cache-mib=64")
	manager["resources"].(map[string]any)["limits"] = map[string]any{"memory": "1Gi"}
	env := manager["env"].([]any)
	for i := range env {
		if variable := env[i].(map[string]any); variable["name"] == "GOMEMLIMIT" {
			variable["value"] = "966367641" // Nine tenths of a GiB.
		}
	}
	manager["env"] = append(env, map[string]any{"name": "HTTPS_PROXY", "value": "http://proxy:80"})
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("objects (-want +got):\n%s", diff)
	}
	for _, refused := range []string{"env.WATCH_NAMESPACE=shop", "env.POD_NAMESPACE=shop", "env.ENABLE_WEBHOOKS=false", "hostNetwork=true"} {
		cmd := exec.Command(filepath.Join(harness.Root(), "bin/helm"), append(slices.Clone(base), "--set-string", refused)...)
		if out, err := cmd.CombinedOutput(); err == nil || !strings.Contains(string(out), "values don't meet the specifications of the schema") {
			t.Errorf("--set %s: %v: %.300s", refused, err, out)
		}
	}
}

// TestMemoryLimit sets the memory limit of the manager: GOMEMLIMIT follows, unless it is set, or the limit has no usual unit.
func TestMemoryLimit(t *testing.T) {
	for set, want := range map[string]string{
		"resources.limits.memory=512Mi":                      "450MiB",
		"resources.limits.memory=2Gi":                        "1932735283",
		"resources.limits.memory=1000M":                      "900000000",
		"resources.limits.memory=1073741824":                 "450MiB",
		"resources.limits=null":                              "450MiB",
		"resources=null":                                     "450MiB",
		"env=null":                                           "450MiB",
		"resources.limits.memory=2Gi,env.GOMEMLIMIT=off":     "off",
		"resources.limits.memory=100Gi,env.GOMEMLIMIT=90GiB": "90GiB",
	} {
		out := command(t, "bin/helm", "template", release, folder, "--namespace", harness.SystemNamespace, "--set", set)
		if !strings.Contains(out, "- name: GOMEMLIMIT\n          value: \""+want+"\"\n") {
			t.Errorf("--set %s: no %s in the Deployment", set, want)
		}
	}
}

// newHelm returns helm with the flags for the release.
func newHelm(t *testing.T) func(...string) {
	kubeconfig := harness.WriteKubeconfig(t, plane.Config)
	return func(args ...string) {
		t.Helper()
		command(t, "bin/helm", append(args, "--kubeconfig", kubeconfig, "--namespace", harness.SystemNamespace, "--wait", "--timeout", harness.Patience.String())...)
	}
}

// TestChart installs the chart over what make deploy would have left, upgrades it twice, removes it and installs it once more. The
// definitions stay, and with them an App; so does the authority that the manager has told the API server of.
func TestChart(t *testing.T) {
	helm := newHelm(t)
	meta := fixture.Meta(harness.SystemNamespace, "app-operator-controller-manager")
	d, policy := &appsv1.Deployment{ObjectMeta: meta}, &networkingv1.NetworkPolicy{ObjectMeta: meta}
	hooks := &admissionregistrationv1.ValidatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: "app-operator-validating-webhook-configuration"}}
	definition := &apiextensionsv1.CustomResourceDefinition{ObjectMeta: metav1.ObjectMeta{Name: "apps.app.huolala.cn"}}

	// The control plane has definitions and roles, as after make deploy.
	helm("install", release, folder, "--take-ownership")
	plane.Read(t, d)
	if d.Status.AvailableReplicas != 2 || followsSecrets(d) {
		t.Errorf("%d managers are available; Secrets are followed: %t", d.Status.AvailableReplicas, followsSecrets(d))
	}
	plane.Read(t, hooks)
	authority := plane.Config.CAData
	plane.Change(t, hooks, func() {
		for i := range hooks.Webhooks {
			hooks.Webhooks[i].ClientConfig.CABundle = authority
		}
	})
	app := fixture.NewApp(plane.Namespace(t), "web")
	plane.Create(t, app)

	helm("upgrade", release, folder, "--set", "secretRollout=true", "--set", "networkPolicy=true")
	plane.Read(t, policy)
	plane.Read(t, d)
	plane.Read(t, hooks)
	if !followsSecrets(d) || !bytes.Equal(hooks.Webhooks[0].ClientConfig.CABundle, authority) {
		t.Errorf("after an upgrade Secrets are followed: %t, the authority is %q", followsSecrets(d), hooks.Webhooks[0].ClientConfig.CABundle)
	}
	helm("upgrade", release, folder, "--reset-values")
	plane.Gone(t, policy)

	helm("uninstall", release)
	plane.Gone(t, d)
	plane.Read(t, definition)
	plane.Read(t, app)
	helm("install", release, folder)
	plane.Read(t, d)
	helm("uninstall", release)
}

// TestTakeOwnership installs the chart over what make deploy has applied with components, by the values of the same components. Helm deletes what no
// release has had, so a later upgrade without these values removes them.
func TestTakeOwnership(t *testing.T) {
	for _, object := range render(t, "namespaced", "secret-rollout") {
		u := &unstructured.Unstructured{Object: object}
		if u.GetKind() == "CustomResourceDefinition" { // The control plane has these.
			continue
		}
		if err := plane.Client.Apply(t.Context(), client.ApplyConfigurationFromUnstructured(u), client.FieldOwner("app-operator-deploy"), client.ForceOwnership); err != nil {
			t.Fatal(err)
		}
	}
	helm := newHelm(t)
	helm("install", release, folder, "--take-ownership", "--set", "namespaced=true", "--set", "secretRollout=true")
	helm("upgrade", release, folder, "--reset-values")
	d := &appsv1.Deployment{ObjectMeta: fixture.Meta(harness.SystemNamespace, "app-operator-controller-manager")}
	plane.Read(t, d)
	for _, v := range d.Spec.Template.Spec.Containers[0].Env {
		if v.Name == "WATCH_NAMESPACE" && v.ValueFrom != nil {
			t.Errorf("the manager serves its own namespace alone: %+v", v)
		}
	}
	if followsSecrets(d) {
		t.Error("the manager follows Secrets")
	}
	for _, name := range []string{"app-operator-namespaced-manager-rolebinding", secretBinding} {
		plane.Gone(t, &rbacv1.RoleBinding{ObjectMeta: fixture.Meta(harness.SystemNamespace, name)})
	}
	helm("uninstall", release)
}

// followsSecrets reports whether a manager is told to follow Secrets.
func followsSecrets(d *appsv1.Deployment) bool {
	return strings.Contains(strings.Join(d.Spec.Template.Spec.Containers[0].Args, " "), "--follow-secrets")
}

// overlayIn returns the overlay that a page shows after an opening.
func overlayIn(t *testing.T, page, opening string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(harness.Root(), page))
	if err != nil {
		t.Fatal(err)
	}
	_, overlay, found := strings.Cut(string(text), opening)
	overlay, _, closed := strings.Cut(overlay, "```")
	if !found || !closed {
		t.Fatalf("%s shows no overlay", page)
	}
	return overlay
}

// TestRunbooksElsewhere builds the overlay that docs/observability.md shows.
func TestRunbooksElsewhere(t *testing.T) {
	overlay := overlayIn(t, "docs/observability.md", "```yaml\n")
	dir := t.TempDir()
	tree, err := filepath.Rel(dir, harness.Root())
	if err != nil {
		t.Fatal(err)
	}
	overlay = strings.ReplaceAll(overlay, "../..", tree)
	const base, config = "https://wiki.example/app-operator", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: runbooks}\ndata: {base: %q}\n"
	for name, text := range map[string]string{"kustomization.yaml": overlay, "runbooks.yaml": fmt.Sprintf(config, base)} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	urls := 0
	for line := range strings.Lines(command(t, "bin/kustomize", "build", dir)) {
		if url, ok := strings.CutPrefix(strings.TrimSpace(line), "runbook_url: "); ok {
			urls++
			if !strings.HasPrefix(url, base+"/docs/runbooks/AppOperator") {
				t.Errorf("a runbook is at %s", url)
			}
		}
	}
	if urls == 0 {
		t.Error("there are no runbooks")
	}
}
