package controllers

import (
	"testing"

	appv1 "huolala.cn/app-operator/api/v1"
)

// TestPhase has every way in which tiers can stand.
func TestPhase(t *testing.T) {
	up := standing{exists: true, owned: true, known: true, up: true}
	down, unknown, none := standing{exists: true, owned: true, known: true}, standing{exists: true, owned: true}, standing{known: true}
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
		s := &tiers{}
		for i, phase := range []appv1.Phase{appv1.PhaseDatabase, appv1.PhaseIdentity, appv1.PhaseFront} {
			tier := &tier{phase: phase, availability: func() standing { return c.tiers[i] }}
			if c.renamed == i+1 {
				tier.previous = append(tier.previous, nil)
			}
			s.tiers = append(s.tiers, tier)
		}
		if phase, ready := s.phase(c.before, "before"); phase != c.want || ready != c.ready {
			t.Errorf("%s: %s %s, want %s %s", name, phase, ready, c.want, c.ready)
		}
	}
}
