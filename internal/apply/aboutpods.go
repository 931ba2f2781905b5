package apply

import (
	"context"
	"reflect"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// An object about pods, such as an autoscaler or a network policy, takes effect on the pods of whatever object has the name or the labels. So it is written only
// if the pods are the owner's, or are to be: after the object that creates them is taken over, and never next to an object of others.

// indexOf returns the index of an object of the request, by type and name, -1 if the request has none or target is nil.
func (r *run) indexOf(target client.Object) int {
	if target == nil {
		return -1
	}
	return slices.IndexFunc(r.req.Objects, func(o Object) bool {
		return reflect.TypeOf(o.Desired) == reflect.TypeOf(target) && o.Desired.GetName() == target.GetName()
	})
}

// indexOfOthers returns the index of the object whose pods an object is about if that object exists and the owner does not control it, -1 otherwise.
func (r *run) indexOfOthers(i int) int {
	j := r.indexOf(r.req.Objects[i].AboutPodsOf)
	if j < 0 || r.out.Objects[j].Live == nil || metav1.IsControlledBy(r.out.Objects[j].Live, r.req.Owner) {
		return -1
	}
	return j
}

// findPodsTarget returns the outcome of the object whose pods an object is about, nil if there is none.
func (r *run) findPodsTarget(i int) *Outcome {
	if j := r.indexOf(r.req.Objects[i].AboutPodsOf); j >= 0 {
		return &r.out.Objects[j]
	}
	return nil
}

// adoptsPodsOf reports whether the object whose pods an object is about is to be adopted, by its plan.
func (r *run) adoptsPodsOf(i int) bool {
	j := r.indexOfOthers(i)
	return j >= 0 && r.decided[j] != nil && r.decided[j].err == nil && r.decided[j].plan.adoptsObject(r.req)
}

// orderAround returns the order of the writes with each auxiliary object about the pods of another object, which the owner does not control yet, after that
// other object.
func (r *run) orderAround(order []int) []int {
	if !slices.ContainsFunc(order, func(i int) bool { return r.indexOfOthers(i) >= 0 }) {
		return order
	}
	all, later := make([]int, 0, len(order)), map[int][]int{}
	for _, i := range order {
		if j := r.indexOfOthers(i); j >= 0 && r.req.Objects[i].Auxiliary && !slices.Contains(all, j) {
			later[j] = append(later[j], i)
			continue
		}
		all = append(append(all, i), later[i]...)
	}
	return all
}

// checkPodsTarget returns the obstacle to the object whose pods an object is about, nil if the owner controls that object, or takes it over.
func (r *run) checkPodsTarget(i int, t *trial, errs []error) error {
	switch j := r.indexOfOthers(i); {
	case j < 0:
		return nil
	case t.withheld[j]:
		return t.err
	default:
		return errs[j]
	}
}

// withholdAuxiliary returns the error of an object that is not written, as another object is in the way: the obstacle to the object itself, or else held. A
// dry run says so of the other object alone. An object that the cache does not have is read: it may belong to others, too.
func (r *run) withholdAuxiliary(ctx context.Context, i int, held error) error {
	decide := r.planAdoption
	if r.mode == Local || r.decided[i] != nil {
		decide = r.planObject
	}
	if _, err := decide(ctx, i); err != nil || r.mode != Write {
		return err
	}
	return held
}
