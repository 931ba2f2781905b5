package children

import (
	"fmt"
	"strings"
	"testing"
	"unsafe"

	appsv1 "k8s.io/api/apps/v1"

	appv1 "huolala.cn/app-operator/api/v1"
)

// TestEqualInputsAreHeldOnce trims Deployments with equal records: all have one text in memory. Other records do not push it out without end.
func TestEqualInputsAreHeldOnce(t *testing.T) {
	trimmed := func(record string) string {
		d := &appsv1.Deployment{}
		d.Annotations = map[string]string{appv1.AnnotationLastAppliedInputs: strings.Clone(record)}
		trimDeployment(d)
		return d.Annotations[appv1.AnnotationLastAppliedInputs]
	}
	record := `{"rendering":2,"defaults":"` + strings.Repeat("x", 4000) + `"}`
	long := record + strings.Repeat("x", maxShared)
	if first, second := trimmed(long), trimmed(long); first != second || unsafe.StringData(first) == unsafe.StringData(second) {
		t.Error("a record that no defaults have stays in memory")
	}
	first, second := trimmed(record), trimmed(record)
	if first != record || unsafe.StringData(first) != unsafe.StringData(second) {
		t.Error("equal records are two texts")
	}
	for i := range 10 * maxKnown {
		if got, want := trimmed(fmt.Sprint(record, i)), fmt.Sprint(record, i); got != want {
			t.Fatalf("%.20s became %.20s", want, got)
		}
		if len(recordedInputs.known) > maxKnown {
			t.Fatalf("%d texts are kept", len(recordedInputs.known))
		}
	}
}
