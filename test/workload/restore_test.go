package workload

import (
	"maps"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appv1 "huolala.cn/app-operator/api/v1"
	"huolala.cn/app-operator/test/harness"
)

// saved returns an object as a backup tool saves it: without what belongs to the object of before alone.
func saved(t testing.TB, obj client.Object) client.Object {
	t.Helper()
	plane.Read(t, obj)
	copied, ok := obj.DeepCopyObject().(client.Object)
	if !ok {
		t.Fatalf("%T is no object", obj)
	}
	copied.SetUID("")
	copied.SetResourceVersion("")
	copied.SetGeneration(0)
	copied.SetCreationTimestamp(metav1.Time{})
	copied.SetManagedFields(nil)
	copied.SetOwnerReferences(nil)
	copied.SetFinalizers(nil)
	annotations := copied.GetAnnotations()
	maps.DeleteFunc(annotations, func(key, _ string) bool { return strings.Contains(key, "kubernetes.io/") })
	copied.SetAnnotations(annotations)
	if claim, ok := copied.(*corev1.PersistentVolumeClaim); ok {
		claim.Spec.VolumeName, claim.Status = "", corev1.PersistentVolumeClaimStatus{}
	}
	return copied
}

// TestRestore deletes an App and a CloudManager with all their objects, and restores them in the order of docs/operations.md: the database has the
// password and the claim of before, and nothing has to be adopted.
func TestRestore(t *testing.T) {
	t.Parallel()
	ns := plane.Namespace(t)
	collected(t, ns)
	plane.Start(t, ns)
	app, cm := newApp(ns), newCloudManager(ns)
	plane.Create(t, app)
	plane.Create(t, cm)
	plane.Stands(t, app, "Ready=True")
	inPhase(t, cm, appv1.PhaseReady, "Ready=True")
	secret, claim := named[corev1.Secret](ns, "dbauth"), named[corev1.PersistentVolumeClaim](ns, "datadir-db-0")
	backup := []client.Object{saved(t, secret), saved(t, claim), saved(t, cm), saved(t, app)}
	password := string(secret.Data["password"])

	for _, obj := range []client.Object{app, cm} {
		plane.Delete(t, obj)
		plane.Gone(t, obj)
	}
	for _, obj := range []client.Object{named[appsv1.Deployment](ns, "web"), named[appsv1.StatefulSet](ns, "db"), named[appsv1.Deployment](ns, "front")} {
		plane.Gone(t, obj)
	}
	for _, obj := range []client.Object{claim, secret} {
		plane.Delete(t, obj)
		plane.Gone(t, obj)
	}
	for _, obj := range backup {
		plane.Create(t, obj)
	}
	inPhase(t, cm, appv1.PhaseReady, "Ready=True", "Stalled=False")
	plane.Stands(t, app, "Ready=True", "Stalled=False")
	if got := string(read(t, named[corev1.Secret](ns, "dbauth")).Data["password"]); got != password || got == "" {
		t.Error("the database has another password")
	}
	if restored := read(t, named[corev1.PersistentVolumeClaim](ns, "datadir-db-0")); restored.Status.Phase != corev1.ClaimBound {
		t.Errorf("the claim is %s", restored.Status.Phase)
	}
}

// TestRestoreWithChildren restores an App after its Deployment, which has no owner any more: the App reports it, and an adoption takes it over without
// another pod.
func TestRestoreWithChildren(t *testing.T) {
	t.Parallel()
	ns, _, app := readyApp(t)
	d := named[appsv1.Deployment](ns, "web")
	backup := []client.Object{saved(t, d), saved(t, app)}
	plane.Delete(t, app)
	plane.Gone(t, app)
	plane.Gone(t, d)
	for _, obj := range backup {
		plane.Create(t, obj)
	}
	plane.Stands(t, app, "Ready=False/"+appv1.ReasonResourceExists)
	harness.Says(t, app, "Ready", "app.huolala.cn/adopt=without-restart")
	restored := read(t, named[appsv1.Deployment](ns, "web"))
	plane.Change(t, app, func() { app.Annotations = map[string]string{appv1.AnnotationAdopt: appv1.AdoptWithoutRestart} })
	plane.Stands(t, app, "Ready=True", "Stalled=False")
	adopted := read(t, named[appsv1.Deployment](ns, "web"))
	if adopted.UID != restored.UID || adopted.Annotations["deployment.kubernetes.io/revision"] != "1" || !metav1.IsControlledBy(adopted, app) {
		t.Errorf("the Deployment is %+v", adopted.ObjectMeta)
	}
}
