package definitions

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestPhrases counts the phrases in comments, and not those of code, of markers and across a period.
func TestPhrases(t *testing.T) {
	dir := folder(t, copies(t, "hack/phrases.sh"))
	const refused = "// This tells what\n// is wrong with one that fails.\n"
	for name, c := range map[string]struct {
		code  string
		count string
		fails bool
	}{
		"phrases, one across lines": {refused, "3 phrases in 9 words", true},
		"a comment after code":      {"var a = 1 // Those of the owner.\n", "1 phrases in 4 words", true},
		"code and a marker":         {"// Package a holds the answers.\nvar tells = \"what is\"\n//nolint:all says\n", "0 phrases in 5 words", false},
		"two sentences":             {"// It is not known what. Is it an error?\n", "0 phrases in 9 words", false},
		"no comments":               {"package a\n", "no comments", true},
	} {
		path := filepath.Join(t.TempDir(), "a.go")
		if err := os.WriteFile(path, []byte(c.code), 0o600); err != nil {
			t.Fatal(err)
		}
		out, err := exec.CommandContext(t.Context(), filepath.Join(dir, "hack/phrases.sh"), path).CombinedOutput()
		if !strings.Contains(string(out), c.count) || (err != nil) != c.fails {
			t.Errorf("%s: %v, %s", name, err, out)
		}
	}
}
