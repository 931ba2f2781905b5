package ui

import (
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"fmt"
	"sync"
	"time"
)

const (
	// codeLife is how long a code for the login is good, sessionLife a session.
	codeLife, sessionLife = 10 * time.Minute, 12 * time.Hour
	// maxSessions is how many browsers can be logged in at once.
	maxSessions = 16
	// repeatTime is how long after a form was carried out the same one is taken for a second click.
	repeatTime = 10 * time.Second
	// maxWrites is how many requests a second of a session may change something.
	maxWrites = 10
)

// sessions are the browsers that are logged in, and the code for the next one.
type sessions struct {
	mu      sync.Mutex
	now     func() time.Time
	code    string
	codeEnd time.Time
	// all has each session by the hash of its secret, so that the time of a lookup discloses nothing of the secret.
	all map[[sha256.Size]byte]*session
}

// session is a browser that is logged in: until when, and how many requests have changed something since the beginning of a second. All sessions have
// the same length, so the oldest one is the first to end.
type session struct {
	end, second time.Time
	writes      int
	// note is a message for the next request of the page noted.
	note, noted string
	// last is the form that was carried out last, nil for none, and for a failed form.
	last *submission
}

// submission is a form that is carried out once.
type submission struct {
	form string
	// done is closed once the form is carried out, with the result err, which nothing reads before then.
	done chan struct{}
	err  error
	// over is until when the same form counts as this one, zero while it is carried out.
	over time.Time
}

// randomHex returns n random bytes in hexadecimal digits.
func randomHex(n int) string {
	secret := make([]byte, n)
	_, _ = rand.Read(secret) // It never fails.
	return hex.EncodeToString(secret)
}

// newCode returns a code that is good once; an earlier one is good no longer.
func (s *sessions) newCode() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.code, s.codeEnd = randomHex(32), s.now().Add(codeLife)
	return s.code
}

// startSession consumes a code, and returns the secret of a new session. The new session replaces the session of the same browser, whose secret is replaced,
// empty for none. Otherwise it replaces the oldest session where there are maxSessions.
func (s *sessions) startSession(code, replaced string) (secret string, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.forgetExpired()
	now := s.now()
	if s.code == "" || !now.Before(s.codeEnd) || subtle.ConstantTimeCompare([]byte(code), []byte(s.code)) != 1 {
		return "", false
	}
	delete(s.all, sha256.Sum256([]byte(replaced)))
	if len(s.all) >= maxSessions {
		s.endOldest()
	}
	s.code, secret = "", randomHex(32)
	s.all[sha256.Sum256([]byte(secret))] = &session{end: now.Add(sessionLife)}
	return secret, true
}

// endOldest ends the session that began first. The caller holds the lock.
func (s *sessions) endOldest() {
	var oldest [sha256.Size]byte
	for hash, known := range s.all {
		if first := s.all[oldest]; first == nil || known.end.Before(first.end) {
			oldest = hash
		}
	}
	delete(s.all, oldest)
}

// forgetExpired removes the sessions that are over. The caller holds the lock.
func (s *sessions) forgetExpired() {
	for hash, known := range s.all {
		if !s.now().Before(known.end) {
			delete(s.all, hash)
		}
	}
}

// isValid reports whether a session has this secret and is not expired.
func (s *sessions) isValid(secret string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	known := s.all[sha256.Sum256([]byte(secret))]
	return known != nil && s.now().Before(known.end)
}

// endSession ends a session.
func (s *sessions) endSession(secret string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.all, sha256.Sum256([]byte(secret)))
}

// mayWrite counts a request of a session that changes something, and reports whether it is within the limit of a second.
func (s *sessions) mayWrite(secret string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	known := s.all[sha256.Sum256([]byte(secret))]
	if known == nil {
		return false
	}
	if now := s.now(); now.Sub(known.second) >= time.Second {
		known.second, known.writes = now, 0
	}
	known.writes++
	return known.writes <= maxWrites
}

// formToken returns the token in the forms of a session. It is useless without the cookie, and does not disclose the secret.
func formToken(secret string) string {
	mac := hmac.New(sha256.New, []byte(secret))
	_, _ = mac.Write([]byte("form"))
	return hex.EncodeToString(mac.Sum(nil))
}

// leaveNote leaves a message for the next request of a page by a session.
func (s *sessions) leaveNote(secret, page, note string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if known := s.all[sha256.Sum256([]byte(secret))]; known != nil {
		known.noted, known.note = page, note
	}
}

// takeNote returns the message for a page, once.
func (s *sessions) takeNote(secret, page string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	known := s.all[sha256.Sum256([]byte(secret))]
	if known == nil || known.noted != page {
		return ""
	}
	note := known.note
	known.noted, known.note = "", ""
	return note
}

// submitForm carries out a form of a session, and returns the result. The same form sent again meanwhile, or within repeatTime after a success, gets the
// result of the first one: a second click does nothing. The result of a panic is ErrUnclear.
func (s *sessions) submitForm(ctx context.Context, secret, form string, perform func(context.Context) error) error {
	s.mu.Lock()
	known := s.all[sha256.Sum256([]byte(secret))]
	if known == nil { // The session has just ended.
		known = &session{}
	}
	if last := known.last; last != nil && last.form == form && (last.over.IsZero() || s.now().Before(last.over)) {
		s.mu.Unlock()
		select {
		case <-last.done:
			return last.err
		case <-ctx.Done():
			return fmt.Errorf("%w: %w", ErrUnclear, ctx.Err())
		}
	}
	submitted := &submission{form: form, done: make(chan struct{}), err: ErrUnclear}
	known.last = submitted
	s.mu.Unlock()
	defer func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		submitted.over = s.now().Add(repeatTime)
		close(submitted.done)
		if submitted.err != nil && known.last == submitted {
			known.last = nil
		}
	}()
	submitted.err = perform(ctx)
	return submitted.err
}
