package view

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
)

// TestImportNamesLostReferences has variables that refer to an earlier one of two: a comment names each whose value changes in the App, and no other.
func TestImportNamesLostReferences(t *testing.T) {
	variable := func(name, value string) corev1.EnvVar { return corev1.EnvVar{Name: name, Value: value} }
	lost := func(name, of string) string {
		return "has " + name + ", which refers to an earlier " + of + "; the App has none, so $(" + of + ") has another value there: write the value out.\n"
	}
	for name, c := range map[string]struct {
		env  []corev1.EnvVar
		want []string
	}{
		"itself":                     {[]corev1.EnvVar{variable("X", "secret"), variable("X", "$(X) more")}, []string{lost("X", "X")}},
		"itself, twice":              {[]corev1.EnvVar{variable("X", "secret"), variable("X", "$(X) b"), variable("X", "$(X) c")}, []string{lost("X", "X")}},
		"between":                    {[]corev1.EnvVar{variable("X", "secret"), variable("Y", "$(X)"), variable("X", "c")}, []string{lost("Y", "X")}},
		"between two of a variable":  {[]corev1.EnvVar{variable("X", "a"), variable("Y", "$(X)"), variable("X", "c"), variable("Y", "d")}, nil},
		"after the last":             {[]corev1.EnvVar{variable("X", "secret"), variable("X", "c"), variable("Y", "$(X)")}, nil},
		"before the first":           {[]corev1.EnvVar{variable("Y", "$(X)"), variable("X", "secret"), variable("X", "c")}, nil},
		"a text that is no variable": {[]corev1.EnvVar{variable("X", "secret"), variable("Y", "$$(X)"), variable("X", "$$$$(X)")}, nil},
		"a text and a variable":      {[]corev1.EnvVar{variable("X", "secret"), variable("Y", "$$$(X)"), variable("X", "c")}, []string{lost("Y", "X")}},
	} {
		t.Run(name, func(t *testing.T) {
			from := &Source{Deployment: foreignDeployment(func(p *corev1.PodSpec) { p.Containers[0].Env = c.env })}
			made, err := ImportOf(from)
			if err != nil {
				t.Fatal(err)
			}
			comments := made.HeadComments()
			for _, want := range c.want {
				if !strings.Contains(comments, want) {
					t.Errorf("want %q in\n%s", want, comments)
				}
			}
			if twice := strings.Count(comments, "several times"); twice > 1+strings.Count(name, "two") {
				t.Errorf("a variable is named more than once in\n%s", comments)
			}
			if got := strings.Count(comments, "which refers to"); got != len(c.want) || strings.Contains(comments, "secret") {
				t.Errorf("want %d references in\n%s", len(c.want), comments)
			}
			verified, err := VerifyImport(made, from)
			if err != nil || len(verified.Differences) == 0 || strings.Contains(verified.Text(), "secret") {
				t.Errorf("%v: %s", err, verified.Text())
			}
		})
	}
}
