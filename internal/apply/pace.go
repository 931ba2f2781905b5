package apply

import (
	"time"
)

// pace is when an object may be written that another writer, or the API server itself, keeps changing.
type pace struct {
	// skip leaves the object unchanged.
	skip bool
	// conflict is the error to report instead of a write, where another writer keeps undoing the writes.
	conflict error
	// overridden is the message about fields that the API server does not keep, retry when they are written again.
	overridden string
	retry      time.Duration
	// times is how often the object was repaired within an hour, 0 if that is not often.
	times int
}

// paceRepairs decides whether it is time to write an object that another writer, or the API server itself, keeps changing. A dry
// or local run leaves the records of the object unchanged.
func (r *run) paceRepairs(p *objectPlan) pace {
	switch {
	case p.drift == driftDropped && r.req.Policy.AcceptOverrides:
		return pace{skip: true}
	case p.drift == driftDropped:
		retry, wait := conflictMaxDelay, true
		if r.mode == Write {
			retry, wait = r.conflicts.retryWrite(r.req, p)
		}
		if wait {
			return pace{skip: true, overridden: overriddenMessage(p, p.diff), retry: retry}
		}
	case p.drift == driftRepaired && r.mode == Write:
		retry, fighting := r.conflicts.noteRepair(r.req, p)
		if fighting {
			return pace{conflict: fieldConflict(p, p.live, p.diff, retry)}
		}
		return pace{times: r.conflicts.recentRepairs(r.req, p)}
	}
	return pace{}
}

// countRepair counts a repair that has changed the object, and forgets any other: an attempt that was refused, or met a newer
// version of the object, is no sign of a conflict.
func (r *run) countRepair(p *objectPlan, before fight, changed bool) {
	if changed {
		repairs.WithLabelValues(p.gvk.Kind).Inc()
		return
	}
	now := r.conflicts.snapshotOf(r.req, p)
	before.answered, before.overridden = now.answered, now.overridden
	r.conflicts.restoreSnapshot(r.req, p, before)
}
