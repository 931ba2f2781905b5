// Package cli tests the kubectl plug-in by its binary, against a whole control plane with the manager in it, as users that have
// exactly the rights that are documented.
package cli

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"

	plugin "huolala.cn/app-operator/plugin/cli"
	"huolala.cn/app-operator/test/harness"
)

var (
	// plane is the control plane that all tests share; each has a namespace of its own.
	plane *harness.Plane
	// program is the plug-in.
	program string
)

func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) (code int) {
	ctrl.SetLogger(logr.Discard())
	scratch, err := os.MkdirTemp("", "cli-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer func() { _ = os.RemoveAll(scratch) }()
	program = filepath.Join(scratch, "kubectl-happ")
	if err = harness.BuildProgram(program, "", "./cmd/kubectl-happ"); err == nil {
		err = harness.Parallel(16)
	}
	if err == nil {
		plane, err = harness.StartCluster("cli", 2)
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

// user is a user of the plug-in in a namespace.
type user struct {
	t         testing.TB
	namespace string
	config    string
}

// as returns a user whose requests go where cfg says.
func as(t testing.TB, cfg *rest.Config, namespace string) *user {
	t.Helper()
	return &user{t: t, namespace: namespace, config: harness.WriteKubeconfig(t, cfg)}
}

// try runs the plug-in and returns its exit code and what it prints to each stream.
func (u *user) try(args ...string) (code int, out, said string) {
	u.t.Helper()
	cmd := exec.CommandContext(u.t.Context(), program, append([]string{"--kubeconfig", u.config, "--namespace", u.namespace}, args...)...)
	cmd.Env = append(os.Environ(), "LC_ALL=C.UTF-8", "HOME="+u.t.TempDir())
	cmd.Dir = harness.Root()
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err := cmd.Run()
	var exited *exec.ExitError
	if err != nil && !errors.As(err, &exited) {
		u.t.Fatal(err)
	}
	return cmd.ProcessState.ExitCode(), stdout.String(), stderr.String()
}

// run runs the plug-in and returns what it prints.
func (u *user) run(args ...string) string {
	u.t.Helper()
	code, out, said := u.try(args...)
	if code != 0 {
		u.t.Fatalf("kubectl happ %s: exit status %d\n%s%s", strings.Join(args, " "), code, out, said)
	}
	return out
}

// says fails the test if a text lacks any of the words.
func says(t testing.TB, text string, words ...string) {
	t.Helper()
	for _, word := range words {
		if !strings.Contains(text, word) {
			t.Errorf("no %q in:\n%s", word, text)
		}
	}
}

// account returns a ServiceAccount with the rights of a command, as the documentation has them, once they count.
func account(t testing.TB, namespace, name string, rights []plugin.Right) types.NamespacedName {
	t.Helper()
	var bound []harness.Right
	for _, right := range rights {
		bound = append(bound, harness.Right{Group: right.Group, Resource: right.Resource, Verb: right.Verb})
	}
	plane.Bind(t, namespace, name, bound, namespace)
	return types.NamespacedName{Namespace: namespace, Name: name}
}
