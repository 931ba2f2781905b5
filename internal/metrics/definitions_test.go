package metrics

import (
	"regexp"
	"slices"
	"strings"
	"testing"
)

// TestDefinitions checks each metric by the naming rules of Prometheus, and that none has a label by which series would grow without
// end or name what is secret.
func TestDefinitions(t *testing.T) {
	allowed := []string{labelKind, labelNamespace, labelName, labelReason, "what", "result", "action", "server", "version", "commit", "rendering"}
	seen := map[string]bool{}
	for _, d := range All() {
		switch {
		case seen[d.Name]:
			t.Errorf("%s is there twice", d.Name)
		case !regexp.MustCompile(`^app_operator_[a-z_]+[a-z]$`).MatchString(d.Name):
			t.Errorf("%s is no name of a metric of the operator", d.Name)
		case (d.Type == Counter) != strings.HasSuffix(d.Name, "_total"):
			t.Errorf("%s is a %s: _total is for counters, and for them alone", d.Name, d.Type)
		case (d.Type == Histogram) != strings.HasSuffix(d.Name, "_duration_seconds"):
			t.Errorf("%s is a %s: _duration_seconds is for histograms, and for them alone", d.Name, d.Type)
		case !strings.HasSuffix(d.Help, ".") || strings.Contains(d.Help, "\n") || d.Series == "":
			t.Errorf("%s needs one sentence of help, and its series", d.Name)
		}
		seen[d.Name] = true
		for _, label := range d.Labels {
			if !slices.Contains(allowed, label) {
				t.Errorf("%s has the label %s", d.Name, label)
			}
		}
		// A name goes with its namespace, and only in the two that a user acts on alone; everything else is counted.
		if slices.Contains(d.Labels, labelName) && !strings.HasPrefix(d.Name, "app_operator_resource_") {
			t.Errorf("%s has a series an object", d.Name)
		}
	}
}
