package controllers

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appv1 "huolala.cn/app-operator/api/v1"
	"huolala.cn/app-operator/internal/apply"
	"huolala.cn/app-operator/internal/reconciler"
	"huolala.cn/app-operator/resource"
)

// unwatched is the time until an obstacle that is not watched is read again: a Secret, or a claim of others.
const unwatched = time.Minute

// database applies the objects of the tier that keeps data.
type database struct {
	*target
	r  *CloudManagerReconciler
	cm *appv1.CloudManager
	// claims are all claims with the names of the database's claims, as read from the API server; nil before the first read.
	claims *[]corev1.PersistentVolumeClaim
	// checkSecret is true where the Secret must be read. previous is true for a database of an earlier name: its Secret is not
	// touched, as the spec states the password of another one, and whether its volumes are retained is what retainDatabase has
	// made of it.
	checkSecret, previous bool
}

// observeDatabase reads the objects of the database from the cache.
func (r *CloudManagerReconciler) observeDatabase(ctx context.Context, d *target) (*observed, error) {
	cm, ok := d.owner.(*appv1.CloudManager)
	if !ok {
		return nil, fmt.Errorf("%T is no CloudManager", d.owner)
	}
	seen := &observed{
		at: r.Clock.Now(), remembered: r.Records.recall(d.recordKey()),
		observedDatabase: observedDatabase{cm: cm, name: d.name, existed: d.hadWorkload()},
	}
	key := client.ObjectKey{Namespace: cm.Namespace, Name: d.name}
	live, err := getOrNil(ctx, r.Client, key, &appsv1.StatefulSet{})
	if err != nil {
		return nil, err
	}
	if seen, err = r.observeService(ctx, d, seen, d.spec.Workload().ServiceName(d.name)); err != nil {
		return nil, err
	}
	headless := client.ObjectKey{Namespace: cm.Namespace, Name: resource.HeadlessName(d.name)}
	if seen.headless, err = getOrNil(ctx, r.Client, headless, &corev1.Service{}); err != nil {
		return nil, err
	}
	if seen.autoscaler, err = r.findAutoscaler(ctx, "StatefulSet", key); err != nil {
		return nil, err
	}
	seen.scaled = seen.autoscaler != ""
	if seen.claims, err = r.readClaims(ctx, key); err != nil || live == nil {
		return seen, err
	}
	seen.object = live
	if seen.pods, err = r.listPods(ctx, cm, seen.selector()); err != nil {
		return nil, err
	}
	return seen.withObject(live), nil
}

// liveClaims returns all claims that have the names of those of the database's pods, regardless of their creator, as the API server
// has them now.
func (db *database) liveClaims(ctx context.Context) ([]corev1.PersistentVolumeClaim, error) {
	if db.claims == nil {
		claims, err := db.r.listClaims(ctx, db.r.Live, client.ObjectKey{Namespace: db.cm.Namespace, Name: db.name})
		if err != nil {
			return nil, err
		}
		db.claims = &claims
	}
	return *db.claims, nil
}

// readClaims returns the claims of a StatefulSet's pods as the cache has them after what this process has written of each.
func (r *CloudManagerReconciler) readClaims(ctx context.Context, set client.ObjectKey) ([]corev1.PersistentVolumeClaim, error) {
	listed, err := r.listClaims(ctx, r.Client, set)
	if err != nil {
		return nil, err
	}
	var claims []corev1.PersistentVolumeClaim
	for i := range listed {
		claim, err := getOrNil(ctx, r.Client, client.ObjectKeyFromObject(&listed[i]), &corev1.PersistentVolumeClaim{})
		if err != nil {
			return nil, err
		}
		if claim != nil {
			claims = append(claims, *claim)
		}
	}
	return r.readWholeClaims(ctx, claims)
}

// listClaims returns those of the claims that can be read which have the names of those of a StatefulSet's pods.
func (r *CloudManagerReconciler) listClaims(ctx context.Context, from client.Reader, set client.ObjectKey) ([]corev1.PersistentVolumeClaim, error) {
	var list corev1.PersistentVolumeClaimList
	if err := from.List(ctx, &list, client.InNamespace(set.Namespace)); err != nil {
		return nil, fmt.Errorf("list claims: %w", err)
	}
	ordinal := func(claim corev1.PersistentVolumeClaim) int32 {
		n, _ := resource.ClaimOrdinal(set.Name, claim.Name)
		return n
	}
	claims := slices.DeleteFunc(list.Items, func(claim corev1.PersistentVolumeClaim) bool {
		_, ok := resource.ClaimOrdinal(set.Name, claim.Name)
		return !ok
	})
	// A cache lists in any order, and the message about one of several claims must not change.
	slices.SortFunc(claims, func(a, b corev1.PersistentVolumeClaim) int { return cmp.Compare(ordinal(a), ordinal(b)) })
	return claims, nil
}

// readWholeClaims replaces claims that the cache keeps in part by what the API server has.
func (r *CloudManagerReconciler) readWholeClaims(ctx context.Context, claims []corev1.PersistentVolumeClaim) ([]corev1.PersistentVolumeClaim, error) {
	if !slices.ContainsFunc(claims, func(claim corev1.PersistentVolumeClaim) bool { return apply.IsPartial(&claim) }) {
		return claims, nil
	}
	refs := make([]*corev1.PersistentVolumeClaim, len(claims))
	for i := range claims {
		refs[i] = &claims[i]
	}
	whole, err := apply.ReadWhole(ctx, r.Live, refs)
	if err != nil {
		return nil, err
	}
	read := make([]corev1.PersistentVolumeClaim, len(whole))
	for i := range whole {
		read[i] = *whole[i]
	}
	return read, nil
}

// apply applies the objects of the database. A failure of one object does not block the others, with two exceptions: the StatefulSet is not
// created without its Secret, and a new database is not created while its password is refused. A workload whose volumes are refused is not
// applied at all.
func (db *database) apply(ctx context.Context, seen *observed, w *resource.Workload, how application) *applied {
	if set := seen.set(); db.previous && set != nil {
		w.Retain = !deletesClaims(set)
	}
	grows, err := fitVolumes(seen, w, how)
	if err != nil {
		return &applied{seen: seen, err: err, last: err, refused: err}
	}
	if w.ServiceName != seen.serviceName {
		if seen, err = db.r.observeService(ctx, db.target, seen, w.ServiceName); err != nil {
			return failApply(seen, err)
		}
	}
	req, trouble := db.request(ctx, seen, w, how, grows)
	if req == nil {
		return failApply(seen, trouble)
	}
	exposed := db.refuseHeadlessChange(db.r.Client.Scheme(), req, seen.service)
	switch {
	case db.paused:
		out := db.r.planRequest(ctx, req, seen, 0)
		out.err = reconciler.Aggregate(exposed, trouble, out.err)
		out.last = out.err
		return out
	case exposed != nil && req.Policy.AllOrNothing:
		return &applied{seen: seen, err: exposed, last: exposed, refused: exposed}
	case exposed != nil && db.adoptsObject(req):
		return failApply(seen, reconciler.Aggregate(trouble, exposed))
	}

	done, err := db.r.applyRequest(ctx, req, db.r.Mode)
	out := newApplied(seen, &done, 0)
	out.secretChecked = err == nil && trouble == nil
	if set := out.seen.set(); err == nil && set != nil && w.Retain {
		err = claimsReleased(set, out.seen.claims)
	}
	out.err = reconciler.Aggregate(trouble, exposed, lookAgain(err))
	out.last = out.err
	return out
}

// fitVolumes has a workload state the volumes that it can have, and reports whether they are to grow. The error says what of them
// cannot be changed.
func fitVolumes(seen *observed, w *resource.Workload, how application) (grows bool, err error) {
	if how.earlier {
		if volume := seen.dataClaimTemplate(); volume != nil {
			w.KeepVolume(&volume.Spec)
		}
	} else if grows, err = seen.volumeChange(w); err != nil {
		return false, err
	}
	if set := seen.set(); set != nil && !grows {
		w.KeepClaimTemplates(set.Spec.VolumeClaimTemplates)
	}
	return grows, nil
}

// request asks for the database's objects, and says what is in the way of some of them. It is nil where none is to be made.
func (db *database) request(ctx context.Context, seen *observed, w *resource.Workload, how application, grows bool) (*apply.Request, error) {
	claims, unguarded, unlisted := db.wantedClaims(ctx, seen, w)
	req := db.newRequest()
	req.Policy.DefaultLabels = w.DefaultLabels
	req.Policy.AllOrNothing = how.whole
	remains, startable := seen.remainsToApply(), true
	var locked error
	if !db.paused && !db.previous && (db.checkSecret || len(unguarded) > 0) {
		secret, usable, err := db.secretChild(ctx, seen, w)
		if locked = err; locked == nil {
			secret.Prerequisite = !usable
			// The Secret is first: the claims prove that no release without guards created either.
			req.Objects = append(append(req.Objects, secret), unguarded...)
		}
		startable = locked == nil || usable && remains
	}
	trouble := reconciler.Aggregate(locked, unlisted)
	if trouble != nil && !remains && seen.set() == nil {
		return nil, trouble
	}
	// A StatefulSet that wants more claims than can be looked at stays as it is.
	startable = unlisted == nil && (seen.set() != nil || startable)
	for _, obj := range w.Objects() {
		child := apply.Object{Desired: obj, Live: seen.liveObject(obj), StatedLabels: w.StatedLabels(obj)}
		switch _, set := obj.(*appsv1.StatefulSet); {
		case set && startable:
			child.Replace = grows
			req.Objects = append(append(req.Objects, claims...), child)
		case !set && !how.alone:
			child.Independent = remains
			req.Objects = append(req.Objects, child)
		}
	}
	return req, trouble
}

// wantedClaims returns the claims to apply; see claimChildren. Those of others are not in the cache, so they are looked for where
// the StatefulSet may be about to use more claims than before.
func (db *database) wantedClaims(ctx context.Context, seen *observed, w *resource.Workload) (wanted, unguarded []apply.Object, err error) {
	claims := seen.claims
	if had, pods := seen.podsOf(w); pods > had {
		if claims, err = db.liveClaims(ctx); err != nil {
			return nil, nil, err
		}
	}
	wanted, unguarded = seen.claimChildren(w, claims)
	return wanted, unguarded, nil
}

// substitute returns the refused workload of a database with the volumes that the database has, if nothing else of it differs from what
// was applied last, or nothing tells what that was and the StatefulSet is gone; nil if that is not so, or there is no database.
func (c decider) substitute(refused *resource.Workload) *resource.Workload {
	if len(refused.Claims) == 0 {
		return nil
	}
	volume := c.seen.claimTemplate()
	if volume == nil {
		return nil
	}
	if set := c.seen.set(); set != nil {
		record := recordOf(set)
		if changed, err := c.d.spec.Changed(record, resource.ScopePods); err != nil || changed || !c.d.ownsRecord(set) {
			return nil
		}
		refused.Record[appv1.AnnotationLastAppliedSpec] = record
	}
	refused.KeepVolume(&volume.Spec)
	return refused
}

// lookAgain returns the error of an apply with a time after which to look again. Among the objects are a Secret, and claims
// without our label: if one of them goes or changes, no watch tells.
func lookAgain(err error) error {
	var stalled *reconciler.StalledError
	var waiting *reconciler.WaitingError
	switch {
	case errors.As(err, &stalled) && stalled.Reason == appv1.ReasonResourceExists && stalled.RetryAfter == 0:
		later := *stalled
		later.RetryAfter = unwatched
		return &later
	case errors.As(err, &waiting) && waiting.RetryAfter == 0:
		later := *waiting
		later.RetryAfter = unwatched
		return &later
	}
	return err
}
