// Package integration tests the manager against a real etcd and kube-apiserver, with no other controllers.
package integration

import (
	"flag"
	"fmt"
	"os"
	"testing"

	"github.com/go-logr/logr"
	ctrl "sigs.k8s.io/controller-runtime"

	"huolala.cn/app-operator/test/harness"
)

// parallel is how many tests run at once, unless the command line says otherwise. They mostly wait for a manager to have
// nothing to do, so the number of processors says nothing.
const parallel = "12"

// plane is the control plane that all tests share; each has a namespace and a manager of its own.
var plane *harness.Plane

func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) (code int) {
	ctrl.SetLogger(logr.Discard())
	err := flag.Set("test.parallel", parallel)
	if err == nil {
		plane, err = harness.StartAPIServer()
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
	if code = m.Run(); code == 0 && everything() {
		if err := plane.Unused(unrequested); err != nil {
			fmt.Fprintf(os.Stderr, "the manager's roles (config/rbac, docs/security.md) and what the tests have seen it do differ:\n%v\n", err)
			code = 1
		}
	}
	return code
}

// everything reports whether all tests have run, and not only some that the command line chose.
func everything() bool {
	for _, name := range []string{"test.run", "test.skip", "test.list"} {
		if flag.Lookup(name).Value.String() != "" {
			return false
		}
	}
	return true
}
