package view

import (
	"testing"

	appv1 "huolala.cn/app-operator/api/v1"
)

// TestHeldAt has the annotation for a hold on a resource of each kind: it counts where the operator follows it.
func TestHeldAt(t *testing.T) {
	for _, kind := range Kinds {
		obj := kind.New()
		obj.SetAnnotations(map[string]string{appv1.AnnotationHold: "web-1"})
		r, ok := ResourceOf(obj)
		if !ok || (r.HeldAt() == "web-1") != kind.Holds || r.HeldAt() != "" && !kind.Holds {
			t.Errorf("%s: held at %q", kind.Name, r.HeldAt())
		}
	}
}
