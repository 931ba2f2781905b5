package resource

import (
	"strings"
	"testing"
)

// TestOverrideItems checks that a further item replaces an item in its place: a variable refers to the variables before it alone.
func TestOverrideItems(t *testing.T) {
	for _, c := range []struct{ list, further, want string }{
		{"", "", ""},
		{"a1 b1", "", "a1 b1"},
		{"", "a2 b2", "a2 b2"},
		{"a1 b1", "c2", "a1 b1 c2"},
		{"a1 b1", "a2", "a2 b1"},
		{"a1 b1", "b2", "a1 b2"},
		{"a1 b1", "c2 b2 d2", "a1 c2 b2 d2"},
		{"a1 b1", "c2 b2 a2", "c2 a2 b2"},
		{"a1 b1 c1", "b2 x2 c2 y2", "a1 b2 x2 c2 y2"},
		{"a1 b1 a3", "a2", "a2 b1"},
		{"a1", "a2 a3", "a2 a3"},
	} {
		got := overrideItems(strings.Fields(c.list), strings.Fields(c.further), func(item string) string { return item[:1] })
		if strings.Join(got, " ") != c.want {
			t.Errorf("%q with %q is %q, want %q", c.list, c.further, got, c.want)
		}
	}
}
