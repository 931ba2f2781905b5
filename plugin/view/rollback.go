package view

import (
	"maps"
	"reflect"
	"slices"
)

// Operation is one of a JSON patch (RFC 6902).
type Operation struct {
	Op    string `json:"op"`
	Path  string `json:"path"`
	Value any    `json:"value,omitempty"`
}

// RollbackOperations returns the operations that restore a recorded spec, for fields that differ only. The number of pods and the auxiliary objects
// stay.
func RollbackOperations(now map[string]any, path string, to *Revision) []Operation {
	var ops []Operation
	for _, field := range slices.Sorted(maps.Keys(unionOf(now, to.Spec))) {
		if slices.Contains(unrecorded, field) {
			continue
		}
		is, has := now[field]
		wanted, wants := to.Spec[field]
		switch {
		case !wants:
			ops = append(ops, Operation{Op: "remove", Path: path + "/" + field})
		case !has:
			ops = append(ops, Operation{Op: "add", Path: path + "/" + field, Value: wanted})
		case !reflect.DeepEqual(is, wanted):
			ops = append(ops, Operation{Op: "replace", Path: path + "/" + field, Value: wanted})
		}
	}
	return ops
}

// RollbackChanges returns the changes of a rollback to a revision.
func RollbackChanges(now map[string]any, to *Revision) []Change {
	shown := maps.Clone(now)
	for _, field := range unrecorded {
		delete(shown, field)
	}
	return CompareSpecs(shown, to.Spec)
}

func unionOf(a, b map[string]any) map[string]any {
	all := maps.Clone(a)
	maps.Copy(all, b)
	return all
}
