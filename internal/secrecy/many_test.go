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
	if got := RedactForeign(words, withArguments(maxForeignValues)); got != shown {
		t.Errorf("with %d values: %s", maxForeignValues, got)
	}
	many := withArguments(maxForeignValues + 1)
	if got := RedactForeign(words, many); got != fmt.Sprintf(messageManyValues, maxForeignValues) {
		t.Errorf("with %d values: %s", maxForeignValues+1, got)
	}
	if got := RedactForeign("", many); got != "" {
		t.Errorf("no words became %q", got)
	}
	if got := RedactText(words, many); got != shown {
		t.Errorf("of an object of the operator: %s", got)
	}
}

// TestForeignWordsAreCut has words that are longer than those that are read, and end within a value: as it is, and in another spelling.
func TestForeignWordsAreCut(t *testing.T) {
	for _, value := range []string{"S3CR3T-VALUE", `S3"CR/3T-VALUE`} {
		d := withArguments(3)
		d.Spec.Template.Spec.Containers[0].Args[1] = value
		for _, spelling := range Spellings(value) {
			for kept := range len(spelling) + 1 {
				got := RedactForeign(strings.Repeat("x", maxForeignWords-kept)+spelling+strings.Repeat("y", 100), d)
				shown := strings.Trim(strings.TrimSuffix(got, openEnd), "xy")
				if len(shown) >= minSecret && shown != messageValueHidden {
					t.Errorf("cut after %d bytes of %s: %s", kept, spelling, shown)
				}
			}
		}
	}
}
