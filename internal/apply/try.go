package apply

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"

	appv1 "huolala.cn/app-operator/api/v1"
	"huolala.cn/app-operator/internal/reconciler"
)

// trial is what is known of a request before its first child is written.
type trial struct {
	// order is the order in which to write the children, by their index.
	order []int
	// fresh are the children that something new is wanted of, withheld those that must not be written.
	fresh, withheld []bool
	// err is why, nil if none is withheld.
	err error
}

// tryRequest finds out, where a part of a request must not be carried out without the rest of it, whether the API server takes all
// of it: of an adoption, and of a request that is to be carried out as a whole. Of any other request it asks nothing.
func (e *Engine) tryRequest(ctx context.Context, req *Request) (*trial, error) {
	n := len(req.Children)
	t := &trial{order: make([]int, n), fresh: make([]bool, n), withheld: make([]bool, n)}
	for i := range t.order {
		t.order[i] = i
	}
	if n < 2 || !req.Adopt && !req.Whole {
		return t, nil
	}
	var unplanned []error
	news, adopts := 0, false
	for i := range req.Children {
		child := &req.Children[i]
		if child.Auxiliary && !req.Adopt {
			continue
		}
		p, err := e.planAdoption(ctx, req, child)
		if errors.Is(err, reconciler.ErrStale) && child.Auxiliary {
			return t, err
		}
		child.planned = &decision{p, err}
		adopts = adopts || p.adoptsObject(req) && (err == nil || child.Auxiliary)
		switch {
		case err != nil && (!child.Auxiliary || isTaken(err)):
			unplanned = append(unplanned, err)
		case err == nil && p.isNew() && !child.Auxiliary:
			t.fresh[i], news = true, news+1
		}
	}
	switch {
	case adopts:
		return t, e.tryAdoption(ctx, req, t, unplanned, news)
	case req.Whole && news > 1:
		return t, e.tryWhole(ctx, req, t)
	}
	return t, nil
}

// planAdoption is planExplained for a child that may be adopted. An object around the pods that the cache does not show may be there, and is
// read; and what such an object is for is found out before anything is adopted.
func (e *Engine) planAdoption(ctx context.Context, req *Request, child *Child) (plan, error) {
	if child.Auxiliary && child.Live == nil && child.Unavailable == nil {
		p := plan{child: child}
		var err error
		if p.gvk, err = apiutil.GVKForObject(child.Desired, e.client.Scheme()); err != nil {
			return p, fmt.Errorf("desired object: %w", err)
		}
		live, err := e.readLive(ctx, &p)
		switch {
		case err == nil:
			child.Live = live
		case !errors.Is(err, reconciler.ErrStale): // It is not there otherwise.
			return p, err
		}
	}
	p, err := e.planExplained(ctx, req, child)
	if err == nil && child.Auxiliary && p.adoptsObject(req) {
		err = e.CheckServes(ctx, req, child, child.Live)
	}
	return p, err
}

// tryAdoption withholds the objects to be adopted, and what would be made new for an owner that was not reconciled before,
// if any child cannot be written, or an object of others has the name of one around the pods. One object alone is tried when it is taken over.
func (e *Engine) tryAdoption(ctx context.Context, req *Request, t *trial, unplanned []error, news int) error {
	errs := unplanned
	if len(errs) == 0 && news > 1 {
		for i := range req.Children {
			if t.fresh[i] {
				errs = append(errs, e.tryChild(ctx, req, i))
			}
		}
	}
	t.err = reconciler.Aggregate(errs...)
	if t.err == nil {
		t.putServicesFirst(req)
		return nil
	}
	if errors.Is(t.err, reconciler.ErrStale) {
		return t.err
	}
	all := req.Whole && Refused(t.err)
	for i := range req.Children {
		made := req.Children[i].planned
		if made != nil && made.err == nil {
			created := made.action == Created && !req.Existed && !req.Children[i].Auxiliary
			t.withheld[i] = made.adoptsObject(req) || created || all && t.fresh[i]
		}
	}
	return nil
}

// tryWhole withholds all that is new if the API server refuses one part of it. What is written first needs no dry run.
func (e *Engine) tryWhole(ctx context.Context, req *Request, t *trial) error {
	t.putServicesFirst(req)
	first := true
	for _, i := range t.order {
		if !t.fresh[i] {
			continue
		}
		if first {
			first = false
			continue
		}
		switch err := e.tryChild(ctx, req, i); {
		case errors.Is(err, reconciler.ErrStale):
			return err
		case Refused(err):
			t.noteRefusal(err)
			return nil
		}
	}
	return nil
}

// tryChild is the dry run of one child. That an admission webhook knows no dry runs says nothing about the child.
func (e *Engine) tryChild(ctx context.Context, req *Request, i int) error {
	child := req.Children[i]
	p := child.planned.plan
	p.child, child.planned = &child, nil
	_, err := e.previewChild(ctx, req, &p)
	if noDryRun(err) {
		return nil
	}
	return err
}

// noDryRun reports whether an error says that an admission webhook knows no dry runs.
func noDryRun(err error) bool {
	return err != nil && strings.Contains(err.Error(), "does not support dry run")
}

// putServicesFirst has Services written before all but what they need: a dry run does not find out that a port is outside the
// range of ports of the nodes (k8s.io/kubernetes/pkg/registry/core/service/portallocator). Claims come after them, as a volume
// that has grown stays large.
func (t *trial) putServicesFirst(req *Request) {
	rank := func(i int) int {
		_, service := req.Children[i].Desired.(*corev1.Service)
		claim := volumeClaim(req.Children[i].Desired)
		switch {
		case req.Children[i].Prerequisite && !claim:
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

// noteRefusal withholds all that is new.
func (t *trial) noteRefusal(err error) {
	t.err = err
	copy(t.withheld, t.fresh)
}

// decision is what to do with a child, found out before its turn.
type decision struct {
	plan
	err error
}

// isNew reports whether the child is written because something new is wanted of it.
func (p *plan) isNew() bool {
	return p.action == Created || p.action == Replaced || p.action == Configured && !p.dropped
}

// adoptsObject reports whether the plan takes over an object that the owner does not control.
func (p *plan) adoptsObject(req *Request) bool {
	return req.Adopt && p.claimed && p.takeover && p.child.Live != nil && !metav1.IsControlledBy(p.child.Live, req.Owner)
}

// isForbidden reports whether the API server may take what is wanted, and does not let it be written.
func isForbidden(err error) bool {
	var failed *reconciler.FailedError
	return errors.As(err, &failed) && failed.Reason == appv1.ReasonForbidden
}

// Refused reports whether an error of Apply says that the API server refuses what is wanted, so that only another spec, or
// other objects, help.
func Refused(err error) bool {
	var stalled *reconciler.StalledError
	return errors.As(err, &stalled) && slices.Contains(refusals, stalled.Reason)
}

// refusals are the reasons of what the API server refuses.
var refusals = []string{appv1.ReasonInvalid, appv1.ReasonImmutableField, appv1.ReasonNodePortTaken, appv1.ReasonVolumeResizeFailed}
