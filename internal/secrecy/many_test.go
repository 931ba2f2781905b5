package secrecy

import (
	"fmt"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
)

// withArguments returns a Deployment with a number of arguments that all differ.
func withArguments(count int) *appsv1.Deployment {
	d := &appsv1.Deployment{}
	args := make([]string, count)
	for i := range args {
		args[i] = fmt.Sprintf("%08d", i)
	}
	d.Spec.Template.Spec.Containers = []corev1.Container{{Name: "web", Args: args}}
	return d
}

// TestManyPrivateValues has words about objects of others with as many private values as are looked for, and with one more: the words are then not
// shown. Words about an object of the operator are shown.
func TestManyPrivateValues(t *testing.T) {
	const words, shown = "00000007 is denied", messageValueHidden + " is denied"
	if got := RedactForeign(words, withArguments(foreignLimits.values)); got != shown {
		t.Errorf("with %d values: %s", foreignLimits.values, got)
	}
	many := withArguments(foreignLimits.values + 1)
	if got := RedactForeign(words, many); got != messageManyValues {
		t.Errorf("with %d values: %s", foreignLimits.values+1, got)
	}
	if got := RedactForeign("", many); got != "" {
		t.Errorf("no words became %q", got)
	}
	if got := RedactText(words, many); got != shown {
		t.Errorf("of an object of the operator: %s", got)
	}
}

// TestManyValuesOfPods has words about pods with as many private values as are looked for in a pod, and with one more.
func TestManyValuesOfPods(t *testing.T) {
	for count, want := range map[int]string{podLimits.values: messageValueHidden + " is denied", podLimits.values + 1: messageManyValues} {
		pod := &corev1.Pod{Spec: withArguments(count).Spec.Template.Spec}
		if got := RedactForeign("00000007 is denied", pod); got != want {
			t.Errorf("with %d values: %s", count, got)
		}
	}
}

// TestCutWords has words that are longer than those that are read, and end within a value: as it is, and in another spelling.
func TestCutWords(t *testing.T) {
	for name, most := range map[string]int{"own": MaxAnswer, "foreign": maxForeignWords} {
		for _, value := range []string{"S3CR3T-VALUE", `S3"CR/3T-VALUE`} {
			d := withArguments(3)
			d.Spec.Template.Spec.Containers[0].Args[1] = value
			for _, spelling := range Spellings(value) {
				for kept := range len(spelling) + 1 {
					got := redactions[name](strings.Repeat("x", most-kept)+spelling+strings.Repeat("y", 100), d)
					shown := strings.Trim(strings.TrimSuffix(got, openEnd), "xy")
					if len(shown) >= minSecret && shown != messageValueHidden {
						t.Errorf("%s, cut after %d bytes of %s: %s", name, kept, spelling, shown)
					}
				}
			}
		}
	}
}
