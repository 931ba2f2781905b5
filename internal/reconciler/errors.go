package reconciler

import (
	"errors"
	"fmt"
	"time"

	appv1 "huolala.cn/app-operator/api/v1"
)

// StalledError says that nothing more can be done until a user acts. It is reported in the status and not retried:
// what would change it is watched.
type StalledError struct {
	// Reason is the condition's reason; Message says what is wrong and what to do.
	Reason, Message string
	// RetryAfter, if set, is when it is worth looking again although nothing was seen to change.
	RetryAfter time.Duration
}

func (e *StalledError) Error() string { return e.Reason + ": " + e.Message }

// Stalled returns a StalledError with a formatted message.
func Stalled(reason, format string, args ...any) error {
	return &StalledError{Reason: reason, Message: fmt.Sprintf(format, args...)}
}

// WaitingError says that work goes on as soon as something that is watched has happened.
type WaitingError struct {
	// Reason is the condition's reason; Message says what is waited for.
	Reason, Message string
	// RetryAfter, if set, is when to look again, for what is not watched.
	RetryAfter time.Duration
}

func (e *WaitingError) Error() string { return e.Reason + ": " + e.Message }

// Waiting returns a WaitingError with a formatted message.
func Waiting(reason, format string, args ...any) error {
	return &WaitingError{Reason: reason, Message: fmt.Sprintf(format, args...)}
}

// PostponedError says that nothing is to be done before a time has passed, and nothing to be reported either.
type PostponedError struct {
	// After is the time.
	After time.Duration
}

func (e *PostponedError) Error() string { return "postponed for " + e.After.String() }

// FailedError is a request that failed and is tried again with back-off.
type FailedError struct {
	// Reason is the condition's reason; Message is stable over the tries.
	Reason, Message string
	// Err is what the request returned.
	Err error
}

func (e *FailedError) Error() string { return e.Reason + ": " + e.Err.Error() }

// Unwrap returns what the request returned.
func (e *FailedError) Unwrap() error { return e.Err }

// ErrStale says that a decision was made on an outdated view. The next try sees the current one; nothing is reported.
var ErrStale = errors.New("the cached state was outdated")

// ReasonAndMessageOf returns what an error means for a condition.
func ReasonAndMessageOf(err error) (reason, message string) {
	var stalled *StalledError
	var waiting *WaitingError
	var failed *FailedError
	switch {
	case errors.As(err, &stalled):
		return stalled.Reason, stalled.Message
	case errors.As(err, &waiting):
		return waiting.Reason, waiting.Message
	case errors.As(err, &failed):
		return failed.Reason, failed.Message
	}
	return appv1.ReasonApplyFailed, err.Error()
}

// Aggregate returns the error to report of several, nil if there is none: an outdated view before all else, then what is
// retried, what needs a user to act, and what ends by itself. None of the others is delayed by it: the earliest RetryAfter
// of all counts.
func Aggregate(errs ...error) error {
	var failed, stalled, waiting error
	var retry time.Duration
	for _, err := range errs {
		var s *StalledError
		var w *WaitingError
		switch {
		case err == nil:
		case errors.Is(err, ErrStale):
			return err
		case errors.As(err, &s):
			stalled, retry = firstNonNil(stalled, err), MinRequeue(retry, s.RetryAfter)
		case errors.As(err, &w):
			waiting, retry = firstNonNil(waiting, err), MinRequeue(retry, w.RetryAfter)
		default:
			failed = firstNonNil(failed, err)
		}
	}
	return withRetry(firstNonNil(failed, firstNonNil(stalled, waiting)), retry)
}

// withRetry returns the error with the time after which to look again. The original stays as it is.
func withRetry(err error, retry time.Duration) error {
	var s *StalledError
	var w *WaitingError
	switch {
	case errors.As(err, &s) && s.RetryAfter != retry:
		later := *s
		later.RetryAfter = retry
		return &later
	case errors.As(err, &w) && w.RetryAfter != retry:
		later := *w
		later.RetryAfter = retry
		return &later
	}
	return err
}

func firstNonNil(a, b error) error {
	if a != nil {
		return a
	}
	return b
}
