package clusterkinds

import (
	"slices"
	"testing"
	"time"

	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	appv1 "huolala.cn/app-operator/api/v1"
)

// TestForbiddenInOneNamespace withdraws the right to list a kind in one of two namespaces, and gives it back: Apps of the other namespace have
// the kind all the time, and its objects are listed once.
func TestForbiddenInOneNamespace(t *testing.T) {
	w := newWorld(t, "shop", "search", "shop")
	w.serves["HTTPRoute"] = true
	w.noteDefinition(w.route().definition, present)
	w.pass(time.Second)
	shop, search := w.kindOf(&gatewayv1.HTTPRoute{}, "shop"), w.kindOf(&gatewayv1.HTTPRoute{}, "search")
	w.noteSynced(shop, shop.objects)
	expect := func(what, wantShop, wantSearch string, woken ...string) {
		t.Helper()
		if got := w.woken(); !slices.Equal(got, woken) {
			t.Errorf("%s: %q were reconciled, want %q", what, got, woken)
		}
		if got := w.checkIn("shop", "cart"); got != wantShop {
			t.Errorf("%s: an App in shop is told %q, want %q", what, got, wantShop)
		}
		if got := w.checkIn("search", "index"); got != wantSearch {
			t.Errorf("%s: an App in search is told %q, want %q", what, got, wantSearch)
		}
	}
	expect("listed in one", "", appv1.ReasonProgressing)
	w.noteRefused(search, search.objects, "403")
	expect("refused in one", "", appv1.ReasonForbidden, "index")
	w.pass(lookAgain)
	expect("being listed again", "", appv1.ReasonForbidden)
	w.noteSynced(search, search.objects)
	expect("given back", "", "", "index")
	if want := []string{"shop/HTTPRoute", "search/HTTPRoute", "-search/HTTPRoute", "search/HTTPRoute"}; !slices.Equal(w.watched, want) {
		t.Errorf("watched: %q, want %q", w.watched, want)
	}
	if w.asked != 1 {
		t.Errorf("the API server was asked %d times", w.asked)
	}
	w.noteDefinition(shop.definition, absent)
	expect("gone", appv1.ReasonKindMissing, appv1.ReasonKindMissing)
	if got := w.checkIn("elsewhere", "web"); got != "" {
		t.Errorf("an App in a namespace that is not watched is told %q", got)
	}
}

// TestMissingInAllNamespaces has a kind without a visible definition be served late, while a resource of one namespace waits: the answer counts for
// all namespaces. An answer that fails has nothing be asked for the namespaces in which no resource waits.
func TestMissingInAllNamespaces(t *testing.T) {
	w := newWorld(t, "shop", "search")
	w.define(hidden)
	w.pass(time.Second)
	w.asked = 0
	if got := w.checkIn("shop", "cart"); got != appv1.ReasonKindMissing {
		t.Fatalf("an App in shop is told %q", got)
	}
	w.fails = true
	w.pass(lookAgain)
	if search := w.kindOf(&gatewayv1.HTTPRoute{}, "search"); !search.due.IsZero() {
		t.Error("without a resource that waits, and an answer, the kind is looked for again")
	}
	w.fails, w.serves["HTTPRoute"] = false, true
	w.pass(lookAgain)
	for _, ns := range []string{"shop", "search"} {
		s := w.kindOf(&gatewayv1.HTTPRoute{}, ns)
		if s.objects == nil {
			t.Errorf("%s: the kind is not watched", ns)
			continue
		}
		w.noteSynced(s, s.objects)
		if got := w.checkIn(ns, "cart"); got != "" {
			t.Errorf("an App in %s is told %q", ns, got)
		}
	}
	if got := w.woken(); !slices.Equal(got, []string{"cart"}) {
		t.Errorf("%q were reconciled", got)
	}
	if w.asked > 8 {
		t.Errorf("the API server was asked %d times", w.asked)
	}
}
