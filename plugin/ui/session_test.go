package ui

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"testing"
	"testing/synctest"
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

// TestFormThatPanics submits a form whose action panics, and submits it again meanwhile and afterwards: the first repetition learns that the result is
// unclear, and the second one is carried out.
func TestFormThatPanics(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := listen(t, newFake())
		defer s.end()
		secret := login(t, s)
		submit := func(perform func() error) error {
			return s.sessions.submitForm(t.Context(), secret, "restart", func(context.Context) error { return perform() })
		}
		panicked, meanwhile := make(chan any, 1), make(chan error, 1)
		go func() {
			defer func() { panicked <- recover() }()
			_ = submit(func() error {
				go func() {
					meanwhile <- submit(func() error { return nil })
				}()
				<-time.After(time.Second) // The repetition waits for the result by then.
				panic("a defect")
			})
		}()
		if got := <-panicked; got != "a defect" {
			t.Errorf("the panic is %v", got)
		}
		synctest.Wait()
		select {
		case err := <-meanwhile:
			if !errors.Is(err, ErrUnclear) {
				t.Errorf("the repetition gets %v, want %v", err, ErrUnclear)
			}
		default:
			t.Fatal("the repetition waits after the panic")
		}
		done := 0
		if err := submit(func() error { done++; return nil }); err != nil || done != 1 {
			t.Errorf("the form is carried out %d times afterwards: %v", done, err)
		}
	})
}
