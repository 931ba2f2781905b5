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
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
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

// database is the tier that keeps data, and what lives of it.
type database struct {
	*target
	r  *CloudManagerReconciler
	cm *appv1.CloudManager

	set               *appsv1.StatefulSet
	headless, service *corev1.Service
	pods              []corev1.Pod
	autoscaler        string
	// claims are those of the database's pods that the cache knows, all that are labelled as ours; listed are all that the
	// API server has, once they were asked for.
	claims []corev1.PersistentVolumeClaim
	listed *[]corev1.PersistentVolumeClaim
	// look is true where the Secret has to be looked at, looked where it is as it should be.
	checkSecret, secretChecked bool
}

// observeDatabase reads the objects of the database from the cache.
func (r *CloudManagerReconciler) observeDatabase(ctx context.Context, cm *appv1.CloudManager, errs field.ErrorList) (*database, error) {
	spec := &cm.Spec.DB.StatefulSet.Component
	db := &database{r: r, cm: cm, target: r.newTarget(cm, spec, errs,
		componentBuilder{resource.CloudManagerDatabase, resource.CloudManagerDatabaseFromRecord})}
	db.anyChanged = func(record string) (bool, error) {
		return resource.DatabaseSpecChanged(&cm.Spec.DB.StatefulSet, record)
	}
	key := client.ObjectKey{Namespace: cm.Namespace, Name: db.name}
	var err error
	if db.set, err = getOrNil(ctx, r.Client, key, &appsv1.StatefulSet{}); err != nil {
		return nil, err
	}
	if db.service, err = getOrNil(ctx, r.Client, key, &corev1.Service{}); err != nil {
		return nil, err
	}
	headless := client.ObjectKey{Namespace: cm.Namespace, Name: resource.HeadlessName(db.name)}
	if db.headless, err = getOrNil(ctx, r.Client, headless, &corev1.Service{}); err != nil {
		return nil, err
	}
	if db.autoscaler, err = r.findAutoscaler(ctx, "StatefulSet", key); err != nil {
		return nil, err
	}
	if db.claims, err = r.listClaims(ctx, r.Client, key); err != nil || db.set == nil {
		return db, err
	}
	db.pods, err = r.listPods(ctx, cm, db.selector())
	return db, err
}

// liveClaims returns all claims that have the names of those of the database's pods, regardless of their creator, as the API server
// has them now.
func (db *database) liveClaims(ctx context.Context) ([]corev1.PersistentVolumeClaim, error) {
	if db.listed == nil {
		claims, err := db.r.listClaims(ctx, db.r.Live, client.ObjectKey{Namespace: db.cm.Namespace, Name: db.name})
		if err != nil {
			return nil, err
		}
		db.listed = &claims
	}
	return *db.listed, nil
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

// selector is that of the live StatefulSet, nil if there is none.
func (db *database) selector() map[string]string {
	if db.set == nil || db.set.Spec.Selector == nil {
		return nil
	}
	return db.set.Spec.Selector.MatchLabels
}

// availability says how the StatefulSet stands.
func (db *database) availability() standing {
	live := db.set
	if live == nil {
		return standing{known: true}
	}
	return deploymentAvailability(live, db.cm, live.Status.ObservedGeneration, live.Spec.Replicas, live.Status.ReadyReplicas)
}

// provenance says how the live StatefulSet was made, or the one that was there until its volumes grew.
func (db *database) provenance() provenance {
	switch {
	case db.set != nil:
		return provenance{object: db.set, selector: db.selector(), template: db.set.Spec.Template, autoscaled: db.autoscaler != ""}
	case db.headless != nil && metav1.IsControlledBy(db.headless, db.cm):
		return provenance{kept: db.headless.Annotations[appv1.AnnotationLastAppliedInputs]}
	}
	return provenance{}
}

// reconcileDatabase applies what the database's spec means, and says how its pods are doing.
func (db *database) reconcileDatabase(ctx context.Context) (reconciler.Report, error) {
	report := reconciler.Report{Paused: db.paused}
	workload, refusal, err := db.r.desiredValidWorkload(ctx, db.target, db.provenance())
	switch {
	case err != nil:
		return reconciler.Report{}, err
	case refusal != nil:
		err = db.r.keepLastApplied(ctx, db.target, db, nil, application{earlier: true}, &report, refusal)
	default:
		if !workload.Recorded {
			report.Warning = messageDatabaseRecordTooLong
		}
		err = db.r.applySpec(ctx, db.target, db, workload, &report)
		db.noteIgnoredReplicas(db.autoscaler, "StatefulSet", &report)
	}
	db.reportStatus(&report)
	return report, err
}

func (db *database) kind() string { return "StatefulSet" }

func (db *database) keptMessage() string {
	return messageDatabaseKept
}

// apply makes the database's objects true. What it wrote replaces what was observed. What is wrong with one of them stops
// none of the others, except that no StatefulSet is made for which there is no Secret, nor a first one whose password is
// refused. Nothing is applied of a workload whose volumes are refused.
func (db *database) apply(ctx context.Context, w *resource.Workload, how application, report *reconciler.Report) outcome {
	grows := false
	if how.earlier {
		if volume := db.podTemplate(); volume != nil {
			w.KeepVolume(&volume.Spec)
		}
	} else {
		var err error
		if grows, err = db.volumeChange(w); err != nil {
			return outcome{err: err, refused: err}
		}
	}
	if db.set != nil && !grows {
		w.KeepClaimTemplates(db.set.Spec.VolumeClaimTemplates)
	}
	req, trouble := db.request(ctx, w, how, grows)
	if req == nil {
		return outcome{err: trouble}
	}
	exposed := db.refuseHeadlessChange(db.r.Client.Scheme(), req, db.service)
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
	db.noteWritten(req.Children)
	db.secretChecked = err == nil && trouble == nil
	if err == nil && db.set != nil && w.Retain {
		err = claimsReleased(db.set, db.claims)
	}
	out := outcome{err: reconciler.Aggregate(trouble, exposed, lookAgain(err)), refused: req.Refusal()}
	for i := range req.Children {
		if _, ok := req.Children[i].Desired.(*appsv1.StatefulSet); ok {
			out.held = req.Children[i].Held
		}
	}
	return out
}

// request asks for the database's objects, and says what is in the way of some of them. It is nil where none is to be made.
func (db *database) request(ctx context.Context, w *resource.Workload, how application, grows bool) (*apply.Request, error) {
	claims, unguarded, unlisted := db.wantedClaims(ctx, w)
	req := db.newRequest()
	req.Whole = how.whole
	remains, startable := db.remainsToApply(), true
	var locked error
	if !db.paused && (db.checkSecret || len(unguarded) > 0) {
		secret, usable, err := db.secretChild(ctx, w)
		if locked = err; locked == nil {
			secret.Prerequisite = !usable
			// The Secret goes first: the claims tell that neither was made by a release without guards.
			req.Children = append(append(req.Children, secret), unguarded...)
		}
		startable = locked == nil || usable && remains
	}
	trouble := reconciler.Aggregate(locked, unlisted)
	if trouble != nil && !remains && db.set == nil {
		return nil, trouble
	}
	// A StatefulSet that wants more claims than can be looked at stays as it is.
	if unlisted == nil && (db.set != nil || startable) {
		set := applyChild(resource.StatefulSet(w), db.set)
		set.Replace = grows
		req.Children = append(append(req.Children, claims...), set)
	}
	if !how.alone {
		headless, service := applyChild(resource.Headless(w), db.headless), applyChild(resource.Service(w), db.service)
		headless.Independent, service.Independent = remains, remains
		req.Children = append(req.Children, headless, service)
	}
	return req, trouble
}

// remainsToApply reports whether the database was made before: its StatefulSet or one of its Services is there, or was by the status.
func (db *database) remainsToApply() bool {
	return db.hadWorkload() || db.set != nil && metav1.IsControlledBy(db.set, db.cm) ||
		db.headless != nil && metav1.IsControlledBy(db.headless, db.cm) ||
		db.service != nil && metav1.IsControlledBy(db.service, db.cm)
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

// noteWritten notes what lives after it was written.
func (db *database) noteWritten(children []apply.Child) {
	for i := range children {
		switch live := children[i].Live.(type) {
		case *appsv1.StatefulSet:
			db.set = live
		case *corev1.Service:
			if live.Name == db.name {
				db.service = live
			} else {
				db.headless = live
			}
		}
	}
}

// podTemplate returns what the live StatefulSet makes the database's volumes from, nil if there is none to go by.
func (db *database) podTemplate() *corev1.PersistentVolumeClaim {
	if db.set == nil || metav1.GetControllerOf(db.set) != nil && !metav1.IsControlledBy(db.set, db.cm) {
		return nil
	}
	i := slices.IndexFunc(db.set.Spec.VolumeClaimTemplates, func(template corev1.PersistentVolumeClaim) bool {
		return template.Name == resource.DataVolume
	})
	if i < 0 {
		return nil
	}
	return &db.set.Spec.VolumeClaimTemplates[i]
}

// claimTemplate returns what the database's volumes are like, by its StatefulSet, or, where that was deleted, by the smallest of its
// claims; nil if there is none to go by.
func (db *database) claimTemplate() *corev1.PersistentVolumeClaim {
	if db.set != nil || !db.remainsToApply() {
		return db.podTemplate()
	}
	var smallest *corev1.PersistentVolumeClaim
	for i := range db.claims {
		claim := &db.claims[i]
		size := claim.Spec.Resources.Requests.Storage()
		if claim.Annotations[appv1.AnnotationRetainedFor] == resource.KindCloudManager+"."+db.cm.Name &&
			(smallest == nil || size.Cmp(*smallest.Spec.Resources.Requests.Storage()) < 0) {
			smallest = claim
		}
	}
	return smallest
}

// growsVolume reports whether a workload has larger volumes than the database.
func (db *database) growsVolume(w *resource.Workload) bool {
	volume := db.claimTemplate()
	return volume != nil && w.Claims[0].Spec.Resources.Requests.Storage().Cmp(*volume.Spec.Resources.Requests.Storage()) > 0
}

// substitute returns the refused workload with the volumes that the database has, if nothing else of it differs from what was
// applied last, or nothing tells what that was and the StatefulSet is gone.
func (db *database) substitute(refused *resource.Workload) *resource.Workload {
	volume := db.claimTemplate()
	if volume == nil {
		return nil
	}
	if db.set != nil {
		record := db.set.Annotations[appv1.AnnotationLastAppliedSpec]
		if changed, err := db.changed(record); err != nil || changed || !db.ownsRecord(db.set) {
			return nil
		}
		refused.Record[appv1.AnnotationLastAppliedSpec] = record
	}
	refused.KeepVolume(&volume.Spec)
	return refused
}

// refusedBefore reports whether the status says that the volumes cannot be as the spec wants them.
func (db *database) refusedBefore() bool {
	c := meta.FindStatusCondition(db.cm.Status.Conditions, appv1.ConditionDatabaseReady)
	return c != nil && c.Reason == appv1.ReasonVolumeResizeFailed
}

// volumeChange reports whether the volumes are to become larger than the live StatefulSet makes them. Nothing else about them can
// be changed, and they cannot shrink. Where the StatefulSet was deleted, its claims are what there is to go by: they may be
// larger than asked for, as those of an earlier CloudManager are, unless that was refused before.
func (db *database) volumeChange(w *resource.Workload) (bool, error) {
	volume := db.claimTemplate()
	if volume == nil {
		return false, nil
	}
	live, wanted := volume.Spec.DeepCopy(), &w.Claims[0].Spec
	if db.set == nil && wanted.StorageClassName == nil {
		live.StorageClassName = nil // That of the claim is the cluster's default.
	}
	const at = "spec.db.statefulSet.storage."
	const remedy = messageOtherVolumes
	if is, want := className(live.StorageClassName), className(wanted.StorageClassName); is != want {
		return false, reconciler.Stalled(appv1.ReasonImmutableField,
			messageClassChanged, at, is, want, remedy)
	}
	if !slices.Equal(live.AccessModes, wanted.AccessModes) {
		return false, reconciler.Stalled(appv1.ReasonImmutableField,
			messageAccessModesChanged, at, live.AccessModes, wanted.AccessModes, remedy)
	}
	is, want := live.Resources.Requests.Storage(), wanted.Resources.Requests.Storage()
	if want.Cmp(*is) < 0 && (db.set != nil || db.refusedBefore()) {
		return false, reconciler.Stalled(appv1.ReasonVolumeResizeFailed,
			messageSizeShrinks, at, is, want, remedy)
	}
	return want.Cmp(*is) > 0, nil
}

// className is how a message calls a StorageClass.
func className(class *string) string {
	if class == nil {
		return "the cluster's default"
	}
	return fmt.Sprintf("%q", *class)
}

// wantedClaims returns those of the claims that are not as wanted: that are too small, or are about to be used and not the
// database's, which the engine refuses or adopts. Those of others are not in the cache, so they are looked for where the
// StatefulSet may be about to use more claims than before. Unguarded are further ones, which only lack the annotations that
// keep tools from deleting them.
func (db *database) wantedClaims(ctx context.Context, w *resource.Workload) (wanted, unguarded []apply.Child, err error) {
	claims, had := db.claims, int32(0)
	if db.set != nil {
		had = ptr.Deref(db.set.Spec.Replicas, 1)
	}
	pods := ptr.Deref(w.Replicas, max(had, 1))
	if pods > had {
		if claims, err = db.liveClaims(ctx); err != nil {
			return nil, nil, err
		}
	}
	for i := range claims {
		live, desired := &claims[i], resource.Claim(w, claims[i].Name)
		size := live.Spec.Resources.Requests.Storage()
		small := size.Cmp(*desired.Spec.Resources.Requests.Storage()) < 0
		ordinal, _ := resource.ClaimOrdinal(db.name, live.Name)
		ours := live.Annotations[appv1.AnnotationRetainedFor] == w.RetainedFor
		if !small {
			desired.Spec.Resources = corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: *size}}
		}
		claim := apply.Child{Desired: desired, Live: live, Retained: true}
		switch {
		case small, !ours && ordinal < pods:
			claim.Prerequisite = true
			wanted = append(wanted, claim)
		case ours && !resource.Guarded(live):
			unguarded = append(unguarded, claim)
		}
	}
	return wanted, unguarded, nil
}

// reportStatus states what lives in the status and in the report.
func (db *database) reportStatus(report *reconciler.Report) {
	if db.service != nil && metav1.IsControlledBy(db.service, db.cm) {
		db.status.Endpoint = resource.Endpoint(db.service)
	}
	live := db.set
	if live == nil || !metav1.IsControlledBy(live, db.cm) {
		db.status.Ready = fmt.Sprintf("0/%d", ptr.Deref(db.spec.Replicas, 1))
		report.Reason, report.Message = appv1.ReasonProgressing, "StatefulSet "+db.name+" does not exist yet"
		return
	}
	db.status.Ready = fmt.Sprintf("%d/%d", live.Status.ReadyReplicas, ptr.Deref(live.Spec.Replicas, 1))
	db.reportInputs(live)
	reportVerdict(report, health.StatefulSet(live, db.pods), db.service)
}
