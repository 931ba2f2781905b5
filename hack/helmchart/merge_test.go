package main

import (
	"strings"
	"testing"
)

// TestMerge writes the template of a text in four variants, and reads each of them back.
func TestMerge(t *testing.T) {
	values := []string{"a", "b"}
	variants := [][]string{
		{"head", "only: x", "args:", "tail"},
		{"head", "only: x", "args:", "- a", "both: no", "volumes:", "- a", "tail"},
		{"head", "args:", "- b", "volumes:", "- b", "tail"},
		{"head", "args:", "- a", "- b", "volumes:", "- a", "- b", "tail"},
	}
	merged := merge(variants)
	for v, want := range variants {
		var got []string
		for _, l := range merged {
			if l.in[v] {
				got = append(got, l.text)
			}
		}
		if strings.Join(got, "\n") != strings.Join(want, "\n") {
			t.Errorf("variant %d is %q, want %q", v, got, want)
		}
	}
	const want = `head
{{- if not .Values.b }}
only: x
{{- end }}
args:
{{- if .Values.a }}
- a
{{- end }}
{{- if and .Values.a (not .Values.b) }}
both: no
{{- end }}
{{- if .Values.b }}
- b
{{- end }}
{{- if or (and .Values.a (not .Values.b)) (and (not .Values.a) .Values.b) (and .Values.a .Values.b) }}
volumes:
{{- end }}
{{- if .Values.a }}
- a
{{- end }}
{{- if .Values.b }}
- b
{{- end }}
tail
`
	if got := write(merged, values); got != want {
		t.Errorf("the template is\n%s\nwant\n%s", got, want)
	}
}
