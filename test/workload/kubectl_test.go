package workload

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"huolala.cn/app-operator/test/harness"
)

// kubectl is the cluster's own kubectl, acting as its administrator.
type kubectl struct {
	t    testing.TB
	args []string
}

// newKubectl returns a kubectl for one namespace.
func newKubectl(t testing.TB, namespace string) *kubectl {
	t.Helper()
	return newKubectlOf(t, plane, namespace)
}

// newKubectlOf returns a kubectl for one namespace of a control plane.
func newKubectlOf(t testing.TB, p *harness.Plane, namespace string) *kubectl {
	t.Helper()
	return &kubectl{t: t, args: []string{
		"--kubeconfig", harness.WriteKubeconfig(t, p.Config), "--cache-dir", t.TempDir(), "--namespace", namespace,
	}}
}

// binary is the program, of the version of the control plane.
func (k *kubectl) binary() string {
	return filepath.Join(filepath.Dir(os.Getenv("CLUSTER_BINARY")), "kubectl")
}

// repeatable are the commands that are repeated where the API server had no time to answer: as often as they run, the end is the same.
var repeatable = []string{"apply", "events", "get", "wait"}

// run runs a command and returns what it prints.
func (k *kubectl) run(args ...string) (out string) {
	k.t.Helper()
	var failed error
	harness.Eventually(k.t, func() error {
		out, failed = k.try(args...)
		if failed != nil && strings.Contains(failed.Error(), "Error from server (Timeout)") && slices.Contains(repeatable, args[0]) {
			return failed
		}
		return nil
	})
	if failed != nil {
		k.t.Fatalf("kubectl %s: %v", strings.Join(args, " "), failed)
	}
	return out
}

// try is run for a command that may fail; its error has what the command says.
func (k *kubectl) try(args ...string) (string, error) {
	k.t.Helper()
	cmd := exec.CommandContext(k.t.Context(), k.binary(), append(k.args, args...)...)
	cmd.Dir = harness.Root()
	var out, said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &said
	if err := cmd.Run(); err != nil {
		return "", &commandError{err: err, said: said.String() + out.String()}
	}
	return out.String(), nil
}

// table runs a command that prints a table and returns its rows, the header first, by columns. No cell may be empty or
// have a space in it.
func (k *kubectl) table(args ...string) [][]string {
	k.t.Helper()
	var rows [][]string
	for line := range strings.Lines(k.run(args...)) {
		rows = append(rows, strings.Fields(line))
	}
	return rows
}

// commandError is the error of a command, with what it said.
type commandError struct {
	err  error
	said string
}

func (e *commandError) Error() string { return e.err.Error() + ": " + e.said }

// combined runs a command and returns all that it prints.
func (k *kubectl) combined(args ...string) (string, error) {
	k.t.Helper()
	cmd := exec.CommandContext(k.t.Context(), k.binary(), append(k.args, args...)...)
	cmd.Dir = harness.Root()
	out, err := cmd.CombinedOutput()
	return string(out), err
}
