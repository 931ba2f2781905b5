package controllers

import (
	"errors"
	"fmt"
	"testing"
	"time"

	appv1 "huolala.cn/app-operator/api/v1"
	"huolala.cn/app-operator/internal/reconciler"
)

// TestGravest checks which of the tiers' errors is reported, and that none is forgotten for it.
func TestGravest(t *testing.T) {
	failed, failedToo := errors.New("failed"), errors.New("failed too")
	waiting := reconciler.Waiting(appv1.ReasonProgressing, "waiting")
	outdated := fmt.Errorf("%w: a", reconciler.ErrStale)
	stalled := func(retry time.Duration) error {
		return &reconciler.StalledError{Reason: appv1.ReasonInvalid, RetryAfter: retry}
	}
	for name, c := range map[string]struct {
		errs []error
		want error
	}{
		"none":                         {[]error{nil, nil}, nil},
		"a failure before a stall":     {[]error{stalled(0), nil, failed, failedToo}, failed},
		"an old view before all":       {[]error{failed, stalled(0), outdated, waiting}, outdated},
		"waiting alone":                {[]error{nil, waiting}, waiting},
		"a wrapped failure, not lost":  {[]error{waiting, &reconciler.FailedError{Err: failed}}, failed},
		"a failure beside one waiting": {[]error{waiting, failed}, failed},
	} {
		if got := gravest(c.errs); !errors.Is(got, c.want) || (got == nil) != (c.want == nil) {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
	for _, errs := range [][]error{
		{waiting, stalled(0), stalled(time.Minute), stalled(time.Hour)}, {stalled(time.Hour), stalled(time.Minute), stalled(0)},
	} {
		var got *reconciler.StalledError
		if !errors.As(gravest(errs), &got) || got.RetryAfter != time.Minute {
			t.Errorf("%v is %+v, want it to be looked at again after a minute", errs, got)
		}
	}
}

// TestPhase has every way in which tiers can stand.
func TestPhase(t *testing.T) {
	up := standing{exists: true, known: true, up: true}
	down, unknown, none := standing{exists: true, known: true}, standing{exists: true}, standing{known: true}
	for name, c := range map[string]struct {
		before  appv1.Phase
		tiers   [3]standing
		renamed int // The tier with objects of an earlier name, from 1.
		want    appv1.Phase
		ready   string
	}{
		"nothing":                    {"", [3]standing{none, none, none}, 0, appv1.PhasePending, "0/3"},
		"the database on its way":    {appv1.PhasePending, [3]standing{unknown, none, none}, 0, appv1.PhaseDatabase, "0/3"},
		"identity next":              {appv1.PhaseDatabase, [3]standing{up, none, none}, 0, appv1.PhaseIdentity, "1/3"},
		"front next":                 {appv1.PhaseIdentity, [3]standing{up, up, down}, 0, appv1.PhaseFront, "2/3"},
		"all up":                     {appv1.PhaseFront, [3]standing{up, up, up}, 0, appv1.PhaseReady, "3/3"},
		"one falls":                  {appv1.PhaseReady, [3]standing{up, down, up}, 0, appv1.PhaseDegraded, "2/3"},
		"one falls before it was up": {appv1.PhaseFront, [3]standing{down, up, down}, 0, appv1.PhaseDatabase, "1/3"},
		"one was changed":            {appv1.PhaseReady, [3]standing{up, unknown, up}, 0, appv1.PhaseReady, "before"},
		"still fallen":               {appv1.PhaseDegraded, [3]standing{down, unknown, up}, 0, appv1.PhaseDegraded, "1/3"},
		"fallen, and changed":        {appv1.PhaseDegraded, [3]standing{unknown, up, up}, 0, appv1.PhaseDegraded, "before"},
		"up again":                   {appv1.PhaseDegraded, [3]standing{up, up, up}, 0, appv1.PhaseReady, "3/3"},
		"renamed":                    {appv1.PhaseReady, [3]standing{up, none, up}, 2, appv1.PhaseIdentity, "2/3"},
		"renamed, the old one left":  {appv1.PhaseIdentity, [3]standing{up, up, up}, 2, appv1.PhaseIdentity, "3/3"},
	} {
		s := &stack{}
		for i, phase := range []appv1.Phase{appv1.PhaseDatabase, appv1.PhaseIdentity, appv1.PhaseFront} {
			tier := &tier{phase: phase, stands: func() standing { return c.tiers[i] }}
			if c.renamed == i+1 {
				tier.former = append(tier.former, nil)
			}
			s.tiers = append(s.tiers, tier)
		}
		if phase, ready := s.phase(c.before, "before"); phase != c.want || ready != c.ready {
			t.Errorf("%s: %s %s, want %s %s", name, phase, ready, c.want, c.ready)
		}
	}
}
