package harness

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// The folders of control groups on Linux, version 2 and version 1.
const (
	groupsV2 = "/sys/fs/cgroup"
	groupsV1 = "/sys/fs/cgroup/memory"
)

// LimitMemory puts the process into a memory control group of its own with a limit in bytes, as a container has. It reports false where the
// test may not make one; the process then has no limit but its own.
func (p *Process) LimitMemory(t testing.TB, limit int64) bool {
	t.Helper()
	root, file := groupsV2, "memory.max"
	if _, err := os.Stat(filepath.Join(groupsV1, "memory.limit_in_bytes")); err == nil {
		root, file = groupsV1, "memory.limit_in_bytes"
	}
	p.group = filepath.Join(root, fmt.Sprintf("app-operator-test-%d", p.Pid()))
	write := func(name, value string) error {
		return os.WriteFile(filepath.Join(p.group, name), []byte(value), 0o600)
	}
	err := os.Mkdir(p.group, 0o755)
	if err == nil {
		err = errors.Join(write(file, strconv.FormatInt(limit, 10)), write("cgroup.procs", strconv.Itoa(p.Pid())))
	}
	if err != nil {
		t.Logf("the process has no memory control group: %v", err)
		_ = os.Remove(p.group) // It may be there, and have no process.
		p.group = ""
	}
	return err == nil
}

// removeGroup removes the control group of a process that has ended. The kernel may need a moment until it has no process any more.
func (p *Process) removeGroup(t testing.TB) {
	t.Helper()
	if p.group != "" {
		Eventually(t, func() error { return os.Remove(p.group) })
	}
}

// KilledForMemory returns how many processes of the control group the kernel has killed.
func (p *Process) KilledForMemory(t testing.TB) int {
	t.Helper()
	for _, name := range []string{"memory.events", "memory.oom_control"} {
		text, err := os.ReadFile(filepath.Join(p.group, name))
		if p.group == "" || err != nil {
			continue
		}
		for line := range strings.Lines(string(text)) {
			if count, found := strings.CutPrefix(strings.TrimSpace(line), "oom_kill "); found {
				killed, err := strconv.Atoi(count)
				if err != nil {
					t.Fatal(err)
				}
				return killed
			}
		}
	}
	return 0
}

// Alive reports whether the process runs.
func (p *Process) Alive() bool {
	select {
	case <-p.ended:
		return false
	default:
		return true
	}
}
