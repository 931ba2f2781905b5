// Package integration tests the manager against a real etcd and kube-apiserver, with no other controllers.
package integration

import (
	"errors"
	"flag"
	"fmt"
	"maps"
	"os"
	"sync"
	"testing"

	"github.com/go-logr/logr"
	monitoringv1 "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"huolala.cn/app-operator/test/harness"
)

// plane is the control plane that all tests share; each has a namespace and a manager of its own.
var plane *harness.Plane

// complete is a control plane that serves the kinds as well that a cluster may lack. The first test that needs it starts it.
var complete lazyPlane

// errNotComplete is why the tests after the one that starts the plane have none.
var errNotComplete = errors.New("the test that starts the control plane of all kinds could not define them")

type lazyPlane struct {
	once  sync.Once
	plane *harness.Plane
	err   error
}

// start returns the plane once it serves all kinds.
func (l *lazyPlane) start(t *testing.T) *harness.Plane {
	t.Helper()
	l.once.Do(func() {
		if l.plane, l.err = harness.StartAPIServer(); l.err != nil {
			return
		}
		l.err = errNotComplete // A t.Fatal in Define ends the first test alone; the next ones fail with this error.
		l.plane.Define(t, harness.HTTPRouteDefinition(t))
		l.plane.Define(t, harness.PodMonitorDefinition())
		l.err = nil
	})
	if l.err != nil {
		t.Fatal(l.err)
	}
	for _, list := range []client.ObjectList{&gatewayv1.HTTPRouteList{}, &monitoringv1.PodMonitorList{}} {
		harness.Eventually(t, func() error { return l.plane.Client.List(t.Context(), list, client.InNamespace("default")) })
	}
	return l.plane
}

// stop ends the plane if a test has started it.
func (l *lazyPlane) stop() error {
	if l.plane == nil {
		return nil
	}
	plane.UsedToo(l.plane)
	return l.plane.Stop()
}

func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) (code int) {
	ctrl.SetLogger(logr.Discard())
	err := harness.Parallel(24)
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
	code = m.Run()
	if err := complete.stop(); err != nil {
		fmt.Fprintln(os.Stderr, "stop the control plane that serves all kinds:", err)
		code = 1
	}
	if code == 0 && runsEverything() {
		if err := plane.Unused(allUnrequested()); err != nil {
			fmt.Fprintf(os.Stderr, "the manager's roles (config/rbac, docs/security.md) and what the tests have seen it do differ:\n%v\n", err)
			code = 1
		}
	}
	return code
}

// allUnrequested returns all rights that are needed without a request.
func allUnrequested() map[string]string {
	all := maps.Clone(unrequested)
	maps.Copy(all, unrequestedOptional)
	return all
}

// runsEverything reports whether all tests have run, and not only some that the command line chose.
func runsEverything() bool {
	for _, name := range []string{"test.run", "test.skip", "test.list"} {
		if flag.Lookup(name).Value.String() != "" {
			return false
		}
	}
	return true
}
