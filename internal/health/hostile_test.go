package health

import (
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	appv1 "huolala.cn/app-operator/api/v1"
	"huolala.cn/app-operator/internal/secrecy"
)

// TestLongErrorsAreCut has errors of a runtime that are as long as the command of a user makes them: no more than their beginning is read, and a command
// that does not end within it is hidden.
func TestLongErrorsAreCut(t *testing.T) {
	const most = 2 * secrecy.MaxAnswer
	var texts strings.Builder
	for i := range 100_000 {
		fmt.Fprintf(&texts, "\"%d\"", i)
	}
	for name, words := range map[string]string{
		"many quoted texts": "failed: " + texts.String() + " 12345",
		"a long command":    `failed: "serve --password=secret ` + strings.Repeat("x", 1<<20) + `" serve --password=secret`,
		"a long path":       "failed: `secret/" + strings.Repeat("x", 1<<20) + "` secret",
		"brackets":          "failed: [serve secret " + strings.Repeat("[", 1<<20) + "] secret",
	} {
		for _, without := range []func(string) string{withoutCommand, withoutSubPath} {
			if got := without(words); len(got) > most || !strings.HasPrefix(got, "failed: ") {
				t.Errorf("%s: %d bytes became %d: %.50s", name, len(words), len(got), got)
			}
		}
	}
	for reason, words := range map[string]string{
		"RunContainerError": `failed: "serve --password=secret ` + strings.Repeat("x", 1<<20) + `"`, "CreateContainerConfigError": "failed: `secret" + strings.Repeat("x", 1<<20) + "`",
	} {
		pod := waiting(reason, words)
		if got := CauseOf(&pod); strings.Contains(got.Message, "secret") || !strings.Contains(got.Message, "failed: ") {
			t.Errorf("%s: %s", reason, got)
		}
	}
}

// TestOneContainerIsRedacted has a pod with many containers that do not start: the private values are looked for in the words about the container that is
// the cause, and not once for each container.
func TestOneContainerIsRedacted(t *testing.T) {
	const count = 1000
	pod := waiting("RunContainerError", "failed: S3CR3T-VALUE")
	first := pod.Status.ContainerStatuses[0]
	for i := range count {
		first.Name = fmt.Sprintf("sidecar-%d", i)
		pod.Status.ContainerStatuses = append(pod.Status.ContainerStatuses, first)
	}
	of := &corev1.Pod{Spec: corev1.PodSpec{Containers: []corev1.Container{{Args: []string{"S3CR3T-VALUE"}}}}}
	var found Cause
	allocations := testing.AllocsPerRun(1, func() { found = WorstFor([]corev1.Pod{pod}, false, of) })
	if found.Reason != appv1.ReasonContainerError || strings.Contains(found.Message, "S3CR3T") {
		t.Errorf("%v", found)
	}
	if allocations > count {
		t.Errorf("%.0f allocations for %d containers", allocations, count)
	}
}
