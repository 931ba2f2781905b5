package ui

import (
	"net/http"
	"net/url"
	"slices"
	"testing"
	"time"
)

// TestSessionsAreReplaced logs in once more than there can be sessions: the oldest one ends. A browser that has a session replaces its own one, and only by
// a right code.
func TestSessionsAreReplaced(t *testing.T) {
	t.Parallel()
	s := listen(t, newFake())
	now := time.Now()
	s.sessions.now = func() time.Time { return now }
	login := func(code, cookie string) (secret string, status int) {
		now = now.Add(time.Second)
		q := request{
			host: "127.0.0.1:" + s.port, method: http.MethodPost, cookie: cookie,
			contentType: "application/x-www-form-urlencoded", form: url.Values{"code": {code}},
		}
		answer := q.send(s, "/"+s.id+"/login")
		if set, err := http.ParseSetCookie(answer.Header().Get("Set-Cookie")); err == nil {
			secret = set.Value
		}
		return secret, answer.Code
	}
	var secrets []string
	for range maxSessions + 1 {
		secret, status := login(s.NewCode(), "")
		if status != http.StatusOK {
			t.Fatalf("login %d: %d", len(secrets)+1, status)
		}
		secrets = append(secrets, secret)
	}
	check := func(what string, over ...string) {
		t.Helper()
		for i, secret := range secrets {
			if s.sessions.isValid(secret) == slices.Contains(over, secret) {
				t.Errorf("%s: session %d is valid: %t", what, i+1, s.sessions.isValid(secret))
			}
		}
	}
	check("one too many", secrets[0])
	if _, status := login("wrong", secrets[5]); status != http.StatusForbidden {
		t.Errorf("a wrong code: %d", status)
	}
	check("a wrong code", secrets[0])
	if _, status := login(s.NewCode(), secrets[5]); status != http.StatusOK {
		t.Errorf("a browser with a session: %d", status)
	}
	check("a browser with a session", secrets[0], secrets[5])
}
