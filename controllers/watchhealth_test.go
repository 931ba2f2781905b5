package controllers

import (
	"maps"
	"testing"
	"time"
)

// fakeWatch is the list and watch of a kind.
type fakeWatch struct{ goType, version string }

func (w *fakeWatch) TypeDescription() string         { return w.goType }
func (w *fakeWatch) LastSyncResourceVersion() string { return w.version }

// TestWatchHealth checks that a kind counts as broken from a failure on until its list or watch goes on.
func TestWatchHealth(t *testing.T) {
	now := time.Unix(0, 0)
	h := &watchHealth{now: func() time.Time { return now }, failed: map[watched]watchFailure{}, kinds: map[string]bool{}}
	expect := func(when string, want map[string]bool) {
		t.Helper()
		if got := h.brokenKinds(); !maps.Equal(got, want) {
			t.Errorf("%s: broken are %v, want %v", when, got, want)
		}
	}
	expect("at the start", map[string]bool{})

	one, other := &fakeWatch{"*stored.App", "5"}, &fakeWatch{"*stored.App", "7"}
	pods := &fakeWatch{"*v1.Pod", ""}
	h.noteResult(one)
	h.noteResult(other)
	h.noteResult(pods)
	expect("after failures", map[string]bool{"App": true, "Pod": true})
	one.version = "6"
	expect("while one namespace still fails", map[string]bool{"App": true, "Pod": true})
	other.version = "8"
	expect("after a success in each", map[string]bool{"App": false, "Pod": true})

	now = now.Add(watchPatience / 2)
	h.noteResult(pods)
	now = now.Add(watchPatience)
	expect("while it keeps failing", map[string]bool{"App": false, "Pod": true})
	now = now.Add(time.Second)
	expect("when no failure was heard of for long", map[string]bool{"App": false, "Pod": false})
	if len(h.failed) != 0 {
		t.Errorf("%d failures are remembered for ever", len(h.failed))
	}
}
