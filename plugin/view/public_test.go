package view

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
)

// encode returns a value with all that is in it.
func encode(value any) string {
	text, _ := json.Marshal(value)
	return string(text)
}

// TestPublic hides the values of variables in changes of all forms, short ones, too, in a public snapshot and in no other one.
func TestPublic(t *testing.T) {
	variable := map[string]any{"name": "LEVEL", "value": "xyz"}
	for name, c := range map[string]Change{
		"a value":            {Path: "envs[LEVEL].value", Old: "xyz", New: "xyzz"},
		"a variable":         {Path: "envs[LEVEL]", New: variable},
		"all variables":      {Path: "envs", New: []any{variable}},
		"those of a sidecar": {Path: "sidecars[log].env", Old: []any{variable}},
		"a whole sidecar":    {Path: "sidecars[log]", New: map[string]any{"name": "log", "image": "log:1", "env": []any{variable}}},
		"all sidecars":       {Path: "sidecars", New: []any{map[string]any{"name": "log", "env": []any{variable}}}},
	} {
		public := encode((&Snapshot{public: true}).hideChanges([]Change{c}))
		if strings.Contains(public, "xyz") {
			t.Errorf("%s: %s", name, public)
		}
		if own := encode((&Snapshot{}).hideChanges([]Change{c})); !strings.Contains(own, "xyz") {
			t.Errorf("%s: the user's own page has %s", name, own)
		}
	}
	spec := map[string]any{"image": "nginx:1", "envs": []any{variable}}
	if public := fmt.Sprint((&Snapshot{public: true}).HideValues(spec)); strings.Contains(public, "xyz") || !strings.Contains(public, "nginx:1") {
		t.Errorf("the public spec is %s", public)
	}
	if own := fmt.Sprint((&Snapshot{}).HideValues(spec)); !strings.Contains(own, "value:xyz") {
		t.Errorf("the user's own spec is %s", own)
	}
}
