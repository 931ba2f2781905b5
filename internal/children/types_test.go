package children

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
)

// TestTypes checks the table: each row says what the others range over it for, and no type is in it twice.
func TestTypes(t *testing.T) {
	if len(typeIndex) != len(Types) {
		t.Errorf("%d types have %d rows", len(typeIndex), len(Types))
	}
	for i := range Types {
		row := &Types[i]
		switch {
		case row.Object == nil || row.Role == 0 || row.Scope == 0:
			t.Errorf("row %d is not complete: %T, %d, %d", i, row.Object, row.Role, row.Scope)
		case (row.Unhashed == nil) != (row.Hashed == nil):
			t.Errorf("%T: Unhashed and Hashed say different things", row.Object)
		case row.Scope == ScopeLive && (row.Trim != nil || row.Wakes != nil):
			t.Errorf("%T is never in the cache, and has what is for it", row.Object)
		}
	}
	if TypeOf(&corev1.ConfigMap{}).Role != 0 {
		t.Error("a type that is not in the table has a row")
	}
}
