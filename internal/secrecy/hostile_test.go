package secrecy

import (
	"fmt"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
)

// redactions are the functions that redact words about an object of the operator and of others.
var redactions = map[string]func(string, Object) string{
	"own": func(words string, of Object) string { return RedactText(words, of) }, "foreign": RedactForeign,
}

// withContainer returns a Deployment with a container.
func withContainer(c corev1.Container) *appsv1.Deployment {
	d := &appsv1.Deployment{}
	d.Spec.Template.Spec.Containers = []corev1.Container{c}
	return d
}

// manyParts returns a Deployment with as many parts of a value as fit into maxPartBytes, and an image as long as etcd takes one.
func manyParts() *appsv1.Deployment {
	lines := strings.Repeat("=aaaaaaa1\n", maxPartBytes/10)
	return withContainer(corev1.Container{Image: strings.Repeat("a", 1_200_000), Args: []string{lines}})
}

// TestWordsDoNotGrow has private values that are in the text that replaces a value: what replaces one is not searched for the others, so that the
// words grow by less than the length of that text for each value in them.
func TestWordsDoNotGrow(t *testing.T) {
	values := []string{}
	for from := range messageValueHidden {
		for to := from + minSecret; to <= len(messageValueHidden); to++ {
			values = append(values, messageValueHidden[from:to])
		}
	}
	const words = "a value is denied"
	for name, redact := range redactions {
		got := redact(words, withContainer(corev1.Container{Args: values}))
		if !strings.Contains(got, messageValueHidden) || len(got) > len(words)+len(messageValueHidden) {
			t.Errorf("%s: %d bytes became %d: %.100s", name, len(words), len(got), got)
		}
	}
}

// BenchmarkHostileParts redacts words about a Deployment with many parts of values and long public words.
func BenchmarkHostileParts(b *testing.B) {
	lines := strings.Builder{}
	for i := range maxPartBytes / 12 {
		fmt.Fprintf(&lines, "=<%08d\n", i)
	}
	objects := map[string]*appsv1.Deployment{
		"same":   manyParts(),
		"differ": withContainer(corev1.Container{Image: strings.Repeat("a", 1_200_000), Args: []string{lines.String()}}),
	}
	for name, redact := range redactions {
		for kind, d := range objects {
			b.Run(name+"/"+kind, func(b *testing.B) {
				for b.Loop() {
					redact("pods are denied", d)
				}
			})
		}
	}
}
