// Package observability tests what the operator is looked at with: the metrics of a running manager, the alerts and the dashboards.
// What needs no manager is tested in hack/observability; promtool tests the alerts, by way of make observability.
package observability

import (
	"fmt"
	"os"
	"testing"

	"github.com/go-logr/logr"
	ctrl "sigs.k8s.io/controller-runtime"

	"huolala.cn/app-operator/test/harness"
)

// plane is the control plane that the tests share.
var plane *harness.Plane

func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) (code int) {
	ctrl.SetLogger(logr.Discard())
	var err error
	if plane, err = harness.StartAPIServer(); err != nil {
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
