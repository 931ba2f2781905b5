package controllers

import (
	"errors"
	"testing"
	"time"

	appv1 "huolala.cn/app-operator/api/v1"
	"huolala.cn/app-operator/internal/reconciler"
)

// TestLookAgain checks that the database never waits for ever for what is not watched.
func TestLookAgain(t *testing.T) {
	failed := errors.New("failed")
	for name, c := range map[string]struct {
		err  error
		want time.Duration
	}{
		"nothing":                        {nil, 0},
		"a Secret that is being deleted": {reconciler.Waiting(appv1.ReasonProgressing, "Secret a is being deleted"), unwatched},
		"waiting with a time":            {&reconciler.WaitingError{RetryAfter: time.Second}, time.Second},
		"another owner's Secret":         {reconciler.Stalled(appv1.ReasonResourceExists, "Secret a"), unwatched},
		"another owner's, with a time":   {&reconciler.StalledError{Reason: appv1.ReasonResourceExists, RetryAfter: time.Second}, time.Second},
		"what the spec says":             {reconciler.Stalled(appv1.ReasonInvalid, "a"), 0},
		"a failure, which is retried":    {failed, 0},
	} {
		var stalled *reconciler.StalledError
		var waiting *reconciler.WaitingError
		got := time.Duration(0)
		switch err := lookAgain(c.err); {
		case errors.As(err, &stalled):
			got = stalled.RetryAfter
		case errors.As(err, &waiting):
			got = waiting.RetryAfter
		case !errors.Is(err, c.err):
			t.Errorf("%s: %v became %v", name, c.err, err)
		}
		if got != c.want {
			t.Errorf("%s: it is looked at again after %s, want %s", name, got, c.want)
		}
	}
}
