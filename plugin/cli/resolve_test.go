package cli

import (
	"strings"
	"testing"

	"huolala.cn/app-operator/plugin/view"
)

// TestKindsBelow checks that each type around the pods leads to its resource, by its kind and by its plural, and that each short name
// is of a kind that does.
func TestKindsBelow(t *testing.T) {
	for i := range view.AroundTypes {
		for _, word := range []string{strings.ToLower(view.AroundTypes[i].Kind), view.AroundTypes[i].Resource.Resource} {
			if readerBelow(word) == nil {
				t.Errorf("%s leads to no resource", word)
			}
		}
	}
	for short, kind := range belowNames {
		if readerBelow(kind) == nil {
			t.Errorf("%s stands for %s, which leads to no resource", short, kind)
		}
	}
	if readerBelow("node") != nil {
		t.Error("a node leads to a resource")
	}
}
