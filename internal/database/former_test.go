package database

import (
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	appv1 "huolala.cn/app-operator/api/v1"
	"huolala.cn/app-operator/internal/fields/fieldtest"
	"huolala.cn/app-operator/internal/workload"
	"huolala.cn/app-operator/resource"
)

// TestRememberFormer checks which StatefulSets the memory has whole: those that are deleted without their pods, that the operator has applied for the
// CloudManager, and that others have added to.
func TestRememberFormer(t *testing.T) {
	manager := resource.KindCloudManager.FieldManager()
	const updateOp = metav1.ManagedFieldsOperationUpdate
	for name, c := range map[string]struct {
		change        func(*testDatabase, *appsv1.StatefulSet)
		stays         bool
		pods, as, was bool // Whether the number of pods and the StatefulSet are remembered then, and whether the StatefulSet was before.
	}{
		"deleted":                   {pods: true, as: true},
		"deleted, and known":        {pods: true, as: true, was: true},
		"stays, and known":          {stays: true, was: true},
		"paused, and known":         {change: func(db *testDatabase, _ *appsv1.StatefulSet) { db.in.Paused = true }, was: true},
		"adopted":                   {change: func(_ *testDatabase, set *appsv1.StatefulSet) { set.OwnerReferences = nil }, pods: true, was: true},
		"of another":                {change: func(_ *testDatabase, set *appsv1.StatefulSet) { set.OwnerReferences[0].UID = "another" }, pods: true},
		"of an earlier operator":    {change: func(_ *testDatabase, set *appsv1.StatefulSet) { set.ManagedFields = set.ManagedFields[1:] }, pods: true},
		"without the hash":          {change: func(_ *testDatabase, set *appsv1.StatefulSet) { set.Annotations = nil }, pods: true},
		"without additions":         {change: func(_ *testDatabase, set *appsv1.StatefulSet) { set.ManagedFields = set.ManagedFields[:1] }, pods: true},
		"with the status of others": {change: func(_ *testDatabase, set *appsv1.StatefulSet) { set.ManagedFields[1].Subresource = "status" }, pods: true},
		"on its way out": {change: func(_ *testDatabase, set *appsv1.StatefulSet) {
			set.DeletionTimestamp, set.Finalizers = ptr.To(metav1.Now()), []string{metav1.FinalizerOrphanDependents}
		}, stays: true, pods: true, as: true, was: true},
	} {
		cm, built := databaseOf(t, "1Gi")
		state := liveDatabase(cm, built)
		set := state.StatefulSet()
		set.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(cm, appv1.GroupVersion.WithKind(resource.KindCloudManager.Name))}
		set.Annotations = map[string]string{appv1.AnnotationLastAppliedHash: "a"}
		set.ManagedFields = []metav1.ManagedFieldsEntry{
			fieldtest.Entry(manager, metav1.ManagedFieldsOperationApply, "", `{"f:spec":{"f:serviceName":{}}}`),
			fieldtest.Entry("kubectl", updateOp, "", `{"f:spec":{"f:template":{"f:metadata":{"f:annotations":{"f:restartedAt":{}}}}}}`),
		}
		db := withObjects(t, cm, state)
		db.r.Records = workload.NewRecords()
		key := db.in.Key()
		if c.was {
			db.r.Records.RememberReplaced(key, cm.UID, ptr.To[int32](1))
			db.r.Records.RememberFormer(key, cm.UID, set)
		}
		if c.change != nil {
			c.change(db, set)
		}
		w := built
		if !c.stays {
			_, w = databaseOf(t, "2Gi")
		}
		db.rememberReplaced(state, !c.stays)
		req, err := db.buildRequest(t.Context(), state, w, workload.How{}, !c.stays)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		db.rememberFormer(state, req)
		if got := db.r.Records.Recall(key, cm.UID); (got.Replaced != nil) != c.pods || (got.Former != nil) != c.as {
			t.Errorf("%s: remembers pods %t, the StatefulSet %t", name, got.Replaced != nil, got.Former != nil)
		}
	}
}
