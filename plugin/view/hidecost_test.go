package view

import (
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
)

// TestNamedWordsAreLimited has more names of containers than a hider keeps: a value that is a name beyond the limit is hidden.
func TestNamedWordsAreLimited(t *testing.T) {
	s := cases()["ready"]
	containers := make([]corev1.Container, 2*mostNamed/16)
	for i := range containers {
		containers[i].Name = fmt.Sprintf("container-%06d", i)
	}
	s.Pods[0].Spec.Containers = containers
	named := s.namedWords()
	if len(named) > mostNamed {
		t.Errorf("the named words have %d bytes", len(named))
	}
	v := values{}
	first, last := containers[0].Name, containers[len(containers)-1].Name
	v.addValue(first)
	v.addValue(last)
	if got, want := v.newHider(named)(first+" "+last), first+" "+hidden; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

// TestNamedValuesCount has one value more than are hidden, and each is a named word: no text of others is shown, as they are counted before they
// are looked for in the words.
func TestNamedValuesCount(t *testing.T) {
	v := values{found: map[string]bool{}}
	for i := range mostHidden + 1 {
		v.found[fmt.Sprintf("value-%06d", i)] = true
	}
	if got := v.newHider("value-000000")("words"); got != hidden {
		t.Errorf("got %q", got)
	}
}

// TestBeginningsOfSeveralValues has texts that end with the beginning of one of several values that begin alike: nothing of it is shown.
func TestBeginningsOfSeveralValues(t *testing.T) {
	v := values{}
	for i := range 100 {
		v.addValue(strings.Repeat("secret-", i+2) + "x")
	}
	without := v.newHider("")
	for length := leastHidden; length < 700; length++ {
		text := strings.Repeat("-", mostWhole) + strings.Repeat("secret-", 100)[:length]
		if got := without(text); strings.Contains(got, "secret-") {
			t.Fatalf("after %d bytes: %s", length, got[mostWhole:])
		}
	}
}

// TestBeginningsOfLongValues has texts with as much of a long value as finds it, or less, before their end: of each place, no more of the text than that is
// compared with the values, so that a repetitive text costs no more than another one.
func TestBeginningsOfLongValues(t *testing.T) {
	long := strings.Repeat("a", 4<<20)
	sorted := []string{long + "b", long + "c", long + "d", long + "e"}
	for name, c := range map[string]struct{ text, want string }{
		"no beginning at the end":       {strings.Repeat("a", 1<<20) + "-", hidden},
		"no beginning of enough length": {strings.Repeat("a", mostCompared-1) + "-", strings.Repeat("a", mostCompared-1) + "-"},
		"a beginning of enough length":  {"x" + strings.Repeat("a", mostCompared) + "-", "x" + hidden},
		"a beginning at the end":        {"x" + strings.Repeat("a", leastHidden), "x" + hidden},
		"other words":                   {strings.Repeat("b", 1<<20), strings.Repeat("b", 1<<20)},
		"many beginnings and an end":    {strings.Repeat(strings.Repeat("a", mostCompared-1)+"-", 1<<8), strings.Repeat(strings.Repeat("a", mostCompared-1)+"-", 1<<8)},
	} {
		if got := withoutBeginnings(c.text, sorted); got != c.want {
			t.Errorf("%s: %d bytes, want %d", name, len(got), len(c.want))
		}
	}
}
