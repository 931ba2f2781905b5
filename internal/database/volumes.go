package database

import (
	"fmt"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appv1 "huolala.cn/app-operator/api/v1"
	"huolala.cn/app-operator/internal/apply"
	"huolala.cn/app-operator/internal/health"
	"huolala.cn/app-operator/internal/reconciler"
	"huolala.cn/app-operator/internal/workload"
	"huolala.cn/app-operator/resource"
)

// What is decided here of a database and its volumes is decided by what was observed. Nothing in this file reads or writes an object.

// volumes is the observation of a database apart from its StatefulSet.
type volumes struct {
	// cm is the CloudManager, name the name of the database. existed is true if there was a StatefulSet before, by the status.
	cm      *appv1.CloudManager
	name    string
	existed bool
	// lostPods is the number of pods of a StatefulSet that is gone without them, nil if there is none.
	lostPods *int32
	// headless is the headless Service, claims are the claims of the database's pods that the cache has.
	headless *corev1.Service
	claims   []corev1.PersistentVolumeClaim
}

// view is an observation together with the volumes of the database.
type view struct {
	*workload.Observed
	*volumes
}

// viewOf returns the view of the observation of a database.
func viewOf(seen *workload.Observed) view {
	data, ok := seen.Data.(*volumes)
	if !ok {
		data = &volumes{}
	}
	return view{seen, data}
}

// LostInputs implements Data.
func (v *volumes) LostInputs() string {
	if v.headless != nil && metav1.IsControlledBy(v.headless, v.cm) {
		return v.headless.Annotations[appv1.AnnotationLastAppliedInputs]
	}
	return ""
}

// Volume implements Data.
func (v *volumes) Volume(seen *workload.Observed) *corev1.PersistentVolumeClaim {
	return view{seen, v}.claimTemplate()
}

// LostReplicas implements Data.
func (v *volumes) LostReplicas() *int32 { return v.lostPods }

// Note implements Data. It is about the first claim whose volume cannot get its size after the API server has accepted the size: the spec is in force, and
// the pods run.
func (v *volumes) Note() reconciler.ReasonAndMessage {
	for i := range v.claims {
		claim := &v.claims[i]
		words, failed := health.ResizeFailure(&claim.Status)
		if !failed || claim.Annotations[appv1.AnnotationRetainedFor] != resource.KindCloudManager.Name+"."+v.cm.Name {
			continue
		}
		if words != "" {
			words = ": " + words
		}
		return reconciler.ReasonAndMessage{
			Reason:  appv1.ReasonVolumeResizeFailed,
			Message: fmt.Sprintf(messageVolumeStays, claim.Name, claim.Spec.Resources.Requests.Storage(), words),
		}
	}
	return reconciler.ReasonAndMessage{}
}

// LiveObject implements Data.
func (v *volumes) LiveObject(wanted client.Object) (live client.Object, ok bool) {
	if _, service := wanted.(*corev1.Service); !service || wanted.GetName() != resource.HeadlessName(v.name) {
		return nil, false
	}
	if v.headless == nil {
		return nil, true
	}
	return v.headless, true
}

// After implements Data.
func (v *volumes) After(live client.Object) (after workload.Data, ok bool) {
	service, isService := live.(*corev1.Service)
	if !isService || service.Name != resource.HeadlessName(v.name) {
		return v, false
	}
	changed := *v
	changed.headless = service
	return &changed, true
}

// remainsToApply reports whether the database was made before: its StatefulSet or one of its Services is there, or was by the status.
func (o view) remainsToApply() bool {
	return o.existed || o.StatefulSet() != nil && metav1.IsControlledBy(o.StatefulSet(), o.cm) ||
		o.headless != nil && metav1.IsControlledBy(o.headless, o.cm) ||
		o.Service != nil && metav1.IsControlledBy(o.Service, o.cm) && (o.Service.Name == o.name || o.Service.Spec.Selector[appv1.LabelPart] == o.name)
}

// ownSet returns the live StatefulSet, nil for a StatefulSet of another controller, such as an earlier CloudManager of this name.
func (o view) ownSet() *appsv1.StatefulSet {
	set := o.StatefulSet()
	if set == nil || metav1.GetControllerOf(set) != nil && !metav1.IsControlledBy(set, o.cm) {
		return nil
	}
	return set
}

// dataClaimTemplate returns what the live StatefulSet makes the database's volumes from, nil if there is none to go by.
func (o view) dataClaimTemplate() *corev1.PersistentVolumeClaim {
	set := o.ownSet()
	if set == nil {
		return nil
	}
	i := slices.IndexFunc(set.Spec.VolumeClaimTemplates, func(template corev1.PersistentVolumeClaim) bool {
		return template.Name == resource.DataVolume
	})
	if i < 0 {
		return nil
	}
	return &set.Spec.VolumeClaimTemplates[i]
}

// claimTemplate returns what the database's volumes are like, by its StatefulSet, or, where that was deleted, by the smallest of its
// claims; nil if there is none to go by.
func (o view) claimTemplate() *corev1.PersistentVolumeClaim {
	if o.StatefulSet() != nil || !o.remainsToApply() {
		return o.dataClaimTemplate()
	}
	var smallest *corev1.PersistentVolumeClaim
	for i := range o.claims {
		claim := &o.claims[i]
		size := claim.Spec.Resources.Requests.Storage()
		if claim.Annotations[appv1.AnnotationRetainedFor] == resource.KindCloudManager.Name+"."+o.cm.Name &&
			(smallest == nil || size.Cmp(*smallest.Spec.Resources.Requests.Storage()) < 0) {
			smallest = claim
		}
	}
	return smallest
}

// refusedBefore reports whether the status says that the volumes cannot be as the spec wants them.
func (o view) refusedBefore() bool {
	c := meta.FindStatusCondition(o.cm.Status.Conditions, appv1.ConditionDatabaseReady)
	return c != nil && (c.Reason == appv1.ReasonVolumeResizeFailed || c.Reason == appv1.ReasonImmutableField)
}

// volumeChange reports whether the volumes are to become larger than the live StatefulSet makes them. Nothing else about them can
// be changed, and they cannot shrink. Where the StatefulSet was deleted, its claims are what there is to go by: they may be
// other than asked for, as those of an earlier CloudManager are, unless that was refused before.
func (o view) volumeChange(w *resource.Workload) (bool, error) {
	volume := o.claimTemplate()
	if volume == nil {
		return false, nil
	}
	live, wanted := volume.Spec.DeepCopy(), &w.Claims[0].Spec
	fixed := o.StatefulSet() != nil || o.refusedBefore()
	if o.StatefulSet() == nil && wanted.StorageClassName == nil {
		live.StorageClassName = nil // That of the claim is the cluster's default.
	}
	const at = "spec.db.statefulSet.storage."
	const remedy = messageOtherVolumes
	if is, want := className(live.StorageClassName), className(wanted.StorageClassName); fixed && is != want {
		return false, reconciler.Stalled(appv1.ReasonImmutableField,
			messageClassChanged, at, is, want, remedy)
	}
	if fixed && !slices.Equal(live.AccessModes, wanted.AccessModes) {
		return false, reconciler.Stalled(appv1.ReasonImmutableField,
			messageAccessModesChanged, at, live.AccessModes, wanted.AccessModes, remedy)
	}
	is, want := live.Resources.Requests.Storage(), wanted.Resources.Requests.Storage()
	if fixed && want.Cmp(*is) < 0 {
		return false, reconciler.Stalled(appv1.ReasonVolumeResizeFailed,
			messageSizeShrinks, at, is, want, remedy)
	}
	return want.Cmp(*is) > 0, nil
}

// className is how a message calls a StorageClass.
func className(class *string) string {
	if class == nil {
		return messageDefaultClass
	}
	return fmt.Sprintf("%q", *class)
}

// podsOf returns how many pods the StatefulSet has, and how many it is to have for a workload.
func (o view) podsOf(w *resource.Workload) (had, wanted int32) {
	if o.StatefulSet() != nil {
		had = ptr.Deref(o.StatefulSet().Spec.Replicas, 1)
	}
	return had, ptr.Deref(w.Replicas, max(had, 1))
}

// claimChildren returns those of the claims that are not as wanted: that are too small, or are about to be used and not the
// database's, which the engine refuses or adopts. Unguarded are further ones, which only lack the annotations that keep tools
// from deleting them.
func (o view) claimChildren(w *resource.Workload, claims []corev1.PersistentVolumeClaim) (wanted, unguarded []apply.Object) {
	_, pods := o.podsOf(w)
	for i := range claims {
		live, desired := &claims[i], resource.Claim(w, claims[i].Name)
		size := live.Spec.Resources.Requests.Storage()
		small := size.Cmp(*desired.Spec.Resources.Requests.Storage()) < 0
		ordinal, _ := resource.ClaimOrdinal(o.name, live.Name)
		ours := live.Annotations[appv1.AnnotationRetainedFor] == w.RetainedFor
		if !small {
			desired.Spec.Resources = corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: *size}}
		}
		claim := apply.Object{Desired: desired, Live: live, Retained: true}
		switch {
		case small && ours, !ours && ordinal < pods:
			claim.Prerequisite = true
			wanted = append(wanted, claim)
		case ours && !resource.Guarded(live):
			unguarded = append(unguarded, claim)
		}
	}
	return wanted, unguarded
}

// leavesClaims reports whether a claim of the database outlives its StatefulSet although the spec does not retain it: one of a pod
// that was scaled away while the spec did. Its data is of no use without the password.
func (o view) leavesClaims(w *resource.Workload) bool {
	_, pods := o.podsOf(w)
	return slices.ContainsFunc(o.claims, func(claim corev1.PersistentVolumeClaim) bool {
		ordinal, ok := resource.ClaimOrdinal(o.name, claim.Name)
		return ok && ordinal >= pods && (o.StatefulSet() == nil || !goesWith(&claim, o.StatefulSet()))
	})
}

// claimsReleased returns what is left to be done before a StatefulSet leaves its claims behind, as it is to. Its controller takes
// its references off those of the pods that it has, and forgets those of pods that were scaled away. To do so here would take
// the permission to delete claims.
func claimsReleased(set *appsv1.StatefulSet, claims []corev1.PersistentVolumeClaim) error {
	if deletesClaims(set) || set.Status.ObservedGeneration < set.Generation {
		return nil
	}
	for i := range claims {
		name := claims[i].Name
		if !goesWith(&claims[i], set) {
			continue
		}
		if ordinal, _ := resource.ClaimOrdinal(set.Name, name); ordinal < ptr.Deref(set.Spec.Replicas, 1) {
			return reconciler.Waiting(appv1.ReasonProgressing, messageReleasingClaim, name, set.Name)
		}
		return reconciler.Stalled(appv1.ReasonVolumeResizeFailed,
			messageClaimNotReleased, name, set.Name)
	}
	return nil
}

// deletesClaims reports whether a StatefulSet takes its claims along when it is deleted.
func deletesClaims(set *appsv1.StatefulSet) bool {
	policy := set.Spec.PersistentVolumeClaimRetentionPolicy
	return policy != nil && policy.WhenDeleted == appsv1.DeletePersistentVolumeClaimRetentionPolicyType
}

// goesWith reports whether a claim goes with a StatefulSet.
func goesWith(claim *corev1.PersistentVolumeClaim, set *appsv1.StatefulSet) bool {
	return slices.ContainsFunc(claim.OwnerReferences, func(ref metav1.OwnerReference) bool { return ref.UID == set.UID })
}
