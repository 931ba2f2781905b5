package reconciler

import (
	"errors"
	"fmt"
	"testing"
	"time"

	appv1 "huolala.cn/app-operator/api/v1"
)

// TestAggregate checks which of several errors is reported, and that it delays none of the others.
func TestAggregate(t *testing.T) {
	failed, failedToo := errors.New("failed"), errors.New("failed too")
	waiting := Waiting(appv1.ReasonProgressing, "waiting")
	outdated := fmt.Errorf("%w: a", ErrStale)
	stalled := func(retry time.Duration) error {
		return &StalledError{Reason: appv1.ReasonInvalid, RetryAfter: retry}
	}
	for name, c := range map[string]struct {
		errs []error
		want error
	}{
		"none":                        {[]error{nil, nil}, nil},
		"a failure before a stall":    {[]error{stalled(0), nil, failed, failedToo}, failed},
		"an old view before all":      {[]error{failed, stalled(0), outdated, waiting}, outdated},
		"waiting alone":               {[]error{nil, waiting}, waiting},
		"a wrapped failure, not lost": {[]error{waiting, &FailedError{Err: failed}}, failed},
		"a failure and one waiting":   {[]error{waiting, failed}, failed},
	} {
		if got := Aggregate(c.errs...); !errors.Is(got, c.want) || (got == nil) != (c.want == nil) {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
	for _, errs := range [][]error{
		{waiting, stalled(0), stalled(time.Minute), stalled(time.Hour)}, {stalled(time.Hour), stalled(time.Minute), stalled(0)},
	} {
		var got *StalledError
		if !errors.As(Aggregate(errs...), &got) || got.RetryAfter != time.Minute {
			t.Errorf("%v is %+v, want it to be looked at again after a minute", errs, got)
		}
	}
}
