//go:build e2e

package e2e

import (
	"context"
	"slices"
	"testing"
)

// chart is where the chart of a version is written to.
func chart(version string) string { return work + "/chart-" + version + "/app-operator" }

// helm installs or upgrades to the chart of a version.
func helm(t testing.TB, do, version string, flags ...string) {
	t.Helper()
	command(t, "make", "chart", "CHART="+chart(version), "VERSION="+version[1:], "IMG="+pinned(t, version))
	args := append([]string{do, "app-operator", chart(version), "-n", system, "--wait", "--timeout", patience.String()}, flags...)
	command(t, "bin/helm", args...)
}

// charted is the chart: installed, upgraded to the next version with another value, uninstalled while the applications run on, installed
// again, and removed with all resources.
func charted(t *testing.T) {
	older, latest := versions(t)
	before, err := inventory(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Run("installed", func(t *testing.T) {
		namespace(t, system)
		kubectl(t, "label", "namespace", system, "pod-security.kubernetes.io/enforce=restricted")
		t.Cleanup(func() {
			ctx := context.WithoutCancel(t.Context())
			for _, remove := range [][]string{{"make", "uninstall"}, {"bin/helm", "uninstall", "app-operator", "-n", system, "--ignore-not-found", "--wait"}} {
				if _, err := execute(ctx, "", remove[0], remove[1:]...); err != nil {
					t.Error(err)
				}
			}
		})
		helm(t, "install", older)
		samples(t)
		startClient(t)
		answers(t)
		unnoticed(t, func() { helm(t, "upgrade", latest, "--reset-values", "--set", "networkPolicy=true") })
		becomes(t, "networkpolicy.networking.k8s.io/app-operator-controller-manager\n", "get", "networkpolicies", "-n", system, "-o", "name")
		renders(t)
		refuses(t, shop)
		answers(t)
		was := pods(t)
		command(t, "bin/helm", "uninstall", "app-operator", "-n", system, "--wait")
		answers(t)
		helm(t, "install", latest)
		ready(t, shop, resources...)
		if now := pods(t); !slices.Equal(was, now) {
			t.Errorf("uninstalling and installing changed pods:\n%v\nbefore:\n%v", now, was)
		}
		command(t, "make", "delete-resources")
		retained(t)
	})
	nothingLeft(t, before)
}
