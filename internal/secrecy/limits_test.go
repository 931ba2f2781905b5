package secrecy

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// withVariables returns a Deployment with variables that have names of a length, and an argument.
func withVariables(count, length int, argument string) *appsv1.Deployment {
	c := corev1.Container{Args: []string{argument}}
	for i := range count {
		c.Env = append(c.Env, corev1.EnvVar{Name: fmt.Sprintf("%0*d", length, i)})
	}
	return withContainer(c)
}

// TestLimitsOfWork has objects that are as long as etcd takes them. What is looked for, and what it is looked for in, are limited each: the cost of a
// redaction grows with both.
func TestLimitsOfWork(t *testing.T) {
	differ := strings.Builder{}
	for i := range maxPartBytes / 10 {
		fmt.Fprintf(&differ, "=%08d\n", i)
	}
	long := make([]string, 1000)
	for i := range long {
		long[i] = fmt.Sprintf("%04d", i) + strings.Repeat("x", 1000)
	}
	for name, c := range map[string]struct {
		object         Object
		private        int
		own, isForeign bool
	}{
		"a long image, and parts that are the same": {manyParts(), 3, true, true},
		"long names of variables":                   {withVariables(400, 3000, "--flag=12345678"), 2, true, true},
		"many variables":                            {withVariables(100_000, 8, "--flag=12345678"), 2, true, true},
		"parts that differ":                         {withContainer(corev1.Container{Args: []string{differ.String()}}), maxPartBytes/5 + 1, true, false},
		"many values":                               {withArguments(100_000), ownLimits.values + 1, false, false},
		"long values":                               {withContainer(corev1.Container{Args: long}), len(long), true, false},
	} {
		if words := publicWords([]Object{c.object}); len(words) > maxPublicBytes {
			t.Errorf("%s: the public words have %d bytes", name, len(words))
		}
		if all, few := privateValues(ownLimits, c.object); len(all) > c.private || few != c.own {
			t.Errorf("%s: %d values and parts, want at most %d; few: %t", name, len(all), c.private, few)
		}
		all, few := privateValues(foreignLimits, c.object)
		bytes := 0
		for _, value := range all {
			bytes += min(len(value), maxPrefix)
		}
		if most := foreignLimits; len(all) > min(c.private, most.values+most.parts+1) || bytes > most.bytes+maxPrefix+2*maxPartBytes || few != c.isForeign {
			t.Errorf("%s, of others: %d values and parts with %d bytes; few: %t", name, len(all), bytes, few)
		}
	}
}

// TestLeftOutPublicWords has private values that are like public words beyond the limits: they are hidden, as values are that are like no public word. A
// word that is left out never makes more of a text shown.
func TestLeftOutPublicWords(t *testing.T) {
	const argument, words = "--password=" + private, "it fails with " + private + " in it"
	many := withVariables(maxPublicBytes/8, 8, argument)
	many.Spec.Template.Spec.Containers[0].Env = append(many.Spec.Template.Spec.Containers[0].Env, corev1.EnvVar{Name: private})
	for name, c := range map[string]struct {
		object *appsv1.Deployment
		shown  bool
	}{
		"a name":                       {withContainer(corev1.Container{Name: private, Args: []string{argument}}), true},
		"an image at the limit":        {withContainer(corev1.Container{Image: private + strings.Repeat("x", maxPublicName-len(private)), Args: []string{argument}}), true},
		"an image beyond the limit":    {withContainer(corev1.Container{Image: private + strings.Repeat("x", maxPublicName), Args: []string{argument}}), false},
		"a variable beyond the limit":  {withContainer(corev1.Container{Env: []corev1.EnvVar{{Name: strings.Repeat("x", maxPublicName) + private}}, Args: []string{argument}}), false},
		"a name after too many others": {many, false},
		"no name":                      {withContainer(corev1.Container{Args: []string{argument}}), false},
	} {
		for kind, redact := range redactions {
			if got := redact(words, c.object); strings.Contains(got, private) != c.shown {
				t.Errorf("%s, %s: %s", name, kind, got)
			}
			if got := redact("it fails with "+argument, c.object); strings.Contains(got, private) {
				t.Errorf("%s, %s, the whole value: %s", name, kind, got)
			}
		}
	}
}

// TestManyOwnValues has words about objects of the operator with as many values as are looked for, and more: the words are then not shown.
func TestManyOwnValues(t *testing.T) {
	secret := func(count int) Object {
		s := &corev1.Secret{Data: map[string][]byte{}}
		for i := range count {
			s.Data[fmt.Sprintf("key-%d", i)] = fmt.Appendf(nil, "%08d", i)
		}
		return s
	}
	for name, c := range map[string]struct {
		object Object
		want   string
	}{
		"values":                     {withArguments(ownLimits.values), messageValueHidden + " is denied"},
		"one value more":             {withArguments(ownLimits.values + 1), messageManyValues},
		"values of a Secret":         {secret(maxSecretValues), Withheld},
		"one value of a Secret more": {secret(maxSecretValues + 1), messageManyValues},
	} {
		if got := RedactText("00000007 is denied", c.object); got != c.want {
			t.Errorf("%s: %s", name, got)
		}
	}
}

// TestManyCauses has an answer with more causes, and a longer one, than are read: no value is in any of them, and the fields are still there.
func TestManyCauses(t *testing.T) {
	const count = 5000
	answer := metav1.Status{Message: strings.Repeat("x", 1<<20) + private, Details: &metav1.StatusDetails{}}
	for i := range count {
		answer.Details.Causes = append(answer.Details.Causes, metav1.StatusCause{Field: fmt.Sprint(i), Message: "denied: " + private})
	}
	for name, c := range map[string]struct {
		object Object
		first  string
	}{
		"a variable": {withContainer(corev1.Container{Env: []corev1.EnvVar{{Value: private}}}), "denied: " + messageValueHidden},
		"a Secret":   {&corev1.Secret{Data: map[string][]byte{"key": []byte(private)}}, Withheld},
		"too many":   {withArguments(ownLimits.values + 1), messageManyValues},
	} {
		var status apierrors.APIStatus
		if !errors.As(RedactError(&apierrors.StatusError{ErrStatus: answer}, c.object), &status) {
			t.Fatalf("%s: no answer", name)
		}
		got := status.Status()
		if len(got.Message) > MaxAnswer+len(openEnd) || len(got.Details.Causes) != count || got.Details.Causes[0].Message != c.first {
			t.Errorf("%s: %d bytes, %d causes, %+v", name, len(got.Message), len(got.Details.Causes), got.Details.Causes[0])
		}
		for i, cause := range got.Details.Causes {
			if strings.Contains(cause.Message, private) || cause.Field != fmt.Sprint(i) {
				t.Fatalf("%s: %+v", name, cause)
			}
		}
		last := got.Details.Causes[count-1].Message
		if !slices.Contains([]string{messageValueHidden, messageManyValues}, last) {
			t.Errorf("%s: the last cause is %s", name, last)
		}
	}
}

// TestSecretAcrossTheEnd has a value of a Secret whose beginning alone is among the words that are read.
func TestSecretAcrossTheEnd(t *testing.T) {
	secret := &corev1.Secret{Data: map[string][]byte{"key": []byte(strings.Repeat(private, 1000))}}
	for before := MaxAnswer - 3000; before < MaxAnswer; before += 7 {
		if got := RedactText(strings.Repeat("x", before)+strings.Repeat(private, 1000), secret); got != Withheld {
			t.Fatalf("after %d bytes: %s", before, got[before:])
		}
	}
}

// TestOverlappingValues has values that overlap each other, and themselves: all that any of them covers is hidden.
func TestOverlappingValues(t *testing.T) {
	long := strings.Repeat("long-", maxPrefix)
	for words, want := range map[string]string{
		"x abcdefghijkl x":      "x " + messageValueHidden + " x",
		"x aaaaaaaaaaaaaaaaa x": "x " + messageValueHidden + " x",
		"efghabcd":              messageValueHidden,
		"x " + long + "abcd":    "x " + messageValueHidden,
		"nothing of them":       "nothing of them",
		"abcdefg":               "abcdefg",
	} {
		d := withContainer(corev1.Container{Args: []string{"abcdefgh", "efghijkl", "aaaaaaaa", "efghabcd", long}})
		if got := RedactText(words, d); got != want {
			t.Errorf("%.40s: %.100s", words, got)
		}
	}
	if got := hideValues([]string{"abcd", "efgh", "", "ijkl"}, make([]bool, 4), []string{"efgh", "abcd\x00ef"}); !slices.Equal(got, []string{messageValueHidden, messageValueHidden, "", "ijkl"}) {
		t.Errorf("%q", got)
	}
}
