package cli

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net/http"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

const (
	// readWithin is how long a read of a wait may take. A server that hangs is noticed by no other means where a connection has no keep-alive.
	readWithin = 30 * time.Second
	// lastRead is how long the last read of a wait may take, although the wait is over before.
	lastRead = 5 * time.Second
)

// messageLost is the note on a read of a wait that has failed.
const messageLost = "%s cannot be read, and is tried again: %v\n"

// isTransient reports whether the same request may succeed later: after no answer, or an answer about a trouble of the API server, such as 503 or 429.
// Any other answer, and a wrong certificate, would be the same again.
func isTransient(err error) bool {
	var certificate *tls.CertificateVerificationError
	if err == nil || errors.As(err, &certificate) {
		return false
	}
	var answered apierrors.APIStatus
	if !errors.As(err, &answered) {
		return true
	}
	code := answered.Status().Code
	return code == http.StatusTooManyRequests || code < http.StatusBadRequest || code >= http.StatusInternalServerError
}

// retrier decides whether a wait repeats a read that has failed.
type retrier struct {
	// what names the object that is read. From the time until on, no read is repeated; it is zero for no limit.
	what  string
	until time.Time
	// print prints a note on the first of several failures in a row.
	print func(note string)
	lost  bool
}

// newRetrier returns a retrier whose notes go to the standard error.
func (r *root) newRetrier(what string, within time.Duration) *retrier {
	return &retrier{what: what, until: time.Now().Add(within), print: func(note string) { fmt.Fprint(r.Err, note) }}
}

// boundRead returns a context for a read: it ends after readWithin, or with the wait, but for lastRead.
func (t *retrier) boundRead(ctx context.Context) (context.Context, context.CancelFunc) {
	within := readWithin
	if !t.until.IsZero() {
		within = max(lastRead, min(within, time.Until(t.until)))
	}
	return context.WithTimeout(ctx, within)
}

// wantsRetry reports whether a read with this result is to be repeated after a pause.
func (t *retrier) wantsRetry(err error) bool {
	if !isTransient(err) {
		t.lost = false
		return false
	}
	if !t.until.IsZero() && !time.Now().Before(t.until) {
		return false
	}
	if !t.lost {
		t.lost = true
		t.print(fmt.Sprintf(messageLost, t.what, err))
	}
	return true
}
