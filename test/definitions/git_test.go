package definitions

import (
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// withoutGit returns the environment for a git that writes: its repository is that of its folder, also in a hook of git, and no file of the user or of the
// machine has it sign, or run hooks.
func withoutGit() []string {
	return append(withoutMake(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_SYSTEM=/dev/null")
}

// commitAll makes a folder a repository with one commit of all of its files, and runs further commands of git.
func commitAll(t *testing.T, dir string, commands ...[]string) {
	t.Helper()
	for _, args := range slices.Concat([][]string{
		{"init", "--quiet"}, {"add", "--all"}, {"-c", "user.name=t", "-c", "user.email=t@example.com", "commit", "--quiet", "--message=a"},
	}, commands) {
		cmd := exec.CommandContext(t.Context(), "git", args...)
		cmd.Dir, cmd.Env = dir, withoutGit()
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("git %v: %v: %s", args, err, out)
		}
	}
}

// TestGitOfTheUserDoesNotMatter makes repositories where a user has all commits and tags signed and checked by hooks, and as in a hook of git of another
// repository. That repository stays as it is.
func TestGitOfTheUserDoesNotMatter(t *testing.T) {
	other := folder(t, map[string]string{"file": "of the user\n"})
	commitAll(t, other)
	before := headOf(t, other)
	home := folder(t, map[string]string{
		".gitconfig":       "[commit]\n\tgpgSign = true\n[tag]\n\tgpgSign = true\n[gpg]\n\tprogram = false\n[core]\n\thooksPath = ~/hooks\n",
		"hooks/pre-commit": "#!/bin/sh\nexit 1\n",
	})
	for name, value := range map[string]string{
		"HOME": home, "XDG_CONFIG_HOME": home, "GIT_DIR": filepath.Join(other, ".git"), "GIT_WORK_TREE": other, "GIT_INDEX_FILE": filepath.Join(other, ".git/index"),
		"GIT_CONFIG_COUNT": "1", "GIT_CONFIG_KEY_0": "commit.gpgSign", "GIT_CONFIG_VALUE_0": "true",
	} {
		t.Setenv(name, value)
	}
	dir, _ := releaseTree(t)
	if head := headOf(t, dir); head == before {
		t.Errorf("the new repository has the commit %s of the other one", head)
	}
	if head := headOf(t, other); head != before {
		t.Errorf("the repository of GIT_DIR was at %s, and is at %s", before, head)
	}
}

// headOf returns the commit of a repository.
func headOf(t *testing.T, dir string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "git", "-C", dir, "rev-parse", "HEAD")
	cmd.Env = withoutGit()
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("git rev-parse HEAD in %s: %v", dir, err)
	}
	return strings.TrimSpace(string(out))
}
