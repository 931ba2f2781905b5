package view

import (
	"maps"
	"reflect"
	"slices"

	"huolala.cn/app-operator/api/plan"
	appv1 "huolala.cn/app-operator/api/v1"
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

// LaterRestarts are the pods that a change replaces. Promoted is true if they are replaced once a canary is promoted.
type LaterRestarts struct {
	Pods     int32
	Promoted bool
}

// RestartsOf returns the pods that a change replaces by its plan. known is false if the plan does not have all of them: it is incomplete, or something, such as
// an earlier tier, is in the way of a part of the change.
func RestartsOf(p *plan.Plan) (restarts LaterRestarts, known bool) {
	if p.Incomplete || p.Problem != nil && p.Problem.Reason != appv1.ReasonHeld && p.Problem.Reason != appv1.ReasonRolledBack {
		return LaterRestarts{}, false
	}
	for i := range p.Objects {
		if o := &p.Objects[i]; startsCanary(o) {
			return LaterRestarts{Pods: o.Pods.Running, Promoted: true}, true // The running pods are those that a promotion replaces.
		}
	}
	return LaterRestarts{Pods: p.ReplacedPods()}, true
}

// startsCanary reports whether a change creates or replaces the Deployment of a canary. Its running pods are the pods of before then.
func startsCanary(o *plan.Object) bool {
	return o.Pods != nil && o.Pods.Canary && (o.Action == plan.Created || o.Action == plan.Recreated)
}

func unionOf(a, b map[string]any) map[string]any {
	all := maps.Clone(a)
	maps.Copy(all, b)
	return all
}
