package main

import (
	"go/format"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const types = `package v1

type Rules struct {
	Name    string            ` + "`json:\"name,omitzero\"`" + `
	Plain   []string          ` + "`json:\"plain,omitempty\"`" + `
	Ingress []Rule            ` + "`json:\"ingress,omitzero\"`" + `
	Labels  map[string]string ` + "`json:\"labels,omitzero\"`" + `
}
`

const configuration = `package v1

type RulesApplyConfiguration struct {
	Plain   []string                ` + "`json:\"plain,omitempty\"`" + `
	Ingress []RuleApplyConfiguration ` + "`json:\"ingress,omitempty\"`" + `
	Labels  map[string]string       ` + "`json:\"labels,omitempty\"`" + `
}

func (b *RulesApplyConfiguration) WithIngress(values ...*RuleApplyConfiguration) *RulesApplyConfiguration {
	for i := range values {
		b.Ingress = append(b.Ingress, *values[i])
	}
	return b
}

func (b *RulesApplyConfiguration) WithLabels(entries map[string]string) *RulesApplyConfiguration {
	if b.Labels == nil && len(entries) > 0 {
		b.Labels = make(map[string]string, len(entries))
	}
	for k, v := range entries {
		b.Labels[k] = v
	}
	return b
}
`

// finish runs the command with a file of types and a file of configurations, and returns the new configurations.
func finish(t *testing.T, types, configuration string) (string, error) {
	t.Helper()
	in, out := t.TempDir(), t.TempDir()
	file := filepath.Join(out, "rules.go")
	if err := os.WriteFile(filepath.Join(in, "types.go"), []byte(types), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(configuration), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := run([]string{in, out}); err != nil {
		return "", err
	}
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(text), nil
}

func TestEmptyListsAndMapsAreKept(t *testing.T) {
	got, err := finish(t, types, configuration)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		`json:"ingress,omitzero"`, `json:"labels,omitzero"`, `json:"plain,omitempty"`,
		"if b.Ingress == nil {\n\t\tb.Ingress = []RuleApplyConfiguration{}\n", "if b.Labels == nil {\n",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("%q is missing in:\n%s", want, got)
		}
	}
	if _, err := format.Source([]byte(got)); err != nil {
		t.Error(err)
	}
}

// TestUnknownSourceFails checks that a change of the types or of the generator fails the generation and is not left without effect.
func TestUnknownSourceFails(t *testing.T) {
	for name, c := range map[string]struct{ types, configuration, want string }{
		"no list or map":      {"package v1\n", configuration, "remove this step"},
		"another tag":         {types, strings.ReplaceAll(configuration, `"ingress,omitempty"`, `"ingress"`), "has no tag"},
		"another list's loop": {types, strings.ReplaceAll(configuration, "for i := range values", "for i := range len(values)"), "WithIngress"},
		"another map's test":  {types, strings.ReplaceAll(configuration, "b.Labels == nil &&", "nil == b.Labels &&"), "WithLabels"},
	} {
		if _, err := finish(t, c.types, c.configuration); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v, want %q", name, err, c.want)
		}
	}
}
