package workload

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"huolala.cn/app-operator/test/harness"
)

// TestInstall applies what `make deploy` applies: once, again, with components, and without them again. Each time there is
// no conflict, and afterwards nothing left to apply. The manager's pods are such as their namespace allows. It is not
// parallel: another test applies the definitions in another way.
func TestInstall(t *testing.T) {
	readConfig(t)
	k := newKubectl(t, "")
	meta := func(name string) metav1.ObjectMeta {
		return metav1.ObjectMeta{Namespace: harness.SystemNamespace, Name: name}
	}
	d := &appsv1.Deployment{ObjectMeta: meta("app-operator-controller-manager")}
	policy := &networkingv1.NetworkPolicy{ObjectMeta: d.ObjectMeta}
	binding := &rbacv1.RoleBinding{ObjectMeta: meta("app-operator-namespaced-manager-rolebinding")}
	budget := &policyv1.PodDisruptionBudget{ObjectMeta: d.ObjectMeta}
	defer func() {
		for _, obj := range []client.Object{d, budget, policy, binding} {
			plane.Delete(t, obj)
		}
	}()

	// With force, once: the test's own control plane has some of the objects already.
	plain, restricted := render(t, k, nil), render(t, k, []string{"network-policy", "namespaced"})
	deploy(t, k, plain, "--force-conflicts")
	deploy(t, k, plain)
	plane.Until(t, d, func() error {
		if d.Status.AvailableReplicas != 2 {
			return fmt.Errorf("%d pods are available: %v", d.Status.AvailableReplicas, d.Status.Conditions)
		}
		return nil
	})
	watched(t, d, &corev1.EnvVar{Name: "WATCH_NAMESPACE"})

	deploy(t, k, restricted)
	plane.Read(t, policy)
	plane.Read(t, binding)
	watched(t, d, &corev1.EnvVar{Name: "WATCH_NAMESPACE", ValueFrom: &corev1.EnvVarSource{
		FieldRef: &corev1.ObjectFieldSelector{APIVersion: "v1", FieldPath: "metadata.namespace"},
	}})
	deploy(t, k, plain)
	watched(t, d, &corev1.EnvVar{Name: "WATCH_NAMESPACE"})
}

// TestAdditionalInstance applies an additional operator next to the first, as docs/scale.md has it: neither changes what is the
// other's, and the additional one may work in its own namespaces alone. It is not parallel, as TestInstall is not.
func TestAdditionalInstance(t *testing.T) {
	readConfig(t)
	k := newKubectl(t, "")
	const namespace, account = "app-operator-east", "system:serviceaccount:app-operator-east:app-operator-controller-manager-east"
	defer plane.Delete(t, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}})

	first := render(t, k, []string{"namespaced"})
	additional := render(t, k, []string{"namespaced", "additional-instance"}, "namespace: "+namespace, "nameSuffix: -east")
	for _, shared := range []string{"kind: CustomResourceDefinition", "-viewer-role", "metrics-reader", "namespace: " + harness.SystemNamespace} {
		if strings.Contains(additional, shared) {
			t.Errorf("an additional operator brings %s", shared)
		}
	}
	deploy(t, k, first, "--force-conflicts")
	deploy(t, k, additional)
	deploy(t, k, first)
	deploy(t, k, additional)
	for _, c := range []struct {
		where string
		want  bool
	}{{namespace, true}, {harness.SystemNamespace, false}} { // The roles are in force once the first is true.
		plane.AwaitAccess(t, account, &authorizationv1.ResourceAttributes{Namespace: c.where, Verb: "patch", Group: "apps", Resource: "deployments"}, c.want)
	}
}

// TestViewerOfTeam applies the overlay of docs/ui.md: a viewer of one namespace, which may read there, and nowhere else. It may change nothing. Once its
// ConfigMap and its Secret are there, its pod runs.
func TestViewerOfTeam(t *testing.T) {
	t.Parallel()
	readConfig(t)
	k, ns := newKubectl(t, ""), plane.Namespace(t)
	page, err := os.ReadFile(filepath.Join(harness.Root(), "docs/ui.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, overlay, found := strings.Cut(string(page), "```yaml\n# kustomization.yaml")
	overlay, _, closed := strings.Cut(overlay, "```")
	if !found || !closed {
		t.Fatal("docs/ui.md shows no overlay")
	}
	folder := t.TempDir()
	up, err := filepath.Rel(folder, filepath.Join(harness.Root(), "config"))
	overlay = strings.NewReplacer("../../config", up, "namespace: shop", "namespace: "+ns, "--namespace=shop", "--namespace="+ns).Replace("#" + overlay)
	if err := errors.Join(err, os.WriteFile(filepath.Join(folder, "kustomization.yaml"), []byte(overlay), 0o600)); err != nil {
		t.Fatal(err)
	}
	built := k.run("kustomize", folder)
	for _, wrong := range []string{"kind: ClusterRoleBinding", "--all-namespaces", "namespace: " + harness.SystemNamespace, "controller:latest"} {
		if strings.Contains(built, wrong) {
			t.Errorf("the overlay has %q", wrong)
		}
	}
	deploy(t, k, built)
	defer plane.Delete(t, &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: viewerName}})
	meta := metav1.ObjectMeta{Namespace: ns, Name: viewerName}
	plane.Create(t, &corev1.ConfigMap{ObjectMeta: meta, Data: map[string]string{"hosts": "apps.example.com"}},
		&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: viewerName + "-proxy"}, StringData: map[string]string{"OAUTH2_PROXY_PROVIDER": "oidc"}})
	d := &appsv1.Deployment{ObjectMeta: meta}
	plane.Until(t, d, func() error {
		if d.Status.AvailableReplicas != 1 {
			return fmt.Errorf("%d pods are available: %v", d.Status.AvailableReplicas, d.Status.Conditions)
		}
		return nil
	})
	for _, c := range []struct {
		namespace, verb, group, resource string
		want                             bool
	}{
		{ns, "list", "app.huolala.cn", "apps", true},
		{ns, "watch", "", "pods", true},
		{harness.SystemNamespace, "list", "app.huolala.cn", "apps", false},
		{"", "list", "app.huolala.cn", "apps", false},
		{ns, "patch", "app.huolala.cn", "apps", false},
		{ns, "create", "", "pods", false},
		{ns, "delete", "apps", "deployments", false},
		{ns, "get", "", "secrets", false},
		{ns, "list", "", "secrets", false},
		{ns, "get", "", "configmaps", false},
	} {
		plane.AwaitAccess(t, "system:serviceaccount:"+ns+":"+viewerName, &authorizationv1.ResourceAttributes{
			Namespace: c.namespace, Verb: c.verb, Group: c.group, Resource: c.resource,
		}, c.want)
	}
}

// readConfig reads what kubectl is about to read, so that Go knows what a cached result depends on.
func readConfig(t *testing.T) {
	t.Helper()
	err := filepath.WalkDir(filepath.Join(harness.Root(), "config"), func(path string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			_, err = os.ReadFile(path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// deploy applies what was rendered, and checks that nothing is left to apply.
func deploy(t *testing.T, k *kubectl, rendered string, flags ...string) {
	t.Helper()
	all := filepath.Join(t.TempDir(), "all.yaml")
	if err := os.WriteFile(all, []byte(rendered), 0o600); err != nil {
		t.Fatal(err)
	}
	args := []string{"--server-side", "--field-manager=app-operator-deploy", "-f", all}
	k.run(append(append([]string{"apply"}, flags...), args...)...)
	harness.Eventually(t, func() error { // The status may change between the two requests of a comparison.
		_, different := k.try(append([]string{"diff"}, args...)...)
		return different
	})
}

// render is config/default with components on top, as YAML. more are lines of the overlay.
func render(t *testing.T, k *kubectl, components []string, more ...string) string {
	t.Helper()
	folder := t.TempDir()
	up, err := filepath.Rel(folder, filepath.Join(harness.Root(), "config"))
	lines := slices.Concat(more, []string{"resources:", "- " + filepath.Join(up, "default"), "components:"})
	for _, component := range components {
		lines = append(lines, "- "+filepath.Join(up, "components", component))
	}
	overlay := filepath.Join(folder, "kustomization.yaml")
	if err := errors.Join(err, os.WriteFile(overlay, []byte(strings.Join(lines, "\n")+"\n"), 0o600)); err != nil {
		t.Fatal(err)
	}
	return k.run("kustomize", folder)
}

// watched checks which namespaces the manager is told to watch.
func watched(t *testing.T, d *appsv1.Deployment, want *corev1.EnvVar) {
	t.Helper()
	plane.Read(t, d)
	var got []corev1.EnvVar
	for _, env := range d.Spec.Template.Spec.Containers[0].Env {
		if env.Name == want.Name {
			got = append(got, env)
		}
	}
	if len(got) != 1 || got[0].String() != want.String() {
		t.Errorf("the manager has %v, want %v", got, want)
	}
}
