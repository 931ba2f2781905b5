package clusterkinds

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"k8s.io/client-go/rest"

	appv1 "huolala.cn/app-operator/api/v1"
)

// TestRightToDefinitionsComesBack has the right to watch the definitions be withdrawn and come back. The watch is tried again every few minutes
// while a kind is looked for, and not otherwise.
func TestRightToDefinitionsComesBack(t *testing.T) {
	w := newWorld(t)
	w.define(absent)
	w.define(hidden)
	w.pass(time.Hour)
	w.expect("nobody waits", 0, appv1.ReasonKindMissing)
	if len(w.followed) > 0 {
		t.Errorf("nobody waits, and the watch of %q is tried", w.followed)
	}
	look := func(minutes int) {
		for range minutes {
			w.check("web")
			w.pass(lookAgain)
		}
	}
	both := []string{w.definitions[0].name, w.definitions[1].name}
	look(3 * hiddenLooks)
	if !slices.Equal(w.followed, both) { // A look for one kind is for all.
		t.Errorf("while nothing is answered, the watch of %q is tried, want %q", w.followed, both)
	}
	w.asked, w.followed = 0, nil
	w.noteDefinition(w.route().definition, hidden)
	look(hiddenLooks - 1)
	if len(w.followed) > 0 {
		t.Errorf("within a few minutes after a refusal, the watch of %q is tried", w.followed)
	}
	if w.asked < hiddenLooks-2 || w.asked > hiddenLooks {
		t.Errorf("in %d minutes the API server was asked %d times", hiddenLooks-1, w.asked)
	}
	look(2)
	if tried := both[:1]; !slices.Equal(w.followed, tried) {
		t.Errorf("after some minutes the watch of %q is tried, want %q", w.followed, tried)
	}
	w.noteListed(w.route().definition)
	w.asked = 0
	look(10)
	w.expect("the right is back", 0, appv1.ReasonKindMissing)
	w.serves["HTTPRoute"] = true
	w.noteDefinition(w.route().definition, present)
	w.pass(time.Second)
	w.noteSynced(w.route(), w.route().objects)
	w.expect("the kind has come", 1, "", "web")
}

// TestFollowAfterARefusal watches a definition next to an API server that refuses it at first: each watch ends with its refusal, and one that is
// begun later works.
func TestFollowAfterARefusal(t *testing.T) {
	var given atomic.Bool
	var refusals atomic.Int32
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		answer := func(code int, reason string) {
			w.WriteHeader(code)
			fmt.Fprintf(w, `{"kind":"Status","apiVersion":"v1","status":"Failure","code":%d,"reason":%q}`, code, reason)
		}
		query := r.URL.Query()
		switch {
		case !given.Load():
			refusals.Add(1)
			answer(http.StatusForbidden, "Forbidden")
		case query.Get("sendInitialEvents") != "":
			answer(http.StatusUnprocessableEntity, "Invalid")
		case query.Get("watch") != "":
			w.WriteHeader(http.StatusOK)
			<-r.Context().Done()
		case strings.HasSuffix(r.URL.Path, "/customresourcedefinitions"):
			fmt.Fprint(w, `{"kind":"PartialObjectMetadataList","apiVersion":"meta.k8s.io/v1","metadata":{"resourceVersion":"1"},"items":[]}`)
		}
	}))
	t.Cleanup(server.Close) // The watch ends with the context of the test.
	w := newWorld(t)
	w.opts.Config, w.opts.HTTPClient = &rest.Config{Host: server.URL}, server.Client()
	d := w.route().definition
	await := func(want definitionState) {
		t.Helper()
		for range w.changed { // Each new state wakes the loop.
			w.mu.Lock()
			got := d.state
			w.mu.Unlock()
			if got == want {
				return
			}
			if got != undecided {
				t.Fatalf("the state of the definition is %d, want %d", got, want)
			}
		}
	}
	for range 2 {
		if err := w.followDefinition(t.Context(), d); err != nil {
			t.Fatal(err)
		}
		await(hidden)
		w.mu.Lock()
		d.state = undecided
		w.mu.Unlock()
	}
	if n := refusals.Load(); n == 0 {
		t.Error("nothing was asked")
	}
	given.Store(true)
	if err := w.followDefinition(t.Context(), d); err != nil {
		t.Fatal(err)
	}
	await(absent)
}
