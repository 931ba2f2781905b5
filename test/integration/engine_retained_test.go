package integration

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appv1 "huolala.cn/app-operator/api/v1"
	"huolala.cn/app-operator/internal/apply"
)

// newRetained is a Secret that outlives the driver's owner.
func newRetained(d *driver) apply.Object {
	s := newDriverSecret(d, "123456")
	s.OwnerReferences, s.Annotations = nil, retainedFor("App."+d.owner.Name)
	return apply.Object{Desired: s, Retained: true}
}

// TestRetained takes a Secret through the lives of its owner: it outlives it, comes back to the next of its name, and
// goes to no other.
func TestRetained(t *testing.T) {
	t.Parallel()
	ns := plane.Namespace(t)
	d, other := newDriver(t, ns, "db"), newDriver(t, ns, "other")
	d.does(t, apply.Created, newRetained(d))
	live := newDriverSecret(d, "")
	owners := func(want ...metav1.OwnerReference) {
		t.Helper()
		plane.Read(t, live)
		if got := live.OwnerReferences; len(got) != len(want) || len(got) == 1 && got[0].UID != want[0].UID {
			t.Fatalf("owners are %v, want %v", got, want)
		}
	}
	owners()
	other.stalls(t, newRetained(other), appv1.ReasonResourceExists, "retained for App.db", "retained-for: App.other")
	other.stalls(t, apply.Object{Desired: newDriverSecret(other, "1")}, appv1.ReasonResourceExists, "retained for App.db")

	// Anyone who removes the mark by mistake finds it repaired.
	plane.Change(t, live, func() { delete(live.Annotations, appv1.AnnotationRetainedFor) })
	d.does(t, apply.Repaired, newRetained(d))
	// A reference that another has put on it would take the Secret away with the owner.
	plane.Read(t, live)
	plane.Change(t, live, func() { live.OwnerReferences = d.ref() }, client.FieldOwner("other"))
	d.does(t, apply.Configured, newRetained(d))
	owners()

	plane.Delete(t, d.owner)
	d = newDriver(t, ns, "db")
	d.does(t, apply.Configured, newRetained(d))
	owners()

	// The user turns it off, and on again.
	d.does(t, apply.Configured, apply.Object{Desired: newDriverSecret(d, "123456")})
	owners(d.ref()...)
	if keptFor, ok := live.Annotations[appv1.AnnotationRetainedFor]; ok {
		t.Errorf("it is retained for %s", keptFor)
	}
	d.does(t, apply.Configured, newRetained(d))
	owners()

	// An owner made again without it takes it all the same, and then it goes with the owner.
	plane.Delete(t, d.owner)
	d = newDriver(t, ns, "db")
	d.does(t, apply.Configured, apply.Object{Desired: newDriverSecret(d, "123456")})
	owners(d.ref()...)
}

// TestForeignRetained leaves alone what is not marked, or another owner's.
func TestForeignRetained(t *testing.T) {
	t.Parallel()
	d := newDriver(t, plane.Namespace(t), "db")
	s := newDriverSecret(d, "theirs")
	s.OwnerReferences = nil
	plane.Create(t, s)
	d.stalls(t, newRetained(d), appv1.ReasonResourceExists, "was not created by this resource")
	plane.Change(t, s, func() {
		s.Annotations = retainedFor("App.db")
		s.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "ConfigMap", Name: "x", UID: "x", Controller: ptr.To(true)}}
	})
	d.stalls(t, newRetained(d), appv1.ReasonResourceExists, "is owned by ConfigMap x")
	plane.Change(t, s, func() { s.OwnerReferences = nil })
	d.does(t, apply.Configured, newRetained(d))
}

// newClaim is one that the StatefulSet controller has made by a template, bound to a volume.
func newClaim(t *testing.T, d *driver, name, class string) *corev1.PersistentVolumeClaim {
	t.Helper()
	c := &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Namespace: d.owner.Namespace, Name: name, Annotations: retainedFor("App.db"), OwnerReferences: []metav1.OwnerReference{
			{APIVersion: "apps/v1", Kind: "StatefulSet", Name: "db", UID: "db", Controller: ptr.To(true)},
		}},
		Spec: corev1.PersistentVolumeClaimSpec{
			AccessModes:      []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			Resources:        corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("20Gi")}},
			StorageClassName: &class,
			VolumeName:       name,
		},
	}
	if err := plane.Client.Create(t.Context(), c, client.FieldOwner("kube-controller-manager")); err != nil {
		t.Fatal(err)
	}
	plane.ChangeStatus(t, c, func() {
		c.Status.Phase = corev1.ClaimBound
		c.Status.Capacity = c.Spec.Resources.Requests
	})
	return c
}

// grownClaim is a claim as it is wanted.
func grownClaim(live *corev1.PersistentVolumeClaim, size string) apply.Object {
	return apply.Object{Retained: true, Desired: &corev1.PersistentVolumeClaim{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "PersistentVolumeClaim"},
		ObjectMeta: metav1.ObjectMeta{
			Namespace: live.Namespace, Name: live.Name,
			Labels: map[string]string{"app": "db"}, Annotations: retainedFor("App.db"),
		},
		Spec: corev1.PersistentVolumeClaimSpec{
			Resources: corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse(size)}},
		},
	}}
}

// TestClaims grows the claims of a StatefulSet where their class lets them, and says so where it does not.
func TestClaims(t *testing.T) {
	t.Parallel()
	ns := plane.Namespace(t)
	d := newDriver(t, ns, "db")
	elastic, rigid := ns+"-elastic", ns+"-rigid"
	for name, grows := range map[string]bool{elastic: true, rigid: false} {
		class := &storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: name}, Provisioner: "example.com/none", AllowVolumeExpansion: &grows}
		plane.Create(t, class)
		plane.DeleteAfter(t, class)
	}
	c := newClaim(t, d, "datadir-db-0", elastic)
	owners := c.OwnerReferences
	d.does(t, apply.Configured, grownClaim(c, "20Gi"))
	d.does(t, apply.Configured, grownClaim(c, "30Gi"))
	plane.Read(t, c)
	if size := c.Spec.Resources.Requests[corev1.ResourceStorage]; size.String() != "30Gi" || len(c.OwnerReferences) != 1 || c.OwnerReferences[0].UID != owners[0].UID {
		t.Errorf("the claim has %s and the owners %v", size.String(), c.OwnerReferences)
	}
	again := d.stalls(t, grownClaim(c, "10Gi"), appv1.ReasonVolumeResizeFailed, "PersistentVolumeClaim datadir-db-0", "can not be less than")
	if again == 0 {
		t.Error("it is not tried again: nobody is told when a class changes")
	}
	d.stalls(t, grownClaim(newClaim(t, d, "datadir-db-1", rigid), "30Gi"), appv1.ReasonVolumeResizeFailed, "the storageclass that provisions the pvc must support resize")

	pending := newClaim(t, d, "datadir-db-2", elastic)
	plane.ChangeStatus(t, pending, func() { pending.Status.Phase = corev1.ClaimPending })
	d.stalls(t, grownClaim(pending, "30Gi"), appv1.ReasonVolumeResizeFailed, "for bound claims")

	// One that is not there is not made, and one that is not marked is not touched.
	missing := grownClaim(c, "20Gi")
	missing.Desired.SetName("datadir-db-9")
	if got, err := d.apply(t, missing); err == nil || got != "" {
		t.Errorf("a claim that is not there is %s", got)
	}
	plane.Absent(t, &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "datadir-db-9"}})
	plane.Read(t, c)
	plane.Change(t, c, func() { delete(c.Annotations, appv1.AnnotationRetainedFor) })
	d.stalls(t, grownClaim(c, "40Gi"), appv1.ReasonResourceExists, "is owned by StatefulSet db")
}
