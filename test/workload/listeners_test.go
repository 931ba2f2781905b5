package workload

import (
	"bufio"
	"crypto/tls"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"

	"huolala.cn/app-operator/test/harness"
)

// TestProgramListeners runs the manager with all its servers. Each port that the process listens on is one of those servers, and refuses headers
// of more than 16 KiB, which only package guard does: net/http lets in 1 MiB.
func TestProgramListeners(t *testing.T) {
	t.Parallel()
	path, err := build()
	if err != nil {
		t.Fatal(err)
	}
	hooks, _ := harness.LocalWebhooks(t)
	metrics, profiles := harness.FreePort(t), harness.FreePort(t)
	p := harness.SpawnWith(t, []string{"ENABLE_WEBHOOKS=true"}, path, plane.ManagerConfig(), plane.Namespace(t),
		fmt.Sprintf("--metrics-bind-address=127.0.0.1:%d", metrics), fmt.Sprintf("--pprof-bind-address=127.0.0.1:%d", profiles),
		fmt.Sprintf("--webhook-port=%d", hooks.Port), "--webhook-cert-dir="+hooks.CertDir)
	p.Ready(t)
	_, probes, err := net.SplitHostPort(p.Probes)
	if err != nil {
		t.Fatal(err)
	}
	encrypted := map[string]bool{strconv.Itoa(metrics): true, strconv.Itoa(hooks.Port): true, strconv.Itoa(profiles): false, probes: false}
	found := listeningPorts(t, p.Pid())
	if len(found) != len(encrypted) {
		t.Errorf("the process listens on %v, and has the servers %v", found, encrypted)
	}
	for _, port := range found {
		if _, known := encrypted[port]; !known {
			t.Errorf("nothing is known of the server on port %s", port)
		}
		for length, want := range map[int]bool{15 << 10: false, 17 << 10: true} {
			if status := askWithHeaders(t, port, encrypted[port], length); (status == http.StatusRequestHeaderFieldsTooLarge) != want {
				t.Errorf("port %s answers headers of %d bytes with %d", port, length, status)
			}
		}
	}
}

// listeningPorts returns the ports that a process listens on, as Linux shows them.
func listeningPorts(t *testing.T, pid int) (ports []string) {
	t.Helper()
	if runtime.GOOS != "linux" {
		t.Fatal("/proc is needed to find what the manager listens on: run this test on Linux")
	}
	var sockets []string
	files, err := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", pid))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		target, err := os.Readlink(file)
		if errors.Is(err, fs.ErrNotExist) {
			continue // It was closed since.
		}
		if inode, found := strings.CutPrefix(target, "socket:["); found {
			sockets = append(sockets, strings.TrimSuffix(inode, "]"))
		}
	}
	for _, table := range []string{"tcp", "tcp6"} {
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/net/%s", pid, table))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(text)) {
			// The second field is the address, the fourth the state, 0A for a listener, and the tenth the inode.
			fields := strings.Fields(line)
			if len(fields) < 10 || fields[3] != "0A" || !slices.Contains(sockets, fields[9]) {
				continue
			}
			_, hex, _ := strings.Cut(fields[1], ":")
			port, err := strconv.ParseUint(hex, 16, 16)
			if err != nil {
				t.Fatal(err)
			}
			ports = append(ports, strconv.FormatUint(port, 10))
		}
	}
	return ports
}

// askWithHeaders sends a request whose headers have a length, and returns the status of the answer.
func askWithHeaders(t *testing.T, port string, encrypted bool, length int) int {
	t.Helper()
	conn, err := net.Dial("tcp", net.JoinHostPort("127.0.0.1", port))
	if err != nil {
		t.Fatal(err)
	}
	if encrypted {
		conn = tls.Client(conn, &tls.Config{InsecureSkipVerify: true})
	}
	defer func() { _ = conn.Close() }()
	if _, err := fmt.Fprintf(conn, "GET / HTTP/1.1\r\nHost: a\r\nX: %s\r\n\r\n", strings.Repeat("x", length)); err != nil {
		t.Fatal(err)
	}
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := resp.Body.Close(); err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode
}
