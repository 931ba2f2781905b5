package cli

import (
	"bytes"
	"testing"

	"huolala.cn/app-operator/plugin/view"
)

// TestPrintChanges prints values that are whole blocks below their line, the old one before the new one, and only with the values.
func TestPrintChanges(t *testing.T) {
	changes := []view.Change{
		{Path: "ports", Old: []any{"a", "b"}, New: []any{"c"}},
		{Path: "tolerations", Old: []any{"d"}},
		{Path: "volumes", New: []any{"e"}},
		{Path: "image", Old: "nginx:1", New: "nginx:2"},
	}
	for showValues, want := range map[bool]string{
		false: "  ~ports\n  -tolerations\n  +volumes\n  image nginx:1 → nginx:2\n",
		true: "  ~ports\n      - - a\n      - - b\n      + - c\n  -tolerations\n      - - d\n  +volumes\n      + - e\n" +
			"  image nginx:1 → nginx:2\n",
	} {
		for range 10 { // The order is the same each time.
			var out bytes.Buffer
			r := &root{Program: Program{Out: &out, Getenv: func(string) string { return "C.utf8" }}, color: "never"}
			if err := r.printChanges(changes, showValues); err != nil || out.String() != want {
				t.Fatalf("with values: %t: %v\n%s", showValues, err, out.String())
			}
		}
	}
}
