package integration

import (
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	appv1 "huolala.cn/app-operator/api/v1"
	"huolala.cn/app-operator/test/harness"
	"huolala.cn/app-operator/test/play"
)

// formerDefinitions returns the definitions of release 0.2.0, whose schema stated defaults inside lists.
func formerDefinitions(t *testing.T) []apiextensionsv1.CustomResourceDefinition {
	t.Helper()
	file, err := os.Open(filepath.Join("testdata", "former-definitions.json.gz"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = file.Close() }() // It was only read.
	plain, err := gzip.NewReader(file)
	if err != nil {
		t.Fatal(err)
	}
	var crds []apiextensionsv1.CustomResourceDefinition
	if err := json.NewDecoder(plain).Decode(&crds); err != nil || len(crds) != 4 {
		t.Fatalf("%d definitions: %v", len(crds), err)
	}
	return crds
}

// presentDefinitions returns the definitions of this release.
func presentDefinitions(t *testing.T) []apiextensionsv1.CustomResourceDefinition {
	t.Helper()
	var crds []apiextensionsv1.CustomResourceDefinition
	for _, former := range formerDefinitions(t) {
		crds = append(crds, *presentDefinition(t, former.Spec.Names.Plural))
	}
	return crds
}

// presentDefinition returns a definition of this release.
func presentDefinition(t *testing.T, plural string) *apiextensionsv1.CustomResourceDefinition {
	t.Helper()
	crd := &apiextensionsv1.CustomResourceDefinition{}
	if err := harness.Load("config/crd/bases/app.huolala.cn_"+plural+".yaml", crd); err != nil {
		t.Fatal(err)
	}
	return crd
}

// formerManifests returns a file with one resource of each kind. Each workload in it has every list for which the former schema
// stated a default.
func formerManifests(t *testing.T, ns string) string {
	t.Helper()
	workload, err := os.ReadFile(filepath.Join("testdata", "former-workload.yaml"))
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
	var text strings.Builder
	for _, manifest := range []struct {
		kind string
		spec map[string]any
	}{
		{"App", spec(`{}`)},
		{"ModelBox", spec(`{}`)},
		{"UnitedDeployment", map[string]any{"deploymentName": "united", "replicas": 1, "template": spec(`{}`)}},
		{"CloudManager", map[string]any{
			"front": map[string]any{"deployment": spec(`{}`)}, "identity": map[string]any{"deployment": spec(`{}`)},
			"db": map[string]any{"statefulSet": spec(`{storage: {size: 1Gi}}`)},
		}},
	} {
		data, err := yaml.Marshal(map[string]any{
			"apiVersion": appv1.GroupVersion.String(), "kind": manifest.kind, "spec": manifest.spec,
			"metadata": map[string]any{"namespace": ns, "name": strings.ToLower(manifest.kind)},
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

// upgrade is a control plane of its own, whose definitions the test replaces.
type upgrade struct {
	*harness.Plane
	namespace, kubeconfig string
}

// kubectl runs it, and returns what it says.
func (u *upgrade) kubectl(t *testing.T, args ...string) string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), filepath.Join(os.Getenv("KUBEBUILDER_ASSETS"), "kubectl"),
		append([]string{"--kubeconfig", u.kubeconfig}, args...)...).CombinedOutput()
	if err != nil {
		t.Fatalf("kubectl %v: %v\n%s", args, err, out)
	}
	return string(out)
}

// define replaces the definitions, and waits until they are in force: a new port has the default TCP, or has none.
func (u *upgrade) define(t *testing.T, crds []apiextensionsv1.CustomResourceDefinition, defaults bool) {
	t.Helper()
	for i := range crds {
		live := &apiextensionsv1.CustomResourceDefinition{}
		live.Name = crds[i].Name
		u.Read(t, live)
		u.Change(t, live, func() { live.Spec = crds[i].Spec })
	}
	for _, kind := range []string{"App", "ModelBox"} {
		harness.Eventually(t, func() error {
			probe := written(t, u.namespace, "probe", `{image: a, ports: [{port: 1}]}`)
			probe.SetKind(kind)
			if err := u.Client.Create(t.Context(), probe, client.DryRunAll); err != nil {
				return err
			}
			ports, _, _ := unstructured.NestedSlice(probe.Object, "spec", "ports")
			if _, stated := ports[0].(map[string]any)["protocol"]; stated != defaults {
				return errNotYet
			}
			return nil
		})
	}
}

// templates returns the pod templates of all workloads, as JSON by kind and name. It plays their controllers: all pods of
// what is there become ready.
func (u *upgrade) templates(t *testing.T) map[string]string {
	t.Helper()
	found := map[string]string{}
	note := func(kind, name string, template corev1.PodTemplateSpec) {
		found[kind+" "+name] = string(marshal(t, template))
	}
	sets, deployments := &appsv1.StatefulSetList{}, &appsv1.DeploymentList{}
	if err := errors.Join(u.Client.List(t.Context(), sets, client.InNamespace(u.namespace)),
		u.Client.List(t.Context(), deployments, client.InNamespace(u.namespace))); err != nil {
		t.Fatal(err)
	}
	for i := range sets.Items {
		set := &sets.Items[i]
		note("StatefulSet", set.Name, set.Spec.Template)
		u.ChangeStatus(t, set, func() { play.SetReady(set, *set.Spec.Replicas) })
	}
	for i := range deployments.Items {
		d := &deployments.Items[i]
		note("Deployment", d.Name, d.Spec.Template)
		u.ChangeStatus(t, d, func() { play.SetAvailable(d) })
	}
	return found
}

// same fails the test if a pod template is not byte for byte what it was: its pods would restart.
func (u *upgrade) same(t *testing.T, was map[string]string, after string) {
	t.Helper()
	now := u.templates(t)
	for name, template := range was {
		if now[name] != template {
			t.Errorf("%s: the template of %s changes:\n%s\n%s", after, name, template, now[name])
		}
	}
}

// TestUpgradeOfTheSchema stores resources under the definitions of release 0.2.0, replaces these by the present ones, and applies the same
// files again. No pod restarts.
func TestUpgradeOfTheSchema(t *testing.T) {
	t.Parallel()
	own, err := harness.StartAPIServer()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := own.Stop(); err != nil {
			t.Error(err)
		}
	})
	u := &upgrade{own, own.Namespace(t), harness.WriteKubeconfig(t, own.Config)}
	u.define(t, formerDefinitions(t), true)
	file := formerManifests(t, u.namespace)
	u.kubectl(t, "apply", "-f", file)
	removed := written(t, u.namespace, "removed", `{image: a, volumes: [{name: a, rbd: {image: a, monitors: [a]}}]}`)
	u.Create(t, removed)

	m := u.Start(t, u.namespace, harness.WithRendering(1))
	var was map[string]string
	harness.Eventually(t, func() error {
		if was = u.templates(t); len(was) != 7 {
			return fmt.Errorf("%d of 7 workloads", len(was))
		}
		return nil
	})
	m.Idle(t)
	m.Stop(t)
	was = u.templates(t)

	u.define(t, presentDefinitions(t), false)
	m = u.Start(t, u.namespace)
	m.Idle(t)
	u.same(t, was, "upgrade")
	invalid := &appv1.App{}
	invalid.Namespace, invalid.Name = u.namespace, "removed"
	u.Stands(t, invalid, "Ready=False", "Stalled=True")

	u.kubectl(t, "apply", "-f", file)
	m.Idle(t)
	u.same(t, was, "apply")
	for line := range strings.Lines(u.kubectl(t, "apply", "-f", file)) {
		if !strings.HasSuffix(strings.TrimSpace(line), " unchanged") {
			t.Errorf("an unchanged file is applied again: %s", line)
		}
	}
	u.kubectl(t, "diff", "-f", file)
}
