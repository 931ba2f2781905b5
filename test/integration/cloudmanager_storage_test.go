package integration

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appv1 "huolala.cn/app-operator/api/v1"
	"huolala.cn/app-operator/test/fixture"
	"huolala.cn/app-operator/test/harness"
)

// storageRefusals are ways in which a change of the storage is refused. Each has a change of the spec, and what makes the cluster
// refuse it; the reason is that of Ready, and of Stalled where that is True.
var storageRefusals = map[string]struct {
	prepare func(t *testing.T, ns string)
	change  func(t *testing.T, cm *appv1.CloudManager)
	reason  string
	stalled bool
	says    string
	// rebuilt is true where a StatefulSet is recreated also by an operator that has not seen it.
	rebuilt bool
}{
	"shrinks": {
		change: resizeStorage("10Gi"), reason: appv1.ReasonVolumeResizeFailed, stalled: true, rebuilt: true, says: "size cannot shrink from 20Gi to 10Gi",
	},
	"another class": {
		change: func(t *testing.T, cm *appv1.CloudManager) {
			t.Helper()
			// The schema refuses it of a database that keeps its name.
			plane.Change(t, cm, func() {
				cm.Spec.DB.StatefulSet.Storage.Class, cm.Spec.DB.StatefulSet.Name = ptr.To("fast"), "another"
			})
			plane.Change(t, cm, func() { cm.Spec.DB.StatefulSet.Name = "db" })
		},
		reason: appv1.ReasonImmutableField, stalled: true, rebuilt: true, says: "storage.class cannot be changed",
	},
	"the claim is not bound": {
		change: resizeStorage("30Gi"), reason: appv1.ReasonVolumeResizeFailed, stalled: true, rebuilt: true, says: "PersistentVolumeClaim datadir-db-0 is unchanged",
	},
	"the class allows no expansion": {
		prepare: func(t *testing.T, ns string) { t.Helper(); bindClaim(t, ns, false) },
		change:  resizeStorage("30Gi"), reason: appv1.ReasonVolumeResizeFailed, stalled: true, rebuilt: true, says: "PersistentVolumeClaim datadir-db-0 is unchanged",
	},
	"a quota of storage": {
		prepare: func(t *testing.T, ns string) { t.Helper(); bindClaim(t, ns, true); limitStorage(t, ns, "25Gi", "20Gi") },
		change:  resizeStorage("30Gi"), reason: appv1.ReasonForbidden, rebuilt: true, says: "exceeded quota: storage",
	},
	"a policy against larger StatefulSets": {
		prepare: func(t *testing.T, ns string) { t.Helper(); bindClaim(t, ns, true); refuseLargeSets(t, ns) },
		change:  resizeStorage("30Gi"), reason: appv1.ReasonForbidden, says: "no databases that large",
	},
}

// resizeStorage returns a change of the size of the storage.
func resizeStorage(size string) func(*testing.T, *appv1.CloudManager) {
	return func(t *testing.T, cm *appv1.CloudManager) {
		t.Helper()
		plane.Change(t, cm, func() { cm.Spec.DB.StatefulSet.Storage.Size = resource.MustParse(size) })
	}
}

// bindClaim makes the namespace's claim one that is in use, of a class that allows it to grow or does not.
func bindClaim(t *testing.T, ns string, expands bool) {
	t.Helper()
	class := &storagev1.StorageClass{
		ObjectMeta:  metav1.ObjectMeta{Name: "class-" + ns},
		Provisioner: "kubernetes.io/no-provisioner", AllowVolumeExpansion: &expands,
	}
	plane.Create(t, class)
	t.Cleanup(func() { removeAtEnd(t, class) })
	claim := namedClaim(ns, "datadir-db-0")
	plane.Read(t, claim)
	plane.ChangeStatus(t, claim, func() {
		claim.Status.Phase = corev1.ClaimBound
		claim.Status.Capacity = claim.Spec.Resources.Requests
	})
}

// limitStorage has a quota limit the storage of a namespace's claims, and waits until it is in force.
func limitStorage(t *testing.T, ns, hard, used string) {
	t.Helper()
	quota := &corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "storage"}}
	quota.Spec.Hard = corev1.ResourceList{corev1.ResourceRequestsStorage: resource.MustParse(hard)}
	plane.Create(t, quota)
	plane.ChangeStatus(t, quota, func() {
		quota.Status = corev1.ResourceQuotaStatus{
			Hard: quota.Spec.Hard, Used: corev1.ResourceList{corev1.ResourceRequestsStorage: resource.MustParse(used)},
		}
	})
	harness.Eventually(t, func() error {
		probe := namedClaim(ns, "probe")
		if err := plane.Client.Create(t.Context(), probe, client.DryRunAll); err == nil || !strings.Contains(err.Error(), "limited: requests.storage="+hard) {
			return fmt.Errorf("the quota is not in force: %w", err)
		}
		return nil
	})
}

// refuseLargeSets has an admission policy refuse new StatefulSets of a namespace with volumes of 30Gi.
func refuseLargeSets(t *testing.T, ns string) {
	t.Helper()
	rule := admissionregistrationv1.Rule{APIGroups: []string{"apps"}, APIVersions: []string{"v1"}, Resources: []string{"statefulsets"}}
	policy := &admissionregistrationv1.ValidatingAdmissionPolicy{ObjectMeta: metav1.ObjectMeta{Name: "large-" + ns}, Spec: admissionregistrationv1.ValidatingAdmissionPolicySpec{
		MatchConstraints: &admissionregistrationv1.MatchResources{
			NamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{corev1.LabelMetadataName: ns}},
			ResourceRules: []admissionregistrationv1.NamedRuleWithOperations{{RuleWithOperations: admissionregistrationv1.RuleWithOperations{
				Operations: []admissionregistrationv1.OperationType{admissionregistrationv1.Create}, Rule: rule,
			}}},
		},
		Validations: []admissionregistrationv1.Validation{{
			Expression: `!object.spec.volumeClaimTemplates.exists(c, string(c.spec.resources.requests.storage) == "30Gi")`, Message: "no databases that large",
		}},
	}}
	binding := &admissionregistrationv1.ValidatingAdmissionPolicyBinding{ObjectMeta: metav1.ObjectMeta{Name: "large-" + ns}, Spec: admissionregistrationv1.ValidatingAdmissionPolicyBindingSpec{
		PolicyName: policy.Name, ValidationActions: []admissionregistrationv1.ValidationAction{admissionregistrationv1.Deny},
	}}
	plane.Create(t, policy, binding)
	t.Cleanup(func() { removeAtEnd(t, policy); removeAtEnd(t, binding) })
	harness.Eventually(t, func() error {
		probe := newHandMadeSet(ns, "probe")
		probe.Spec.VolumeClaimTemplates = []corev1.PersistentVolumeClaim{{ObjectMeta: metav1.ObjectMeta{Name: "a"}, Spec: namedClaim(ns, "a").Spec}}
		probe.Spec.VolumeClaimTemplates[0].Spec.Resources.Requests[corev1.ResourceStorage] = resource.MustParse("30Gi")
		if err := plane.Client.Create(t.Context(), probe, client.DryRunAll); !apierrors.IsInvalid(err) {
			return fmt.Errorf("the policy is not in force: %w", err)
		}
		return nil
	})
}

// bringUpRefused brings a CloudManager up, and changes the storage of its database together with its image. The change of the
// storage is refused.
func bringUpRefused(t *testing.T, ns, name string) *appv1.CloudManager {
	t.Helper()
	return bringUpRefusedOfClass(t, ns, name, ptr.To("class-"+ns))
}

// bringUpRefusedOfClass does so for a spec with a class, or with none for the cluster's default, which the claim then has.
func bringUpRefusedOfClass(t *testing.T, ns, name string, stated *string) *appv1.CloudManager {
	t.Helper()
	c := storageRefusals[name]
	cm := newCloudManager(ns)
	cm.Spec.DB.StatefulSet.Storage.Class = stated
	cm.Spec.DB.StatefulSet.Envs = []corev1.EnvVar{{Name: "MODE", Value: "safe"}}
	cm.Spec.DB.StatefulSet.Replicas = ptr.To[int32](1)
	bringUpTiers(t, cm)
	playControllers(t, ns)
	claim := namedClaim(ns, "datadir-db-0")
	claim.Spec.StorageClassName = ptr.To("class-" + ns)
	plane.Create(t, claim)
	if c.prepare != nil {
		c.prepare(t, ns)
	}
	plane.Read(t, cm)
	plane.Change(t, cm, func() { cm.Spec.Paused = true })
	c.change(t, cm)
	plane.Change(t, cm, func() { cm.Spec.Paused, cm.Spec.DB.StatefulSet.Image = false, "mariadb:11" })
	staysRefused(t, cm, name)
	return cm
}

// staysRefused waits until the status says that the change of the storage is refused.
func staysRefused(t *testing.T, cm *appv1.CloudManager, name string) {
	t.Helper()
	c := storageRefusals[name]
	conditions := []string{"Applied=False/" + c.reason, "Ready=False/" + c.reason, "DatabaseReady=False/" + c.reason, "Stalled=False"}
	if c.stalled {
		conditions[3] = "Stalled=True/" + c.reason
	}
	plane.Stands(t, cm, conditions...)
	harness.Says(t, cm, "Ready", c.says)
	if c.stalled {
		harness.Says(t, cm, "Ready", "its volumes are unchanged")
	}
}

// diffSet reports how a StatefulSet differs from the one of the CloudManager's last applied spec.
func diffSet(set *appsv1.StatefulSet) error {
	volume, c := set.Spec.VolumeClaimTemplates[0].Spec, set.Spec.Template.Spec.Containers[0]
	var mode string
	for _, env := range c.Env {
		if env.Name == "MODE" {
			mode = env.Value
		}
	}
	return errors.Join(
		diffOf("mariadb:10.3", c.Image), diffOf("safe", mode), diffOf(int32(1), *set.Spec.Replicas),
		diffOf("20Gi", volume.Resources.Requests.Storage().String()), diffOf("class-"+set.Namespace, *volume.StorageClassName),
	)
}

// drifts are edits of a database's objects, each with a check of the object once it is repaired.
var drifts = []struct {
	name string
	edit func(t *testing.T, ns string)
}{
	{"the image", editSet(func(set *appsv1.StatefulSet) { set.Spec.Template.Spec.Containers[0].Image = "theirs" })},
	{"the variables", editSet(func(set *appsv1.StatefulSet) {
		set.Spec.Template.Spec.Containers[0].Env = []corev1.EnvVar{{Name: "MODE", Value: "reckless"}}
	})},
	{"the number of pods", editSet(func(set *appsv1.StatefulSet) { set.Spec.Replicas = ptr.To[int32](0) })},
	{"the record", editSet(func(set *appsv1.StatefulSet) {
		delete(set.Annotations, appv1.AnnotationLastAppliedSpec)
		set.Spec.Template.Spec.Containers[0].Image = "theirs"
	})},
	{"the StatefulSet is deleted", func(t *testing.T, ns string) {
		t.Helper()
		awaitReplaced(t, namedStatefulSet(ns, "db"))
	}},
	{"the Service is deleted", func(t *testing.T, ns string) { t.Helper(); awaitReplaced(t, namedService(ns, "db")) }},
	{"the headless Service is deleted", func(t *testing.T, ns string) { t.Helper(); awaitReplaced(t, namedService(ns, "db-headless")) }},
	{"the Service is edited", func(t *testing.T, ns string) {
		t.Helper()
		service := namedService(ns, "db")
		plane.Read(t, service)
		plane.Change(t, service, func() { service.Spec.Ports[0].TargetPort = intstr.FromInt32(1) })
		plane.Until(t, service, func() error { return diffOf("3306", service.Spec.Ports[0].TargetPort.String()) })
	}},
	{"the Secret is deleted", func(t *testing.T, ns string) {
		t.Helper()
		secret := namedSecret(ns, "dbauth")
		plane.Delete(t, secret)
		cm := newCloudManager(ns)
		plane.Read(t, cm)
		// It is not watched. The next change of the spec has it looked at.
		plane.Change(t, cm, func() { cm.Spec.Front.Deployment.Image = "nginx:1.21" })
		plane.Until(t, secret, func() error { return diffOf("123456", string(secret.Data["password"])) })
	}},
	{"all is deleted", func(t *testing.T, ns string) {
		t.Helper()
		plane.Delete(t, namedSecret(ns, "dbauth"))
		awaitReplaced(t, namedStatefulSet(ns, "db"), namedService(ns, "db"), namedService(ns, "db-headless"), namedDeployment(ns, "front"), namedService(ns, "front"))
		plane.Until(t, namedSecret(ns, "dbauth"), func() error { return nil })
	}},
}

// editSet returns an edit of the StatefulSet, which is to be repaired.
func editSet(edit func(*appsv1.StatefulSet)) func(*testing.T, string) {
	return func(t *testing.T, ns string) {
		t.Helper()
		set := namedStatefulSet(ns, "db")
		plane.Read(t, set)
		was := set.UID
		plane.Change(t, set, func() { edit(set) })
		plane.Until(t, set, func() error { return diffSet(set) })
		if set.UID != was {
			t.Error("the StatefulSet is replaced")
		}
	}
}

// awaitReplaced deletes objects and waits until there are others of their names.
func awaitReplaced(t *testing.T, objects ...client.Object) {
	t.Helper()
	was := make([]types.UID, len(objects))
	for i, obj := range objects {
		plane.Read(t, obj)
		was[i] = obj.GetUID()
	}
	for _, obj := range objects {
		plane.Delete(t, obj)
	}
	for i, obj := range objects {
		plane.Until(t, obj, func() error {
			if obj.GetUID() == was[i] {
				return fmt.Errorf("%T %s is not deleted yet", obj, obj.GetName())
			}
			return nil
		})
	}
}

// TestCloudManagerRepairsWhileVolumeResizeFailed edits and deletes each object of a database while a change of its storage is
// refused: the database keeps the volumes and all that was applied last, and each edit is repaired by that. The status says so
// throughout. Once the change is taken back, the rest of the spec is applied.
func TestCloudManagerRepairsWhileVolumeResizeFailed(t *testing.T) {
	t.Parallel()
	turns := fixture.Turns(t, drifts...)
	for name := range storageRefusals {
		edits := turns()
		t.Run(strings.ReplaceAll(name, " ", "-"), func(t *testing.T) {
			t.Parallel()
			ns := plane.Namespace(t)
			m := plane.Start(t, ns, harness.WithForbidden()) // By the quota.
			cm := bringUpRefused(t, ns, name)
			set := namedStatefulSet(ns, "db")
			plane.Read(t, set)
			if err := diffSet(set); err != nil {
				t.Fatalf("a part of the refused spec is applied: %v", err)
			}
			for _, drift := range edits {
				drift.edit(t, ns)
				plane.Until(t, set, func() error { return diffSet(set) })
				if t.Failed() {
					t.Fatalf("not repaired: %s", drift.name)
				}
				staysRefused(t, cm, name)
			}
			m.Idle(t)
			for _, note := range listEvents(t, cm) {
				if strings.Contains(note, "mariadb:11") {
					t.Errorf("the event %q", note)
				}
			}

			plane.Read(t, cm)
			plane.Change(t, cm, func() {
				cm.Spec.DB.StatefulSet.Storage.Size = resource.MustParse("20Gi")
				if name == "another class" {
					cm.Spec.DB.StatefulSet.Storage.Class, cm.Spec.DB.StatefulSet.Name = ptr.To("class-"+ns), "another"
				}
			})
			plane.Change(t, cm, func() { cm.Spec.DB.StatefulSet.Name = "db" })
			plane.Until(t, set, func() error { return diffOf("mariadb:11", set.Spec.Template.Spec.Containers[0].Image) })
			awaitPhase(t, cm, appv1.PhaseReady, "Applied=True", "Ready=True", "Stalled=False")
		})
	}
}

// TestCloudManagerRebuildsWhileVolumeResizeFailed deletes the StatefulSet while no operator runs and a change of its storage is
// refused: it is made again for the volumes that there are.
func TestCloudManagerRebuildsWhileVolumeResizeFailed(t *testing.T) {
	t.Parallel()
	for name, c := range storageRefusals {
		if !c.rebuilt {
			continue
		}
		t.Run(strings.ReplaceAll(name, " ", "-"), func(t *testing.T) {
			t.Parallel()
			ns := plane.Namespace(t)
			m := plane.Start(t, ns, harness.WithForbidden())
			cm := bringUpRefused(t, ns, name)
			m.Idle(t)
			m.Stop(t)
			set := namedStatefulSet(ns, "db")
			plane.Delete(t, set)
			plane.Gone(t, set)
			plane.Start(t, ns, harness.WithForbidden())
			plane.Until(t, set, func() error {
				volume := set.Spec.VolumeClaimTemplates[0].Spec
				return errors.Join(diffOf("20Gi", volume.Resources.Requests.Storage().String()), diffOf("class-"+ns, *volume.StorageClassName))
			})
			staysRefused(t, cm, name)
		})
	}
}

// TestCloudManagerRebuildsForTheDefaultClass does the same for a spec without a class: the StatefulSet gets none either, so that the database is not
// refused for ever once the change is taken back.
func TestCloudManagerRebuildsForTheDefaultClass(t *testing.T) {
	t.Parallel()
	ns := plane.Namespace(t)
	m := plane.Start(t, ns)
	cm := bringUpRefusedOfClass(t, ns, "shrinks", nil)
	m.Idle(t)
	m.Stop(t)
	set := namedStatefulSet(ns, "db")
	plane.Delete(t, set)
	plane.Gone(t, set)
	plane.Start(t, ns)
	plane.Until(t, set, func() error {
		volume := set.Spec.VolumeClaimTemplates[0].Spec
		return errors.Join(diffOf("20Gi", volume.Resources.Requests.Storage().String()), diffOf("none", ptr.Deref(volume.StorageClassName, "none")))
	})
	staysRefused(t, cm, "shrinks")
	plane.Read(t, cm)
	plane.Change(t, cm, func() { cm.Spec.DB.StatefulSet.Storage.Size = resource.MustParse("20Gi") })
	awaitPhase(t, cm, appv1.PhaseReady, "Applied=True", "Ready=True", "Stalled=False")
}

// TestCloudManagerVolumeStays has the driver of a storage class fail to grow a volume after the API server has accepted its size: the spec is in force and
// the database ready, and the status says which volume has not grown, until it has.
func TestCloudManagerVolumeStays(t *testing.T) {
	t.Parallel()
	ns, _ := plane.Shared(t)
	cm := newCloudManager(ns)
	bringUpTiers(t, cm)
	playControllers(t, ns)
	claim := namedClaim(ns, "datadir-db-0")
	plane.Create(t, claim)
	plane.ChangeStatus(t, claim, func() {
		claim.Status.Conditions = []corev1.PersistentVolumeClaimCondition{{
			Type: corev1.PersistentVolumeClaimControllerResizeError, Status: corev1.ConditionTrue, Message: "beyond the quota",
		}}
	})
	plane.Stands(t, cm, "Applied=True/VolumeResizeFailed", "Ready=True", "DatabaseReady=True", "Stalled=False")
	harness.Says(t, cm, "Applied", "PersistentVolumeClaim datadir-db-0 cannot grow to 20Gi: beyond the quota.")
	plane.Read(t, claim)
	plane.ChangeStatus(t, claim, func() { claim.Status.Conditions = nil })
	plane.Stands(t, cm, "Applied=True/Applied", "Ready=True")
}
