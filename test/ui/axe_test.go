package ui

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"huolala.cn/app-operator/test/harness"
)

// axe returns the program that checks a page by the rules of accessibility. It is not committed: make test-ui gets it.
func axe(t testing.TB) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(harness.Root(), "bin", "axe.min.js"))
	if errors.Is(err, fs.ErrNotExist) && os.Getenv("CI") != "true" {
		t.Skip("there is no bin/axe.min.js: make bin/axe.min.js, which needs npm")
	}
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// audit returns what breaks a rule of WCAG 2.0, level A or AA.
func audit(b *tab, axe string) []string {
	b.t.Helper()
	value[bool](b, axe+"; true")
	return value[[]string](b, `axe.run({runOnly: ["wcag2a", "wcag2aa"], resultTypes: ["violations"]}).then(
		r => r.violations.flatMap(v => v.nodes.map(n => v.id + ": " + v.help + "\n" + n.html + "\n" + n.failureSummary)))`)
}
