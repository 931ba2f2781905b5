package definitions

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
)

// release is a version of Kubernetes: major, minor and patch.
type release [3]int

func (r release) String() string { return fmt.Sprintf("%d.%d.%d", r[0], r[1], r[2]) }

// minor returns the version without the patch.
func (r release) minor() string { return fmt.Sprintf("%d.%d", r[0], r[1]) }

// released matches the name of a file that pins a version of Kubernetes.
var released = regexp.MustCompile(`^v([0-9]+)\.([0-9]+)\.([0-9]+)\.mod$`)

// pinned returns the versions of Kubernetes that make test-versions runs the tests on, the oldest one first.
func pinned(t *testing.T) []release {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join(root, "hack/versions/v*.mod"))
	if err != nil || len(paths) < 2 {
		t.Fatalf("hack/versions pins %d versions, want at least the oldest and the newest one: %v", len(paths), err)
	}
	var found []release
	for _, path := range paths {
		match := released.FindStringSubmatch(filepath.Base(path))
		if match == nil {
			t.Fatalf("%s has no version of Kubernetes for a name", path)
		}
		var r release
		for i := range r {
			if r[i], err = strconv.Atoi(match[i+1]); err != nil {
				t.Fatal(err)
			}
		}
		found = append(found, r)
	}
	slices.SortFunc(found, func(a, b release) int { return slices.Compare(a[:], b[:]) })
	return found
}

// simulated returns the version of Kubernetes of demo and tests, that of hack/cluster.
func simulated(t *testing.T) release {
	t.Helper()
	var r release
	if _, err := fmt.Sscanf(findIn(t, "hack/cluster/go.mod", `(?m)^\s*k8s\.io/kubernetes (v\S+)`), "v%d.%d.%d", &r[0], &r[1], &r[2]); err != nil {
		t.Fatal(err)
	}
	return r
}

// findIn returns what a pattern finds in a file, the part in parentheses.
func findIn(t *testing.T, path, pattern string) string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(root, path))
	if err != nil {
		t.Fatal(err)
	}
	match := regexp.MustCompile(pattern).FindSubmatch(data)
	if match == nil {
		t.Fatalf("%s has no line like %s", path, pattern)
	}
	return string(match[1])
}

// TestClaimedVersionsAreTested checks that the oldest version of Kubernetes that the product claims to support is the oldest one that
// make test-versions runs, wherever it is written, that the nightly job runs all of them, and that the copies of the version of the
// simulated cluster are that of hack/cluster.
func TestClaimedVersionsAreTested(t *testing.T) {
	versions, cluster := pinned(t), simulated(t)
	oldest, newest := versions[0], versions[len(versions)-1]
	var jobs []string
	for _, version := range versions {
		jobs = append(jobs, "'"+version.String()+"'")
	}
	for path, claims := range map[string][]string{
		"config/manifests/bases/app-operator.clusterserviceversion.yaml": {"minKubeVersion: " + oldest.String()},
		"hack/helmchart/main.go": {`kubeVersion: ">=` + oldest.String() + `-0"`},
		"README.md":              {"Kubernetes " + oldest.minor() + " or newer"},
		"README.zh-CN.md":        {"Kubernetes " + oldest.minor() + " 或更新版本"},
		"docs/install.md": {
			"Kubernetes " + oldest.minor() + " or newer", "on Kubernetes " + oldest.String() + ", " + cluster.String() + " and " + newest.String(),
			"simulated nodes run on " + cluster.String() + " alone",
		},
		"Makefile": {
			fmt.Sprintf("chartutil.k8sVersionMajor=%d ", cluster[0]), fmt.Sprintf("chartutil.k8sVersionMinor=%d'", cluster[1]),
		},
		"test/bundle/bundle_test.go":     {`"k8s-version": "` + cluster.minor() + `"`},
		"hack/versions/README.md":        {oldest.String(), newest.String()},
		".github/workflows/versions.yml": {"version: [" + strings.Join(jobs, ", ") + "]"},
	} {
		data, err := os.ReadFile(filepath.Join(root, path))
		if err != nil {
			t.Error(err)
			continue
		}
		for _, claim := range claims {
			if !strings.Contains(string(data), claim) {
				t.Errorf("%s does not have %q, and hack/versions pins Kubernetes %v to %v, hack/cluster %v", path, claim, oldest, newest, cluster)
			}
		}
	}
}

// TestImagesAreBuiltWithTheGoOfTheModule checks that each image of a builder has the minor version of Go that go.mod states, and that what is published is
// built with the Go of the machine, which builds the SBOM.
func TestImagesAreBuiltWithTheGoOfTheModule(t *testing.T) {
	want := findIn(t, "go.mod", `(?m)^go (\d+\.\d+)\.\d+$`)
	findIn(t, "Dockerfile", `(?m)^(ARG TOOLCHAIN=local)$`) // Not GOTOOLCHAIN: with buildah and podman the ENV of the base image counts.
	findIn(t, "Dockerfile", `(?m)^(RUN GOTOOLCHAIN=\$\{TOOLCHAIN\} go mod download)$`)
	findIn(t, "Dockerfile", `(?m)^(RUN export GOTOOLCHAIN=\$\{TOOLCHAIN\} )`)
	findIn(t, "Makefile", `(?m)^(docker-buildx: TOOLCHAIN_ARG = --build-arg TOOLCHAIN=\$\(shell go env GOVERSION\))$`)
	for _, path := range []string{"Dockerfile", "test/scorecard/Dockerfile"} {
		data, err := os.ReadFile(filepath.Join(root, path))
		if err != nil {
			t.Fatal(err)
		}
		builders := regexp.MustCompile(`(?m)^FROM .*\bgolang:(\S+)`).FindAllSubmatch(data, -1)
		if len(builders) == 0 {
			t.Errorf("%s has no builder with Go", path)
		}
		for _, builder := range builders {
			if got := string(builder[1]); got != want {
				t.Errorf("%s builds with golang:%s, and go.mod states go %s", path, got, want)
			}
		}
	}
}

// TestPinnedVersionsAreWhole checks that each version of Kubernetes is built from modules of that version alone, with checksums.
func TestPinnedVersionsAreWhole(t *testing.T) {
	for _, version := range pinned(t) {
		name := filepath.Join(root, "hack/versions/v"+version.String())
		data, err := os.ReadFile(name + ".mod")
		if err != nil {
			t.Fatal(err)
		}
		if _, err := os.Stat(name + ".sum"); err != nil {
			t.Error(err)
		}
		if want := "k8s.io/kubernetes v" + version.String(); !strings.Contains(string(data), want) {
			t.Errorf("%s.mod does not require %s", name, want)
		}
		replaced := regexp.MustCompile(`(?m)=> k8s\.io/\S+ v(\S+)$`).FindAllStringSubmatch(string(data), -1)
		if len(replaced) < 20 {
			t.Errorf("%s.mod replaces %d modules of Kubernetes, want at least 20", name, len(replaced))
		}
		for _, match := range replaced {
			if want := fmt.Sprintf("0.%d.%d", version[1], version[2]); match[1] != want {
				t.Errorf("%s.mod has %s, want v%s", name, match[0], want)
			}
		}
	}
}

// TestNoRuleOfIntOrStringInLists checks that no rule reads an int-or-string within a list. API servers before Kubernetes 1.34 estimate the
// cost of a rule by the longest string that a request can have, whatever its maxLength, and refuse a definition that needs a list of them.
func TestNoRuleOfIntOrStringInLists(t *testing.T) {
	rules := 0
	var walk func(path string, node apiextensionsv1.JSONSchemaProps, inList bool)
	walk = func(path string, node apiextensionsv1.JSONSchemaProps, inList bool) {
		if node.XIntOrString && len(node.XValidations) > 0 {
			if rules++; inList {
				t.Errorf("%s has the rule %s: state its bounds in the schema, or check it in the webhook", path, node.XValidations[0].Rule)
			}
		}
		for name, property := range node.Properties {
			walk(path+"."+name, property, inList)
		}
		if node.Items != nil && node.Items.Schema != nil {
			walk(path+"[]", *node.Items.Schema, true)
		}
		if node.AdditionalProperties != nil && node.AdditionalProperties.Schema != nil {
			walk(path+"{}", *node.AdditionalProperties.Schema, true)
		}
	}
	for _, crd := range definitions(t) {
		for _, version := range crd.Spec.Versions {
			walk(crd.Name, *version.Schema.OpenAPIV3Schema, false)
		}
	}
	if rules == 0 {
		t.Error("no int-or-string has a rule")
	}
}
