package harness

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// BuildManager builds the manager's program into a folder, and returns its path.
func BuildManager(folder string) (string, error) { return buildManager(folder) }

// buildManager builds the manager's program with flags of the go command.
func buildManager(folder string, flags ...string) (string, error) {
	path := filepath.Join(folder, "manager")
	return path, BuildProgram(path, "", ".", flags...)
}

// BuildProgram builds a package of the module in a folder of the repository into a program, with flags of the go command. It is built as
// in an image, without C: the race detector switches C on for the tests, and all packages would be compiled once more with it. The main.go of the package
// is in no test, so it is read.
func BuildProgram(program, folder, pkg string, flags ...string) error {
	// A list of the folder of the repository would repeat the test after each change in it, such as a commit.
	if err := ReadInputs(filepath.Join(folder, pkg, "main.go"), filepath.Join(folder, "go.mod"), filepath.Join(folder, "go.sum")); err != nil {
		return err
	}
	cmd := exec.Command("go", slices.Concat([]string{"build", "-buildvcs=false", "-o", program}, flags, []string{pkg})...)
	cmd.Dir = filepath.Join(Root(), folder)
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("build %s of %s: %w: %s", pkg, cmd.Dir, err, out)
	}
	return nil
}

// Process is the manager as a process of its own.
type Process struct {
	// Probes is the address where the health probes are served.
	Probes string
	// Output is what it has written so far.
	Output Output
	cmd    *exec.Cmd
	ended  chan struct{}
	// group is the folder of the memory control group, empty without one.
	group string
}

// Output is what a process has written so far.
type Output struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

// Write implements io.Writer.
func (o *Output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.buf.Write(p)
}

// String is what was written so far.
func (o *Output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.buf.String()
}

// Spawn starts a manager's program, with cfg as its way to the API server, for some namespaces, separated by commas; empty
// means all. It does not wait for anything. The process is killed when the test ends; should the test fail, what it has
// written is shown.
func Spawn(t testing.TB, program string, cfg *rest.Config, namespaces string, flags ...string) *Process {
	t.Helper()
	return SpawnWith(t, nil, program, cfg, namespaces, flags...)
}

// SpawnWith does the same with more in the environment, each as "NAME=value". The test's own environment stays: it is that of
// API servers which are started later. Webhooks are served with "ENABLE_WEBHOOKS=true" in env.
func SpawnWith(t testing.TB, env []string, program string, cfg *rest.Config, namespaces string, flags ...string) *Process {
	t.Helper()
	p := &Process{ended: make(chan struct{}), Probes: FreeAddress(t)}
	p.cmd = exec.Command(program, append([]string{"--health-probe-bind-address=" + p.Probes}, flags...)...)
	p.cmd.Env = append(append(os.Environ(), "KUBECONFIG="+WriteKubeconfig(t, cfg), "WATCH_NAMESPACE="+namespaces, "ENABLE_WEBHOOKS=false"), env...)
	p.cmd.Stdout, p.cmd.Stderr = &p.Output, &p.Output
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		_ = p.cmd.Wait() // The exit code is in the process state.
		close(p.ended)
	}()
	t.Cleanup(func() {
		_ = p.cmd.Process.Kill() // It fails for one that has ended.
		<-p.ended
		p.removeGroup(t)
		if t.Failed() {
			t.Logf("the log of the manager:\n%s", &p.Output)
		}
	})
	return p
}

// Ready waits until the process says that it is ready.
func (p *Process) Ready(t testing.TB) {
	t.Helper()
	Eventually(t, func() error {
		resp, err := http.Get("http://" + p.Probes + "/readyz")
		if err != nil {
			return err
		}
		if err := resp.Body.Close(); err != nil {
			return err
		}
		if resp.StatusCode != http.StatusOK {
			return fmt.Errorf("readyz: %s", resp.Status)
		}
		return nil
	})
}

// Signal sends a signal to the process.
func (p *Process) Signal(t testing.TB, signal syscall.Signal) {
	t.Helper()
	if err := p.cmd.Process.Signal(signal); err != nil {
		t.Fatal(err)
	}
}

// Pid is the process's number.
func (p *Process) Pid() int { return p.cmd.Process.Pid }

// Ended is closed once the process has ended.
func (p *Process) Ended() <-chan struct{} { return p.ended }

// ExitCode is that of a process that has ended, -1 for one that was killed.
func (p *Process) ExitCode() int { return p.cmd.ProcessState.ExitCode() }

// FreeAddress returns an address of this machine that nothing listens on.
func FreeAddress(t testing.TB) string {
	t.Helper()
	return net.JoinHostPort("127.0.0.1", strconv.Itoa(FreePort(t)))
}

// FreePort returns a port of this machine that nothing listens on, another one each time. It is none of those that the system gives to
// connections and to listeners without a port (from 32768 on Linux, from 49152 elsewhere): one of these could be taken before it is used.
func FreePort(t testing.TB) int {
	t.Helper()
	for range 100 {
		port := firstPort + rand.IntN(lastPort-firstPort)
		if _, given := givenPorts.LoadOrStore(port, true); given {
			continue
		}
		l, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
		if err != nil {
			continue
		}
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
		return port
	}
	t.Fatal("of 100 ports, none is free")
	return 0
}

// The ports of FreePort. Other programs seldom have one of them: those that are well known are below.
const firstPort, lastPort = 12000, 30000

// givenPorts are those that FreePort has returned.
var givenPorts sync.Map

// WriteKubeconfig writes a kubeconfig for what cfg connects to, and as whom. It is gone when the test ends.
func WriteKubeconfig(t testing.TB, cfg *rest.Config) string {
	t.Helper()
	tls := rest.CopyConfig(cfg)
	if err := rest.LoadTLSFiles(tls); err != nil {
		t.Fatal(err)
	}
	kubeconfig := clientcmdapi.NewConfig()
	kubeconfig.Clusters["plane"] = &clientcmdapi.Cluster{Server: tls.Host, CertificateAuthorityData: tls.CAData}
	kubeconfig.AuthInfos["plane"] = &clientcmdapi.AuthInfo{
		ClientCertificateData: tls.CertData, ClientKeyData: tls.KeyData, Token: tls.BearerToken,
		Impersonate: tls.Impersonate.UserName, ImpersonateGroups: tls.Impersonate.Groups,
	}
	kubeconfig.Contexts["plane"] = &clientcmdapi.Context{Cluster: "plane", AuthInfo: "plane"}
	kubeconfig.CurrentContext = "plane"
	path := filepath.Join(t.TempDir(), "kubeconfig")
	if err := clientcmd.WriteToFile(*kubeconfig, path); err != nil {
		t.Fatal(err)
	}
	return path
}

// PeakMemory returns the most memory, in bytes, that the process has had at a time.
func (p *Process) PeakMemory(t testing.TB) int64 {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.cmd.Process.Pid))
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(text), "VmHWM:")
	var kilobytes int64
	if _, err := fmt.Sscan(rest, &kilobytes); err != nil {
		t.Fatalf("VmHWM of the process: %v", err)
	}
	return kilobytes << 10
}
