//go:build gateway

// Package gateway sends requests from outside the cluster through a real proxy, Traefik, to what Apps and ModelBoxes make: Ingresses and
// HTTPRoutes. `make test-gateway` runs it. Pods are simulated: in a network of the test's own, all their addresses are this machine's, and
// one server answers at each of them with the address that it was asked at. TRAEFIK is the path of the proxy's program.
package gateway

import (
	"fmt"
	"os"
	"testing"

	"github.com/go-logr/logr"
	ctrl "sigs.k8s.io/controller-runtime"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"huolala.cn/app-operator/test/harness"
)

// plane is the control plane that all tests share.
var plane *harness.Plane

func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) (code int) {
	ctrl.SetLogger(logr.Discard())
	if os.Getenv("TRAEFIK") == "" {
		fmt.Fprintln(os.Stderr, "TRAEFIK is not set; run the tests by: make test-gateway")
		return 1
	}
	pods, err := servePods()
	if err != nil {
		fmt.Fprintln(os.Stderr, "answer for the pods:", err)
		return 1
	}
	defer func() { _ = pods.Close() }()
	if plane, err = harness.StartCluster("gateway", 2); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer func() {
		if err := plane.Stop(); err != nil {
			fmt.Fprintln(os.Stderr, "stop the control plane:", err)
			code = 1
		}
	}()
	if err := gatewayv1.Install(plane.Client.Scheme()); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return m.Run()
}
