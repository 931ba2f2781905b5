package harness

import (
	"bufio"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	"k8s.io/client-go/rest"
)

// TestClusterOfTheUserIsLeftAlone sets the variables by which envtest works on an existing cluster. Where the servers of the tests are missing, the start
// fails, and the cluster of the kubeconfig gets no request.
func TestClusterOfTheUserIsLeftAlone(t *testing.T) {
	var requests atomic.Int32
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		requests.Add(1)
		http.NotFound(w, nil)
	}))
	t.Cleanup(server.Close)
	t.Setenv("KUBECONFIG", WriteKubeconfig(t, &rest.Config{Host: server.URL}))
	t.Setenv("USE_EXISTING_CLUSTER", "true")
	t.Setenv("KUBEBUILDER_ASSETS", t.TempDir())
	plane, err := StartAPIServer()
	if err == nil || plane != nil {
		t.Errorf("an API server has started from an empty folder: %v", plane)
	}
	if n := requests.Load(); n > 0 {
		t.Errorf("the cluster of the kubeconfig got %d requests (%v)", n, err)
	}
}

// TestClustersKeepTheirDataOnDisk starts a program in the place of the cluster's, which prints the folder for its state: XDG_RUNTIME_DIR is in memory, and
// the program takes TMPDIR if it is empty.
func TestClustersKeepTheirDataOnDisk(t *testing.T) {
	program := filepath.Join(t.TempDir(), "cluster")
	if err := os.WriteFile(program, []byte("#!/bin/sh\necho \"in ${XDG_RUNTIME_DIR:-$TMPDIR}\"\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	t.Setenv("CLUSTER_BINARY", program)
	t.Setenv("XDG_RUNTIME_DIR", "/run/user/1")
	for temp, want := range map[string]string{"/tmp": "/tmp", "/" + strings.Repeat("long/", 10): "/run/user/1"} {
		t.Setenv("TMPDIR", temp)
		if _, err := StartCluster("test", 1); err == nil || !strings.Contains(err.Error(), `"in `+want+`\n"`) {
			t.Errorf("TMPDIR=%s: %v, want the state in %s", temp, err, want)
		}
	}
}

// victimVariable is set for the process that TestServersEndWithTheirProcess kills.
const victimVariable = "TEST_HARNESS_VICTIM"

// TestServersEndWithTheirProcess kills a process that has started an API server. Both servers are gone then.
func TestServersEndWithTheirProcess(t *testing.T) {
	if os.Getenv(victimVariable) != "" {
		startForever(t)
	}
	if _, err := os.Stat(filepath.Join(os.Getenv("KUBEBUILDER_ASSETS"), "cluster")); err != nil {
		t.Skipf("the servers in KUBEBUILDER_ASSETS are not those of hack/cluster: %v", err)
	}
	cmd := exec.Command(os.Args[0], "-test.run=^"+t.Name()+"$")
	cmd.Env = append(os.Environ(), victimVariable+"=1", "TMPDIR="+t.TempDir())
	cmd.Stderr = os.Stderr
	if _, err := cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	servers := childrenOf(t, cmd.Process.Pid)
	if err := cmd.Process.Kill(); err != nil {
		t.Error(err)
	}
	_ = cmd.Wait() // It was killed.
	if err != nil || line != "ready\n" || len(servers) != 2 {
		t.Fatalf("the process has the children %v, and wrote %q (%v), want two servers", servers, line, err)
	}
	Eventually(t, func() error {
		for _, process := range processes(t) {
			if name, ok := servers[process.pid]; ok && !strings.HasPrefix(process.state, "Z") {
				return fmt.Errorf("%s (%d) still runs", name, process.pid)
			}
		}
		return nil
	})
}

// startForever starts an API server, and waits until its parent is gone.
func startForever(t *testing.T) {
	plane, err := StartAPIServer()
	if err != nil {
		t.Fatal(err)
	}
	fmt.Fprintln(os.Stdout, "ready")
	_, _ = io.Copy(io.Discard, os.Stdin)
	t.Fatal(plane.Stop())
}

// process is a line of the list of processes.
type process struct {
	pid, parent int
	state, name string
}

func processes(t *testing.T) []process {
	t.Helper()
	list, err := exec.Command("ps", "-A", "-o", "pid=,ppid=,stat=,args=").Output()
	if err != nil {
		t.Fatal(err)
	}
	var found []process
	for line := range strings.Lines(string(list)) {
		fields := strings.Fields(line)
		if len(fields) < 4 {
			continue
		}
		pid, err := strconv.Atoi(fields[0])
		if err != nil {
			t.Fatal(err)
		}
		parent, err := strconv.Atoi(fields[1])
		if err != nil {
			t.Fatal(err)
		}
		found = append(found, process{pid, parent, fields[2], fields[3]})
	}
	return found
}

// childrenOf returns the names of the children of a process by their ids.
func childrenOf(t *testing.T, parent int) map[int]string {
	t.Helper()
	children := map[int]string{}
	for _, process := range processes(t) {
		if process.parent == parent {
			children[process.pid] = process.name
		}
	}
	return children
}
