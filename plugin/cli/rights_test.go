package cli

import (
	"os"
	"strings"
	"testing"
)

// TestDocumented compares the table of rights in the documentation with what the commands need.
func TestDocumented(t *testing.T) {
	page, err := os.ReadFile("../../docs/cli.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range Needs() {
		if row := row(n); !strings.Contains(string(page), row) {
			t.Errorf("docs/cli.md has no row\n%s", row)
		}
	}
}

// row is a command's row in the documentation.
func row(n Need) string {
	groups := func(needed bool) string {
		var texts []string
		for _, verb := range []string{"get", "list", "watch", "create", "patch", "delete"} {
			var resources []string
			for _, r := range n.Rights {
				if r.Verb == verb && r.Needed == needed {
					resources = append(resources, r.Resource)
				}
			}
			if len(resources) > 0 {
				texts = append(texts, verb+" "+strings.Join(resources, ", "))
			}
		}
		return strings.Join(texts, "; ")
	}
	return "| `" + n.Command + "` | " + groups(true) + " | " + groups(false) + " |"
}
