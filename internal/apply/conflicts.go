package apply

import (
	"slices"
	"strings"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
)

// The limits of repairs while another writer keeps undoing the writes of the engine.
const (
	// conflictWindow is the time in which repairs of one object are counted.
	conflictWindow = time.Minute
	// conflictRepairs is the number of repairs of a field in the window after which the engine backs off, maxRepairs the number of
	// repairs of whatever fields of an object.
	conflictRepairs = 5
	maxRepairs      = 30
	// conflictFirstDelay is the first pause; each further one is twice as long, up to conflictMaxDelay.
	conflictFirstDelay = 10 * time.Second
	conflictMaxDelay   = 5 * time.Minute
	// slowWindow is the time in which repairs are counted for an event, from slowRepairs on.
	slowWindow  = time.Hour
	slowRepairs = 5
	// maxFights is the number of objects of one owner that are remembered. An owner can rename its objects for ever.
	maxFights = 256
)

// conflicts has the objects that another writer keeps changing. A restart forgets them, which only makes the next pause
// shorter.
type conflicts struct {
	clock  clock.PassiveClock
	mu     sync.Mutex
	owners map[ownerKey]map[string]*fight
	// swept is when all fights were last looked through for old ones.
	swept time.Time
}

type ownerKey struct {
	manager string
	owner   types.NamespacedName
}

// fight is the state of one object that another writer keeps changing.
type fight struct {
	repairs []repair
	// lately are the repairs of the last hour.
	lately []time.Time
	delay  time.Duration
	last   time.Time
	// noted is when anything of the fight was last noted.
	noted time.Time
	// answered is true once a write was answered, and overridden are the fields that the API server did not keep in the last answer.
	answered   bool
	overridden pathSums
	// unkept is when fields were last written that the API server does not keep, or when that was first observed.
	unkept time.Time
}

// repair is one repair of an object. fields are the fields that were repaired, nil for more than maxRepairedFields.
type repair struct {
	at     time.Time
	fields pathSums
}

func newConflicts(clk clock.PassiveClock) *conflicts {
	return &conflicts{clock: clk, owners: map[ownerKey]map[string]*fight{}}
}

// noteRepair counts a repair of the plan's object. During a conflict, noteRepair returns how long to leave the object unchanged.
func (c *conflicts) noteRepair(req *Request, p *objectPlan) (retry time.Duration, fighting bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	f, now := c.fightFor(req, p), c.clock.Now()
	var fields pathSums
	if p.diff != nil && p.diff.Size() <= maxRepairedFields {
		fields = sumPaths(p.diff)
	}
	if retry, fighting = f.noteRepair(now, fields); !fighting {
		f.lately = append(slices.DeleteFunc(f.lately, func(at time.Time) bool { return now.Sub(at) >= slowWindow }), now)
	}
	return retry, fighting
}

// dropOldFights drops the repairs of all objects that no longer count, and the fights that are over, once in a window. c.mu is held.
func (c *conflicts) dropOldFights(now time.Time) {
	if now.Sub(c.swept).Abs() < conflictWindow {
		return
	}
	c.swept = now
	for owner, fights := range c.owners {
		for object, f := range fights {
			if f.dropOldRepairs(now); f.isOver(now) {
				c.dropFight(owner, object)
			}
		}
	}
}

// dropFight drops the fight over an object, and with the last one its owner. c.mu is held.
func (c *conflicts) dropFight(owner ownerKey, object string) {
	delete(c.owners[owner], object)
	if len(c.owners[owner]) == 0 {
		delete(c.owners, owner)
	}
}

// makeRoom drops of an owner with maxFights fights the oldest one. c.mu is held.
func (c *conflicts) makeRoom(owner ownerKey) {
	fights := c.owners[owner]
	if len(fights) < maxFights {
		return
	}
	oldest := ""
	for object, f := range fights {
		if oldest == "" || f.noted.Before(fights[oldest].noted) {
			oldest = object
		}
	}
	c.dropFight(owner, oldest)
}

// snapshotOf returns the record of the plan's object. restoreSnapshot restores it: a repair that failed does not count.
func (c *conflicts) snapshotOf(req *Request, p *objectPlan) fight {
	c.mu.Lock()
	defer c.mu.Unlock()
	was := c.knownFight(req, p)
	was.repairs, was.lately = slices.Clone(was.repairs), slices.Clone(was.lately)
	return was
}

func (c *conflicts) restoreSnapshot(req *Request, p *objectPlan, was fight) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if was.isZero() {
		c.dropFight(ownerOf(req), objectOf(p))
		return
	}
	f := c.fightFor(req, p)
	was.noted = f.noted
	*f = was
}

// noteOverridden remembers which fields the API server did not keep in an answer to a write of ours.
func (c *conflicts) noteOverridden(req *Request, p *objectPlan, diff *fieldpath.Set) {
	c.mu.Lock()
	defer c.mu.Unlock()
	f := c.fightFor(req, p)
	f.answered, f.overridden = true, sumOverridden(diff)
}

// isOverridden reports whether the API server did not keep these fields when they were last written: by the answer, or, before the first
// answer to this process, by the message in the status of the owner. The message has to be the whole message that this process would write of
// these very fields: the reason alone would hide a change of another field by a writer of the same name (TestForgedManagerUnderAdmission).
func (c *conflicts) isOverridden(req *Request, p *objectPlan, diff *fieldpath.Set) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if f := c.knownFight(req, p); f.answered {
		return f.overridden.hasAll(sumOverridden(diff))
	}
	return strings.Contains(req.Before.Overridden, overriddenMessage(p, diff))
}

// recentRepairs returns how often the plan's object was repaired within an hour, 0 if that is not often.
func (c *conflicts) recentRepairs(req *Request, p *objectPlan) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	if known := c.knownFight(req, p); len(known.lately) >= slowRepairs {
		return len(known.lately)
	}
	return 0
}

// retryWrite reports whether a write of fields that the API server has not kept must wait, and how long. One write in conflictMaxDelay
// passes, as the other writer may be gone.
func (c *conflicts) retryWrite(req *Request, p *objectPlan) (retry time.Duration, wait bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	f, now := c.fightFor(req, p), c.clock.Now()
	if f.unkept.IsZero() {
		f.unkept = now
	}
	if since := now.Sub(f.unkept); since < conflictMaxDelay {
		return conflictMaxDelay - since, true
	}
	f.unkept = now
	return 0, false
}

func ownerOf(req *Request) ownerKey {
	return ownerKey{req.Manager, client.ObjectKeyFromObject(req.Owner)}
}

// objectOf returns the key of the plan's object among the objects of its owner.
func objectOf(p *objectPlan) string { return objectNamed(p.gvk.Kind, p.object.Desired.GetName()) }

// objectNamed returns the key of an object among the objects of its owner.
func objectNamed(kind, name string) string { return kind + "/" + name }

// isZero reports whether nothing is recorded.
func (f *fight) isZero() bool {
	return len(f.repairs)+len(f.lately) == 0 && f.delay == 0 && f.last.IsZero() && !f.answered && f.unkept.IsZero()
}

// knownFight returns a copy of the fight over the plan's object, the zero value for none. Plans call it with names that no object ever gets, so it
// records nothing.
func (c *conflicts) knownFight(req *Request, p *objectPlan) fight {
	if f := c.owners[ownerOf(req)][objectOf(p)]; f != nil {
		return *f
	}
	return fight{}
}

// fightFor returns the fight over the plan's object, which is recorded from now on.
func (c *conflicts) fightFor(req *Request, p *objectPlan) *fight {
	owner, object, now := ownerOf(req), objectOf(p), c.clock.Now()
	c.dropOldFights(now)
	if c.owners[owner][object] == nil {
		c.makeRoom(owner)
		if c.owners[owner] == nil {
			c.owners[owner] = map[string]*fight{}
		}
		c.owners[owner][object] = &fight{}
	}
	f := c.owners[owner][object]
	f.noted = now
	return f
}

func (f *fight) noteRepair(now time.Time, fields pathSums) (retry time.Duration, fighting bool) {
	since := now.Sub(f.last)
	switch {
	case f.delay > 0 && since < f.delay:
		return f.delay - since, true
	case f.delay > 0 && since < f.delay+conflictWindow:
		f.delay = min(2*f.delay, conflictMaxDelay)
		f.last = now
		return 0, false
	case f.delay > 0:
		f.repairs, f.delay = nil, 0 // The last repair has held for long enough.
	}
	f.dropOldRepairs(now)
	f.last = now
	same := 0
	for _, r := range f.repairs {
		if fields == nil || r.fields == nil || r.fields.hasAny(fields) {
			same++
		}
	}
	if same >= conflictRepairs || len(f.repairs) >= maxRepairs {
		f.repairs, f.delay = nil, conflictFirstDelay
		return f.delay, true
	}
	f.repairs = append(f.repairs, repair{now, fields})
	return 0, false
}

// dropOldRepairs drops the repairs that no longer count.
func (f *fight) dropOldRepairs(now time.Time) {
	f.repairs = slices.DeleteFunc(f.repairs, func(r repair) bool { return now.Sub(r.at) >= conflictWindow })
}

// isOver reports whether nothing of the fight counts any longer: nothing was noted within slowWindow, and the API server has kept all fields. The status of the
// owner has the fields of an earlier answer.
func (f *fight) isOver(now time.Time) bool {
	return len(f.overridden) == 0 && now.Sub(f.noted).Abs() >= slowWindow
}

// forgetObject drops the record of an object that is deleted, or that its owner has no longer.
func (c *conflicts) forgetObject(owner ownerKey, object string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.dropFight(owner, object)
}

// forgetOwner drops the records of an owner.
func (c *conflicts) forgetOwner(manager string, owner types.NamespacedName) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.owners, ownerKey{manager, owner})
}
