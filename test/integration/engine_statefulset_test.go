package integration

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/ptr"

	appv1 "huolala.cn/app-operator/api/v1"
	"huolala.cn/app-operator/internal/apply"
	"huolala.cn/app-operator/internal/reconciler"
)

// newStatefulSet is a literal with a claim template, as a builder makes it.
func newStatefulSet(d *driver, size string) *appsv1.StatefulSet {
	labels := map[string]string{"app": "db"}
	return &appsv1.StatefulSet{
		TypeMeta:   metav1.TypeMeta{APIVersion: "apps/v1", Kind: "StatefulSet"},
		ObjectMeta: metav1.ObjectMeta{Namespace: d.owner.Namespace, Name: "db", Labels: labels, OwnerReferences: d.ref()},
		Spec: appsv1.StatefulSetSpec{
			Replicas:            ptr.To[int32](1),
			ServiceName:         "db-headless",
			Selector:            &metav1.LabelSelector{MatchLabels: labels},
			PodManagementPolicy: appsv1.ParallelPodManagement,
			MinReadySeconds:     3,
			PersistentVolumeClaimRetentionPolicy: &appsv1.StatefulSetPersistentVolumeClaimRetentionPolicy{
				WhenDeleted: appsv1.RetainPersistentVolumeClaimRetentionPolicyType,
				WhenScaled:  appsv1.RetainPersistentVolumeClaimRetentionPolicyType,
			},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec: corev1.PodSpec{Containers: []corev1.Container{{
					Name: "db", Image: "mariadb:10.3",
					VolumeMounts: []corev1.VolumeMount{{Name: "datadir", MountPath: "/var/lib/mysql"}},
				}}},
			},
			VolumeClaimTemplates: []corev1.PersistentVolumeClaim{{
				ObjectMeta: metav1.ObjectMeta{Name: "datadir", Labels: labels, Annotations: retainedFor("App.db")},
				Spec: corev1.PersistentVolumeClaimSpec{
					AccessModes:      []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
					Resources:        corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse(size)}},
					StorageClassName: ptr.To("local-path"),
					VolumeMode:       ptr.To(corev1.PersistentVolumeFilesystem),
				},
			}},
		},
	}
}

func retainedFor(owner string) map[string]string {
	return map[string]string{appv1.AnnotationRetainedFor: owner}
}

// TestStatefulSet applies a StatefulSet, and again; repairs what others change; and counts its replicas apart.
func TestStatefulSet(t *testing.T) {
	t.Parallel()
	// The type of a nested object gets lost in one of them.
	for _, encoding := range []string{runtime.ContentTypeProtobuf, runtime.ContentTypeJSON} {
		t.Run(encoding, func(t *testing.T) {
			t.Parallel()
			checkStatefulSet(t, newDriver(t, plane.Namespace(t), "db", encoding))
		})
	}
}

func checkStatefulSet(t *testing.T, d *driver) {
	d.does(t, apply.Created, apply.Object{Desired: newStatefulSet(d, "20Gi")})
	live := newStatefulSet(d, "20Gi")
	plane.Read(t, live)
	sum := live.Annotations[appv1.AnnotationLastAppliedHash]

	for name, mutate := range map[string]func(){
		"image":            func() { live.Spec.Template.Spec.Containers[0].Image = "theirs" },
		"replicas":         func() { live.Spec.Replicas = ptr.To[int32](7) },
		"retention policy": func() { live.Spec.PersistentVolumeClaimRetentionPolicy.WhenDeleted = "Delete" },
		"seconds":          func() { live.Spec.MinReadySeconds = 9 },
	} {
		plane.Change(t, live, mutate)
		d.does(t, apply.Repaired, apply.Object{Desired: newStatefulSet(d, "20Gi")})
		plane.Read(t, live)
		want := newStatefulSet(d, "20Gi").Spec
		if *live.Spec.Replicas != 1 || live.Spec.Template.Spec.Containers[0].Image != "mariadb:10.3" || live.Spec.MinReadySeconds != 3 ||
			!cmp.Equal(want.PersistentVolumeClaimRetentionPolicy, live.Spec.PersistentVolumeClaimRetentionPolicy) {
			t.Fatalf("%s: drift is not repaired: %+v", name, live.Spec)
		}
	}

	scaled := newStatefulSet(d, "20Gi")
	scaled.Spec.Replicas = ptr.To[int32](3)
	d.does(t, apply.Configured, apply.Object{Desired: scaled})
	plane.Read(t, live)
	if got := live.Annotations[appv1.AnnotationLastAppliedHash]; got != sum || *live.Spec.Replicas != 3 {
		t.Errorf("scaled to %d, the hash was %s and is %s", *live.Spec.Replicas, sum, got)
	}

	// An autoscaler takes over.
	scaled.Spec.Replicas, scaled.Spec.MinReadySeconds = nil, 4
	d.does(t, apply.Configured, apply.Object{Desired: scaled})
	plane.Read(t, live)
	if *live.Spec.Replicas != 3 {
		t.Errorf("the handover has scaled it to %d", *live.Spec.Replicas)
	}
	plane.Change(t, live, func() { live.Spec.Replicas = ptr.To[int32](5) })
	d.does(t, apply.Unchanged, apply.Object{Desired: scaled})
}

// TestReplace changes what cannot be changed: it is refused, or the StatefulSet is replaced without what it controls.
func TestReplace(t *testing.T) {
	t.Parallel()
	d := newDriver(t, plane.Namespace(t), "db")
	d.does(t, apply.Created, apply.Object{Desired: newStatefulSet(d, "20Gi"), Replace: true})
	live := newStatefulSet(d, "20Gi")
	plane.Read(t, live)
	first := live.UID

	grown := apply.Object{Desired: newStatefulSet(d, "30Gi")}
	refusal := "spec: Forbidden"
	if plane.Minor(t) >= 37 {
		refusal = "spec.volumeClaimTemplates: Invalid value: field is immutable" // API servers name the field since Kubernetes 1.37.
	}
	d.stalls(t, grown, appv1.ReasonImmutableField, "StatefulSet db", refusal, "Restore the previous value", "--cascade=orphan")
	grown.Replace = true
	waits := func(action apply.Action, words string) {
		t.Helper()
		got, err := d.apply(t, grown)
		var waiting *reconciler.WaitingError
		if got != string(action) || !errors.As(err, &waiting) || waiting.Reason != appv1.ReasonProgressing || !strings.Contains(waiting.Message, words) {
			t.Fatalf("the StatefulSet is %q, %v; want %q, waiting: %s", got, err, action, words)
		}
	}
	waits(apply.Replaced, "to be replaced")
	waits("", "to be deleted")
	plane.Read(t, live)
	if diff := cmp.Diff([]string{metav1.FinalizerOrphanDependents}, live.Finalizers); diff != "" || live.UID != first {
		t.Errorf("finalizers (-want +got):\n%s", diff)
	}
	// As the garbage collector does once the pods are no longer the StatefulSet's.
	plane.Change(t, live, func() { live.Finalizers = nil })
	plane.Gone(t, live)
	d.does(t, apply.Created, grown)
	plane.Read(t, live)
	if size := live.Spec.VolumeClaimTemplates[0].Spec.Resources.Requests[corev1.ResourceStorage]; size.String() != "30Gi" || live.UID == first {
		t.Errorf("the new StatefulSet has %s, UID %s", size.String(), live.UID)
	}
}
