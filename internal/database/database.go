// Package database has the parts of a reconcile that a workload with data needs in addition: the StatefulSet of a CloudManager with its claims
// and its Secret. Package workload reconciles a database by the functions of Observe and NewApplier.
package database

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appv1 "huolala.cn/app-operator/api/v1"
	"huolala.cn/app-operator/internal/apply"
	"huolala.cn/app-operator/internal/children"
	"huolala.cn/app-operator/internal/reconciler"
	"huolala.cn/app-operator/internal/workload"
	"huolala.cn/app-operator/resource"
)

// database applies the objects of one database.
type database struct {
	r  *workload.Reconciler
	in *workload.Input
	cm *appv1.CloudManager
	// claims are all claims with the names of the database's claims, as read from the API server; nil before the first read.
	claims *[]corev1.PersistentVolumeClaim
	// checkSecret, previous and withoutService are the arguments of NewApplier.
	checkSecret, previous bool
	withoutService        string
}

// NewApplier returns the function that applies the objects of a database. checkSecret is true where the Secret must be read.
// previous is true for a database of an earlier name: its Secret is not touched, as the spec states the password of another database, and
// the policy of its StatefulSet decides whether its volumes are retained (see Retain). withoutService is the name of a Service that is left as it is, empty for none.
func NewApplier(r *workload.Reconciler, checkSecret, previous bool, withoutService string) workload.Applier {
	return func(ctx context.Context, in *workload.Input, seen *workload.Observed, w *resource.Workload, how workload.How) *workload.ApplyResult {
		db := &database{r: r, in: in, cm: viewOf(seen).cm, checkSecret: checkSecret, previous: previous, withoutService: withoutService}
		return db.applyObjects(ctx, viewOf(seen), w, how)
	}
}

// Observe reads the objects of a database from the cache.
func Observe(ctx context.Context, r *workload.Reconciler, in *workload.Input) (*workload.Observed, error) {
	cm, ok := in.Owner.(*appv1.CloudManager)
	if !ok {
		return nil, fmt.Errorf("%T is no CloudManager", in.Owner)
	}
	data := &volumes{cm: cm, name: in.Name, existed: in.HadWorkload()}
	seen := &workload.Observed{At: r.Clock.Now(), Remembered: r.Records.Recall(in.Key(), cm.UID), Data: data}
	key := client.ObjectKey{Namespace: cm.Namespace, Name: in.Name}
	live, err := workload.GetOrNil(ctx, r.Client, key, &appsv1.StatefulSet{})
	if err != nil {
		return nil, err
	}
	if seen, err = workload.ObserveService(ctx, r.Client, in, seen, in.Spec.Workload().ServiceName(in.Name)); err != nil {
		return nil, err
	}
	headless := client.ObjectKey{Namespace: cm.Namespace, Name: resource.HeadlessName(in.Name)}
	if data.headless, err = workload.GetOrNil(ctx, r.Client, headless, &corev1.Service{}); err != nil {
		return nil, err
	}
	if seen.Autoscaler, err = workload.FindAutoscaler(ctx, r.Client, "StatefulSet", key); err != nil {
		return nil, err
	}
	seen.Scaled = seen.Autoscaler != ""
	if data.claims, err = readClaims(ctx, r, key); err != nil {
		return nil, err
	}
	if live == nil {
		data.lostPods, err = lostPods(ctx, r, in, seen, data)
		return seen, err
	}
	seen.Object = live
	if seen.Pods, err = workload.ListPods(ctx, r.Client, cm, live.Name, seen.Selector()); err != nil {
		return nil, err
	}
	return seen.WithOwnership(r.Client.Scheme(), in, live).WithObject(live), nil
}

// lostPods returns the number of pods of a StatefulSet that was deleted without them, nil if there is none: as this operator has seen it, or else, after
// a restart, by the ordinals of the pods that have a claim of the database. An ending pod counts, too: nothing scales these pods. The pods of a
// StatefulSet do not count for a CloudManager that had none: they end with the CloudManager of this name that was deleted.
func lostPods(ctx context.Context, r *workload.Reconciler, in *workload.Input, seen *workload.Observed, data *volumes) (*int32, error) {
	if pods := seen.Remembered.Replaced; pods != nil {
		return pods, nil
	}
	cm := data.cm
	pods, err := workload.ListPods(ctx, r.Client, cm, data.name, map[string]string{appv1.LabelCloudManager: cm.Name, appv1.LabelPart: data.name})
	if err != nil {
		return nil, err
	}
	existed := in.Existed || in.HadWorkload()
	count := int32(0)
	for i := range data.claims {
		ordinal, ok := resource.ClaimOrdinal(data.name, data.claims[i].Name)
		name := fmt.Sprintf("%s-%d", data.name, ordinal)
		if ok && slices.ContainsFunc(pods, func(pod corev1.Pod) bool { return pod.Name == name && mayBeOf(&pod, data.name, existed) }) {
			count = max(count, ordinal+1)
		}
	}
	if count == 0 {
		return nil, nil
	}
	return &count, nil
}

// mayBeOf reports whether a pod has no controller, or the StatefulSet of a database that existed.
func mayBeOf(pod *corev1.Pod, set string, existed bool) bool {
	controller := metav1.GetControllerOfNoCopy(pod)
	return controller == nil || existed && controller.Kind == "StatefulSet" && controller.Name == set
}

// liveClaims returns all claims that have the names of the claims of the database's pods, regardless of their creator, as the API server
// has them now.
func (db *database) liveClaims(ctx context.Context) ([]corev1.PersistentVolumeClaim, error) {
	if db.claims == nil {
		claims, err := listClaims(ctx, db.r.Live, client.ObjectKey{Namespace: db.cm.Namespace, Name: db.in.Name})
		if err != nil {
			return nil, err
		}
		db.claims = &claims
	}
	return *db.claims, nil
}

// readClaims returns the claims of a StatefulSet's pods as the cache has them after what this process has written of each.
func readClaims(ctx context.Context, r *workload.Reconciler, set client.ObjectKey) ([]corev1.PersistentVolumeClaim, error) {
	listed, err := listClaims(ctx, r.Client, set)
	if err != nil {
		return nil, err
	}
	var claims []corev1.PersistentVolumeClaim
	for i := range listed {
		claim, err := workload.GetOrNil(ctx, r.Client, client.ObjectKeyFromObject(&listed[i]), &corev1.PersistentVolumeClaim{})
		if err != nil {
			return nil, err
		}
		if claim != nil {
			claims = append(claims, *claim)
		}
	}
	return readWholeClaims(ctx, r.Live, claims)
}

// listClaims returns the readable claims with the names of the claims of a StatefulSet's pods.
func listClaims(ctx context.Context, from client.Reader, set client.ObjectKey) ([]corev1.PersistentVolumeClaim, error) {
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
func readWholeClaims(ctx context.Context, live client.Reader, claims []corev1.PersistentVolumeClaim) ([]corev1.PersistentVolumeClaim, error) {
	if !slices.ContainsFunc(claims, func(claim corev1.PersistentVolumeClaim) bool { return children.IsPartial(&claim) }) {
		return claims, nil
	}
	refs := make([]*corev1.PersistentVolumeClaim, len(claims))
	for i := range claims {
		refs[i] = &claims[i]
	}
	whole, err := children.ReadWhole(ctx, live, refs)
	if err != nil {
		return nil, err
	}
	read := make([]corev1.PersistentVolumeClaim, len(whole))
	for i := range whole {
		read[i] = *whole[i]
	}
	return read, nil
}

// applyObjects applies the objects of the database. A failure of one object does not block the others, with two exceptions: the StatefulSet
// is not created without its Secret, and a new database is not created while its password is refused. A workload whose volumes are refused
// is not applied at all.
func (db *database) applyObjects(ctx context.Context, seen view, w *resource.Workload, how workload.How) *workload.ApplyResult {
	if set := seen.StatefulSet(); db.previous && set != nil {
		previous := *w
		previous.Retain = !deletesClaims(set)
		w = &previous
	}
	w, grows, err := fitVolumes(seen, w, how)
	if err != nil {
		return &workload.ApplyResult{Seen: seen.Observed, Err: err, Refused: err}
	}
	db.rememberReplaced(seen, grows)
	if w.ServiceName != seen.ServiceName {
		after, err := workload.ObserveService(ctx, db.r.Client, db.in, seen.Observed, w.ServiceName)
		if seen = viewOf(after); err != nil {
			return workload.FailApply(seen.Observed, err)
		}
	}
	req, trouble := db.buildRequest(ctx, seen, w, how, grows)
	if req == nil {
		return workload.FailApply(seen.Observed, trouble)
	}
	db.rememberFormer(seen, req)
	exposed := workload.RefuseHeadlessChange(db.in, db.r.Client.Scheme(), req, seen.Service)
	switch {
	case db.in.Paused:
		out := db.r.FindPending(ctx, req, seen.Observed, 0)
		out.Err = reconciler.Aggregate(exposed, trouble, out.Err)
		return out
	case exposed != nil && req.Policy.AllOrNothing:
		return &workload.ApplyResult{Seen: seen.Observed, Err: exposed, Refused: exposed}
	case exposed != nil && workload.AdoptsObject(req):
		return workload.FailApply(seen.Observed, reconciler.Aggregate(trouble, exposed))
	}

	freed, refused, err := db.r.FreeNodePorts(ctx, db.in, w, seen.Observed, req)
	if err != nil {
		return workload.FailApply(seen.Observed, err)
	}
	if refused != nil {
		return refused
	}
	done, err := db.r.RunFreed(ctx, db.in, w, req, freed)
	out := workload.NewApplyResult(seen.Observed, &done, 0)
	out.Changes = append([]apply.ChangeSet{freed}, out.Changes...)
	out.SecretChecked = err == nil && trouble == nil && !db.previous
	if set := out.Seen.StatefulSet(); err == nil && set != nil && w.Retain {
		err = claimsReleased(set, viewOf(out.Seen).claims)
	}
	out.Err = reconciler.Aggregate(trouble, exposed, LookAgain(err))
	return out
}

// rememberReplaced keeps the number of pods of a StatefulSet that is about to be deleted without them, and drops it once a StatefulSet
// stays. A plan deletes nothing.
func (db *database) rememberReplaced(seen view, grows bool) {
	switch set := seen.StatefulSet(); {
	case set == nil, db.r.IsPlan():
	case grows && !db.in.Paused:
		db.r.Records.RememberReplaced(db.in.Key(), db.cm.UID, ptr.To(ptr.Deref(set.Spec.Replicas, 1)))
	case set.DeletionTimestamp == nil:
		db.r.Records.RememberReplaced(db.in.Key(), db.cm.UID, nil)
	}
}

// rememberFormer keeps a StatefulSet that the request is about to delete without its pods, if it has additions of other managers, and drops it while it stays.
func (db *database) rememberFormer(seen view, req *apply.Request) {
	set := seen.StatefulSet()
	if set == nil || db.r.IsPlan() {
		return
	}
	replaced := slices.ContainsFunc(req.Objects, func(child apply.Object) bool { return child.Replace })
	switch {
	case replaced && !db.in.Paused && apply.HasAdditions(set, db.cm, req.Manager):
		db.r.Records.RememberFormer(db.in.Key(), db.cm.UID, set)
	case set.DeletionTimestamp == nil:
		db.r.Records.RememberFormer(db.in.Key(), db.cm.UID, nil)
	}
}

// fitVolumes returns a workload with the volumes that it can have, and reports whether they are to grow. The error names the fields of
// volumes that cannot be changed.
func fitVolumes(seen view, w *resource.Workload, how workload.How) (fitting *resource.Workload, grows bool, err error) {
	if how.Earlier {
		return keepVolumes(seen, w), false, nil
	}
	if grows, err = seen.volumeChange(w); err != nil {
		return w, false, err
	}
	if !grows {
		w = keepClaimTemplates(seen, w)
	}
	return w, grows, nil
}

// keepVolumes returns a workload with the volumes that the live StatefulSet makes, unchanged without a StatefulSet.
func keepVolumes(seen view, w *resource.Workload) *resource.Workload {
	if volume := seen.dataClaimTemplate(); volume != nil {
		w = w.WithVolume(&volume.Spec)
	}
	return keepClaimTemplates(seen, w)
}

// keepClaimTemplates returns a workload whose claim templates have the annotations of the templates of the live StatefulSet, if there is one.
func keepClaimTemplates(seen view, w *resource.Workload) *resource.Workload {
	if set := seen.StatefulSet(); set != nil {
		return w.WithClaimTemplates(set.Spec.VolumeClaimTemplates)
	}
	return w
}

// buildRequest returns the request for the database's objects, and the obstacle to some of them. The request is nil where no object is made. Volumes do not
// grow while a StatefulSet could not be recreated for want of the password.
func (db *database) buildRequest(ctx context.Context, seen view, w *resource.Workload, how workload.How, grows bool) (*apply.Request, error) {
	claims, unguarded, unlisted := db.wantedClaims(ctx, seen, w)
	req := workload.NewRequest(db.in)
	req.Policy.DefaultLabels = w.DefaultLabels
	req.Policy.AllOrNothing = how.Whole
	remains, recreatable := seen.remainsToApply(), true
	var locked error
	if !db.in.Paused && !db.previous && (db.checkSecret || grows || len(unguarded) > 0) {
		secret, usable, err := db.secretChild(ctx, seen, w)
		switch locked = err; {
		case locked == nil:
			secret.Prerequisite = !usable
			// The Secret is first: the claims prove that no release without guards created either.
			req.Objects = append(append(req.Objects, secret), unguarded...)
		case usable && remains && !how.Alone: // The StatefulSet follows the spec, and so whether its volumes are retained.
			req.Objects = append(req.Objects, secret)
		}
		recreatable = locked == nil || usable && remains
	}
	if grows && !recreatable {
		w, grows = keepVolumes(seen, w), false
		claims, _, unlisted = db.wantedClaims(ctx, seen, w)
	}
	trouble := reconciler.Aggregate(locked, unlisted)
	if trouble != nil && !remains && seen.ownSet() == nil {
		return nil, trouble
	}
	// A StatefulSet with more claims than can be listed stays as it is.
	startable := unlisted == nil && (seen.ownSet() != nil || recreatable)
	pods := &appsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{Name: db.in.Name}}
	for _, obj := range w.Objects() {
		child := apply.Object{Desired: obj, Live: seen.Observed.LiveObject(obj), StatedLabels: w.StatedLabels(obj)}
		switch _, set := obj.(*appsv1.StatefulSet); {
		case !set && (obj.GetName() == db.withoutService || seen.LeavesService(db.cm, obj)):
		case set && startable:
			child.Replace = grows
			if child.Live == nil {
				child.Former = seen.Remembered.Former
			}
			req.Objects = append(append(req.Objects, claims...), child)
		case !set && !how.Alone:
			child.Independent, child.AboutPodsOf = remains, pods
			req.Objects = append(req.Objects, child)
		}
	}
	return req, trouble
}

// wantedClaims returns the claims to apply; see claimChildren. Claims of others are not in the cache, so they are looked for where
// the StatefulSet may be about to use more claims than before.
func (db *database) wantedClaims(ctx context.Context, seen view, w *resource.Workload) (wanted, unguarded []apply.Object, err error) {
	claims := seen.claims
	if had, pods := seen.podsOf(w); pods > had {
		if claims, err = db.liveClaims(ctx); err != nil {
			return nil, nil, err
		}
	}
	wanted, unguarded = seen.claimChildren(w, claims)
	return wanted, unguarded, nil
}

// LookAgain returns the error of an apply with a time after which to look again. Among the objects are a Secret, and claims
// without our label: if one of them goes or changes, no watch tells.
func LookAgain(err error) error {
	var stalled *reconciler.StalledError
	var waiting *reconciler.WaitingError
	switch {
	case errors.As(err, &stalled) && stalled.Reason == appv1.ReasonResourceExists && stalled.RetryAfter == 0:
		later := *stalled
		later.RetryAfter = workload.Unwatched
		return &later
	case errors.As(err, &waiting) && waiting.RetryAfter == 0:
		later := *waiting
		later.RetryAfter = workload.Unwatched
		return &later
	}
	return err
}
