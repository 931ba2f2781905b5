package workload

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appv1 "huolala.cn/app-operator/api/v1"
	"huolala.cn/app-operator/internal/children"
	"huolala.cn/app-operator/test/harness"
)

// TestUninstall removes the operator's resources and then the definitions, as `make uninstall` does, and looks at once for
// what is left: nothing with an owner, and of the samples only the data that is to be retained. What lost its owner before keeps running,
// and is not waited for. UNINSTALL_ROUNDS repeats it.
// It has a cluster of its own, as it deletes what is in any namespace.
func TestUninstall(t *testing.T) {
	t.Parallel()
	rounds := 1
	if n, err := strconv.Atoi(os.Getenv("UNINSTALL_ROUNDS")); err == nil {
		rounds = n
	}
	own, err := harness.StartCluster("uninstall", 1)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := own.Stop(); err != nil {
			t.Error(err)
		}
	})
	k := newKubectlOf(t, own, "default")
	for round := range rounds {
		k.run("apply", "--server-side", "-f", "config/crd/bases")
		k.run("wait", "--for=condition=Established", "-f", "config/crd/bases")
		m := own.Start(t, "")
		k.run("apply", "-f", "config/samples/example-deployment.yaml")
		k.run("apply", "-k", "config/samples")
		for _, resource := range []string{"app", "modelbox", "uniteddeployment", "cloudmanager"} {
			k.run("wait", "--for=condition=Ready", "--timeout="+harness.Patience.String(), "-f", "config/samples/app_v1_"+resource+".yaml")
		}
		k.run("wait", "--for=create", "--timeout="+harness.Patience.String(), "cronjob/nginx-report")
		keepWithout(t, own, k)

		out, err := deleteResources(t, own, strconv.Itoa(int(harness.Patience.Seconds())))
		if err != nil {
			t.Fatalf("round %d: %v\n%s", round, err, out)
		}
		t.Logf("round %d:\n%s", round, out)
		for _, name := range withoutOwner {
			k.run("wait", "--for=condition=Available", "--timeout="+harness.Patience.String(), "deployment/"+name)
			k.run("delete", "--cascade=foreground", "deployment/"+name, "service/"+name)
		}
		k.run("delete", "-f", "config/crd/bases")
		m.Stop(t)
		for _, obj := range owned(t, own) {
			t.Errorf("round %d: %T %s is left of %s", round, obj, obj.GetName(), obj.GetOwnerReferences()[0].Kind)
		}
	}
	var definitions apiextensionsv1.CustomResourceDefinitionList
	if err := own.Client.List(t.Context(), &definitions); err != nil || len(definitions.Items) > 0 {
		t.Errorf("%d definitions are left (%v)", len(definitions.Items), err)
	}
	if out, err := deleteResources(t, own, "1"); err != nil || !strings.Contains(out, "nothing to delete") {
		t.Errorf("without definitions: %v\n%s", err, out)
	}
}

// withoutOwner are the names of the Deployments of keepWithout.
var withoutOwner = []string{"orphaned", "ejected"}

// keepWithout creates Apps and deletes them without their children: as `kubectl delete --cascade=orphan` does, and as `kubectl happ eject
// --delete` does, which then removes the operator's label from the Deployment. The ReplicaSets and the pods keep the label.
func keepWithout(t *testing.T, p *harness.Plane, k *kubectl) {
	t.Helper()
	for _, name := range withoutOwner {
		app := newApp("default")
		app.Name = name
		p.Create(t, app)
		k.run("wait", "--for=condition=Ready", "--timeout="+harness.Patience.String(), "app/"+name)
		k.run("delete", "--cascade=orphan", "app/"+name)
	}
	k.run("label", "deployment/ejected", appv1.LabelManagedBy+"-")
}

// TestUninstallNamesWhatIsLeft lets a resource have a finalizer of a program that does not run: the deletion ends at its time
// limit, with the name of the resource and the finalizer, and leaves the resources of other namespaces alone.
func TestUninstallNamesWhatIsLeft(t *testing.T) {
	t.Parallel()
	ns, other := plane.Namespace(t), plane.Namespace(t)
	blocked, free, kept := newApp(ns), newApp(ns), newApp(other)
	blocked.Name, blocked.Finalizers, free.Name = "blocked", []string{"example.com/audit"}, "free"
	plane.Create(t, blocked, free, kept)
	out, err := deleteResources(t, plane, "5", "NAMESPACE="+ns)
	var exit *exec.ExitError
	if !errors.As(err, &exit) || exit.ExitCode() != 1 {
		t.Fatalf("%v\n%s", err, out)
	}
	for _, words := range []string{"App " + ns + "/blocked", "example.com/audit", "TIMEOUT="} {
		if !strings.Contains(out, words) {
			t.Errorf("%q is not in:\n%s", words, out)
		}
	}
	plane.Gone(t, free)
	plane.Read(t, kept)
	if kept.DeletionTimestamp != nil {
		t.Error("an App of another namespace is being deleted")
	}
	plane.Change(t, blocked, func() { blocked.Finalizers = nil })
	plane.Gone(t, blocked)
}

// deleteResources runs what `make uninstall` runs before it removes the definitions.
func deleteResources(t *testing.T, p *harness.Plane, seconds string, env ...string) (string, error) {
	t.Helper()
	if err := harness.ReadInputs("hack/delete-resources.sh"); err != nil {
		t.Fatal(err)
	}
	k := newKubectlOf(t, p, "default")
	cmd := exec.CommandContext(t.Context(), filepath.Join(harness.Root(), "hack/delete-resources.sh"))
	cmd.Env = append(os.Environ(), append(env, "TIMEOUT="+seconds,
		"KUBECTL="+strings.Join(append([]string{k.binary()}, k.args[:4]...), " "))...)
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// owned returns the objects that have an owner of the operator's kinds, and the pods that are left of them.
func owned(t *testing.T, p *harness.Plane) []client.Object {
	t.Helper()
	var left []client.Object
	for i := range children.Types {
		row := &children.Types[i]
		if row.Custom {
			continue // The cluster does not have it.
		}
		list := &metav1.PartialObjectMetadataList{}
		gvk, err := p.Client.GroupVersionKindFor(row.Object)
		if err != nil {
			t.Fatal(err)
		}
		gvk.Kind += "List"
		list.SetGroupVersionKind(gvk)
		if err := p.Client.List(t.Context(), list, client.MatchingLabels{appv1.LabelManagedBy: appv1.ManagedBy}); err != nil {
			t.Fatal(fmt.Errorf("list %s: %w", gvk.Kind, err))
		}
		for j := range list.Items {
			if _, pod := row.Object.(*corev1.Pod); pod || len(list.Items[j].OwnerReferences) > 0 && row.Role.Has(children.RoleChild|children.RoleJob) {
				left = append(left, &list.Items[j])
			}
		}
	}
	return left
}
