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
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appv1 "huolala.cn/app-operator/api/v1"
	"huolala.cn/app-operator/internal/apply"
	"huolala.cn/app-operator/internal/health"
	"huolala.cn/app-operator/internal/reconciler"
	"huolala.cn/app-operator/resource"
)

// unwatched is when to look again at what is in the way and is not watched: a Secret, or a claim that is not ours.
const unwatched = time.Minute

// database is the objects of the tier that keeps data: it applies them, by what lives of them.
type database struct {
	*target
	r    *CloudManagerReconciler
	cm   *appv1.CloudManager
	seen *databaseState
	// checkSecret is true where the Secret must be read. previous is true for a database of an earlier name: its Secret is not
	// touched, as the spec states the password of another one, and whether its volumes are retained is what retainDatabase has
	// made of it.
	checkSecret, previous bool
}

// observeDatabase reads the objects of the database from the cache.
func (r *CloudManagerReconciler) observeDatabase(ctx context.Context, d *target) (*databaseState, error) {
	cm, ok := d.owner.(*appv1.CloudManager)
	if !ok {
		return nil, fmt.Errorf("%T is no CloudManager", d.owner)
	}
	seen := &databaseState{cm: cm, name: d.name, existed: d.hadWorkload()}
	key := client.ObjectKey{Namespace: cm.Namespace, Name: d.name}
	var err error
	if seen.set, err = getOrNil(ctx, r.Client, key, &appsv1.StatefulSet{}); err != nil {
		return nil, err
	}
	if err := r.observeDatabaseService(ctx, seen, d.spec.Workload().ServiceName(d.name)); err != nil {
		return nil, err
	}
	headless := client.ObjectKey{Namespace: cm.Namespace, Name: resource.HeadlessName(d.name)}
	if seen.headless, err = getOrNil(ctx, r.Client, headless, &corev1.Service{}); err != nil {
		return nil, err
	}
	if seen.autoscaler, err = r.findAutoscaler(ctx, "StatefulSet", key); err != nil {
		return nil, err
	}
	if seen.claims, err = r.readClaims(ctx, key); err != nil || seen.set == nil {
		return seen, err
	}
	seen.pods, err = r.listPods(ctx, cm, seen.selector())
	return seen, err
}

// observeDatabaseService reads the Service of a name from the cache.
func (r *CloudManagerReconciler) observeDatabaseService(ctx context.Context, seen *databaseState, name string) (err error) {
	seen.serviceName = name
	seen.service, err = getOrNil(ctx, r.Client, client.ObjectKey{Namespace: seen.cm.Namespace, Name: name}, &corev1.Service{})
	return err
}

// liveClaims returns all claims that have the names of those of the database's pods, regardless of their creator, as the API server
// has them now.
func (db *database) liveClaims(ctx context.Context) ([]corev1.PersistentVolumeClaim, error) {
	if db.seen.live == nil {
		claims, err := db.r.listClaims(ctx, db.r.Live, client.ObjectKey{Namespace: db.cm.Namespace, Name: db.name})
		if err != nil {
			return nil, err
		}
		db.seen.live = &claims
	}
	return *db.seen.live, nil
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
	// A cache lists in any order, and what is said of one of several is to stay the same.
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

func (db *database) provenance() provenance { return db.seen.provenance() }

func (db *database) kind() string { return "StatefulSet" }

func (db *database) autoscaledBy() string { return db.seen.autoscaler }

func (db *database) recordMessage() string { return messageDatabaseRecordTooLong }

func (db *database) keptMessage() string { return messageDatabaseKept }

func (db *database) growsVolume(w *resource.Workload) bool { return db.seen.growsVolume(w) }

// apply makes the database's objects true. What it wrote replaces what was observed. What is wrong with one of them stops
// none of the others, except that no StatefulSet is made for which there is no Secret, nor a first one whose password is
// refused. Nothing is applied of a workload whose volumes are refused.
func (db *database) apply(ctx context.Context, w *resource.Workload, how application, report *reconciler.Report) outcome {
	if db.previous && db.seen.set != nil {
		w.Retain = !deletesClaims(db.seen.set)
	}
	grows, err := db.fitVolumes(w, how)
	if err != nil {
		return outcome{err: err, refused: err}
	}
	if w.ServiceName != db.seen.serviceName {
		if err := db.r.observeDatabaseService(ctx, db.seen, w.ServiceName); err != nil {
			return outcome{err: err}
		}
	}
	req, trouble := db.request(ctx, w, how, grows)
	if req == nil {
		return outcome{err: trouble}
	}
	exposed := db.refuseHeadlessChange(db.r.Client.Scheme(), req, db.seen.service)
	switch {
	case db.paused:
		return outcome{err: reconciler.Aggregate(exposed, trouble, db.r.planRequest(req, report))}
	case exposed != nil && req.Whole:
		return outcome{err: exposed, refused: exposed}
	case exposed != nil && db.adoptsObject(req):
		return outcome{err: reconciler.Aggregate(trouble, exposed)}
	}

	changes, err := db.r.Engine.Apply(ctx, req)
	reportChanges(report, changes)
	db.seen.noteWritten(req.Children)
	db.seen.secretChecked = err == nil && trouble == nil
	if err == nil && db.seen.set != nil && w.Retain {
		err = claimsReleased(db.seen.set, db.seen.claims)
	}
	out := outcome{err: reconciler.Aggregate(trouble, exposed, lookAgain(err)), refused: req.Refusal()}
	for i := range req.Children {
		if _, ok := req.Children[i].Desired.(*appsv1.StatefulSet); ok {
			out.notWritten = req.Children[i].NotWritten
		}
	}
	return out
}

// fitVolumes has a workload state the volumes that it can have, and reports whether they are to grow. The error says what of them
// cannot be changed.
func (db *database) fitVolumes(w *resource.Workload, how application) (grows bool, err error) {
	if how.earlier {
		if volume := db.seen.dataClaimTemplate(); volume != nil {
			w.KeepVolume(&volume.Spec)
		}
	} else if grows, err = db.seen.volumeChange(w); err != nil {
		return false, err
	}
	if db.seen.set != nil && !grows {
		w.KeepClaimTemplates(db.seen.set.Spec.VolumeClaimTemplates)
	}
	return grows, nil
}

// request asks for the database's objects, and says what is in the way of some of them. It is nil where none is to be made.
func (db *database) request(ctx context.Context, w *resource.Workload, how application, grows bool) (*apply.Request, error) {
	claims, unguarded, unlisted := db.wantedClaims(ctx, w)
	req := db.newRequest()
	req.DefaultLabels = w.DefaultLabels
	req.Whole = how.whole
	remains, startable := db.seen.remainsToApply(), true
	var locked error
	if !db.paused && !db.previous && (db.checkSecret || len(unguarded) > 0) {
		secret, usable, err := db.secretChild(ctx, w)
		if locked = err; locked == nil {
			secret.Prerequisite = !usable
			// The Secret goes first: the claims tell that neither was made by a release without guards.
			req.Children = append(append(req.Children, secret), unguarded...)
		}
		startable = locked == nil || usable && remains
	}
	trouble := reconciler.Aggregate(locked, unlisted)
	if trouble != nil && !remains && db.seen.set == nil {
		return nil, trouble
	}
	// A StatefulSet that wants more claims than can be looked at stays as it is.
	startable = unlisted == nil && (db.seen.set != nil || startable)
	for _, obj := range w.Objects() {
		child := apply.Child{Desired: obj, Live: db.seen.liveObject(obj)}
		switch _, set := obj.(*appsv1.StatefulSet); {
		case set && startable:
			child.Replace = grows
			req.Children = append(append(req.Children, claims...), child)
		case !set && !how.alone:
			child.Independent = remains
			req.Children = append(req.Children, child)
		}
	}
	return req, trouble
}

// wantedClaims returns the claims to apply; see claimChildren. Those of others are not in the cache, so they are looked for where
// the StatefulSet may be about to use more claims than before.
func (db *database) wantedClaims(ctx context.Context, w *resource.Workload) (wanted, unguarded []apply.Child, err error) {
	claims := db.seen.claims
	if had, pods := db.seen.podsOf(w); pods > had {
		if claims, err = db.liveClaims(ctx); err != nil {
			return nil, nil, err
		}
	}
	wanted, unguarded = db.seen.claimChildren(w, claims)
	return wanted, unguarded, nil
}

// substitute returns the refused workload with the volumes that the database has, if nothing else of it differs from what was
// applied last, or nothing tells what that was and the StatefulSet is gone.
func (db *database) substitute(refused *resource.Workload) *resource.Workload {
	volume := db.seen.claimTemplate()
	if volume == nil {
		return nil
	}
	if set := db.seen.set; set != nil {
		record := set.Annotations[appv1.AnnotationLastAppliedSpec]
		if changed, err := db.spec.Changed(record, resource.ScopePods); err != nil || changed || !db.ownsRecord(set) {
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

// reportStatus states what lives in the status and in the report.
func (db *database) reportStatus(report *reconciler.Report) {
	if service := db.seen.service; service != nil && metav1.IsControlledBy(service, db.cm) {
		db.status.Endpoint = resource.Endpoint(service)
	}
	live := db.seen.set
	if live == nil || !metav1.IsControlledBy(live, db.cm) {
		db.status.Ready = fmt.Sprintf("0/%d", ptr.Deref(db.spec.Workload().Replicas, 1))
		report.Reason, report.Message = appv1.ReasonProgressing, fmt.Sprintf(messageNotCreatedYet, "StatefulSet", db.name)
		return
	}
	db.status.Ready = fmt.Sprintf("%d/%d", live.Status.ReadyReplicas, ptr.Deref(live.Spec.Replicas, 1))
	db.reportInputs(live)
	reportVerdict(report, health.StatefulSet(live, db.seen.pods), db.seen.service)
}
