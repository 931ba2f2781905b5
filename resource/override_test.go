package resource

import (
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
)

// TestOverrideItems checks that a further item replaces an item in its place.
func TestOverrideItems(t *testing.T) {
	for _, c := range []struct{ list, further, want string }{
		{"", "", ""},
		{"a1 b1", "", "a1 b1"},
		{"", "a2 b2", "a2 b2"},
		{"a1 b1", "c2", "a1 b1 c2"},
		{"a1 b1", "a2", "a2 b1"},
		{"a1 b1", "c2 b2 a2", "c2 a2 b2"},
		{"a1 b1", "c2 b2 d2", "a1 c2 b2 d2"},
		{"p1", "r2 p2", "r2 p2"},
	} {
		got := overrideItems(strings.Fields(c.list), strings.Fields(c.further), func(item string) string { return item[:1] })
		if strings.Join(got, " ") != c.want {
			t.Errorf("%q with %q is %q, want %q", c.list, c.further, got, c.want)
		}
	}
}

// TestOverrideVariables overrides variables that refer to one another: what resolved before resolves, and what the further ones refer to.
func TestOverrideVariables(t *testing.T) {
	vars := func(text string) (made []corev1.EnvVar) {
		for _, word := range strings.Fields(text) {
			name, value, _ := strings.Cut(word, "=")
			made = append(made, corev1.EnvVar{Name: name, Value: value})
		}
		return made
	}
	for _, c := range []struct{ vars, further, want string }{
		{"A=1 B=1", "", "A=1 B=1"},
		{"A=1 B=1", "A=2", "B=1 A=2"},
		{"A=1 B=1", "A=$(B)", "B=1 A=$(B)"},
		{"HOST=a URL=pg://$(HOST)/x", "HOST=b", "HOST=b URL=pg://$(HOST)/x"},
		{"LOG=info HOST=a", "DSN=pg://$(HOST) LOG=debug", "HOST=a DSN=pg://$(HOST) LOG=debug"},
		{"HOST=a URL=$(HOST)", "X=c HOST=$(X) Y=d", "X=c HOST=$(X) URL=$(HOST) Y=d"},
		{"HOST=a URL=$(HOST)", "Z=1 X=$(Z) HOST=$(X)", "Z=1 X=$(Z) HOST=$(X) URL=$(HOST)"},
		{"HOST=a URL=$(HOST)", "HOST=b URL=c", "HOST=b URL=c"},
		{"A=$(A) B=1", "A=$(A)", "B=1 A=$(A)"},
		{"HOST=a URL=http://$(HOST)", "URL=https://$(HOST) HOST=b", "HOST=b URL=https://$(HOST)"},
		{"A=1 B=1", "A=$(B) B=$(A)", "B=$(A) A=$(B)"},
		{"A=1 A=2 B=$(A)", "A=3", "A=3 B=$(A)"},
		{"HOST=a CMD=$$(echo_$(HOST))", "HOST=b", "HOST=b CMD=$$(echo_$(HOST))"},
		{"HOST=a CMD=$$(HOST)", "HOST=b", "CMD=$$(HOST) HOST=b"},
	} {
		var got []string
		for _, v := range overrideVariables(vars(c.vars), vars(c.further)) {
			got = append(got, v.Name+"="+v.Value)
		}
		if strings.Join(got, " ") != c.want {
			t.Errorf("%q with %q is %q, want %q", c.vars, c.further, got, c.want)
		}
	}
}

// BenchmarkOverrideVariables overrides as many variables as a spec can have, with other names and with the same ones.
func BenchmarkOverrideVariables(b *testing.B) {
	made := func(prefix string) (vars []corev1.EnvVar) {
		for i := range 2000 {
			vars = append(vars, corev1.EnvVar{Name: fmt.Sprintf("%s%d", prefix, i), Value: fmt.Sprintf("$(%s%d)", prefix, i+1)})
		}
		return vars
	}
	for b.Loop() {
		overrideVariables(made("A"), made("B"))
		overrideVariables(made("A"), made("A"))
	}
}

// TestOverrideCost counts the keys that are read to override as many items as a spec can have: a few for each item.
func TestOverrideCost(t *testing.T) {
	var list, further []string
	for i := range 500 {
		list, further = append(list, fmt.Sprint(i)), append(further, fmt.Sprint(499-i))
	}
	read := 0
	overrideItems(list, further, func(item string) string { read++; return item })
	if most := 10 * (len(list) + len(further)); read > most {
		t.Errorf("%d keys are read, want at most %d", read, most)
	}
}
