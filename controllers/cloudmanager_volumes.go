package controllers

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
	"huolala.cn/app-operator/internal/reconciler"
	"huolala.cn/app-operator/resource"
)

// What is decided here of a database and its volumes is decided by what was observed. Nothing in this file reads or writes an object.

// databaseState is what lives of a CloudManager's database.
type databaseState struct {
	cm   *appv1.CloudManager
	name string
	// existed is true if there was a StatefulSet before, by the status.
	existed bool

	set               *appsv1.StatefulSet
	headless, service *corev1.Service
	// serviceName is the name that the Service was looked for by.
	serviceName string
	pods        []corev1.Pod
	autoscaler  string
	// claims are those of the database's pods that the cache knows, all that are labelled as ours; live are all that the API
	// server has, once they were asked for.
	claims []corev1.PersistentVolumeClaim
	live   *[]corev1.PersistentVolumeClaim
	// secretChecked is true once the Secret was found, or made, as it should be.
	secretChecked bool
}

// selector is that of the live StatefulSet, nil if there is none.
func (s *databaseState) selector() map[string]string {
	if s.set == nil || s.set.Spec.Selector == nil {
		return nil
	}
	return s.set.Spec.Selector.MatchLabels
}

// provenance says how the live StatefulSet was made, or the one that was there until its volumes grew.
func (s *databaseState) provenance() provenance {
	switch {
	case s.set != nil:
		return provenance{object: s.set, selector: s.selector(), template: s.set.Spec.Template, autoscaled: s.autoscaler != ""}
	case s.headless != nil && metav1.IsControlledBy(s.headless, s.cm):
		return provenance{kept: s.headless.Annotations[appv1.AnnotationLastAppliedInputs]}
	}
	return provenance{}
}

// liveObject returns the live object that a wanted one is compared with, nil if there is none.
func (s *databaseState) liveObject(wanted client.Object) client.Object {
	switch wanted.(type) {
	case *appsv1.StatefulSet:
		if s.set != nil {
			return s.set
		}
	case *corev1.Service:
		live := s.service
		if wanted.GetName() == resource.HeadlessName(s.name) {
			live = s.headless
		}
		if live != nil {
			return live
		}
	}
	return nil
}

// noteWritten notes what lives after it was written.
func (s *databaseState) noteWritten(children []apply.Child) {
	for i := range children {
		switch live := children[i].Live.(type) {
		case *appsv1.StatefulSet:
			s.set = live
		case *corev1.Service:
			if live.Name == resource.HeadlessName(s.name) {
				s.headless = live
			} else {
				s.service = live
			}
		}
	}
}

// remainsToApply reports whether the database was made before: its StatefulSet or one of its Services is there, or was by the status.
func (s *databaseState) remainsToApply() bool {
	return s.existed || s.set != nil && metav1.IsControlledBy(s.set, s.cm) ||
		s.headless != nil && metav1.IsControlledBy(s.headless, s.cm) ||
		s.service != nil && metav1.IsControlledBy(s.service, s.cm)
}

// dataClaimTemplate returns what the live StatefulSet makes the database's volumes from, nil if there is none to go by.
func (s *databaseState) dataClaimTemplate() *corev1.PersistentVolumeClaim {
	if s.set == nil || metav1.GetControllerOf(s.set) != nil && !metav1.IsControlledBy(s.set, s.cm) {
		return nil
	}
	i := slices.IndexFunc(s.set.Spec.VolumeClaimTemplates, func(template corev1.PersistentVolumeClaim) bool {
		return template.Name == resource.DataVolume
	})
	if i < 0 {
		return nil
	}
	return &s.set.Spec.VolumeClaimTemplates[i]
}

// claimTemplate returns what the database's volumes are like, by its StatefulSet, or, where that was deleted, by the smallest of its
// claims; nil if there is none to go by.
func (s *databaseState) claimTemplate() *corev1.PersistentVolumeClaim {
	if s.set != nil || !s.remainsToApply() {
		return s.dataClaimTemplate()
	}
	var smallest *corev1.PersistentVolumeClaim
	for i := range s.claims {
		claim := &s.claims[i]
		size := claim.Spec.Resources.Requests.Storage()
		if claim.Annotations[appv1.AnnotationRetainedFor] == resource.KindCloudManager.Name+"."+s.cm.Name &&
			(smallest == nil || size.Cmp(*smallest.Spec.Resources.Requests.Storage()) < 0) {
			smallest = claim
		}
	}
	return smallest
}

// growsVolume reports whether a workload has larger volumes than the database.
func (s *databaseState) growsVolume(w *resource.Workload) bool {
	volume := s.claimTemplate()
	return volume != nil && w.Claims[0].Spec.Resources.Requests.Storage().Cmp(*volume.Spec.Resources.Requests.Storage()) > 0
}

// refusedBefore reports whether the status says that the volumes cannot be as the spec wants them.
func (s *databaseState) refusedBefore() bool {
	c := meta.FindStatusCondition(s.cm.Status.Conditions, appv1.ConditionDatabaseReady)
	return c != nil && c.Reason == appv1.ReasonVolumeResizeFailed
}

// volumeChange reports whether the volumes are to become larger than the live StatefulSet makes them. Nothing else about them can
// be changed, and they cannot shrink. Where the StatefulSet was deleted, its claims are what there is to go by: they may be
// larger than asked for, as those of an earlier CloudManager are, unless that was refused before.
func (s *databaseState) volumeChange(w *resource.Workload) (bool, error) {
	volume := s.claimTemplate()
	if volume == nil {
		return false, nil
	}
	live, wanted := volume.Spec.DeepCopy(), &w.Claims[0].Spec
	if s.set == nil && wanted.StorageClassName == nil {
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
	if want.Cmp(*is) < 0 && (s.set != nil || s.refusedBefore()) {
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
func (s *databaseState) podsOf(w *resource.Workload) (had, wanted int32) {
	if s.set != nil {
		had = ptr.Deref(s.set.Spec.Replicas, 1)
	}
	return had, ptr.Deref(w.Replicas, max(had, 1))
}

// claimChildren returns those of the claims that are not as wanted: that are too small, or are about to be used and not the
// database's, which the engine refuses or adopts. Unguarded are further ones, which only lack the annotations that keep tools
// from deleting them.
func (s *databaseState) claimChildren(w *resource.Workload, claims []corev1.PersistentVolumeClaim) (wanted, unguarded []apply.Child) {
	_, pods := s.podsOf(w)
	for i := range claims {
		live, desired := &claims[i], resource.Claim(w, claims[i].Name)
		size := live.Spec.Resources.Requests.Storage()
		small := size.Cmp(*desired.Spec.Resources.Requests.Storage()) < 0
		ordinal, _ := resource.ClaimOrdinal(s.name, live.Name)
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
	return wanted, unguarded
}

// leavesClaims reports whether a claim of the database outlives its StatefulSet although the spec does not retain it: one of a pod
// that was scaled away while the spec did. Its data is of no use without the password.
func (s *databaseState) leavesClaims(w *resource.Workload) bool {
	_, pods := s.podsOf(w)
	return slices.ContainsFunc(s.claims, func(claim corev1.PersistentVolumeClaim) bool {
		ordinal, ok := resource.ClaimOrdinal(s.name, claim.Name)
		return ok && ordinal >= pods && (s.set == nil || !goesWith(&claim, s.set))
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
