package integration

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	appv1 "huolala.cn/app-operator/api/v1"
	"huolala.cn/app-operator/test/harness"
)

// presentDefinition returns a definition of this release.
func presentDefinition(t *testing.T, plural string) *apiextensionsv1.CustomResourceDefinition {
	t.Helper()
	crd := &apiextensionsv1.CustomResourceDefinition{}
	if err := harness.Load("config/crd/bases/app.huolala.cn_"+plural+".yaml", crd); err != nil {
		t.Fatal(err)
	}
	return crd
}

// manifestsWithLists returns a file with one resource of each kind. Each workload in it has every list in which Kubernetes has a default
// and the schema has none.
func manifestsWithLists(t *testing.T, ns string) string {
	t.Helper()
	workload, err := os.ReadFile(filepath.Join("testdata", "workload-with-lists.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	spec := func(more string) map[string]any {
		merged := fromYAML(t, string(workload)).(map[string]any)
		for name, value := range fromYAML(t, more).(map[string]any) {
			merged[name] = value
		}
		return merged
	}
	known := func(spec map[string]any, of apiextensionsv1.JSONSchemaProps) map[string]any {
		maps.DeleteFunc(spec, func(name string, _ any) bool { _, ok := of.Properties[name]; return !ok })
		return spec
	}
	schemaOf := func(plural string) apiextensionsv1.JSONSchemaProps {
		return presentDefinition(t, plural).Spec.Versions[0].Schema.OpenAPIV3Schema.Properties["spec"]
	}
	task := known(spec(`{schedule: "0 0 1 1 *"}`), schemaOf("tasks"))
	delete(task, "containers") // A Task has none.
	var text strings.Builder
	for _, manifest := range []struct {
		kind string
		spec map[string]any
	}{
		{"AppDefaults", map[string]any{"defaults": known(spec(`{}`), schemaOf("appdefaults").Properties["defaults"])}},
		{"Task", task},
		{"App", spec(`{}`)},
		{"ModelBox", spec(`{}`)},
		{"UnitedDeployment", map[string]any{"deploymentName": "united", "replicas": 1, "template": spec(`{}`)}},
		{"CloudManager", map[string]any{
			"front": map[string]any{"deployment": spec(`{}`)}, "identity": map[string]any{"deployment": spec(`{}`)},
			"db": map[string]any{"statefulSet": spec(`{storage: {size: 1Gi}}`)},
		}},
	} {
		name := strings.ToLower(manifest.kind)
		if manifest.kind == "AppDefaults" {
			name = appv1.AppDefaultsName
		}
		data, err := yaml.Marshal(map[string]any{
			"apiVersion": appv1.GroupVersion.String(), "kind": manifest.kind, "spec": manifest.spec,
			"metadata": map[string]any{"namespace": ns, "name": name},
		})
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&text, "---\n%s", data)
	}
	path := filepath.Join(t.TempDir(), "manifests.yaml")
	if err := os.WriteFile(path, []byte(text.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// podTemplates returns the pod templates of all Deployments, StatefulSets and CronJobs of a namespace, as JSON by kind and name.
func podTemplates(t *testing.T, ns string) map[string]string {
	t.Helper()
	sets, deployments, jobs := &appsv1.StatefulSetList{}, &appsv1.DeploymentList{}, &batchv1.CronJobList{}
	if err := errors.Join(plane.Client.List(t.Context(), sets, client.InNamespace(ns)), plane.Client.List(t.Context(), jobs, client.InNamespace(ns)),
		plane.Client.List(t.Context(), deployments, client.InNamespace(ns))); err != nil {
		t.Fatal(err)
	}
	found := map[string]string{}
	for i := range sets.Items {
		found["StatefulSet "+sets.Items[i].Name] = string(marshalJSON(t, sets.Items[i].Spec.Template))
	}
	for i := range deployments.Items {
		found["Deployment "+deployments.Items[i].Name] = string(marshalJSON(t, deployments.Items[i].Spec.Template))
	}
	for i := range jobs.Items {
		found["CronJob "+jobs.Items[i].Name] = string(marshalJSON(t, jobs.Items[i].Spec.JobTemplate.Spec.Template))
	}
	return found
}

// TestApplyAgain applies files with every kind and every list twice: the second time nothing changes, neither in the resources nor in
// the pod templates.
func TestApplyAgain(t *testing.T) {
	t.Parallel()
	ns, m := plane.Shared(t)
	kubeconfig := harness.WriteKubeconfig(t, plane.Config)
	kubectl := func(args ...string) string {
		t.Helper()
		out, err := exec.CommandContext(t.Context(), filepath.Join(os.Getenv("KUBEBUILDER_ASSETS"), "kubectl"),
			append([]string{"--kubeconfig", kubeconfig}, args...)...).CombinedOutput()
		if err != nil {
			t.Fatalf("kubectl %v: %v\n%s", args, err, out)
		}
		return string(out)
	}
	file := manifestsWithLists(t, ns)
	kubectl("apply", "-f", file)
	m.Idle(t)
	reasons := kubectl("get", "-f", file, "-o", `jsonpath={range .items[*]}{.kind}={.status.conditions[?(@.type=="Applied")].reason} {end}`)
	if strings.Contains(reasons, appv1.ReasonOverridden) || !strings.Contains(reasons, "App=") {
		t.Errorf("the API server has not kept a field as applied: %s", reasons)
	}
	was := podTemplates(t, ns)
	if len(was) != 5 { // The later tiers wait for pods.
		t.Fatalf("there are %d workloads: %v", len(was), slices.Sorted(maps.Keys(was)))
	}
	for line := range strings.Lines(kubectl("apply", "-f", file)) {
		if !strings.HasSuffix(strings.TrimSpace(line), " unchanged") {
			t.Errorf("an unchanged file is applied again: %s", line)
		}
	}
	kubectl("diff", "-f", file)
	m.Idle(t)
	if diff := cmp.Diff(was, podTemplates(t, ns)); diff != "" {
		t.Errorf("pod templates (-first +second):\n%s", diff)
	}
}
