package secrecy

import (
	"slices"
	"testing"
)

// TestSpellings has values in the spellings of usual encoders.
func TestSpellings(t *testing.T) {
	for name, c := range map[string]struct{ value, spelling string }{
		"as it is":                    {"geheim", "geheim"},
		"Go":                          {"a\tb\x01", `a\tb\x01`},
		"Go, of JSON":                 {`a"b<c`, `a\"b\u003cc`},
		"JSON without escaped angles": {`a"b<c`, `a\"b<c`},
		"Python":                      {"pä😀", `p\u00e4\ud83d\ude00`},
		".NET":                        {"pä😀", `p\u00E4\uD83D\uDE00`},
		"PHP":                         {"a/b\"ä", `a\/b\"\u00e4`},
		"a query":                     {"a b/c&d=ä", "a+b%2Fc%26d%3D%C3%A4"},
		"a path":                      {"a b/c", "a%20b%2Fc"},
	} {
		if all := Spellings(c.value); !slices.Contains(all, c.spelling) || all[0] != c.value {
			t.Errorf("%s: %q is not among %q", name, c.spelling, all)
		}
	}
	if all := Spellings("plain-value_1.x"); len(all) != 1 {
		t.Errorf("a plain value is spelled %q", all)
	}
}
