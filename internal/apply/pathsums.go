package apply

import (
	"hash/maphash"
	"slices"

	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
)

// The maximum numbers of fields that the engine remembers of a repair, and of the fields that the API server has not kept. A user who can write an
// object can change as many fields of it as fit into an object.
const (
	maxRepairedFields   = 64
	maxOverriddenFields = 1000
)

// pathSums are the sums of paths of fields, in order: eight bytes each, whatever the length of the path.
type pathSums []uint64

// pathSeed makes the sums of a process differ from those of another, so that no user can choose paths with equal sums.
var pathSeed = maphash.MakeSeed()

// sumPaths returns the sums of the paths of a set.
func sumPaths(set *fieldpath.Set) pathSums {
	sums := pathSums{}
	set.Iterate(func(path fieldpath.Path) { sums = append(sums, maphash.String(pathSeed, path.String())) })
	slices.Sort(sums)
	return sums
}

// sumOverridden returns the sums of the paths of a set, one sum of all for more than maxOverriddenFields, nil for no set.
func sumOverridden(set *fieldpath.Set) pathSums {
	if set == nil {
		return nil
	}
	sums := sumPaths(set)
	if len(sums) <= maxOverriddenFields {
		return sums
	}
	var all maphash.Hash
	all.SetSeed(pathSeed)
	for _, sum := range sums {
		maphash.WriteComparable(&all, sum)
	}
	return pathSums{all.Sum64()}
}

// hasAny reports whether two sets have a path in common.
func (s pathSums) hasAny(of pathSums) bool {
	return slices.ContainsFunc(of, s.has)
}

// hasAll reports whether a set has all paths of another one. Nothing is in no set.
func (s pathSums) hasAll(of pathSums) bool {
	return s != nil && !slices.ContainsFunc(of, func(sum uint64) bool { return !s.has(sum) })
}

func (s pathSums) has(sum uint64) bool {
	_, found := slices.BinarySearch(s, sum)
	return found
}
