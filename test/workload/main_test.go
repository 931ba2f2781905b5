// Package workload tests the manager against a whole control plane: etcd, kube-apiserver, kube-controller-manager,
// kube-scheduler and simulated nodes. Whatever a user sees of an App is checked here: pods are made, turn ready, fail,
// are rolled over and go.
package workload

import (
	"fmt"
	"os"
	"testing"

	"github.com/go-logr/logr"
	ctrl "sigs.k8s.io/controller-runtime"

	"huolala.cn/app-operator/test/harness"
)

// plane is the control plane that all tests share; each has a namespace and a manager of its own.
var plane *harness.Plane

// scratch is a folder for what tests share.
var scratch string

func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) (code int) {
	ctrl.SetLogger(logr.Discard())
	var err error
	if scratch, err = os.MkdirTemp("", "workload-"); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer func() { _ = os.RemoveAll(scratch) }()
	if err = harness.Parallel(20); err == nil {
		plane, err = harness.StartCluster("workload", 3)
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
