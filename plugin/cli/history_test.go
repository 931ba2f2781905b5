package cli

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

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

// TestHistoryAsData prints the comparison of two revisions as data, with what may be secret only if that is asked for.
func TestHistoryAsData(t *testing.T) {
	t.Parallel()
	secret := func(t *testing.T) *fakeServer {
		t.Helper()
		return revisionsWith(t, func(number int) map[string]any {
			return map[string]any{"image": fmt.Sprint("nginx:", number), "envs": []any{map[string]any{"name": "DB_PASSWORD", "value": fmt.Sprint("secret-", number)}}}
		})
	}
	for _, format := range []string{"json", "yaml"} {
		for _, c := range []struct {
			args       []string
			from, to   int64
			has, lacks []string
		}{
			{[]string{"--diff", "1..2"}, 1, 2, []string{"nginx:1", "nginx:2", "envs[DB_PASSWORD].value"}, []string{"secret-"}},
			{[]string{"--diff", "2..1"}, 2, 1, []string{"nginx:1", "nginx:2"}, []string{"secret-"}},
			{[]string{"--diff", "1..2", "--show-values"}, 1, 2, []string{"secret-1", "secret-2"}, nil},
			{[]string{"--diff", "1..1"}, 1, 1, nil, []string{"nginx", "secret-", "null"}},
		} {
			code, out, said := secret(t).run(t, append([]string{"history", "web", "-o", format}, c.args...)...)
			var found view.Comparison
			if err := yaml.UnmarshalStrict([]byte(out), &found); code != 0 || err != nil {
				t.Errorf("%s, %v: exit status %d, %v\n%s%s", format, c.args, code, err, out, said)
				continue
			}
			want := view.Comparison{
				Meta: view.Meta{APIVersion: view.APIVersion, Kind: "Comparison"}, Resource: "App", Namespace: namespaceOfTests, Name: "web", From: c.from, To: c.to,
			}
			changes := found.Changes
			if found.Changes = nil; fmt.Sprint(found) != fmt.Sprint(want) || (len(changes) == 0) != (c.from == c.to) {
				t.Errorf("%s, %v: %+v with %d changes", format, c.args, found, len(changes))
			}
			for _, text := range c.has {
				if !strings.Contains(out, text) {
					t.Errorf("%s, %v: no %q in\n%s", format, c.args, text, out)
				}
			}
			for _, text := range c.lacks {
				if strings.Contains(out, text) {
					t.Errorf("%s, %v: %q in\n%s", format, c.args, text, out)
				}
			}
		}
	}
	if code, _, said := secret(t).run(t, "history", "web", "--diff", "1..9", "-o", "json"); code != 1 || !strings.Contains(said, "there is no revision 9") {
		t.Errorf("exit status %d, %s", code, said)
	}
}
