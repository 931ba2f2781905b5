package reconciler

import (
	"fmt"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clocktesting "k8s.io/utils/clock/testing"

	appv1 "huolala.cn/app-operator/api/v1"
)

// countedEvents counts the events of each namespace.
type countedEvents map[string]int

func (c countedEvents) Eventf(regarding, _ runtime.Object, _, _, _, _ string, _ ...any) {
	c[regarding.(*appv1.App).Namespace]++
}

// TestLimitEvents has one namespace send more events than its share for an hour. Another namespace loses none, and the first one has its share again
// after a pause.
func TestLimitEvents(t *testing.T) {
	clock, sent, dropped := clocktesting.NewFakePassiveClock(time.Now()), countedEvents{}, 0
	recorder := LimitEvents(sent, clock, func() { dropped++ })
	send := func(namespace string, n int) {
		for range n {
			recorder.Eventf(&appv1.App{ObjectMeta: metav1.ObjectMeta{Namespace: namespace}}, nil, "Normal", "Configured", "Reconcile", "a")
		}
	}
	send("busy", eventBurst)
	if dropped > 0 {
		t.Errorf("%d events of the burst are dropped", dropped)
	}
	const hour = 3600
	for range hour {
		clock.SetTime(clock.Now().Add(time.Second))
		send("busy", 60)
		send("quiet", 1)
	}
	if most := eventBurst + hour*eventRate; sent["busy"] != most || dropped != eventBurst+hour*60-most {
		t.Errorf("%d events are sent and %d dropped, want %d sent", sent["busy"], dropped, most)
	}
	if sent["quiet"] != hour {
		t.Errorf("%d events of another namespace are sent, want %d", sent["quiet"], hour)
	}
	clock.SetTime(clock.Now().Add(eventsIdle))
	send("busy", eventBurst)
	if most := 2*eventBurst + hour*eventRate; sent["busy"] != most {
		t.Errorf("after a pause, %d events are sent, want %d", sent["busy"], most)
	}
}

// TestForgottenShares has events of more namespaces than are remembered: the idle ones are forgotten, and those in use keep their state.
func TestForgottenShares(t *testing.T) {
	clock, sent := clocktesting.NewFakePassiveClock(time.Now()), countedEvents{}
	recorder, ok := LimitEvents(sent, clock, func() {}).(*limitedEvents)
	if !ok {
		t.Fatal("it is no limitedEvents")
	}
	for i := range 3 * eventNamespaces {
		clock.SetTime(clock.Now().Add(eventsIdle / eventNamespaces))
		for _, namespace := range []string{fmt.Sprint("namespace-", i), "busy"} {
			recorder.Eventf(&appv1.App{ObjectMeta: metav1.ObjectMeta{Namespace: namespace}}, nil, "Normal", "Configured", "Reconcile", "a")
		}
		if n := len(recorder.namespaces); n > 2*eventNamespaces {
			t.Fatalf("%d namespaces are remembered", n)
		}
		if recorder.namespaces["busy"] == nil {
			t.Fatal("a namespace in use is forgotten")
		}
	}
}

// sentNote is the note of the latest event.
type sentNote string

func (s *sentNote) Eventf(_, _ runtime.Object, _, _, _, note string, args ...any) {
	*s = sentNote(fmt.Sprintf(note, args...))
}

// TestNotesFitTheAPI has events with long and short texts: each is sent as long as the API server takes it.
func TestNotesFitTheAPI(t *testing.T) {
	n := func(most int) string { return strings.Repeat("n", most) }
	for name, c := range map[string]struct {
		format string
		args   []any
		want   sentNote
	}{
		"short":             {"wave %d: %s", []any{3, "100% of web"}, "wave 3: 100% of web"},
		"no more than that": {"%s", []any{n(maxNote)}, sentNote(n(maxNote))},
		"an argument":       {"%s", []any{n(maxNote + 1)}, sentNote(n(maxNote-3) + "…")},
		"many arguments":    {"%s, %s", []any{n(600), n(600)}, sentNote(n(600) + ", " + n(maxNote-605) + "…")},
		"a format alone":    {n(2 * maxNote), nil, sentNote(n(maxNote-3) + "…")},
		"other letters":     {"%s", []any{strings.Repeat("界", maxNote)}, sentNote(strings.Repeat("界", 340) + "…")},
	} {
		var sent sentNote
		LimitEvents(&sent, clocktesting.NewFakePassiveClock(time.Now()), func() {}).Eventf(&appv1.App{}, nil, "Normal", "Wave", "Reconcile", c.format, c.args...)
		if sent != c.want {
			t.Errorf("%s: %q, want %q", name, sent, c.want)
		}
	}
}
