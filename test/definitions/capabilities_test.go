package definitions

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var (
	levelHeading = regexp.MustCompile(`^## ([1-5]) (.+)$`)
	provingTest  = regexp.MustCompile("`([a-z0-9/]+)\\.(Test[A-Za-z0-9]+)`")
	claimedLevel = regexp.MustCompile(`The bundle claims \*\*(.+)\*\*, level ([1-5])\.`)
	csvLevel     = regexp.MustCompile(`(?m)^    capabilities: (.+)$`)
)

// TestCapabilities checks docs/capabilities.md: each answer names tests that exist, and the bundle claims the highest level up to which
// all answers are proved, no more and no less.
func TestCapabilities(t *testing.T) {
	const path = "docs/capabilities.md"
	data, err := os.ReadFile(filepath.Join(root, path))
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	proved, rows := []bool{}, 0
	for line := range strings.Lines(string(data)) {
		if heading := levelHeading.FindStringSubmatch(strings.TrimSpace(line)); heading != nil {
			if names = append(names, heading[2]); heading[1] != fmt.Sprint(len(names)) {
				t.Errorf("%s: level %s is number %d", path, heading[1], len(names))
			}
			proved = append(proved, true)
			continue
		}
		columns := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), "|")
		if len(names) == 0 || len(columns) != 5 || !strings.HasPrefix(strings.TrimSpace(columns[0]), fmt.Sprint(len(names))+".") {
			continue
		}
		rows++
		question, answer := strings.TrimSpace(columns[0]), strings.TrimSpace(columns[2])
		tests := provingTest.FindAllStringSubmatch(columns[4], -1)
		for _, test := range tests {
			if !hasTest(t, test[1], test[2]) {
				t.Errorf("%s: %s names %s, which is not in %s", path, question, test[2], test[1])
			}
		}
		switch answer {
		case "yes", "in part":
			if len(tests) == 0 {
				t.Errorf("%s: %s names no test", path, question)
			}
		case "no", "open":
		default:
			t.Errorf("%s: %s has the answer %q", path, question, answer)
		}
		if answer != "yes" && answer != "open" {
			proved[len(proved)-1] = false
		}
	}
	if len(names) != 5 || rows < 38 {
		t.Fatalf("%s has %d levels and %d questions", path, len(names), rows)
	}
	level := 0
	for level < len(proved) && proved[level] {
		level++
	}
	if level == 0 {
		t.Fatalf("%s proves not even level 1", path)
	}
	claim := claimedLevel.FindStringSubmatch(string(data))
	if len(claim) != 3 || claim[1] != names[level-1] || claim[2] != fmt.Sprint(level) {
		t.Errorf("%s claims %q, and proves %s, level %d", path, claim, names[level-1], level)
	}
	for _, path := range []string{
		"config/manifests/bases/app-operator.clusterserviceversion.yaml", "bundle/manifests/app-operator.clusterserviceversion.yaml",
	} {
		csv, err := os.ReadFile(filepath.Join(root, path))
		if err != nil {
			t.Fatal(err)
		}
		if said := csvLevel.FindStringSubmatch(string(csv)); len(said) != 2 || said[1] != names[level-1] {
			t.Errorf("%s claims %q, docs/capabilities.md proves %q", path, said, names[level-1])
		}
	}
}

// hasTest reports whether a folder has a test of a name.
func hasTest(t *testing.T, folder, name string) bool {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(root, folder, "*_test.go"))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(data), "\nfunc "+name+"(t *testing.T)") {
			return true
		}
	}
	return false
}
