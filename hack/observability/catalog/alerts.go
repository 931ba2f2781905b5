// Package catalog has the operator's means of observation: the alerts of config/components/alerts, the dashboards, and the page that
// describes both and the metrics that they use.
package catalog

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"

	"sigs.k8s.io/yaml"
)

// Alert is one alerting rule.
type Alert struct {
	Alert         string            `json:"alert"`
	Expr          string            `json:"expr"`
	For           string            `json:"for,omitempty"`
	KeepFiringFor string            `json:"keep_firing_for,omitempty"`
	Labels        map[string]string `json:"labels,omitempty"`
	Annotations   map[string]string `json:"annotations,omitempty"`
}

// Record is one recording rule.
type Record struct {
	Record string `json:"record"`
	Expr   string `json:"expr"`
}

// Group is a group of rules.
type Group[R any] struct {
	Name  string `json:"name"`
	Rules []R    `json:"rules"`
}

// Rules is a file of rules as Prometheus reads it.
type Rules[R any] struct {
	Groups []Group[R] `json:"groups"`
}

// Alerts reads the alerts of the tree in root.
func Alerts(root string) (Rules[Alert], error) {
	path := filepath.Join(root, "config/components/alerts/rules.yaml")
	var object struct {
		Spec Rules[Alert] `json:"spec"`
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return object.Spec, err
	}
	// The rest of the object is the API server's to check; within the rules nothing is unknown.
	_, spec, found := bytes.Cut(data, []byte("\nspec:\n"))
	if !found {
		return object.Spec, fmt.Errorf("%s: no spec", path)
	}
	if err := yaml.UnmarshalStrict(append([]byte("spec:\n"), spec...), &object); err != nil {
		return object.Spec, fmt.Errorf("%s: %w", path, err)
	}
	return object.Spec, nil
}
