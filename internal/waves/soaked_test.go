package waves

import (
	"testing"
	"time"
)

// TestALongerSoakCountsForTheNextWave checks the decision on a resource of a wave with a longer soak than its wave had, once that wave has ended and before. The
// decision has the latest wave whose soak has ended, and the soak by which it has.
func TestALongerSoakCountsForTheNextWave(t *testing.T) {
	const soak = 24 * time.Hour
	taken := func(ago time.Duration) Member {
		return Member{ID: idOf("x"), Current: true, Wave: 3, TakenAt: began.Add(-ago), Reported: true, WasReady: true, Ready: true, Since: began.Add(-time.Minute)}
	}
	lost, late := taken(30*time.Hour), taken(30*time.Hour)
	lost.ReadyFor, lost.ReadyUntil = 4*time.Hour, began.Add(-20*time.Hour)
	late.Ready = false
	ended, before := Soaked{Wave: 3, Soak: time.Minute}, Soaked{Wave: 2, Soak: time.Minute}
	for name, c := range map[string]struct {
		member  Member
		soaked  Soaked
		pending bool
		stalled string
		busy    int
		after   Soaked
	}{
		"ready":                       {taken(time.Hour), ended, false, "", 0, ended},
		"ready, of a later wave":      {taken(time.Hour), before, false, "", 1, before},
		"ready, for the longer soak":  {Member{Current: true, Wave: 3, Reported: true, Ready: true, Since: began.Add(-soak)}, before, false, "", 0, Soaked{Wave: 3, Soak: soak}},
		"the same, and pending":       {Member{Current: true, Wave: 3, Reported: true, Ready: true, Since: began.Add(-soak)}, before, true, "", 0, before},
		"lost, and ready again":       {lost, ended, false, "", 0, ended},
		"the same, of a later wave":   {lost, before, false, "[x]", 1, before},
		"not ready since the wave":    {late, ended, false, "[x]", 1, ended},
		"granted, next to such a one": {Member{Ready: true, Wave: 3, Granted: 4, GrantedAt: began.Add(-2 * time.Hour)}, ended, false, "", 1, ended},
		"none of a wave":              {Member{Ready: true}, ended, false, "", 0, ended},
	} {
		t.Run(name, func(t *testing.T) {
			c.member.ID = idOf("x")
			got := Decide(&Rollout{Members: []Member{c.member}, Size: 1, Soak: soak, Now: began, Latest: 3, Soaked: c.soaked, Pending: c.pending})
			if names(got.Stalled) != "["+trim(c.stalled)+"]" || len(got.Busy) != c.busy || got.Soaked != c.after {
				t.Errorf("the decision is %+v", got)
			}
		})
	}
}
