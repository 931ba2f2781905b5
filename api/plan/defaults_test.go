package plan

import (
	"strings"
	"testing"
)

// TestDefaultsLine has the line of a plan of AppDefaults, with one and with many.
func TestDefaultsLine(t *testing.T) {
	for want, d := range map[string]Defaults{
		"they count for no App": {},
		"1 App: 1 pod template changes, 1 pod would be replaced, 0 would be invalid": {Apps: 1, Looked: 1, Templates: 1, Pods: 1},
		"214 Apps: 180 pod templates change, 412 pods would be replaced, 31 get a PodDisruptionBudget, 4 get another Ingress, 2 lose their PodMonitor, 3 would be invalid: shop/cart: a; shop/web: b": {
			Apps: 214, Looked: 214, Templates: 180, Pods: 412, Added: map[string]int{"PodDisruptionBudget": 31}, Changed: map[string]int{"Ingress": 4},
			Removed: map[string]int{"PodMonitor": 2},
			Invalid: 3, Examples: []string{"shop/cart: a", "shop/web: b"},
		},
		"5000 Apps, the first 1000 were looked at: 0 pod templates change, 0 pods would be replaced, 0 would be invalid": {Apps: 5000, Looked: 1000},
	} {
		if got := d.Line(1000); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
	long := Defaults{Apps: 9, Looked: 9, Invalid: 9, Examples: []string{strings.Repeat("é", 900), "b", "c", "d"}}
	if got := long.Line(300); len(got) > 300 || !strings.HasSuffix(got, "…") || strings.ContainsRune(got, '�') {
		t.Errorf("%d bytes: %s", len(got), got)
	}
}
