package definitions

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/api/meta"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"

	"huolala.cn/app-operator/internal/children"
)

// childLists match the two lists in hack/delete-resources.sh: the types that each cluster has, and the types that it may lack.
var childLists = []*regexp.Regexp{regexp.MustCompile(`(?m)^children\+?=,?([a-z,]+)$`), regexp.MustCompile(`(?m)^custom_children=\((.+)\)$`)}

// TestUninstallWaitsForAllChildren compares the types in hack/delete-resources.sh, which waits until no object of them is left, with the
// table of the types. Claims are not among them: Kubernetes deletes a claim with its StatefulSet, or retains it.
func TestUninstallWaitsForAllChildren(t *testing.T) {
	script, err := os.ReadFile(filepath.Join(root, "hack/delete-resources.sh"))
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, list := range childLists {
		for _, match := range list.FindAllStringSubmatch(string(script), -1) {
			got = append(got, strings.FieldsFunc(match[1], func(r rune) bool { return r == ',' || r == ' ' })...)
		}
	}
	scheme := clientgoscheme.Scheme
	if err := children.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	want := []string{"replicasets"} // A Deployment has them; the operator does not watch them.
	for i := range children.Types {
		row := &children.Types[i]
		if !row.Role.Has(children.RoleChild | children.RoleJob | children.RolePod) {
			continue
		}
		gvk, err := apiutil.GVKForObject(row.Object, scheme)
		if err != nil {
			t.Fatal(err)
		}
		resource, _ := meta.UnsafeGuessKindToResource(gvk)
		if row.Custom {
			want = append(want, resource.GroupResource().String())
		} else {
			want = append(want, resource.Resource)
		}
	}
	slices.Sort(got)
	slices.Sort(want)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("hack/delete-resources.sh waits for other types than internal/children has (- missing, + too many):\n%s", diff)
	}
}

// childrenOnly is a kubectl of a cluster with an App, its children and what a Deployment without an owner has made. After the deletion, one look
// shows the App's pod alone, whose ReplicaSet is gone; then only what has no owner is left.
const childrenOnly = `#!/usr/bin/env bash
cd "$(dirname "$0")"
case "$*" in
  *'get crd -o jsonpath'*) echo apps.app.huolala.cn ;;
  *'get crd'*) ;;
  *' delete '* | 'delete '*) touch deleted ;;
  *'get apps.app.huolala.cn'*) [ -e deleted ] || echo 'App a/web finalizers: ' ;;
  *)
    if [ ! -e deleted ]; then
      printf '%s\n' 'u1 Deployment a/web app.huolala.cn/v1 u0' 'u2 ReplicaSet a/web-1 apps/v1 u1' 'u3 Pod a/web-1-a apps/v1 u2'
    elif [ ! -e looked ]; then
      touch looked
      echo 'u3 Pod a/web-1-a apps/v1 u2'
    fi
    printf '%s\n' 'k1 Deployment a/orphaned  ' 'k2 ReplicaSet a/orphaned-1 apps/v1 k1' 'k3 Pod a/orphaned-1-a apps/v1 k2' \
      'k4 ReplicaSet a/ejected-1 apps/v1 k0' 'k5 Job a/of-another batch/v1 k6' 'k7 Secret a/retained  '
    ;;
esac
`

// TestUninstallWaitsForChildrenAlone checks whom hack/delete-resources.sh waits for: objects whose controller is a resource of the operator, and what
// these objects have made, also once they are gone. A Deployment without an owner, which was orphaned or ejected, keeps running, with ReplicaSets
// and pods that have the operator's label.
func TestUninstallWaitsForChildrenAlone(t *testing.T) {
	t.Parallel()
	kubectl := filepath.Join(t.TempDir(), "kubectl")
	if err := os.WriteFile(kubectl, []byte(childrenOnly), 0o700); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(filepath.Join(folder(t, copies(t, "hack/delete-resources.sh")), "hack/delete-resources.sh"))
	cmd.Env = append(os.Environ(), "KUBECTL="+kubectl, "NAMESPACE=", "TIMEOUT=10")
	out, err := cmd.CombinedOutput()
	const want = "1 resources and 3 child objects are left\n0 resources and 1 child objects are left\n0 resources and 0 child objects are left\n"
	if err != nil || string(out) != want {
		t.Errorf("%v, want\n%sgot\n%s", err, want, out)
	}
}

// TestUnitTestsNeedNoKubernetes checks that make test builds Kubernetes only for packages that may need it.
func TestUnitTestsNeedNoKubernetes(t *testing.T) {
	const build = "hack/cluster/build.sh"
	for args, want := range map[string]bool{
		"test-unit":                        false,
		"test PKG=./internal/waves":        false,
		"test PKG=./internal/...":          false,
		"test PKG=./resource":              false,
		"test PKG=./test/definitions":      false,
		"test PKG=./test/integration":      true,
		"test PKG=./test/...":              true,
		"test-operator PKG=./...":          true,
		"test-operator PKG=./test/unknown": true,
	} {
		out, err := makes(t, strings.Fields(args)...)
		if err != nil {
			t.Fatalf("make %s: %v: %s", args, err, out)
		}
		if !strings.Contains(out, "go test") {
			t.Errorf("make %s runs no test:\n%s", args, out)
		}
		if got := strings.Contains(out, build); got != want {
			t.Errorf("make %s calls %s: %t, want %t", args, build, got, want)
		}
	}
}
