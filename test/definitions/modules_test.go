package definitions

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// together are the modules that make test compiles next to the operator's: what two of them have in common is compiled once where it has
// the same version.
var together = []string{"api", "test/consumer", "test/networkpolicy", "test/ui", "hack/tools/helm", "hack/tools/kustomize"}

// ownVersions are the libraries that one of these modules needs in another version, with the reason.
var ownVersions = map[string]string{}

// TestModulesShareVersions checks that modules that are compiled together have libraries of the same version. Kubernetes' client takes
// minutes to compile, and one library below it in another version is enough for a second time.
func TestModulesShareVersions(t *testing.T) {
	ours := versions(t, ".")
	for _, module := range together {
		shared := 0
		for path, version := range versions(t, module) {
			want, ok := ours[path]
			if !ok {
				continue
			}
			if shared++; version != want && ownVersions[module+" "+path] == "" {
				t.Errorf("%s/go.mod has %s %s, and the operator's go.mod %s: go mod edit -require=%[2]s@%[4]s", module, path, version, want)
			}
		}
		if shared < 5 {
			t.Errorf("%s has %d libraries of the operator, want at least 5", module, shared)
		}
	}
}

// required matches a library in go.mod, with its version.
var required = regexp.MustCompile(`(?m)^(?:require)?\s+([^\s=]+) (v[^\s]+)`)

// versions returns the libraries that a module compiles, with their versions.
func versions(t *testing.T, module string) map[string]string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(root, module, "go.mod"))
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]string{}
	for _, match := range required.FindAllStringSubmatch(string(data), -1) {
		found[match[1]] = match[2]
	}
	return found
}

// TestMissingProgramsAreNamed checks what make test says at its end on a machine without a browser, without npm, or without the registry of npm: what did
// not run, and the command that brings what is missing.
func TestMissingProgramsAreNamed(t *testing.T) {
	bare := folder(t, nil) // The programs that make needs, without npm.
	for _, program := range []string{"make", "bash", "sh", "env", "git", "date"} {
		path, err := exec.LookPath(program)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(path, filepath.Join(bare, program)); err != nil {
			t.Fatal(err)
		}
	}
	for name, c := range map[string]struct {
		chromium, path string
		want           []string
	}{
		"no browser":  {"", os.Getenv("PATH"), []string{"not run: test/ui", "apt-get install chromium", "CHROMIUM="}},
		"no npm":      {"/usr/bin/true", bare, []string{"not run: the test of accessibility", "there is no npm", "apt-get install npm"}},
		"no registry": {"/usr/bin/true", folder(t, map[string]string{"npm": ""}) + ":" + bare, []string{"not run: the test of accessibility", "make bin/axe.min.js"}},
	} {
		out, err := makeIn(t, t.TempDir(), []string{"PATH=" + c.path}, "not-run", "CHROMIUM="+c.chromium)
		if err != nil || strings.Count(out, "not run:") != 1 {
			t.Errorf("%s: make not-run: %v: %s", name, err, out)
		}
		for _, words := range c.want {
			if !strings.Contains(out, words) {
				t.Errorf("%s: make test does not say %q:\n%s", name, words, out)
			}
		}
	}
}

// TestRegistryOfNpmMayBeMissing runs make test-ui with an npm that fails. The tests run, and npm has the last word about the cause; with CI=true make fails.
// Without a browser, npm is not asked.
func TestRegistryOfNpmMayBeMissing(t *testing.T) {
	for name, c := range map[string]struct {
		env, chromium string
		asked, fails  bool
	}{
		"a machine":             {"CI=", "/usr/bin/true", true, false},
		"a workflow":            {"CI=true", "/usr/bin/true", true, true},
		"without a browser":     {"CI=", "", false, false},
		"a workflow without it": {"CI=true", "", false, false},
	} {
		files := copies(t, "Makefile") // It calls itself.
		files["npm"], files["go"] = "#!/bin/sh\necho \"npm error $*: ENOTFOUND\" >&2\nexit 1\n", "#!/bin/sh\necho \"go $*\"\n"
		files["test/ui/go.mod"] = ""
		dir := folder(t, files)
		out, err := makeIn(t, dir, []string{c.env, "KUBEBUILDER_ASSETS=a"}, "test-ui", "CHROMIUM="+c.chromium)
		if (err != nil) != c.fails || strings.Contains(out, "\ngo test") == c.fails {
			t.Errorf("%s: %v, want an error: %t\n%s", name, err, c.fails, out)
		}
		if strings.Contains(out, "npm error pack --loglevel=error axe-core@") != c.asked {
			t.Errorf("%s: npm was asked: %t, want %t\n%s", name, !c.asked, c.asked, out)
		}
	}
}
