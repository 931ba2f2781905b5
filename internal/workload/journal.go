package workload

import (
	"errors"
	"slices"

	"huolala.cn/app-operator/internal/apply"
	"huolala.cn/app-operator/internal/reconciler"
)

// Journal has the outcomes of the dry runs of one plan. It is for one goroutine. A reconcile has none: a nil journal notes nothing.
type Journal struct {
	outcomes []apply.Outcome
}

// noteOutcomes notes the outcomes of one request. A local run of a plan, for a tier that waits, is no part of the plan but for its
// obstacles and deletions.
func (j *Journal) noteOutcomes(done *apply.Outcomes, mode apply.Mode) {
	if j == nil {
		return
	}
	for i := range done.Objects {
		out := &done.Objects[i]
		auxiliary := out.Object.Auxiliary
		switch {
		case auxiliary && out.Withheld && !out.Adopted, errors.Is(out.Err, reconciler.ErrStale):
		case out.Err != nil && !auxiliary, out.Err == nil && (mode == apply.Local || out.Action == ""):
		case out.Withheld:
			j.Note(&apply.Outcome{Change: apply.Change{Kind: out.Kind, Name: out.Name}})
		default:
			j.Note(out)
		}
	}
	for i := range done.Pruned {
		j.Note(&done.Pruned[i])
	}
}

// Note notes the outcome of one object. The first outcome of an object counts: after a refused request, the plan tries the last
// applied spec.
func (j *Journal) Note(out *apply.Outcome) {
	if j == nil {
		return
	}
	if !slices.ContainsFunc(j.outcomes, func(o apply.Outcome) bool { return o.Kind == out.Kind && o.Name == out.Name }) {
		j.outcomes = append(j.outcomes, *out)
	}
}

// size returns the number of the outcomes.
func (j *Journal) size() int {
	if j == nil {
		return 0
	}
	return len(j.outcomes)
}

// noteJob notes the Job that a rollout waits for, before the outcomes from a number on, which are those of the rollout.
func (j *Journal) noteJob(before int, name string) {
	if j != nil {
		j.outcomes = slices.Insert(j.outcomes, before, apply.Outcome{Change: apply.Change{Kind: "Job", Name: name, Action: apply.Created}})
	}
}

// deletedKinds returns the kinds of the objects that the plan deletes.
func (j *Journal) deletedKinds() []string {
	if j == nil {
		return nil
	}
	var kinds []string
	for i := range j.outcomes {
		if j.outcomes[i].Action == apply.Deleted {
			kinds = append(kinds, j.outcomes[i].Kind)
		}
	}
	return kinds
}

// Adoptions returns the outcomes of the objects that the plan takes over, and the obstacles.
func (j *Journal) Adoptions() []apply.Outcome {
	return slices.DeleteFunc(j.Changed(), func(o apply.Outcome) bool {
		return o.Err == nil && (!o.TakenOver || o.Action == apply.Created)
	})
}

// Changed returns the outcomes without the objects that the plan leaves unchanged.
func (j *Journal) Changed() []apply.Outcome {
	return slices.DeleteFunc(slices.Clone(j.outcomes), func(o apply.Outcome) bool {
		return o.Err == nil && (o.Action == apply.Unchanged || o.Action == "")
	})
}
