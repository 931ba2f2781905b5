package definitions

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// stamping matches a command of Go that asks git about a program, and fails in a tree that git does not accept, such as the tree of another user.
var stamping = regexp.MustCompile(`\bgo (list|build|install) .*`)

// TestNoProgramIsStampedByGit checks that no command of the Makefile and of the scripts needs a tree that git accepts.
func TestNoProgramIsStampedByGit(t *testing.T) {
	paths := []string{filepath.Join(root, "Makefile")}
	for _, pattern := range []string{"hack/*.sh", "hack/*/*.sh"} {
		found, err := filepath.Glob(filepath.Join(root, pattern))
		if err != nil || len(found) == 0 {
			t.Fatalf("no script matches %s: %v", pattern, err)
		}
		paths = append(paths, found...)
	}
	commands := 0
	for _, path := range paths {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(text)) {
			command := stamping.FindString(line)
			if command == "" || strings.HasPrefix(line, "#") {
				continue
			}
			commands++
			// The last two are lists of flags with it: of hack/cluster/build.sh, and of hack/reproducible.sh from RELEASE_FLAGS.
			if !regexp.MustCompile(`-buildvcs=false|\$\(RELEASE_FLAGS\)|"\$\{build\[@\]\}"|"\$@"`).MatchString(command) {
				t.Errorf("%s: no -buildvcs=false in: %s", path, command)
			}
		}
	}
	if commands < 10 {
		t.Errorf("there are %d commands, want more", commands)
	}
	for _, target := range []string{"test-operator", "reproducible"} {
		out, err := makes(t, target, "KUBEBUILDER_ASSETS=a")
		if err != nil || !strings.Contains(out, "-buildvcs=false") {
			t.Errorf("make %s: %v: %s", target, err, out)
		}
	}
}

// TestChecksNeedFiles runs the checks of words and phrases in a folder that git does not know: nothing was checked, which is an error, also where nothing
// can be read from the terminal.
func TestChecksNeedFiles(t *testing.T) {
	dir := folder(t, copies(t, "hack/words.sh", "hack/words.txt", "hack/phrases.sh"))
	for _, script := range []string{"words", "phrases"} {
		cmd := exec.CommandContext(t.Context(), filepath.Join(dir, "hack", script+".sh"))
		cmd.Env = withoutGit()
		out, err := cmd.CombinedOutput()
		if err == nil || !strings.Contains(string(out), script+": git lists no files") {
			t.Errorf("hack/%s.sh: %v: %s", script, err, out)
		}
	}
}
