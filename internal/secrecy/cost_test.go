package secrecy

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestNoCauseIsCutInAValue has an answer with a cause before another one, of each length that ends what is read within a value of the other: no cause shows the
// beginning of the value, and a cause that does not fit is not shown at all.
func TestNoCauseIsCutInAValue(t *testing.T) {
	const value, words = "S3CR3T-VALUE-LONG", "denied: --password="
	d := withContainer(corev1.Container{Args: []string{"--password=" + value}})
	for before := MaxAnswer - len(words+value) - 2; before <= MaxAnswer; before++ {
		answer := metav1.Status{Message: strings.Repeat("x", MaxAnswer), Details: &metav1.StatusDetails{Causes: []metav1.StatusCause{
			{Message: strings.Repeat("y", before)}, {Message: words + value}, {Message: words + value},
		}}}
		err := RedactError(&apierrors.StatusError{ErrStatus: answer}, d)
		status, ok := err.(apierrors.APIStatus)
		if !ok {
			t.Fatalf("%T is no answer", err)
		}
		for i, cause := range status.Status().Details.Causes[1:] {
			if !slices.Contains([]string{"denied: " + messageValueHidden, messageValueHidden}, cause.Message) {
				t.Errorf("after %d bytes, cause %d: %s", before, i+1, cause.Message)
			}
		}
	}
}

// TestStartsAreLookedUpOnce has long values that begin alike, and values with the same spelling: each start is looked up once, with the greatest length that a
// value with it has. So at most one start of each length is at a place of the words.
func TestStartsAreLookedUpOnce(t *testing.T) {
	long := strings.Repeat("a", maxPrefix)
	alike := []string{long}
	for i := range 950 {
		alike = append(alike, long+fmt.Sprintf("%04d", i))
	}
	for name, c := range map[string]struct {
		private []string
		want    map[string]int
	}{
		"the start is alike":        {alike, map[string]int{long: wholeText}},
		"as long as a start":        {[]string{long}, map[string]int{long: maxPrefix}},
		"the long value first":      {[]string{long + "b", long}, map[string]int{long: wholeText}},
		"other values":              {[]string{"abcd", "abcde"}, map[string]int{"abcd": 4, "abcde": 5}},
		"the spelling is alike":     {[]string{`a"bc`, `a\"bc`}, map[string]int{`a"bc`: 4, `a\"bc`: 5, `a\\\"bc`: 7, "a%22bc": 6, "a%5C%22bc": 9}},
		"the same value repeatedly": {[]string{"abcd", "abcd"}, map[string]int{"abcd": 4}},
	} {
		got := startsOf(c.private)
		if len(got) != len(c.want) {
			t.Errorf("%s: %d starts, want %d", name, len(got), len(c.want))
		}
		for start, length := range c.want {
			if got[start] != length {
				t.Errorf("%s: %.20s has %d bytes, want %d", name, start, got[start], length)
			}
		}
	}
}

// TestNothingToHideIsCheap has words about an object without private values, private values and no words, and a value without parts: neither makes an index.
func TestNothingToHideIsCheap(t *testing.T) {
	words := []string{strings.Repeat("x", MaxAnswer)}
	for name, run := range map[string]func(){
		"no private values": func() { hideValues(words, make([]bool, len(words)), nil) },
		"no words":          func() { hideValues([]string{"", ""}, make([]bool, 2), []string{private}) },
		"no parts": func() {
			privateValues(foreignLimits, withContainer(corev1.Container{Name: "web", Args: []string{private}}))
		},
	} {
		if made := testing.AllocsPerRun(10, run); made > 12 {
			t.Errorf("%s: %.0f allocations", name, made)
		}
	}
}

// TestPublicNamesBeforeReferences has a container with as many variables as public words have room for, and another container after it: the names and images of
// both are public.
func TestPublicNamesBeforeReferences(t *testing.T) {
	d := withVariables(maxPublicBytes/8, 8, "--sidecar=proxy-sidecar")
	pod := &d.Spec.Template.Spec
	pod.Containers = append(pod.Containers, corev1.Container{Name: "proxy-sidecar", Image: "registry.example.com/proxy:2"})
	pod.InitContainers = []corev1.Container{{Name: "init-container"}}
	public := publicWords([]Object{d})
	for _, name := range []string{"proxy-sidecar", "registry.example.com/proxy:2", "init-container"} {
		if !strings.Contains(public, name) {
			t.Errorf("%s is not public", name)
		}
	}
}

// TestValuesOfPods has pods of usual Apps with more values than are looked for in other objects of others: their words are shown, without the values.
func TestValuesOfPods(t *testing.T) {
	variables, lines := corev1.Container{}, strings.Builder{}
	for i := range 100 {
		variables.Env = append(variables.Env, corev1.EnvVar{Name: "V", Value: fmt.Sprintf("%s-%04d-%0700d", private, i, i)})
	}
	for i := range 2600 {
		fmt.Fprintf(&lines, "key-%04d=%s-%04d\n", i, private, i)
	}
	file := corev1.Container{Env: []corev1.EnvVar{{Name: "V", Value: lines.String()}}}
	for name, c := range map[string]struct {
		container corev1.Container
		value     string
	}{
		"long variables":        {variables, variables.Env[7].Value},
		"a line of properties":  {file, "key-0007=" + private + "-0007"},
		"a value of a property": {file, private + "-0007"},
	} {
		pod := &corev1.Pod{Spec: corev1.PodSpec{Containers: []corev1.Container{c.container}}}
		if got, want := RedactForeign("it fails at "+c.value, pod), "it fails at "+messageValueHidden; got != want {
			t.Errorf("%s: %.200s", name, got)
		}
	}
}

// TestWholeWordsKeepTheirEnd has words that end like words that were cut, and a value that begins like the last of them: words that were not cut stay, however many
// there are.
func TestWholeWordsKeepTheirEnd(t *testing.T) {
	d := withContainer(corev1.Container{Args: []string{"production-db"}})
	const words = `denied: [{"env":"prod"}]`
	if got := RedactText(words, d); got != words {
		t.Errorf("got %s", got)
	}
	if got := RedactForeign(words, d); got != words {
		t.Errorf("foreign: got %s", got)
	}
	if got := RedactText(strings.Repeat("x", MaxAnswer-len("prod"))+"production-db", d); strings.Contains(got, "prod") {
		t.Errorf("cut words end with %s", got[len(got)-40:])
	}
}

// TestBackslashBeforeTheEnd cuts words after a backslash: the value that is open there is found.
func TestBackslashBeforeTheEnd(t *testing.T) {
	if got := cutWords(`value: "a\\"b`, len(`value: "a\`)); got != `value: "a`+openEnd {
		t.Errorf("got %s", got)
	}
}

// TestSecretsOfTwoStates has the values of a Secret before and after a change: equal values count once.
func TestSecretsOfTwoStates(t *testing.T) {
	secret := &corev1.Secret{Data: map[string][]byte{}}
	for i := range maxSecretValues {
		secret.Data[fmt.Sprint(i)] = fmt.Appendf(nil, "value-%d", i)
	}
	if got := RedactText("refused", secret, secret.DeepCopy()); got != "refused" {
		t.Errorf("got %s", got)
	}
	secret.Data["more"] = []byte("one more")
	if got := RedactText("refused", secret, secret.DeepCopy()); got == "refused" {
		t.Error("there is no limit")
	}
}
