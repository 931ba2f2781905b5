package main

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
)

// testState names a state in a directory of the test's own.
func testState(t *testing.T) *state {
	t.Helper()
	t.Setenv("XDG_RUNTIME_DIR", t.TempDir())
	s, err := newState("test")
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestStateNames(t *testing.T) {
	for name, valid := range map[string]bool{
		"default": true, "a": true, "a-1": true, strings.Repeat("a", 32): true,
		"": false, "A": false, "-a": false, "a-": false, "../a": false, "a/b": false, strings.Repeat("a", 33): false,
	} {
		if _, err := newState(name); (err == nil) != valid {
			t.Errorf("%q: %v", name, err)
		}
	}
}

func TestSocketPath(t *testing.T) {
	for length, fits := range map[int]bool{103: true, 104: false} {
		s := &state{dir: strings.Repeat("d", length-len("/"+peerSocket))}
		if err := s.checkSocketPath(); (err == nil) != fits {
			t.Errorf("%d bytes: %v", length, err)
		}
	}
}

func TestClaimAndRelease(t *testing.T) {
	s := testState(t)
	if stale, err := s.claim(); stale || err != nil {
		t.Fatal(stale, err)
	}
	if info, err := os.Stat(s.dir); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("directory: %v, %v", info.Mode(), err)
	}
	second := &state{name: s.name, dir: s.dir}
	_, err := second.claim()
	if running := (*runningError)(nil); !errors.As(err, &running) || running.pid != os.Getpid() {
		t.Errorf("second claim: %v", err)
	}
	if pid, err := second.supervisorPID(); pid != os.Getpid() || err != nil {
		t.Errorf("supervisor: %d, %v", pid, err)
	}
	if err := s.release(); err != nil {
		t.Fatal(err)
	}
	assertNothingLeft(t, s)
	if pid, err := second.supervisorPID(); pid != 0 || err != nil {
		t.Errorf("supervisor after the release: %d, %v", pid, err)
	}
}

func TestClaimExcludes(t *testing.T) {
	s := testState(t)
	var holders, claims atomic.Int32
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for range 50 {
				mine := &state{name: s.name, dir: s.dir}
				if _, err := mine.claim(); err != nil {
					continue // another one has it
				}
				claims.Add(1)
				if holders.Add(1) != 1 {
					t.Error("two hold it at the same time")
				}
				holders.Add(-1)
				if err := mine.release(); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	if claims.Load() == 0 {
		t.Error("nobody ever held it")
	}
	assertNothingLeft(t, s)
}

// abandon leaves behind what a supervisor does that was killed: everything but the lock on the lock file.
func abandon(t *testing.T, s *state, exported string) {
	t.Helper()
	if _, err := s.claim(); err != nil {
		t.Fatal(err)
	}
	writeFile(t, s.path(adminKubeconfig), "ours")
	if _, err := exportKubeconfig(s, exported); err != nil {
		t.Fatal(err)
	}
	if err := s.lock.Close(); err != nil {
		t.Fatal(err)
	}
}

func TestClaimCleansStaleState(t *testing.T) {
	s := testState(t)
	exported := filepath.Join(t.TempDir(), "kubeconfig")
	abandon(t, s, exported)
	if stale, err := s.claim(); !stale || err != nil {
		t.Fatal(stale, err)
	}
	for _, path := range []string{exported, s.path(adminKubeconfig)} {
		if _, err := os.Stat(path); !os.IsNotExist(err) {
			t.Errorf("%s: %v", path, err)
		}
	}
	if err := s.release(); err != nil {
		t.Fatal(err)
	}
}

func TestDownCleansStaleState(t *testing.T) {
	s := testState(t)
	exported := filepath.Join(t.TempDir(), "kubeconfig")
	abandon(t, s, exported)
	writeFile(t, exported, "another owner's by now")
	outcome, err := down(context.Background(), s.name)
	if err != nil || !strings.HasPrefix(outcome, "not running; removed") {
		t.Error(outcome, err)
	}
	assertNothingLeft(t, s)
	if _, err := os.Stat(exported); err != nil {
		t.Errorf("removed a file that was not ours any more: %v", err)
	}
	if outcome, err := down(context.Background(), s.name); err != nil || outcome != "not running" {
		t.Error(outcome, err)
	}
}

func TestExportSparesOthersFiles(t *testing.T) {
	dir := t.TempDir()
	writeFile(t, filepath.Join(dir, "empty"), "")
	writeFile(t, filepath.Join(dir, "used"), "x")
	for name, welcome := range map[string]bool{"missing": true, "empty": true, "used": false, ".": false} {
		if err := checkExport(filepath.Join(dir, name)); (err == nil) != welcome {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func assertNothingLeft(t *testing.T, s *state) {
	t.Helper()
	if left, _ := filepath.Glob(filepath.Join(filepath.Dir(s.dir), "*")); len(left) != 0 {
		t.Errorf("left behind: %v", left)
	}
}

func writeFile(t *testing.T, path, content string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}
