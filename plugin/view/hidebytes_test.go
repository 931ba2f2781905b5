package view

import (
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
)

// keptBytes returns the length of all values.
func keptBytes(v *values) int {
	n := 0
	for value := range v.found {
		n += len(value)
	}
	return n
}

// TestHiddenBytes has values as long as there may be together, and longer: then none is kept, and no text of others is shown.
func TestHiddenBytes(t *testing.T) {
	const length = 1 << 10
	for name, c := range map[string]struct {
		more     string
		complete bool
	}{
		"at the limit":    {"", true},
		"a value again":   {fmt.Sprintf("%0*d", length, 0), true},
		"one value more":  {"12345678", false},
		"a spelling more": {`"quoted"`, false},
	} {
		var v values
		for i := range mostHiddenBytes / length {
			v.addValue(fmt.Sprintf("%0*d", length, i))
		}
		if c.more != "" {
			v.addValue(c.more)
		}
		if v.incomplete == c.complete || keptBytes(&v) != v.bytes || v.bytes > mostHiddenBytes {
			t.Errorf("%s: %d bytes are kept and %d counted; incomplete: %t", name, keptBytes(&v), v.bytes, v.incomplete)
		}
		if got := v.newHider("")("words of others"); (got == "words of others") != c.complete {
			t.Errorf("%s: the words become %q", name, got)
		}
	}
}

// TestManySpellings has variables whose values have many spellings, as many as a list of 30 MB has. Next to nothing of them is kept.
func TestManySpellings(t *testing.T) {
	s := cases()["ready"]
	envs := make([]corev1.EnvVar, 10_000)
	for i := range envs {
		envs[i] = corev1.EnvVar{Name: "PLAIN", Value: fmt.Sprintf("%05d", i) + strings.Repeat(`"/é`, 750)}
	}
	s.Pods[0].Spec.Containers = []corev1.Container{{Name: "cart", Env: envs}}
	if v := s.hiddenValues(); keptBytes(v) > mostHiddenBytes || !v.incomplete {
		t.Errorf("%d values with %d bytes are kept, want at most %d bytes; incomplete: %t", len(v.found), keptBytes(v), mostHiddenBytes, v.incomplete)
	}
}

// TestNoTextWithoutValues has a list of objects with values not be read: no text of others is public. Lists without values do not matter.
func TestNoTextWithoutValues(t *testing.T) {
	for kinds, public := range map[string]bool{kindsPods: false, kindsReplicaSets: false, kindsJobs: false, "Services": true, "Events": true} {
		s := cases()["ready"]
		s.Events, s.Missing = []corev1.Event{{Message: "said by others"}}, []Missing{{kinds, "they are too long"}}
		if said := s.PublicCopy().Events[0].Message; (said == "said by others") != public {
			t.Errorf("without %s, the text is %q", kinds, said)
		}
	}
}
