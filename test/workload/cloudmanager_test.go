package workload

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	appv1 "huolala.cn/app-operator/api/v1"
	"huolala.cn/app-operator/test/harness"
)

// cloudManagerSample is the file of docs/cloudmanager.md.
const cloudManagerSample = "config/samples/app_v1_cloudmanager.yaml"

// TestCloudManagerSample takes the sample through its life with kubectl: up, tier by tier; its volume grown under the
// running pod; deleted; and made again on the volume and with the password that it had.
func TestCloudManagerSample(t *testing.T) {
	t.Parallel()
	ns := plane.Namespace(t)
	collected(t, ns)
	m := plane.Start(t, ns)
	k := newKubectl(t, ns)
	k.run("apply", "-f", cloudManagerSample)
	k.run("wait", "--for=condition=Ready", "--timeout="+harness.Patience.String(), "cmgr/cloudmanager-sample")
	cm := &appv1.CloudManager{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "cloudmanager-sample"}}
	cloudManagerUp(t, cm)
	rows := k.table("get", "cmgr")
	if len(rows) != 2 || !slices.Equal(rows[0], []string{"NAME", "READY", "STATUS", "AGE"}) ||
		!slices.Equal(rows[1][:3], []string{"cloudmanager-sample", "3/3", "Ready"}) {
		t.Errorf("kubectl get cmgr: %q", rows)
	}
	events := k.run("events", "--for", "cloudmanager/cloudmanager-sample")
	for _, phase := range []string{"Database", "Identity", "Front", "Ready"} {
		if !strings.Contains(events, "phase "+phase) {
			t.Errorf("kubectl events does not tell of phase %s:\n%s", phase, events)
		}
	}
	cloudManagerOrder(t, ns)
	m.Idle(t)

	cloudManagerGrows(t, cm)

	secret := read(t, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "cm-dbauth"}})
	claim := read(t, &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "datadir-cm-db-0"}})
	k.run("delete", "-f", cloudManagerSample)
	plane.Gone(t, cm)
	empty(t, ns)
	k.run("apply", "-f", cloudManagerSample)
	k.run("wait", "--for=condition=Ready", "--timeout="+harness.Patience.String(), "cmgr/cloudmanager-sample")
	for obj, was := range map[*metav1.ObjectMeta]metav1.ObjectMeta{
		&read(t, secret.DeepCopy()).ObjectMeta: secret.ObjectMeta,
		&read(t, claim.DeepCopy()).ObjectMeta:  claim.ObjectMeta,
	} {
		if obj.UID != was.UID {
			t.Errorf("%s was not kept", was.Name)
		}
	}
}

// cloudManagerUp checks what the status of the sample says once it is up.
func cloudManagerUp(t *testing.T, cm *appv1.CloudManager) {
	t.Helper()
	plane.Stands(t, cm, "Ready=True/Ready", "Reconciling=False/Settled", "Stalled=False", "DatabaseReady=True", "IdentityReady=True",
		"FrontReady=True", "PasswordInClearText=True")
	plane.Until(t, cm, func() error {
		if cm.Status.Phase != appv1.PhaseReady || cm.Status.DB.Ready != "1/1" || cm.Status.Identity.Ready != "1/1" || cm.Status.Front.Ready != "1/1" {
			return fmt.Errorf("status: %+v", cm.Status)
		}
		return nil
	})
}

// cloudManagerOrder checks by the pods' ages that each tier was made when the one before it was ready.
func cloudManagerOrder(t *testing.T, namespace string) {
	t.Helper()
	created, up := map[string]metav1.Time{}, map[string]metav1.Time{}
	for _, pod := range pods(t, namespace) {
		role := pod.Labels[appv1.LabelComponent]
		created[role] = pod.CreationTimestamp
		for _, c := range pod.Status.Conditions {
			if c.Type == corev1.PodReady {
				up[role] = c.LastTransitionTime
			}
		}
	}
	if len(created) != 3 {
		t.Errorf("there are pods of %v", created)
	}
	for _, pair := range [][2]string{{"db", "identity"}, {"identity", "front"}} {
		if before, after := up[pair[0]], created[pair[1]]; after.Before(&before) {
			t.Errorf("%s was made at %s, and %s was ready at %s", pair[1], after, pair[0], before)
		}
	}
}

// cloudManagerGrows lets the volume grow, and checks that the pod stays.
func cloudManagerGrows(t *testing.T, cm *appv1.CloudManager) {
	t.Helper()
	ns := cm.Namespace
	before := uids(t, ns)
	set := read(t, &appsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "cm-db"}})
	was := set.UID
	k := newKubectl(t, ns)
	k.run("patch", "cmgr/"+cm.Name, "--type=merge", "-p", `{"spec":{"db":{"statefulSet":{"storage":{"size":"30Gi"}}}}}`)
	claim := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "datadir-cm-db-0"}}
	plane.Until(t, claim, func() error {
		if size := claim.Status.Capacity.Storage().String(); size != "30Gi" {
			return fmt.Errorf("the volume has %s", size)
		}
		return nil
	})
	plane.Until(t, set, func() error {
		if size := set.Spec.VolumeClaimTemplates[0].Spec.Resources.Requests.Storage().String(); set.UID == was || size != "30Gi" {
			return fmt.Errorf("the StatefulSet makes volumes of %s", size)
		}
		return nil
	})
	cloudManagerUp(t, cm)
	if diff := cmp.Diff(before, uids(t, ns)); diff != "" {
		t.Errorf("the pods were recreated (-before +after):\n%s", diff)
	}
}
