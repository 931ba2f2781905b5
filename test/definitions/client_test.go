package definitions

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestProgramIsDocumented checks that the program in docs/client.md is the one that is compiled and run.
func TestProgramIsDocumented(t *testing.T) {
	const page, program = "docs/client.md", "test/consumer/main.go"
	var texts [2]string
	for i, path := range []string{page, program} {
		data, err := os.ReadFile(filepath.Join(root, path))
		if err != nil {
			t.Fatal(err)
		}
		texts[i] = string(data)
	}
	if !strings.Contains(texts[0], "```go\n"+texts[1]+"```\n") {
		t.Errorf("%s does not show %s; copy the file into it", page, program)
	}
}
