package apply

import (
	"fmt"
	"testing"
	"time"

	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
)

// manyPaths returns a set of paths from a number to another one.
func manyPaths(from, to int) *fieldpath.Set {
	set := fieldpath.NewSet()
	for i := from; i < to; i++ {
		set.Insert(fieldpath.MakePathOrDie("spec", fmt.Sprintf("field-%d", i)))
	}
	return set
}

// TestPathSums compares sets by the sums of their paths, also of sets with one sum for all paths.
func TestPathSums(t *testing.T) {
	many := maxOverriddenFields + 1
	for name, c := range map[string]struct {
		kept, asked *fieldpath.Set
		all         bool
	}{
		"nothing was kept back":    {nil, manyPaths(0, 1), false},
		"the same":                 {manyPaths(0, 3), manyPaths(0, 3), true},
		"a part":                   {manyPaths(0, 3), manyPaths(1, 2), true},
		"one more":                 {manyPaths(0, 3), manyPaths(1, 4), false},
		"others":                   {manyPaths(0, 3), manyPaths(3, 5), false},
		"many, the same":           {manyPaths(0, many), manyPaths(0, many), true},
		"many, one other":          {manyPaths(0, many), manyPaths(1, many+1), false},
		"as many as kept one each": {manyPaths(0, maxOverriddenFields), manyPaths(7, 9), true},
	} {
		if got := sumOverridden(c.kept).hasAll(sumOverridden(c.asked)); got != c.all {
			t.Errorf("%s: %t", name, got)
		}
	}
	if sums := sumOverridden(manyPaths(0, many)); len(sums) != 1 {
		t.Errorf("%d sums are kept of %d paths", len(sums), many)
	}
	if a, b := sumPaths(manyPaths(0, 5)), sumPaths(manyPaths(4, 9)); !a.hasAny(b) || a.hasAny(b[1:][:0]) || sumPaths(manyPaths(0, 4)).hasAny(b) {
		t.Error("sets with a path in common")
	}
}

// TestRepairsOfManyFields repairs many fields of many objects: what is remembered has a limit for each object, and is forgotten with the time.
func TestRepairsOfManyFields(t *testing.T) {
	f := newFight(t)
	for i := range 20 {
		req, p := fought("web", fmt.Sprint("web-", i))
		p.diff = manyPaths(0, 15_000)
		if i%2 == 0 {
			p.diff = manyPaths(0, maxRepairedFields)
		}
		f.c.noteRepair(req, p)
	}
	kept := func() (repairs, fields int) {
		for _, fights := range f.c.owners {
			for _, fight := range fights {
				repairs += len(fight.repairs)
				for _, r := range fight.repairs {
					fields += len(r.fields)
				}
			}
		}
		return repairs, fields
	}
	if repairs, fields := kept(); repairs != 20 || fields != 10*maxRepairedFields {
		t.Errorf("of 20 repairs, %d are kept with %d fields", repairs, fields)
	}
	f.clock.SetTime(f.begin.Add(conflictWindow + time.Second))
	req, p := fought("other", "other")
	f.c.noteRepair(req, p)
	if repairs, _ := kept(); repairs != 1 {
		t.Errorf("%d repairs are kept after the window", repairs)
	}
}

// TestRepairsOfManyFieldsCount repairs more fields than are remembered, again and again: each counts as a repair of the same fields.
func TestRepairsOfManyFieldsCount(t *testing.T) {
	f := newFight(t)
	for i := range conflictRepairs + 1 {
		req, p := fought("web", "web")
		p.diff = manyPaths(i*1000, i*1000+maxRepairedFields+1)
		if _, fighting := f.c.noteRepair(req, p); fighting != (i == conflictRepairs) {
			t.Errorf("repair %d: fighting %t", i, fighting)
		}
	}
}
