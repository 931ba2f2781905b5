package chart

import (
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"huolala.cn/app-operator/test/fixture"
	"huolala.cn/app-operator/test/harness"
)

const (
	secretBinding = "app-operator-secret-rollout-rolebinding"
	managerRole   = "app-operator-manager-role"
)

// offered are the names of all components that make deploy takes.
func offered() []string { return slices.Sorted(maps.Values(components)) }

// rendered are the results of render by its arguments: several tests compare with the same.
var rendered = map[string]map[string]map[string]any{}

// render returns what make deploy applies with components. The caller may delete objects from the map.
func render(t *testing.T, with ...string) map[string]map[string]any {
	t.Helper()
	key := strings.Join(with, " ")
	if rendered[key] == nil {
		rendered[key] = objects(t, command(t, "hack/render.sh", append([]string{image}, with...)...))
	}
	return maps.Clone(rendered[key])
}

// deleted has make delete objects by a kubectl that prints its input, and returns the objects.
func deleted(t *testing.T, args ...string) (map[string]map[string]any, error) {
	t.Helper()
	kubectl := filepath.Join(t.TempDir(), "kubectl")
	if err := os.WriteFile(kubectl, []byte("#!/bin/sh\n[ \"$1\" = delete ] && exec cat\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("make", append([]string{"--no-print-directory", "--silent", "KUBECTL=" + kubectl, "IMG=" + image}, args...)...)
	cmd.Dir = harness.Root()
	// The variables of a make that runs this test are not those of the command.
	cmd.Env = slices.DeleteFunc(os.Environ(), func(variable string) bool {
		return strings.HasPrefix(variable, "MAKE") || strings.HasPrefix(variable, "MFLAGS=") || strings.HasPrefix(variable, "FROM=")
	})
	out, err := cmd.Output()
	return objects(t, string(out)), err
}

// TestUndeployKeep checks that make undeploy-keep deletes all that make deploy applies, with no component, with each and with all, except for
// the definitions and the namespace: with these, the resources and the AppDefaults would be deleted. The short form has a quarter of those with one
// component.
func TestUndeployKeep(t *testing.T) {
	cases := [][]string{nil, offered()}
	for _, component := range fixture.PartOf(t, components) {
		cases = append(cases, []string{component})
	}
	for _, with := range cases {
		t.Run(strings.Join(with, " "), func(t *testing.T) {
			want := render(t, with...)
			kept := 0
			for id := range want {
				if kind, _, _ := strings.Cut(id, "/"); kind == "CustomResourceDefinition" || kind == "Namespace" {
					delete(want, id)
					kept++
				}
			}
			if kept < 2 {
				t.Errorf("make deploy applies %d definitions and namespaces", kept)
			}
			got, err := deleted(t, "undeploy-keep", "COMPONENTS="+strings.Join(with, " "))
			if diff := cmp.Diff(want, got); err != nil || diff != "" {
				t.Errorf("%v; objects (-want +make undeploy-keep):\n%s", err, diff)
			}
		})
	}
}

// TestPrune switches each component off and on again, and checks that make prune deletes what is left: the objects that are rendered before
// and not afterwards. No component has the definitions or the namespace. The short form has a quarter of the components.
func TestPrune(t *testing.T) {
	type change struct{ from, to []string }
	changes := []change{{offered(), nil}, {[]string{"namespaced", "secret-rollout"}, []string{"namespaced"}}, {nil, []string{"namespaced"}}}
	for _, component := range fixture.PartOf(t, components) {
		changes = append(changes, change{[]string{component}, nil}, change{nil, []string{component}})
	}
	for _, c := range changes {
		t.Run(strings.Join(c.from, " ")+" to "+strings.Join(c.to, " "), func(t *testing.T) {
			want := render(t, c.from...)
			for id := range render(t, c.to...) {
				delete(want, id)
			}
			for id := range want {
				if kind, _, _ := strings.Cut(id, "/"); kind == "CustomResourceDefinition" || kind == "Namespace" {
					t.Errorf("%s is not in each rendering", id)
				}
			}
			got, err := deleted(t, "prune", "FROM="+strings.Join(c.from, " "), "COMPONENTS="+strings.Join(c.to, " "))
			if diff := cmp.Diff(want, got); err != nil || diff != "" {
				t.Errorf("%v; objects (-want +make prune):\n%s", err, diff)
			}
		})
	}
	if _, err := deleted(t, "prune"); err == nil {
		t.Error("make prune without FROM= does not fail")
	}
}

// TestNamespacedIsWithoutTheCluster checks the bindings of the manager with namespaced, alone and together with each other component: of the
// cluster, it may ask who scrapes its metrics, and nothing else. Each order of the components gives the same, and an overlay whose order would
// give the manager all Secrets of the cluster is refused.
func TestNamespacedIsWithoutTheCluster(t *testing.T) {
	for _, with := range [][]string{{"namespaced"}, {"namespaced", "secret-rollout"}, {"secret-rollout", "namespaced"}, offered()} {
		t.Run(strings.Join(with, " "), func(t *testing.T) {
			all := render(t, with...)
			var bound []string
			for id, object := range all {
				subjects, _, _ := unstructured.NestedSlice(object, "subjects")
				for _, subject := range subjects {
					if name := subject.(map[string]any)["name"]; strings.HasPrefix(id, "ClusterRoleBinding/") && name == "app-operator-controller-manager" {
						bound = append(bound, id)
					}
				}
			}
			if diff := cmp.Diff([]string{"ClusterRoleBinding/app-operator-metrics-auth-rolebinding"}, bound); diff != "" {
				t.Errorf("what binds the manager in the whole cluster (-want +got):\n%s", diff)
			}
			binding := all["RoleBinding/"+secretBinding]
			if (binding != nil) != slices.Contains(with, "secret-rollout") {
				t.Errorf("the binding to the Secrets of the namespace is %v", binding)
			}
			if namespace, _, _ := unstructured.NestedString(binding, "metadata", "namespace"); binding != nil && namespace != harness.SystemNamespace {
				t.Errorf("the binding to Secrets is in the namespace %q", namespace)
			}
		})
	}
	out, err := build(t, "components:\n- ../../config/components/namespaced\n- ../../config/components/secret-rollout\n")
	if err == nil || !strings.Contains(out, "namespaced has to come after secret-rollout") {
		t.Errorf("an overlay with secret-rollout after namespaced: %v: %s", err, out)
	}
}

// build builds an overlay of config/default, with further lines, as if it were in a folder of the tree like east/operator.
func build(t *testing.T, lines string) (string, error) {
	t.Helper()
	dir := t.TempDir()
	tree, err := filepath.Rel(dir, harness.Root())
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(lines, "resources:") {
		lines = "resources:\n- ../../config/default\n" + lines
	}
	if err := os.WriteFile(filepath.Join(dir, "kustomization.yaml"), []byte(strings.ReplaceAll(lines, "../..", tree)), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(filepath.Join(harness.Root(), "bin/kustomize"), "build", dir)
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// TestCertManagerHasAnAuthority follows the certificate of the webhooks with cert-manager from the API server to the issuer that signs itself:
// an authority issues it that outlives many of its renewals, and keeps its key. So the API server trusts a renewed certificate at once.
func TestCertManagerHasAnAuthority(t *testing.T) {
	all := render(t, "cert-manager")
	text := func(id string, path ...string) string {
		t.Helper()
		found, _, err := unstructured.NestedString(all[id], path...)
		if err != nil {
			t.Errorf("%s: %v", id, err)
		}
		return found
	}
	const hooks, leaf = "WebhookConfiguration/app-operator-", "app-operator-serving-cert"
	for _, id := range []string{"Mutating" + hooks + "mutating-webhook-configuration", "Validating" + hooks + "validating-webhook-configuration"} {
		if from := text(id, "metadata", "annotations", "cert-manager.io/inject-ca-from"); from != harness.SystemNamespace+"/"+leaf {
			t.Errorf("%s trusts the authority of %q", id, from)
		}
	}
	issuer := "Issuer/" + text("Certificate/"+leaf, "spec", "issuerRef", "name")
	secret := text(issuer, "spec", "ca", "secretName")
	var authority string
	for id := range all {
		if strings.HasPrefix(id, "Certificate/") && text(id, "spec", "secretName") == secret {
			authority = id
		}
	}
	if authority == "" || authority == "Certificate/"+leaf {
		t.Fatalf("%s of the certificate takes the Secret %q, which is of %q", issuer, secret, authority)
	}
	if isCA, _, _ := unstructured.NestedBool(all[authority], "spec", "isCA"); !isCA {
		t.Errorf("%s is no authority", authority)
	}
	if policy, duration := text(authority, "spec", "privateKey", "rotationPolicy"), text(authority, "spec", "duration"); policy != "Never" || duration != "87600h" {
		t.Errorf("%s has the rotation policy %q, and is valid for %q", authority, policy, duration)
	}
	root := "Issuer/" + text(authority, "spec", "issuerRef", "name")
	if _, found, _ := unstructured.NestedMap(all[root], "spec", "selfSigned"); !found {
		t.Errorf("%s, which issues the authority, does not sign itself", root)
	}
}

// TestRightsOfSwitchedOffFields builds the overlay that docs/security.md shows, and checks that the rights of the switched-off fields, and no
// other ones, are gone.
func TestRightsOfSwitchedOffFields(t *testing.T) {
	out, err := build(t, "#"+overlayIn(t, "docs/security.md", "```yaml\n# kustomization.yaml"))
	if err != nil {
		t.Fatal(out)
	}
	before, after := rulesOf(t, render(t)), rulesOf(t, objects(t, out))
	want := slices.DeleteFunc(slices.Clone(before), func(rule any) bool {
		groups, _, _ := unstructured.NestedStringSlice(rule.(map[string]any), "apiGroups")
		return slices.Equal(groups, []string{"networking.k8s.io"})
	})
	if diff := cmp.Diff(want, after); diff != "" || len(want) != len(before)-1 {
		t.Errorf("rules, of %d (-want +overlay):\n%s", len(before), diff)
	}
	if !strings.Contains(out, "--disable-features=ingress,networkPolicy") {
		t.Error("the overlay does not switch the fields off")
	}
}

// rulesOf returns the rules of the manager's ClusterRole.
func rulesOf(t *testing.T, all map[string]map[string]any) []any {
	t.Helper()
	rules, _, err := unstructured.NestedSlice(all["ClusterRole/"+managerRole], "rules")
	if err != nil || len(rules) == 0 {
		t.Fatalf("%s has no rules (%v)", managerRole, err)
	}
	return rules
}
