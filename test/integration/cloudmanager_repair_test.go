package integration

import (
	"fmt"
	"strings"
	"testing"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appv1 "huolala.cn/app-operator/api/v1"
	"huolala.cn/app-operator/test/harness"
)

// refuseStatefulSets has an admission policy refuse every new StatefulSet of a namespace, until the binding is deleted.
func refuseStatefulSets(t *testing.T, ns string) *admissionregistrationv1.ValidatingAdmissionPolicyBinding {
	t.Helper()
	rule := admissionregistrationv1.Rule{APIGroups: []string{"apps"}, APIVersions: []string{"v1"}, Resources: []string{"statefulsets"}}
	policy := &admissionregistrationv1.ValidatingAdmissionPolicy{ObjectMeta: metav1.ObjectMeta{Name: ns}, Spec: admissionregistrationv1.ValidatingAdmissionPolicySpec{
		MatchConstraints: &admissionregistrationv1.MatchResources{
			NamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{corev1.LabelMetadataName: ns}},
			ResourceRules: []admissionregistrationv1.NamedRuleWithOperations{{RuleWithOperations: admissionregistrationv1.RuleWithOperations{
				Operations: []admissionregistrationv1.OperationType{admissionregistrationv1.Create}, Rule: rule,
			}}},
		},
		Validations: []admissionregistrationv1.Validation{{Expression: "false", Message: "no databases here"}},
	}}
	binding := &admissionregistrationv1.ValidatingAdmissionPolicyBinding{ObjectMeta: metav1.ObjectMeta{Name: ns}, Spec: admissionregistrationv1.ValidatingAdmissionPolicyBindingSpec{
		PolicyName: ns, ValidationActions: []admissionregistrationv1.ValidationAction{admissionregistrationv1.Deny},
	}}
	plane.Create(t, policy, binding)
	t.Cleanup(func() { removeAtEnd(t, policy) })
	// The API server takes a while to know of it.
	harness.Eventually(t, func() error {
		probe := namedStatefulSet(ns, "probe")
		probe.Spec.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"a": "b"}}
		probe.Spec.Template.Labels = map[string]string{"a": "b"}
		probe.Spec.Template.Spec.Containers = []corev1.Container{{Name: "a", Image: "a"}}
		if err := plane.Client.Create(t.Context(), probe, client.DryRunAll); !apierrors.IsInvalid(err) {
			return fmt.Errorf("the policy is not in force: %w", err)
		}
		return nil
	})
	return binding
}

// TestCloudManagerReplaceRefused lets a database grow where a policy refuses the StatefulSet that would replace it: nothing
// is deleted, the condition says why, and it goes on by itself once the policy is gone.
func TestCloudManagerReplaceRefused(t *testing.T) {
	t.Parallel()
	ns, _ := plane.Shared(t)
	cm := newCloudManager(ns)
	bringUpTiers(t, cm)
	playControllers(t, ns)
	set := namedStatefulSet(ns, "db")
	plane.Read(t, set)
	was := set.UID
	binding := refuseStatefulSets(t, ns)

	plane.Read(t, cm)
	plane.Change(t, cm, func() { cm.Spec.DB.StatefulSet.Storage.Size = resource.MustParse("30Gi") })
	plane.Stands(t, cm, "Ready=False/Forbidden", "DatabaseReady=False/Forbidden", "Stalled=False")
	harness.Says(t, cm, "Ready", "StatefulSet db: ", "no databases here")
	if plane.Read(t, set); set.UID != was || set.DeletionTimestamp != nil {
		t.Fatal("the StatefulSet is deleted although it cannot be recreated")
	}

	plane.Delete(t, binding)
	plane.Until(t, set, func() error {
		size := set.Spec.VolumeClaimTemplates[0].Spec.Resources.Requests.Storage().String()
		if set.UID == was || size != "30Gi" {
			return fmt.Errorf("the volumes of the StatefulSet are of %s", size)
		}
		return nil
	})
	awaitPhase(t, cm, appv1.PhaseReady, "Ready=True")
}

// countSets has a quota limit the number of a namespace's StatefulSets, and waits until it is in force: there is no controller
// here that counts them, so the test says how many there are.
func countSets(t *testing.T, ns string, hard, used string) {
	t.Helper()
	const counted corev1.ResourceName = "count/statefulsets.apps"
	quota := &corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "sets"}}
	err := plane.Client.Get(t.Context(), client.ObjectKeyFromObject(quota), quota)
	if apierrors.IsNotFound(err) {
		plane.Create(t, quota)
	} else if err != nil {
		t.Fatal(err)
	}
	limits := corev1.ResourceList{counted: resource.MustParse(hard)}
	plane.Change(t, quota, func() { quota.Spec.Hard = limits })
	plane.ChangeStatus(t, quota, func() {
		quota.Status = corev1.ResourceQuotaStatus{Hard: limits, Used: corev1.ResourceList{counted: resource.MustParse(used)}}
	})
	harness.Eventually(t, func() error {
		probe := newHandMadeSet(ns, "probe")
		if err := plane.Client.Create(t.Context(), probe, client.DryRunAll); err == nil || !strings.Contains(err.Error(), "limited: count/statefulsets.apps="+hard) {
			return fmt.Errorf("the quota is not in force: %w", err)
		}
		return nil
	})
}

// TestCloudManagerReplaceWithinQuota lets a database grow under a quota of StatefulSets. One that has room for just this one is
// no obstacle, as the old one makes room; one that was lowered to none is, and nothing is deleted.
func TestCloudManagerReplaceWithinQuota(t *testing.T) {
	t.Parallel()
	for hard, grows := range map[string]bool{"1": true, "0": false} {
		t.Run("of "+hard, func(t *testing.T) {
			t.Parallel()
			ns := plane.Namespace(t)
			m := plane.Start(t, ns, harness.WithForbidden()) // By the quota.
			cm := newCloudManager(ns)
			bringUpTiers(t, cm)
			playControllers(t, ns)
			set := namedStatefulSet(ns, "db")
			plane.Read(t, set)
			was := set.UID
			countSets(t, ns, hard, "1")
			plane.Read(t, cm)
			m.Requests.Reset()
			plane.Change(t, cm, func() { cm.Spec.DB.StatefulSet.Storage.Size = resource.MustParse("30Gi") })
			if !grows {
				plane.Stands(t, cm, "Ready=False/Forbidden", "DatabaseReady=False/Forbidden", "Stalled=False")
				harness.Says(t, cm, "Ready", "StatefulSet db: ", "exceeded quota: sets")
				m.Idle(t)
				if plane.Read(t, set); set.UID != was || set.DeletionTimestamp != nil || m.Requests.Counts()["delete statefulsets"] > 0 {
					t.Error("the StatefulSet is deleted although it cannot be made again")
				}
				return
			}
			harness.Eventually(t, func() error {
				if m.Requests.Counts()["delete statefulsets"] == 0 {
					return fmt.Errorf("it is not replaced: %v", cm.Status.Conditions)
				}
				return nil
			})
			// In the place of the controller that counts.
			quota := &corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "sets"}}
			plane.Read(t, quota)
			plane.ChangeStatus(t, quota, func() { quota.Status.Used = corev1.ResourceList{"count/statefulsets.apps": resource.MustParse("0")} })
			plane.Until(t, set, func() error {
				if size := set.Spec.VolumeClaimTemplates[0].Spec.Resources.Requests.Storage().String(); set.UID == was || size != "30Gi" {
					return fmt.Errorf("the volumes of the StatefulSet are of %s", size)
				}
				return nil
			})
		})
	}
}

// TestCloudManagerRepairsBesideTrouble deletes each object of a CloudManager whose database is in trouble: what the trouble
// is not about comes back.
func TestCloudManagerRepairsBesideTrouble(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		change  func(*appv1.CloudManager)
		reason  string
		objects []client.Object
	}{
		"password": {
			func(cm *appv1.CloudManager) { cm.Spec.DB.RootPass = "another" }, appv1.ReasonPasswordMismatch,
			[]client.Object{namedStatefulSet("", "db"), namedService("", "db"), namedService("", "db-headless"), namedDeployment("", "identity"), namedService("", "front")},
		},
		"storage": {
			func(cm *appv1.CloudManager) { cm.Spec.DB.StatefulSet.Storage.Size = resource.MustParse("1Gi") }, appv1.ReasonVolumeResizeFailed,
			[]client.Object{namedService("", "db"), namedService("", "db-headless"), namedDeployment("", "front"), namedService("", "front")},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ns, _ := plane.Shared(t)
			cm := newCloudManager(ns)
			bringUpTiers(t, cm)
			playControllers(t, ns)
			plane.Create(t, namedClaim(ns, "datadir-db-0"))
			plane.Read(t, cm)
			plane.Change(t, cm, func() { c.change(cm) })
			plane.Stands(t, cm, "Stalled=True/"+c.reason)
			for _, obj := range c.objects {
				obj.SetNamespace(ns)
				plane.Read(t, obj)
				was := obj.GetUID()
				plane.Delete(t, obj)
				plane.Until(t, obj, func() error {
					if obj.GetUID() == was {
						return fmt.Errorf("%s is not deleted yet", obj.GetName())
					}
					return nil
				})
			}
			plane.Stands(t, cm, "Stalled=True/"+c.reason)
		})
	}
}

// TestCloudManagerGuards takes over a database as a release made it that did not keep tools from deleting what is retained:
// the Secret and the claim get the annotations, and the StatefulSet, whose template cannot be changed, stays as it is.
func TestCloudManagerGuards(t *testing.T) {
	t.Parallel()
	const options, compare = "argocd.argoproj.io/sync-options", "argocd.argoproj.io/compare-options"
	ns := plane.Namespace(t)
	m := plane.Start(t, ns)
	cm := newCloudManager(ns)
	bringUpTiers(t, cm)
	m.Idle(t)
	m.Stop(t)

	set := namedStatefulSet(ns, "db")
	plane.Read(t, set)
	former := formerStatefulSet(t, set, options, compare)
	secret, claim := namedSecret(ns, "dbauth"), namedClaim(ns, "datadir-db-0")
	plane.Read(t, secret)
	plane.Change(t, secret, func() { delete(secret.Annotations, options); delete(secret.Annotations, compare) })
	plane.Create(t, claim)

	m = plane.Start(t, ns)
	for _, obj := range []client.Object{secret, claim} {
		plane.Until(t, obj, func() error {
			if a := obj.GetAnnotations(); a[options] != "Prune=false,Delete=false" || a[compare] != "IgnoreExtraneous" {
				return fmt.Errorf("%s has the annotations %v", obj.GetName(), a)
			}
			return nil
		})
	}
	plane.Stands(t, cm, "Ready=True", "Stalled=False")
	m.Idle(t)
	plane.Read(t, set)
	if set.UID != former || set.Generation != 1 || len(set.Spec.VolumeClaimTemplates[0].Annotations) != 1 {
		t.Errorf("the StatefulSet %s of generation %d was touched, it was %s", set.UID, set.Generation, former)
	}
}

// formerStatefulSet makes a StatefulSet again as it was, but for annotations of its claim template, and returns its UID. The
// hash of what was applied is another then; the operator finds that nothing is to be changed.
func formerStatefulSet(t *testing.T, set *appsv1.StatefulSet, annotations ...string) types.UID {
	t.Helper()
	again := set.DeepCopy()
	plane.Delete(t, set)
	plane.Gone(t, set)
	again.ResourceVersion, again.UID, again.CreationTimestamp, again.ManagedFields, again.Generation = "", "", metav1.Time{}, nil, 0
	for _, key := range annotations {
		delete(again.Spec.VolumeClaimTemplates[0].Annotations, key)
	}
	plane.Create(t, again)
	setReadyPods(t, again, 1)
	return again.UID
}
