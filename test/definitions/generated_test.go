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
)

// copies returns files of the tree, for a folder. Go sees that the result of a test depends on them.
func copies(t *testing.T, names ...string) map[string]string {
	t.Helper()
	files := map[string]string{}
	for _, name := range names {
		text, err := os.ReadFile(filepath.Join(root, name))
		if err != nil {
			t.Fatal(err)
		}
		files[name] = string(text)
	}
	return files
}

// TestFoldersOfTheUserStay has the bundle and the chart written into folders that exist. A folder with a file of the user stays as it is, and the error
// names it.
func TestFoldersOfTheUserStay(t *testing.T) {
	files := copies(t, "hack/remove-generated.sh", "hack/bundle.sh")
	files["PROJECT"], files["bin/operator-sdk"] = "", "#!/bin/sh\n[ $2 = bundle ] || exit 0\nmkdir -p bundle/manifests\n"+
		"touch bundle.Dockerfile bundle/manifests/app-operator-webhook-service_v1_service.yaml\n"
	for _, tool := range []string{"kustomize", "helm"} {
		files["bin/"+tool], files["hack/tools/"+tool+"/go.mod"], files["hack/tools/"+tool+"/go.sum"] = "#!/bin/sh\n", "", ""
	}
	bundle := func(dir, out string) (string, error) {
		cmd := exec.CommandContext(t.Context(), filepath.Join(dir, "hack/bundle.sh"))
		cmd.Env = append(withoutMake(), "OUT="+out, "VERSION=1.2.3", "IMG=registry.example/op:v1.2.3", "CHANNELS=a", "DEFAULT_CHANNEL=a")
		said, err := cmd.CombinedOutput()
		return string(said), err
	}
	chart := func(dir, out string) (string, error) {
		return makeIn(t, dir, []string{"CHART=" + filepath.Join(out, "chart")}, "chart")
	}
	for kept, c := range map[string]struct {
		run func(dir, out string) (string, error)
		// names is the path that the error names, in the folder of the user.
		names string
	}{
		"bundle/diary":      {bundle, "bundle"},
		"bundle.Dockerfile": {bundle, "bundle.Dockerfile"},
		"chart/diary":       {chart, "chart"},
	} {
		t.Run(kept, func(t *testing.T) {
			dir, out := folder(t, files), filepath.Join(t.TempDir(), "of the user")
			before := time.Now().Add(-time.Hour) // Or make would build the tools.
			for path := range files {
				if err := os.Chtimes(filepath.Join(dir, path), before, before); err != nil && strings.HasPrefix(path, "hack/tools") {
					t.Fatal(err)
				}
			}
			kept, named := filepath.Join(out, kept), filepath.Join(out, c.names)
			if err := errors.Join(os.MkdirAll(filepath.Dir(kept), 0o700), os.WriteFile(kept, []byte("dear diary"), 0o600)); err != nil {
				t.Fatal(err)
			}
			said, err := c.run(dir, out)
			if err == nil || !strings.Contains(said, named+" stays") {
				t.Errorf("%v, want an error that names %s:\n%s", err, named, said)
			}
			if text, err := os.ReadFile(kept); err != nil || string(text) != "dear diary" {
				t.Errorf("the file of the user: %q, %v", text, err)
			}
		})
	}
}

// TestRemoveGenerated checks which folders hack/remove-generated.sh removes.
func TestRemoveGenerated(t *testing.T) {
	script := folder(t, copies(t, "hack/remove-generated.sh"))
	for name, c := range map[string]struct {
		files map[string]string
		stays bool
	}{
		"absent":            {},
		"empty":             {files: map[string]string{}},
		"a former result":   {files: map[string]string{"Chart.yaml": "apiVersion: v2\nname: op\n", "values.yaml": "", "templates/a.yaml": ""}},
		"another chart":     {files: map[string]string{"Chart.yaml": "apiVersion: v2\nname: operator\n"}, stays: true},
		"a file":            {files: map[string]string{"diary": ""}, stays: true},
		"a hidden file":     {files: map[string]string{".git/HEAD": ""}, stays: true},
		"a file of no text": {files: map[string]string{"Chart.yaml": ""}, stays: true},
	} {
		path := filepath.Join(t.TempDir(), "a folder")
		if c.files != nil {
			if err := os.Rename(folder(t, c.files), path); err != nil {
				t.Fatal(err)
			}
		}
		for _, args := range [][]string{{"--check"}, nil} {
			cmd := exec.CommandContext(t.Context(), filepath.Join(script, "hack/remove-generated.sh"), append(args, path, "Chart.yaml", "name: op")...)
			said, err := cmd.CombinedOutput()
			if (err != nil) != c.stays || strings.Contains(string(said), path) != c.stays {
				t.Errorf("%s, %v: %v: %s", name, args, err, said)
			}
			_, err = os.Stat(path)
			if want := c.files != nil && (c.stays || args != nil); (err == nil) != want {
				t.Errorf("%s, %v: the folder is there: %t, want %t", name, args, err == nil, want)
			}
		}
	}
}

// defaulted matches a variable of the Makefile that the environment may set.
var defaulted = regexp.MustCompile(`(?m)^(?:[^:=#\t]+: )?(\w+) \?=`)

// TestVerifyHasItsOwnVariables runs hack/verify.sh as a make with variables on its command line does, where each variable of the Makefile has a value of the
// user. The make that generates the files gets none of the values: it would write another bundle than the committed one, or to another folder.
func TestVerifyHasItsOwnVariables(t *testing.T) {
	files := copies(t, "hack/verify.sh", "Makefile")
	names := []string{"USE_IMAGE_DIGESTS", "CATALOG_FROM"}
	for _, match := range defaulted.FindAllStringSubmatch(files["Makefile"], -1) {
		names = append(names, match[1])
	}
	if !slices.Contains(names, "OUT") || !slices.Contains(names, "VERSION") || !slices.Contains(names, "CHART") {
		t.Fatalf("the variables of the Makefile are %v", names)
	}
	files["make"], files["go"], files["gofmt"] = "#!/bin/sh\nenv\nexit 1\n", "#!/bin/sh\nexit 1\n", "#!/bin/sh\n"
	dir := folder(t, files)
	cmd := exec.CommandContext(t.Context(), filepath.Join(dir, "hack/verify.sh"))
	cmd.Env = append(withoutMake(), "PATH="+dir+":"+os.Getenv("PATH"), "MAKEFLAGS= -- VERSION=of-the-user", "MAKELEVEL=1")
	for _, name := range names {
		cmd.Env = append(cmd.Env, name+"=of-the-user")
	}
	said, err := cmd.CombinedOutput()
	if err == nil || !strings.Contains(string(said), "FAILED: generated files") || !strings.Contains(string(said), "\nPATH=") {
		t.Fatalf("%v, want that make is called and fails:\n%s", err, said)
	}
	for line := range strings.Lines(string(said)) {
		if strings.Contains(line, "of-the-user") {
			t.Errorf("make gets %s", line)
		}
	}
}
