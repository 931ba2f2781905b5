package definitions

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"
)

// withoutMake returns the environment without the variables of a make that runs this test, and of a workflow.
func withoutMake() []string {
	return slices.DeleteFunc(os.Environ(), func(variable string) bool {
		return strings.HasPrefix(variable, "MAKE") || strings.HasPrefix(variable, "MFLAGS=") || strings.HasPrefix(variable, "GITHUB_") ||
			strings.HasPrefix(variable, "IMAGE_TAG_BASE=") || strings.HasPrefix(variable, "RELEASE_") || strings.HasPrefix(variable, "GIT_")
	})
}

// makes returns what make would run.
func makes(t *testing.T, args ...string) (string, error) {
	t.Helper()
	copies(t, "Makefile") // Go sees that the result depends on it.
	cmd := exec.Command("make", append([]string{"--no-print-directory", "--dry-run"}, args...)...)
	cmd.Dir, cmd.Env = root, withoutMake()
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// TestAdditionalInstanceIsRefused checks that no make target takes the component for an additional operator: the target would change or remove the
// first one, and undeploy would delete all resources before.
func TestAdditionalInstanceIsRefused(t *testing.T) {
	for _, args := range [][]string{
		{"deploy", "COMPONENTS=namespaced additional-instance"}, {"build-installer", "COMPONENTS=additional-instance"},
		{"undeploy", "COMPONENTS=additional-instance namespaced"}, {"undeploy-keep", "COMPONENTS=additional-instance"},
		{"prune", "FROM=additional-instance", "COMPONENTS="}, {"prune", "FROM=", "COMPONENTS=additional-instance"},
	} {
		out, err := makes(t, args...)
		if err == nil || !strings.Contains(out, "docs/scale.md") || strings.Contains(out, "hack/") {
			t.Errorf("make %s: %v\n%s", strings.Join(args, " "), err, out)
		}
		for i := range args {
			args[i] = strings.ReplaceAll(args[i], "additional-instance", "alerts")
		}
		if out, err := makes(t, args...); err != nil || !strings.Contains(out, "hack/render.sh") {
			t.Errorf("make %s: %v\n%s", strings.Join(args, " "), err, out)
		}
	}
}

// TestCommitHasOneLength checks that the commit in the programs has a length that does not depend on the clone: without that, the build of a release
// cannot be reproduced in another clone.
func TestCommitHasOneLength(t *testing.T) {
	rev := exec.CommandContext(t.Context(), "git", "-C", root, "rev-parse", "HEAD")
	rev.Env = withoutMake()
	head, err := rev.Output()
	if err != nil {
		t.Skip("not a clone") // The sources of a release have no commit.
	}
	commit := regexp.MustCompile(`(?:main\.commit=|COMMIT=)([0-9a-f]+)`)
	for _, target := range []string{"bin/manager", "docker-build", "docker-buildx", "sbom", "reproducible", "kubectl-happ"} {
		out, err := makes(t, target)
		if err != nil {
			t.Fatalf("make %s: %v: %s", target, err, out)
		}
		found := commit.FindAllStringSubmatch(out, -1)
		for _, match := range found {
			if match[1] != string(head[:12]) {
				t.Errorf("make %s has the commit %q, want %q", target, match[1], head[:12])
			}
		}
		if len(found) == 0 {
			t.Errorf("make %s has no commit:\n%s", target, out)
		}
	}
}

// folder makes a folder with files that can be run.
func folder(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		file := filepath.Join(dir, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(file), 0o700), os.WriteFile(file, []byte(text), 0o700)); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// releaseTree is a repository with what hack/release-check.sh reads, which can be released as 1.2.3, and a crane whose registry has the scorecard's image alone.
func releaseTree(t *testing.T) (dir string, env []string) {
	t.Helper()
	script, err := os.ReadFile(filepath.Join(root, "hack/release-check.sh"))
	if err != nil {
		t.Fatal(err)
	}
	dir = folder(t, map[string]string{
		"hack/release-check.sh": string(script),
		"CHANGELOG.md":          "## [Unreleased]\n\n## [1.2.3] - 2026-01-02\n",
		"catalog/semver.yaml":   "  - image: registry.example/op-bundle:v1.2.3\n",
		"bundle/manifests/app-operator.clusterserviceversion.yaml": "spec:\n  version: 1.2.3\n",
		"bundle/tests/scorecard/config.yaml":                       "    image: registry.example/op-scorecard:v1\n",
		"config/scorecard/config.yaml":                             "    image: example.com/scorecard-test:v1\n    image: registry.example/op-scorecard:v1\n",
		"config/olm/catalogsource.yaml":                            "  image: registry.example/op-catalog:v1\n",
		"config/olm/clusterextension.yaml":                         "      ref: registry.example/op-catalog:v1\n",
		"crane": "#!/bin/sh\ncase $2 in *-scorecard:v1) echo sha256:2; exit 0;; esac\n" +
			"echo \"GET https://registry.example/v2/: MANIFEST_UNKNOWN: manifest unknown\" >&2\nexit 1\n",
	})
	env = append(withoutGit(), "VERSION=1.2.3", "FOLLOWED=registry.example/op-catalog:v1", "SCORECARD=registry.example/op-scorecard:v1",
		"IMAGES=registry.example/op:v1.2.3 registry.example/op-bundle:v1.2.3 registry.example/op-catalog:v1.2.3", "CRANE="+filepath.Join(dir, "crane"))
	commitAll(t, dir, []string{"tag", "v1.2.3"}, []string{"tag", "api/v1.2.3"})
	return dir, env
}

// TestReleaseCheck checks a tree that can be released, and changes of it that prevent that, each with the words that name it.
func TestReleaseCheck(t *testing.T) {
	const exists = "#!/bin/sh\ncase $2 in *bundle* | *-scorecard:v1) echo sha256:1; exit 0;; esac\necho MANIFEST_UNKNOWN >&2\nexit 1\n"
	const empty = "#!/bin/sh\necho MANIFEST_UNKNOWN >&2\nexit 1\n"
	for name, c := range map[string]struct {
		file, text string // A change of a file, committed with the tags moved to it.
		env        []string
		args       []string
		words      string // Empty if the tree can be released.
	}{
		"as it should be":               {},
		"the tag of the workflow":       {env: []string{"GITHUB_REF_NAME=v1.2.3"}},
		"the tag of another version":    {env: []string{"GITHUB_REF_NAME=v1.2.4"}, words: "the tag is v1.2.4, and VERSION in the Makefile is 1.2.3"},
		"an image that exists":          {file: "crane", text: exists, words: "registry.example/op-bundle:v1.2.3 exists already"},
		"an image that exists, later":   {file: "crane", text: exists, args: []string{"tree"}},
		"an image that exists, alone":   {file: "crane", text: exists, args: []string{"images"}, words: "registry.example/op-bundle:v1.2.3 exists already"},
		"the repair of the version":     {file: "crane", text: exists, env: []string{"RELEASE_REPAIR=1.2.3"}},
		"the repair of another version": {file: "crane", text: exists, env: []string{"RELEASE_REPAIR=1.2.2"}, words: "RELEASE_REPAIR is 1.2.2"},
		"a repair that is left behind":  {env: []string{"RELEASE_REPAIR=1.2.2"}, args: []string{"tree"}, words: "delete RELEASE_REPAIR"},
		"no image of the scorecard":     {file: "crane", text: empty, words: "op-scorecard:v1, which the bundle names (MANIFEST_UNKNOWN): make scorecard-buildx"},
		"a repair without a scorecard":  {file: "crane", text: empty, env: []string{"RELEASE_REPAIR=1.2.3"}, words: "make scorecard-buildx"},
		"no scorecard, later":           {file: "crane", text: empty, args: []string{"tree"}},
		"a registry that says nothing":  {file: "crane", text: "#!/bin/sh\necho UNAUTHORIZED >&2\nexit 1\n", words: "op-catalog:v1.2.3 exists is not known: UNAUTHORIZED"},
		"another catalog for OLM v0":    {file: "config/olm/catalogsource.yaml", text: "  image: quay.io/other/op-catalog:v1\n", words: "config/olm/catalogsource.yaml does not name registry.example/op-catalog:v1"},
		"a catalog that never changes":  {file: "config/olm/clusterextension.yaml", text: "      ref: registry.example/op-catalog:v1.2.3\n", words: "config/olm/clusterextension.yaml does not name"},
		"another scorecard":             {file: "config/scorecard/config.yaml", text: "    image: quay.io/other/op-scorecard:v1\n", words: "config/scorecard/config.yaml does not name"},
		"another scorecard, bundled":    {file: "bundle/tests/scorecard/config.yaml", text: "    image: quay.io/other/op-scorecard:v1\n", words: "bundle/ has another scorecard image"},
		"a changelog without a date":    {file: "CHANGELOG.md", text: "## [1.2.3]\n", words: "no section [1.2.3]"},
		"a bundle of another version":   {file: "bundle/manifests/app-operator.clusterserviceversion.yaml", text: "spec:\n  version: 1.2.2\n", words: "bundle/ is not of 1.2.3"},
		"a catalog without the version": {file: "catalog/semver.yaml", text: "\n", words: "catalog/semver.yaml does not have v1.2.3"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir, env := releaseTree(t)
			run := func(program string, args ...string) (string, error) {
				cmd := exec.Command(program, args...)
				cmd.Dir, cmd.Env = dir, slices.Concat(env, c.env)
				out, err := cmd.CombinedOutput()
				return string(out), err
			}
			if c.file != "" {
				if err := os.WriteFile(filepath.Join(dir, c.file), []byte(c.text), 0o700); err != nil {
					t.Fatal(err)
				}
				if out, err := run("sh", "-ec", "git -c user.name=t -c user.email=t@example.com commit --quiet --all --amend --no-edit; git tag --force v1.2.3; git tag --force api/v1.2.3"); err != nil {
					t.Fatalf("%v: %s", err, out)
				}
			}
			out, err := run("hack/release-check.sh", c.args...)
			if c.words == "" && (err != nil || !strings.Contains(out, "can be released as v1.2.3")) {
				t.Errorf("%v:\n%s", err, out)
			}
			if c.words != "" && (err == nil || !strings.Contains(out, c.words) || strings.Contains(out, "can be released")) {
				t.Errorf("%v, want %q in:\n%s", err, c.words, out)
			}
		})
	}
}

// TestReleaseOrder reads the targets that the release workflow calls: all are targets of the Makefile and in RELEASE.md, and what is published is checked
// before it is pushed.
func TestReleaseOrder(t *testing.T) {
	data, err := os.ReadFile(filepath.Join(root, ".github/workflows/release.yml"))
	if err != nil {
		t.Fatal(err)
	}
	var workflow struct {
		Jobs map[string]struct {
			Needs any
			If    string
			Steps []struct{ Run string }
		}
	}
	if err := yaml.Unmarshal(data, &workflow); err != nil {
		t.Fatal(err)
	}
	manual, err := os.ReadFile(filepath.Join(root, "RELEASE.md"))
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	if needs := workflow.Jobs["follow"].Needs; needs != "release" {
		t.Errorf("the last job needs %v", needs)
	}
	if condition := workflow.Jobs["follow"].If; condition != "${{ !contains(github.ref_name, '-') }}" {
		t.Errorf("the last job runs if %q, and no cluster follows a prerelease", condition)
	}
	for _, step := range slices.Concat(workflow.Jobs["release"].Steps, workflow.Jobs["follow"].Steps) {
		args, isMake := strings.CutPrefix(step.Run, "make ")
		if !isMake {
			continue
		}
		if !strings.Contains(string(manual), "`"+step.Run+"`") {
			t.Errorf("RELEASE.md does not have `%s`", step.Run)
		}
		for arg := range strings.FieldsSeq(args) {
			if !strings.Contains(arg, "=") || strings.HasPrefix(arg, "RELEASE_CHECK=") {
				got = append(got, arg)
			}
		}
	}
	want := []string{
		"registry-login", "release-check", "RELEASE_CHECK=images", "release-draft", "docker-buildx", "bundle", "bundle-test", "bundle-build", "bundle-push",
		"catalog", "catalog-buildx", "release-files", "release-publish", "registry-login", "catalog-follow",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("what .github/workflows/release.yml calls (-want +got):\n%s", diff)
	}
	makefile, err := os.ReadFile(filepath.Join(root, "Makefile"))
	if err != nil {
		t.Fatal(err)
	}
	for _, target := range got {
		if !strings.Contains(target, "=") && !regexp.MustCompile(`(?m)^`+target+`:`).Match(makefile) {
			t.Errorf("the Makefile has no target %s", target)
		}
	}
	if first := workflow.Jobs["release-check"].Steps; len(first) == 0 || first[len(first)-1].Run != "make release-check RELEASE_CHECK=tree" {
		t.Errorf("the first job does not check the tree: %v", first)
	}
}

// makeIn runs a target of the Makefile in a folder, with programs of the folder first.
func makeIn(t *testing.T, dir string, env []string, args ...string) (string, error) {
	t.Helper()
	makefile, err := filepath.Abs(filepath.Join(root, "Makefile"))
	if err != nil {
		t.Fatal(err)
	}
	copies(t, "Makefile") // Go sees that the result depends on it.
	cmd := exec.CommandContext(t.Context(), "make", append([]string{"--no-print-directory", "-f", makefile}, args...)...)
	cmd.Dir, cmd.Env = dir, slices.Concat(withoutMake(), []string{"PATH=" + dir + ":" + os.Getenv("PATH")}, env)
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// TestReleaseDraft checks that a draft is made only for a version that has no release, and that a draft of before is used again.
func TestReleaseDraft(t *testing.T) {
	for name, c := range map[string]struct {
		version, view string // view is what gh release view does.
		fails         bool
		words         string
		created       bool
	}{
		"no release":        {"1.2.3", "echo 'release not found' >&2; exit 1", false, "called: release create v1.2.3 --draft --verify-tag ", true},
		"a prerelease":      {"1.2.3-rc.1", "echo 'release not found' >&2; exit 1", false, "called: release create v1.2.3-rc.1 --draft --prerelease --verify-tag ", true},
		"a draft":           {"1.2.3", "echo true", false, "v1.2.3 has a draft already", false},
		"published":         {"1.2.3", "echo false", true, "v1.2.3 is published: raise VERSION", false},
		"no answer":         {"1.2.3", "echo 'HTTP 502' >&2; exit 1", true, "whether v1.2.3 is published is not known: HTTP 502", false},
		"an empty answer":   {"1.2.3", "exit 1", true, "is not known", false},
		"a refused request": {"1.2.3", "echo 'HTTP 401: Bad credentials' >&2; exit 1", true, "Bad credentials", false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := folder(t, map[string]string{
				"CHANGELOG.md": "## [" + c.version + "] - 2026-01-02\n\nThe notes.\n\n## [1.2.2] - 2026-01-01\n\nEarlier.\n",
				"gh":           "#!/bin/sh\nif [ $2 = view ]; then " + c.view + "; else echo \"called: $*\"; fi\n",
			})
			out, err := makeIn(t, dir, nil, "release-draft", "VERSION="+c.version)
			if (err != nil) != c.fails || !strings.Contains(out, c.words) || strings.Contains(out, "called:") != c.created {
				t.Errorf("%v, want %q in:\n%s", err, c.words, out)
			}
			notes, err := os.ReadFile(filepath.Join(dir, "dist/notes.md"))
			if err != nil || strings.TrimSpace(string(notes)) != "The notes." {
				t.Errorf("dist/notes.md: %v: %q", err, notes)
			}
		})
	}
}

// TestRegistryLogin checks that the login is crane's, with the password by its input, and that a missing name or password is an error.
func TestRegistryLogin(t *testing.T) {
	dir := folder(t, map[string]string{
		"hack/tools/crane/go.mod": "", "hack/tools/crane/go.sum": "",
		"bin/crane": "#!/bin/sh\necho \"crane $*, password $(cat)\"\n",
	})
	before := time.Now().Add(-time.Hour) // Or make would build crane.
	for _, name := range []string{"go.mod", "go.sum"} {
		if err := os.Chtimes(filepath.Join(dir, "hack/tools/crane", name), before, before); err != nil {
			t.Fatal(err)
		}
	}
	for name, c := range map[string]struct {
		user, password string
		want           string
		fails          bool
	}{
		"both":        {"me", "se cret", "crane auth login --username me --password-stdin registry.example, password se cret\n", false},
		"no user":     {"", "secret", "REGISTRY_USER: is not set", true},
		"no password": {"me", "", "REGISTRY_PASSWORD: is not set", true},
	} {
		out, err := makeIn(t, dir, []string{"REGISTRY_USER=" + c.user, "REGISTRY_PASSWORD=" + c.password}, "registry-login", "IMAGE_TAG_BASE=registry.example/me/op")
		if (err != nil) != c.fails || !strings.Contains(out, c.want) || c.fails && strings.Contains(out, "auth login") || strings.Contains(out, "printenv") {
			t.Errorf("%s: %v, want %q in:\n%s", name, err, c.want, out)
		}
	}
}
