package guard

import (
	"net/http"
	"net/netip"
	"strings"

	"k8s.io/client-go/util/flowcontrol"
	"k8s.io/utils/lru"
)

// How many tokens of addresses that have proved nothing are checked: each is a request to the API server, and a line of the log where the
// token is wrong. The rates are in tokens a second, the bursts in tokens.
const (
	tokenRate, tokenBurst         = 1, 5
	allTokensRate, allTokensBurst = 20, 50
	// maxStrangers is how many addresses have a rate of their own at a time. The least recently used one is forgotten first.
	maxStrangers = 1024
)

// LimitStrangers returns a handler that refuses requests without a bearer token, and limits how often addresses without a proof have a
// token checked by next. A scraper that has proved itself by a scrape is not limited.
func LimitStrangers(next http.Handler) http.Handler {
	return &strangers{
		next: next, rates: lru.New(maxStrangers), all: flowcontrol.NewTokenBucketRateLimiter(allTokensRate, allTokensBurst),
	}
}

type strangers struct {
	next http.Handler
	// rates has the rate of each address, all the rate of all addresses together.
	rates *lru.Cache
	all   flowcontrol.RateLimiter
}

// ServeHTTP implements http.Handler.
func (s *strangers) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if token, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer "); !ok || strings.TrimSpace(token) == "" {
		http.Error(w, messageNoToken, http.StatusUnauthorized)
		return
	}
	c, ok := r.Context().Value(connKey{}).(*conn)
	if ok && !c.guard.proofs.isProven(c.from) && !s.acceptCheck(c.from) {
		c.guard.reportRefused(reasonRate)
		w.Header().Set("Retry-After", "1")
		http.Error(w, messageTooManyTokens, http.StatusTooManyRequests)
		return
	}
	s.next.ServeHTTP(w, r)
}

// acceptCheck takes a token check from the rate of an address and from the common rate. An address beyond its own rate takes nothing from
// the common one.
func (s *strangers) acceptCheck(from netip.Addr) bool {
	found, ok := s.rates.Get(from)
	if !ok {
		found = flowcontrol.NewTokenBucketRateLimiter(tokenRate, tokenBurst)
		s.rates.Add(from, found)
	}
	return found.(flowcontrol.RateLimiter).TryAccept() && s.all.TryAccept()
}
