//go:build e2e

package e2e

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
)

const (
	root = "../.."
	// system is the operator's namespace.
	system = "app-operator-system"
	// patience is how long anything may take on a slow machine that pulls images.
	patience = 4 * time.Minute
)

// execute runs a program at the root of the tree, and returns its output. Its error says what it wrote to standard error.
func execute(ctx context.Context, stdin string, name string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir, cmd.Stdin = root, strings.NewReader(stdin)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Run(); err != nil {
		return out.String(), fmt.Errorf("%s %s: %w\n%s%s", name, strings.Join(args, " "), err, tail(out.String()), tail(errs.String()))
	}
	return out.String(), nil
}

// tail is the end of an output.
func tail(text string) string {
	lines := strings.SplitAfter(text, "\n")
	return strings.Join(lines[max(0, len(lines)-40):], "")
}

// command runs a program that has to succeed.
func command(t testing.TB, name string, args ...string) string {
	t.Helper()
	out, err := execute(t.Context(), "", name, args...)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func kubectl(t testing.TB, args ...string) string {
	t.Helper()
	return command(t, "kubectl", args...)
}

// apply applies manifests.
func apply(t testing.TB, manifests string, args ...string) {
	t.Helper()
	if _, err := execute(t.Context(), manifests, "kubectl", append([]string{"apply", "-f", "-"}, args...)...); err != nil {
		t.Fatal(err)
	}
}

func sdk(t testing.TB, args ...string) string {
	t.Helper()
	return command(t, "bin/operator-sdk", args...)
}

// image is the name of an image of ours, such as "-bundle:v0.2.0" for the bundle's.
func image(suffix string) string { return registry + "/app-operator" + suffix }

// namespace makes a namespace, and deletes it at the end of the test. Where the test fails, it first says what a person
// needs to see why.
func namespace(t testing.TB, name string) {
	t.Helper()
	kubectl(t, "create", "namespace", name)
	t.Cleanup(func() {
		if t.Failed() {
			diagnose(t, name)
		}
		if _, err := execute(context.WithoutCancel(t.Context()), "", "kubectl", "delete", "namespace", name,
			"--ignore-not-found", "--timeout=120s"); err != nil {
			t.Error(err)
		}
	})
}

// diagnose prints how things are in a namespace: the resources with their conditions, pods, events, logs.
func diagnose(t testing.TB, ns string) {
	t.Helper()
	ctx := context.WithoutCancel(t.Context())
	conditions := `{range .items[*]}{.kind} {.metadata.name}{range .status.conditions[*]}{"\n  "}{.type}={.status} {.reason}: {.message}{end}{"\n"}{end}`
	for _, args := range [][]string{
		{"get", "app-operator", "-o", "jsonpath=" + conditions},
		{"get", "subscriptions,installplans,csv,catalogsources", "--ignore-not-found"},
		{"get", "csv", "-o", "jsonpath={range .items[*]}{.metadata.name} {.status.phase} {.status.message}{\"\\n\"}{end}"},
		{"get", "pods", "-o", "wide"},
		{"get", "events", "--sort-by=.lastTimestamp"},
		{"logs", "-l", "control-plane=controller-manager", "--tail=40", "--prefix", "--all-containers"},
	} {
		args = append(args, "-n", ns)
		if out, err := execute(ctx, "", "kubectl", args...); err == nil && out != "" {
			t.Logf("kubectl %s\n%s", strings.Join(args, " "), tail(out))
		}
	}
}

// eventually tries a check until it returns nil, and fails the test with its last error if it does not in time.
func eventually(t testing.TB, check func(ctx context.Context) error) {
	t.Helper()
	last := errors.New("never tried")
	err := wait.PollUntilContextTimeout(t.Context(), time.Second, patience, true, func(ctx context.Context) (bool, error) {
		last = check(ctx)
		return last == nil, nil
	})
	if err != nil {
		t.Fatalf("after %s: %v", patience, last)
	}
}

// becomes waits until the output of a kubectl command is as wanted.
func becomes(t testing.TB, want string, args ...string) {
	t.Helper()
	eventually(t, func(ctx context.Context) error {
		got, err := execute(ctx, "", "kubectl", args...)
		if err == nil && got != want {
			err = fmt.Errorf("kubectl %s: %q, want %q", strings.Join(args, " "), got, want)
		}
		return err
	})
}

// refuses waits until the webhook in the cluster refuses an App that the schema takes, in the words that say why. The API
// server and the authority of the certificate may need a moment to find each other.
func refuses(t testing.TB, ns string) {
	t.Helper()
	const bad = "apiVersion: app.huolala.cn/v1\nkind: App\nmetadata: {name: bad}\nspec: {replicas: 0, image: 'nginx:1.16.1', minReadySeconds: 600}\n"
	eventually(t, func(ctx context.Context) error {
		_, err := execute(ctx, bad, "kubectl", "apply", "--dry-run=server", "-n", ns, "-f", "-")
		if err == nil || !strings.Contains(err.Error(), "spec.minReadySeconds") || !strings.Contains(err.Error(), "must be less than progressDeadlineSeconds") {
			return errors.Join(errors.New("a bad App is not refused"), err)
		}
		return nil
	})
}

// replaced is a file of the tree with other names in it.
func replaced(t testing.TB, file string, oldnew ...string) string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(root, file))
	if err != nil {
		t.Fatal(err)
	}
	return strings.NewReplacer(oldnew...).Replace(string(data))
}

// write writes a file of the tree, with its folder.
func write(t testing.TB, file, text string) {
	t.Helper()
	file = filepath.Join(root, file)
	err := os.MkdirAll(filepath.Dir(file), 0o755)
	if err == nil {
		err = os.WriteFile(file, []byte(text), 0o644)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// inventory names what there is in the cluster that an installation could have left.
func inventory(ctx context.Context) ([]string, error) {
	kinds, err := execute(ctx, "", "kubectl", "api-resources", "--verbs=list", "--namespaced=false", "-o", "name")
	if err != nil {
		return nil, err
	}
	global, err := execute(ctx, "", "kubectl", "get", strings.Join(strings.Fields(kinds), ","), "-o", "name")
	if err != nil {
		return nil, err
	}
	// Of the namespaces, what a release may have put into one that is not its own.
	others, err := execute(ctx, "", "kubectl", "get", "roles,rolebindings,serviceaccounts,services,deployments,leases", "-A",
		"-o", `jsonpath={range .items[*]}{.kind}/{.metadata.namespace}/{.metadata.name}{"\n"}{end}`)
	return strings.Fields(global + "\n" + others), err
}
