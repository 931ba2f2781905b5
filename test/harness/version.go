package harness

import (
	"strconv"
	"strings"
	"testing"

	"k8s.io/client-go/discovery"
)

// Minor returns the minor version of the API server: 30 for Kubernetes 1.30. A test asks for it where older API servers, on which
// make test-versions runs the tests, do something else.
func (p *Plane) Minor(t testing.TB) int {
	t.Helper()
	c, err := discovery.NewDiscoveryClientForConfig(p.Config)
	if err != nil {
		t.Fatal(err)
	}
	version, err := c.ServerVersion()
	if err != nil {
		t.Fatal(err)
	}
	minor, err := strconv.Atoi(strings.TrimSuffix(version.Minor, "+"))
	if err != nil {
		t.Fatalf("the API server has the version %s: %v", version, err)
	}
	return minor
}

// Needs skips the test on API servers before Kubernetes 1.minor, which lack the means by which the test acts.
func (p *Plane) Needs(t testing.TB, minor int, means string) {
	t.Helper()
	if have := p.Minor(t); have < minor {
		t.Skipf("Kubernetes 1.%d has no %s, which API servers have since 1.%d", have, means, minor)
	}
}
