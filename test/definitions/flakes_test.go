package definitions

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
)

// TestFlakesAreListed runs hack/flakes.sh three times over a tree whose tests fail in the second run alone, and leave a process behind. The
// table has what failed, how often and where; neither the busy processes nor the process that was left are there at its end.
func TestFlakesAreListed(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("hack/flakes.sh needs setsid")
	}
	tree, out := t.TempDir(), t.TempDir()
	script, err := os.ReadFile(filepath.Join(root, "hack/flakes.sh"))
	if err != nil {
		t.Fatal(err)
	}
	makefile := "test:\n\t@ls bin 2>/dev/null && exit 2; mkdir bin; echo run >>$(STATE)\n" +
		"\t@echo PKG=$(PKG) RUN=$(RUN) TESTFLAGS=$(TESTFLAGS) GIT=$$GIT_DIR$$GIT_INDEX_FILE; sleep 1000 & echo $$! >>$(STATE).pids\n" +
		"\t@[ $$(wc -l <$(STATE)) != 2 ] || { printf '    --- FAIL: TestA/b (0.1s)\\n--- FAIL: TestA (0.1s)\\nFAIL\\texample/pkg\\t0.2s\\n'; exit 1; }\n"
	if err := errors.Join(
		os.Mkdir(filepath.Join(tree, "hack"), 0o750), os.WriteFile(filepath.Join(tree, "hack/flakes.sh"), script, 0o700), //nolint:gosec // It is run.
		os.WriteFile(filepath.Join(tree, "Makefile"), []byte(makefile), 0o600),
	); err != nil {
		t.Fatal(err)
	}
	commitAll(t, tree)
	other := folder(t, map[string]string{"file": ""})
	commitAll(t, other)
	state := filepath.Join(out, "state")
	cmd := exec.Command(filepath.Join(tree, "hack/flakes.sh"), "3")
	cmd.Env = append(withoutGit(), "STATE="+state, "LOAD=1", "OUT="+out, "PKG=./x", "RUN=TestA", "TESTFLAGS=-v",
		"GIT_DIR="+filepath.Join(other, ".git"), "GIT_INDEX_FILE="+filepath.Join(other, ".git/index")) // As in a hook of git.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	said, err := cmd.CombinedOutput()
	if cmd.ProcessState.ExitCode() != 1 {
		t.Fatalf("%v, want the exit code 1:\n%s", err, said)
	}
	for _, words := range []string{"1 of 3 runs failed", `1 of 3  TestA/b\s+run-2\.log`, `1 of 3  TestA\s+run-2\.log`, `1 of 3  example/pkg\s+run-2\.log`} {
		if !regexp.MustCompile(words).Match(said) {
			t.Errorf("it does not say %q:\n%s", words, said)
		}
	}
	log, err := os.ReadFile(filepath.Join(out, "run-1.log"))
	if err != nil || !strings.Contains(string(log), "PKG=./x RUN=TestA TESTFLAGS=-count=1 -v GIT=\n") {
		t.Errorf("the log of the first run: %s, %v", log, err)
	}
	if err := syscall.Kill(-cmd.Process.Pid, 0); !errors.Is(err, syscall.ESRCH) {
		t.Errorf("a busy process is left: %v", err)
	}
	pids, err := os.ReadFile(state + ".pids")
	if err != nil {
		t.Fatal(err)
	}
	for pid := range strings.FieldsSeq(string(pids)) {
		// The script has killed it; how soon it is gone is the machine's.
		if err := wait.PollUntilContextTimeout(t.Context(), 20*time.Millisecond, time.Minute, true, func(context.Context) (bool, error) {
			return hasEnded(pid), nil
		}); err != nil {
			t.Errorf("a process of a run is left: %s", pid)
		}
	}
}

// hasEnded reports whether a process is gone, or waits for its parent alone.
func hasEnded(pid string) bool {
	status, err := os.ReadFile(filepath.Join("/proc", pid, "status"))
	return err != nil || strings.Contains(string(status), "State:\tZ")
}
