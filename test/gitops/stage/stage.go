// Package stage is the Kubernetes and the manager that the suites of GitOps clients run against. It needs nothing but the
// standard library: each client is a module with versions of Kubernetes' libraries of its own.
package stage

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// Patience is how long a test waits for what has to come.
const Patience = 6 * time.Minute

// maxTempDir is the longest path of the folder for temporary files that has room for the sockets of a cluster.
const maxTempDir = 30

// Stage is a running Kubernetes with simulated nodes, our kinds, and a built manager.
type Stage struct {
	// Kubeconfig is the administrator's.
	Kubeconfig string
	cluster    *exec.Cmd
	folder     string
}

// Main runs the tests of a suite on a stage of its own, and returns the exit code.
func Main(m *testing.M, name string, stage **Stage, prepare func() error) (code int) {
	s, err := start(name)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer func() {
		if err := s.stop(); err != nil {
			fmt.Fprintln(os.Stderr, "stop the control plane:", err)
			code = 1
		}
	}()
	*stage = s
	if err := prepare(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return m.Run()
}

// start starts the control plane that CLUSTER_BINARY names, installs the CRDs and builds the manager.
func start(name string) (*Stage, error) {
	program := os.Getenv("CLUSTER_BINARY")
	if program == "" {
		return nil, errors.New("CLUSTER_BINARY does not name the cluster program; make test-gitops sets it")
	}
	folder, err := os.MkdirTemp("", "gitops-")
	if err != nil {
		return nil, err
	}
	s := &Stage{folder: folder, cluster: exec.Command(program, "up", "--until-eof", "--name", fmt.Sprintf("%s-%d", name, os.Getpid()), "--nodes", "2")}
	s.cluster.Stderr = os.Stderr
	if len(os.TempDir()) <= maxTempDir { // As in test/harness: etcd's data is not for the folder that systemd keeps in memory.
		s.cluster.Env = append(os.Environ(), "XDG_RUNTIME_DIR=")
	}
	if _, err := s.cluster.StdinPipe(); err != nil { // A test that panics closes it.
		return nil, errors.Join(err, os.RemoveAll(folder))
	}
	out, err := s.cluster.StdoutPipe()
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(folder))
	}
	if err := s.cluster.Start(); err != nil {
		return nil, errors.Join(fmt.Errorf("start %s: %w", program, err), os.RemoveAll(folder))
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	path, ready := strings.CutPrefix(strings.TrimSpace(line), "ready ")
	if err != nil || !ready {
		return nil, errors.Join(fmt.Errorf("%s did not become ready: %q", program, line), err, s.stop())
	}
	s.Kubeconfig = path
	for _, args := range [][]string{
		{"apply", "--server-side", "-f", filepath.Join(Root(), "config/crd/bases")},
		{"wait", "--for=condition=Established", "--timeout=" + Patience.String(), "crd", "--all"},
	} {
		if out, err := s.Kubectl(args...); err != nil {
			return nil, errors.Join(fmt.Errorf("install the CRDs: %w: %s", err, out), s.stop())
		}
	}
	build := exec.Command("go", "build", "-buildvcs=false", "-o", s.manager(), ".")
	build.Dir = Root()
	build.Env = append(os.Environ(), "CGO_ENABLED=0", "GOWORK=off", "GOFLAGS=")
	if out, err := build.CombinedOutput(); err != nil {
		return nil, errors.Join(fmt.Errorf("build the manager: %w: %s", err, out), s.stop())
	}
	return s, nil
}

func (s *Stage) manager() string { return filepath.Join(s.folder, "manager") }

// stop ends the control plane and removes all files.
func (s *Stage) stop() error {
	err := s.cluster.Process.Signal(syscall.SIGTERM)
	if err == nil {
		err = s.cluster.Wait()
	}
	return errors.Join(err, os.RemoveAll(s.folder))
}

// Kubectl runs kubectl as the administrator and returns all that it prints.
func (s *Stage) Kubectl(args ...string) (string, error) {
	cmd := exec.Command(filepath.Join(filepath.Dir(os.Getenv("CLUSTER_BINARY")), "kubectl"),
		append([]string{"--kubeconfig", s.Kubeconfig, "--cache-dir", filepath.Join(s.folder, "kubectl")}, args...)...)
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// Run runs kubectl, which has to succeed.
func (s *Stage) Run(t testing.TB, args ...string) string {
	t.Helper()
	out, err := s.Kubectl(args...)
	if err != nil {
		t.Fatalf("kubectl %s: %v: %s", strings.Join(args, " "), err, out)
	}
	return out
}

// Namespace makes a namespace for the test, and deletes it when the test ends.
func (s *Stage) Namespace(t testing.TB, name string) string {
	t.Helper()
	s.Run(t, "create", "namespace", name)
	t.Cleanup(func() {
		if out, err := s.Kubectl("delete", "namespace", name, "--wait=false"); err != nil {
			t.Logf("delete namespace %s: %v: %s", name, err, out)
		}
	})
	return name
}

// Operate starts the manager for one namespace. It runs until the test ends, or until the function that is returned stops
// it. Should the test fail, its log is shown.
func (s *Stage) Operate(t testing.TB, namespace string) (stop func()) {
	t.Helper()
	log := &log{}
	cmd := exec.Command(s.manager(), "--health-probe-bind-address=0", "--metrics-bind-address=0")
	cmd.Env = append(os.Environ(), "KUBECONFIG="+s.Kubeconfig, "WATCH_NAMESPACE="+namespace, "ENABLE_WEBHOOKS=false")
	cmd.Stdout, cmd.Stderr = log, log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	stop = sync.OnceFunc(func() {
		_ = cmd.Process.Kill() // It fails for one that has ended.
		_ = cmd.Wait()
	})
	t.Cleanup(func() {
		stop()
		if t.Failed() {
			t.Logf("the log of the manager:\n%s", log)
		}
	})
	return stop
}

// Eventually waits until a condition holds.
func Eventually(t testing.TB, holds func() error) {
	t.Helper()
	deadline := time.Now().Add(Patience)
	for {
		err := holds()
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			t.Fatal(err)
		}
		time.Sleep(200 * time.Millisecond)
	}
}

// Examples are the manifests that every client has to apply: the samples, and those of this folder, which use every list of
// a spec. The Deployment that a sample needs is none of ours.
func Examples(t testing.TB) []string {
	t.Helper()
	var paths []string
	for _, folder := range []string{"config/samples", "test/gitops/examples"} {
		found, err := filepath.Glob(filepath.Join(Root(), folder, "*.yaml"))
		if err != nil || len(found) == 0 {
			t.Fatalf("no manifests in %s: %v", folder, err)
		}
		for _, path := range found {
			data, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			if bytes.Contains(data, []byte("apiVersion: app.huolala.cn/v1\n")) {
				paths = append(paths, path)
			}
		}
	}
	return paths
}

// Open opens a manifest until the test ends.
func Open(t testing.TB, path string) io.Reader {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return bytes.NewReader(data)
}

// Root is the repository's folder.
func Root() string {
	_, file, _, _ := runtime.Caller(0)
	return filepath.Join(filepath.Dir(file), "..", "..", "..")
}

// log is what a process has written so far.
type log struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

// Write implements io.Writer.
func (l *log) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.Write(p)
}

// String is what was written so far.
func (l *log) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.String()
}
