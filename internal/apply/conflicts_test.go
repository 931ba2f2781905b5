package apply

import (
	"fmt"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/types"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
)

// fought is a request and a plan for one object that is being fought over.
func fought(owner, object string) (*Request, *objectPlan) {
	o := &appsv1.Deployment{}
	o.Name = owner
	d := &appsv1.Deployment{}
	d.Name = object
	p := &objectPlan{subject: subject{object: &Object{Desired: d}}}
	p.gvk.Kind = "Deployment"
	return &Request{Owner: o, Manager: "me"}, p
}

// fightOf is a fight over one object, against a clock that the test sets.
type fightOf struct {
	t     *testing.T
	clock *clocktesting.FakePassiveClock
	c     *conflicts
	begin time.Time
}

func newFight(t *testing.T) *fightOf {
	t.Helper()
	begin := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	clk := clocktesting.NewFakePassiveClock(begin)
	return &fightOf{t: t, clock: clk, c: newConflicts(clk), begin: begin}
}

// at asks for leave to repair at a time of the fight, and checks how long to wait; 0 is leave.
func (f *fightOf) at(after time.Duration, want time.Duration) {
	f.t.Helper()
	f.clock.SetTime(f.begin.Add(after))
	req, p := fought("web", "web")
	got, fighting := f.c.noteRepair(req, p)
	if got != want || fighting != (want > 0) {
		f.t.Errorf("after %s: wait %s, fighting %t; want %s, %t", after, got, fighting, want, want > 0)
	}
}

// TestFight has the whole schedule of a fight that does not end.
func TestFight(t *testing.T) {
	f := newFight(t)
	for second := range 5 {
		f.at(time.Duration(second)*time.Second, 0)
	}
	now := 5 * time.Second
	f.at(now, 10*time.Second)
	for _, seconds := range []int{10, 20, 40, 80, 160, 300, 300, 300} {
		delay := time.Duration(seconds) * time.Second
		// Until then, each look says how long is left, and does not make it longer.
		f.at(now+delay/2, delay/2)
		f.at(now+delay-time.Nanosecond, time.Nanosecond)
		now += delay
		f.at(now, 0)
	}
}

// TestFightIsNotForRareRepairs checks that drift that comes now and then is always repaired at once.
func TestFightIsNotForRareRepairs(t *testing.T) {
	f := newFight(t)
	for i := range 50 {
		f.at(time.Duration(i)*conflictWindow/conflictRepairs, 0)
	}
}

// TestFightWindowSlides checks that five repairs count wherever the minute begins.
func TestFightWindowSlides(t *testing.T) {
	f := newFight(t)
	f.at(0, 0)
	for i := range 4 {
		f.at(50*time.Second+time.Duration(i)*time.Second, 0)
	}
	f.at(61*time.Second, 0)              // The first repair is over a minute old.
	f.at(62*time.Second, 10*time.Second) // The next four and that one are not.
}

// TestConflictBackoffResets checks that once a repair has held for a minute beyond its pause, all is forgotten.
func TestConflictBackoffResets(t *testing.T) {
	f := newFight(t)
	for range 5 {
		f.at(0, 0)
	}
	f.at(0, 10*time.Second)
	f.at(10*time.Second, 0) // The pause is 20 s now.
	peace := 10*time.Second + 20*time.Second + conflictWindow
	for range 5 {
		f.at(peace, 0)
	}
	f.at(peace, 10*time.Second)
}

// TestFightGoesOnWithinTheWindow is the other side of that line.
func TestFightGoesOnWithinTheWindow(t *testing.T) {
	f := newFight(t)
	for range 5 {
		f.at(0, 0)
	}
	f.at(0, 10*time.Second)
	f.at(10*time.Second, 0)
	late := 10*time.Second + 20*time.Second + conflictWindow - time.Nanosecond
	f.at(late, 0)
	f.at(late, 40*time.Second)
}

// TestFightsAreSeparate checks that one object's fight costs no other object its repair, and that a new resource of the
// same name starts again.
func TestFightsAreSeparate(t *testing.T) {
	f := newFight(t)
	for range 5 {
		f.at(0, 0)
	}
	f.at(0, 10*time.Second)
	for _, other := range [][2]string{{"web", "other"}, {"other", "web"}} {
		if _, fighting := f.c.noteRepair(fought(other[0], other[1])); fighting {
			t.Errorf("%s's Deployment %s is fought over, too", other[0], other[1])
		}
	}
	req, p := fought("web", "web")
	req.Manager = "another kind"
	if _, fighting := f.c.noteRepair(req, p); fighting {
		t.Error("the other kind's resource is fought over, too")
	}
	f.c.forgetOwner("another kind", types.NamespacedName{Name: "web"})
	f.at(0, 10*time.Second)
	f.c.forgetOwner("me", types.NamespacedName{Name: "web"})
	f.at(0, 0)
	if n := len(f.c.owners); n != 2 {
		t.Errorf("%d owners are remembered, want 2", n)
	}
}

// TestEditsOfOtherFieldsAreNoFight has a field each repaired once, and then one of them again and again.
func TestEditsOfOtherFieldsAreNoFight(t *testing.T) {
	f, now := &fight{}, time.Now()
	path := func(i int) pathSums {
		return sumPaths(fieldpath.NewSet(fieldpath.MakePathOrDie("metadata", "labels", fmt.Sprint("l", i))))
	}
	for i := range 2 * conflictRepairs {
		if _, fighting := f.noteRepair(now.Add(time.Duration(i)*time.Second), path(i)); fighting {
			t.Fatalf("the edit %d, each of another field, is taken for a fight", i)
		}
	}
	for i := range conflictRepairs - 1 {
		if _, fighting := f.noteRepair(now.Add(20*time.Second), path(0)); fighting {
			t.Fatalf("edit %d of one field is taken for a fight", i+2)
		}
	}
	if _, fighting := f.noteRepair(now.Add(21*time.Second), path(0)); !fighting {
		t.Error("a field that is repaired again and again is no fight")
	}
	f = &fight{}
	for i := range maxRepairs + 1 {
		if _, fighting := f.noteRepair(now, path(i)); fighting != (i == maxRepairs) {
			t.Errorf("repair %d of whatever field: fighting %t", i, fighting)
		}
	}
}

// TestReadsRecordNothing reads the records of objects that do not exist, as plans do, and restores what was read. Nothing is recorded, nor is
// anything left of an object that is deleted.
func TestReadsRecordNothing(t *testing.T) {
	f := newFight(t)
	for i := range 100 {
		req, p := fought("web", fmt.Sprint("web-", i))
		was := f.c.snapshotOf(req, p)
		if f.c.isOverridden(req, p, fieldpath.NewSet(fieldpath.MakePathOrDie("spec"))) || f.c.recentRepairs(req, p) != 0 {
			t.Error("an object without a record has one")
		}
		f.c.restoreSnapshot(req, p, was)
	}
	if n := len(f.c.owners[ownerKey{manager: "me", owner: types.NamespacedName{Name: "web"}}]); n > 0 {
		t.Errorf("%d objects are recorded", n)
	}
	req, p := fought("web", "web")
	f.c.noteOverridden(req, p, nil)
	f.c.forgetObject(ownerOf(req), objectOf(p))
	if n := len(f.c.owners[ownerOf(req)]); n > 0 {
		t.Errorf("%d objects are recorded after the deletion", n)
	}
}

// TestFightsOfRenamedObjectsEnd has an owner rename an object a thousand times, with a repair of each. Fights end an hour after their last repair, and an owner
// has a bounded number of them. The fields that the API server does not keep are remembered for as long as there is room.
func TestFightsOfRenamedObjectsEnd(t *testing.T) {
	repair := func(f *fightOf, owner, object string) { f.c.noteRepair(fought(owner, object)) }
	override := func(f *fightOf, owner, object string) {
		req, p := fought(owner, object)
		f.c.noteOverridden(req, p, fieldpath.NewSet(fieldpath.MakePathOrDie("spec", object)))
	}
	answer := func(f *fightOf, owner, object string) {
		req, p := fought(owner, object)
		f.c.noteOverridden(req, p, nil)
	}
	for name, c := range map[string]struct {
		note  func(f *fightOf, owner, object string)
		step  time.Duration
		most  int
		stays bool
	}{
		"repairs an hour apart":   {repair, slowWindow, 1, false},
		"repairs at once":         {repair, 0, maxFights, false},
		"answers an hour apart":   {answer, slowWindow, 1, false},
		"answers at once":         {answer, 0, maxFights, false},
		"overrides an hour apart": {override, slowWindow, maxFights, true},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFight(t)
			override(f, "other", "web")
			for i := range 1000 {
				f.clock.SetTime(f.clock.Now().Add(c.step))
				c.note(f, "web", fmt.Sprint("web-", i))
			}
			req, p := fought("web", "web-999")
			if n := len(f.c.owners[ownerOf(req)]); n > c.most {
				t.Errorf("%d objects are recorded, want at most %d", n, c.most)
			}
			if known := f.c.knownFight(req, p); known.isZero() {
				t.Error("the latest object is not recorded")
			}
			if req, p := fought("other", "web"); !f.c.isOverridden(req, p, fieldpath.NewSet(fieldpath.MakePathOrDie("spec", "web"))) {
				t.Error("what the API server does not keep of another owner's object is forgotten")
			}
			f.clock.SetTime(f.clock.Now().Add(slowWindow))
			repair(f, "third", "web")
			if n := len(f.c.owners[ownerOf(req)]); n > 0 != c.stays {
				t.Errorf("%d objects are recorded an hour later", n)
			}
		})
	}
}

// TestFightLastsWhileItCounts has repairs of another object a minute apart, at which old fights are looked for: a pause and the repairs of an hour stay.
func TestFightLastsWhileItCounts(t *testing.T) {
	f := newFight(t)
	for range 5 {
		f.at(0, 0)
	}
	f.at(0, conflictFirstDelay)
	for minute := range 59 {
		f.clock.SetTime(f.begin.Add(time.Duration(minute+1) * time.Minute))
		f.c.noteRepair(fought("other", "other"))
	}
	if n := f.c.recentRepairs(fought("web", "web")); n != 5 {
		t.Errorf("%d repairs of the last hour, want 5", n)
	}
	f = newFight(t)
	for range 5 {
		f.at(0, 0)
	}
	f.at(0, conflictFirstDelay)
	f.c.noteRepair(fought("other", "other"))
	f.at(conflictFirstDelay/2, conflictFirstDelay/2)
}
