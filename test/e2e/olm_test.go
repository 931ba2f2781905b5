//go:build e2e

package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// deprecated is all that the validator called operatorhub says of a bundle that is in order. Its successors are in the suite.
const deprecated = `Warning: Value : The "operatorhub" validator is deprecated; for equivalent validation use "operatorhub/v2", ` +
	`"standardcapabilities" and "standardcategories" validators`

// validate has operator-sdk look at the bundles, in the tree and as images. Of several selectors it would heed the last.
func validate(t *testing.T) {
	older, latest := versions(t)
	for _, bundle := range [][]string{
		{"bundle"}, {filepath.Join(work, older, "bundle")}, {filepath.Join(work, latest, "bundle")},
		{image("-bundle:" + older), "-b", "none"}, {image("-bundle:" + latest), "-b", "none"},
	} {
		for _, selector := range []string{"suite=operatorframework", "name=operatorhub"} {
			args := append([]string{"bundle", "validate", "--output=json-alpha1", "--select-optional", selector}, bundle...)
			out := sdk(t, args...)
			var verdict struct {
				Passed  bool
				Outputs []struct{ Message string }
			}
			err := json.Unmarshal([]byte(out), &verdict)
			if err == nil && selector == "name=operatorhub" && len(verdict.Outputs) == 1 && verdict.Outputs[0].Message == deprecated {
				verdict.Outputs = nil
			}
			if err != nil || !verdict.Passed || len(verdict.Outputs) > 0 {
				t.Errorf("operator-sdk %s (%v): %s", strings.Join(args, " "), err, out)
			}
		}
		t.Logf("no validator has an error or a warning about %s", bundle[0])
	}
}

// runBundle installs a bundle.
func runBundle(t testing.TB, what, version string, args ...string) {
	t.Helper()
	sdk(t, append([]string{"run", what, image("-bundle:" + version), "-n", system, "--security-context-config", "restricted",
		"--timeout", patience.String()}, args...)...)
	installed(t, version)
}

// installed waits until OLM has done with a version, and its manager runs. OLM says the one before the other.
func installed(t testing.TB, version string) {
	t.Helper()
	csv := "app-operator." + version
	becomes(t, csv, "get", "subscriptions.operators.coreos.com", "-n", system, "-o", "jsonpath={.items[*].status.installedCSV}")
	becomes(t, "Succeeded", "get", "csv", "-n", system, csv, "-o", "jsonpath={.status.phase}")
	kubectl(t, "rollout", "status", "-n", system, "deployment/app-operator-controller-manager", "--timeout="+patience.String())
}

// cleanup removes what runBundle made, and waits until it is gone.
func cleanup(t testing.TB) {
	t.Helper()
	// While there are definitions: the garbage collector may not look at the children of a kind without one.
	command(t, "make", "delete-resources")
	sdk(t, "cleanup", "app-operator", "-n", system, "--timeout", patience.String())
	becomes(t, "", "get", "csv,subscriptions.operators.coreos.com,deployments", "-n", system, "-o", "name")
	eventually(t, func(ctx context.Context) error {
		out, err := execute(ctx, "", "kubectl", "get", "crd", "-o", "name")
		if err == nil && strings.Contains(out, ".app.huolala.cn\n") {
			err = fmt.Errorf("there are definitions still: %s", out)
		}
		return err
	})
}

// definitions are removed at the end of a test that may have left them; OLM does not.
func definitions(t testing.TB) {
	t.Helper()
	t.Cleanup(func() {
		if _, err := execute(context.WithoutCancel(t.Context()), "", "make", "uninstall"); err != nil {
			t.Error(err)
		}
	})
}

// bundled is the second way: operator-sdk run bundle, run bundle-upgrade, cleanup.
func bundled(t *testing.T) {
	older, latest := versions(t)
	namespace(t, system) // Not a restricted one: the pod by which operator-sdk serves a bundle is not, whatever its flag says.
	definitions(t)
	runBundle(t, "bundle", older)
	samples(t)
	startClient(t)
	answers(t)
	unnoticed(t, func() { runBundle(t, "bundle-upgrade", latest) })
	renders(t)
	refuses(t, shop)
	cleanup(t)
	retained(t)
}

// modes installs the bundle once in each of the modes: an App in a namespace that is watched becomes Ready, and one that
// was there before it in a namespace that is not stays as it is.
func modes(t *testing.T) {
	const staff, elsewhere = "e2e-staff", "e2e-elsewhere"
	_, latest := versions(t)
	namespace(t, shop)
	namespace(t, staff)
	namespace(t, elsewhere)
	for _, mode := range []struct {
		flag    string
		watched []string
		not     []string
	}{
		{"OwnNamespace", []string{system}, []string{shop}},
		{"SingleNamespace=" + shop, []string{shop}, []string{system, staff}},
		{"MultiNamespace=" + shop + "," + staff, []string{shop, staff}, []string{system, elsewhere}},
		{"AllNamespaces", []string{system, shop, staff, elsewhere}, nil},
	} {
		t.Run(mode.flag, func(t *testing.T) {
			namespace(t, system)
			definitions(t)
			runBundle(t, "bundle", latest, "--install-mode", mode.flag)
			for _, ns := range append(mode.not, mode.watched...) {
				// No pods: a container of nginx is none that a restricted namespace takes.
				apply(t, "apiVersion: app.huolala.cn/v1\nkind: App\nmetadata: {name: mode}\nspec: {replicas: 0, image: 'nginx:1.16.1'}\n", "-n", ns)
			}
			for _, ns := range mode.watched {
				ready(t, ns, "app.app.huolala.cn/mode")
				refuses(t, ns)
			}
			for _, ns := range mode.watched {
				eventually(t, func(ctx context.Context) error { return may(ctx, ns, "yes") })
			}
			for _, ns := range mode.not {
				// OLM creates the Roles of the bundle in the namespace of the operator, too.
				if ns != system {
					eventually(t, func(ctx context.Context) error { return may(ctx, ns, "no") })
				}
				// The definition has a default for status.observedGeneration. Conditions are the operator's alone.
				becomes(t, "", "get", "-n", ns, "app.app.huolala.cn/mode", "-o", "jsonpath={.status.conditions}")
			}
			cleanup(t)
		})
	}
}

// may checks whether the manager is allowed to change Deployments in a namespace: the answer of kubectl is yes or no, and its exit code follows it.
func may(ctx context.Context, ns, want string) error {
	account := "system:serviceaccount:" + system + ":app-operator-controller-manager"
	out, err := execute(ctx, "", "kubectl", "auth", "can-i", "patch", "deployments.apps", "-n", ns, "--as="+account)
	if strings.TrimSpace(out) != want {
		return fmt.Errorf("may the manager change Deployments in %s: %q, want %q (%w)", ns, out, want, err)
	}
	return nil
}

// subscribed is the third way: a catalog and a subscription, as config/olm has them, and an upgrade through the channel.
func subscribed(t *testing.T) {
	older, latest := versions(t)
	definitions(t)
	namespace(t, system)
	// Where the upgrade would else come before anyone can look.
	catalog := replaced(t, "config/olm/catalogsource.yaml", published, image(""))
	subscription := replaced(t, "config/olm/subscription.yaml", "installPlanApproval: Automatic",
		"installPlanApproval: Manual\n  startingCSV: app-operator."+older)
	apply(t, catalog)
	t.Cleanup(func() {
		if _, err := execute(context.WithoutCancel(t.Context()), catalog, "kubectl", "delete", "-f", "-"); err != nil {
			t.Error(err)
		}
	})
	apply(t, subscription)
	approve(t, older)
	samples(t)
	startClient(t)
	unnoticed(t, func() { approve(t, latest) })
	renders(t)
	refuses(t, shop)
	// As docs/install.md says: what runs goes on, and anyone who installs it again finds it so.
	before := pods(t)
	kubectl(t, "delete", "-n", system, "subscription.operators.coreos.com/app-operator", "csv/app-operator."+latest)
	becomes(t, "", "get", "deployments", "-n", system, "-o", "name")
	if after := pods(t); strings.Join(after, "\n") != strings.Join(before, "\n") {
		t.Errorf("uninstalling changed pods:\n%s\nbefore:\n%s", strings.Join(after, "\n"), strings.Join(before, "\n"))
	}
	apply(t, subscription)
	approve(t, older)
	kubectl(t, "delete", "-n", shop, resources[0], resources[1], resources[2], resources[3])
	retained(t)
}

// approve lets OLM install a version, once it offers to.
func approve(t testing.TB, version string) {
	t.Helper()
	csv := "app-operator." + version
	eventually(t, func(ctx context.Context) error {
		plan, err := execute(ctx, "", "kubectl", "get", "installplans", "-n", system, "-o",
			`jsonpath={range .items[?(@.spec.approved==false)]}{.metadata.name} {.spec.clusterServiceVersionNames[*]}{"\n"}{end}`)
		if err != nil {
			return err
		}
		name, names, _ := strings.Cut(strings.TrimSpace(plan), " ")
		if names != csv {
			return fmt.Errorf("the plans that wait are %q, want one for %s", plan, csv)
		}
		_, err = execute(ctx, "", "kubectl", "patch", "installplan", "-n", system, name, "--type=merge", "-p", `{"spec": {"approved": true}}`)
		return err
	})
	installed(t, version)
}

// scorer may do what the scorecard's stage of our own does.
const scorer = `
apiVersion: v1
kind: ServiceAccount
metadata: {name: scorecard}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: scorecard}
rules:
- {apiGroups: [app.huolala.cn], resources: [apps], verbs: [create, get, delete]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: scorecard}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: scorecard}
subjects: [{kind: ServiceAccount, name: scorecard, namespace: e2e-shop}]
`

// scorecard runs the bundle's scorecard, its six tests and the stage of our own, in pods.
func scorecard(t *testing.T) {
	_, latest := versions(t)
	undeploy(t)
	deploy(t, latest)
	namespace(t, shop)
	apply(t, scorer, "-n", shop)
	args := append([]string{"scorecard", filepath.Join(work, latest, "bundle"), "-n", shop, "--service-account", "scorecard",
		"--pod-security", "restricted", "--wait-time", "180s", "-o", "json"}, strings.Fields(os.Getenv("SCORECARD_FLAGS"))...)
	out := sdk(t, args...)
	var list struct {
		Items []struct {
			Status struct {
				Results []struct {
					Name, State string
					Errors      []string
				}
			}
		}
	}
	if err := json.Unmarshal([]byte(out), &list); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	passed := 0
	for _, item := range list.Items {
		for _, r := range item.Status.Results {
			t.Logf("%s: %s %v", r.Name, r.State, r.Errors)
			if r.State == "pass" {
				passed++
			}
		}
	}
	if passed != 7 || len(list.Items) != 7 {
		t.Errorf("%d of %d tests passed, want 7 of 7", passed, len(list.Items))
	}
}
