package reconciler

import (
	"errors"
	"fmt"
	"time"

	appv1 "huolala.cn/app-operator/api/v1"
)

// StalledError is an error that only a user can resolve. It is reported in the status and not retried: a watch triggers the next
// reconcile.
type StalledError struct {
	// Reason is the condition's reason; Message describes the problem and the remedy.
	Reason, Message string
	// RetryAfter, if set, is the time until the next reconcile, for causes without a watch.
	RetryAfter time.Duration
}

func (e *StalledError) Error() string { return e.Reason + ": " + e.Message }

// Stalled returns a StalledError with a formatted message.
func Stalled(reason, format string, args ...any) error {
	return &StalledError{Reason: reason, Message: fmt.Sprintf(format, args...)}
}

// WaitingError reports that the reconcile continues after a change that the operator watches.
type WaitingError struct {
	// Reason is the condition's reason; Message describes the awaited change.
	Reason, Message string
	// RetryAfter, if set, is the time until the next reconcile, for changes without a watch.
	RetryAfter time.Duration
}

func (e *WaitingError) Error() string { return e.Reason + ": " + e.Message }

// Waiting returns a WaitingError with a formatted message.
func Waiting(reason, format string, args ...any) error {
	return &WaitingError{Reason: reason, Message: fmt.Sprintf(format, args...)}
}

// PostponedError requeues the resource after a delay, without a write of the status.
type PostponedError struct {
	// After is the time.
	After time.Duration
}

func (e *PostponedError) Error() string { return "postponed for " + e.After.String() }

// FailedError is a failed request that is retried with back-off.
type FailedError struct {
	// Reason is the condition's reason; Message does not change between retries.
	Reason, Message string
	// Err is the error of the request.
	Err error
}

func (e *FailedError) Error() string { return e.Reason + ": " + e.Err.Error() }

// Unwrap returns the error of the request.
func (e *FailedError) Unwrap() error { return e.Err }

// ErrStale reports a decision on an outdated cache. The resource is requeued with back-off; the status is not written.
var ErrStale = errors.New("the cached state was outdated")

// ReasonAndMessageOf returns the reason and the message of an error for a condition.
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

// Aggregate returns the most important of several errors, nil for none: ErrStale first, then errors that are retried,
// StalledError and WaitingError. The result has the earliest RetryAfter of all of them, unless it is retried with back-off.
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

// withRetry returns a copy of the error with another RetryAfter.
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
