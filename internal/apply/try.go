package apply

import (
	"cmp"
	"context"
	"errors"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"huolala.cn/app-operator/internal/reconciler"
)

// trial has the order of the writes of a request, and the objects that must not be written.
type trial struct {
	// order has the indices of the objects in the order of the writes.
	order []int
	// fresh are the objects that are new or have a new desired state, withheld the objects that must not be written.
	fresh, withheld []bool
	// err is why objects are withheld, nil if none is.
	err error
}

// earlyPlan is a plan that was made before the turn of its object.
type earlyPlan struct {
	plan objectPlan
	err  error
}

// planObject returns the plan of an object. In a local run, it sends no request.
func (r *run) planObject(ctx context.Context, i int) (objectPlan, error) {
	if made := r.decided[i]; made != nil {
		return made.plan, made.err
	}
	object := r.req.Objects[i]
	object.Live = r.out.Objects[i].Live
	if r.mode == Local {
		return r.planLocally(r.req, &object)
	}
	return r.planExplained(ctx, r.req, &object)
}

// tryRequest finds out by dry runs whether the API server would accept all of a request whose parts must not be carried out alone: an adoption, and an
// AllOrNothing request. For any other request, and in a dry or local run, tryRequest sends no request.
func (r *run) tryRequest(ctx context.Context) (*trial, error) {
	n := len(r.req.Objects)
	t := &trial{order: make([]int, n), fresh: make([]bool, n), withheld: make([]bool, n)}
	for i := range t.order {
		t.order[i] = i
	}
	if r.mode != Write || n < 2 || !r.req.Policy.Adopt && !r.req.Policy.AllOrNothing {
		return t, nil
	}
	var unplanned []error
	news, adopts := 0, false
	for i := range r.req.Objects {
		auxiliary := r.req.Objects[i].Auxiliary
		if auxiliary && !r.req.Policy.Adopt {
			continue
		}
		p, err := r.planAdoption(ctx, i)
		if errors.Is(err, reconciler.ErrStale) && auxiliary {
			return t, err
		}
		r.decided[i] = &earlyPlan{p, err}
		adopts = adopts || p.adoptsObject(r.req) && (err == nil || auxiliary)
		switch {
		case err != nil && (!auxiliary || isTaken(err)):
			unplanned = append(unplanned, err)
		case err == nil && p.isNew() && !auxiliary:
			t.fresh[i], news = true, news+1
		}
	}
	switch {
	case adopts:
		return t, r.tryAdoption(ctx, t, unplanned, news)
	case r.req.Policy.AllOrNothing && news > 1:
		return t, r.tryWhole(ctx, t)
	}
	return t, nil
}

// planAdoption is planObject for an object that may be adopted. An object around the pods that the cache does not have may exist, and is
// read. Whether such an object serves others is found out before any adoption.
func (r *run) planAdoption(ctx context.Context, i int) (objectPlan, error) {
	object, out := r.req.Objects[i], &r.out.Objects[i]
	if object.Auxiliary && object.Live == nil && object.Unavailable == nil {
		p, err := newPlan(r.req.Owner, &object, r.client.Scheme())
		if err != nil {
			return p, err
		}
		switch live, err := r.readLive(ctx, &p); {
		case err == nil:
			out.Live = live
		case !errors.Is(err, reconciler.ErrStale): // Otherwise the object does not exist.
			return p, err
		}
	}
	p, err := r.planObject(ctx, i)
	if err == nil && object.Auxiliary && p.adoptsObject(r.req) {
		err = r.CheckServes(ctx, r.req, &object, out.Live)
	}
	return p, err
}

// tryAdoption withholds the objects to adopt, the Service that would lead to pods to adopt, and the objects to create for an owner that was not reconciled
// before, if any object cannot be written, or an object of others has the name of an object around the pods. A single object is tried when it is taken over.
func (r *run) tryAdoption(ctx context.Context, t *trial, unplanned []error, news int) error {
	errs := unplanned
	if len(errs) == 0 && news > 1 {
		for i := range r.req.Objects {
			if t.fresh[i] {
				errs = append(errs, r.tryObject(ctx, i))
			}
		}
	}
	t.err = reconciler.Aggregate(errs...)
	if t.err == nil {
		t.putServicesFirst(r.req)
		return nil
	}
	if errors.Is(t.err, reconciler.ErrStale) {
		return t.err
	}
	all := r.req.Policy.AllOrNothing && Refused(t.err)
	for i, made := range r.decided {
		if made != nil && made.err == nil {
			created := made.plan.action == Created && !r.req.Before.Existed && !r.req.Objects[i].Auxiliary
			t.withheld[i] = made.plan.adoptsObject(r.req) || created || all && t.fresh[i] || !r.req.Objects[i].Auxiliary && r.adoptsPodsOf(i)
		}
	}
	return nil
}

// tryWhole withholds all new parts if the API server refuses one of them. The first write needs no dry run.
func (r *run) tryWhole(ctx context.Context, t *trial) error {
	t.putServicesFirst(r.req)
	first := true
	for _, i := range t.order {
		if !t.fresh[i] {
			continue
		}
		if first {
			first = false
			continue
		}
		switch err := r.tryObject(ctx, i); {
		case errors.Is(err, reconciler.ErrStale):
			return err
		case Refused(err):
			t.noteRefusal(err)
			return nil
		}
	}
	return nil
}

// tryObject is the dry run of one object. The error of a webhook that supports no dry runs does not count.
func (r *run) tryObject(ctx context.Context, i int) error {
	dry := &run{
		Engine: r.ReadOnly(), req: r.req, mode: DryRun, decided: slices.Clone(r.decided),
		out: Outcomes{Objects: slices.Clone(r.out.Objects)},
	}
	return dry.applyOne(ctx, i, false)
}

// putServicesFirst has Services written before all but the objects that they need: a dry run does not detect a port outside the
// range of ports of the nodes (k8s.io/kubernetes/pkg/registry/core/service/portallocator). PersistentVolumeClaims are next, as a volume
// that has grown stays large.
func (t *trial) putServicesFirst(req *Request) {
	rank := func(i int) int {
		_, service := req.Objects[i].Desired.(*corev1.Service)
		claim := volumeClaim(req.Objects[i].Desired)
		switch {
		case req.Objects[i].Prerequisite && !claim:
			return 0
		case service:
			return 1
		case claim:
			return 2
		}
		return 3
	}
	slices.SortStableFunc(t.order, func(a, b int) int { return cmp.Compare(rank(a), rank(b)) })
}

// noteRefusal withholds all new parts.
func (t *trial) noteRefusal(err error) {
	t.err = err
	copy(t.withheld, t.fresh)
}

// isNew reports whether the object is written because something new is wanted of it.
func (p *objectPlan) isNew() bool {
	return p.action == Created || p.action == Replaced || p.action == Configured && p.drift != driftDropped
}

// adoptsObject reports whether the plan takes over an object that the owner does not control.
func (p *objectPlan) adoptsObject(req *Request) bool {
	return req.Policy.Adopt && p.claim == ClaimAdopted && p.live != nil && !metav1.IsControlledBy(p.live, req.Owner)
}
