package waves

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// began is the time at which the tests begin.
var began = time.Unix(1e9, 0)

func idOf(name string) ID {
	return ID{Kind: "App", NamespacedName: types.NamespacedName{Namespace: "shop", Name: name}}
}

// names returns the names of resources, sorted.
func names(ids []ID) string {
	var all []string
	for _, id := range ids {
		all = append(all, id.Name)
	}
	slices.Sort(all)
	return fmt.Sprint(all)
}

// TestDecide checks the decision on each state of a resource, next to two that are ready and wait.
func TestDecide(t *testing.T) {
	const soak = 5 * time.Minute
	taken := func(ago, since time.Duration) Member {
		return Member{Current: true, Wave: 3, TakenAt: began.Add(-ago), Reported: true, WasReady: true, Ready: true, Since: began.Add(-since)}
	}
	with := func(m Member, change func(*Member)) Member {
		change(&m)
		return m
	}
	earlier := with(taken(time.Minute, time.Minute), func(m *Member) { m.Current, m.Ready = false, false })
	for name, c := range map[string]struct {
		member        Member
		take, stalled string
		busy, skipped int
		again         time.Duration
		wave          int32
	}{
		"ready":                               {Member{Ready: true}, "2 of 3", "", 0, 0, 0, 1},
		"not ready":                           {Member{}, "[a b]", "", 0, 1, 0, 1},
		"left out":                            {Member{Ready: true, Exempt: true}, "[a b]", "", 0, 1, 0, 1},
		"cannot take them":                    {Member{Ready: true, Invalid: true}, "[a b]", "", 0, 0, 0, 1},
		"granted":                             {Member{Ready: true, Granted: 1, GrantedAt: began}, "[]", "", 1, 0, soak + stuckTime, 1},
		"granted, and never taken":            {Member{Ready: true, Granted: 1, GrantedAt: began.Add(-soak - stuckTime)}, "[]", "[x]", 1, 0, 0, 1},
		"granted in a time to come":           {Member{Ready: true, Granted: 1, GrantedAt: began.Add(time.Hour)}, "[]", "", 1, 0, soak + stuckTime, 1},
		"to be repaired, and never taken":     {Member{Stalled: true, Granted: 1, GrantedAt: began.Add(-soak - stuckTime), Repairs: true}, "[a b]", "", 0, 0, 0, 2},
		"repaired, not ready for too long":    {with(taken(soak+stuckTime, 0), func(m *Member) { m.Repairs, m.Ready = true, false }), "[a b]", "", 0, 0, 0, 4},
		"never ready for too long, and held":  {with(taken(soak+stuckTime, 0), func(m *Member) { m.Ready, m.Left = false, true }), "[a b]", "", 0, 0, 0, 4},
		"not ready, and held":                 {with(taken(time.Minute, 0), func(m *Member) { m.Ready, m.Left = false, true }), "[]", "", 1, 0, 64 * time.Minute, 3},
		"granted, stalled by earlier ones":    {with(earlier, func(m *Member) { m.Stalled, m.Granted, m.GrantedAt = true, 1, began }), "[]", "", 1, 0, soak + stuckTime, 1},
		"granted, and refused":                {Member{Stalled: true, Granted: 1, GrantedAt: began, Refused: true}, "[]", "[x]", 1, 0, soak + stuckTime, 1},
		"taken, status of before":             {with(taken(0, time.Hour), func(m *Member) { m.Reported = false }), "[]", "", 1, 0, soak + time.Hour, 3},
		"taken, not ready":                    {with(taken(time.Minute, 0), func(m *Member) { m.Ready = false }), "[]", "", 1, 0, 64 * time.Minute, 3},
		"taken, stalled":                      {with(taken(time.Minute, 0), func(m *Member) { m.Ready, m.Stalled = false, true }), "[]", "[x]", 1, 0, 64 * time.Minute, 3},
		"taken, stalled, paused":              {with(taken(time.Minute, 0), func(m *Member) { m.Ready, m.Stalled, m.Left = false, true, true }), "[a b]", "", 0, 0, 0, 4},
		"taken, soon a refused change":        {with(taken(time.Minute, 0), refuse(soak, 0)), "[]", "[x]", 1, 0, 64 * time.Minute, 3},
		"taken, later a refused change":       {with(taken(time.Hour, 0), refuse(soak, 0)), "[a b]", "", 0, 0, 0, 4},
		"taken, a refused change for long":    {with(taken(24*time.Hour, 0), refuse(soak, 20*time.Hour)), "[a b]", "", 0, 0, 0, 4},
		"taken, refused, never soaked":        {with(taken(time.Hour, 0), refuse(soak-time.Second, 0)), "[]", "[x]", 1, 0, 5 * time.Minute, 3},
		"taken, soaked, fell soon, refused":   {with(taken(time.Hour, 0), refuse(soak, 50*time.Minute)), "[]", "[x]", 1, 0, 5 * time.Minute, 3},
		"taken, refused in a time to come":    {with(taken(time.Hour, 0), refuse(soak, -time.Hour)), "[]", "[x]", 1, 0, 5 * time.Minute, 3},
		"taken, refused, never ready":         {with(with(taken(time.Hour, 0), refuse(soak, 0)), func(m *Member) { m.WasReady = false }), "[]", "[x]", 1, 0, 5 * time.Minute, 3},
		"taken, stalled long after its soak":  {with(with(taken(24*time.Hour, 0), refuse(soak, 0)), func(m *Member) { m.Unapplied, m.Refuses = false, false }), "[]", "[x]", 0, 0, 0, 3},
		"taken, crashes, and is refused":      {with(with(taken(24*time.Hour, 0), refuse(soak, 0)), func(m *Member) { m.Refuses = false }), "[]", "[x]", 1, 0, 0, 3},
		"taken, cannot be written later":      {with(with(taken(time.Hour, 0), refuse(soak, 0)), func(m *Member) { m.Stalled, m.Refuses = false, false }), "[]", "", 1, 0, 5 * time.Minute, 3},
		"taken, its own change rolled back":   {with(taken(time.Minute, 0), func(m *Member) { m.Ready, m.Stalled, m.RolledBackOwn = false, true, true }), "[a b]", "", 0, 0, 0, 4},
		"taken, falls long after its soak":    {with(taken(24*time.Hour, 0), func(m *Member) { m.Ready, m.ReadyFor, m.ReadyUntil = false, soak, began }), "[a b]", "", 0, 0, 0, 4},
		"taken, falls soon after its soak":    {with(taken(2*soak, 0), func(m *Member) { m.Ready, m.ReadyFor, m.ReadyUntil = false, soak, began }), "[]", "", 1, 0, 55 * time.Minute, 3},
		"taken, ready again after its soak":   {with(taken(24*time.Hour, 0), func(m *Member) { m.ReadyFor, m.ReadyUntil = soak, began }), "[a b]", "", 0, 0, 0, 4},
		"taken, fell soon, ready again":       {with(taken(time.Hour, 0), func(m *Member) { m.ReadyFor, m.ReadyUntil = soak, began.Add(-50*time.Minute) }), "[]", "", 1, 0, soak, 3},
		"taken, soaks":                        {taken(4*time.Minute, time.Hour), "[]", "", 1, 0, time.Minute, 3},
		"taken, soaks since it was ready":     {taken(time.Hour, 2*time.Minute), "[]", "", 1, 0, 3 * time.Minute, 3},
		"taken, has soaked":                   {taken(soak, time.Hour), "[a b]", "", 0, 0, 0, 4},
		"taken in a time to come":             {taken(-time.Hour, time.Hour), "[a b]", "", 0, 0, 0, 4},
		"taken, never ready":                  {with(taken(time.Minute, 0), func(m *Member) { m.Ready, m.WasReady = false, false }), "[]", "", 1, 0, 64 * time.Minute, 3},
		"taken, never ready for too long":     {with(taken(soak+stuckTime, 0), func(m *Member) { m.Ready, m.WasReady = false, false }), "[]", "[x]", 1, 0, 0, 3},
		"taken, ready late for its soak":      {with(taken(soak+stuckTime-time.Minute, time.Minute), func(m *Member) { m.WasReady = true }), "[]", "", 1, 0, time.Minute, 3},
		"taken, ready by turns for too long":  {taken(soak+stuckTime, 0), "[]", "[x]", 1, 0, soak, 3},
		"taken, never reported for too long":  {with(taken(soak+stuckTime, 0), func(m *Member) { m.Reported = false }), "[]", "[x]", 1, 0, 0, 3},
		"repaired, stalled again":             {with(taken(time.Minute, 0), func(m *Member) { m.Repairs, m.Ready, m.Stalled = true, false, true }), "[a b]", "", 0, 0, 0, 4},
		"repaired, not ready yet":             {with(taken(time.Minute, 0), func(m *Member) { m.Repairs, m.Ready, m.WasReady = true, false, false }), "[]", "", 1, 0, 64 * time.Minute, 3},
		"repaired, soaks":                     {with(taken(4*time.Minute, time.Hour), func(m *Member) { m.Repairs = true }), "[]", "", 1, 0, time.Minute, 3},
		"repaired by earlier ones, stalled":   {with(earlier, func(m *Member) { m.Repairs, m.WasReady, m.Stalled = true, false, true }), "[a b]", "", 0, 0, 0, 1},
		"repaired by earlier ones, was ready": {with(earlier, func(m *Member) { m.Repairs, m.Stalled = true, true }), "x and one", "", 0, 0, 0, 1},
		"to be repaired, and refused":         {Member{Stalled: true, Granted: 1, GrantedAt: began, Repairs: true, Refused: true}, "[a b]", "", 0, 0, 0, 2},
		"stalled with its own change":         {Member{Stalled: true}, "[a b]", "", 0, 0, 0, 1},
		"taken with a change of its own":      {Member{Current: true, Stalled: true}, "[a b]", "", 0, 0, 0, 1},
		"rolled back":                         {Member{RolledBack: true, Stalled: true}, "[]", "[x]", 0, 0, 0, 0},
		"rolled back, and held":               {Member{RolledBack: true, Stalled: true, Left: true}, "[a b]", "", 0, 1, 0, 1},
		"to be repaired, and gone back":       {Member{RolledBack: true, Stalled: true, Repairs: true}, "[a b]", "", 0, 1, 0, 1},
		"taken, stalled, with a canary":       {with(taken(time.Minute, 0), func(m *Member) { m.Ready, m.WasReady, m.Stalled, m.Exempt = false, false, true, true }), "[]", "[x]", 1, 0, 64 * time.Minute, 3},
		"taken, ready, then a canary stalls":  {with(taken(time.Minute, 0), func(m *Member) { m.Ready, m.Stalled, m.Exempt = false, true, true }), "[a b]", "", 0, 0, 0, 4},
		"late, with a canary":                 {with(taken(soak+stuckTime, 0), func(m *Member) { m.Ready, m.WasReady, m.Exempt = false, false, true }), "[]", "[x]", 1, 0, 0, 3},
		"late, then a canary":                 {with(taken(soak+stuckTime, 0), func(m *Member) { m.Ready, m.Exempt = false, true }), "[a b]", "", 0, 0, 0, 4},
		"rolled back, with a canary":          {Member{RolledBack: true, Stalled: true, Exempt: true}, "[]", "[x]", 0, 1, 0, 0},
		"taken, its own change goes back":     {with(taken(soak+stuckTime, 0), func(m *Member) { m.Ready, m.Reported, m.RolledBackOwn, m.Exempt = false, false, true, true }), "[a b]", "", 0, 0, 0, 4},
		"gone back from an earlier repair":    {Member{RolledBackEarlier: true, Stalled: true, Repairs: true}, "[a b]", "", 0, 0, 0, 1},
		"taken, its own change, not up yet":   {with(taken(time.Minute, 0), func(m *Member) { m.Ready, m.WasReady, m.Stalled, m.RolledBackOwn = false, false, true, true }), "[a b]", "", 0, 0, 0, 4},
		"rolled back from earlier ones":       {Member{RolledBackEarlier: true, Stalled: true}, "x and one", "", 0, 0, 0, 1},
		"stalled by earlier ones":             {with(earlier, func(m *Member) { m.Stalled = true }), "x and one", "", 0, 0, 0, 1},
		"progresses by earlier ones":          {earlier, "x and one", "", 0, 0, 0, 1},
		"status of before earlier ones":       {with(earlier, func(m *Member) { m.Ready, m.Reported = true, false }), "x and one", "", 0, 0, 0, 1},
		"earlier ones, failed much later":     {with(earlier, func(m *Member) { m.TakenAt = began.Add(-time.Hour) }), "[a b]", "", 0, 1, 0, 1},
		"never ready with earlier ones":       {with(earlier, func(m *Member) { m.TakenAt, m.WasReady = began.Add(-time.Hour), false }), "x and one", "", 0, 0, 0, 1},
		"stalled by earlier ones, and held":   {with(earlier, func(m *Member) { m.Stalled, m.Left = true, true }), "[a b]", "", 0, 1, 0, 1},
	} {
		t.Run(name, func(t *testing.T) {
			c.member.ID = idOf("x")
			members := []Member{{ID: idOf("a"), Ready: true}, {ID: idOf("b"), Ready: true}, c.member}
			rollout := Rollout{Members: members, Size: 2, Soak: soak, Now: began}
			got := Decide(&rollout)
			switch c.take {
			case "2 of 3":
				if len(got.Take) != 2 {
					t.Errorf("it takes %s", names(got.Take))
				}
			case "x and one":
				if len(got.Take) != 2 || got.Take[0].Name != "x" {
					t.Errorf("it takes %s", names(got.Take))
				}
			default:
				if names(got.Take) != c.take {
					t.Errorf("it takes %s, want %s", names(got.Take), c.take)
				}
			}
			if stalled := names(got.Stalled); stalled != "["+trim(c.stalled)+"]" || len(got.Busy) != c.busy || len(got.Skipped) != c.skipped || got.Again != c.again || got.Wave != c.wave {
				t.Errorf("the decision is %+v", got)
			}
			rollout.Pending = true
			if got := Decide(&rollout); len(got.Take) > 0 {
				t.Errorf("a wave begins that may not: %s", names(got.Take))
			}
		})
	}
}

// TestOneLookPerWave checks when to look again at a wave with several resources: after the last soak of those that are ready, and not after each, or once the first
// has held up the next wave for too long.
func TestOneLookPerWave(t *testing.T) {
	const soak = 5 * time.Minute
	ready := func(name string, ago time.Duration) Member {
		return Member{ID: idOf(name), Current: true, Wave: 1, TakenAt: began.Add(-ago), Reported: true, WasReady: true, Ready: true, Since: began.Add(-ago)}
	}
	starts := func(name string, ago time.Duration) Member {
		return Member{ID: idOf(name), Current: true, Wave: 1, TakenAt: began.Add(-ago), Reported: true, Since: began}
	}
	granted := func(name string, ago time.Duration) Member {
		return Member{ID: idOf(name), Ready: true, Granted: 1, GrantedAt: began.Add(-ago), Reported: true, Since: began.Add(-ago)}
	}
	for name, c := range map[string]struct {
		members []Member
		again   time.Duration
	}{
		"two soaks":                      {[]Member{ready("a", 4*time.Minute), ready("b", 2*time.Minute)}, 3 * time.Minute},
		"two soaks, the other way round": {[]Member{ready("a", 2*time.Minute), ready("b", 4*time.Minute)}, 3 * time.Minute},
		"a soak and a start":             {[]Member{ready("a", 4*time.Minute), starts("b", 10*time.Minute)}, time.Minute},
		"a soak and a late start":        {[]Member{ready("a", time.Minute), starts("b", time.Hour+3*time.Minute)}, 2 * time.Minute},
		"two starts":                     {[]Member{starts("a", 10*time.Minute), starts("b", 20*time.Minute)}, 45 * time.Minute},
		"two grants":                     {[]Member{granted("a", time.Minute), granted("b", 2*time.Minute)}, soak + stuckTime - 2*time.Minute},
		"a grant and a soak":             {[]Member{granted("a", time.Minute), ready("b", 2*time.Minute)}, 3 * time.Minute},
		"a soak that has ended":          {[]Member{ready("a", soak), ready("b", 2*time.Minute)}, 3 * time.Minute},
	} {
		if got := Decide(&Rollout{Members: c.members, Size: 2, Soak: soak, Now: began}); got.Again != c.again || len(got.Take) > 0 {
			t.Errorf("%s: the decision is %+v, want another look after %s", name, got, c.again)
		}
	}
}

// TestStalledComeLast has resources that have stalled with changes of their own take the defaults after all others, a wave at a time, and stop nothing if
// they stall again.
func TestStalledComeLast(t *testing.T) {
	members := []Member{{ID: idOf("ready"), Ready: true}, {ID: idOf("a"), Stalled: true}, {ID: idOf("b"), Stalled: true}, {ID: idOf("rolls")}}
	rollout := Rollout{Members: members, Size: 1, Now: began}
	if got := Decide(&rollout); names(got.Take) != "[ready]" || got.Repairs || got.Waiting != 2 || len(got.Skipped) != 1 {
		t.Errorf("at first: %+v", got)
	}
	take := func(m *Member, wave int32, repairs bool) {
		*m = Member{ID: m.ID, Current: true, Wave: wave, TakenAt: began, Reported: true, Repairs: repairs, Stalled: repairs, Ready: !repairs, WasReady: !repairs}
	}
	take(&members[0], 1, false)
	for wave := int32(2); wave <= 3; wave++ {
		got := Decide(&rollout)
		if len(got.Take) != 1 || !got.Repairs || got.Wave != wave || len(got.Stalled)+len(got.Busy) > 0 {
			t.Fatalf("then: %+v", got)
		}
		for i := range members {
			if members[i].ID == got.Take[0] {
				take(&members[i], wave, true)
			}
		}
	}
	if got := Decide(&rollout); len(got.Take)+len(got.Stalled)+len(got.Busy) > 0 || got.Rest != 1 || len(got.Skipped) != 1 {
		t.Errorf("at last: %+v", got)
	}
}

// refuse has a resource stall with a spec that is not in force, after it was ready for a time, until a time ago.
func refuse(ready, ago time.Duration) func(*Member) {
	return func(m *Member) {
		m.Ready, m.Stalled, m.Unapplied, m.Refuses, m.ReadyFor, m.ReadyUntil = false, true, true, true, ready, began.Add(-ago)
	}
}

// trim returns a list without its brackets.
func trim(list string) string {
	if list == "" {
		return ""
	}
	return list[1 : len(list)-1]
}

// TestAFormerWaveDoesNotHoldUpTheNext has a resource of an earlier wave lose its readiness for a while, as each autoscaler makes it.
func TestAFormerWaveDoesNotHoldUpTheNext(t *testing.T) {
	members := []Member{
		{ID: idOf("former"), Current: true, Wave: 1, TakenAt: began.Add(-time.Hour), Reported: true, WasReady: true, Since: began},
		{ID: idOf("latest"), Current: true, Wave: 2, TakenAt: began.Add(-time.Hour), Reported: true, WasReady: true, Ready: true, Since: began.Add(-time.Hour)},
		{ID: idOf("next"), Ready: true},
	}
	if got := Decide(&Rollout{Members: members, Size: 1, Soak: time.Minute, Now: began}); names(got.Take) != "[next]" || got.Wave != 3 {
		t.Errorf("the decision is %+v", got)
	}
	members[0].Stalled = true
	if got := Decide(&Rollout{Members: members, Size: 1, Soak: time.Minute, Now: began}); len(got.Take) > 0 || names(got.Stalled) != "[former]" {
		t.Errorf("once it has stalled: %+v", got)
	}
}

// TestAWaveSpreadsOverNamespaces rolls out to namespaces and resources with names as alike as teams give them: no wave has most of a namespace. The order
// stays as long as the salt does, and another salt has another order.
func TestAWaveSpreadsOverNamespaces(t *testing.T) {
	const each, namespaces = 20, 10
	random := rand.New(rand.NewPCG(1, 1))
	var members []Member
	for i := range each * namespaces {
		name := types.NamespacedName{Namespace: fmt.Sprintf("shop-%c", 'a'+i/each), Name: fmt.Sprintf("api-%02d", i%each)}
		uid := types.UID(fmt.Sprintf("%08x-0000-4000-8000-%012x", random.Uint32(), random.Int64N(1<<48)))
		members = append(members, Member{ID: ID{Kind: "App", NamespacedName: name}, UID: uid, Ready: true})
	}
	firsts := map[string]int{}
	for generation := range 20 {
		salt := fmt.Sprintf("1/%d", generation)
		left := slices.Clone(members)
		for wave := 1; len(left) > 0; wave++ {
			taken := Decide(&Rollout{Members: left, Size: each, Now: began, Salt: salt}).Take
			if again := Decide(&Rollout{Members: left, Size: each, Now: began, Salt: salt}).Take; !slices.Equal(again, taken) {
				t.Fatalf("wave %d: %v, and then %v", wave, taken, again)
			}
			if wave == 1 {
				firsts[taken[0].String()]++
			}
			in := map[string]int{}
			for _, id := range taken {
				in[id.Namespace]++
			}
			for namespace, n := range in {
				if n > each/2 {
					t.Errorf("wave %d has %d of %d resources of %s", wave, n, each, namespace)
				}
			}
			left = slices.DeleteFunc(left, func(m Member) bool { return slices.Contains(taken, m.ID) })
		}
	}
	for name, n := range firsts {
		if n > 5 {
			t.Errorf("%s is the first one in %d of 20 rollouts", name, n)
		}
	}
}

// simApp is a resource of a simulation as it is, next to what a leader sees of it.
type simApp struct {
	Member
	// text is the number of the text whose defaults the workload has, and spoilt is true while the pods of these do not become ready.
	text   int
	spoilt bool
	// out is true from a write in a wave until the pods were ready.
	out bool
	// readyAt is when the pods become ready.
	readyAt time.Time
}

// simulation is a cluster in which a random order of events happens.
type simulation struct {
	*rand.Rand
	apps []*simApp
	now  time.Time
	text int
	size int
	soak time.Duration
	// bad is the number of the text whose pods do not become ready, 0 for none.
	bad int
	// most is the highest number of resources that were not ready because of a rollout.
	most int
}

// look returns the rollout as a leader sees it, which has no memory but the grants.
func (s *simulation) look() *Rollout {
	r := &Rollout{Size: s.size, Soak: s.soak, Now: s.now}
	for _, app := range s.apps {
		app.Current = app.text == s.text
		if app.Current {
			app.Granted = 0
		}
		r.Members = append(r.Members, app.Member)
	}
	return r
}

// decide has a leader decide.
func (s *simulation) decide() Decision {
	made := Decide(s.look())
	for _, id := range made.Take {
		for _, app := range s.apps {
			if app.ID == id {
				app.Granted = made.Wave
			}
		}
	}
	return made
}

// write has a resource write its record, if it has a grant.
func (s *simulation) write(app *simApp) {
	if app.Granted == 0 || app.text == s.text || !app.Ready && !app.out && app.Reported {
		app.Granted = 0
		return
	}
	app.text, app.spoilt, app.out, app.Granted, app.Wave = s.text, s.text == s.bad, true, 0, app.Granted
	app.TakenAt, app.Reported, app.readyAt = s.now, false, s.now.Add(time.Duration(s.IntN(600))*time.Second)
}

// report has a resource report the state of its pods.
func (s *simulation) report(app *simApp) {
	ready := !app.spoilt && !s.now.Before(app.readyAt)
	if app.Ready != ready || !app.Reported && !app.Ready {
		app.Since = s.now
	}
	app.Ready, app.Reported, app.WasReady = ready, true, app.Reported && app.WasReady || ready
	app.Stalled = app.spoilt && s.now.Sub(app.TakenAt) > 3*time.Minute
	if ready {
		app.out = false
	}
}

// step has one event happen.
func (s *simulation) step() {
	app := s.apps[s.IntN(len(s.apps))]
	switch s.IntN(12) {
	case 0:
		s.now = s.now.Add(time.Duration(s.IntN(30)) * time.Second)
	case 1, 2, 3:
		s.decide()
	case 4, 5, 6:
		s.write(app)
	case 7, 8, 9:
		s.report(app)
	case 10: // The leader changes, and the grants are lost.
		if s.IntN(10) == 0 {
			for _, app := range s.apps {
				app.Granted = 0
			}
		}
	case 11: // A user changes a resource, which takes the present defaults.
		if s.IntN(20) == 0 && app.Granted == 0 {
			app.text, app.spoilt, app.out, app.Wave, app.Reported, app.readyAt = s.text, false, false, 0, true, s.now
		}
	}
	out := 0
	for _, app := range s.apps {
		if app.out {
			out++
		}
	}
	s.most = max(s.most, out)
}

// settle has all go on in order, without mishaps, until nothing more happens.
func (s *simulation) settle() Decision {
	for range 20 * len(s.apps) {
		for _, app := range s.apps {
			s.report(app)
		}
		made := s.decide()
		for _, app := range s.apps {
			s.write(app)
		}
		if s.step(); made.Rest == 0 && len(made.Busy) == 0 {
			return made
		}
		s.now = s.now.Add(time.Minute)
	}
	return Decide(s.look())
}

// TestRandomRollouts plays random orders of events: readiness that comes late, new texts, changes by users, and leaders that end. At no time are
// more resources out than a wave has. A text that fails stops, the next one takes the failed ones first, and all arrive.
func TestRandomRollouts(t *testing.T) {
	full := 0
	for seed := range uint64(300) {
		s := &simulation{Rand: rand.New(rand.NewPCG(seed, 1)), now: began, text: 1}
		for i := range 5 + s.IntN(30) {
			s.apps = append(s.apps, &simApp{Member: Member{ID: idOf(fmt.Sprint(i)), Ready: true, Since: began.Add(-time.Hour), Reported: true}})
		}
		s.size, s.soak = 1+s.IntN(len(s.apps)), time.Duration(s.IntN(5))*time.Minute
		if s.IntN(2) == 0 {
			s.bad = 2
		}
		for range 3 {
			for range 50 * len(s.apps) {
				s.step()
			}
			s.text++
		}
		s.text++ // None of these fails.
		if end := s.settle(); end.Current != len(s.apps) || len(end.Stalled) > 0 {
			t.Errorf("seed %d: %d of %d have the defaults at the end: %+v", seed, end.Current, len(s.apps), end)
		}
		if s.most > s.size {
			t.Errorf("seed %d: %d were out, want at most %d", seed, s.most, s.size)
		}
		if s.most == s.size {
			full++
		}
	}
	if full < 30 {
		t.Errorf("%d of 300 rollouts had a full wave: the test tries too little", full)
	}
}

// TestAFailureStops checks that a text whose pods do not become ready reaches one wave alone, and that the next text takes these first.
func TestAFailureStops(t *testing.T) {
	s := &simulation{Rand: rand.New(rand.NewPCG(1, 1)), now: began, text: 2, bad: 2, size: 3}
	for i := range 20 {
		s.apps = append(s.apps, &simApp{Member: Member{ID: idOf(fmt.Sprint(i)), Ready: true, Since: began.Add(-time.Hour), Reported: true}})
	}
	for range 20 {
		s.decide()
		for _, app := range s.apps {
			s.write(app)
			s.report(app)
		}
		s.now = s.now.Add(time.Minute)
	}
	failed := s.decide()
	if len(failed.Stalled) != 3 || failed.Current != 3 || s.most > 3 {
		t.Fatalf("the decision is %+v", failed)
	}
	s.text++
	if next := s.decide(); names(next.Take) != names(failed.Stalled) || next.Waiting != 17 {
		t.Errorf("the next text takes %s, want %s; %+v", names(next.Take), names(failed.Stalled), next)
	}
}

// TestAwaits has the resources that take the present defaults in a wave, and those that do not.
func TestAwaits(t *testing.T) {
	for name, c := range map[string]struct {
		member Member
		want   bool
	}{
		"it has them":               {Member{Current: true, Ready: true}, false},
		"ready":                     {Member{Ready: true}, true},
		"stalled":                   {Member{Stalled: true}, true},
		"a rollout of its own":      {Member{}, false},
		"granted":                   {Member{Granted: 2}, true},
		"paused":                    {Member{Left: true, Ready: true}, false},
		"with a canary":             {Member{Exempt: true, Ready: true}, false},
		"out by earlier ones":       {Member{Wave: 1, TakenAt: began.Add(-time.Minute), Reported: true, Since: began}, true},
		"invalid with them":         {Member{Invalid: true, Ready: true}, false},
		"gone back from them":       {Member{RolledBack: true, Stalled: true}, true},
		"gone back from a repair":   {Member{RolledBack: true, Stalled: true, Repairs: true}, false},
		"gone back from other ones": {Member{RolledBackEarlier: true}, true},
	} {
		if got := (&Rollout{Soak: time.Minute, Now: began}).Awaits(&c.member); got != c.want {
			t.Errorf("%s: %t", name, got)
		}
	}
}
