//go:build e2e

// Package e2e proves what is delivered, on a cluster with real nodes: the images, the ways to install, and that
// nobody notices an upgrade. `make e2e` runs it. It takes
//
//	KUBECONFIG          of a cluster on which the operator is not installed, for a cluster administrator
//	E2E_REGISTRY        where images are pushed to, such as localhost:5001/me; the cluster's nodes pull from there
//	CONTAINER_TOOL      docker, podman or buildah, with BUILD_FLAGS and PUSH_FLAGS
//	SCORECARD_FLAGS     further flags for operator-sdk scorecard, such as the images of its own that it is to use
//
// kubectl is found by PATH. The parts with OLM need OLM on the cluster (operator-sdk olm install). The part features builds oauth2-proxy from
// its Go module, and pushes the image to E2E_REGISTRY. Each part removes what it has installed; RUN=Delivery/deploy runs one part, with the images
// that an earlier run pushed.
package e2e

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"
)

// registry is where the images are, without a slash at its end.
var registry = strings.TrimSuffix(os.Getenv("E2E_REGISTRY"), "/")

func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) int {
	// Not the cluster that kubectl happens to know: the test removes the definitions, and all resources with them.
	for _, name := range []string{"KUBECONFIG", "E2E_REGISTRY"} {
		if os.Getenv(name) == "" {
			fmt.Fprintf(os.Stderr, "%s is not set; the head of test/e2e/main_test.go tells what it is\n", name)
			return 1
		}
	}
	return m.Run()
}

// TestDelivery runs the parts one after the other: definitions are of the whole cluster.
func TestDelivery(t *testing.T) {
	fresh(t)
	parts := []struct {
		name string
		run  func(t *testing.T)
	}{
		{"images", images}, {"deploy", deployed}, {"chart", charted}, {"removal", removed}, {"failover", failover}, {"features", features}, {"validate", validate}, {"bundle", bundled},
		{"modes", modes}, {"subscription", subscribed}, {"scorecard", scorecard},
	}
	var times []string
	for _, p := range parts {
		began, ran := time.Now(), false
		ok := t.Run(p.name, func(t *testing.T) {
			ran = true
			p.run(t)
		})
		if ran {
			verdict := map[bool]string{true: "ok", false: "FAILED"}[ok]
			times = append(times, fmt.Sprintf("%-14s %-6s %5.0fs", p.name, verdict, time.Since(began).Seconds()))
		}
		if !ok && p.name == "images" {
			break // Nothing else can work.
		}
	}
	t.Logf("the parts and their times:\n%s", strings.Join(times, "\n"))
}

// fresh refuses a cluster on which the operator is in use.
func fresh(t *testing.T) {
	t.Helper()
	found := strings.Fields(kubectl(t, "get", "crd", "-o", "name"))
	found = slices.DeleteFunc(found, func(name string) bool { return !strings.HasSuffix(name, ".app.huolala.cn") })
	if len(found) > 0 {
		t.Fatalf("the cluster has %s already, and this test would delete them with all resources", strings.Join(found, ", "))
	}
}
