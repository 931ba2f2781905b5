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

// TestMissingProgramsAreNamed checks what make test says at its end on a machine without a browser: what did not run, and the command that
// brings the program.
func TestMissingProgramsAreNamed(t *testing.T) {
	said := func(chromium string) string {
		t.Helper()
		cmd := exec.Command("make", "--no-print-directory", "not-run", "CHROMIUM="+chromium)
		cmd.Dir = root
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("make not-run: %v: %s", err, out)
		}
		return string(out)
	}
	for _, words := range []string{"not run: test/ui", "apt-get install chromium", "CHROMIUM="} {
		if got := said(""); !strings.Contains(got, words) {
			t.Errorf("without a browser make test does not say %q:\n%s", words, got)
		}
	}
	if got := said("/usr/bin/true"); strings.Contains(got, "Chromium") {
		t.Errorf("with a browser make test says:\n%s", got)
	}
}
