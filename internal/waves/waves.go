// Package waves decides which resources take changed defaults next. Decide is pure: it follows from the records on the workloads, the statuses of the
// resources, and the waves that the status of the AppDefaults has, so that each leader makes the same decision. Grants hands the decision to the reconciles of
// the resources.
package waves

import (
	"cmp"
	"crypto/sha256"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"huolala.cn/app-operator/internal/reconciler"
)

// ID names a resource.
type ID struct {
	Kind string
	types.NamespacedName
}

// Member is a resource that a rollout is about.
type Member struct {
	ID
	UID types.UID
	// Current is true if the resource has the present defaults by the record on its workload.
	Current bool
	// Wave is the number of the wave in which the workload took the defaults that it has, and TakenAt the time of that; 0 if it took them
	// with a change of its own. Reported is true once the status of the resource is about these defaults, and WasReady once that status had the
	// resource ready.
	Wave               int32
	TakenAt            time.Time
	Reported, WasReady bool
	// Repairs is true for a wave, or a grant, of resources that had stalled before: the defaults of the wave are not the cause of their failure. It is about
	// the grant, after a rollback from defaults about the wave that failed, and else about the wave Wave.
	Repairs bool
	// Ready and Stalled are the conditions of the resource, and Since is the time of the last change of the condition Ready.
	Ready, Stalled bool
	Since          time.Time
	// RolledBack is true if the present defaults have failed, and RolledBackEarlier if others have: the resource has gone back to the
	// defaults of before.
	RolledBack, RolledBackEarlier bool
	// ReadyFor is the longest time for which the resource was ready with its defaults, until it lost its readiness at ReadyUntil.
	ReadyFor   time.Duration
	ReadyUntil time.Time
	// Unapplied is true while the resource is not ready as its present spec is not in force, Refuses if the resource has stalled for the same reason, and
	// RolledBackOwn after a rollback from a change of its own.
	Unapplied, Refuses, RolledBackOwn bool
	// Left is true for a resource that a user has taken out of the rollout, Exempt for a resource that no wave can take, and Invalid for a resource that cannot have
	// the defaults.
	Left, Exempt, Invalid bool
	// Granted is the number of the wave of a grant, from the decision that the resource takes the defaults until its record has them; 0 for none.
	// GrantedAt is the time of the decision, and Refused is true while the API server refuses the objects of a resource with a grant.
	Granted   int32
	GrantedAt time.Time
	Refused   bool
}

// Rollout is the state of a rollout.
type Rollout struct {
	Members []Member
	// Size is the number of resources of a wave, at least 1. Soak is for how long these must have been ready before the next wave.
	Size int
	Soak time.Duration
	Now  time.Time
	// Salt is a text that changes with the defaults. The order of the resources follows from Salt and their UIDs.
	Salt string
	// Pending is true while no wave may begin, though resources wait: see Grants.
	Pending bool
	// Latest is the number of the latest wave, also of other defaults: the next one has a higher number.
	Latest int32
	// Soaked is the latest wave whose soak has ended, by an earlier decision.
	Soaked Soaked
}

// Soaked is a wave whose soak has ended, and the soak by which it has: a longer soak, stated later, does not count for that wave, nor for the waves before.
type Soaked struct {
	Wave int32
	Soak time.Duration
}

// Decision is the decision on a rollout.
type Decision struct {
	// Take are the resources that take the defaults now, as the wave of the number Wave. Without any, Wave is the latest wave.
	Take []ID
	Wave int32
	// Repairs is true if the resources of Take have stalled before: they come last, and may stall again.
	Repairs bool
	// Stalled are the resources of waves that have stalled: no wave begins. Busy are the resources of the latest wave that are not ready yet, or
	// have not been ready for the soak. Late are the resources of Stalled whose time for the soak is over, without a failure.
	Stalled, Late, Busy []ID
	// Soaked is the latest wave whose soak has ended, by this decision or an earlier one.
	Soaked Soaked
	// Skipped are the resources without the present defaults that are left out for now.
	Skipped []ID
	// Current and Rest are the numbers of resources with the present defaults and without. Waiting is the number of the latter that a later wave has.
	Current, Rest, Waiting int
	// Again is when the soaks of all resources of the latest wave that are ready have ended if these stay ready, or when a resource has held up the next wave for too
	// long, whichever is first; 0 if no time ends anything.
	Again time.Duration
}

const (
	// failTime is for how long after a resource took defaults, and after the soak, the loss of its readiness counts as an effect of these.
	failTime = 10 * time.Minute
	// stuckTime is for how long, in addition to the soak, a resource of the latest wave may hold up the next wave before it counts as stalled.
	stuckTime = time.Hour
	// maxSkew is how far in the future a recorded time may be. Beyond, it does not count.
	maxSkew = time.Minute
)

// Decide returns the decision on a rollout: the wave under way, or the next wave once all resources of the latest one have been ready for the
// soak. Resources that earlier defaults have made not ready come first, and count: with the new ones, at most Size are not ready. Resources that have
// stalled with a change of their own come last.
func Decide(r *Rollout) Decision {
	made := Decision{Soaked: r.Soaked}
	for i := range r.Members {
		m := &r.Members[i]
		if made.Wave = max(made.Wave, m.Granted); m.Current {
			made.Wave = max(made.Wave, m.Wave)
		}
	}
	var out, ready, broken []*Member
	var soak, stuck time.Duration
	for i := range r.Members {
		m := &r.Members[i]
		if r.hasStalled(m, made.Wave) {
			made.Stalled = append(made.Stalled, m.ID)
			if !r.hasFailed(m) {
				made.Late = append(made.Late, m.ID)
			}
		}
		if r.isBusy(m, made.Wave) {
			made.Busy = append(made.Busy, m.ID)
			if m.Granted == 0 {
				soak = max(soak, r.soakLeft(m))
			}
			stuck = reconciler.MinRequeue(stuck, r.stuckLeft(m))
		}
		switch r.placeOf(m) {
		case placeCurrent:
			made.Current++
		case placeOut:
			out = append(out, m)
		case placeReady:
			ready = append(ready, m)
		case placeBroken:
			broken = append(broken, m)
		case placeSkipped:
			made.Skipped = append(made.Skipped, m.ID)
		case placeGranted, placeInvalid, placeBack:
		}
	}
	made.Again = reconciler.MinRequeue(soak, stuck) // The next wave begins after the last soak.
	made.Rest = len(r.Members) - made.Current
	made.Waiting = len(out) + len(ready) + len(broken)
	if len(made.Stalled)+len(made.Busy) > 0 || r.Pending {
		return made
	}
	if made.Wave > r.Soaked.Wave {
		made.Soaked = Soaked{Wave: made.Wave, Soak: r.Soak}
	}
	made.Take = append(r.firstIDs(out, r.Size), r.firstIDs(ready, r.Size-len(out))...)
	if len(made.Take) == 0 && len(broken) > 0 {
		made.Take, made.Repairs = r.firstIDs(broken, r.Size), true
	}
	if made.Waiting -= len(made.Take); len(made.Take) > 0 {
		made.Wave = max(made.Wave, r.Latest) + 1
	}
	return made
}

// place is the part of a rollout that a resource belongs to.
type place int

const (
	// placeCurrent has the resources with the present defaults, and placeGranted the resources with a grant of these.
	placeCurrent place = iota
	placeGranted
	// placeInvalid has the resources that cannot have the present defaults. placeSkipped has the resources that are left out for now, also those that have gone back
	// from a repair, and placeBack has the other resources that have gone back from the present defaults.
	placeInvalid
	placeSkipped
	placeBack
	// placeOut, placeReady and placeBroken have the resources that wait for a wave: the resources that are not ready because of an earlier wave, the ready ones,
	// and the resources that have stalled with a change of their own.
	placeOut
	placeReady
	placeBroken
)

// placeOf returns the place of a resource.
func (r *Rollout) placeOf(m *Member) place {
	switch {
	case m.Current:
		return placeCurrent
	case m.Granted > 0:
		return placeGranted
	case m.Invalid:
		return placeInvalid
	case m.Left, m.Exempt, m.RolledBack && m.Repairs:
		return placeSkipped
	case m.RolledBack:
		return placeBack
	case r.isOut(m):
		return placeOut
	case m.Ready:
		return placeReady
	case m.Stalled:
		return placeBroken
	}
	return placeSkipped
}

// Awaits reports whether a resource takes the present defaults in a wave, or once the rollout goes on.
func (r *Rollout) Awaits(m *Member) bool {
	return slices.Contains([]place{placeGranted, placeBack, placeOut, placeReady, placeBroken}, r.placeOf(m))
}

// hasStalled reports whether the present defaults, taken in a wave, have made a resource fail, or, in the latest wave, keep it from the end of its soak.
func (r *Rollout) hasStalled(m *Member, latest int32) bool {
	return !m.isLeftAlone() && !m.Repairs && (r.hasFailed(m) || !m.isTakenOut() && r.isLate(m, latest))
}

// hasFailed reports whether a resource has gone back from the present defaults, cannot be written with them, or has stalled by them.
func (r *Rollout) hasFailed(m *Member) bool {
	if m.Granted > 0 { // A condition is about the former defaults.
		return m.Refused
	}
	return m.RolledBack || m.Current && m.Wave > 0 && m.Reported && m.Stalled && !r.hasOwnTrouble(m)
}

// hasOwnTrouble reports whether a resource has stalled with a change of its own, which is not in force: after a rollback, or refused long after its soak.
func (r *Rollout) hasOwnTrouble(m *Member) bool {
	return m.RolledBackOwn || m.Stalled && m.Refuses && r.hadSoaked(m)
}

// soakOf returns the soak of a resource: of the grant that it has, or of the wave in which it took its defaults.
func (r *Rollout) soakOf(m *Member) time.Duration {
	if m.Granted == 0 && m.Wave > 0 && m.Wave <= r.Soaked.Wave {
		return min(r.Soak, r.Soaked.Soak)
	}
	return r.Soak
}

// hadSoaked reports whether a resource was ready for its soak, until long after it took its defaults.
func (r *Rollout) hadSoaked(m *Member) bool {
	soak := r.soakOf(m)
	return m.Reported && m.WasReady && m.ReadyFor >= soak && m.ReadyUntil.After(m.TakenAt.Add(soak+failTime)) && !m.ReadyUntil.After(r.Now.Add(maxSkew))
}

// isLate reports whether the time of a resource of the latest wave for its soak is over, or the time to take the defaults.
func (r *Rollout) isLate(m *Member, latest int32) bool {
	if m.Granted > 0 {
		return r.stuckLeft(m) <= 0
	}
	return m.Current && m.Wave > 0 && m.Wave == latest && !r.hasSoaked(m) && r.stuckLeft(m) <= 0
}

// isBusy reports whether a resource with the present defaults, or a grant of them, keeps the next wave from beginning.
func (r *Rollout) isBusy(m *Member, latest int32) bool {
	switch {
	case !m.Current && m.Granted == 0, (m.Repairs || m.isTakenOut()) && r.stuckLeft(m) <= 0: // It has had its time, and stops nothing.
		return false
	case m.Granted > 0:
		return !m.Refused || !m.Repairs
	case m.Wave == 0 || m.Wave != latest || m.isLeftAlone() || m.Repairs && m.Reported && m.Stalled:
		return false
	}
	return !r.hasSoaked(m)
}

// stuckLeft returns the rest of the time that a resource has to take the defaults, or for the end of its soak. A time in the future does not count.
func (r *Rollout) stuckLeft(m *Member) time.Duration {
	since := m.TakenAt
	if m.Granted > 0 {
		since = m.GrantedAt
	}
	if since.After(r.Now.Add(maxSkew)) {
		return r.soakOf(m) + stuckTime
	}
	return max(0, since.Add(r.soakOf(m)+stuckTime).Sub(r.Now))
}

// isTakenOut reports whether a resource of a wave stops no rollout: a user has taken it out, or no wave can take it, and it was ready with its defaults. A resource that
// was not ready yet counts, also if no wave can take it any more, as with a canary.
func (m *Member) isTakenOut() bool {
	return m.Left || m.Exempt && m.Reported && m.WasReady && !m.RolledBack
}

// isLeftAlone reports whether a resource that has failed stops no rollout.
func (m *Member) isLeftAlone() bool { return m.isTakenOut() && (m.Stalled || m.RolledBack) }

// isOut reports whether a resource is not ready because of defaults that it took in a wave and that are no longer the present ones.
func (r *Rollout) isOut(m *Member) bool {
	switch {
	case m.RolledBackEarlier:
		return !m.Repairs
	case m.Wave == 0 || m.Repairs && !m.WasReady:
		return false
	case !m.Reported || !m.WasReady:
		return true
	}
	return !m.Ready && !m.Since.After(m.TakenAt.Add(r.soakOf(m)+failTime))
}

// hasSoaked reports whether a resource with the present defaults has been ready for the soak since it took them. A later loss of readiness does not
// begin another soak, unless its cause is unknown, as objects cannot be applied.
func (r *Rollout) hasSoaked(m *Member) bool {
	return m.Reported && m.Ready && r.soakLeft(m) <= 0 || r.hasOwnTrouble(m) || r.hadSoaked(m) && !m.Unapplied
}

// soakLeft returns the rest of the soak of a resource, 0 if it is not ready.
func (r *Rollout) soakLeft(m *Member) time.Duration {
	if !m.Reported || !m.Ready {
		return 0
	}
	var since time.Time
	for _, at := range []time.Time{m.Since, m.TakenAt} {
		if at.After(since) && !at.After(r.Now.Add(maxSkew)) {
			since = at
		}
	}
	return max(0, since.Add(r.soakOf(m)).Sub(r.Now))
}

// firstIDs returns the IDs of the first n of some resources. The order is the same until the salt changes, and spreads the resources of a namespace over
// the waves. No name has a place in it: a UID is drawn by the API server, and a salt that is still to come is not known when a resource is created.
func (r *Rollout) firstIDs(members []*Member, n int) []ID {
	places := make(map[*Member]string, len(members))
	for _, m := range members {
		place := sha256.Sum256([]byte(r.Salt + "/" + string(m.UID)))
		places[m] = string(place[:])
	}
	slices.SortFunc(members, func(a, b *Member) int { return cmp.Or(cmp.Compare(places[a], places[b]), a.compareID(&b.ID)) })
	var ids []ID
	for _, m := range members[:max(0, min(n, len(members)))] {
		ids = append(ids, m.ID)
	}
	return ids
}

// compareID compares IDs by namespace, name and kind.
func (id *ID) compareID(other *ID) int {
	return cmp.Or(cmp.Compare(id.Namespace, other.Namespace), cmp.Compare(id.Name, other.Name), cmp.Compare(id.Kind, other.Kind))
}
